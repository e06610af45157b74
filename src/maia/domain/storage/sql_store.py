"""Where does a domain keep its policy, register, lists and audit?

In one SQLite file by default, in PostgreSQL by configuration; SQLAlchemy
writes the statements for both. A transaction is safe on the disk before it
returns, as a whole or not at all. Each one also raises a generation number,
and only from the one that this process has seen: a second process that wrote
to the same tables makes the next write here fail, instead of two services
numbering lists side by side.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, Engine, create_engine, event, select, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from maia.domain.access.refusals import DomainStoreUnavailable
from maia.domain.storage.fenced_store import StoreFenced
from maia.domain.storage.sql_schema import FENCE, SCHEMA, SCHEMA_VERSION
from maia.domain.storage.sql_tables import SqlTables
from maia.domain.storage.store import Tables

__all__ = ["SqlDomainStore", "memory_store", "postgres_store", "sqlite_store"]

_POSTGRES: Final = "postgresql+psycopg"
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)


class SqlDomainStore:
    """The tables of a domain in one database, used by one thread at a time."""

    def __init__(self, engine: Engine, shown: str) -> None:
        """Make what tables are missing; `shown` names the database in errors and holds no secret."""
        self._engine, self._shown = engine, shown
        self._open: Connection | None = None
        self._is_writing = False
        try:
            with engine.begin() as connection:
                SCHEMA.create_all(connection)
                self._check_version(connection)
                self._generation = _generation(connection)
        except (SQLAlchemyError, OSError) as problem:
            engine.dispose()
            raise self._unavailable(problem) from problem

    def transaction(self) -> AbstractContextManager[Tables]:
        """Change tables: all of it is safe when the body ends, and nothing of it if it raises."""
        return self._joined() if self._open is not None and self._is_writing else self._writing()

    def reading(self) -> AbstractContextManager[Tables]:
        """Ask tables, at one moment, without changing them."""
        return self._joined() if self._open is not None else self._looking()

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    @contextmanager
    def _joined(self) -> Iterator[Tables]:
        assert self._open is not None  # noqa: S101 - the callers have just looked
        yield SqlTables(self._open)

    @contextmanager
    def _writing(self) -> Iterator[Tables]:
        with self._connected(is_writing=True) as connection:
            with connection.begin():
                self._raise_generation(connection)
                yield SqlTables(connection)
            # Only what is safe has happened: a failed commit leaves the number as it was.
            self._generation += 1

    @contextmanager
    def _looking(self) -> Iterator[Tables]:
        with self._connected(is_writing=False) as connection, connection.begin():
            yield SqlTables(connection)

    @contextmanager
    def _connected(self, *, is_writing: bool) -> Iterator[Connection]:
        before, was_writing = self._open, self._is_writing
        try:
            with self._engine.connect() as connection:
                connection.info["is_writing"] = is_writing
                self._open, self._is_writing = connection, is_writing
                yield connection
        except SQLAlchemyError as problem:
            raise self._unavailable(problem) from problem
        finally:
            self._open, self._is_writing = before, was_writing

    def _raise_generation(self, connection: Connection) -> None:
        mine = FENCE.c.generation == self._generation
        raised = connection.execute(update(FENCE).where(mine).values(generation=self._generation + 1))
        if raised.rowcount != 1:
            raise StoreFenced(f"another process has written to `{self._shown}`: this one stops")

    def _check_version(self, connection: Connection) -> None:
        if connection.execute(select(FENCE.c.version)).first() is None:
            connection.execute(FENCE.insert().values(one=1, generation=0, version=SCHEMA_VERSION))
        found = connection.execute(select(FENCE.c.version)).scalar_one()
        if found != SCHEMA_VERSION:
            raise DomainStoreUnavailable(
                f"`{self._shown}` was written by another version of Maia: its tables have version {found}, "
                f"and this one reads {SCHEMA_VERSION}"
            )

    def _unavailable(self, problem: Exception) -> DomainStoreUnavailable:
        # The text of the library may quote statements, addresses and values: the kind is enough here.
        cause = getattr(problem, "orig", None) or problem
        return DomainStoreUnavailable(
            f"`{self._shown}` cannot be used to keep what the domain knows: {type(cause).__name__}"
        )


def sqlite_store(file: Path) -> SqlDomainStore:
    """Open a file, which is made if need be, readable by its owner alone."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.close(descriptor)
    except OSError as problem:
        raise DomainStoreUnavailable(
            f"`{file}` cannot be used to keep what the domain knows: {problem.strerror}"
        ) from problem
    return SqlDomainStore(_sqlite_engine(URL.create("sqlite", database=str(file))), str(file))


def memory_store() -> SqlDomainStore:
    """Keep for as long as the process lives: for tests, and for trying a policy out."""
    return SqlDomainStore(_sqlite_engine(URL.create("sqlite")), "memory")


def postgres_store(address: str, schema: str = "maia") -> SqlDomainStore:
    """Use a PostgreSQL database, in a schema of its own that is made if need be."""
    if not _SCHEMA.fullmatch(schema):
        raise DomainStoreUnavailable("a schema is called by lower case letters, digits and `_`")
    try:
        engine = _postgres_engine(address, schema)
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    except (SQLAlchemyError, ProgrammingError, OSError) as problem:
        raise DomainStoreUnavailable(
            f"PostgreSQL cannot be reached to keep what the domain knows: {type(problem).__name__}"
        ) from problem
    return SqlDomainStore(engine, f"PostgreSQL, schema {schema}")


def _sqlite_engine(url: URL) -> Engine:
    # One connection for the life of the store: a file that is moved away is not opened a second time.
    engine = create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _on_connect(connection: object, _record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # begins are written by us, below
        cursor = connection.cursor()  # type: ignore[attr-defined]  # a connection of sqlite3
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "busy_timeout = 5000",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.info.get("is_writing", True) else "BEGIN")

    return engine


def _postgres_engine(address: str, schema: str) -> Engine:
    keywords: dict[str, object] = {"options": f"-csearch_path={schema} -csynchronous_commit=on"}
    if "://" in address:
        url = make_url(address).set(drivername=_POSTGRES)
    else:
        # The form of libpq, such as `host=/run/postgresql dbname=maia`, is for the driver to read.
        url = URL.create(_POSTGRES)
        keywords |= {name: value for name, value in conninfo_to_dict(address).items() if value is not None}
    return create_engine(
        url,
        pool_size=1,
        max_overflow=1,
        # A database that was restarted is found again; what was under way when it stopped has failed.
        pool_pre_ping=True,
        isolation_level="REPEATABLE READ",
        connect_args=keywords,
    )


def _generation(connection: Connection) -> int:
    return int(connection.execute(select(FENCE.c.generation)).scalar_one())
