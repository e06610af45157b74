"""How do values of Maia travel to PostgreSQL and back, unchanged?

Moments are counted in microseconds on both sides, so they never pass through a `datetime`, whose range
and cost differ. Every other kind is what psycopg makes of it in binary form.
"""

from __future__ import annotations

import re
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, LiteralString, TypeAlias

import psycopg
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format

from maia.errors import BadInput, MaiaError, Unavailable
from maia.events import Instant, Kind
from maia.views.plan import POSTGRES_TYPES

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]
"""Any: what a row holds depends on the query."""

_CONNECT_S: Final = 10
_QUEUE: Final = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")

_FATAL: Final = re.compile(r"FATAL: ([^\n]{1,160})")
_NO_ANSWER: Final = (
    "Connection refused",
    "No such file or directory",
    "timeout expired",
    "closed the connection",
)

COLUMN_TYPES: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.STRING: frozenset({"text", "character varying"}),
    Kind.INT: frozenset({"bigint", "integer", "smallint"}),
    Kind.FLOAT: frozenset({"double precision", "real"}),
    Kind.BOOL: frozenset({"boolean"}),
    Kind.TIMESTAMP: frozenset({"timestamp with time zone"}),
    Kind.BYTES: frozenset({"bytea"}),
}
"""Which types of a table's columns hold nothing but values of a kind, by what `format_type` calls them."""

CHECKS: Final[Mapping[Kind, str]] = {
    Kind.FLOAT: "{0} > '-Infinity' AND {0} < 'Infinity'",
    Kind.TIMESTAMP: "{0} >= '0001-01-01 00:00:00+00' AND {0} < '10000-01-01 00:00:00+00'",
    Kind.STRING: "octet_length({0}) <= 1048576",
    Kind.BYTES: "octet_length({0}) <= 1048576",
}
"""What PostgreSQL can hold and no event can: a transaction that releases it fails, and is told the column."""


async def ask(
    connection: Connection, text: LiteralString, *values: object, **names: sql.Composable
) -> psycopg.AsyncCursor[tuple[Any, ...]]:
    """Run a statement with these names in it, quoted, and these values beside it."""
    return await connection.execute(sql.SQL(text).format(**names), values or None)


async def rows_of(
    connection: Connection, text: LiteralString, *values: object, **names: sql.Composable
) -> list[tuple[Any, ...]]:
    """Run a statement as `ask` does, and return the rows that it finds."""
    return await (await ask(connection, text, *values, **names)).fetchall()


def database_problem(problem: psycopg.Error) -> MaiaError:
    """Return an error without the server's sentence, which can quote rows and passwords."""
    diagnosis = problem.diag
    named = [
        f"{what} `{name}`"
        for what, name in (
            ("table", diagnosis.table_name),
            ("column", diagnosis.column_name),
            ("constraint", diagnosis.constraint_name),
        )
        if name
    ]
    state = problem.sqlstate or diagnosis.sqlstate
    what = " ".join([type(problem).__name__, *([f"(SQLSTATE {state})"] if state else []), *named])
    if isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError):
        # What a server says before it lets anybody in quotes no rows, and what libpq says is one of a few.
        said = _FATAL.search(str(problem))
        why = [said[1].strip()] if said else [one for one in _NO_ANSWER if one in str(problem)][:1]
        return Unavailable(
            "UNAVAILABLE-POSTGRES", f"PostgreSQL cannot be used now: {': '.join([what, *why])}"
        )
    return BadInput("INPUT-POSTGRES", f"PostgreSQL refuses a statement: {what}")


@asynccontextmanager
async def connected(url: str, *, is_queue: bool = False) -> AsyncIterator[Connection]:
    """Connect for as long as the body runs; what is committed is on the disk, whatever the server's default.

    A queue is read by its index alone: its statistics are always out of date.
    """
    connection = await psycopg.AsyncConnection.connect(
        url,
        connect_timeout=_CONNECT_S,
        application_name="maia postgres",
        # A server that has vanished without a word is noticed within a minute.
        keepalives_idle=20,
        keepalives_interval=5,
        keepalives_count=4,
        tcp_user_timeout=40_000,
    )
    try:
        await connection.set_autocommit(True)
        await connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') = 'off'"
        )
        for name in _QUEUE if is_queue else ():
            await connection.execute(sql.SQL("SET {} = off").format(sql.Identifier(name)))
        adapters = connection.adapters
        adapters.register_dumper(Instant, _InstantDumper)
        adapters.register_loader("timestamptz", _InstantLoader)
        yield connection
    finally:
        await connection.close()


_EPOCH_2000: Final = 946_684_800_000_000
_MICROSECONDS: Final = struct.Struct("!q")


class _InstantDumper(Dumper):
    """A moment as PostgreSQL counts: microseconds since 2000."""

    format = Format.BINARY
    oid = psycopg.adapters.types["timestamptz"].oid

    def dump(self, obj: int) -> Buffer:
        return _MICROSECONDS.pack(obj - _EPOCH_2000)


class _InstantLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> Instant:
        return Instant(_MICROSECONDS.unpack(data)[0] + _EPOCH_2000)


assert set(POSTGRES_TYPES) == set(COLUMN_TYPES)  # noqa: S101 - a kind without a column type is found at once
