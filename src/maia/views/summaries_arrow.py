"""What does a View that summarises show of a batch of events, by column?

The View's ordinary parts go through Arrow's kernels. The groups between them are made in Python, because
Arrow's own sums depend on the order of their values. The answer is that of `summarised` in
`maia.policy.summaries`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from maia.events import SECOND, Attribute, AttributeUid, Instant, Kinds, Value
from maia.expressions.meaning import NO_KEYS, TransformationKeys
from maia.expressions.summaries import Group, GroupKey, derived_event, group_key
from maia.policy.summaries import split
from maia.policy.view import View
from maia.views.arrow_executor import to_arrow, to_arrow_rows
from maia.views.arrow_types import arrow_schema

__all__ = ["SummariseBatch", "to_arrow_summary"]

SummariseBatch: TypeAlias = Callable[[pa.RecordBatch, pa.Array, Instant], pa.RecordBatch]
"""From events, their moments of publication and the present moment to what is shown of closed periods."""


def to_arrow_summary(
    view: View, stored: Kinds, delivered: tuple[Attribute, ...], keys: TransformationKeys = NO_KEYS
) -> SummariseBatch:
    """Return a function from a batch of `stored` columns to what the View shows, by name."""
    parts = split(view)
    summary = parts.summary
    front = to_arrow_rows(parts.front, stored, keys)
    behind = to_arrow(parts.behind, summary.kinds, delivered, keys)
    schema = arrow_schema(summary.kinds)
    every_us = summary.every_s * SECOND

    def summarise(batch: pa.RecordBatch, published_at: pa.Array, closed_at: Instant) -> pa.RecordBatch:
        taken, rows = front(batch)
        moments = published_at.take(rows).cast(pa.int64()).to_pylist()
        columns = {name: _values(taken.column(name)) for name in taken.schema.names}
        groups: dict[tuple[Instant, GroupKey], Group] = {}
        for row, moment in enumerate(moments):
            start = Instant(moment - moment % every_us)
            event = {AttributeUid(name): values[row] for name, values in columns.items()}
            key = group_key(summary, event)
            if key is not None and summary.closes_at(start) <= closed_at:
                groups.setdefault((start, key), Group()).add(summary, event)
        made = [
            derived
            for (start, key), group in groups.items()
            if (derived := derived_event(summary, start, key, group)) is not None
        ]
        arrays = [
            pa.array([one.get(AttributeUid(field.name)) for one in made], field.type) for field in schema
        ]
        return behind(pa.RecordBatch.from_arrays(arrays, schema=schema))

    return summarise


def _values(column: pa.Array) -> list[Value]:
    """Return the values of a column as our own; moments are no datetimes, whose calendar is shorter."""
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    return [None if one is None else Instant(one) for one in pc.cast(column, pa.int64()).to_pylist()]
