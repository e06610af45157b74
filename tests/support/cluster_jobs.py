"""The jobs that the cluster test runs, here and there.

There they wait in the middle of the work until a file `go` is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.credentials.authority import ALL_ATTRIBUTES
from maia.events import AttributeUid, Kind
from maia.policy.view import View, Window
from maia.predicates.syntax import AllOf, Comparison, Operator, TextMatch, TextTest
from maia.spark.applications import BILLING
from maia.spark.matching.bulk import EVENT, TYPE, BulkMatcher, Subscription

__all__ = ["found_by", "found_there", "held_up"]

STORED = {AttributeUid(name): Kind.STRING for name in ("numberplate", "location")}
LETTERS = "ABCDEFGHJKLMNPRSTUVWXY"
WAIT_S = 900


def found_by(spark: SparkSession, folder: Path, through: Callable[[DataFrame], DataFrame]) -> list[str]:
    """Return who is charged, and who receives what, as sorted lines; events go `through` something first."""
    events = through(spark.read.parquet(str(folder / "events")))
    charges = [f"charge {tuple(row)}" for row in BILLING.of(events).collect()]
    told = BulkMatcher(spark, _subscriptions(), STORED).by_subscription(_numbered(events))
    return sorted(charges + [f"delivery {tuple(row)}" for row in told.collect()])


def _numbered(events: DataFrame) -> DataFrame:
    named = events.select(*STORED, "timestamp").withColumn(TYPE, F.lit("sighting"))
    return named.withColumn(EVENT, F.xxhash64(*named.columns)).drop("timestamp").dropDuplicates([EVENT])


def _subscriptions() -> list[Subscription]:
    """Return more filters than a query is written for, so that executors ask them in Arrow."""
    plate, place = STORED
    return [
        Subscription(
            f"{one}{other}",
            "sighting",
            View(
                (
                    Window(
                        AllOf(
                            (
                                Comparison(plate, Operator.GE, one),
                                Comparison(plate, Operator.LT, one + "~"),
                                TextMatch(plate, TextTest.SUFFIX, other),
                            )
                        ),
                        ALL_ATTRIBUTES if one < "M" else frozenset({place}),
                    ),
                )
            ),
        )
        for one in LETTERS
        for other in LETTERS[::8]
    ]


def where_maia_is(spark: SparkSession) -> set[str]:
    """Return the files from which executors import the package."""

    def tell(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        import maia

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"file": [maia.__file__] * batch.num_rows})

    return {row.file for row in spark.range(4, numPartitions=4).mapInArrow(tell, "file string").collect()}


def held_up(events: DataFrame, folder: str) -> DataFrame:
    """Let every task on `events` say that it began, and wait until all may go on."""

    def hold(batches: Iterable[Any]) -> Iterator[Any]:
        import os
        import pathlib
        import time

        pathlib.Path(folder, f"began-{os.getppid()}-{os.getpid()}").touch()
        ends = time.monotonic() + WAIT_S
        while not pathlib.Path(folder, "go").exists() and time.monotonic() < ends:
            time.sleep(0.05)
        yield from batches

    return events.mapInArrow(hold, events.schema)


def found_there(spark: SparkSession, folder: Path) -> dict[str, object]:
    """Run the jobs on a cluster."""
    files = where_maia_is(spark)
    found = found_by(spark, folder, lambda events: held_up(events, str(folder)))
    return {"files": sorted(files), "found": found}
