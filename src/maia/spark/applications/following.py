"""How does an application run for as long as there are events, and go on where it was?

`maia pipeline run NAME --follow` asks. Spark keeps its offsets and its state in a checkpoint. What it says
about a batch of events goes to an open table, whose log knows which batches are in it (`open_table.py`), or
to a folder for each batch that a batch which runs again replaces; or
leaves as events under the job's own right, under numbers that a batch which runs again has again
(`maia.spark.sink.writer`). So after `kill -9` of the driver or of an executor the next run loses nothing
and says nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.errors import BadInput
from maia.places import place_of
from maia.spark.applications.application import Application
from maia.spark.applications.open_table import (
    COMPACT_EVERY,
    OpenTable,
    check_open_table,
    is_open_table,
    rows_of_table,
)
from maia.spark.errors import told_to_spark
from maia.views.plan import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from maia.types import VerifiedType

BATCH: Final = "maia_batch"
"""The column that says of which batch a row of a table of folders is."""


class Format(StrEnum):
    """What a table is, in the place where it lies."""

    DELTA = "delta"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where results go: to a table in a place, or to the network."""

    table: str | None = None
    options: Mapping[str, str] | None = None
    """Those of the format `maia`, of the job's own right."""
    event_type: VerifiedType | None = None
    form: Format = Format.DELTA
    compact_every: int = COMPACT_EVERY
    """After so many batches with results an open table is compacted; 0 for never."""

    # Any: each application has terms of its own.
    def sink(self, application: Application[Any]) -> Callable[[DataFrame, int], None]:
        """Return what puts each batch where it belongs; the same batch again changes nothing."""
        if self.event_type is not None:
            return _Published(self.options or {}, self.event_type)
        assert self.table is not None  # noqa: S101 - one of both is there
        if self.form is Format.PARQUET:
            return _Folders(self.table)
        check_open_table(self.table)
        name, keys = application.name, application.keys
        return OpenTable(self.table, name=name, keys=keys, compact_every=self.compact_every)


@dataclass(frozen=True, slots=True)
class _Published:
    """Results as events."""

    options: Mapping[str, str]
    event_type: VerifiedType

    def __call__(self, said: DataFrame, batch: int) -> None:
        events = as_events(said, self.event_type)
        events.write.format("maia").mode("append").options(**self.options).save()


@dataclass(slots=True)
class _Folders:
    """A folder of Parquet files for each batch."""

    table: str
    is_first: bool = True

    def __call__(self, said: DataFrame, batch: int) -> None:
        if self.is_first:
            self._check(said.sparkSession, batch)
            self.is_first = False
        said.write.mode("overwrite").parquet(f"{self.table}/{BATCH}={batch}")

    def _check(self, spark: SparkSession, batch: int) -> None:
        """Refuse a table with later batches: no checkpoint goes back, so they are another's."""
        try:
            there = spark.read.schema(f"{BATCH} bigint").parquet(self.table).where(F.col(BATCH) > batch)
        except AnalysisException as problem:
            if problem.getCondition() == "PATH_NOT_FOUND":
                return
            raise
        if there.limit(1).count():
            raise BadInput(
                "INPUT-PIPELINE-RESULT",
                f"`{self.table}` has later batches than {batch}, at which this checkpoint is: they are "
                "another's; go on with that checkpoint, or name a new table (--out)",
            )


# Any: each application has terms of its own.
def start_following(
    application: Application[Any],
    events: DataFrame,
    terms: object,
    outlet: Outlet,
    *,
    checkpoint: str,
    every_s: float,
) -> StreamingQuery:
    """Start an application over a stream that does not end, or go on from its checkpoint."""
    result = application.of(events, terms)
    if outlet.event_type is not None:
        as_events(result, outlet.event_type)  # refuses before anything runs
    sink = outlet.sink(application)

    def write(said: DataFrame, batch: int) -> None:
        with told_to_spark():
            sink(said, batch)

    return (
        result.writeStream.outputMode("update")
        .queryName(f"maia {application.name}")
        .foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{every_s:g} seconds")
        .start()
    )


def table_of(spark: SparkSession, application: Application[Any], table: str) -> DataFrame:
    """Return the table that an application keeps: of each key, what was said last."""
    if is_open_table(place := place_of(table)):
        return rows_of_table(spark, place)
    said, keys = spark.read.parquet(table), list(application.keys)
    last = said.groupBy(*keys).agg(F.max(BATCH).alias(BATCH))
    return said.join(last, [*keys, BATCH], "left_semi").drop(BATCH)


def as_events(result: DataFrame, event_type: VerifiedType) -> DataFrame:
    """Return the columns of a result that are attributes of a type, as its kinds."""
    shared = [one for one in event_type.attributes if one.name in result.columns]
    if not shared:
        raise BadInput(
            "INPUT-SPARK-COLUMN",
            f"`{event_type.name.name}` has no attribute that is called like a column of the result: "
            + ", ".join(result.columns),
        )
    return result.select(*(F.col(one.name).cast(spark_type(one.kind)).alias(one.name) for one in shared))
