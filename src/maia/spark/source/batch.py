"""How does one batch job read from the network?

It subscribes in the one task that it has, reads what its options say, so
many rows or so many seconds or what a durable subscription has up to now, and
ends. Filters that Spark pushes down narrow the subscription. If they name
what this reader may not filter on, it subscribes without them: Spark applies
every filter again anyway, and the answer is the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from maia.clock import system_now
from maia.errors import Refusal
from maia.predicates import Predicate
from maia.spark.source.inbox import HeldFrame, Inbox
from maia.spark.source.options import BadOption, JobOptions, told_to_spark
from maia.spark.source.pushed_filters import pushed_predicates
from maia.spark.source.stream import opened_inbox

__all__ = ["MaiaReader"]

_SECONDS: Final = 60.0
"""How long a read for so many rows waits for them by default."""


class MaiaReader(DataSourceReader):
    """One read, and by what Spark narrowed it."""

    def __init__(self, options: JobOptions) -> None:
        """Refuse a read that would never end."""
        if options.rows is None and options.seconds is None and options.durable is None:
            raise BadOption("a read that is no stream ends by option `rows`, `seconds` or `durable`")
        self._options = options
        self._pushed: tuple[Predicate, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow the subscription by what has an exact counterpart; leave all of it to Spark as well."""
        with told_to_spark():
            self._pushed = pushed_predicates(filters, self._options.event_type().vocabulary)
        return filters

    def partitions(self) -> list[InputPartition]:
        """Read in one task: one subscription has one order."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what arrives, until enough has."""
        del partition
        with told_to_spark():
            inbox = self._opened()
            try:
                yield from self._taken(inbox)
            finally:
                inbox.close()

    def _opened(self) -> Inbox:
        try:
            return opened_inbox(self._options, self._pushed)
        except Refusal:
            if not self._pushed:
                raise
            return opened_inbox(self._options)

    def _taken(self, inbox: Inbox) -> Iterator[pa.RecordBatch]:
        left, done = self._options.rows, 0
        for frames in self._arriving(inbox):
            for frame in frames:
                batch = frame.batch.replace_schema_metadata(None).slice(0, left)
                yield batch
                left = None if left is None else left - batch.num_rows
                if batch.num_rows == frame.batch.num_rows:
                    done = frame.position  # the rest of a frame that was cut comes with the next read
                if left == 0:
                    break
            inbox.forget(done)
            if left == 0:
                return

    def _arriving(self, inbox: Inbox) -> Iterator[list[HeldFrame]]:
        """Yield what arrives in time; of a log, what was published before this began."""
        options, began, position = self._options, system_now(), 0
        is_log = options.durable is not None
        deadline = time.monotonic() + (options.seconds or _SECONDS)
        while (wait_s := deadline - time.monotonic()) > 0:
            frames = inbox.after(position, wait_s=min(wait_s, options.settle_s) if is_log else wait_s)
            if not frames:
                return
            position = frames[-1].position
            ends = (at for at, frame in enumerate(frames) if is_log and frame.published_at > began)
            yield frames[: (end := next(ends, len(frames)))]
            if end < len(frames):
                return
