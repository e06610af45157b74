"""A stream over files, each file a batch, whose last word on each key is kept in an open table.

`python -m support.ticks FOLDER BATCH`, run in `tests`, is a driver that is killed, and Java with it, when the
table has committed that batch, and Spark has not yet written down that it is done.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from maia.places import place_of, store_options
from maia.spark.applications.open_table import OpenTable
from maia.spark.errors import told_by_spark, told_to_spark
from maia.spark.session.session import spark_session
from support.streaming_job import EVALUATED


class Ticks:
    def __init__(self, spark: SparkSession, folder: Path, table: str | None = None) -> None:
        self.spark, self.folder = spark, folder
        self.table = table or str(folder / "table")
        self.files = 0
        (folder / "events").mkdir(exist_ok=True)

    def come(self, *rows: tuple[str | None, int]) -> None:
        """Put a file of rows where the stream finds it."""
        names, values = zip(*rows, strict=True)
        found = pa.table({"key": pa.array(names, pa.string()), "value": pa.array(values, pa.int64())})
        beside = self.folder / f"{self.files}.parquet"
        pq.write_table(found, beside)
        beside.rename(self.folder / "events" / beside.name)
        self.files += 1

    def run(
        self,
        checkpoint: str = "checkpoint",
        also: Callable[[DataFrame], DataFrame] = lambda said: said,
        killed_after: int | None = None,
        **how: int,
    ) -> None:
        """Go on until nothing is left."""
        sink = OpenTable(self.table, name="ticks", keys=("key",), **how)

        def write(said: DataFrame, batch: int) -> None:
            with told_to_spark():
                sink(also(said), batch)
            if batch == killed_after:
                os.killpg(0, signal.SIGKILL)

        # Sums are state that each batch leaves in the checkpoint, and the next one needs.
        said = (
            self.spark.readStream.schema("key string, value bigint")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.folder / "events"))
            .groupBy("key")
            .sum("value")
            .toDF("key", "value")
        )
        query = (
            said.writeStream.outputMode("update")
            .foreachBatch(write)
            .option("checkpointLocation", str(self.folder / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            with told_by_spark():
                query.awaitTermination()
        finally:
            query.stop()

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(self.table, storage_options=store_options(place_of(self.table)))

    def rows(self) -> Counter[tuple[str | None, int]]:
        """Return what a reader without Maia finds."""
        found = self.delta.to_pyarrow_table().to_pylist()
        return Counter((one["key"], one["value"]) for one in found)


if __name__ == "__main__":
    with spark_session("killed", cores=1, settings=EVALUATED) as session:
        Ticks(session, Path(sys.argv[1])).run(killed_after=int(sys.argv[2]))
