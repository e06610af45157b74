"""What may this reader see of the recorded events of a type, as a Spark table?

    governed(spark, log="/var/lib/maia/log", event_type=…, reader=…, keys=…)

The driver verifies certificates and decides a View for each period in which
the same ones were valid: what counts is the right at the moment of
publication. Executors open and prove frames; then the View is applied as
Catalyst columns. The result is an ordinary DataFrame, and whatever its user
adds to it runs behind the View, on rows and values that the View shows
(docs/decisions/governed-tables.md). With `is_stream`, the same table grows
with the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql import types as t

from maia.clock import system_now
from maia.credentials.requirements import NO_REQUIREMENT
from maia.events import SECOND, Attribute, AttributeUid, Instant, Kind
from maia.policy.view import View, is_summarised
from maia.predicates import ALWAYS, Predicate
from maia.spark.governed.frame_reader import PERIOD, PeriodsOpener
from maia.spark.governed.log_folder import BYTES_AT_ONCE
from maia.spark.governed.plan import (
    GovernedRead,
    Keys,
    Plan,
    check_on_record,
    governed_read,
    steady_spans,
    summary_of_frames,
)
from maia.spark.governed.reader import (
    Reader,
)
from maia.spark.governed.reading_ledger import ShownRows, put_on_record
from maia.spark.governed.recorded_log import Recorded, between
from maia.spark.governed.right_watch import Watch
from maia.types import VerifiedType
from maia.views.plan import spark_type
from maia.views.to_spark import (
    SparkView,
    TransformationKeySource,
    to_spark,
    to_spark_summary,
    walled,
    with_bound,
)

# How do the Views of several periods become one, for rows that say of which period they are?
#
# A governed stream asks, if its reader's rights changed. Each row goes through
# the View of its own period and no other: Catalyst evaluates a branch of a
# CASE only for the rows that take it.


class PeriodsView:
    """The Views of several periods as columns, over what `opening.PeriodsOpener` makes."""

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


__all__ = ["META_COLUMNS", "Keys", "governed"]

META_COLUMNS: Final[Mapping[str, t.DataType]] = {
    "_publisher": t.BinaryType(),
    "_stream": t.BinaryType(),
    "_sequence": t.LongType(),
    "_row": t.IntegerType(),
    "_published_at": t.TimestampType(),
}
"""What a subscriber receives about an event beside its attributes; added by `with_meta`."""


def governed(  # noqa: PLR0913 - every one is named at the call
    spark: SparkSession,
    *,
    log: str,
    segments: Collection[str | PathLike[str]] | None = None,
    event_type: VerifiedType,
    reader: Reader,
    keys: Keys | None = None,
    filter: Predicate | str = ALWAYS,  # noqa: A002 - it is called so in requests and in the client
    requires: Predicate | str = NO_REQUIREMENT,
    columns: Collection[str] | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    versions: Sequence[VerifiedType] = (),
    with_meta: bool = False,
    is_stream: bool = False,
    fails_on_loss: bool = True,
    batch_bytes: int = BYTES_AT_ONCE,
    watch: Watch | None = None,
    shown_as: VerifiedType | None = None,
    transformation_keys: TransformationKeySource | None = None,
    ledger: str | PathLike[str] | None = None,
) -> DataFrame:
    """Return the events published between two moments as `reader` may see them, named as in `event_type`.

    `segments` are the files to read, as the log's manifest names them
    (`LogView.segments`, which verifies them first); without them, all that the
    log has now. A stream goes on with what the log gets later, each frame once,
    whatever is joined meanwhile; if the log forgets frames that it has not read,
    it ends, unless `fails_on_loss` is false. A batch reads about `batch_bytes`.
    Frames show only if their publisher's identity statement meets `requires`, and
    the reader's the requirement of the publisher, each at the moment of publication.
    `versions` are others of the same type whose attributes a right may name
    of. `columns` opens only some attributes, by name. `watch` tests the reader
    now, which includes one-time questions about this request, and ends the
    table's grants when its right is gone; executors ask for them if there are
    `keys`, with a source or without. `shown_as` is the type that the reader's right converts events into,
    and in whose names the filter and the columns are then; `transformation_keys` is where executors
    find the secrets of pseudonyms and noise. `ledger` is a folder in which all that the table shows is
    put on record before it is handed out, as a broker does; the owner of a type may demand one. Raises
    the kernel's refusal if the reader had no right at any moment of the period.
    """
    check_on_record((*versions, event_type), ledger, is_stream=is_stream)
    read = governed_read(
        event_type=event_type,
        reader=reader,
        keys=keys,
        filter=filter,
        requires=requires,
        columns=columns,
        since=since,
        until=until,
        versions=versions,
        with_meta=with_meta,
        watch=watch,
        shown_as=shown_as,
    )
    if is_stream and read.is_summary:
        raise summary_of_frames()
    table = _Table(read, transformation_keys)
    recorded = Recorded(spark, log, event_type.type_id, *read.outer)
    if is_stream:
        frames = recorded.stream(read.uids, fails_on_loss=fails_on_loss, batch_bytes=batch_bytes)
    else:
        frames = recorded.table(read.uids, None if segments is None else tuple(map(str, segments)))
    if is_stream and len(read.plans) > 1:
        rows = table.of_all(frames)
    else:
        rows = reduce(DataFrame.unionAll, [table.of(frames, plan) for plan in read.plans])
    if ledger is not None:
        marked = _Table(read.with_frames(), transformation_keys)
        parts = [(one.slice, _shown_rows(marked.of(frames, one), read.delivered)) for one in read.plans]
        put_on_record(Path(ledger), parts, request=read.request, reader=read.reader, now=system_now())
    read.warn_of_gaps(log)
    if watch is not None:
        watch.begin(read.held())
    return rows


def _shown_rows(rows: DataFrame, delivered: Sequence[Attribute]) -> Iterator[ShownRows]:
    """Yield, for each frame, rows that show the same attributes; a partition at a time."""
    frame = ("_publisher", "_stream", "_sequence")
    shown = F.array_compact(
        F.array(*(F.when(F.col(f"`{one.name}`").isNotNull(), F.lit(one.uid)) for one in delivered))
    )
    found = (
        rows.select(*frame, "_row", shown.alias("shown"))
        .groupBy(*frame, "shown")
        .agg(F.collect_set("_row").alias("rows"))
        .toLocalIterator()
    )
    for publisher, stream, sequence, uids, numbers in found:
        yield ShownRows(bytes(publisher), bytes(stream), sequence, tuple(sorted(uids)), numbers)


# ------------------------------------------------------------ rows


@dataclass(frozen=True, slots=True)
class _Table:
    """What a reader sees, as Spark's columns."""

    read: GovernedRead
    transformation_keys: TransformationKeySource | None = None

    def of(self, frames: DataFrame, plan: Plan) -> DataFrame:
        """Return what one period shows: open, then the View, then whatever its user adds."""
        if is_summarised(plan.slice.view):
            return self._summarised(frames, plan)
        view = to_spark(plan.slice.view, plan.kinds, self.read.delivered, self.transformation_keys)
        return view.of(self._opened(frames, plan, self.read), *self._meta)

    def of_all(self, frames: DataFrame) -> DataFrame:
        """Return what all periods show, from one source: each row goes by the View of its own period."""
        read = self.read
        opener = PeriodsOpener(tuple(read.opener(plan) for plan in read.plans))
        kinds = opener.kinds
        schema = _schema(kinds, with_meta=read.with_meta).add(PERIOD, t.IntegerType())
        rows = between(frames, *read.outer, kinds).mapInArrow(opener, schema)
        views = [(plan.slice.view, plan.kinds) for plan in read.plans]
        view, meta = PeriodsView(views, read.delivered, self.transformation_keys), self._meta
        seen = with_bound(rows, view.bound).where(view.admits).select(*view.seen, *meta, PERIOD)
        return walled(seen.where(view.interest).select(*view.delivered, *meta))

    def _summarised(self, frames: DataFrame, plan: Plan) -> DataFrame:
        """Return what events come to in the periods that lie wholly within a time of the same right.

        It is what a subscriber has received who was connected all that time.
        """
        one = plan.slice
        rows = self._opened(frames, plan, replace(self.read, with_meta=True))
        view = to_spark_summary(one.view, plan.kinds, self.read.delivered, self.transformation_keys)
        start = view.start_column(F.col("_published_at"))
        taken = view.front.admitted(rows).select(*view.front.seen, start)
        closes = view.start + F.lit((view.summary.every_s + view.summary.late_s) * SECOND)
        spans = steady_spans(one)
        within = [(view.start >= F.lit(int(first))) & (closes <= F.lit(int(last))) for first, last in spans]
        is_closed = closes <= F.unix_micros(F.current_timestamp())
        return view.grouped(taken, reduce(Column.__or__, within) & is_closed)

    @property
    def _meta(self) -> list[str]:
        return [name for name in META_COLUMNS if self.read.with_meta]

    def _opened(self, frames: DataFrame, plan: Plan, read: GovernedRead) -> DataFrame:
        chosen = between(frames, plan.slice.since, plan.slice.until, plan.kinds)
        return chosen.mapInArrow(read.opener(plan), _schema(plan.kinds, with_meta=read.with_meta))


def _schema(kinds: Mapping[AttributeUid, Kind], *, with_meta: bool) -> t.StructType:
    fields = [t.StructField(uid, spark_type(kind)) for uid, kind in kinds.items()]
    meta = [t.StructField(name, kind) for name, kind in META_COLUMNS.items() if with_meta]
    return t.StructType([*fields, *meta])
