"""Does a filter that bounds cannot express admit its candidates?

Bulk matching asks inside executors, for filters with questions about texts and
for those that would fall into too many boxes. Each filter is compiled once in
a worker, for whole columns of Arrow; no Python function is called for a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maia.events import Kinds
from maia.predicates.syntax import Predicate
from maia.views.arrow_executor import TestBatch, to_arrow_test

__all__ = ["AskCandidates", "AskEverything"]


@dataclass(frozen=True, slots=True)
class AskCandidates:
    """Keeps the candidates that their filter admits. Fast where neighbours share a filter."""

    filters: Mapping[int, Predicate]
    stored: Kinds
    number: str
    """The column with the number of the filter; one without a filter here is admitted already."""
    kept: tuple[str, ...]

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn batches of candidates, sorted by filter, into batches of matches."""
        compiled: dict[int, TestBatch] = {}
        for batch in batches:
            masks = [self._mask(run, number, compiled) for number, run in _runs(batch, self.number)]
            if masks:
                yield batch.filter(pa.concat_arrays(masks)).select(self.kept)

    def _mask(self, run: Any, number: int, compiled: dict[int, TestBatch]) -> Any:
        if number not in self.filters:
            return pa.repeat(pa.scalar(True), run.num_rows)
        if number not in compiled:
            compiled[number] = to_arrow_test(self.filters[number], self.stored)
        return compiled[number](run)


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
                numbers = pa.repeat(pa.scalar(number, pa.int32()), found.num_rows)
                yield pa.RecordBatch.from_arrays([*found.columns, numbers], [*self.kept, self.number])
