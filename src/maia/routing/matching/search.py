"""Which slots are set in all of these bitmaps, for many rows at once?

A block asks for a whole frame. Rows in the same cells form a group and are
searched once; the answer is spread over them afterwards.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from maia.events import Event
from maia.routing.matching.bitmaps import (
    PAGE,
    PAGE_BITS,
    Doubts,
    MappedAttribute,
    Slots,
    Words,
    bits_of,
    number_of,
)

_Numbers: TypeAlias = npt.NDArray[np.int64]

_WORDS_AT_ONCE: Final = 1 << 20
_SPREAD_AT_ONCE: Final = 1 << 16
"""Bounds of what is in memory at once: words read, and words spread out into bits."""

_KEYS_MAX: Final = 1 << 62

_LOOKED_AT: Final = 16
"""Rows by which it is guessed whether many lie in the same cells; grouping them has to pay."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Rows by group. `rows` holds those of group 0, then those of group 1, and so on."""

    rows: _Numbers
    starts: _Numbers
    sizes: _Numbers

    def firsts(self) -> _Numbers:
        """Return one row of each group."""
        return self.rows[self.starts]

    def spread(self, slots: Slots, groups: _Numbers) -> tuple[Slots, _Numbers]:
        """Turn pairs of slot and group into pairs of slot and row."""
        if len(self.starts) == len(self.rows):  # every group is one row
            return slots, self.rows.take(groups)
        sizes = self.sizes[groups]
        total = int(sizes.sum())
        within = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.repeat(slots, sizes), self.rows[np.repeat(self.starts[groups], sizes) + within]


def groups_of(cells: Sequence[_Numbers], sizes: Sequence[int], rows: int) -> RowGroups:
    """Group the rows that lie in the same cell of every attribute; `sizes` are the numbers of cells."""
    keys = _keys(cells, sizes, rows)
    if keys is None or 2 * len(set(keys[:_LOOKED_AT].tolist())) > min(rows, _LOOKED_AT):
        return RowGroups(np.arange(rows), np.arange(rows), np.ones(rows, np.int64))
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return RowGroups(order, starts, np.diff(np.append(starts, rows)))


def _keys(cells: Sequence[_Numbers], sizes: Sequence[int], rows: int) -> _Numbers | None:
    """Return one number per row, equal exactly for rows in the same cells; None if 64 bits are too few."""
    keys, room = np.zeros(rows, np.int64), 1
    for column, size in zip(cells, sizes, strict=True):
        room *= size
        if room > _KEYS_MAX:
            return None
        keys = keys * size + column
    return keys


def pairs_in_all(
    attributes: Sequence[MappedAttribute], cells: Sequence[_Numbers], *, pages: Words, words: Words, rows: int
) -> tuple[Slots, _Numbers]:
    """Return slot and row wherever a bit is set in `words` and in those of every attribute at the row's cell.

    `pages` says which of the `words` are not zero.
    """
    found: list[tuple[Slots, _Numbers]] = []
    step = max(1, _WORDS_AT_ONCE // len(words))
    for start in range(0, rows, step):
        some = [column[start : start + step] for column in cells]
        in_step = min(step, rows - start)
        for slots, at in _pairs(attributes, some, pages=pages, words=words, rows=in_step):
            found.append((slots, at + start))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([slots for slots, _ in found]), np.concatenate([at for _, at in found])


def _pairs(
    attributes: Sequence[MappedAttribute], cells: Sequence[_Numbers], *, pages: Words, words: Words, rows: int
) -> Iterator[tuple[Slots, _Numbers]]:
    at, left = _pages_in_all(attributes, cells, pages=pages, rows=rows)
    bits = words[left]
    for one, column in zip(attributes, cells, strict=True):
        bits &= one.words.reshape(-1).take((column * len(words)).take(at) + left)
    for source, bit in _spread(bits):
        yield (left[source] << PAGE_BITS) + bit, at[source]


def _pages_in_all(
    attributes: Sequence[MappedAttribute], cells: Sequence[_Numbers], *, pages: Words, rows: int
) -> tuple[_Numbers, _Numbers]:
    """Return row and page wherever the page can hold a match."""
    left = np.broadcast_to(pages, (rows, len(pages))).copy()
    for one, column in zip(attributes, cells, strict=True):
        left &= one.pages.take(column, axis=0)
    found = [
        (source // len(pages), (source % len(pages) << PAGE_BITS) + bit) for source, bit in _spread(left)
    ]
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([at for at, _ in found]), np.concatenate([page for _, page in found])


def _spread(words: Words) -> Iterator[tuple[_Numbers, _Numbers]]:
    """Yield, in bounded steps, the place of a word and the number of a bit for every bit that is set."""
    flat = words.reshape(-1)
    hit = np.flatnonzero(flat)
    for start in range(0, len(hit), _SPREAD_AT_ONCE):
        some = hit[start : start + _SPREAD_AT_ONCE]
        numbers = bits_of(flat[some])
        yield some[numbers >> PAGE_BITS], numbers & (PAGE - 1)


# ------------------------------------------------------------ one event

_FEW_PAGES: Final = 48

_Place: TypeAlias = "tuple[array[int], int, Doubts | None, int]"
"""The words of an attribute, where those of the event's cell begin, what is in doubt, and its rank."""


def slots_for_event(
    attributes: Sequence[MappedAttribute], event: Event, *, pages: Words, words: Words
) -> list[int]:
    """Return the slots that are set in `words` and accept what the event has of every attribute.

    `pages` says which of the `words` are not zero. An event that no page can hold a match for has often read
    one number of each attribute, and is done.
    """
    left, width = number_of(pages), len(words)
    places: list[_Place] = []
    for uid, ranks, first, close, cell_of_rank, pages_of_cell, bits, doubts, _, _ in attributes:
        value = event.get(uid)
        if type(value) is int and 0 <= value - first < len(close):
            rank = close[value - first]
        else:
            rank = ranks.of(value)
        cell = rank if cell_of_rank is None else cell_of_rank[rank]
        left &= pages_of_cell[cell]
        places.append((bits, cell * width, doubts, rank))
    if not left:
        return []
    in_pages = _in_few_pages if left.bit_count() <= _FEW_PAGES else _in_many_pages
    return in_pages(places, left, words)


def _in_few_pages(places: Sequence[_Place], left: int, words: Words) -> list[int]:
    found: list[int] = []
    for page in _bits(left):
        word = words.item(page)
        for bits, start, _, _ in places:
            word &= bits[start + page]
            if not word:
                break
        else:
            found += [page * PAGE + bit for bit in _bits(word)]
    doubtful = [(doubts, rank) for _, _, doubts, rank in places if doubts is not None] if found else []
    return [slot for slot in found if all(doubts.accept_one(slot, rank) for doubts, rank in doubtful)]


def _in_many_pages(places: Sequence[_Place], left: int, words: Words) -> list[int]:
    pages = np.array(_bits(left), np.int64)
    found = words[pages]
    for bits, start, _, _ in places:
        found &= np.frombuffer(bits, np.uint64)[start + pages]
    set_bits = bits_of(found)
    slots = pages[set_bits // PAGE] * PAGE + set_bits % PAGE
    for _, _, doubts, rank in places:
        if doubts is not None:
            slots = slots[doubts.accept(slots, rank)]
    numbers: list[int] = slots.tolist()
    return numbers


def _bits(word: int) -> list[int]:
    """Return the numbers of the bits that are set, the lowest first."""
    found: list[int] = []
    while word:
        lowest = word & -word
        found.append(lowest.bit_length() - 1)
        word ^= lowest
    return found
