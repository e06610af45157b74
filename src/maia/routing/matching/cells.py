"""In which cell of an attribute does a value lie, and which cells does a filter accept?

All ends of all ranges that filters ask for cut the values of an attribute into
elementary ranges. Their numbers are *ranks*: within one rank, no filter can
tell two values apart. Rank 0 is absence, rank 1 a value of a kind that no
filter asks for by value, and every other kind has ranks of its own, so kinds
never mix. Where there are more ranks than there is room for bitmaps,
neighbours share a *cell*.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from maia.events import INT_MAX, INT_MIN, BadValue, Instant, Kind, Value, kind_of
from maia.predicates.covering.order_codes import CODE_MIN, code_of, is_faithful
from maia.routing.matching.spans import AttributeSpans, KindSpans, Slots

__all__ = ["Ranks", "RankSpans", "rank_spans"]

_Numbers: TypeAlias = npt.NDArray[np.int64]

_ABSENT: Final = 0
_OTHER_KIND: Final = 1
_FIRST_OF_KINDS: Final = 2

_CLASSES: Final[Mapping[Kind, type]] = {
    Kind.STRING: str,
    Kind.INT: int,
    Kind.FLOAT: float,
    Kind.BOOL: bool,
    Kind.TIMESTAMP: Instant,
    Kind.BYTES: bytes,
}
_AS_THEY_ARE: Final = frozenset(kind for kind in Kind if not is_faithful(kind))
_FEW: Final = 4096
_NULLS: Final = frozenset((type(None),))


@dataclass(frozen=True, slots=True)
class _Segment:
    """The ranks of one kind: `start` lies below the first break, and each break begins one more."""

    start: int
    # Any: int64 order codes for faithful kinds, a sorted list of strings or bytes for the others.
    breaks: Any
    few: list[Any] | None
    """The same breaks as a list, in which one value is found faster; not for very many, to save room.

    Strings and bytes are kept as a list alone, so there it is the very same object.
    """

    @property
    def end(self) -> int:
        return self.start + len(self.breaks) + 1


@dataclass(frozen=True, slots=True)
class RankSpans:
    """Ranges `low <= rank < high` by slot, in the order of slots and then of ranks."""

    slots: Slots
    lows: _Numbers
    highs: _Numbers

    @classmethod
    def in_order(cls, slots: Slots, lows: _Numbers, highs: _Numbers) -> RankSpans:
        """Sort ranges that come in any order."""
        order = np.lexsort((lows, slots))
        return cls(slots[order], lows[order], highs[order])

    def moved(self, new_slots: Slots) -> RankSpans:
        """Return the same ranges under new slot numbers."""
        return RankSpans.in_order(new_slots[self.slots], self.lows, self.highs)

    def accept(self, slot: int, rank: int) -> bool:
        """Say whether a rank lies in one of the ranges of a slot."""
        start, end = self.slots.searchsorted([slot, slot + 1]).tolist()
        at = start + int(self.lows[start:end].searchsorted(rank, "right")) - 1
        return at >= start and rank < int(self.highs[at])


class Ranks:
    """The ranks of one attribute."""

    __slots__ = ("_by_class", "_segments", "count")

    def __init__(self, spans: AttributeSpans) -> None:
        """Cut the values of each kind at every end of a range."""
        self._segments: dict[Kind, _Segment] = {}
        # A class is looked up three times faster than a member of an Enum.
        self._by_class: dict[type, _Segment] = {}
        self.count = _FIRST_OF_KINDS
        for kind in sorted(spans.kinds, key=lambda kind: kind.value):
            segment = _segment(self.count, kind, spans.kinds[kind])
            self._segments[kind] = segment
            self._by_class[_CLASSES[kind]] = segment
            self.count = segment.end

    def of(self, value: Value) -> int:
        """Return the rank of one value; None is absence."""
        if value is None:
            return _ABSENT
        segment = self._by_class.get(type(value))
        if segment is None:
            kind_of(value)  # refuses what is no value at all
            return _OTHER_KIND
        asked = value if segment.few is segment.breaks else _checked_code(value)
        if segment.few is not None:
            return segment.start + bisect_right(segment.few, asked)
        return segment.start + int(segment.breaks.searchsorted(asked, "right"))

    def of_column(self, kind: Kind, values: Sequence[Value]) -> _Numbers:
        """Return the rank of each value of a column that was declared as `kind`."""
        found = set(map(type, values))
        classes = found - _NULLS
        if not classes:
            return np.zeros(len(values), np.int64)
        if classes != {_CLASSES[kind]}:
            # Never trust a declaration: 1, 1.0 and True would share ranks.
            return np.array([self.of(value) for value in values], np.int64)
        segment = self._segments.get(kind)
        if found == classes:
            return self._of_present(kind, segment, values)
        is_there = np.array([value is not None for value in values], np.bool_)
        ranks = np.zeros(len(values), np.int64)
        ranks[is_there] = self._of_present(kind, segment, [value for value in values if value is not None])
        return ranks

    def _of_present(self, kind: Kind, segment: _Segment | None, values: Sequence[Any]) -> _Numbers:
        # Any: present values of one class.
        if segment is None:
            return np.full(len(values), _OTHER_KIND, np.int64)
        if kind not in _AS_THEY_ARE:
            codes = _codes(kind, values)
            found: _Numbers = segment.breaks.searchsorted(codes, "right").astype(np.int64)
            return found + segment.start
        known = {value: segment.start + bisect_right(segment.breaks, value) for value in set(values)}
        return np.fromiter(map(known.__getitem__, values), np.int64, len(values))

    def spans_of(self, kind: Kind, spans: KindSpans) -> tuple[_Numbers, _Numbers]:
        """Return the lowest rank of each range and the one after its highest."""
        segment = self._segments[kind]
        lows, highs = _positions(kind, segment, spans.firsts), _positions(kind, segment, spans.afters)
        return lows, np.where(spans.is_open, segment.end, highs)


def rank_spans(ranks: Ranks, spans: AttributeSpans) -> RankSpans:
    """Return all that is asked of an attribute, as ranges of ranks."""
    parts = [
        (spans.absent, np.full(len(spans.absent), _ABSENT), np.full(len(spans.absent), _OTHER_KIND)),
        (spans.present, np.full(len(spans.present), _OTHER_KIND), np.full(len(spans.present), ranks.count)),
    ]
    parts += [(part.slots, *ranks.spans_of(kind, part)) for kind, part in spans.kinds.items()]
    slots, lows, highs = (np.concatenate(column) for column in zip(*parts, strict=True))
    return RankSpans.in_order(slots.astype(np.int64), lows, highs)


def _segment(start: int, kind: Kind, spans: KindSpans) -> _Segment:
    afters = spans.afters[~spans.is_open]
    if kind in _AS_THEY_ARE:
        texts = sorted(set(chain(spans.firsts, afters)))
        return _Segment(start, texts, texts)
    codes = np.unique(np.concatenate([spans.firsts, afters]))
    return _Segment(start, codes, codes.tolist() if len(codes) <= _FEW else None)


def _positions(kind: Kind, segment: _Segment, values: npt.NDArray[Any]) -> _Numbers:
    # Any: see `KindSpans`. Every value is one of the breaks, so its rank begins with it.
    if kind not in _AS_THEY_ARE:
        found: _Numbers = segment.breaks.searchsorted(values, "right").astype(np.int64)
        return found + segment.start
    place = {value: segment.start + 1 + at for at, value in enumerate(segment.breaks)}
    return np.fromiter((place.get(value, segment.end) for value in values), np.int64, len(values))


def _codes(kind: Kind, values: Sequence[Any]) -> _Numbers:
    # Any: present values of one class.
    if kind is not Kind.FLOAT:
        try:
            return np.fromiter(values, np.int64, len(values))
        except OverflowError as problem:
            raise BadValue("an int is outside 64 bits") from problem
    floats = np.fromiter(values, np.float64, len(values))
    if not np.isfinite(floats).all():
        raise BadValue("a float is not a finite number")
    bits = floats.view(np.int64)
    return np.where(bits >= 0, bits, CODE_MIN - bits)


def _checked_code(value: Any) -> int:
    # Any: a present value of a faithful kind.
    if isinstance(value, float):
        if not isfinite(value):
            raise BadValue("a float is not a finite number")
        return code_of(value)
    if not INT_MIN <= value <= INT_MAX:
        raise BadValue("an int is outside 64 bits")
    return int(value)
