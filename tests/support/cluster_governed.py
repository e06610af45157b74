"""A governed table and stream on a cluster, as a driver: `python -m support.cluster_governed FOLDER`.

It reads the sealed log in FOLDER, waits in the middle of the work until a file
`go` is there, and writes what it found. With `--intrude` it only tries to run
something at all.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from maia.pipeline.governed import governed
from maia.runtime.job_desk import JobDesk, job_desk
from maia.types import SealingLevel
from support.cluster_jobs import held_up
from support.governed import PLACE, PLATE, SEEN, Recorded, grant, reader

__all__ = ["FRAMES", "governed_table", "lines", "sealed_log"]

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


def main(folder: Path) -> None:
    """Read on the cluster that the environment names."""
    from maia.runtime.spark_cluster import cluster_of
    from maia.runtime.spark_session import spark_session

    cluster = cluster_of()
    assert cluster is not None
    with (
        spark_session("governed", cores=2, cluster=cluster) as spark,
        job_desk(cluster.driver_host) as desk,
    ):
        table = lines(held_up(governed_table(spark, folder, desk), str(folder)))
        stream = governed_table(spark, folder, desk, is_stream=True)
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder / "out"))
        )
        query.awaitTermination()
        found = {"table": table, "stream": lines(spark.read.parquet(str(folder / "out")))}
        found["refused"] = sorted(desk.refused)
    (folder / "found.json").write_text(json.dumps(found))


def intrude(folder: Path) -> None:
    """Try to run a job on the cluster."""
    from maia.runtime.spark_cluster import cluster_of
    from maia.runtime.spark_session import spark_session

    with spark_session("intruder", cores=1, cluster=cluster_of()) as spark:
        (folder / "got-in").write_text(str(spark.range(1).count()))


if __name__ == "__main__":
    (intrude if "--intrude" in sys.argv else main)(Path(sys.argv[1]))
