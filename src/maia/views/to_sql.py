"""Which query shows what this View shows of a PostgreSQL table?

PostgreSQL participants ask. The answer is text with placeholders, and the
operands beside it: nothing that a policy or a subscriber wrote is spliced into
the text. Strings compare by code point whatever the database's locale, because
every comparison names the collation "C". The database is in UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias, assert_never

from maia.errors import BadInput
from maia.events import Attribute, AttributeUid, Instant, Kind, Kinds, PresentValue
from maia.policy.view import View
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import ALWAYS, Operator, TextTest
from maia.views.plan import Algebra, ViewPlan, compiled, either, plan
from maia.views.schema import POSTGRES_TYPES, checked_delivered

__all__ = ["BadIdentifier", "Operand", "Query", "TableName", "quoted", "to_sql"]

Operand: TypeAlias = (
    str | int | float | bool | bytes | datetime | list[str | int | float | bool | bytes | datetime]
)

TableName: TypeAlias = str | tuple[str, ...]
"""A table, or its path: `("schema", "table")`."""

# PostgreSQL cuts longer names short, silently, so that two of them become one.
_IDENTIFIER_BYTES_MAX: Final = 63

_SIGNS: Final = {
    Operator.EQ: "=",
    Operator.NE: "<>",
    Operator.LT: "<",
    Operator.LE: "<=",
    Operator.GT: ">",
    Operator.GE: ">=",
}


class BadIdentifier(BadInput):
    """A name cannot be the name of a table or column in PostgreSQL."""

    code = "INPUT-SQL-IDENTIFIER"


@dataclass(frozen=True, slots=True)
class Query:
    """A piece of SQL with `%s` for each operand, in order, as psycopg expects."""

    text: str
    operands: tuple[Operand, ...] = ()


def to_sql(view: View, table: TableName, stored: Kinds, delivered: tuple[Attribute, ...]) -> Query:
    """Return the SELECT that shows `table`, whose columns are called by uid, through a View.

    The result has the delivered attributes, by name, in that order; what is
    hidden or not stored is null.
    """
    resolved = plan(view, stored)
    windows = [compiled(window, stored, _SQL) for window in resolved.windows]
    seen = [_seen_column(uid, resolved, windows) for uid in resolved.shown_by]
    inner = _query(seen, _table(table), where=either(windows, _SQL))
    outer = [
        _delivered_column(attribute, resolved.seen) for attribute in checked_delivered(delivered, stored)
    ]
    asks = resolved.interest != ALWAYS
    interest = compiled(resolved.interest, resolved.seen, _SQL) if asks else None
    return _query(outer, _spelled("(", inner, ") AS seen"), where=interest)


def quoted(name: str) -> str:
    """Return a name as an SQL identifier in a text with `%s` placeholders."""
    if not name or "\0" in name or len(name.encode(errors="replace")) > _IDENTIFIER_BYTES_MAX:
        shown = name[:64].encode("unicode_escape").decode()
        raise BadIdentifier(f"`{shown}` is not a name of 1 to {_IDENTIFIER_BYTES_MAX} bytes")
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def _table(table: TableName) -> Query:
    path = (table,) if isinstance(table, str) else table
    return Query(".".join(quoted(part) for part in path))


def _query(columns: Iterable[Query], source: Query, *, where: Query | None) -> Query:
    pieces: list[str | Query] = ["SELECT ", _listed(columns, ", "), " FROM ", source]
    return _spelled(*pieces) if where is None else _spelled(*pieces, " WHERE ", where)


def _seen_column(uid: AttributeUid, resolved: ViewPlan, windows: Sequence[Query]) -> Query:
    if resolved.is_always_shown(uid):
        return Query(quoted(uid))
    showing = either([windows[i] for i in resolved.shown_by[uid]], _SQL)
    return _spelled("CASE WHEN ", showing, f" THEN {quoted(uid)} END AS {quoted(uid)}")


def _delivered_column(attribute: Attribute, seen: Kinds) -> Query:
    if attribute.uid in seen:
        return Query(f"{quoted(attribute.uid)} AS {quoted(attribute.name)}")
    return Query(f"NULL::{POSTGRES_TYPES[attribute.kind]} AS {quoted(attribute.name)}")


class _SqlAlgebra:
    """Each piece is a boolean expression, in brackets where another could bind tighter."""

    def constant(self, answer: bool | None) -> Query:
        return Query({True: "TRUE", False: "FALSE", None: "NULL::boolean"}[answer])

    def is_present(self, uid: AttributeUid) -> Query:
        return Query(f"({quoted(uid)} IS NOT NULL)")

    def compare(self, uid: AttributeUid, operator: Operator, literal: PresentValue, kind: Kind) -> Query:
        return Query(f"({_column(uid, kind)} {_SIGNS[operator]} {_placeholder(kind)})", (_operand(literal),))

    def is_one_of(self, uid: AttributeUid, literals: Sequence[PresentValue], kind: Kind) -> Query:
        operand = [_operand(literal) for literal in literals]
        return Query(f"({_column(uid, kind)} = ANY (%s::{POSTGRES_TYPES[kind]}[]))", (operand,))

    def matches(self, uid: AttributeUid, test: TextTest, text: str) -> Query:
        # No LIKE: its wildcards and its escape would have to be separated from the operand's own.
        column = _column(uid, Kind.STRING)
        match test:
            case TextTest.PREFIX:
                return Query(f"starts_with({column}, %s::text)", (text,))
            case TextTest.SUFFIX:
                return Query(f"(right({column}, %s::integer) = %s::text)", (len(text), text))
            case TextTest.CONTAINS:
                return Query(f"(strpos({column}, %s::text) > 0)", (text,))
            case TextTest.TOKEN:
                return Query(f"(strpos(' ' || {column} || ' ', %s::text) > 0)", (f" {text} ",))
            case TextTest.LEVELS:
                return Query(f"({column} ~ %s::text)", (rf"\A{parse_path_pattern(text).regex()}\Z",))
            case _:
                assert_never(test)

    def negated(self, inner: Query) -> Query:
        return _spelled("(NOT ", inner, ")")

    def all_of(self, parts: Sequence[Query]) -> Query:
        return _spelled("(", _listed(parts, " AND "), ")")

    def any_of(self, parts: Sequence[Query]) -> Query:
        return _spelled("(", _listed(parts, " OR "), ")")


_SQL: Final[Algebra[Query]] = _SqlAlgebra()


def _column(uid: AttributeUid, kind: Kind) -> str:
    return f'({quoted(uid)} COLLATE "C")' if kind is Kind.STRING else quoted(uid)


def _placeholder(kind: Kind) -> str:
    return f"%s::{POSTGRES_TYPES[kind]}"


def _operand(literal: PresentValue) -> str | int | float | bool | bytes | datetime:
    # As a datetime, because microseconds times an interval would go through a double.
    return literal.to_datetime() if isinstance(literal, Instant) else literal


def _listed(parts: Iterable[Query], separator: str) -> Query:
    listed = list(parts)
    operands = tuple(operand for part in listed for operand in part.operands)
    return Query(separator.join(part.text for part in listed), operands)


def _spelled(*pieces: str | Query) -> Query:
    return _listed((Query(piece) if isinstance(piece, str) else piece for piece in pieces), "")
