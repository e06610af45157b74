"""Which slots are set in all of these bitmaps, for a single event?

A block asks when an event comes alone, and then it is the start of each array
operation that costs. So pages and words are combined as Python integers while
they are few, and as arrays once they are many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np

from maia.routing.matching.attributes import MappedAttribute
from maia.routing.matching.bitmaps import PAGE, Words, bits_of

__all__ = ["slots_for_event"]

_FEW_PAGES: Final = 48

_Place: TypeAlias = tuple[MappedAttribute, int, int]
"""An attribute, and the event's rank and cell there."""


def slots_for_event(
    attributes: Sequence[MappedAttribute], ranks: Sequence[int], *, pages: Words, words: Words
) -> list[int]:
    """Return the slots that are set in `words` and accept the event's rank of every attribute.

    `pages` says which of the `words` are not zero.
    """
    places = [(one, rank, one.bitmaps.cell(rank)) for one, rank in zip(attributes, ranks, strict=True)]
    left = int.from_bytes(pages.tobytes(), "little")
    for one, _, cell in places:
        left &= int.from_bytes(one.bitmaps.pages[cell].tobytes(), "little")
        if not left:
            return []
    if left.bit_count() > _FEW_PAGES:
        return _in_many_pages(places, left, words)
    return list(_in_few_pages(places, left, words))


def _in_few_pages(places: Sequence[_Place], left: int, words: Words) -> Iterator[int]:
    doubtful = [(one.doubts, rank) for one, rank, _ in places if one.doubts is not None]
    for page in _bits(left):
        word = words.item(page)
        for one, _, cell in places:
            word &= one.bitmaps.words.item(cell, page)
            if not word:
                break
        for bit in _bits(word):
            slot = page * PAGE + bit
            if all(doubts.accept_one(slot, rank) for doubts, rank in doubtful):
                yield slot


def _in_many_pages(places: Sequence[_Place], left: int, words: Words) -> list[int]:
    pages = np.fromiter(_bits(left), np.int64)
    found = words[pages]
    for one, _, cell in places:
        found &= one.bitmaps.words[cell][pages]
    bits = bits_of(found)
    slots = pages[bits // PAGE] * PAGE + bits % PAGE
    for one, rank, _ in places:
        if one.doubts is not None:
            slots = slots[one.doubts.accept(slots, rank)]
    numbers: list[int] = slots.tolist()
    return numbers


def _bits(word: int) -> Iterator[int]:
    while word:
        lowest = word & -word
        yield lowest.bit_length() - 1
        word ^= lowest
