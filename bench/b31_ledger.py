"""What does it cost to put every delivery on record?

The same broker process twice, over mutual TLS, in frames of 256 and one event at a time: once with a
ledger of all types in its data folder, once without. A record is with the operating system before its
delivery leaves; the disk follows within a second. Then the same sealed log is read in Spark, once by tasks
that put on record what they show, once without: in whole, and of a reader whose right is restricted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from bench_spark import bench_session
from governed_log import READER, grant, record
from harness import Benchmark, Case, Race, Ratio, Side, at_least
from live_network import ATTRIBUTES, FRAME_ROWS, Line, broker_process, maia_line, new_world
from maia.credentials import Action
from maia.predicates import parse_predicate
from maia.spark.governed.table import governed
from maia.spark.keys.key_server import job_desk
from maia.types import SealingLevel


def cases(quick: bool) -> Iterator[Case]:
    """Yield our broker, and our tables, with a ledger against themselves without one."""
    yield from _deliveries(quick)
    yield from _reads(quick)


def _reads(quick: bool) -> Iterator[Case]:
    rows = 10_000 if quick else 2_000_000
    vocabulary = {one.name: one for one in ATTRIBUTES}
    fast = grant(READER, Action.SUBSCRIBE, None, parse_predicate("speed > 50", vocabulary))
    with (
        tempfile.TemporaryDirectory(prefix="maia-reads-") as folder,
        job_desk() as desk,
        bench_session("bench 31", quick=quick) as spark,
    ):
        log = record(Path(folder, "log"), rows=rows, frame_rows=FRAME_ROWS, level=SealingLevel.ATTRIBUTE)
        for name, rights in (("a sealed table", ()), ("the same with a restricted right", (fast,))):
            known = log.known(desk, *rights)
            recorded = governed(spark, ledger=Path(folder, "ledger"), **known)
            plain = governed(spark, **known)
            assert recorded.count() == plain.count()
            sides = [Side(run=partial(_read, one), operations=rows, calls=1) for one in (recorded, plain)]
            yield Race(
                f"{name}, read in Spark",
                ours=sides[0],
                peer=sides[1],
                ratio=Ratio.PEER_OVER_OURS,
                target=at_least(0.95),
            )


def _read(table: DataFrame) -> None:
    table.write.format("noop").mode("overwrite").save()


def _deliveries(quick: bool) -> Iterator[Case]:
    world = new_world()
    for rows, total in ((FRAME_ROWS, 4_096 if quick else 102_400), (1, 256 if quick else 8_192)):
        with tempfile.TemporaryDirectory(prefix="maia-ledger-") as folder:
            ledger = {"folder": str(Path(folder, "ledger")), "all": True}
            with (
                broker_process(world, ledger=ledger) as recording,
                maia_line(world, recording, rows=rows) as ours,
                broker_process(world) as plain,
                maia_line(world, plain, rows=rows) as peer,
            ):
                yield Race(
                    f"frames of {rows}" if rows > 1 else "one event at a time",
                    ours=_side(ours, total),
                    peer=_side(peer, total),
                    ratio=Ratio.PEER_OVER_OURS,
                    target=at_least(0.95),
                )


def _side(line: Line, total: int) -> Side:
    line.carry(total // 4)  # once without the clock, to warm both ends
    return Side(run=lambda: line.carry(total), operations=total, calls=1)


BENCH = Benchmark(
    number=31,
    name="ledger",
    about="events a second through a broker, and rows of a table, with an account of them, over without",
    cases=cases,
    stood="",
    peer_lacks="the peer is our own broker or table, and keeps no account of what it delivered",
)
