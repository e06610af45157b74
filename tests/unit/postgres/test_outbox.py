"""What waits in an outbox, in which order, and which frames does it become?"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from maia.clock import system_now
from maia.credentials import FIRST_VERSION, SigningKey, TypeName
from maia.events import INSTANT_MAX, INSTANT_MIN, INT_MAX, INT_MIN, Attribute, Instant, Kind, attribute_uid
from maia.postgres import outbox as outbox_module
from maia.postgres.config import Release, TableName
from maia.postgres.outbox import Outbox, PlannedFrame
from maia.postgres.schema import _common, _install_release, waiting_rows
from maia.postgres.values import connected
from maia.predicates import ALWAYS
from maia.testing.refusals import raises
from maia.types import TypeDefinition, sign_definition, verify_definition

OWNER = SigningKey.from_seed(b"o" * 32)
NAMES = {
    Kind.STRING: "position",
    Kind.INT: "total",
    Kind.FLOAT: "release",
    Kind.BOOL: "order",
    Kind.TIMESTAMP: "written",
    Kind.BYTES: "Row-Value",
}
"""What attributes are called: words that queries of ours use, too."""
KINDS = tuple(NAMES)
SCHEMA = "maia"


def release(*kinds: Kind) -> Release:
    attributes = tuple(Attribute(NAMES[kind], attribute_uid(kind.value), kind) for kind in kinds)
    definition = TypeDefinition(TypeName(OWNER.principal, "Reading", FIRST_VERSION), None, attributes)
    typed = verify_definition(sign_definition(definition, OWNER), at=system_now())
    columns = {one.name: one.kind.value for one in attributes}
    return Release("readings", (), typed, ALWAYS, TableName("public", "readings"), ("insert",), columns)


@pytest.fixture
def database(postgres_server: str) -> Iterator[str]:
    """A database of the test's own."""
    name = f"outbox_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield postgres_server.replace("dbname=postgres", f"dbname={name}")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def installed(database: str, released: Release, table: str) -> AsyncIterator[Outbox]:
    async with connected(database, is_queue=True) as connection:
        await connection.execute(table.encode())
        async with connection.transaction():
            for statement in _common(sql.Identifier(SCHEMA), "maia_test"):
                await connection.execute(statement)
            await _install_release(connection, sql.Identifier(SCHEMA), released)
        outbox = Outbox(connection, SCHEMA, released)
        assert await outbox.open() == []
        yield outbox


ALL_KINDS = (
    'CREATE TABLE readings (string text, "int" bigint, "float" double precision, "bool" boolean,'
    ' "timestamp" timestamptz, bytes bytea)'
)


def test_values_of_every_kind_leave_as_they_were_written(database: str) -> None:
    written = [
        ("é\U0001f600%s{}", INT_MAX, 0.1, True, Instant(INSTANT_MAX), b"\0\xff"),
        ("", INT_MIN, -1e308, False, Instant(INSTANT_MIN), b""),
        (None, None, None, None, None, None),
        ("x", 1, 5e-324, None, Instant(1), b"x"),
    ]

    async def leave() -> list[PlannedFrame]:
        async with installed(database, release(*KINDS), ALL_KINDS) as outbox, connected(database) as writer:
            async with writer.cursor() as cursor:
                await cursor.executemany(
                    "INSERT INTO readings VALUES (%s, %s, %s, %s, %s::timestamptz, %s)",
                    [(*row[:4], None if row[4] is None else row[4].to_datetime(), row[5]) for row in written],
                )
            return await outbox.plan(None)

    frames = asyncio.run(leave())
    assert [row for frame in frames for row in zip(*frame.columns.values(), strict=True)] == written


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("float", "'NaN'"),
        ("float", "'-Infinity'"),
        ("timestamp", "'infinity'"),
        ("timestamp", "'10000-01-01 00:00+00'"),
        ("string", "repeat('x', 1048577)"),
        ("bytes", "decode(repeat('00', 1048577), 'hex')"),
    ],
)
def test_what_no_event_can_carry_fails_in_the_writers_own_transaction(
    database: str, column: str, value: str
) -> None:
    async def write() -> None:
        async with installed(database, release(*KINDS), ALL_KINDS), connected(database) as writer:
            with pytest.raises(psycopg.errors.CheckViolation) as refused:
                await writer.execute(f'INSERT INTO readings ("{column}") VALUES ({value})'.encode())
            assert refused.value.diag.constraint_name == NAMES[Kind(column)]

    asyncio.run(write())


class History:
    """Three writers with savepoints and roll-backs; a reader that plans, forgets everything, begins again."""

    def __init__(self, outbox: Outbox, released: Release, writers: list[psycopg.AsyncConnection]) -> None:
        self._outbox, self._released, self._writers = outbox, released, writers
        self._pending: list[list[str]] = [[] for _ in writers]
        self._unanswered: list[PlannedFrame] = []
        self.committed: list[str] = []
        self.left: dict[int, list[str]] = {}

    async def write(self, who: int, rows: list[str]) -> None:
        await self._writers[who].execute("INSERT INTO readings SELECT unnest(%s::text[])", [rows])
        self._pending[who] += rows

    async def change_its_mind(self, who: int) -> None:
        await self._writers[who].execute("SAVEPOINT s")
        await self._writers[who].execute("INSERT INTO readings VALUES ('never')")
        await self._writers[who].execute("ROLLBACK TO s")

    async def end(self, who: int, *, is_committed: bool) -> None:
        if is_committed:
            await self._writers[who].commit()
            self.committed += self._pending[who]
        else:
            await self._writers[who].rollback()
        self._pending[who] = []

    async def plan(self) -> None:
        for frame in self._unanswered:
            rows = [str(value) for value in frame.columns["position"]]
            assert self.left.setdefault(frame.number, rows) == rows, "a frame has other rows the second time"
        self._unanswered = await self._outbox.plan(self._unanswered[-1].number if self._unanswered else None)

    async def begin_again(self) -> None:
        self._outbox = Outbox(self._outbox._connection, SCHEMA, self._released)
        again = await self._outbox.open()
        assert again[len(again) - len(self._unanswered) :] == self._unanswered
        self._unanswered = again

    async def step(self, chance: random.Random, number: int) -> None:
        who = chance.randrange(len(self._writers))
        match chance.choice(["write", "write", "doubt", "commit", "roll back", "plan", "begin again"]):
            case "write":
                await self.write(who, [f"{number}.{row}" for row in range(chance.randint(1, 4))])
            case "doubt":
                await self.change_its_mind(who)
            case "plan":
                await self.plan()
            case "begin again":
                await self.begin_again()
            case ending:
                await self.end(who, is_committed=ending == "commit")


def test_rows_leave_in_the_order_of_commits_whatever_the_interleaving_and_however_often_it_is_opened(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(outbox_module, "_BYTES_AT_ONCE", 40)
    monkeypatch.setattr(outbox_module, "_FRAME_BYTES", 25)

    async def lived() -> History:
        released, table = release(Kind.STRING), "CREATE TABLE readings (string text)"
        chance = random.Random(94)  # noqa: S311 - a test case
        async with installed(database, released, table) as outbox:
            writers = [await psycopg.AsyncConnection.connect(database) for _ in range(3)]
            history = History(outbox, released, writers)
            for number in range(400):
                await history.step(chance, number)
            for writer in writers:
                await writer.close()
            for _ in range(400):
                await history.plan()
            found = await outbox._connection.execute(
                "SELECT (SELECT count(*) FROM maia.out_readings), (SELECT count(*) FROM maia.frames)"
            )
            assert await found.fetchone() == (0, 0)
            return history

    history = asyncio.run(lived())
    assert [row for number in sorted(history.left) for row in history.left[number]] == history.committed
    assert sorted(history.left) == list(range(len(history.left)))
    assert len(history.left) > 20


def test_a_release_with_another_version_of_the_type_waits_until_nothing_of_the_old_one_does(
    database: str,
) -> None:

    async def change() -> None:
        old, new = release(Kind.STRING), release(Kind.STRING, Kind.INT)
        table = 'CREATE TABLE readings (string text, "int" smallint)'
        async with installed(database, old, table) as outbox, connected(database) as other:
            await other.execute("INSERT INTO readings VALUES ('a', 1)")
            with raises("INPUT-POSTGRES-ROWS-WAITING"):
                async with other.transaction():
                    await _install_release(other, sql.Identifier(SCHEMA), new)
            (frame,) = await outbox.plan(None)
            await outbox.plan(frame.number)
            async with other.transaction():
                await _install_release(other, sql.Identifier(SCHEMA), new)
            await other.execute("INSERT INTO readings VALUES ('b', 2)")
            again = Outbox(outbox._connection, SCHEMA, replace(new))
            assert await again.open() == []
            (frame,) = await again.plan(None)
            assert (frame.number, frame.columns) == (1, {"position": ["b"], "total": [2]})

    asyncio.run(change())


def test_what_a_broker_has_taken_on_is_kept_for_another_one_and_waits_no_more(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def kept() -> None:
        released, table = release(Kind.STRING), "CREATE TABLE readings (string text)"
        async with installed(database, released, table) as first, connected(database) as other:
            outbox = Outbox(first._connection, SCHEMA, released, keep_s=60)
            assert await outbox.open() == []
            await other.execute("INSERT INTO readings VALUES ('a'), ('b')")
            (frame,) = await outbox.plan(None)
            assert await waiting_rows(other, SCHEMA, released.name) == 2
            await other.execute("INSERT INTO readings VALUES ('c')")
            (second,) = await outbox.plan(frame.number)
            assert await waiting_rows(other, SCHEMA, released.name) == 1
            again = Outbox(first._connection, SCHEMA, released, keep_s=60)
            assert await again.open() == [frame, second], "the next broker gets the same frames"
            # Too many are not kept, however young.
            monkeypatch.setattr(outbox_module, "_ROWS_KEPT", 0)
            assert await again.plan(second.number) == []
            assert await waiting_rows(other, SCHEMA, released.name) == 0
            assert await Outbox(first._connection, SCHEMA, released).open() == []

    asyncio.run(kept())
