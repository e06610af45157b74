"""How do very many made-up events come about, without one process holding them?

`generated` asks Spark's executors to make them, as a data frame. `write_generated`
makes Parquet files with a few threads and no Java, ten million rows in well under
a minute. Both make the same rows.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from maia.pipeline.generators.generator import PER_DAY, BadGeneration, Generator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BATCH_ROWS", "ROWS_PER_FILE", "Order", "generated", "write_generated"]

BATCH_ROWS: Final = 65_536
ROWS_PER_FILE: Final = 500_000


@dataclass(frozen=True, slots=True)
class Order:
    """How many rows are wanted, of which seed, and how many of them make a day."""

    rows: int
    seed: int
    per_day: int = PER_DAY

    def part(self, generator: Generator, start: int, most: int) -> pa.RecordBatch:
        """Return the ordered rows from `start` on, at most so many."""
        rows = min(most, self.rows - start)
        return generator.rows(start=start, rows=rows, seed=self.seed, per_day=self.per_day)


def generated(
    spark: SparkSession, generator: Generator, order: Order, *, partitions: int | None = None
) -> DataFrame:
    """Return the rows as a data frame, made by the executors when they are needed."""
    from maia.views import spark_type

    order.part(generator, order.rows, 0)  # refuses here what executors would refuse

    def made(batches: Iterator[Any]) -> Iterator[Any]:
        # Any: pyarrow is not typed.
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield order.part(generator, number * BATCH_ROWS, BATCH_ROWS)

    parts = -(-order.rows // BATCH_ROWS)
    schema = ", ".join(f"`{name}` {spark_type(kind).simpleString()}" for name, kind in generator.columns)
    return spark.range(0, parts, 1, partitions).mapInArrow(made, schema)


def write_generated(
    folder: Path,
    generator: Generator,
    order: Order,
    *,
    rows_per_file: int = ROWS_PER_FILE,
    threads: int = 2,
    made: Callable[[int], None] = lambda rows: None,
) -> list[Path]:
    """Write the rows as Parquet files into a new folder; all of them are there in the end, or no folder is.

    `made` hears of each file how many rows it has. A stream reads files by
    age, so their times are in the order of their rows.
    """
    order.part(generator, order.rows, 0)
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    _make_folders(folder, unfinished)

    def write(start: int) -> Path:
        some = order.part(generator, start, rows_per_file)
        path = unfinished / f"part-{start // rows_per_file:06}.parquet"
        pq.write_table(pa.Table.from_batches([some]), path)
        made(some.num_rows)
        return path

    try:
        with ThreadPoolExecutor(threads) as pool:
            paths = _all_or_none(pool, write, range(0, max(order.rows, 1), rows_per_file))
        _in_order(paths)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return [folder / path.name for path in paths]


def _make_folders(folder: Path, unfinished: Path) -> None:
    if folder.exists():
        raise BadGeneration(f"`{folder}` is already there; name a folder that is not")
    try:
        unfinished.mkdir(parents=True)
    except FileExistsError:
        # Left by a process that was killed, which cannot come back for it.
        shutil.rmtree(unfinished)
        unfinished.mkdir()


def _all_or_none(pool: ThreadPoolExecutor, write: Callable[[int], Path], starts: range) -> list[Path]:
    try:
        return list(pool.map(write, starts))
    except BaseException:
        pool.shutdown(wait=True, cancel_futures=True)
        raise


def _in_order(paths: list[Path]) -> None:
    newest = max(path.stat().st_mtime_ns for path in paths)
    for age, path in enumerate(reversed(paths)):
        # A millisecond is as fine as Spark looks.
        os.utime(path, ns=(newest, newest - age * 1_000_000))
