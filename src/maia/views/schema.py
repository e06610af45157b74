"""Which column type holds which kind of value?

The executors, the log and the tests all ask here, so that a table written by
one of them is read by all of them. Each kind has exactly one type per system;
a column of any other type is refused, because comparing it would need a
coercion and Maia has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from maia.errors import BadInput
from maia.events import Attribute, Kind, Kinds, routed_uid, vocabulary_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


POSTGRES_TYPES: Final[dict[Kind, str]] = {
    Kind.STRING: "text",
    Kind.INT: "bigint",
    Kind.FLOAT: "double precision",
    Kind.BOOL: "boolean",
    Kind.TIMESTAMP: "timestamptz",
    Kind.BYTES: "bytea",
}


class StoredMismatch(BadInput):
    """A table or batch does not have the columns that it was said to have."""

    code = "INPUT-STORED-COLUMNS"


def spark_type(kind: Kind) -> DataType:
    """Return the Spark type of a kind. Strings have the binary collation, the default."""
    from pyspark.sql import types as t

    match kind:
        case Kind.STRING:
            return t.StringType()
        case Kind.INT:
            return t.LongType()
        case Kind.FLOAT:
            return t.DoubleType()
        case Kind.BOOL:
            return t.BooleanType()
        case Kind.TIMESTAMP:
            return t.TimestampType()
        case Kind.BYTES:
            return t.BinaryType()


def spark_schema(stored: Kinds) -> StructType:
    """Return the schema of a data frame whose columns are called by uid."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(uid, spark_type(kind)) for uid, kind in stored.items()])


def checked_stored(stored: Kinds) -> Kinds:
    """Return `stored`, refused if a uid could be taken for anything but a column's name.

    A predicate's attribute becomes a column only if it is stored, so no text
    of a policy or a subscriber reaches a query as an identifier.
    """
    for uid in stored:
        routed_uid(uid)
    return stored


def checked_delivered(delivered: tuple[Attribute, ...], stored: Kinds) -> tuple[Attribute, ...]:
    """Return `delivered`, refused if two share a uid or a name, or one is stored as another kind.

    No two versions of a type give one uid two kinds, so the caller has mixed
    up two types; null would hide that.
    """
    vocabulary_of(delivered)
    for attribute in delivered:
        kind = stored.get(attribute.uid, attribute.kind)
        if kind is not attribute.kind:
            raise StoredMismatch(
                f"`{attribute.name}` is of kind {attribute.kind.value}, and is stored as {kind.value}"
            )
    return delivered
