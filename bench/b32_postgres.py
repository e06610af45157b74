"""How fast does a database take part, against what people write by hand?

Rows released: from the application's first insert until every row is recorded by the broker and gone from
the outbox. The peer is a plain outbox: a trigger writes JSON into one table, and a poller takes, publishes,
waits for the same broker to record, deletes and commits. Events stored: from events in the broker's log until
they are in a table, against `COPY` of the same rows into a table of the same shape. PostgreSQL synchronises
every commit on all sides.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg

from harness import Benchmark, Case, Race, Ratio, Side, at_least

TESTS = str(Path(__file__).resolve().parents[1] / "tests")
PATIENCE_S = 300.0
LOOK_S = 0.002
PLAIN = """
CREATE TABLE prescriptions (patient text, drug text, dose bigint);
CREATE TABLE plain (patient text, drug text, dose bigint);
CREATE TABLE plain_outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb NOT NULL);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO plain_outbox (payload) SELECT to_jsonb(w) FROM written w; RETURN NULL; END $$;
CREATE TRIGGER note AFTER INSERT ON plain REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TABLE copied (maia_position bigint, maia_row integer, maia_publisher text NOT NULL,
    maia_published_at timestamptz NOT NULL, doctor text, patient text, drug text, dose bigint,
    PRIMARY KEY (maia_position, maia_row));
"""
# Any: the clinic is of the tests, which are found when the benchmark runs.
World = Any


@contextmanager
def clinic() -> Iterator[World]:
    """Run a broker that records, and a database that loses nothing, with everything that both sides need."""
    sys.path.append(TESTS)
    from maia.testing import postgres_server as support
    from support.network_process import issue
    from support.postgres_clinic import RELEASE, STORE, prepare

    safe = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "timezone": "UTC"}
    with (
        tempfile.TemporaryDirectory(prefix="maia-bench-", dir="/tmp") as folder,
        patch.dict(support.SETTINGS, safe),
        support.running_server(support.postgres_binaries()) as address,
    ):
        world = prepare(Path(folder), address)
        issue(world.home, "doctor", "publish", "-d", "prescription.type", name="publish-Prescription")
        world.sql(PLAIN)
        world.install(STORE + RELEASE)
        with world.broker():
            yield world


@contextmanager
def poller(world: World) -> Iterator[None]:
    """Run the plain poller."""
    program = Path(__file__).with_name("outbox_poller.py")
    words = [sys.executable, str(program), str(world.home), world.database, world.broker_address]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def cases(quick: bool) -> Iterator[Case]:
    """Yield many rows in few transactions, one row in each, and events that are stored."""
    with (
        clinic() as world,
        psycopg.connect(world.database, autocommit=True) as connection,
        world.connector() as connector,
    ):
        with poller(world):
            for rows, each in ((400, 200) if quick else (20_000, 1_000), (20, 1) if quick else (300, 1)):
                yield Race(
                    f"rows released, {each} in a transaction",
                    ours=_released(connection, "prescriptions", "maia.out_prescriptions", rows, each),
                    peer=_released(connection, "plain", "plain_outbox", rows, each),
                    ratio=Ratio.PEER_OVER_OURS,
                    target=at_least(1),
                )
        total = 2_048 if quick else 32_768
        yield Race(
            "events stored, against COPY of the same rows",
            ours=_stored(world, connection, connector, total),
            peer=_copied(connection, total),
            ratio=Ratio.PEER_OVER_OURS,
            target=at_least(0.3),
        )


def _until_none(connection: psycopg.Connection, query: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while connection.execute(query).fetchone() is not None:
        assert time.monotonic() < deadline, "it did not end"
        time.sleep(LOOK_S)


def _released(connection: psycopg.Connection, table: str, outbox: str, rows: int, each: int) -> Side:
    insert = f"INSERT INTO {table} SELECT 'patient ' || n, 'aspirin', n FROM generate_series(1, {each}) n"  # noqa: S608

    def run() -> None:
        for _ in range(rows // each):
            connection.execute(insert)
        _until_none(connection, f"SELECT FROM {outbox} LIMIT 1")

    run()  # once without the clock
    return Side(run=run, operations=rows, calls=1)


def _event(number: int) -> dict[str, object]:
    return {"doctor": "D1", "patient": f"patient {number}", "drug": "aspirin", "dose": number}


def _stored(world: World, connection: psycopg.Connection, connector: World, total: int) -> Side:
    """Let events wait in the broker's log while the connector is stopped; then let it go on."""

    async def publish() -> None:
        async with world.member("doctor") as doctor:
            publisher = await doctor.advertise("Prescribe")
            await publisher.publish_many(map(_event, range(total)))
            await publisher.flush()

    def wait(_: int) -> list[int]:
        connector.send_signal(signal.SIGSTOP)
        asyncio.run(publish())
        row = connection.execute("SELECT stored FROM maia.stores").fetchone()
        assert row is not None
        return [row[0] + total]

    def run(upto: int) -> None:
        connector.send_signal(signal.SIGCONT)
        _until_none(connection, f"SELECT FROM maia.stores WHERE stored < {upto}")

    run(wait(1)[0])
    return Side(run=run, prepare=wait, operations=total, calls=1)


def _copied(connection: psycopg.Connection, total: int) -> Side:
    moment = time.time_ns() // 1000
    of_event = [tuple(_event(number).values()) for number in range(total)]
    rows = [(number // 1024, number % 1024, "ed25519:" + "0" * 64, moment) for number in range(total)]

    def run() -> None:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("TRUNCATE copied")
            names = "maia_position, maia_row, maia_publisher, maia_published_at, doctor, patient, drug, dose"
            with cursor.copy(f"COPY copied ({names}) FROM STDIN (FORMAT BINARY)") as copying:
                copying.set_types(["int8", "int4", "text", "int8", "text", "text", "text", "int8"])
                for own, event in zip(rows, of_event, strict=True):
                    copying.write_row((*own, *event))

    return Side(run=run, operations=total, calls=1)


BENCH = Benchmark(
    number=32,
    name="postgres",
    about="rows released a second against a plain outbox poller, and events stored against COPY",
    cases=cases,
    peer_lacks="the poller repeats a batch after a crash and follows the order of inserts, not of commits",
)
