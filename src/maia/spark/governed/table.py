"""What may this reader see of the recorded events of a type, as a Spark table?

    governed(spark, "/var/lib/maia/log", Access(reader, versions, keys), TableQuery("speed > 50"))

The driver verifies certificates and decides a View for each period in which
the same ones were valid: what counts is the right at the moment of
publication. Executors read, open and prove frames, of the columns that a
question asks for, and show what the View shows (`asked_columns.py`). The result
is an ordinary DataFrame, and whatever its user adds to it runs on rows and
values that the View shows (docs/decisions/governed-tables.md). With `stream`,
the same table grows with the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from os import PathLike, urandom
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructType

from maia.events import SECOND
from maia.policy.view import is_summarised
from maia.spark.governed.asked_columns import NUMBER, TableRows, asked_columns
from maia.spark.governed.log_folder import BYTES_AT_ONCE, LogFrames, Stretch
from maia.spark.governed.opener import SHOWN_META, FrameOpener
from maia.spark.governed.plan import (
    Access,
    GovernedRead,
    Keys,
    Logs,
    Plan,
    TableQuery,
    check_on_record,
    governed_read,
    steady_spans,
    summary_of_frames,
)
from maia.spark.governed.reading_ledger import reading_ledger, seen_rows
from maia.spark.governed.stream_source import recorded_stream
from maia.spark.session.cluster import desk_place, parallelism
from maia.spark.session.session import PLAN_LENGTH
from maia.views.to_spark import to_spark_summary

__all__ = ["META_COLUMNS", "Access", "Keys", "Streaming", "TableQuery", "governed", "spark_table"]

META_COLUMNS: Final = tuple(SHOWN_META)
"""What a subscriber receives about an event beside its attributes, and what is hidden of it: `with_meta`."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """How a table grows with the log, each frame coming once, whatever segments are joined meanwhile."""

    fails_on_loss: bool = True
    """Whether it ends if the log forgets frames that it has not read."""
    batch_bytes: int = BYTES_AT_ONCE
    """About what a batch reads."""
    require_complete: bool = False
    """Whether it stays where it is while the log is known to lack publications of the type."""


def governed(
    spark: SparkSession,
    log: Logs,
    access: Access,
    query: TableQuery = TableQuery(),  # noqa: B008 - a frozen value that can be shared
    *,
    stream: Streaming | None = None,
    ledger: str | PathLike[str] | None = None,
) -> DataFrame:
    """Return the events in a log as a reader may see them, named as in its version of the type.

    A table shows all that the log has now, a `stream` also what it gets later. `ledger` is a folder in which
    all that the table shows is put on record before it is handed out, as a broker does; the owner of a type
    may demand one. Raises the kernel's refusal if the reader had no right at any moment that was asked for.
    """
    return spark_table(spark, log, governed_read(access, query), stream=stream, ledger=ledger)


def spark_table(
    spark: SparkSession,
    log: Logs,
    read: GovernedRead,
    *,
    stream: Streaming | None = None,
    ledger: str | PathLike[str] | None = None,
) -> DataFrame:
    """Return what was decided as a table of Spark."""
    check_on_record(read.access.versions, ledger)
    if read.is_summary:
        # Errors, `explain` and the history server print plans, in which the restrictions of a summary are:
        # none, unless the author of the job has chosen a length (A93).
        spark.conf.set(PLAN_LENGTH, spark.conf.get(PLAN_LENGTH, "0") or "0")
    if read.is_summary and (stream is not None or ledger is not None):
        raise summary_of_frames()
    if read.access.keys is not None and read.grant is not None:
        # The right was decided before there was a session: its workers reach this process at its own address.
        read = replace(read, grant=read.access.keys.desk.listen(*desk_place(spark), read.grant))
    rows = _SparkTable(spark, log, read, stream, ledger).rows()
    read.warn_of_gaps(log)
    return rows


@dataclass(frozen=True, slots=True)
class _SparkTable:
    """What a reader sees, as Spark's columns."""

    spark: SparkSession
    log: Logs
    read: GovernedRead
    stream: Streaming | None = None
    ledger: str | PathLike[str] | None = None

    def rows(self) -> DataFrame:
        """Return what all periods show."""
        return reduce(DataFrame.unionAll, map(self.of, self.read.parts))

    def of(self, plans: Sequence[Plan]) -> DataFrame:
        """Return what some periods show: a function for each column, of which Spark calls those it needs."""
        if is_summarised(plans[0].slice.view):
            return self._summarised(plans[0])
        opener = self._opener(plans)
        ledger = None if self.ledger is None else reading_ledger(self.read, plans, self.ledger)
        if self.stream is not None:
            return recorded_stream(self.spark, seen_rows(self.read, opener, plans), ledger)
        opener = replace(opener, ranges=self._ranges(opener))
        table = TableRows(urandom(16), seen_rows(self.read, opener, plans), ledger)
        schema = from_arrow_schema(table.seen.schema)
        numbers = _of_size(self.spark, opener, _width(schema)).mapInArrow(table, f"{NUMBER} bigint")
        return asked_columns(numbers, table, schema, self.read.event_type.name.name)

    def _summarised(self, plan: Plan) -> DataFrame:
        """Return what events come to in the periods that lie wholly within a time of the same right.

        It is what a subscriber has received who was connected all that time.
        """
        one, read = plan.slice, self.read
        rows = self._opened([plan], with_meta=True)
        view = to_spark_summary(one.view, plan.kinds, read.delivered, read.access.secrets)
        start = view.start_column(F.col("_published_at"))
        taken = view.front.admitted(rows).select(*view.front.seen, start)
        closes = view.start + F.lit((view.summary.every_s + view.summary.late_s) * SECOND)
        spans = steady_spans(one)
        within = [(view.start >= F.lit(int(first))) & (closes <= F.lit(int(last))) for first, last in spans]
        is_closed = closes <= F.unix_micros(F.current_timestamp())
        return view.grouped(taken, reduce(Column.__or__, within) & is_closed)

    def _opened(self, plans: Sequence[Plan], *, with_meta: bool = False) -> DataFrame:
        """Return the rows of frames, by uid."""
        opener = self._opener(plans, with_meta=with_meta)
        opener = replace(opener, ranges=self._ranges(opener))
        schema = from_arrow_schema(opener.schema)
        return _of_size(self.spark, opener, _width(schema)).mapInArrow(opener, schema)

    def _ranges(self, opener: FrameOpener) -> tuple[tuple[Stretch, ...], ...]:
        """Return which ranges of the log each task reads."""
        return tuple(LogFrames(opener.wanted).ranges(cores=parallelism(self.spark)))

    def _opener(self, plans: Sequence[Plan], *, with_meta: bool = False) -> FrameOpener:
        wanted = self.read.wanted(self.log, plans)
        if self.stream is not None:
            how = self.stream
            wanted = replace(
                wanted,
                fails_on_loss=how.fails_on_loss,
                batch_bytes=how.batch_bytes,
                require_complete=how.require_complete,
            )
        return self.read.opener(wanted, plans, with_meta=with_meta)


_NUMBER_BYTES: Final = 8


def _of_size(spark: SparkSession, opener: FrameOpener, width: int) -> DataFrame:
    """Return the numbers of tasks, as a table that Spark takes to be as large as what they show.

    Spark takes what a function of ours returns for as large as what it is given. One number for each task
    would make every table look tiny, and each join would send it whole to the driver. So as many numbers are
    counted out as fill the room of all events in rows of a `width`, and all but one of each task are left out
    again. Without a manifest, which says how many events there are, a byte of a file may hold one: rather no
    broadcast than one of a large table. But to count takes time, too.
    """
    tasks = len(opener.ranges)
    stretches = [one for task in opener.ranges for one in task]
    packed = sum(one.size for one in stretches if not one.events)
    size = sum(one.events for one in stretches) * width
    size += min(packed * width, max(packed * _PACKED, _LARGE))
    each = max(1, -(-size // (_NUMBER_BYTES * max(1, tasks))))
    numbers = spark.range(0, tasks * each, 1, max(1, tasks))
    return numbers.where(F.col("id") % each == 0).select(F.expr(f"id div {each}").alias("id"))


def _width(schema: StructType) -> int:
    """Return how many bytes Spark takes a row to have."""
    return sum(
        _WIDE if isinstance(one.dataType, StringType | BinaryType) else _NARROW for one in schema.fields
    )


_PACKED: Final = 16
"""How many times as much as its files a large table has at most."""
_LARGE: Final = 64 << 20
"""No table of this size is sent to all tasks, unless somebody asks for it."""
_WIDE: Final = 20
_NARROW: Final = 8
