"""Where does a domain keep its policy, register, lists and audit?

In one SQLite file by default, in PostgreSQL by configuration; SQLAlchemy Core
writes the statements for both, and SQLite in memory is what tests use. A
transaction is safe on the disk before it returns, as a whole or not at all.
Each one also raises a generation number, and only from the one that this
process has seen: a second process that wrote to the same tables makes the next
write here fail, instead of two services numbering lists side by side.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Select,
    create_engine,
    event,
    func,
    inspect,
    select,
    update,
)
from sqlalchemy import delete as sql_delete
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from maia.domain.storage.fenced_store import PRAGMAS, StoreFenced
from maia.domain.storage.tables import FENCE, SCHEMA, SCHEMA_VERSION, TableRow
from maia.errors import Unavailable

AT_ONCE: Final = 500
"""Rows that are read or written at once, and values in one statement: databases limit these."""

_POSTGRES: Final = "postgresql+psycopg"
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)

Row = TypeVar("Row", bound=TableRow)
_Value = TypeVar("_Value")
Cell: TypeAlias = int | str | bytes | None
Where: TypeAlias = ColumnElement[bool]


class Tables:
    """The tables of a domain within one transaction: conditions in SQLAlchemy's words, rows as values."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        """Ask over `connection`, whose transaction the store ends."""
        self._connection = connection

    def get(self, table: type[Row], *key: Cell) -> Row | None:
        parts = zip(table.primary, key, strict=True)
        values = {f"key_{place}": part for place, (_, part) in enumerate(parts)}
        found = self._connection.execute(table.by_key, values).first()
        return None if found is None else table(*found)

    def first(self, table: type[Row], statement: Select[Any]) -> Row | None:
        """Return the first row of a statement that was built once: building costs more than the answer."""
        found = self._connection.execute(statement).first()
        return None if found is None else table(*found)

    def put(self, *rows: TableRow) -> None:
        """Put rows of one table in the places of those with the same keys, if there are such."""
        for some in chunks(rows):
            names, statement = some[0].c.keys(), some[0].upsert(self._connection.dialect.name)
            self._connection.execute(
                statement, [{name: getattr(row, name) for name in names} for row in some]
            )

    def delete(self, table: type[Row], *where: Where) -> int:
        """Remove rows, and return how many there were."""
        return self._connection.execute(sql_delete(table.sql).where(*where)).rowcount

    def find(
        self,
        table: type[Row],
        *where: Where,
        limit: int,
        order: Column[Any] | None = None,
        after: Cell = None,
        descending: bool = False,
    ) -> list[Row]:
        """Return at most `limit` rows by the column `order` (the key, if none is named).

        With `after`, only rows whose `order` lies beyond it.
        """
        columns = table.primary if order is None else (order,)
        statement = select(table.sql).where(*where).limit(limit)
        if after is not None:
            statement = statement.where(columns[0] < after if descending else columns[0] > after)
        statement = statement.order_by(*(one.desc() for one in columns) if descending else columns)
        return [table(*one) for one in self._connection.execute(statement)]

    def sizes(
        self, column: Column[Any], *, limit: int, order: Column[Any], after: Cell = None
    ) -> list[tuple[Any, int]]:  # `Any`: what the column `order` holds
        """Return how many bytes a column has in rows by the column `order`, without reading them."""
        statement = select(order, func.length(column)).order_by(order).limit(limit)
        if after is not None:
            statement = statement.where(order > after)
        return [(one, int(size)) for one, size in self._connection.execute(statement)]

    def every(self, table: type[Row], *where: Where, order: Column[Any]) -> Iterator[list[Row]]:
        """Yield all rows by a column without ties, page by page; rows may be changed in between."""
        after: Cell = None
        while rows := self.find(table, *where, limit=AT_ONCE, order=order, after=after):
            after = getattr(rows[-1], order.name)
            yield rows

    def find_in(self, table: type[Row], column: Column[Any], values: Iterable[Any]) -> list[Row]:
        """Return the rows in which a column has one of these values, however many; none twice."""
        found: list[Row] = []
        for chunk in chunks(dict.fromkeys(values)):
            statement = select(table.sql).where(column.in_(chunk)).order_by(*table.primary)
            found += [table(*one) for one in self._connection.execute(statement)]
        return found

    def delete_in(self, table: type[Row], column: Column[Any], values: Iterable[Any], *where: Where) -> None:
        """Remove the rows in which a column has one of these values, however many."""
        for chunk in chunks(values):
            self.delete(table, column.in_(chunk), *where)

    def count(self, table: type[Row], *where: Where) -> int:
        return self._connection.execute(
            select(func.count()).select_from(table.sql).where(*where)
        ).scalar_one()

    def distinct(
        self, column: Column[Any], *where: Where, limit: int, after: Cell = None
    ) -> list[Any]:  # `Any`: what the column holds
        """Return the values of a column, each once, in order; nulls are left out."""
        statement = select(column).where(column.is_not(None), *where).distinct().order_by(column).limit(limit)
        if after is not None:
            statement = statement.where(column > after)
        return list(self._connection.execute(statement).scalars())


def chunks(values: Iterable[_Value]) -> Iterator[list[_Value]]:
    """Yield values in lists that one statement can carry."""
    rest = list(values)
    for start in range(0, len(rest), AT_ONCE):
        yield rest[start : start + AT_ONCE]


class DomainStore:
    """The tables of a domain in one database, used by one thread at a time."""

    def __init__(self, engine: Engine, shown: str) -> None:
        """Make what tables are missing; `shown` names the database in errors and holds no secret."""
        self._engine, self._shown = engine, shown
        self._open: Connection | None = None
        self._is_writing = False
        try:
            with engine.begin() as connection:
                _make_missing_tables(connection)
                found = connection.execute(select(FENCE.c.version)).scalar()
                if found is None:
                    connection.execute(FENCE.insert().values(one=1, generation=0, version=SCHEMA_VERSION))
                elif found != SCHEMA_VERSION:
                    raise Unavailable(
                        "UNAVAILABLE-DOMAIN-STORE",
                        f"`{shown}` was written by another version of Maia: its tables have version {found}, "
                        f"and this one reads {SCHEMA_VERSION}",
                    )
                self._generation = int(connection.execute(select(FENCE.c.generation)).scalar_one())
        except (SQLAlchemyError, OSError) as problem:
            engine.dispose()
            raise self._unavailable(problem) from problem

    @contextmanager
    def transaction(self) -> Iterator[Tables]:
        """Change tables: all of it is safe when the body ends, and nothing of it if it raises.

        Within a transaction, a second one is part of the first. There is none within a reading.
        """
        if self._open is not None and self._is_writing:
            yield Tables(self._open)
            return
        with self._connected(is_writing=True) as connection:
            with connection.begin():
                mine, raised = FENCE.c.generation == self._generation, self._generation + 1
                if connection.execute(update(FENCE).where(mine).values(generation=raised)).rowcount != 1:
                    raise StoreFenced(f"another process has written to `{self._shown}`: this one stops")
                yield Tables(connection)
            # Only what is safe has happened: a failed commit leaves the number as it was.
            self._generation += 1

    @contextmanager
    def reading(self) -> Iterator[Tables]:
        """Ask tables, at one moment, without changing them."""
        if self._open is not None:
            yield Tables(self._open)
            return
        with self._connected(is_writing=False) as connection, connection.begin():
            yield Tables(connection)

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

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

    def _unavailable(self, problem: Exception) -> Unavailable:
        # The text of the library may quote statements, addresses and values: the kind is enough here.
        cause = getattr(problem, "orig", None) or problem
        return Unavailable(
            "UNAVAILABLE-DOMAIN-STORE",
            f"`{self._shown}` cannot be used to keep what the domain knows: {type(cause).__name__}",
        )


def _make_missing_tables(connection: Connection) -> None:
    there = frozenset(inspect(connection).get_table_names())
    dialect = connection.dialect
    for name, statements in _definitions(f"{dialect.name}+{dialect.driver}"):
        if name not in there:
            for statement in statements:
                connection.exec_driver_sql(statement)


@cache
def _definitions(driver: str) -> list[tuple[str, list[str]]]:
    """Return how each table is made, with its indexes: to say it takes SQLAlchemy longer than to do it."""
    dialect = URL.create(driver).get_dialect()()
    found = []
    for table in SCHEMA.sorted_tables:
        made: list[ExecutableDDLElement] = [CreateTable(table), *map(CreateIndex, table.indexes)]
        found.append((table.name, [str(one.compile(dialect=dialect)) for one in made]))
    return found


def sqlite_store(file: Path) -> DomainStore:
    """Open a file, which is made if need be, readable by its owner alone."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.close(descriptor)
    except OSError as problem:
        raise Unavailable(
            "UNAVAILABLE-DOMAIN-STORE",
            f"`{file}` cannot be used to keep what the domain knows: {problem.strerror}",
        ) from problem
    return DomainStore(_sqlite_engine(URL.create("sqlite", database=str(file))), str(file))


def memory_store() -> DomainStore:
    """Keep for as long as the process lives: for tests, and for trying a policy out."""
    return DomainStore(_sqlite_engine(URL.create("sqlite")), "memory")


def postgres_store(address: str, schema: str = "maia") -> DomainStore:
    """Use a PostgreSQL database, in a schema of its own that is made if need be."""
    if not _SCHEMA.fullmatch(schema):
        raise Unavailable(
            "UNAVAILABLE-DOMAIN-STORE", "a schema is called by lower case letters, digits and `_`"
        )
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        keywords: dict[str, object] = {"options": f"-csearch_path={schema} -csynchronous_commit=on"}
        if "://" in address:
            url = make_url(address).set(drivername=_POSTGRES)
        else:
            # The form of libpq, such as `host=/run/postgresql dbname=maia`, is for the driver to read.
            url = URL.create(_POSTGRES)
            keywords |= {
                name: value for name, value in conninfo_to_dict(address).items() if value is not None
            }
        engine = create_engine(
            url,
            pool_size=1,
            max_overflow=1,
            # A database that was restarted is found again; what was under way when it stopped has failed.
            pool_pre_ping=True,
            isolation_level="REPEATABLE READ",
            connect_args=keywords,
        )
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    except (SQLAlchemyError, ProgrammingError, OSError) as problem:
        raise Unavailable(
            "UNAVAILABLE-DOMAIN-STORE",
            f"PostgreSQL cannot be reached to keep what the domain knows: {type(problem).__name__}",
        ) from problem
    return DomainStore(engine, f"PostgreSQL, schema {schema}")


def _sqlite_engine(url: URL) -> Engine:
    # One connection for the life of the store: a file that is moved away is not opened a second time.
    engine = create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _on_connect(connection: object, _record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # begins are written by us, below
        cursor = connection.cursor()  # type: ignore[attr-defined]  # a connection of sqlite3
        for pragma in (*PRAGMAS, "foreign_keys = ON", "busy_timeout = 5000"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.info.get("is_writing", True) else "BEGIN")

    return engine
