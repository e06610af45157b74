"""D20: results of a run without an end are an open table, of each key what was said last, each batch once."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark import TaskContext
from pyspark.sql import SparkSession

from maia.cli import main
from maia.places import Place, place_of
from maia.spark.applications import open_table, results
from maia.spark.applications.open_table import OpenTable, compact, rows_of_table
from maia.spark.applications.results import write_files
from maia.spark.errors import SparkProblem
from maia.testing import raises
from support.ticks import Ticks


@pytest.fixture
def ticks(spark: SparkSession, tmp_path: Path) -> Ticks:
    return Ticks(spark, tmp_path)


@pytest.mark.parametrize("broadcast_rows", [100_000, 0])  # new keys are sent to each task, or sorted
def test_a_table_holds_what_was_said_last_and_every_reader_finds_it(
    ticks: Ticks, monkeypatch: pytest.MonkeyPatch, broadcast_rows: int
) -> None:
    monkeypatch.setattr(open_table, "_BROADCAST_ROWS", broadcast_rows)
    ticks.come(("a", 1), ("b", 1), (None, 1))
    ticks.come(("a", 10), ("c", 1))
    ticks.come((None, 5))
    ticks.run()
    wanted = Counter({("a", 11): 1, ("b", 1): 1, ("c", 1): 1, (None, 6): 1})
    assert ticks.rows() == wanted
    assert Path(ticks.table).stat().st_mode & 0o777 == 0o700, "results are their owner's alone"
    files, spark = ticks.delta.file_uris(), ticks.spark
    for found in (
        pd.concat(map(pd.read_parquet, files)).to_dict("records"),
        pl.read_parquet(files).to_dicts(),
        [one.asDict() for one in spark.read.parquet(*files).collect()],
        [one.asDict() for one in rows_of_table(spark, place_of(ticks.table)).collect()],
    ):
        assert (
            Counter((one["key"] if one["key"] == one["key"] else None, one["value"]) for one in found)
            == wanted
        )
    dataset = ticks.delta.to_pyarrow_dataset()  # leaves out files by what the log says of them
    assert dataset.to_table(filter=pc.field("key") == "a").num_rows == 1
    assert dataset.to_table(filter=pc.field("key") > "a").num_rows == 2
    assert dataset.to_table(filter=pc.field("value") == 6).num_rows == 1


def test_a_driver_that_is_killed_between_commit_and_checkpoint_says_nothing_twice(ticks: Ticks) -> None:
    ticks.come(("a", 1), ("b", 1))
    ticks.come(("a", 10))
    killed = subprocess.run(
        [sys.executable, "-m", "support.ticks", str(ticks.folder), "1"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
        timeout=600,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert not (ticks.folder / "checkpoint" / "commits" / "1").exists()
    before, version = ticks.rows(), ticks.delta.version()
    assert before == Counter({("a", 11): 1, ("b", 1): 1})
    ticks.run()
    assert (ticks.folder / "checkpoint" / "commits" / "1").exists()
    assert ticks.delta.version() == version, "the batch that ran again has committed nothing"
    assert ticks.rows() == before
    ticks.come(("a", 100), ("b", 100))
    ticks.run()
    assert ticks.rows() == Counter({("a", 111): 1, ("b", 101): 1}), "the state of that batch is there"


def test_what_a_killed_task_has_written_is_in_no_version_and_goes_with_the_next_vacuum(ticks: Ticks) -> None:
    rows = Counter({(f"k{number}", number): 1 for number in range(40)})  # some for each task
    ticks.come(*rows)
    table, mark = Path(ticks.table), ticks.folder / "killed"

    def dies(batches):
        if TaskContext.get().partitionId() and not mark.exists():
            end = time.monotonic() + 120
            while not list(table.glob("*.parquet")) and time.monotonic() < end:  # the other task has written
                time.sleep(0.05)
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    def divided(said):
        return said.repartition(2).mapInArrow(dies, said.schema)

    with raises("PIPELINE-JOB-FAILED"):
        ticks.run(also=divided)
    left = list(table.glob("*.parquet"))
    assert left
    assert ticks.rows() == Counter()
    ticks.run(also=divided)
    assert ticks.rows() == rows
    assert compact(place_of(ticks.table), keep_hours=0).deleted >= len(left)
    assert not any(one.exists() for one in left)
    assert ticks.rows() == rows


def test_small_files_are_joined_while_a_run_goes_on_and_on_request(
    ticks: Ticks, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(5):
        ticks.come((f"k{number}", number), ("again", 1))
    ticks.run(compact_every=4)
    wanted = Counter({**{(f"k{number}", number): 1 for number in range(5)}, ("again", 5): 1})
    assert ticks.rows() == wanted
    assert "OPTIMIZE" in [one["operation"] for one in ticks.delta.history()]
    assert main(["pipeline", "compact", ticks.table, "--keep-hours", "0", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["files"] == 1
    assert done["deleted"] > 5
    assert [one.name for one in Path(ticks.table).glob("*.parquet")] == [
        Path(one).name for one in ticks.delta.file_uris()
    ]
    ticks.come(("again", 1))
    ticks.run()
    assert ticks.rows() == wanted - Counter({("again", 5): 1}) + Counter({("again", 6): 1})


def test_a_batch_is_committed_though_a_compaction_came_first(
    ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks.come(("a", 2))
    ticks.come(("b", 2))
    ticks.run(compact_every=0)
    replaced, is_first = OpenTable._replaced, [True]

    def meanwhile(self, *words):
        found = replaced(self, *words)
        if is_first.pop() if is_first else False:
            assert compact(place_of(ticks.table)).joined  # of the files that the batch is about to replace
        return found

    monkeypatch.setattr(OpenTable, "_replaced", meanwhile)
    ticks.come(("a", 1))
    ticks.come(("c", 1))
    ticks.run(compact_every=0)
    assert not is_first
    assert ticks.rows() == Counter({("a", 3): 1, ("b", 2): 1, ("c", 1): 1})


def test_a_table_of_another_checkpoint_or_of_others_is_refused(ticks: Ticks, tmp_path: Path) -> None:
    ticks.come(("a", 1))
    ticks.run()
    with raises("INPUT-PIPELINE-RESULT", match="of another checkpoint"):
        ticks.run("another")
    assert ticks.rows() == Counter({("a", 1): 1})
    ticks.come(("a", 1))
    with raises("INPUT-PIPELINE-RESULT", match="its columns are `key` string, `value` int64, and the result"):
        ticks.run(also=lambda said: said.withColumnRenamed("value", "sum"))
    theirs = Ticks(ticks.spark, tmp_path, str(tmp_path / "theirs"))
    write_deltalake(theirs.table, pa.table({"key": ["x"], "value": [1]}))
    with raises("INPUT-PIPELINE-RESULT", match="Maia has not made it"):
        theirs.run("third")
    folders = Ticks(ticks.spark, tmp_path, str(tmp_path / "events"))
    with raises("INPUT-PIPELINE-RESULT", match="--format parquet"):
        folders.run("fourth")


def test_a_place_that_cannot_be_written_ends_a_run_with_one_sentence(
    ticks: Ticks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks.come(("a", 1))
    (tmp_path / "file").touch()
    below = Ticks(ticks.spark, tmp_path, str(tmp_path / "file" / "table"))
    with raises("PIPELINE-PLACE", match=r"file/table` cannot be .*: Not a directory"):
        below.run()

    def is_full(*_words: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(results, "_create", is_full)
    rows = ticks.spark.createDataFrame([("a", 1)], "key string, value bigint")
    writer = results._writer(rows, place_of(tmp_path), "part")
    with pytest.raises(SparkProblem, match=r"^\[PIPELINE-PLACE\] a worker on .*: No space left on device"):
        list(writer(iter([pa.RecordBatch.from_pydict({"key": ["a"], "value": [1]})])))


def test_bounds_in_the_log_are_never_narrower_than_what_is_in_a_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.sql(
        "select * from values (timestamp'2026-11-16 12:00:00.000001', 'b', 7L, 1.5D, repeat('x', 100)), "
        "(timestamp'2026-11-16 12:00:00.000999', 'a', null, null, 'y') t(seen, name, number, real, long)"
    ).coalesce(1)
    (one,) = write_files(rows, place_of(tmp_path))
    assert json.loads(one.stats) == {
        "numRecords": 2,
        "minValues": {"seen": "2026-11-16T12:00:00.000Z", "name": "a", "number": 7},
        "maxValues": {"seen": "2026-11-16T12:00:00.001Z", "name": "b", "number": 7},
        "nullCount": {"seen": 0, "name": 0, "number": 1, "real": 1, "long": 0},
    }
    assert one.size == (tmp_path / one.name).stat().st_size


def test_an_open_table_lies_in_an_object_store(
    spark_in_store: SparkSession, bucket: Place, tmp_path: Path
) -> None:
    ticks = Ticks(spark_in_store, tmp_path, str(bucket / "table"))
    ticks.come(("a", 1), ("b", 1))
    ticks.come(("a", 10))
    ticks.run(compact_every=2)
    assert ticks.rows() == Counter({("a", 11): 1, ("b", 1): 1})
    assert {tuple(one) for one in rows_of_table(spark_in_store, bucket / "table").collect()} == set(
        ticks.rows()
    )
    assert isinstance(ticks.delta, DeltaTable)
