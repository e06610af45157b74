"""A governed table and stream that the cluster test reads, here and there.

There it waits in the middle of the work until a file `go` is there.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from maia.spark.keys.key_server import JobDesk
from maia.types import SealingLevel
from support.cluster_jobs import held_up
from support.governed import PLACE, PLATE, SEEN, Recorded, governed, grant, reader

__all__ = ["FRAMES", "governed_table", "lines", "read_there", "sealed_log"]

FRAMES = 8


def sealed_log(folder: Path) -> Recorded:
    """Return the log in a folder, whose keys every process of the test can make."""
    return Recorded(folder / "log", SealingLevel.ATTRIBUTE)


def governed_table(spark: SparkSession, folder: Path, desk: JobDesk, *, is_stream: bool = False) -> DataFrame:
    """Return what a reader with part of the rights sees."""
    log = sealed_log(folder)
    return governed(
        spark,
        log=str(log.folder),
        event_type=log.event_type,
        reader=reader(grant(attributes=[PLATE, PLACE, SEEN], restriction="speed < 70")),
        keys=log.keys(desk),
        is_stream=is_stream,
    )


def lines(table: DataFrame) -> list[str]:
    """Return the rows of a table as sorted lines."""
    return sorted(str(tuple(row)) for row in table.collect())


def read_there(spark: SparkSession, folder: Path, desk: JobDesk) -> dict[str, list[str]]:
    """Read the log in a folder on a cluster, as a table and as a stream."""
    table = lines(held_up(governed_table(spark, folder, desk), str(folder)))
    stream = governed_table(spark, folder, desk, is_stream=True)
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    streamed = lines(spark.read.parquet(str(folder / "out")))
    return {"table": table, "stream": streamed, "refused": sorted(desk.refused)}
