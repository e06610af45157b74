"""Which filters accept a value, as bits that can be combined 64 filters at a time?

For every cell of an attribute there is a row of bits, one per slot: set if the
slot's filter accepts some value of the cell. 64 neighbouring slots are a
*page*, and a second, shorter row says which pages have a bit at all, so that
most pages are never read. If a cell holds ranks that a filter tells
apart, the bit says "perhaps", and `Doubts` knows better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from maia.routing.matching.cells import RankSpans
from maia.routing.matching.spans import Slots

__all__ = [
    "CELLS_MIN",
    "PAGE",
    "PAGE_BITS",
    "Bitmaps",
    "Doubts",
    "Words",
    "bits_of",
    "cells_within",
    "packed_bits",
    "pages_of",
]

Words: TypeAlias = npt.NDArray[np.uint64]
_Numbers: TypeAlias = npt.NDArray[np.int64]
_Flags: TypeAlias = npt.NDArray[np.bool_]

PAGE_BITS: Final = 6
PAGE: Final = 1 << PAGE_BITS
CELLS_MIN: Final = 4
"""With fewer cells than this, an attribute is better left without bitmaps."""

_OWN_CELLS: Final = 2
"""Absence and "another kind" never share a cell: every event without the attribute meets the first."""


@dataclass(frozen=True, slots=True)
class Bitmaps:
    """The bits of one attribute. `cell_of_rank` is None where every rank has its own cell."""

    cell_of_rank: npt.NDArray[np.int32] | None
    words: Words
    pages: Words

    @classmethod
    def of(
        cls, spans: RankSpans, cell_of_rank: npt.NDArray[np.int32] | None, *, cells: int, free: _Flags
    ) -> Bitmaps:
        """Set the bits of all spans, and those of slots that are `free` to have any value in every cell."""
        slots, lows, lasts = _in_cells(spans, cell_of_rank)
        # A bit at the first cell of a span and one after its last: the running xor fills what lies between.
        width = -(-len(free) // PAGE)
        toggles = np.zeros((cells + 1, width), np.uint64)
        toggles[0] = packed_bits(free)
        pages, bits = slots // PAGE, np.uint64(1) << (slots % PAGE).astype(np.uint64)
        np.bitwise_xor.at(toggles, (lows, pages), bits)
        np.bitwise_xor.at(toggles, (lasts + 1, pages), bits)
        np.bitwise_xor.accumulate(toggles, axis=0, out=toggles)
        words = toggles[:cells]
        return cls(cell_of_rank, words, pages_of(words))

    def cells(self, ranks: _Numbers) -> _Numbers:
        """Return the cells of some ranks."""
        return ranks if self.cell_of_rank is None else self.cell_of_rank[ranks].astype(np.int64)

    def cell(self, rank: int) -> int:
        """Return the cell of one rank."""
        return rank if self.cell_of_rank is None else int(self.cell_of_rank[rank])


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
        accepted: _Flags = (self._lows[slots] <= ranks) & (ranks < self._highs[slots])
        if len(self._keys):
            several = np.flatnonzero(self._has_several[slots])
            asked = np.broadcast_to(ranks, slots.shape)[several]
            accepted[several] = self._accept_one_of_several(slots[several], asked)
        return accepted

    def accept_one(self, slot: int, rank: int) -> bool:
        """Say whether one slot truly accepts a rank."""
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


def bits_of(words: Words) -> _Numbers:
    """Return the numbers of the bits that are set, counted through all words."""
    spread = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")
    return np.flatnonzero(spread.view(np.bool_))
