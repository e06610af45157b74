"""How are the tables of a domain laid out in SQL?

Columns are made of the fields of the row classes, so that a row and its table
cannot disagree. Texts compare by code point in every database, as everywhere
else in Maia.
"""

from __future__ import annotations

from dataclasses import fields
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

from maia.domain.storage import store as access_store
from maia.domain.storage.tables import ALL_TABLES

__all__ = ["FENCE", "SCHEMA", "SCHEMA_VERSION", "SQL_TABLES"]

SCHEMA_VERSION: Final = 1
SCHEMA: Final = MetaData()

_PREFIX: Final = "domain_"

# `Any`: SQLAlchemy's own type for a column of whatever Python class.
_COLUMN_TYPES: Final[dict[type, TypeEngine[Any]]] = {
    int: BigInteger(),
    str: Text().with_variant(Text(collation="C"), "postgresql"),
    bytes: LargeBinary(),
}

FENCE: Final = Table(
    f"{_PREFIX}fence",
    SCHEMA,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
)


def _column(name: str, annotation: object) -> Column[Any]:  # `Any`: a cell of whatever class
    kinds = get_args(annotation) or (annotation,)
    (kind,) = (one for one in kinds if one is not NoneType)
    return Column(name, _COLUMN_TYPES[kind], nullable=NoneType in kinds, autoincrement=False)


def _sql_table(table: access_store.Table[Any]) -> Table:  # `Any`: rows of whatever class
    hints = get_type_hints(table.row)
    name = _PREFIX + table.name
    return Table(
        name,
        SCHEMA,
        *(_column(field.name, hints[field.name]) for field in fields(table.row)),
        PrimaryKeyConstraint(*table.key),
        *(Index(f"{name}_by_{'_'.join(index)}", *index) for index in table.indexes),
        sqlite_with_rowid=False,
    )


SQL_TABLES: Final = {table.name: _sql_table(table) for table in ALL_TABLES}
