"""How does the access control service keep what it knows?

In tables of rows with a key, changed in transactions that are safe as a whole
or not at all. A row is a frozen dataclass of ints, texts, bytes and nulls; a
table says which class, which fields are the key and which are looked up. The
service asks the few questions below and no others, so SQLite, PostgreSQL and
a dictionary can all answer, under one conformance suite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

__all__ = ["FOR_EVER", "Cell", "DomainStore", "From", "OneOf", "Table", "Tables", "Until", "Where"]

Row = TypeVar("Row")

Cell: TypeAlias = int | str | bytes | None

FOR_EVER: Final = (1 << 63) - 1
"""What stands in a row for a moment that never comes."""


@dataclass(frozen=True, slots=True)
class From:
    """At least this."""

    bound: int | str | bytes


@dataclass(frozen=True, slots=True)
class Until:
    """At most this."""

    bound: int | str | bytes


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these, of which there may be none."""

    values: tuple[int | str | bytes, ...]


Where: TypeAlias = Mapping[str, Cell | From | Until | OneOf]
"""What each named field must be: equal (None: null), in a range, or one of some."""


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """Rows of one class, by key; each index names fields that are looked up together."""

    name: str
    row: type[Row]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...] = ()


class Tables(Protocol):
    """What can be asked and changed within a transaction."""

    def get(self, table: Table[Row], *key: Cell) -> Row | None:
        """Return the row with this key."""
        ...

    def put(self, table: Table[Row], rows: Sequence[Row]) -> None:
        """Put rows in the places of those with the same keys, if there are such."""
        ...

    def delete(self, table: Table[Row], where: Where) -> int:
        """Remove rows, and return how many there were."""
        ...

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
        """Return at most `limit` rows by the field `order` (the key, if none is named).

        With `after`, only rows whose field `order` lies beyond it.
        """
        ...

    def count(self, table: Table[Row], where: Where) -> int:
        """Return how many rows there are."""
        ...

    def distinct(
        self, table: Table[Row], field: str, where: Where, *, limit: int, after: Cell = None
    ) -> list[Cell]:
        """Return the values of a field, each once, in order; nulls are left out."""
        ...


class DomainStore(Protocol):
    """Where the tables live."""

    def transaction(self) -> AbstractContextManager[Tables]:
        """Change tables: all of it is safe when the body ends, and nothing of it if it raises.

        Within a transaction, a second one is part of the first. There is none within a reading.
        """
        ...

    def reading(self) -> AbstractContextManager[Tables]:
        """Ask tables, at one moment, without changing them."""
        ...
