"""Into which boxes of values is a filter split, so that a join can find it?

Bulk matching asks, once for each distinct filter. A box says of each stored
attribute between which two values it lies, or that it is present or missing;
the engine compares bounds as columns. Every event that the filter admits lies
in at least one of its boxes. If all boxes are exact, the reverse holds too; if
not, an event in a box is a candidate, and the filter has the last word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from maia.events import AttributeUid, Kind, Kinds
from maia.predicates.covering.alternatives import Alternative, alternatives_of
from maia.predicates.covering.ordered_sets import FULL, intervals, successor
from maia.predicates.covering.value_sets import ValueSet
from maia.predicates.syntax import Predicate

__all__ = ["BOXES_MAX", "Box", "Boxes", "Bounds", "boxes_of"]

BOXES_MAX: Final = 1024
"""A filter that would fall into more boxes is bracketed by fewer, which are too wide."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a box asks of one attribute: `low <= value < beyond`, an open side being None.

    Without both, the attribute is present, or missing, with any value.
    """

    # Any: both are values of the attribute's kind.
    low: Any = None
    beyond: Any = None
    is_present: bool = True

    @property
    def is_range(self) -> bool:
        """Say whether any value is ruled out."""
        return self.low is not None or self.beyond is not None

    @property
    def is_point(self) -> bool:
        """Say whether one value alone is admitted."""
        return self.low is not None and successor(self.low) == self.beyond


Box = Mapping[AttributeUid, Bounds]
"""Attributes that are not mentioned are free."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """The boxes of one filter."""

    boxes: tuple[Box, ...]
    is_exact: bool
    """Every event inside is admitted."""
    are_apart: bool
    """No event is in two of them."""


@dataclass(slots=True)
class _Split:
    boxes: list[Box]
    is_exact: bool


def boxes_of(predicate: Predicate, stored: Kinds) -> Boxes:
    """Return the boxes of a filter over events with `stored` attributes."""
    alternatives = alternatives_of(predicate)
    split = [found for one in alternatives if (found := _split(one, stored, BOXES_MAX // len(alternatives)))]
    boxes = tuple(box for one in split for box in one.boxes)
    return Boxes(boxes, all(one.is_exact for one in split), are_apart=len(split) <= 1)


def _split(alternative: Alternative, stored: Kinds, boxes_max: int) -> _Split | None:
    """Return the boxes of one alternative, which are apart from each other; None if there are none."""
    choices: dict[AttributeUid, list[Bounds | None]] = {}
    is_exact = alternative.is_exact
    for uid, values in alternative.values.items():
        found = _choices(values, stored.get(uid))
        if not found:
            return None
        choices[uid] = found
        is_exact = is_exact and not (values.claims and stored.get(uid) is Kind.STRING)
    while _count(choices) > boxes_max:
        widest = max(choices, key=lambda uid: len(choices[uid]))
        choices[widest] = [_hull(choices[widest])]
        is_exact = False
    return _Split([_box(choices, chosen) for chosen in product(*choices.values())], is_exact)


def _box(choices: Mapping[AttributeUid, object], chosen: Sequence[Bounds | None]) -> Box:
    return {uid: one for uid, one in zip(choices, chosen, strict=True) if one is not None}


def _choices(values: ValueSet, kind: Kind | None) -> list[Bounds | None]:
    """Return what an attribute may be, one after the other; a None among them leaves it free."""
    if kind is None:  # it is missing in every event
        return [None] if values.absent else []
    edges = values.edges.get(kind, ())
    if values.absent and edges == FULL[kind] and not (values.claims and kind is Kind.STRING):
        return [None]
    missing = [Bounds(is_present=False)] if values.absent else []
    return [*missing, *_ranges(kind, edges)]


def _ranges(kind: Kind, edges: tuple[Any, ...]) -> Iterator[Bounds]:
    lowest = FULL[kind][0]
    for low, beyond in intervals(edges):
        # A bool has two values: both bounds stay, so that each is a point.
        yield Bounds(None if low == lowest and kind is not Kind.BOOL else low, beyond)


def _hull(choices: Sequence[Bounds | None]) -> Bounds | None:
    known = [one for one in choices if one is not None]
    if len(known) < len(choices) or not all(one.is_present for one in known):
        return None
    # Choices come from low to high.
    return Bounds(known[0].low, known[-1].beyond)


def _count(choices: Mapping[AttributeUid, Sequence[object]]) -> int:
    count = 1
    for one in choices.values():
        count *= len(one)
    return count
