"""Which filters accept a value, as bits that can be combined 64 filters at a time?

For every cell of an attribute there is a row of bits, one per slot: set if the
slot's filter accepts some value of the cell. 64 neighbouring slots are a
*page*, and a second, shorter row says which pages have a bit at all, so that
most pages are never read. If a cell holds ranks that a filter tells
apart, the bit says "perhaps", and `Doubts` knows better.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from maia.events import INT_MAX, INT_MIN, AttributeUid, BadValue, Instant, Kind, Value, kind_of
from maia.predicates.covering.ordered_sets import FULL, intervals
from maia.predicates.covering.sides import CODE_MIN, code_of, is_faithful
from maia.predicates.covering.value_sets import ValueSet

Slots: TypeAlias = npt.NDArray[np.int64]

# Any: order codes (int64) for faithful kinds, and the strings or bytes themselves (object) for the others.
_Values: TypeAlias = npt.NDArray[Any]

_GONE: Final = -1

# ------------------------------------------------------------ what many filters ask of one attribute


class Presence(Enum):
    """What a filter may ask beside a range of one kind: that there is no value, or any value at all."""

    ABSENT = "absent"
    PRESENT = "present"


@dataclass(frozen=True, slots=True)
class Spans:
    """Ranges `first <= x < after` of one kind; an `after` that is the least value is no upper end."""

    slots: npt.NDArray[np.int32]
    """Half the size of other slots: they are kept for long."""
    firsts: _Values
    afters: _Values

    def moved(self, new_slots: Slots) -> Spans:
        """Return the ranges under new slot numbers, without those whose slot is gone."""
        slots = new_slots[self.slots]
        kept = slots != _GONE
        return Spans(slots[kept].astype(np.int32), self.firsts[kept], self.afters[kept])


Asked: TypeAlias = Mapping[Kind | Presence, Spans]
"""All that is asked of one attribute. Slots that are nowhere here take any value, or none."""

# Any: the ends of a range; see `Edges`.
Ranges: TypeAlias = dict[Kind | Presence, list[tuple[int, Any, Any]]]
"""What is asked of one attribute, while filters are still being added: slots with their ranges."""


def add_ranges(ranges: Ranges, slot: int, values: ValueSet) -> None:
    """Add what one slot asks."""
    if values.absent:
        ranges.setdefault(Presence.ABSENT, []).append((slot, 0, 0))
    if values.edges is FULL or values.edges == FULL:
        ranges.setdefault(Presence.PRESENT, []).append((slot, 0, 0))
        return
    for kind, edges in values.edges.items():
        ranges.setdefault(kind, []).extend([(slot, first, after) for first, after in intervals(edges)])


def packed(ranges: Ranges) -> Asked:
    """Return the ranges in arrays."""
    return {kind: _packed(kind, some) for kind, some in ranges.items()}


def moved(asked: Asked, new_slots: Slots) -> Asked:
    """Return what is asked under new slot numbers; -1 means a slot that is gone."""
    spans = {kind: one.moved(new_slots) for kind, one in asked.items()}
    return {kind: one for kind, one in spans.items() if len(one.slots)}


def joined(parts: Sequence[Asked]) -> Asked:
    """Put what different slots ask side by side."""
    by_kind: dict[Kind | Presence, list[Spans]] = {}
    for part in parts:
        for kind, spans in part.items():
            by_kind.setdefault(kind, []).append(spans)
    return {
        kind: Spans(
            np.concatenate([one.slots for one in some]),
            np.concatenate([one.firsts for one in some]),
            np.concatenate([one.afters for one in some]),
        )
        for kind, some in by_kind.items()
    }


def _packed(kind: Kind | Presence, ranges: Sequence[tuple[int, Any, Any]]) -> Spans:
    # Any: see `Ranges`.
    least = _least(kind)
    firsts = [first for _, first, _ in ranges]
    afters = [least if after is None else after for _, _, after in ranges]
    if kind is Kind.FLOAT:
        firsts = [code_of(value) for value in firsts]
        afters = [code_of(value) if isinstance(value, float) else value for value in afters]
    elif least == CODE_MIN:
        firsts, afters = [int(value) for value in firsts], [int(value) for value in afters]
    slots = np.array([slot for slot, _, _ in ranges], np.int32)
    return Spans(slots, _values(kind, firsts), _values(kind, afters))


def _values(kind: Kind | Presence, values: list[Any]) -> _Values:
    # Any: see `_Values`.
    if _least(kind) == CODE_MIN:
        return np.array(values, np.int64)
    kept = np.empty(len(values), object)
    kept[:] = values
    return kept


def _least(kind: Kind | Presence) -> Any:
    # Any: see `_Values`.
    return {Kind.STRING: "", Kind.BYTES: b""}.get(kind, CODE_MIN)  # type: ignore[arg-type]


# ------------------------------------------------------------ the rank of a value

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
_NULLS: Final = frozenset((type(None),))
_CLOSE: Final = 4
"""Breaks lie close together if they are at least one in so many of the numbers from the first to the last."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """The ranks of one kind: `start` lies below the first break, and each break begins one more."""

    start: int
    # Any: a sorted list of strings or bytes.
    breaks: array[int] | list[Any]
    """Order codes for faithful kinds, side by side: one event finds its place with few looks at memory."""
    is_coded: bool

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
        """Return whether a rank lies in one of the ranges of a slot."""
        start, end = self.slots.searchsorted([slot, slot + 1]).tolist()
        at = start + int(self.lows[start:end].searchsorted(rank, "right")) - 1
        return at >= start and rank < int(self.highs[at])


class Ranks:
    """The ranks of one attribute."""

    __slots__ = ("_by_class", "_segments", "count")

    def __init__(self, asked: Asked) -> None:
        """Cut the values of each kind at every end of a range."""
        self._segments: dict[Kind, _Segment] = {}
        # A class is looked up three times faster than a member of an Enum.
        self._by_class: dict[type, _Segment] = {}
        self.count = _FIRST_OF_KINDS
        kinds = [kind for kind in asked if isinstance(kind, Kind)]
        for kind in sorted(kinds, key=lambda kind: kind.value):
            segment = _segment(self.count, kind, asked[kind])
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
        asked: Any = value  # Any: a present value of the segment's class, or the code of one
        if segment.is_coded:
            if type(asked) is float:
                asked = _checked_code(asked)
            elif not INT_MIN <= asked <= INT_MAX:
                raise BadValue("an int is outside 64 bits")
        return segment.start + bisect_right(segment.breaks, asked)

    def of_close_ints(self) -> tuple[int, array[int]]:
        """Return the first break of INTs and the rank of each number from it to the last break.

        There are none where the breaks do not lie close together. One at the lowest number of all, where
        ranges without a lower end begin, does not count.
        """
        segment, ranks = self._segments.get(Kind.INT), array("i")
        breaks = [] if segment is None else [one for one in segment.breaks if one != INT_MIN]
        if segment is None or not breaks or breaks[-1] - breaks[0] >= _CLOSE * len(breaks):
            return 0, ranks
        between = breaks[0] + np.arange(breaks[-1] - breaks[0] + 1)
        ranks.frombytes(_found_in(segment, between).astype(np.int32).tobytes())
        return breaks[0], ranks

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
            return _found_in(segment, _codes(kind, values))
        known = {value: segment.start + bisect_right(segment.breaks, value) for value in set(values)}
        return np.fromiter(map(known.__getitem__, values), np.int64, len(values))

    def ends_of(self, kind: Kind | Presence, spans: Spans) -> tuple[_Numbers, _Numbers]:
        """Return the lowest rank of each range and the one after its highest."""
        if isinstance(kind, Presence):
            ends = (_ABSENT, _OTHER_KIND) if kind is Presence.ABSENT else (_OTHER_KIND, self.count)
            return np.full(len(spans.slots), ends[0]), np.full(len(spans.slots), ends[1])
        segment = self._segments[kind]
        lows, highs = _positions(kind, segment, spans.firsts), _positions(kind, segment, spans.afters)
        return lows, np.where(spans.afters == _least(kind), segment.end, highs)


def rank_spans(ranks: Ranks, asked: Asked) -> RankSpans:
    """Return all that is asked of an attribute, as ranges of ranks."""
    parts = [(spans.slots, *ranks.ends_of(kind, spans)) for kind, spans in asked.items()]
    slots, lows, highs = (np.concatenate(column) for column in zip(*parts, strict=True))
    return RankSpans.in_order(slots.astype(np.int64), lows, highs)


def _segment(start: int, kind: Kind, spans: Spans) -> _Segment:
    afters = spans.afters[spans.afters != _least(kind)]
    if kind in _AS_THEY_ARE:
        texts = sorted(set(chain(spans.firsts, afters)))
        return _Segment(start, texts, is_coded=False)
    codes = np.unique(np.concatenate([spans.firsts, afters]))
    return _Segment(start, array("q", codes.tobytes()), is_coded=True)


def _positions(kind: Kind, segment: _Segment, values: npt.NDArray[Any]) -> _Numbers:
    # Any: see `KindSpans`. Every value is one of the breaks, so its rank begins with it.
    if kind not in _AS_THEY_ARE:
        return _found_in(segment, values)
    place = {value: segment.start + 1 + at for at, value in enumerate(segment.breaks)}
    return np.fromiter((place.get(value, segment.end) for value in values), np.int64, len(values))


def _found_in(segment: _Segment, codes: npt.NDArray[Any]) -> _Numbers:
    # Any: order codes, as `_Values` holds them.
    breaks = np.frombuffer(cast("array[int]", segment.breaks), np.int64)
    found: _Numbers = breaks.searchsorted(codes, "right").astype(np.int64)
    return found + segment.start


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


def _checked_code(value: float) -> int:
    if not isfinite(value):
        raise BadValue("a float is not a finite number")
    return code_of(value)


Words: TypeAlias = npt.NDArray[np.uint64]
_Flags: TypeAlias = npt.NDArray[np.bool_]

PAGE_BITS: Final = 6
PAGE: Final = 1 << PAGE_BITS
CELLS_MIN: Final = 4
"""With fewer cells than this, an attribute is better left without bitmaps."""

_OWN_CELLS: Final = 2
"""Absence and "another kind" never share a cell: every event without the attribute meets the first."""


class MappedAttribute(NamedTuple):
    """An attribute with bitmaps, and what they leave in doubt.

    A single event reads little of each attribute, and most of its time would go to finding it. So what it
    reads is side by side here, and needs no array operation.
    """

    uid: AttributeUid
    ranks: Ranks
    first: int
    close: array[int]
    """As `Ranks.of_close_ints` returns them."""
    cell_of_rank: array[int] | None
    """None where every rank has its own cell."""
    page_numbers: list[int]
    """The pages of each cell as one number."""
    bits: array[int]
    """Words, cell by cell, as single events read a few of them."""
    doubts: Doubts | None
    pages: Words
    width: int

    @property
    def words(self) -> Words:
        """Return the words of each cell, as frames read many of them."""
        return np.frombuffer(self.bits, np.uint64).reshape(-1, self.width)

    def cells(self, ranks: _Numbers) -> _Numbers:
        """Return the cells of some ranks."""
        if self.cell_of_rank is None:
            return ranks
        return np.frombuffer(self.cell_of_rank, np.int32)[ranks].astype(np.int64)


class Doubts:
    """The true ranges of the slots whose bits only say "perhaps".

    A slot with one range has it in two arrays, and one without doubts has all
    ranks there. The ranges of slots with several are found by binary search.
    """

    __slots__ = ("_has_several", "_highs", "_keys", "_lows", "_ranks", "_several_highs")

    def __init__(self, spans: RankSpans, is_in_doubt: _Flags, *, ranks: int) -> None:
        """Keep the spans of the slots in doubt, which are in the order of slots and ranks."""
        kept = is_in_doubt[spans.slots]
        slots, lows, highs = spans.slots[kept], spans.lows[kept], spans.highs[kept]
        self._ranks = ranks
        self._has_several = np.bincount(slots, minlength=len(is_in_doubt)) > 1
        several = self._has_several[slots]
        self._keys: _Numbers = slots[several] * ranks + lows[several]
        self._several_highs = highs[several]
        self._lows = np.zeros(len(is_in_doubt), np.int32)
        self._highs = np.full(len(is_in_doubt), ranks, np.int32)
        self._lows[slots[~several]] = lows[~several]
        self._highs[slots[~several]] = highs[~several]

    @classmethod
    def of(
        cls, spans: RankSpans, cell_of_rank: npt.NDArray[np.int32] | None, *, ranks: int, slots: int
    ) -> Doubts | None:
        """Return the doubts that shared cells leave, or None for none."""
        if cell_of_rank is None:
            return None
        begins = np.append(True, cell_of_rank[1:] != cell_of_rank[:-1])
        ends = np.append(begins[1:], True)
        is_in_doubt = np.zeros(slots, np.bool_)
        is_in_doubt[spans.slots[~(begins[spans.lows] & ends[spans.highs - 1])]] = True
        return cls(spans, is_in_doubt, ranks=ranks) if is_in_doubt.any() else None

    def accept(self, slots: Slots, ranks: _Numbers | int) -> _Flags:
        """Say of each slot whether it truly accepts the rank beside it, or the one rank given."""
        accepted: _Flags = (self._lows.take(slots) <= ranks) & (ranks < self._highs.take(slots))
        if len(self._keys):
            several = np.flatnonzero(self._has_several[slots])
            asked = np.broadcast_to(ranks, slots.shape)[several]
            accepted[several] = self._accept_one_of_several(slots[several], asked)
        return accepted

    def accept_one(self, slot: int, rank: int) -> bool:
        """Return whether one slot truly accepts a rank."""
        if not self._lows.item(slot) <= rank < self._highs.item(slot):
            return False
        if not self._has_several.item(slot):
            return True
        return bool(self._accept_one_of_several(np.array([slot]), np.array([rank]))[0])

    def _accept_one_of_several(self, slots: Slots, ranks: _Numbers) -> _Flags:
        nearest = self._keys.searchsorted(slots * self._ranks + ranks, "right") - 1
        # Before the first key, -1 reads the last one, which begins above what is asked.
        same_slot = (nearest >= 0) & (self._keys[nearest] // self._ranks == slots)
        accepted: _Flags = same_slot & (ranks < self._several_highs[nearest])
        return accepted


def cells_within(spans: RankSpans, *, ranks: int, cells: int) -> tuple[npt.NDArray[np.int32] | None, int]:
    """Spread ranks over at most `cells` cells, finer where more spans end; return how many are used.

    There are at least `CELLS_MIN` to spread them over.
    """
    if ranks <= cells:
        return None, ranks
    ends = np.bincount(spans.lows, minlength=ranks + 1) + np.bincount(spans.highs, minlength=ranks + 1)
    weight = np.cumsum(ends[_OWN_CELLS:ranks])
    shared = weight * (cells - _OWN_CELLS - 1) // max(1, int(weight[-1]))
    _, dense = np.unique(shared, return_inverse=True)
    cell_of_rank = np.concatenate([np.arange(_OWN_CELLS), dense + _OWN_CELLS]).astype(np.int32)
    return cell_of_rank, int(cell_of_rank[-1]) + 1


def _in_cells(
    spans: RankSpans, cell_of_rank: npt.NDArray[np.int32] | None
) -> tuple[Slots, _Numbers, _Numbers]:
    """Return spans as first and last cell; those of one slot no longer overlap, and none is empty."""
    if cell_of_rank is None:
        return spans.slots, spans.lows, spans.highs - 1
    lows = cell_of_rank[spans.lows].astype(np.int64)
    lasts = cell_of_rank[spans.highs - 1].astype(np.int64)
    again = np.flatnonzero(spans.slots[1:] == spans.slots[:-1]) + 1
    lows[again] = np.maximum(lows[again], lasts[again - 1] + 1)
    kept = lows <= lasts
    return spans.slots[kept], lows[kept], lasts[kept]


def packed_bits(flags: _Flags) -> Words:
    """Return the last axis of some flags as words, lowest bit first, padded with zeros."""
    width = -(-flags.shape[-1] // PAGE) * PAGE
    padded = np.zeros((*flags.shape[:-1], width), np.bool_)
    padded[..., : flags.shape[-1]] = flags
    return np.packbits(padded, axis=-1, bitorder="little").view(np.uint64)


def pages_of(words: Words) -> Words:
    """Return which words of the last axis have a bit, as words themselves."""
    return packed_bits(words != 0)


def number_of(words: Words) -> int:
    """Return a row of words as one number, the first word lowest."""
    return int.from_bytes(words.tobytes(), "little")


def bits_of(words: Words) -> _Numbers:
    """Return the numbers of the bits that are set, counted through all words."""
    spread = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")
    return np.flatnonzero(spread.view(np.bool_))


# ------------------------------------------------------------ the attributes of a block

CELLS_MAX: Final = 2048
"""The cells of all attributes of a block together: at most 256 bytes of bits per slot."""

MAPPED_MAX: Final = 256
"""The attributes of a block that get cells: those that most filters mention."""


UnmappedAttribute: TypeAlias = tuple[AttributeUid, Ranks, RankSpans]
"""An attribute without bitmaps, asked about slot by slot."""


def attributes_of_block(
    count: int,
    ranks: Mapping[AttributeUid, Ranks],
    spans: Mapping[AttributeUid, RankSpans],
    *,
    cells_max: int,
) -> Generator[None, None, tuple[list[MappedAttribute], dict[int, list[UnmappedAttribute]]]]:
    """Set the bits of all attributes of `count` slots, one attribute in a step.

    Return the attributes with bitmaps, and for each slot the others that it mentions.
    """
    room = _allotted({uid: (ranks[uid].count, len(asked.slots)) for uid, asked in spans.items()}, cells_max)
    mapped: list[MappedAttribute] = []
    for uid, asked in spans.items():
        if room[uid] >= CELLS_MIN:
            mapped.append(_mapped(uid, ranks[uid], asked, cells=room[uid], count=count))
            yield
    unmapped: dict[int, list[UnmappedAttribute]] = {}
    for uid, asked in spans.items():
        if room[uid] < CELLS_MIN:
            for slot in set(asked.slots.tolist()):
                unmapped.setdefault(slot, []).append((uid, ranks[uid], asked))
    return mapped, unmapped


def _allotted(wanted: Mapping[AttributeUid, tuple[int, int]], cells_max: int) -> dict[AttributeUid, int]:
    """Give those that want little all they want, and let the others share what is left.

    `wanted` has the number of ranks and of spans of each attribute.
    """
    popular = sorted(wanted, key=lambda uid: (-wanted[uid][1], uid))[:MAPPED_MAX]
    allotted = dict.fromkeys(wanted, 0)
    left, waiting = cells_max, len(popular)
    for uid in sorted(popular, key=lambda uid: wanted[uid][0]):
        allotted[uid] = min(wanted[uid][0], left // waiting)
        left, waiting = left - allotted[uid], waiting - 1
    return allotted


def _mapped(uid: AttributeUid, ranks: Ranks, spans: RankSpans, *, cells: int, count: int) -> MappedAttribute:
    """Set the bits of all spans, and those of slots that take any value in every cell."""
    cell_of_rank, used = cells_within(spans, ranks=ranks.count, cells=cells)
    is_free = np.ones(count, np.bool_)
    is_free[spans.slots] = False
    slots, lows, lasts = _in_cells(spans, cell_of_rank)
    # A bit at the first cell of a span and one after its last: the running xor fills what lies between.
    width = -(-count // PAGE)
    toggles = np.zeros((used + 1, width), np.uint64)
    toggles[0] = packed_bits(is_free)
    at_pages, bits = slots // PAGE, np.uint64(1) << (slots % PAGE).astype(np.uint64)
    np.bitwise_xor.at(toggles, (lows, at_pages), bits)
    np.bitwise_xor.at(toggles, (lasts + 1, at_pages), bits)
    np.bitwise_xor.accumulate(toggles, axis=0, out=toggles)
    words = toggles[:used]
    pages = pages_of(words)
    same: dict[int, int] = {}
    return MappedAttribute(
        uid,
        ranks,
        *ranks.of_close_ints(),
        None if cell_of_rank is None else array("i", cell_of_rank.tobytes()),
        [same.setdefault(number, number) for number in map(number_of, pages)],  # most are equal
        array("Q", words.tobytes()),
        Doubts.of(spans, cell_of_rank, ranks=ranks.count, slots=count),
        pages,
        width,
    )
