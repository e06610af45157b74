"""Which filters of a finished block does an event match?

A block is built once from many filters and answers until a later one takes
its place; all that can still happen to it is that filters leave. It asks the
pages first, then the words of the pages that are left, then whatever bits
could not say. Rows that lie in the same cells are answered together.

Filters are ordered so that those for similar events share a page: when a block
is built they are split into halves again and again, each time by the attribute
that tells them apart best, until a page is full. The order changes how many
pages an event meets and never which filters it matches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from maia.events import ATTRIBUTES_MAX, AttributeUid, Event, Frame
from maia.predicates.covering.normal_form import Alternative
from maia.predicates.covering.string_automata import TextClaim, claim_holds
from maia.predicates.meaning import admits
from maia.predicates.syntax import Predicate
from maia.routing.matching import bitmaps
from maia.routing.matching.bitmaps import (
    CELLS_MAX,
    PAGE,
    Asked,
    MappedAttribute,
    Ranges,
    Ranks,
    RankSpans,
    Slots,
)
from maia.routing.matching.search import groups_of, pairs_in_all, slots_for_event

_Ordered: TypeAlias = npt.NDArray[np.float32]

ORDERED_BY_MAX: Final = 16
"""More attributes than this are not used: pages are split a dozen times at most."""


def clustered(count: int, attributes: Sequence[tuple[RankSpans, int]]) -> Slots:
    """Return the slots 0 to `count` in an order that keeps similar ones together.

    Each attribute is its spans and the number of its ranks.
    """
    chosen = sorted(attributes, key=lambda one: -len(one[0].slots))[:ORDERED_BY_MAX]
    if count <= PAGE or not chosen:
        return np.arange(count)
    sides = [_middles_and_widths(count, spans, ranks) for spans, ranks in chosen]
    middles = np.array([middle for middle, _ in sides])
    widths = np.array([width for _, width in sides])
    pages: list[Slots] = []
    pending = [np.arange(count)]
    while pending:
        some = pending.pop()
        if len(some) <= PAGE:
            pages.append(some)
        else:
            pending += _halves(some, middles[:, some], widths[:, some])
    return np.concatenate(pages)


def _halves(some: Slots, middles: _Ordered, widths: _Ordered) -> tuple[Slots, Slots]:
    """Split where slots lie far apart compared with how wide they are; the later half comes first."""
    by = int(np.argmax(middles.std(axis=1) / widths.mean(axis=1)))
    # Whole pages on the left, so that at most one page in the block is not full.
    at = -(-len(some) // PAGE) // 2 * PAGE
    order = np.argpartition(middles[by], at)
    return some[order[at:]], some[order[:at]]


def _middles_and_widths(count: int, spans: RankSpans, ranks: int) -> tuple[_Ordered, _Ordered]:
    # Slots that do not mention the attribute are together, far to the left of all others.
    middles, widths = np.full(count, -ranks, np.float32), np.full(count, ranks, np.float32)
    changes = np.flatnonzero(spans.slots[1:] != spans.slots[:-1])
    firsts, lasts = np.append(0, changes + 1), np.append(changes, len(spans.slots) - 1)
    if len(spans.slots):
        lows, highs = spans.lows[firsts], spans.highs[lasts]
        middles[spans.slots[firsts]] = (lows + highs) / 2
        widths[spans.slots[firsts]] = highs - lows
    return middles, widths


# ------------------------------------------------------------ the filters of a block

Key = TypeVar("Key", bound=Hashable)

KNOWN_MAX: Final = 4 * ATTRIBUTES_MAX


Rest: TypeAlias = Callable[[Event], bool]
"""What bitmaps cannot say about a slot: whether an event whose values fit passes the rest of its filter."""


@dataclass(frozen=True, slots=True)
class Contents(Generic[Key]):
    """Some filters: the key of each slot, what it asks of each attribute, and the rest."""

    ids: Sequence[Key]
    spans: Mapping[AttributeUid, Asked]
    rest: Mapping[int, Rest]

    def moved(self, new_slots: Slots) -> Contents[Key]:
        """Return the same under new slot numbers, which count from 0; -1 means a slot to leave out."""
        kept = np.flatnonzero(new_slots != -1)
        ids = [self.ids[slot] for slot in kept[np.argsort(new_slots[kept])].tolist()]
        spans = {uid: bitmaps.moved(one, new_slots) for uid, one in self.spans.items()}
        rest = {new: rest for slot, rest in self.rest.items() if (new := int(new_slots[slot])) != -1}
        return Contents(ids, {uid: one for uid, one in spans.items() if one}, rest)

    def kept(self, is_live: npt.NDArray[np.bool_]) -> Contents[Key]:
        """Return the slots that are live, in their order."""
        if is_live.all():
            return self
        return self.moved(np.where(is_live, np.cumsum(is_live) - 1, -1))


def contents_of(
    filters: Iterable[tuple[Key, Predicate, Sequence[Alternative]]], known: set[AttributeUid]
) -> Contents[Key]:
    """Give every alternative of every filter a slot.

    `known` are the attributes that arrays are kept for: the first that filters mention, up to a limit. A type
    has at most `ATTRIBUTES_MAX` of them in a version. Filters that name any number of others cost one
    question each, and no arrays.
    """
    ids: list[Key] = []
    lists: dict[AttributeUid, Ranges] = {}
    rest: dict[int, Rest] = {}
    for key, predicate, alternatives in filters:
        for alternative in alternatives:
            slot = len(ids)
            ids.append(key)
            unknown = (uid for uid in alternative.values if uid not in known)
            known.update(islice(unknown, max(0, KNOWN_MAX - len(known))))
            asked = [(uid, values) for uid, values in alternative.values.items() if uid in known]
            for uid, values in asked:
                bitmaps.add_ranges(lists.setdefault(uid, {}), slot, values)
            claims = [(uid, claim) for uid, values in asked for claim in values.claims]
            if not alternative.is_exact or len(asked) < len(alternative.values):
                rest[slot] = partial(admits, predicate)
            elif claims:
                rest[slot] = partial(_claims_hold, claims)
    return Contents(ids, {uid: bitmaps.packed(one) for uid, one in lists.items()}, rest)


def joined_contents(parts: Sequence[Contents[Key]]) -> Contents[Key]:
    """Return the slots of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    by_uid: dict[AttributeUid, list[Asked]] = {}
    rest: dict[int, Rest] = {}
    start = 0
    for part in parts:
        numbers = np.arange(start, start + len(part.ids))
        for uid, spans in part.spans.items():
            by_uid.setdefault(uid, []).append(bitmaps.moved(spans, numbers))
        rest.update({start + slot: one for slot, one in part.rest.items()})
        start += len(part.ids)
    ids = list(chain.from_iterable(part.ids for part in parts))
    return Contents(ids, {uid: bitmaps.joined(spans) for uid, spans in by_uid.items()}, rest)


def _claims_hold(claims: Sequence[tuple[AttributeUid, TextClaim]], event: Event) -> bool:
    # A claim is about strings; whether another kind or nothing at all will do was decided by rank.
    return all(
        not isinstance(value := event.get(uid), str) or claim_holds(claim, value) for uid, claim in claims
    )


_Numbers: TypeAlias = npt.NDArray[np.int64]
_SMALL: Final = 1 << 32
Steps: TypeAlias = Generator[None, None, "Block[Key]"]
"""The making of a block, one step after the other."""


class Block(Generic[Key]):
    """Many filters, ready to be matched."""

    def __init__(self, contents: Contents[Key], *, cells_max: int = CELLS_MAX) -> None:
        """Put the slots in order and set their bits."""
        for _ in self._steps(contents, cells_max):
            pass

    @classmethod
    def in_steps(cls, contents: Contents[Key], *, cells_max: int = CELLS_MAX) -> Steps[Key]:
        """Make a block step by step; it is returned behind the last one, and asked nothing before."""
        block = cls.__new__(cls)
        yield from block._steps(contents, cells_max)
        return block

    def _steps(self, contents: Contents[Key], cells_max: int) -> Iterator[None]:
        """Do the work; each step grows with the number of slots, and none with that of attributes."""
        count = len(contents.ids)
        ranks: dict[AttributeUid, Ranks] = {}
        spans: dict[AttributeUid, RankSpans] = {}
        for uid, asked in contents.spans.items():
            ranks[uid] = Ranks(asked)
            yield
            spans[uid] = bitmaps.rank_spans(ranks[uid], asked)
            yield
        order = clustered(count, [(spans[uid], ranks[uid].count) for uid in spans])
        new_slots = np.empty(count, np.int64)
        new_slots[order] = np.arange(count)
        yield
        self.contents = contents.moved(new_slots)
        yield
        moved = {uid: asked.moved(new_slots) for uid, asked in spans.items()}
        self._mapped, self._unmapped = yield from bitmaps.attributes_of_block(
            count, ranks, moved, cells_max=cells_max
        )
        self._has_more_to_ask = np.zeros(count, np.bool_)
        self._has_more_to_ask[[*self._unmapped, *self.contents.rest]] = True
        self._first_slot: dict[Key, int] = {}
        self._more_slots: dict[Key, list[int]] = {}
        for slot, key in enumerate(self.contents.ids):
            if self._first_slot.setdefault(key, slot) != slot:
                self._more_slots.setdefault(key, []).append(slot)
        self.live = count
        self._is_live = np.ones(count, np.bool_)
        self._live_words = bitmaps.packed_bits(self._is_live)
        self._live_pages = bitmaps.pages_of(self._live_words)

    def __contains__(self, key: Key) -> bool:
        return key in self._first_slot

    def __len__(self) -> int:
        return len(self.contents.ids)

    def discard(self, key: Key) -> None:
        """Let a filter leave; its slots stay, and match nothing."""
        slots = [self._first_slot.pop(key), *self._more_slots.pop(key, ())]
        self._is_live[slots] = False
        self.live -= len(slots)
        for slot in slots:
            page = slot // PAGE
            self._live_words[page] &= ~_bit(slot)
            if not self._live_words[page]:
                self._live_pages[page // PAGE] &= ~_bit(page)

    @property
    def filters(self) -> int:
        """Return how many filters are left."""
        return len(self._first_slot)

    def live_contents(self) -> Contents[Key]:
        """Return what is left, for a new block."""
        return self.contents.kept(self._is_live)

    # ------------------------------------------------------------ one event

    def ids_matching(self, event: Event) -> list[Key]:
        """Return the filters that admit one event, once for each alternative that does."""
        slots = slots_for_event(self._mapped, event, pages=self._live_pages, words=self._live_words)
        if not slots:
            return []
        ids, has_more = self.contents.ids, self._has_more_to_ask
        return [ids[slot] for slot in slots if not has_more.item(slot) or self._passes_the_rest(slot, event)]

    def _passes_the_rest(self, slot: int, event: Event) -> bool:
        """Ask what the bitmaps do not know about a slot."""
        for uid, ranks, spans in self._unmapped.get(slot, ()):
            if not spans.accept(slot, ranks.of(event.get(uid))):
                return False
        rest = self.contents.rest.get(slot)
        return rest is None or rest(event)

    # ------------------------------------------------------------ many events

    def rows_by_id(self, frame: Frame) -> dict[Key, Sequence[int]]:
        """Return the rows that each filter admits, in order; filters that admit none are left out."""
        slots, rows = self._pairs(frame)
        if not len(slots):
            return {}
        starts = np.flatnonzero(np.append(True, slots[1:] != slots[:-1]))
        keys = map(self.contents.ids.__getitem__, slots.take(starts).tolist())
        sizes, in_order = np.diff(starts, append=len(rows)), rows.tolist()
        # Most filters that admit a row admit one alone, and share it: Python looks at every new list again.
        alone = [[row] for row in range(frame.rows)]
        runs: list[Sequence[int]] = list(map(alone.__getitem__, rows.take(starts).tolist()))
        several = np.flatnonzero(sizes > 1)
        for at, start in zip(several.tolist(), starts.take(several).tolist(), strict=True):
            runs[at] = in_order[start : start + sizes.item(at)]
        return _joined(keys, runs) if self._more_slots else dict(zip(keys, runs, strict=True))

    def _pairs(self, frame: Frame) -> tuple[Slots, _Numbers]:
        """Return the pairs of a slot and a row that match, in the order of slots and then of rows."""
        ranks = {
            one.uid: one.ranks.of_column(column.kind, column.values)
            for one in self._mapped
            if (column := frame.columns.get(one.uid)) is not None
        }
        slots, rows = self._candidate_pairs(ranks, frame.rows)
        for one in self._mapped:
            if one.doubts is not None and len(slots):
                accepted = one.doubts.accept(slots, ranks[one.uid].take(rows) if one.uid in ranks else 0)
                if not accepted.all():
                    slots, rows = slots[accepted], rows[accepted]
        row_bits = frame.rows.bit_length()
        keys = slots << row_bits | rows
        if len(self) << row_bits <= _SMALL:
            keys = keys.astype(np.uint32)  # sorted in less than half the time
        keys = np.sort(keys).astype(np.int64)
        return self._without_failing_rest(keys >> row_bits, keys & (1 << row_bits) - 1, frame)

    def _candidate_pairs(self, ranks: Mapping[AttributeUid, _Numbers], rows: int) -> tuple[Slots, _Numbers]:
        """Return pairs by bits alone."""
        pages, words = self._live_pages, self._live_words
        attributes: list[MappedAttribute] = []
        cells: list[_Numbers] = []
        for one in self._mapped:
            if one.uid in ranks:
                attributes.append(one)
                cells.append(one.cells(ranks[one.uid]))
            else:  # no row has it: cell 0 for all of them, once
                pages, words = pages & one.pages[0], words & one.words[0]
        if not pages.any() or not rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        groups = groups_of(cells, [len(one.pages) for one in attributes], rows)
        firsts = groups.firsts()
        found = pairs_in_all(
            attributes, [column[firsts] for column in cells], pages=pages, words=words, rows=len(firsts)
        )
        return groups.spread(*found)

    def _without_failing_rest(self, slots: Slots, rows: _Numbers, frame: Frame) -> tuple[Slots, _Numbers]:
        """Ask what bitmaps do not know, pair by pair, of the slots that have something left to ask."""
        has_more = self._has_more_to_ask[slots]
        if not has_more.any():
            return slots, rows
        kept = ~has_more
        events: dict[int, Event] = {}
        for at in np.flatnonzero(has_more).tolist():
            row = int(rows[at])
            if row not in events:
                events[row] = {uid: column.values[row] for uid, column in frame.columns.items()}
            kept[at] = self._passes_the_rest(int(slots[at]), events[row])
        return slots[kept], rows[kept]


def _bit(number: int) -> np.uint64:
    return np.uint64(1 << number % PAGE)


def _joined(keys: Iterable[Key], runs: Iterable[Sequence[int]]) -> dict[Key, Sequence[int]]:
    """Return the rows of each key, where a key may come with several alternatives."""
    found: dict[Key, Sequence[int]] = {}
    for key, run in zip(keys, runs, strict=True):
        known = found.get(key)
        found[key] = run if known is None else sorted({*known, *run})
    return found
