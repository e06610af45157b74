"""What do many filters ask of one attribute, kept in a few arrays?

The matching index keeps this in place of the filters: for each filter's slot
the ranges of values that it accepts, twenty bytes a range, so that a block of
filters can be built again without reading a filter twice. Numbers, moments
and truth values are kept as order codes. Strings and bytes stay themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from maia.events import Kind
from maia.predicates.covering.order_codes import code_of, is_faithful
from maia.predicates.covering.ordered_sets import FULL, intervals
from maia.predicates.covering.value_sets import ValueSet

__all__ = ["AttributeSpans", "KindSpans", "Slots", "SpanLists", "joined_spans"]

Slots: TypeAlias = npt.NDArray[np.int64]

_Kept: TypeAlias = npt.NDArray[np.int32]
"""Slots where they are kept for long: half the size."""

# Any: order codes (int64) for faithful kinds, and the strings or bytes themselves (object) for the others.
_Values: TypeAlias = npt.NDArray[Any]

_GONE: Final = -1


@dataclass(frozen=True, slots=True)
class KindSpans:
    """Ranges `first <= x < after` of one kind; where `is_open`, there is no upper end."""

    slots: _Kept
    firsts: _Values
    afters: _Values
    is_open: npt.NDArray[np.bool_]

    def moved(self, new_slots: Slots) -> KindSpans:
        """Return the ranges under new slot numbers, without those whose slot is gone."""
        slots = new_slots[self.slots]
        kept = slots != _GONE
        return KindSpans(
            slots[kept].astype(np.int32), self.firsts[kept], self.afters[kept], self.is_open[kept]
        )


@dataclass(frozen=True, slots=True)
class AttributeSpans:
    """All that is asked of one attribute. Slots that are nowhere here take any value, or none."""

    absent: _Kept
    present: _Kept
    kinds: Mapping[Kind, KindSpans]

    @property
    def is_empty(self) -> bool:
        """Return whether there is no filter."""
        return not (len(self.absent) or len(self.present) or self.kinds)

    def moved(self, new_slots: Slots) -> AttributeSpans:
        """Return the same under new slot numbers; -1 means a slot that is gone."""
        kinds = {kind: spans.moved(new_slots) for kind, spans in self.kinds.items()}
        return AttributeSpans(
            _moved(self.absent, new_slots),
            _moved(self.present, new_slots),
            {kind: spans for kind, spans in kinds.items() if len(spans.slots)},
        )


@dataclass(slots=True)
class SpanLists:
    """What is asked of one attribute, while filters are still being added."""

    absent: list[int] = field(default_factory=list)
    present: list[int] = field(default_factory=list)
    kinds: dict[Kind, list[tuple[int, Any, Any]]] = field(default_factory=dict)
    # Any: the ends of a range; see `Edges`.

    def add(self, slot: int, values: ValueSet) -> None:
        """Add what one slot asks."""
        if values.absent:
            self.absent.append(slot)
        if values.edges is FULL or values.edges == FULL:
            self.present.append(slot)
            return
        for kind, edges in values.edges.items():
            ranges = self.kinds.setdefault(kind, [])
            ranges += [(slot, first, after) for first, after in intervals(edges)]

    def packed(self) -> AttributeSpans:
        """Return the arrays."""
        kinds = {kind: _packed(kind, ranges) for kind, ranges in self.kinds.items()}
        return AttributeSpans(_slots(self.absent), _slots(self.present), kinds)


def joined_spans(parts: Sequence[AttributeSpans]) -> AttributeSpans:
    """Put spans of different slots side by side."""
    if len(parts) == 1:
        return parts[0]
    kinds = {kind: None for part in parts for kind in part.kinds}
    return AttributeSpans(
        np.concatenate([part.absent for part in parts]),
        np.concatenate([part.present for part in parts]),
        {kind: _joined([part.kinds[kind] for part in parts if kind in part.kinds]) for kind in kinds},
    )


def _joined(parts: Sequence[KindSpans]) -> KindSpans:
    return KindSpans(
        np.concatenate([part.slots for part in parts]),
        np.concatenate([part.firsts for part in parts]),
        np.concatenate([part.afters for part in parts]),
        np.concatenate([part.is_open for part in parts]),
    )


def _packed(kind: Kind, ranges: Sequence[tuple[int, Any, Any]]) -> KindSpans:
    # Any: see `SpanLists`.
    slots = _slots([slot for slot, _, _ in ranges])
    is_open = np.array([after is None for _, _, after in ranges], np.bool_)
    firsts = [first for _, first, _ in ranges]
    afters = [first if after is None else after for _, first, after in ranges]
    if is_faithful(kind):
        codes = code_of if kind is Kind.FLOAT else int
        firsts, afters = [codes(value) for value in firsts], [codes(value) for value in afters]
    return KindSpans(slots, _values(kind, firsts), _values(kind, afters), is_open)


def _values(kind: Kind, values: list[Any]) -> _Values:
    # Any: see `_Values`.
    if is_faithful(kind):
        return np.array(values, np.int64)
    kept = np.empty(len(values), object)
    kept[:] = values
    return kept


def _slots(slots: Sequence[int]) -> _Kept:
    return np.array(slots, np.int32)


def _moved(slots: _Kept, new_slots: Slots) -> _Kept:
    moved = new_slots[slots]
    kept: _Kept = moved[moved != _GONE].astype(np.int32)
    return kept
