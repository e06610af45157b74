"""Does a join of a large governed table with a small one stay off the driver, and what does it cost?

Ten million sealed events are joined with a thousand rows by a number plate, and counted. The peer is the same
join of plain Parquet with the same values. Beside the time stands how much memory the driver's process and
its Java held at most, over what they held for a hundredth of the rows.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame

from bench_spark import bench_session
from governed_log import record_many
from harness import Benchmark, Case, Figure, at_most
from maia.spark.governed.table import governed
from maia.spark.keys.key_server import job_desk

FEW = 1_000


def cases(quick: bool) -> Iterator[Case]:
    """Yield the race, and the memory."""
    rows = 8_192 if quick else 10_000_000
    with TemporaryDirectory() as folder, bench_session("join", quick=quick) as spark, job_desk() as desk:
        few = record_many(Path(folder) / "few", max(256, rows // 100), 256).known(desk)
        known = record_many(Path(folder) / "log", rows, 256).known(desk)
        table, fewer = governed(spark, **known), governed(spark, **few)
        table.select("numberplate", "speed").write.parquet(f"{folder}/plain")
        plain = spark.read.parquet(f"{folder}/plain")
        names = table.select("numberplate").distinct().limit(FEW).cache()
        names.count()
        joined = [one.join(names, "numberplate") for one in (table, plain)]
        assert joined[0].count() == joined[1].count()
        times = [(_seconds(joined[0]), _seconds(joined[1])) for _ in range(1 if quick else 3)]
        ours, peer = (min(one[side] for one in times) for side in (0, 1))
        note = f"{ours:.1f} s, and {peer:.1f} s of plain Parquet"
        ratios = [one / other for one, other in times]
        yield Figure("the join and a count, over plain Parquet", ratios, at_most(1.3), note=note)
        small = _most(lambda: _counted(fewer.join(names, "numberplate")))
        large = _most(lambda: _counted(table.join(names, "numberplate")))
        note = f"{small >> 20} MiB for {max(256, rows // 100):,} rows, {large >> 20} MiB for {rows:,}"
        yield Figure(
            "memory of the driver, a hundred times the rows", [large / small], at_most(1.1), note=note
        )


def _seconds(joined: DataFrame) -> float:
    began = time.perf_counter()
    _counted(joined)
    return time.perf_counter() - began


def _counted(joined: DataFrame) -> int:
    found = joined.groupBy("numberplate").agg({"speed": "max"}).count()
    assert found
    return found


def _most(run: object) -> int:
    """Return the most memory that this process and its Java have held while something ran."""
    assert callable(run)
    over, seen = threading.Event(), [0]

    def look() -> None:
        while not over.wait(0.05):
            seen[0] = max(seen[0], _held(os.getpid()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        run()
    finally:
        over.set()
        thread.join()
    return seen[0]


def _held(process: int) -> int:
    """Return the resident memory of a process and of the Java that it has started; workers do not count."""
    listed = subprocess.run(
        ["ps", "-o", "rss=,comm=", "--pid", str(process), "--ppid", str(process)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [line.split(None, 1) for line in listed.stdout.splitlines()]
    return sum(int(size) for size, name in found if name.strip() in {"java", "python", "python3"}) * 1024


BENCH = Benchmark(
    number=48,
    name="join",
    about="ten million sealed events joined with a thousand rows, over the same join of plain Parquet",
    cases=cases,
    stood="the table was taken for 231 bytes, and collected on the driver",
    peer_lacks="plain Parquet is neither sealed nor signed, and has no rights",
)
