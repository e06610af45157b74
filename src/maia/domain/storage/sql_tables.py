"""How are the questions of the access control service asked in SQL?

A statement is built once for each shape of a question and reused with other
values: building one costs more than the database needs to answer it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Connection, Executable, and_, bindparam, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from maia.domain.storage.sql_schema import SQL_TABLES
from maia.domain.storage.store import Cell, From, OneOf, Table, Until, Where

__all__ = ["SqlTables"]

_AT_ONCE: Final = 500
"""Values in one statement: databases limit how many one may carry."""

_SHAPES_MAX: Final = 4096

Row = TypeVar("Row")

_Shape: TypeAlias = tuple[tuple[str, type], ...]
"""Which fields a condition is about, and in which way."""


class SqlTables:
    """The tables within one transaction."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        """Ask over `connection`, whose transaction somebody else ends."""
        self._connection = connection

    def get(self, table: Table[Row], *key: Cell) -> Row | None:
        """Return the row with this key."""
        found = self.find(table, dict(zip(table.key, key, strict=True)), limit=1)
        return found[0] if found else None

    def put(self, table: Table[Row], rows: Sequence[Row]) -> None:
        """Put rows in the places of those with the same keys, if there are such."""
        names = _names(table)
        statement = _upsert(table, self._connection.dialect.name)
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            cells = [{name: getattr(row, name) for name in names} for row in some]
            self._connection.execute(statement, cells)

    def delete(self, table: Table[Row], where: Where) -> int:
        """Remove rows, and return how many there were."""
        return sum(
            self._connection.execute(_deleting(table, _shape(part)), _values(part)).rowcount
            for part in _parts(where)
        )

    def find(
        self,
        table: Table[Row],
        where: Where,
        *,
        limit: int,
        order: str | None = None,
        after: Cell = None,
        descending: bool = False,
    ) -> list[Row]:
        """Return at most `limit` rows by the field `order` (the key, if none is named)."""
        parts = list(_parts(where))
        found: list[Row] = []
        for part in parts:
            statement = _finding(table, _shape(part), order, after is not None, descending)
            values = {**_values(part), "_limit": limit, "_after": after}
            found += [table.row(*map(_plain, one)) for one in self._connection.execute(statement, values)]
        if len(parts) > 1:
            found.sort(key=_sorting(table, order), reverse=descending)
        return found[:limit]

    def count(self, table: Table[Row], where: Where) -> int:
        """Return how many rows there are."""
        return sum(
            self._connection.execute(_counting(table, _shape(part)), _values(part)).scalar_one()
            for part in _parts(where)
        )

    def distinct(
        self, table: Table[Row], field: str, where: Where, *, limit: int, after: Cell = None
    ) -> list[Cell]:
        """Return the values of a field, each once, in order; nulls are left out."""
        found: set[Cell] = set()
        for part in _parts(where):
            statement = _telling_apart(table, field, _shape(part), after is not None)
            values = {**_values(part), "_limit": limit, "_after": after}
            found |= {_plain(value) for (value,) in self._connection.execute(statement, values)}
        return sorted(found)[:limit]  # type: ignore[type-var]  # one field has cells of one class, none null


# ---------------------------------------------------------------- statements, each built once


@lru_cache(_SHAPES_MAX)
def _finding(
    table: Table[Any], shape: _Shape, order: str | None, is_after: bool, descending: bool
) -> Executable:
    columns = SQL_TABLES[table.name].c
    ordered = [columns[name] for name in ((order,) if order else table.key)]
    statement = select(SQL_TABLES[table.name]).where(_condition(table, shape))
    if is_after:
        beyond = bindparam("_after", type_=ordered[0].type)
        statement = statement.where(ordered[0] < beyond if descending else ordered[0] > beyond)
    statement = statement.order_by(*(one.desc() if descending else one.asc() for one in ordered))
    return statement.limit(bindparam("_limit"))


@lru_cache(_SHAPES_MAX)
def _telling_apart(table: Table[Any], field: str, shape: _Shape, is_after: bool) -> Executable:
    column = SQL_TABLES[table.name].c[field]
    statement = select(column).where(_condition(table, shape), column.is_not(None)).distinct()
    if is_after:
        statement = statement.where(column > bindparam("_after", type_=column.type))
    return statement.order_by(column.asc()).limit(bindparam("_limit"))


@lru_cache(_SHAPES_MAX)
def _counting(table: Table[Any], shape: _Shape) -> Executable:
    return select(func.count()).select_from(SQL_TABLES[table.name]).where(_condition(table, shape))


@lru_cache(_SHAPES_MAX)
def _deleting(table: Table[Any], shape: _Shape) -> Executable:
    return delete(SQL_TABLES[table.name]).where(_condition(table, shape))


@lru_cache(_SHAPES_MAX)
def _upsert(table: Table[Any], dialect: str) -> Executable:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement = insert(SQL_TABLES[table.name])
    others = [name for name in _names(table) if name not in table.key]
    if not others:
        return statement.on_conflict_do_nothing(index_elements=table.key)
    changed = {name: statement.excluded[name] for name in others}
    return statement.on_conflict_do_update(index_elements=table.key, set_=changed)


def _condition(table: Table[Any], shape: _Shape) -> ColumnElement[bool]:
    columns = SQL_TABLES[table.name].c
    return and_(True, *(_one(columns[name], name, way) for name, way in shape))


def _one(column: ColumnElement[Any], name: str, way: type) -> ColumnElement[bool]:
    if way is type(None):
        return column.is_(None)
    value = bindparam(f"w_{name}", type_=column.type, expanding=way is OneOf)
    if way is OneOf:
        return column.in_(value)
    if way is From:
        return column >= value
    return column <= value if way is Until else column == value


# ---------------------------------------------------------------- shapes and values


def _shape(where: Where) -> _Shape:
    return tuple((name, _way(wanted)) for name, wanted in where.items())


def _way(wanted: object) -> type:
    way = type(wanted)
    return way if way in (From, Until, OneOf, type(None)) else object


def _values(where: Where) -> dict[str, object]:
    return {f"w_{name}": _value(wanted) for name, wanted in where.items() if wanted is not None}


def _value(wanted: Cell | From | Until | OneOf) -> object:
    match wanted:
        case From(bound) | Until(bound):
            return bound
        case OneOf(values):
            return list(values)
    return wanted


def _parts(where: Where) -> Iterator[Where]:
    """Yield the condition, in parts that no row meets two of where it names very many values.

    No part at all where it is met by nothing.
    """
    if any(isinstance(wanted, OneOf) and not wanted.values for wanted in where.values()):
        return
    for name, wanted in where.items():
        if isinstance(wanted, OneOf) and len(wanted.values) > _AT_ONCE:
            values = tuple(dict.fromkeys(wanted.values))
            for start in range(0, len(values), _AT_ONCE):
                yield from _parts({**where, name: OneOf(values[start : start + _AT_ONCE])})
            return
    yield where


@cache
def _names(table: Table[Any]) -> tuple[str, ...]:  # `Any`: rows of whatever class
    return tuple(field.name for field in fields(table.row))


def _sorting(table: Table[Row], order: str | None) -> attrgetter[Any]:
    return attrgetter(*((order,) if order else table.key))


def _plain(value: object) -> Any:  # `Any`: a cell, of the class that its field has
    # The driver of PostgreSQL may hand bytes out as `memoryview`; everything else is a cell as it is.
    return bytes(value) if isinstance(value, memoryview) else value
