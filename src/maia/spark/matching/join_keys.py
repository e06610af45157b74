"""By which key does a join find the boxes that an event may lie in?

Bulk matching asks. A key is made of the type and at most two attributes: an
equality goes into it as the value itself, a range as the buckets that it
touches. Buckets have the same number of bounds in them, not the same width, so
that crowded filters are still separated. Keys that agree by
chance do no harm: every candidate is compared bound by bound afterwards.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from maia.events import AttributeUid, Kinds
from maia.spark.matching.boxes import Bounds, Box

__all__ = ["BUCKETS", "Buckets", "KeyPart", "Keyed", "Shape", "buckets_of", "keyed"]

BUCKETS: Final = 64
"""Buckets of one attribute. The engine finds an event's bucket by six comparisons."""

PAIRS_MAX: Final = 8
"""Different pairs of attributes that keys are made of; each one costs every event a look."""

_WIDE: Final = 0.5
"""A part that leaves more candidates than this is not worth its place in a key."""

_ROWS_MAX: Final = 256
"""Rows of a box in the key table, where two ranges are in its key."""


@dataclass(frozen=True, slots=True, order=True)
class KeyPart:
    """One attribute in a key, by value or by bucket. Values come before buckets."""

    is_bucket: bool
    uid: AttributeUid


Shape: TypeAlias = tuple[KeyPart, ...]


@dataclass(frozen=True, slots=True)
class Buckets:
    """Where the buckets of one attribute begin, in order; the first begins at the smallest value."""

    # Any: the values of one attribute are of one kind.
    begin: tuple[Any, ...]

    def touched(self, bounds: Bounds) -> tuple[int, int]:
        """Return the first and the last bucket with values inside these bounds."""
        first = 0 if bounds.low is None else bisect_right(self.begin, bounds.low)
        last = len(self.begin) if bounds.beyond is None else bisect_left(self.begin, bounds.beyond)
        return first, max(first, last)

    def share(self, bounds: Bounds) -> float:
        """Return which part of all buckets is touched."""
        first, last = self.touched(bounds)
        return (last - first + 1) / (len(self.begin) + 1)


@dataclass(frozen=True, slots=True)
class Keyed:
    """A box with the key it is found by."""

    box: Box
    shape: Shape
    touched: tuple[tuple[int, int], ...]
    """First and last bucket of each part that is a bucket."""


def buckets_of(boxes: Iterable[Box], kinds: Kinds) -> dict[AttributeUid, Buckets]:
    """Return the buckets of every attribute of which some box asks a range."""
    ends: dict[AttributeUid, list[Any]] = {}
    for box in boxes:
        for uid, bounds in box.items():
            if bounds.is_range and not bounds.is_point and kinds[uid].is_ordered:
                found = ends.setdefault(uid, [])
                found += [end for end in (bounds.low, bounds.beyond) if end is not None]
    return {uid: Buckets(_cut(sorted(values))) for uid, values in ends.items()}


def _cut(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return at most 63 of these sorted values, with about as many of them between any two."""
    chosen = [values[at * len(values) // BUCKETS] for at in range(1, BUCKETS)]
    return tuple(dict.fromkeys(chosen))


def keyed(boxes: Sequence[Box], buckets: Mapping[AttributeUid, Buckets]) -> list[Keyed | None]:
    """Choose a key for each box; None where no attribute tells it from others."""
    points = _points(boxes)
    wanted = [_shape(box, points, buckets) for box in boxes]
    pairs = Counter(shape for shape in wanted if len(shape) > 1)
    kept = {shape for shape, _ in pairs.most_common(PAIRS_MAX)}
    return [
        _keyed(box, shape if len(shape) == 1 or shape in kept else shape[:1], buckets) if shape else None
        for box, shape in zip(boxes, wanted, strict=True)
    ]


def _points(boxes: Iterable[Box]) -> dict[AttributeUid, int]:
    """Return how many different values of each attribute are asked for."""
    found: dict[AttributeUid, set[Any]] = {}
    for box in boxes:
        for uid, bounds in box.items():
            if bounds.is_point:
                found.setdefault(uid, set()).add(bounds.low)
    return {uid: len(values) for uid, values in found.items()}


def _shape(box: Box, points: Mapping[AttributeUid, int], buckets: Mapping[AttributeUid, Buckets]) -> Shape:
    """Return the two attributes that leave the fewest candidates, values before buckets."""
    shares: dict[KeyPart, float] = {}
    for uid, bounds in box.items():
        if bounds.is_point:
            shares[KeyPart(False, uid)] = 1 / points[uid]
        elif bounds.is_range and uid in buckets:
            shares[KeyPart(True, uid)] = buckets[uid].share(bounds)
    best = sorted(shares, key=lambda part: (shares[part], part))[:2]
    if len(best) == 2 and (shares[best[1]] > _WIDE or _rows(box, best, buckets) > _ROWS_MAX):
        best.pop()
    return tuple(sorted(best))


def _rows(box: Box, parts: Iterable[KeyPart], buckets: Mapping[AttributeUid, Buckets]) -> int:
    rows = 1
    for part in parts:
        if part.is_bucket:
            first, last = buckets[part.uid].touched(box[part.uid])
            rows *= last - first + 1
    return rows


def _keyed(box: Box, shape: Shape, buckets: Mapping[AttributeUid, Buckets]) -> Keyed:
    touched = tuple(buckets[part.uid].touched(box[part.uid]) for part in shape if part.is_bucket)
    return Keyed(box, shape, touched)
