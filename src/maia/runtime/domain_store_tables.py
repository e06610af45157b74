"""How are the questions of the access control service asked in SQL?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields
from functools import cache
from typing import Any, Final, TypeVar, cast

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert

from maia.domain.access_store import Cell, From, OneOf, Table, Until, Where
from maia.runtime.domain_store_schema import SQL_TABLES

__all__ = ["SqlTables"]

_AT_ONCE: Final = 500
"""Rows in one statement: databases limit how many values one may carry."""

Row = TypeVar("Row")


class SqlTables:
    """The tables within one transaction."""

    __slots__ = ("_connection", "_insert")

    def __init__(self, connection: Connection) -> None:
        """Ask over `connection`, whose transaction somebody else ends."""
        self._connection = connection
        self._insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert

    def get(self, table: Table[Row], *key: Cell) -> Row | None:
        """Return the row with this key."""
        wanted = dict(zip(table.key, key, strict=True))
        found = self._connection.execute(_selected(table).where(_condition(table, wanted))).mappings().first()
        return None if found is None else _row(table, found)

    def put(self, table: Table[Row], rows: Sequence[Row]) -> None:
        """Put rows in the places of those with the same keys, if there are such."""
        names = _names(table)
        statement = self._upsert(table)
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            # `cast`: rows are dataclasses by the promise of `Table`.
            cells = [dict(zip(names, astuple(cast("Any", row)), strict=True)) for row in some]
            self._connection.execute(statement, cells)

    def delete(self, table: Table[Row], where: Where) -> int:
        """Remove rows, and return how many there were."""
        return sum(
            self._connection.execute(delete(SQL_TABLES[table.name]).where(condition)).rowcount
            for condition in _conditions(table, where)
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
        columns = SQL_TABLES[table.name].c
        ordered = [columns[name] for name in ((order,) if order else table.key)]
        beyond = _beyond(ordered[0], after, descending=descending)
        found: list[Row] = []
        for condition in _conditions(table, where):
            statement = _selected(table).where(condition, *beyond).limit(limit)
            statement = statement.order_by(*(one.desc() if descending else one.asc() for one in ordered))
            found += [_row(table, one) for one in self._connection.execute(statement).mappings()]
        if len(found) > limit or _is_cut(where):
            names = [order] if order else list(table.key)
            found.sort(key=lambda row: tuple(getattr(row, name) for name in names), reverse=descending)
        return found[:limit]

    def count(self, table: Table[Row], where: Where) -> int:
        """Return how many rows there are."""
        counted = select(func.count()).select_from(SQL_TABLES[table.name])
        return sum(
            self._connection.execute(counted.where(condition)).scalar_one()
            for condition in _conditions(table, where)
        )

    def distinct(
        self, table: Table[Row], field: str, where: Where, *, limit: int, after: Cell = None
    ) -> list[Cell]:
        """Return the values of a field, each once, in order; nulls are left out."""
        column = SQL_TABLES[table.name].c[field]
        found: set[Cell] = set()
        for condition in _conditions(table, where):
            statement = select(column).where(condition, column.is_not(None), *_beyond(column, after))
            statement = statement.distinct().order_by(column.asc()).limit(limit)
            found |= {_plain(value) for value in self._connection.execute(statement).scalars()}
        return sorted(found)[:limit]  # type: ignore[type-var]  # one field has cells of one class, none null

    def _upsert(self, table: Table[Row]) -> Insert:
        statement = self._insert(SQL_TABLES[table.name])
        others = [name for name in _names(table) if name not in table.key]
        if not others:
            return statement.on_conflict_do_nothing(index_elements=table.key)
        changed = {name: statement.excluded[name] for name in others}
        return statement.on_conflict_do_update(index_elements=table.key, set_=changed)


@cache
def _selected(table: Table[Any]) -> Any:  # the type of a statement depends on its columns
    return select(SQL_TABLES[table.name])


@cache
def _names(table: Table[Any]) -> tuple[str, ...]:  # `Any`: rows of whatever class
    return tuple(field.name for field in fields(table.row))


def _row(table: Table[Row], found: RowMapping) -> Row:
    return table.row(**{name: _plain(value) for name, value in found.items()})


def _plain(value: object) -> Cell:
    # `cast`: the driver of PostgreSQL hands bytes out as `memoryview`; everything else is a cell as it is.
    return bytes(value) if isinstance(value, memoryview) else cast("Cell", value)


def _is_cut(where: Where) -> bool:
    return any(isinstance(wanted, OneOf) and len(wanted.values) > _AT_ONCE for wanted in where.values())


def _conditions(table: Table[Row], where: Where) -> list[ColumnElement[bool]]:
    """Return the condition, in parts that no row meets two of where it names very many values."""
    for name, wanted in where.items():
        if isinstance(wanted, OneOf) and len(wanted.values) > _AT_ONCE:
            values = tuple(dict.fromkeys(wanted.values))
            parts = [OneOf(values[start : start + _AT_ONCE]) for start in range(0, len(values), _AT_ONCE)]
            return [one for part in parts for one in _conditions(table, {**where, name: part})]
    return [_condition(table, where)]


def _condition(table: Table[Row], where: Where) -> ColumnElement[bool]:
    columns = SQL_TABLES[table.name].c
    return and_(True, *(_one(columns[name], wanted) for name, wanted in where.items()))


def _one(column: ColumnElement[Any], wanted: Cell | From | Until | OneOf) -> ColumnElement[bool]:
    match wanted:
        case From(bound):
            return column >= bound
        case Until(bound):
            return column <= bound
        case OneOf(values):
            return column.in_(values)
        case None:
            return column.is_(None)
        case _:
            return column == wanted


def _beyond(
    column: ColumnElement[Any], after: Cell, *, descending: bool = False
) -> list[ColumnElement[bool]]:
    if after is None:
        return []
    return [column < after if descending else column > after]
