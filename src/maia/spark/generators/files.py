"""How do ten million made-up events get onto a disk, in seconds and without Java?

`maia pipeline generate` and the benchmarks ask. A few threads make and write
Parquet files; numpy and Arrow let go of the interpreter while they work. All
files are there in the end, or no folder is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from maia.errors import BadInput
from maia.spark.generators import Generator, Order

ROWS_PER_FILE: Final = 500_000


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

    `made` is called for each file with its number of rows. A stream reads files by
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
            try:
                paths = list(pool.map(write, range(0, max(order.rows, 1), rows_per_file)))
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        newest = max(path.stat().st_mtime_ns for path in paths)
        for age, path in enumerate(reversed(paths)):
            # A millisecond is as fine as Spark looks.
            os.utime(path, ns=(newest, newest - age * 1_000_000))
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return [folder / path.name for path in paths]


def _make_folders(folder: Path, unfinished: Path) -> None:
    if folder.exists():
        raise BadInput("INPUT-GENERATION", f"`{folder}` is already there; name a folder that is not")
    try:
        unfinished.mkdir(parents=True)
    except FileExistsError:
        # Left by a process that was killed, which cannot come back for it.
        shutil.rmtree(unfinished)
        unfinished.mkdir()
