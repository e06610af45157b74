"""How much room does each attribute of a block get for its bits?

A block asks once, when it is built. Filters choose the attributes and the
ends of ranges, and an attacker chooses filters; the number of cells is bounded
all the same. An attribute that gets fewer cells than it has ranks leaves
doubts, which cost a search each. No answer changes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from maia.events import AttributeUid, Event
from maia.routing.matching.bitmaps import CELLS_MIN, Bitmaps, Doubts, cells_within
from maia.routing.matching.cells import Ranks, RankSpans

__all__ = [
    "CELLS_MAX",
    "MAPPED_MAX",
    "Attributes",
    "MappedAttribute",
    "UnmappedAttribute",
    "attributes_of_block",
]

CELLS_MAX: Final = 2048
"""The cells of all attributes of a block together: at most 256 bytes of bits per slot."""

MAPPED_MAX: Final = 256
"""The attributes of a block that get cells: those that most filters mention."""


@dataclass(frozen=True, slots=True)
class MappedAttribute:
    """An attribute with bitmaps, and what they leave in doubt."""

    uid: AttributeUid
    ranks: Ranks
    bitmaps: Bitmaps
    doubts: Doubts | None


@dataclass(frozen=True, slots=True)
class UnmappedAttribute:
    """An attribute without bitmaps, asked about slot by slot."""

    uid: AttributeUid
    ranks: Ranks
    spans: RankSpans

    def accepts(self, slot: int, event: Event) -> bool:
        """Say whether a slot accepts the value that an event has."""
        return self.spans.accept(slot, self.ranks.of(event.get(self.uid)))


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a block: those with bitmaps, and for each slot the others that it mentions."""

    mapped: tuple[MappedAttribute, ...]
    unmapped: Mapping[int, Sequence[UnmappedAttribute]]


def attributes_of_block(
    count: int,
    ranks: Mapping[AttributeUid, Ranks],
    spans: Mapping[AttributeUid, RankSpans],
    *,
    cells_max: int,
) -> Generator[None, None, Attributes]:
    """Set the bits of all attributes of `count` slots, one attribute in a step."""
    room = _allotted({uid: (ranks[uid].count, len(asked.slots)) for uid, asked in spans.items()}, cells_max)
    mapped: list[MappedAttribute] = []
    for uid, asked in spans.items():
        if room[uid] >= CELLS_MIN:
            mapped.append(_mapped(uid, ranks[uid], asked, cells=room[uid], count=count))
            yield
    unmapped: dict[int, list[UnmappedAttribute]] = {}
    for uid, asked in spans.items():
        if room[uid] < CELLS_MIN:
            one = UnmappedAttribute(uid, ranks[uid], asked)
            for slot in set(asked.slots.tolist()):
                unmapped.setdefault(slot, []).append(one)
    return Attributes(tuple(mapped), unmapped)


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
    cell_of_rank, used = cells_within(spans, ranks=ranks.count, cells=cells)
    doubts = Doubts.of(spans, cell_of_rank, ranks=ranks.count, slots=count)
    free = np.ones(count, np.bool_)
    free[spans.slots] = False
    return MappedAttribute(uid, ranks, Bitmaps.of(spans, cell_of_rank, cells=used, free=free), doubts)
