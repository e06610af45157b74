"""How much room does each attribute of a block get for its bits?

A block asks once, when it is built. Filters choose the attributes and the
ends of ranges, and an attacker chooses filters; the number of cells is bounded
all the same. An attribute that gets fewer cells than it has ranks leaves
doubts, which cost a search each. No answer changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from maia.events import AttributeUid
from maia.routing.match_bitmaps import Bitmaps, Doubts, cells_within
from maia.routing.match_cells import Ranks, RankSpans

__all__ = ["CELLS_MAX", "INDEXED_MAX", "IndexedAttribute", "indexed_attributes"]

CELLS_MAX: Final = 2048
"""The cells of all attributes of a block together: at most 256 bytes of bits per slot."""

INDEXED_MAX: Final = 256
"""The attributes of a block that get cells: those that most filters mention."""


@dataclass(frozen=True, slots=True)
class IndexedAttribute:
    """One attribute of a block. Without bitmaps, every slot that mentions it is in doubt."""

    uid: AttributeUid
    ranks: Ranks
    bitmaps: Bitmaps | None
    doubts: Doubts | None


def indexed_attributes(
    count: int,
    ranks: Mapping[AttributeUid, Ranks],
    spans: Mapping[AttributeUid, RankSpans],
    *,
    cells_max: int,
) -> tuple[IndexedAttribute, ...]:
    """Set the bits of all attributes of `count` slots."""
    allotted = _allotted(
        {uid: (ranks[uid].count, len(asked.slots)) for uid, asked in spans.items()}, cells_max
    )
    return tuple(
        [_indexed(uid, ranks[uid], asked, cells=allotted[uid], count=count) for uid, asked in spans.items()]
    )


def _allotted(wanted: Mapping[AttributeUid, tuple[int, int]], cells_max: int) -> dict[AttributeUid, int]:
    """Give those that want little all they want, and let the others share what is left.

    `wanted` has the number of ranks and of spans of each attribute.
    """
    popular = sorted(wanted, key=lambda uid: (-wanted[uid][1], uid))[:INDEXED_MAX]
    allotted = dict.fromkeys(wanted, 1)
    left, waiting = cells_max, len(popular)
    for uid in sorted(popular, key=lambda uid: wanted[uid][0]):
        allotted[uid] = min(wanted[uid][0], left // waiting)
        left, waiting = left - allotted[uid], waiting - 1
    return allotted


def _indexed(
    uid: AttributeUid, ranks: Ranks, spans: RankSpans, *, cells: int, count: int
) -> IndexedAttribute:
    cell_of_rank, used = cells_within(spans, ranks=ranks.count, cells=cells)
    doubts = Doubts.of(spans, cell_of_rank, ranks=ranks.count, slots=count)
    if used == 1:
        return IndexedAttribute(uid, ranks, None, doubts)
    free = np.ones(count, np.bool_)
    free[spans.slots] = False
    return IndexedAttribute(uid, ranks, Bitmaps.of(spans, cell_of_rank, cells=used, free=free), doubts)
