"""Which filters should share a merged one, so that little more is let through?

Merging asks. A filter is given as a box in the unit cube: an interval on each
dimension that is measured by length, a set of bits on each that is a list.
The two groups whose union wastes least are joined, again and again, until few
enough are left. This file chooses and proves nothing: whatever it answers,
merging stays sound and its bound stays true.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

BITS: Final = 64
_BLOCK_MAX: Final = 1024
# Among joins that waste nothing, or that waste what no length can measure, the tighter one is preferred.
_TIGHTNESS: Final = 1e-9

_Floats = npt.NDArray[np.float64]
_Bits = npt.NDArray[np.uint64]
_Indexes = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Boxes:
    """Many boxes: rows are dimensions, columns are boxes."""

    low: _Floats
    high: _Floats
    bits: _Bits
    bits_in_use: _Floats
    """How many bits each row of `bits` uses, as a column."""
    filled: _Floats
    """A lower bound of how much of each box is wanted by the filters inside it."""

    def __len__(self) -> int:
        return int(self.filled.shape[0])

    def take(self, chosen: _Indexes) -> Boxes:
        """Return some of the boxes."""
        return Boxes(
            self.low[:, chosen],
            self.high[:, chosen],
            self.bits[:, chosen],
            self.bits_in_use,
            self.filled[chosen],
        )


def grouped(boxes: Boxes, *, size_max: int) -> list[list[int]]:
    """Return at most `size_max` groups of box numbers, every number in exactly one."""
    groups = [[number] for number in range(len(boxes))]
    while len(groups) > size_max:
        before = len(groups)
        boxes, groups = _one_round(boxes, groups, size_max)
        if len(groups) == before:
            # Every round joins something; should one ever not, a poor answer beats an endless loop.
            return [*groups[: size_max - 1], sorted(one for group in groups[size_max - 1 :] for one in group)]
    return groups


def join_order(boxes: Boxes, sorts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of box numbers to join, those that waste least first; only boxes of one sort are joined.

    The second of a pair is part of the first from then on. The work grows with the square of
    the boxes, so there are few of them.
    """
    return _Workshop(boxes, 1, np.array(sorts, np.int64)).joins()


def _one_round(boxes: Boxes, groups: list[list[int]], size_max: int) -> tuple[Boxes, list[list[int]]]:
    """Join within blocks of neighbours; one block if all fit into one."""
    blocks = _blocks(boxes)
    targets = _shares([len(block) for block in blocks], size_max)
    parts, joined = [], []
    for block, target in zip(blocks, targets, strict=True):
        workshop = _Workshop(boxes.take(block), target)
        part, members = workshop.run()
        parts.append(part)
        joined.extend([[one for place in some for one in groups[int(block[place])]] for some in members])
    return _side_by_side(parts), joined


def _shares(sizes: list[int], size_max: int) -> list[int]:
    """Split `size_max` over blocks by their size; every block keeps at least one group."""
    total = sum(sizes)
    return [max(1, size * size_max // total) for size in sizes]


def _blocks(boxes: Boxes) -> list[_Indexes]:
    """Cut the boxes at the median of their widest dimension until each block is small."""
    done: list[_Indexes] = []
    pending = [np.arange(len(boxes))]
    centres = np.concatenate([(boxes.low + boxes.high) / 2, (boxes.bits.astype(np.float64) / 2.0**BITS)])
    while pending:
        block = pending.pop()
        if len(block) <= _BLOCK_MAX or not len(centres):
            done.append(block)
            continue
        spread = np.ptp(centres[:, block], axis=1)
        order = np.argsort(centres[int(np.argmax(spread)), block], kind="stable")
        pending += [block[order[len(order) // 2 :]], block[order[: len(order) // 2]]]
    return done


def _side_by_side(parts: list[Boxes]) -> Boxes:
    return Boxes(
        np.concatenate([part.low for part in parts], axis=1),
        np.concatenate([part.high for part in parts], axis=1),
        np.concatenate([part.bits for part in parts], axis=1),
        parts[0].bits_in_use,
        np.concatenate([part.filled for part in parts]),
    )


class _Workshop:
    """One block being joined: the cheapest pair first, best partners remembered in a heap."""

    def __init__(self, boxes: Boxes, target: int, sorts: npt.NDArray[np.int64] | None = None) -> None:
        self._low, self._high = boxes.low.copy(), boxes.high.copy()
        self._bits, self._in_use = boxes.bits.copy(), boxes.bits_in_use
        self._filled = boxes.filled.copy()
        self._target = target
        self._sorts = sorts
        self._volume = self._volumes(self._low, self._high, self._bits)
        self._members: list[list[int]] = [[number] for number in range(len(boxes))]
        self._alive = np.ones(len(boxes), np.bool_)
        self._version = [0] * len(boxes)
        self._heap: list[tuple[float, int, int, int, int]] = []

    def run(self) -> tuple[Boxes, list[list[int]]]:
        for _ in self.joins():
            pass
        kept = np.flatnonzero(self._alive)
        boxes = Boxes(self._low, self._high, self._bits, self._in_use, self._filled).take(kept)
        return boxes, [self._members[int(number)] for number in kept]

    def joins(self) -> Iterator[tuple[int, int]]:
        """Join until the target is reached, and yield each pair: the second is in the first from then on."""
        left = len(self._members)
        if left > self._target:
            for number in range(left):
                self._seek_partner(number)
        while left > self._target and self._heap:
            _, one, version, other, other_version = heapq.heappop(self._heap)
            if version != self._version[one]:
                continue
            if other_version != self._version[other]:
                self._seek_partner(one)
                continue
            self._join(one, other)
            left -= 1
            yield one, other

    def _seek_partner(self, one: int) -> None:
        """Remember the cheapest join of `one` with any other box."""
        cost, _ = self._costs(one)
        cost[~self._alive] = np.inf
        cost[one] = np.inf
        if self._sorts is not None:
            cost[self._sorts != self._sorts[one]] = np.inf
        other = int(np.argmin(cost))
        if np.isfinite(cost[other]):
            entry = (float(cost[other]), one, self._version[one], other, self._version[other])
            heapq.heappush(self._heap, entry)

    def _costs(self, one: int) -> tuple[_Floats, _Floats]:
        """Return what each join with `one` would waste more than before, and what it would fill."""
        low, high = self._low[:, one, None], self._high[:, one, None]
        bits = self._bits[:, one, None]
        widths = np.maximum(self._high, high) - np.minimum(self._low, low)
        united = self._product(widths, self._bits | bits)
        shared_widths = np.maximum(np.minimum(self._high, high) - np.maximum(self._low, low), 0.0)
        shared = self._product(shared_widths, self._bits & bits)
        filled = np.maximum(
            self._filled + self._filled[one] - shared, np.maximum(self._filled, self._filled[one])
        )
        waste_before = (self._volume - self._filled) + (self._volume[one] - self._filled[one])
        return (united - filled) - waste_before + _TIGHTNESS * widths.sum(axis=0), filled

    def _join(self, one: int, other: int) -> None:
        _, filled = self._costs(one)
        self._filled[one] = filled[other]
        self._low[:, one] = np.minimum(self._low[:, one], self._low[:, other])
        self._high[:, one] = np.maximum(self._high[:, one], self._high[:, other])
        self._bits[:, one] |= self._bits[:, other]
        column = slice(one, one + 1)
        self._volume[one] = self._volumes(self._low[:, column], self._high[:, column], self._bits[:, column])[
            0
        ]
        self._members[one] = sorted(self._members[one] + self._members[other])
        self._alive[other] = False
        self._version[one] += 1
        self._version[other] += 1
        self._seek_partner(one)

    def _volumes(self, low: _Floats, high: _Floats, bits: _Bits) -> _Floats:
        return self._product(high - low, bits)

    def _product(self, widths: _Floats, bits: _Bits) -> _Floats:
        volume: _Floats = np.maximum(widths, 0.0).prod(axis=0)  # an empty filter has its ends crossed
        if len(bits):
            volume = volume * (np.bitwise_count(bits) / self._in_use).prod(axis=0)
        return volume
