"""At most how much more than the originals does a merged set of filters let through?

Merging asks, once its groups are chosen. Every step is an inequality: shares
of merged filters from above, shares of what the originals admit from below.
Rounding is paid for by a slack that is far larger than all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from maia.events import AttributeUid
from maia.predicates.merging.measure import AskedValues, FilterPlace, Geometry
from maia.predicates.merging.pairs import BITS, Boxes

_SLACK: Final = 1e-9
_CELLS_MAX: Final = 1 << 16
_FULL_MAX: Final = 256
_COMPARED_MAX: Final = 1024

_Filter: TypeAlias = Mapping[AttributeUid, AskedValues]
_Flags = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]


def boxes_of(geometry: Geometry) -> Boxes:
    """Return the places of all originals as arrays, for choosing groups. Long lists fold into 64 bits."""
    places = geometry.places
    intervals = np.array([place.intervals for place in places], np.float64)
    intervals = intervals.reshape(len(places), len(geometry.lengths), 2)
    bits = np.array([[_folded(one) for one in place.bits] for place in places], np.uint64)
    bits = bits.reshape(len(places), len(geometry.listings)).T
    in_use = np.array([[min(len(one.values) + 1, BITS)] for one in geometry.listings], np.float64)
    in_use = in_use.reshape(len(geometry.listings), 1)
    low, high = intervals[:, :, 0].T, intervals[:, :, 1].T
    size = np.maximum(high - low, 0.0).prod(axis=0) * (np.bitwise_count(bits) / in_use).prod(axis=0)
    filled = size * np.array([_fullness(geometry, place) for place in places])
    return Boxes(low, high, bits, in_use, filled)


def spill_bound(geometry: Geometry, groups: Sequence[Sequence[int]], merged: Sequence[_Filter]) -> float:
    """Return a number that the true spill does not exceed."""
    is_tight = [_is_tight(geometry, *case) for case in zip(groups, merged, strict=True)]
    if all(is_tight):
        return 0.0
    places = [geometry.place(one) for one in merged]
    wanted = [
        place.share if tight else _wanted(geometry, group, place)
        for tight, group, place in zip(is_tight, groups, places, strict=True)
    ]
    wasted = sum(place.share - share for place, share in zip(places, wanted, strict=True))
    slack = _SLACK * (1 + sum(place.share for place in places))
    at_most = min(1.0, sum(place.share for place in places) + slack)
    by_groups = _ratio(
        wasted + slack, _union_at_least(geometry, places, [one.share for one in places]) - slack
    )
    by_unions = 1 - max(0.0, _union_at_least(geometry, places, wanted) - slack) / at_most
    return min(1.0, by_groups, by_unions)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0


def _is_tight(geometry: Geometry, group: Sequence[int], merged: _Filter) -> bool:
    """Return whether a merged filter is one of its originals, and lets nothing more through."""
    return len(group) == 1 or any(_same(geometry.originals[one], merged) for one in group)


def _wanted(geometry: Geometry, group: Sequence[int], place: FilterPlace) -> float:
    """Return a lower bound of the share that the originals of a group admit together."""
    members = sorted((geometry.places[one] for one in group), key=lambda one: -one.share)
    at_least = max(_by_hull(geometry, members), _by_cells(geometry, members), members[0].share)
    return min(at_least, place.share)


def _same(one: _Filter, other: _Filter) -> bool:
    return one.keys() == other.keys() and all(_same_on(asked, other[uid]) for uid, asked in one.items())


def _same_on(one: AskedValues, other: AskedValues) -> bool:
    return one.values == other.values or set(one.constraints) == set(other.constraints)


def _by_hull(geometry: Geometry, members: Sequence[FilterPlace]) -> float:
    """Add members one by one, less what they can share with the hull of those before."""
    at_least = members[0].share
    hulls = accumulate(members, _hull)
    for hull, member in zip(hulls, members[1:], strict=False):
        at_least = max(at_least, at_least + member.share - geometry.shared(hull, member))
    return at_least


def _hull(one: FilterPlace, other: FilterPlace) -> FilterPlace:
    intervals = tuple(
        (min(low, other_low), max(high, other_high))
        for (low, high), (other_low, other_high) in zip(one.intervals, other.intervals, strict=True)
    )
    bits = tuple(some | more for some, more in zip(one.bits, other.bits, strict=True))
    return FilterPlace(intervals, bits, share=1.0, is_full=False)


def _by_cells(geometry: Geometry, members: Sequence[FilterPlace]) -> float:
    """Cut space at every edge of a member and add up the cells that some member fills: exact.

    Members are taken in as long as the cells stay few; fewer members can only
    make the sum smaller.
    """
    full = [member for member in members if member.is_full and member.share > 0][:_FULL_MAX]
    axes = _axes(geometry, full)
    while full and prod(len(widths) for _, widths in axes) > _CELLS_MAX:
        full = full[: len(full) // 2]
        axes = _axes(geometry, full)
    filled: _Flags = np.zeros([len(widths) for _, widths in axes], np.bool_)
    for number in range(len(full)):
        filled[np.ix_(*[inside[number] for inside, _ in axes])] = True
    share = filled.astype(np.float64)
    for _, widths in reversed(axes):
        share = share @ widths
    return float(share)


def _axes(geometry: Geometry, full: Sequence[FilterPlace]) -> list[tuple[_Flags, _Floats]]:
    """Return for each dimension which cells each member takes, and how wide the cells are."""
    axes = [_axis_of_length([place.intervals[at] for place in full]) for at in range(len(geometry.lengths))]
    for at, listing in enumerate(geometry.listings):
        patterns: dict[tuple[bool, ...], float] = {}
        for bit in range(len(listing.values) + 1):
            pattern = tuple(bool(place.bits[at] >> bit & 1) for place in full)
            if any(pattern):
                patterns[pattern] = patterns.get(pattern, 0.0) + listing.share(1 << bit)
        inside = np.array(list(patterns), np.bool_).reshape(len(patterns), len(full)).T
        axes.append((inside, np.array(list(patterns.values()), np.float64)))
    return axes


def _axis_of_length(intervals: Sequence[tuple[float, float]]) -> tuple[_Flags, _Floats]:
    ends = np.array(intervals, np.float64).reshape(len(intervals), 2)
    cuts = np.unique(ends)
    inside = (ends[:, :1] <= cuts[None, :-1]) & (cuts[None, 1:] <= ends[:, 1:])
    return inside, np.diff(cuts)


def _union_at_least(geometry: Geometry, places: Sequence[FilterPlace], shares: Sequence[float]) -> float:
    """Return a lower bound of the share of a union, of parts that lie in places and have these shares.

    Parts are counted largest first, each less all that its place shares with
    the places counted before; a part with nothing left is not counted.
    """
    order = sorted(range(len(places)), key=lambda at: -shares[at])[:_COMPARED_MAX]
    boxes = _Overlaps(geometry, [places[at] for at in order])
    total = 0.0
    for at, number in enumerate(order):
        gain = shares[number] - boxes.overlap_with_counted(at)
        if gain > 0:
            total += gain
            boxes.count_in(at)
    return total


class _Overlaps:
    """Places whose overlaps are bounded from above, many at a time."""

    def __init__(self, geometry: Geometry, places: Sequence[FilterPlace]) -> None:
        shape = (len(places), len(geometry.lengths), 2)
        intervals = np.array([place.intervals for place in places], np.float64).reshape(shape)
        self._low, self._high = intervals[:, :, 0], intervals[:, :, 1]
        self._listed = [
            _bit_matrix([place.bits[at] for place in places], len(listing.values) + 1)
            for at, listing in enumerate(geometry.listings)
        ]
        self._weights = [
            np.array([*[listing.weight] * len(listing.values), listing.rest], np.float64)
            for listing in geometry.listings
        ]
        self._counted: list[int] = []

    def count_in(self, at: int) -> None:
        self._counted.append(at)

    def overlap_with_counted(self, at: int) -> float:
        counted = self._counted
        low, high = (
            np.maximum(self._low[counted], self._low[at]),
            np.minimum(self._high[counted], self._high[at]),
        )
        overlap = np.maximum(high - low, 0.0).prod(axis=1)
        for listed, weights in zip(self._listed, self._weights, strict=True):
            overlap = overlap * (listed[counted] @ (weights * listed[at]))
        return float(overlap.sum())


def _bit_matrix(rows: Sequence[int], width: int) -> _Floats:
    return np.array([[row >> bit & 1 for bit in range(width)] for row in rows], np.float64).reshape(
        len(rows), width
    )


def _folded(bits: int) -> int:
    folded = 0
    while bits:
        folded |= bits & (2**BITS - 1)
        bits >>= BITS
    return folded


def _fullness(geometry: Geometry, place: FilterPlace) -> float:
    """Return which part of its place a filter fills, as far as lengths tell."""
    if place.is_full:
        return 1.0
    size = geometry.shared(place, place)
    return min(1.0, place.share / size) if size > 0 else 0.0
