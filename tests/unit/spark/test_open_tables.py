"""D20: results of a run without an end are an open table, of each key what was said last, each batch once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from maia.places import place_of
from maia.spark.applications import open_table
from maia.spark.applications.open_table import OpenTable, compact, rows_of_table
from maia.spark.errors import told_by_spark, told_to_spark
from maia.testing import raises


class Ticks:
    """A stream over files, each file a batch, whose last word on each key a table keeps."""

    def __init__(self, spark: SparkSession, folder: Path, table: str | None = None) -> None:
        self.spark, self.folder = spark, folder
        self.table = table or str(folder / "table")
        self.files = 0

    def come(self, *rows: tuple[str | None, int]) -> None:
        """Put a file of rows where the stream finds it."""
        (self.folder / "events").mkdir(exist_ok=True)
        names, values = zip(*rows, strict=True)
        found = pa.table({"key": pa.array(names, pa.string()), "value": pa.array(values, pa.int64())})
        beside = self.folder / f"{self.files}.parquet"
        pq.write_table(found, beside)
        beside.rename(self.folder / "events" / beside.name)
        self.files += 1

    def run(self, checkpoint: str = "checkpoint", fails_after: int | None = None, **how: int) -> None:
        """Go on until nothing is left; or die behind the commit of a batch, before Spark knows of it."""
        sink = OpenTable(self.table, name="ticks", keys=("key",), **how)

        def write(said, batch: int) -> None:
            with told_to_spark():
                sink(said, batch)
            if batch == fails_after:
                raise RuntimeError("killed")

        # State that each batch leaves, and the next one needs.
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

    def rows(self) -> Counter[tuple[str | None, int]]:
        """Return what a reader without Maia finds."""
        found = DeltaTable(self.table).to_pyarrow_table().to_pylist()
        return Counter((one["key"], one["value"]) for one in found)


@pytest.fixture
def ticks(spark: SparkSession, tmp_path: Path) -> Ticks:
    return Ticks(spark, tmp_path)


def test_a_table_holds_what_was_said_last_and_every_reader_finds_it(ticks: Ticks) -> None:
    ticks.come(("a", 1), ("b", 1), (None, 1))
    ticks.come(("a", 10), ("c", 1))
    ticks.come((None, 5))
    ticks.run()
    wanted = Counter({("a", 11): 1, ("b", 1): 1, ("c", 1): 1, (None, 6): 1})
    assert ticks.rows() == wanted
    table = DeltaTable(ticks.table)
    for found in (
        pd.concat(map(pd.read_parquet, table.file_uris())).to_dict("records"),
        table.to_pandas().to_dict("records"),
        [one.asDict() for one in ticks.spark.read.parquet(*table.file_uris()).collect()],
        [one.asDict() for one in rows_of_table(ticks.spark, place_of(ticks.table)).collect()],
    ):
        assert Counter((one["key"] or None, one["value"]) for one in found) == wanted
    assert table.to_pyarrow_dataset().to_table(filter=pa.compute.field("key") == "a").num_rows == 1
    assert table.to_pyarrow_dataset().to_table(filter=pa.compute.field("key") > "b").num_rows == 1


def test_a_driver_that_dies_between_commit_and_checkpoint_says_nothing_twice(ticks: Ticks) -> None:
    ticks.come(("a", 1), ("b", 1))
    ticks.come(("a", 10))
    with raises("PIPELINE-JOB-FAILED", match="killed"):
        ticks.run(fails_after=1)
    version = DeltaTable(ticks.table).version()
    before = ticks.rows()
    ticks.run()
    assert DeltaTable(ticks.table).version() == version, "the batch that ran again has committed nothing"
    assert ticks.rows() == before == Counter({("a", 11): 1, ("b", 1): 1})
    ticks.come(("a", 100), ("b", 100))
    ticks.run()
    assert ticks.rows() == Counter({("a", 111): 1, ("b", 101): 1}), "the state of that batch is there"
