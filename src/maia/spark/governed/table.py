"""What may this reader see of the recorded events of a type, as a Spark table?

    governed(spark, "/var/lib/maia/log", Access(reader, versions, keys), TableQuery("speed > 50"))

The driver verifies certificates and decides a View for each period in which
the same ones were valid: what counts is the right at the moment of
publication. Executors read, open and prove frames; then the View is applied as
Catalyst columns. The result is an ordinary DataFrame, and whatever its user
adds to it runs behind the View, on rows and values that the View shows
(docs/decisions/governed-tables.md). With `stream`, the same table grows
with the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import zip_longest
from os import PathLike
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql.pandas.types import from_arrow_schema

from maia.events import SECOND, Attribute, AttributeUid, Kind
from maia.places import place_of
from maia.policy.view import View, is_summarised
from maia.spark.errors import told_to_spark
from maia.spark.governed.log_folder import BYTES_AT_ONCE, LogFrames
from maia.spark.governed.opener import META, PERIOD, FrameOpener
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
from maia.spark.governed.reading_ledger import ReadingLedger, SeenRows, reading_ledger, seen_rows
from maia.spark.governed.stream_source import FORMAT, LEDGER, OPTION, LogStreamSource
from maia.spark.session.cluster import desk_place, parallelism
from maia.spark.session.session import PLAN_LENGTH
from maia.views.plan import spark_type
from maia.views.to_spark import (
    SparkView,
    TransformationKeySource,
    to_spark,
    to_spark_summary,
    walled,
    with_bound,
)

__all__ = ["META_COLUMNS", "Access", "Keys", "Streaming", "TableQuery", "governed", "spark_table"]

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
META_COLUMNS: Final = tuple(META)
"""What a subscriber receives about an event beside its attributes; added by `with_meta`."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """How a table grows with the log, each frame coming once, whatever segments are joined meanwhile."""

    fails_on_loss: bool = True
    """Whether it ends if the log forgets frames that it has not read."""
    batch_bytes: int = BYTES_AT_ONCE
    """About what a batch reads."""


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
    # Errors, `explain` and the history server print plans, in which a View's restrictions are: none, unless
    # the author of the job has chosen a length (A93).
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
        """Return what some periods show: open, then each row by the View of its own period."""
        if is_summarised(plans[0].slice.view):
            return self._summarised(plans[0])
        read, secrets, meta = self.read, self.read.access.secrets, self.read.meta
        if self.ledger is not None:
            opener, ranges = self._ranges(plans)
            shown = seen_rows(read, opener, plans)
            task = _OnRecord(shown, reading_ledger(read, plans, self.ledger))
            return ranges.mapInArrow(task, from_arrow_schema(shown.schema))
        rows = self._opened(plans)
        if len(plans) == 1:
            return to_spark(plans[0].slice.view, plans[0].kinds, read.delivered, secrets).of(rows, *meta)
        view = PeriodsView([(one.slice.view, one.kinds) for one in plans], read.delivered, secrets)
        seen = with_bound(rows, view.bound).where(view.admits).select(*view.seen, *meta, PERIOD)
        return walled(seen.where(view.interest).select(*view.delivered, *meta))

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
        opener, ranges = self._ranges(plans, with_meta=with_meta)
        return ranges.mapInArrow(opener, from_arrow_schema(opener.schema))

    def _ranges(self, plans: Sequence[Plan], *, with_meta: bool = False) -> tuple[FrameOpener, DataFrame]:
        """Return what opens frames, and what tells tasks which ranges of the log they read."""
        opener, spark = self._opener(plans, with_meta=with_meta), self.spark
        if self.stream is not None:
            spark.dataSource.register(LogStreamSource)
            options = {OPTION: opener.wanted.as_option()}
            if self.ledger is not None:
                options[LEDGER] = str(place_of(self.ledger))
            return opener, spark.readStream.format(FORMAT).options(**options).load()
        ranges = LogFrames(opener.wanted).ranges(cores=parallelism(spark))
        opener = replace(opener, ranges=tuple(ranges))
        return opener, _of_size(spark, opener)

    def _opener(self, plans: Sequence[Plan], *, with_meta: bool) -> FrameOpener:
        wanted = self.read.wanted(self.log, plans)
        if self.stream is not None:
            how = self.stream
            wanted = replace(wanted, fails_on_loss=how.fails_on_loss, batch_bytes=how.batch_bytes)
        return self.read.opener(wanted, plans, with_meta=with_meta)


@dataclass(frozen=True, slots=True)
class _OnRecord:
    """Opens frames, shows what the Views show, and puts it on record before: all that a task does."""

    seen: SeenRows
    ledger: ReadingLedger

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn what Spark hands a task, numbers of ranges or ranges, into batches of rows."""
        with told_to_spark():
            opener = self.seen.opener
            opened = opener.opened(opener.stretches(batches))
            yield from self.ledger.shown(self.seen.of(opened), self._read())

    def _read(self) -> str:
        """Return what attempts at one work have in common: a batch of a query, or a stage over a table."""
        context = TaskContext.get()
        assert context is not None  # noqa: S101 - Spark has one for every task
        query, batch = (context.getLocalProperty(name) for name in (_QUERY, _BATCH))
        if query is not None and batch is not None:
            return f"query-{query}-{batch}"
        return f"table-{self.ledger.table}-{context.stageId()}"


# The Views of several periods as one. Each row goes through
# the View of its own period and no other: Catalyst evaluates a branch of a
# CASE only for the rows that take it.


class PeriodsView:
    """The Views of several periods as columns, over rows that say of which period they are."""

    def __init__(
        self,
        views: Sequence[tuple[View, Mapping[AttributeUid, Kind]]],
        delivered: tuple[Attribute, ...],
        keys: TransformationKeySource | None = None,
    ) -> None:
        """Compile each View over the attributes that its period has."""
        self._views: list[SparkView] = [
            to_spark(view, dict(kinds), delivered, keys, place) for place, (view, kinds) in enumerate(views)
        ]
        self._seen: list[dict[AttributeUid, Column]] = [
            dict(zip(made.uids, made.seen, strict=True)) for made in self._views
        ]
        self._delivered = delivered

    @property
    def bound(self) -> list[list[Column]]:
        """Return the columns that the Views bind, level by level."""
        levels = zip_longest(*(view.bound for view in self._views), fillvalue=())
        return [[column for columns in level for column in columns] for level in levels]

    @property
    def admits(self) -> Column:
        """Return which rows may be read."""
        return _by_period(enumerate(view.admits for view in self._views))

    @property
    def seen(self) -> list[Column]:
        """Return what is seen of them, by uid."""
        return [self._seen_column(uid).alias(uid) for uid in self._uids]

    @property
    def interest(self) -> Column:
        """Return which of those are wanted."""
        wanted = (F.lit(True) if view.interest is None else view.interest for view in self._views)
        return _by_period(enumerate(wanted))

    @property
    def delivered(self) -> list[Column]:
        """Return the attributes by the names of the reader's version."""
        return [self._delivered_column(attribute) for attribute in self._delivered]

    @property
    def _uids(self) -> list[AttributeUid]:
        return sorted({uid for seen in self._seen for uid in seen})

    def _seen_column(self, uid: AttributeUid) -> Column:
        shown = ((number, seen[uid]) for number, seen in enumerate(self._seen) if uid in seen)
        return _by_period(shown)

    def _delivered_column(self, attribute: Attribute) -> Column:
        if attribute.uid in self._uids:
            return F.col(f"`{attribute.uid}`").alias(attribute.name)
        return F.lit(None).cast(spark_type(attribute.kind)).alias(attribute.name)


def _by_period(columns: Iterable[tuple[int, Column]]) -> Column:
    """Return each row's column by its period: null where there is none for it."""
    (first, column), *others = columns
    begun = F.when(F.col(PERIOD) == first, column)
    return reduce(lambda made, one: made.when(F.col(PERIOD) == one[0], one[1]), others, begun)


_NUMBER_BYTES: Final = 8


def _of_size(spark: SparkSession, opener: FrameOpener) -> DataFrame:
    """Return the numbers of ranges, one for each task, as a table that Spark takes for as large as its files.

    Spark takes what a function of ours returns for as large as what it is given. One number for each task
    would make every table look tiny, and each join would send it whole to the driver. So as many numbers are
    counted out as fill the room of the files, and all but one of each task are left out again.
    """
    tasks = len(opener.ranges)
    read = sum(one.size for task in opener.ranges for one in task)
    each = max(1, -(-read // (_NUMBER_BYTES * max(1, tasks))))
    numbers = spark.range(0, tasks * each, 1, max(1, tasks))
    return numbers.where(F.col("id") % each == 0).select(F.expr(f"id div {each}").alias("id"))
