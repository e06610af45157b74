"""Into which boxes of values is a filter split, so that a join can find it?

Bulk matching asks, once for each distinct filter. A box says of each stored
attribute between which two values it lies, or that it is present or missing;
the engine compares bounds as columns. Every event that the filter admits lies
in at least one of its boxes. If all boxes are exact, the reverse holds too; if
not, an event in a box is a candidate, and the filter has the last word.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maia.events import AttributeUid, Kind, Kinds
from maia.predicates.covering.normal_form import Alternative, alternatives_of
from maia.predicates.covering.ordered_sets import FULL, intervals, successor
from maia.predicates.covering.value_sets import ValueSet
from maia.predicates.syntax import Predicate
from maia.views.arrow_executor import TestBatch, to_arrow_test

BOXES_MAX: Final = 1024
"""A filter that would fall into more boxes is bracketed by fewer, which are too wide."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a box asks of one attribute: `low <= value < beyond`, an open side being None.

    Without both, the attribute is present, or missing, with any value.
    """

    # Any: both are values of the attribute's kind.
    low: Any = None
    beyond: Any = None
    is_present: bool = True

    @property
    def is_range(self) -> bool:
        """Return whether any value is ruled out."""
        return self.low is not None or self.beyond is not None

    @property
    def is_point(self) -> bool:
        """Return whether one value alone is admitted."""
        return self.low is not None and successor(self.low) == self.beyond


Box = Mapping[AttributeUid, Bounds]
"""Attributes that are not mentioned are free."""


@dataclass(frozen=True, slots=True)
class FilterBoxes:
    """The boxes of one filter."""

    boxes: tuple[Box, ...]
    is_exact: bool
    """Every event inside is admitted."""
    are_apart: bool
    """No event is in two of them."""


def boxes_of(predicate: Predicate, stored: Kinds) -> FilterBoxes:
    """Return the boxes of a filter over events with `stored` attributes."""
    alternatives = alternatives_of(predicate)
    split = [found for one in alternatives if (found := _split(one, stored, BOXES_MAX // len(alternatives)))]
    boxes = tuple(box for some, _ in split for box in some)
    return FilterBoxes(boxes, all(is_exact for _, is_exact in split), are_apart=len(split) <= 1)


def _split(alternative: Alternative, stored: Kinds, boxes_max: int) -> tuple[list[Box], bool] | None:
    """Return the boxes of an alternative, apart from each other, and if they are exact; None without any."""
    choices: dict[AttributeUid, list[Bounds | None]] = {}
    is_exact = alternative.is_exact
    for uid, values in alternative.values.items():
        found = _choices(values, stored.get(uid))
        if not found:
            return None
        choices[uid] = found
        is_exact = is_exact and not (values.claims and stored.get(uid) is Kind.STRING)
    while prod(map(len, choices.values())) > boxes_max:
        widest = max(choices, key=lambda uid: len(choices[uid]))
        choices[widest] = [_hull(choices[widest])]
        is_exact = False
    chosen = (zip(choices, some, strict=True) for some in product(*choices.values()))
    return [{uid: one for uid, one in some if one is not None} for some in chosen], is_exact


def _choices(values: ValueSet, kind: Kind | None) -> list[Bounds | None]:
    """Return what an attribute may be, one after the other; a None among them leaves it free."""
    if kind is None:  # it is missing in every event
        return [None] if values.absent else []
    edges = values.edges.get(kind, ())
    if values.absent and edges == FULL[kind] and not (values.claims and kind is Kind.STRING):
        return [None]
    missing = [Bounds(is_present=False)] if values.absent else []
    # A bool has two values: both bounds stay, so that each is a point.
    lowest = None if kind is Kind.BOOL else FULL[kind][0]
    return [*missing, *(Bounds(None if low == lowest else low, beyond) for low, beyond in intervals(edges))]


def _hull(choices: Sequence[Bounds | None]) -> Bounds | None:
    known = [one for one in choices if one is not None]
    if len(known) < len(choices) or not all(one.is_present for one in known):
        return None
    # Choices come from low to high.
    return Bounds(known[0].low, known[-1].beyond)


# ------------------------------------------------------------ keys, by which a join finds boxes


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


def buckets_of(ends: Mapping[AttributeUid, Iterable[Any]]) -> dict[AttributeUid, Buckets]:
    """Return the buckets of attributes, by where ranges of them begin and end; some of these are enough."""
    # At most 63 of the values, with about as many of them between any two.
    ordered = ((uid, sorted(values)) for uid, values in ends.items())
    return {
        uid: Buckets(
            tuple(dict.fromkeys(some[at * len(some) // BUCKETS] for at in range(1, BUCKETS) if some))
        )
        for uid, some in ordered
    }


def key_of(
    box: Box, points: Mapping[AttributeUid, int], buckets: Mapping[AttributeUid, Buckets]
) -> Keyed | None:
    """Choose the key of a box; None where no attribute tells it from others.

    These are the two attributes that leave the fewest candidates, values before buckets. `points` says how
    many different values of each attribute are asked for.
    """
    shares: dict[KeyPart, float] = {}
    for uid, bounds in box.items():
        if bounds.is_point:
            shares[KeyPart(False, uid)] = 1 / points[uid]
        elif bounds.is_range and uid in buckets:
            shares[KeyPart(True, uid)] = buckets[uid].share(bounds)
    best = sorted(shares, key=lambda part: (shares[part], part))[:2]
    if len(best) == 2 and (shares[best[1]] > _WIDE or _rows(box, best, buckets) > _ROWS_MAX):
        best.pop()
    shape = tuple(sorted(best))
    touched = tuple(buckets[part.uid].touched(box[part.uid]) for part in shape if part.is_bucket)
    return Keyed(box, shape, touched) if shape else None


def kept_shapes(counts: Mapping[Shape, int]) -> dict[Shape, Shape]:
    """Return what each shape of keys becomes: of a pair that few boxes have, its first attribute is left."""
    pairs = Counter({shape: count for shape, count in counts.items() if len(shape) > 1})
    kept = {shape for shape, _ in pairs.most_common(PAIRS_MAX)}
    return {shape: shape if len(shape) == 1 or shape in kept else shape[:1] for shape in counts}


def _rows(box: Box, parts: Iterable[KeyPart], buckets: Mapping[AttributeUid, Buckets]) -> int:
    touched = (buckets[part.uid].touched(box[part.uid]) for part in parts if part.is_bucket)
    return prod(last - first + 1 for first, last in touched)


# ------------------------------------------------------------ filters that bounds cannot express


@dataclass(frozen=True, slots=True)
class AskCandidates:
    """Keeps the candidates that their filter admits. Fast where neighbours share a filter."""

    read: Callable[[bytes], Predicate]
    stored: Kinds
    number: str
    filter: str
    """The columns with the number and the bytes of the filter; one without bytes is admitted already."""
    kept: tuple[str, ...]

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn batches of candidates, sorted by filter, into batches of matches."""
        last: tuple[int, TestBatch | None] | None = None
        for batch in batches:
            masks = []
            for number, run in _runs(batch, self.number):
                if last is None or last[0] != number:
                    data = run.column(run.schema.get_field_index(self.filter))[0].as_py()
                    last = number, None if data is None else to_arrow_test(self.read(data), self.stored)
                masks.append(pa.repeat(pa.scalar(True), run.num_rows) if last[1] is None else last[1](run))
            if masks:
                yield batch.filter(pa.concat_arrays(masks)).select(self.kept)


def _runs(batch: Any, column: str) -> Iterator[tuple[int, Any]]:
    """Yield the neighbouring rows that have one number."""
    numbers = batch.column(batch.schema.get_field_index(column)).to_numpy(zero_copy_only=False)
    if not len(numbers):
        return
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(starts):
        yield int(numbers[start]), batch.slice(start, end - start)


@dataclass(frozen=True, slots=True)
class AskEverything:
    """Asks each of a bounded number of filters about every event of its type."""

    filters: Mapping[int, tuple[str, Predicate]]
    """By number: the type, and what is asked."""
    stored: Kinds
    type_column: str
    number: str
    kept: tuple[str, ...] = field(default=())

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn batches of events into batches of matches."""
        compiled = {
            number: (event_type, to_arrow_test(predicate, self.stored))
            for number, (event_type, predicate) in self.filters.items()
        }
        types = {event_type for event_type, _ in self.filters.values()}
        for batch in batches:
            column = batch.column(batch.schema.get_field_index(self.type_column))
            for wanted in types:
                events = batch.filter(pc.equal(column, wanted))
                if events.num_rows:
                    tests = {n: test for n, (event_type, test) in compiled.items() if event_type == wanted}
                    yield from self._admitted(events, tests)

    def _admitted(self, events: Any, tests: Mapping[int, TestBatch]) -> Iterator[Any]:
        for number, test in tests.items():
            found = events.filter(test(events)).select(self.kept)
            if found.num_rows:
                numbers = pa.repeat(pa.scalar(number, pa.int64()), found.num_rows)
                yield pa.RecordBatch.from_arrays([*found.columns, numbers], [*self.kept, self.number])
