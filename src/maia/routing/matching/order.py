"""How are filters ordered, so that those for similar events share a page?

A block asks once, when it is built. Filters are split into halves again and
again, each time by the attribute that tells them apart best, until a page is
full. The order changes how many pages an event meets and never which filters
it matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from maia.routing.matching.bitmaps import PAGE, RankSpans, Slots

_Numbers: TypeAlias = npt.NDArray[np.float32]

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


def _halves(some: Slots, middles: _Numbers, widths: _Numbers) -> tuple[Slots, Slots]:
    """Split where slots lie far apart compared with how wide they are; the later half comes first."""
    by = int(np.argmax(middles.std(axis=1) / widths.mean(axis=1)))
    # Whole pages on the left, so that at most one page in the block is not full.
    at = -(-len(some) // PAGE) // 2 * PAGE
    order = np.argpartition(middles[by], at)
    return some[order[at:]], some[order[:at]]


def _middles_and_widths(count: int, spans: RankSpans, ranks: int) -> tuple[_Numbers, _Numbers]:
    # Slots that do not mention the attribute are together, far to the left of all others.
    middles, widths = np.full(count, -ranks, np.float32), np.full(count, ranks, np.float32)
    changes = np.flatnonzero(spans.slots[1:] != spans.slots[:-1])
    firsts, lasts = np.append(0, changes + 1), np.append(changes, len(spans.slots) - 1)
    if len(spans.slots):
        lows, highs = spans.lows[firsts], spans.highs[lasts]
        middles[spans.slots[firsts]] = (lows + highs) / 2
        widths[spans.slots[firsts]] = highs - lows
    return middles, widths
