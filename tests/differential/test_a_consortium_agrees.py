"""Three organisations share both ways: readers see the same live, durably, by MQTT, HTTP, Spark and SQL.

Over one set of real servers. Every broker is killed once while the others publish, so that what its readers'
durable subscriptions and tables show has been fetched later. `make agreement` draws other
consortia; `MAIA_WORLD=48113` repeats one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg

from maia.testing import DEADLINE_S, wait_until
from support.consortium import (
    ORGANISATIONS,
    Consortium,
    Row,
    Stream,
    consortium,
    follow_http,
    follow_live,
    follow_mqtt,
    keep_durable,
    read_arrow,
    read_durable,
    read_spark,
    read_sql,
    settle,
)

FIRST = 48_117
WORLDS = max(1, int(os.environ.get("MAIA_AGREEMENT", "5")) // 50)
ROWS = 27


def test_every_reader_sees_the_same_in_every_way(spark, postgres_server: str, tmp_path: Path) -> None:
    one = os.environ.get("MAIA_WORLD")
    for seed in [int(one)] if one else range(FIRST, FIRST + WORLDS):
        with consortium(tmp_path / str(seed), seed) as world:
            publishers = world.publishers()
            keep_durable(world)
            read_arrow(world)
            compare_live(world, publishers)
            for number, name in enumerate(ORGANISATIONS, start=1):
                world.kill(name)
                others = [other for other in ORGANISATIONS if other != name]
                world.publish(publishers, others, number * ROWS, ROWS)
                world.start("broker", name)
            assert_same("durable", read_durable(world), world)
            compare_tables(world, spark, postgres_server)


def compare_live(world: Consortium, publishers: dict[str, Any]) -> None:
    with ExitStack() as stack:
        followed = {
            "live": follow_live(world, stack),
            "MQTT": follow_mqtt(world, stack),
            "HTTP": follow_http(world, stack),
        }
        settle(world, publishers, *followed.values())
        world.publish(publishers, ORGANISATIONS, 0, ROWS)
        counts = {stream: len(world.expected(stream)) for stream in world.shown}
        for way, each in followed.items():
            wait_for(lambda each=each: all(len(each.real(s)) >= count for s, count in counts.items()))
            assert_same(way, {stream: each.real(stream) for stream in world.shown}, world)


def compare_tables(world: Consortium, spark, postgres_server: str) -> None:
    counts = {stream: len(world.expected(stream)) for stream in world.shown}
    found: dict[Stream, list[Row]] = {}
    deadline = time.monotonic() + DEADLINE_S
    # Until the brokers have written all of it to the files of their logs.
    while behind := {one[:2] for one, count in counts.items() if len(found.get(one, ())) != count}:
        time.sleep(1)
        found |= read_arrow(world, sorted(behind))
        if time.monotonic() > deadline:
            break
    assert_same("Arrow", found, world)
    assert_same("Spark", read_spark(world, spark), world)
    with psycopg.connect(postgres_server) as session:
        assert_same("SQL", read_sql(world, session), world)
        session.rollback()


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until all has arrived; what never does is shown by the comparison."""
    with suppress(AssertionError):
        wait_until(condition, within_s=60)


def assert_same(way: str, found: dict[Stream, list[Row]], world: Consortium) -> None:
    """Compare what every reader has seen in one way with what its rights come to."""
    for stream in world.shown:
        wanted, seen = world.expected(stream), found[stream]
        if way in ("MQTT", "HTTP"):  # what is null or hidden is absent
            wanted = [{name: value for name, value in row.items() if value is not None} for row in wanted]
        assert seen == wanted, f"{way}, MAIA_WORLD={world.seed}: {stream} with {world.terms[stream]}"
