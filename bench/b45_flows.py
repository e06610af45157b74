"""Do the sink and the source of Spark keep up with plain clients, and does a row pass the driver?

The sink publishes the rows of Parquet files, a file a partition. The peer publishes the same files from as
many processes, each a plain client, in turns with it, to the same broker. The source reads what a broker
has recorded, with four readers and with one, each a process that runs the task's own code; as there are
fewer cores than readers, what counts is the processor time of the busiest. Memory is that of the driver,
Python and what Java holds after it has collected garbage, behind some rows and behind ten times as many.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from bench_spark import bench_session
from harness import Benchmark, Case, Figure, at_least, at_most
from live_network import ATTRIBUTES, BrokerProcess, World, broker_process, events, new_world
from maia.credentials import Action, certificate_to_text
from maia.events import Kind
from maia.keystore.key_files import create_key_file
from maia.spark.source.data_source import register_spark
from maia.spark.source.options import job_options
from maia.spark.source.right_desk import Right
from maia.spark.source.stream import MaiaStreamReader, ranges_of
from maia.types import definition_from_bytes, definition_to_text

PARTITIONS = 2
READERS = 4
FRAME_ROWS = 1024
BEGIN = {"log": "", "position": ""}


def cases(quick: bool) -> Iterator[Case]:
    """Yield the sink against plain clients, four readers against one, and the driver's memory."""
    rows, rounds = (4_000, 1) if quick else (1_000_000, 3)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="maia-bench-")))
        world = new_world()
        log = {"folder": str(folder / "log"), "types": ["*"]}
        recording = stack.enter_context(broker_process(world, "recording", log=log, data="data"))
        broker = stack.enter_context(broker_process(world))
        yield _source(world, recording, folder / "source", 8_000 if quick else 200_000, rounds)
        spark = stack.enter_context(bench_session("bench 45", quick=quick, memory_mib=2048))
        register_spark(spark)
        options = _options(world, broker, folder / "sink", Action.PUBLISH)
        some, many = (_written(folder / str(of), of) for of in (rows, 10 * rows))
        clients = stack.enter_context(ProcessPoolExecutor(PARTITIONS, mp_context=get_context("spawn")))
        both = (partial(_sink, spark, options), partial(_plain, clients, options))
        for way in (*both, *both):  # a rehearsal
            way(some)
        before = _memory(spark)
        ours, theirs = [], []
        for _ in range(rounds):
            for way, took in zip(both, (ours, theirs), strict=True):
                took.append(_timed(partial(way, many)) * 1e6)
        after = _memory(spark)
        yield Figure(
            f"{10 * rows:,} rows published by a Spark job, against {PARTITIONS} plain clients: rows a second",
            [peer / our for our, peer in zip(ours, theirs, strict=True)],
            at_least(0.8),
            ours_us=ours,
            peer_us=theirs,
        )
        yield Figure(
            f"memory of the driver behind {10 * rows:,} rows, over that behind {rows:,}",
            [after / before],
            at_most(1.1),
            note=f"{before >> 20} MiB, and then {after >> 20} MiB",
        )


# ---------------------------------------------------------------- files and rights


def _options(world: World, broker: BrokerProcess, folder: Path, action: Action) -> dict[str, str]:
    holder = world.key(f"{action.value} {folder.name}")
    rights = [world.connect_right(holder.principal), world.type_right(holder.principal, action)]
    (folder / "certs").mkdir(parents=True)
    for number, right in enumerate(rights):
        (folder / "certs" / f"{number}.cert").write_text(certificate_to_text(right), encoding="utf-8")
    create_key_file(folder / "holder.key", holder)
    text = definition_to_text(definition_from_bytes(world.definition))
    (folder / "sighting.type").write_text(text, encoding="utf-8")
    return {
        "broker": broker.address,
        "key": str(folder / "holder.key"),
        "credentials": str(folder / "certs"),
        "network": world.network.name,
        "coordinator": str(world.owner.principal),
        "definition": str(folder / "sighting.type"),
    }


def _written(folder: Path, rows: int) -> Path:
    """Write events as Parquet, a file a partition; larger ones repeat a part, later and with other plates."""
    folder.mkdir()
    part = _table(min(rows // PARTITIONS, 50_000))
    for partition in range(PARTITIONS):
        with pq.ParquetWriter(folder / f"{partition}.parquet", part.schema) as writer:
            for at in range(max(1, rows // PARTITIONS // part.num_rows)):
                plates = pa.array([f"{partition}-{at}-{row}" for row in range(part.num_rows)])
                moments = pc.add(part["timestamp"].cast(pa.int64()), at * part.num_rows)
                own = part.set_column(0, "numberplate", plates)
                writer.write_table(own.set_column(1, "timestamp", moments.cast(part["timestamp"].type)))
    return folder


def _table(rows: int) -> pa.Table:
    made = events(rows)
    columns = {}
    for one in ATTRIBUTES:
        column = pa.array([event[one.uid] for event in made])
        columns[one.name] = column.cast(pa.timestamp("us", "UTC")) if one.kind is Kind.TIMESTAMP else column
    return pa.table(columns)


def _timed(work: partial[None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# ---------------------------------------------------------------- publishing


def _sink(spark: SparkSession, options: dict[str, str], folder: Path) -> None:
    """Publish a folder by Spark, a file a task."""
    table = spark.read.parquet(str(folder))
    table.write.format("maia").mode("append").options(**options).save()


def _plain(clients: ProcessPoolExecutor, options: dict[str, str], folder: Path) -> None:
    """Publish it by plain clients, one a file."""
    list(clients.map(partial(_publish, options), sorted(folder.glob("*.parquet"))))


def _publish(options: dict[str, str], file: Path) -> None:
    member = job_options(options).member()
    with member.connect_blocking() as client:
        publisher = client.advertise(member.history())
        for batch in pq.ParquetFile(file).iter_batches(FRAME_ROWS):
            publisher.publish_batch(batch)
        publisher.flush(timeout_s=600)


def _memory(spark: SparkSession) -> int:
    """Return what the driver holds: this process's pages, and Java's objects that are still in use."""
    jvm = spark.sparkContext._jvm
    for _ in range(3):
        jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    pages = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return pages + int(runtime.totalMemory()) - int(runtime.freeMemory())


# ---------------------------------------------------------------- reading


def _source(world: World, broker: BrokerProcess, folder: Path, rows: int, rounds: int) -> Case:
    """Return the processor time of one reader over that of the busiest of four."""
    writing = _options(world, broker, folder / "writer", Action.PUBLISH)
    given = {
        **_options(world, broker, folder / "reader", Action.SUBSCRIBE),
        "durable": "bench",
        "maxRowsPerBatch": str(rows),
    }
    reader = MaiaStreamReader(Right(job_options(given)))
    _wait_for(reader, 0)  # from now on the subscription stands
    _publish(writing, next(iter(sorted(_written(folder / "rows", rows * PARTITIONS).glob("*.parquet")))))
    held = _wait_for(reader, rows)
    one, four = (ranges_of(held, "", readers) for readers in (1, READERS))
    assert len(four) == READERS
    alone, busiest = [], []
    with ProcessPoolExecutor(READERS, mp_context=get_context("spawn")) as processes:
        # Spark's workers live on from task to task: what a process loads the first time is no part of it.
        list(processes.map(partial(_read, given), one * READERS))
        for _ in range(rounds):
            for ranges, found in ((one, alone), (four, busiest)):
                answers = list(processes.map(partial(_read, given), ranges))
                assert sum(count for count, _ in answers) == rows
                found.append(max(seconds for _, seconds in answers) * 1e6)
    reader.stop()
    return Figure(
        f"{rows:,} recorded rows read by {READERS} readers, over one: processor time of the busiest",
        [single / most for single, most in zip(alone, busiest, strict=True)],
        at_least(3),
        ours_us=busiest,
        peer_us=alone,
    )


def _wait_for(reader: MaiaStreamReader, rows: int) -> list[object]:
    began = time.monotonic()
    while True:
        reader.latestOffset(BEGIN, ReadMaxRows(1 << 30))
        held = reader._opened(BEGIN).after("")
        if sum(frame.rows for frame in held) >= rows:
            return held
        assert time.monotonic() - began < 300, "what was recorded did not arrive"


def _read(given: dict[str, str], part: object) -> tuple[int, float]:
    """Read a range as a task does; return its rows and the processor time that took."""
    reader = MaiaStreamReader(Right(job_options(given)))
    began = _processor_s()
    rows = sum(batch.num_rows for batch in reader.read(part))
    return rows, _processor_s() - began


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


BENCH = Benchmark(
    number=45,
    name="flows",
    about="rows through Spark's sink and source by executors, against plain clients and one reader",
    cases=cases,
    stood="the sink brought every row to the driver, 256 MiB at most; the source had one reader",
    peer_lacks="plain clients publish once only if nothing fails: they keep no checkpoint and sort nothing",
)
