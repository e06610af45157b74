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
from string import ascii_lowercase, ascii_uppercase
from typing import Final, TypeAlias, assert_never

from maia.errors import BadInput, Refusal
from maia.events import INT_MAX, INT_MIN, Attribute, AttributeUid, Instant, Kind, Kinds, PresentValue
from maia.expressions.meaning import FLOAT_HIGH, FLOAT_LOW, steps_in_one
from maia.expressions.summaries import STEPS_WIDTH, Aggregate, Measure, Summary
from maia.expressions.syntax import ArithmeticSign, Call, Function
from maia.policy.view import View, split
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import ALWAYS, Operator, TextTest
from maia.views.plan import (
    POSTGRES_TYPES,
    Algebra,
    KeyName,
    Transformed,
    ViewPlan,
    checked_delivered,
    columns_of,
    compiled,
    either,
    is_stepwise,
    plan,
    transformed,
)

Operand: TypeAlias = (
    str | int | float | bool | bytes | datetime | list[str | int | float | bool | bytes | datetime]
)

TableName: TypeAlias = str | tuple[str, ...]
"""A table, or its path: `("schema", "table")`."""

# PostgreSQL cuts longer names short, silently, so that two of them become one.
_IDENTIFIER_BYTES_MAX: Final = 63

_SIGNS: Final = {one: one.value for one in Operator} | {Operator.EQ: "=", Operator.NE: "<>"}


@dataclass(frozen=True, slots=True)
class Query:
    """A piece of SQL with `%s` for each operand, in order, as psycopg expects."""

    text: str
    operands: tuple[Operand, ...] = ()


def to_sql(
    view: View,
    table: TableName | Query,
    stored: Kinds,
    delivered: tuple[Attribute, ...],
    carries: Sequence[str] = (),
) -> Query:
    """Return the SELECT that shows `table`, whose columns are called by uid, through a View.

    A query in place of the table is what follows FROM, such as a select in brackets with a name.
    The result has the delivered attributes, by name, in that order; what is
    hidden or not stored is null. Columns that it `carries` follow, as they are in the table.
    """
    if is_stepwise(view, stored):
        return _transformed_query(view, table, stored, delivered, carries)
    resolved = plan(view, stored)
    columns = columns_of(stored, _SQL)
    windows = [compiled(window, columns, _SQL) for window in resolved.windows]
    seen = [_seen_column(uid, resolved, windows) for uid in resolved.shown_by] + _carried(carries)
    inner = _query(seen, _table(table), where=either(windows, _SQL))
    return _delivered_query(inner, view, resolved.seen, checked_delivered(delivered, stored), carries)


def _carried(names: Sequence[str]) -> list[Query]:
    return [Query(quoted(one)) for one in names]


def _transformed_query(
    view: View,
    table: TableName | Query,
    stored: Kinds,
    delivered: tuple[Attribute, ...],
    carries: Sequence[str] = (),
) -> Query:
    if any(step.is_keyed() for window in view.windows for step in window.transformations):
        # A secret in a statement would be in the server's log, its statistics and its plans.
        raise Refusal(
            "VIEW-NEEDS-KEY",
            "the view has a pseudonym, noise or a lookup, whose secret or table is never part of a statement",
        )
    found = transformed(view, stored, _SQL)
    seen = [_spelled(value, f" AS {quoted(uid)}") for uid, (_, value) in found.seen.items()]
    kinds = {uid: kind for uid, (kind, _) in found.seen.items()}
    inner = _query([*seen, *_carried(carries)], _stepped_source(_table(table), found), where=found.admits)
    return _delivered_query(inner, view, kinds, checked_delivered(delivered, kinds), carries)


def _stepped_source(source: Query, found: Transformed[Query]) -> Query:
    """Return a source with the columns that a View binds; OFFSET 0 keeps the planner from merging steps."""
    for number, level in enumerate(found.bound):
        named = [_spelled(value, f" AS {quoted(name)}") for name, value in level]
        step = _query([Query("*"), *named], source, where=found.begins if number == 0 else None)
        source = _spelled("(", step, f" OFFSET 0) AS step_{number}")
    return source


def _delivered_query(
    inner: Query, view: View, seen: Kinds, delivered: tuple[Attribute, ...], carries: Sequence[str] = ()
) -> Query:
    asks = view.interest != ALWAYS
    interest = compiled(view.interest, columns_of(seen, _SQL), _SQL) if asks else None
    outer = [_delivered_column(attribute, seen) for attribute in delivered] + _carried(carries)
    return _query(outer, _spelled("(", inner, ") AS seen"), where=interest)


def quoted(name: str) -> str:
    """Return a name as an SQL identifier in a text with `%s` placeholders."""
    if not name or "\0" in name or len(name.encode(errors="replace")) > _IDENTIFIER_BYTES_MAX:
        shown = name[:64].encode("unicode_escape").decode()
        raise BadInput(
            "INPUT-SQL-IDENTIFIER", f"`{shown}` is not a name of 1 to {_IDENTIFIER_BYTES_MAX} bytes"
        )
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def _table(table: TableName | Query) -> Query:
    if isinstance(table, Query):
        return table
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
    """Each piece is an expression, in brackets where another could bind tighter.

    No piece raises an error for any row. PostgreSQL calculates with constants beforehand, even inside a
    CASE, so numbers are brought into range before they are used, and not asked about beside their use.
    """

    def column(self, uid: AttributeUid, kind: Kind) -> Query:
        return Query(quoted(uid))

    def constant(self, answer: bool | None) -> Query:
        return Query({True: "TRUE", False: "FALSE", None: "NULL::boolean"}[answer])

    def is_present(self, found: Query) -> Query:
        return _spelled("(", found, " IS NOT NULL)")

    def compare(self, found: Query, operator: Operator, literal: PresentValue, kind: Kind) -> Query:
        return _spelled(
            "(", _comparable(found, kind), f" {_SIGNS[operator]} ", self.literal(literal, kind), ")"
        )

    def is_one_of(self, found: Query, literals: Sequence[PresentValue], kind: Kind) -> Query:
        operand = Query(f"%s::{POSTGRES_TYPES[kind]}[]", ([_operand(literal) for literal in literals],))
        return _spelled("(", _comparable(found, kind), " = ANY (", operand, "))")

    def matches(self, found: Query, test: TextTest, text: str) -> Query:
        # No LIKE: its wildcards and its escape would have to be separated from the operand's own.
        column, operand = _comparable(found, Kind.STRING), Query("%s::text", (text,))
        match test:
            case TextTest.PREFIX:
                return _spelled("starts_with(", column, ", ", operand, ")")
            case TextTest.SUFFIX:
                length = Query("%s::integer", (len(text),))
                return _spelled("(right(", column, ", ", length, ") = ", operand, ")")
            case TextTest.CONTAINS:
                return _spelled("(strpos(", column, ", ", operand, ") > 0)")
            case TextTest.TOKEN:
                spaced = Query("%s::text", (f" {text} ",))
                return _spelled("(strpos(' ' || ", column, " || ' ', ", spaced, ") > 0)")
            case TextTest.LEVELS:
                expression = Query("%s::text", (rf"\A{parse_path_pattern(text).regex()}\Z",))
                return _spelled("(", column, " ~ ", expression, ")")
            case _:
                assert_never(test)

    def literal(self, value: PresentValue | None, kind: Kind) -> Query:
        if value is None:
            return Query(f"NULL::{POSTGRES_TYPES[kind]}")
        return Query(f"%s::{POSTGRES_TYPES[kind]}", (_operand(value),))

    def calculated(self, sign: ArithmeticSign, left: Query, right: Query, kind: Kind) -> Query:
        if kind is Kind.FLOAT:
            one, other = _in_float_range(left), _in_float_range(right)
            if sign is ArithmeticSign.OVER:
                other = _spelled("NULLIF(", other, ", 0::double precision)")
            return _spelled("((", one, f" {sign.value} ", other, ") + 0::double precision)")
        one, other = _spelled("(", left, ")::numeric"), _spelled("(", right, ")::numeric")
        if sign is ArithmeticSign.OVER:
            return _as_bigint(_spelled("div(", one, ", NULLIF(", other, ", 0))"))
        return _as_bigint(_spelled("(", one, f" {sign.value} ", other, ")"))

    def coalesced(self, parts: Sequence[Query], kind: Kind) -> Query:
        return _spelled("COALESCE(", _listed(parts, ", "), ")")

    def chosen(self, condition: Query, then: Query, otherwise: Query, kind: Kind) -> Query:
        return _spelled(
            "(CASE WHEN ", condition, " THEN ", then, " WHEN NOT ", condition, " THEN ", otherwise, " END)"
        )

    def called(self, call: Call, inner: Query, keys: KeyName) -> Query:
        operand = call.operands[0] if call.operands else None
        match call.function:
            case Function.ROUND_TO | Function.BUCKET:
                return _stepped(call, inner)
            case Function.TRUNCATE:
                return _spelled("date_trunc(", Query("%s::text", (str(operand),)), ", ", inner, ", 'UTC')")
            case Function.FIRST:
                return _spelled("left(", inner, ", ", Query("%s::integer", (int(operand or 0),)), ")")
            case Function.UPPER:
                return _spelled("translate(", inner, f", '{ascii_lowercase}', '{ascii_uppercase}')")
            case Function.LOWER:
                return _spelled("translate(", inner, f", '{ascii_uppercase}', '{ascii_lowercase}')")
            case Function.MASK:
                kept = Query("%s::integer", (int(operand or 0),))
                hidden = _spelled("repeat('*', GREATEST(length(", inner, ") - ", kept, ", 0))")
                return _spelled("(", hidden, " || right(", inner, ", ", kept, "))")
            case Function.DAY_OF:
                day = _spelled("(date_trunc('day', ", inner, ", 'UTC') AT TIME ZONE 'UTC')::date")
                return _spelled("(", day, " - DATE '1970-01-01')::bigint")
            case Function.HOUR_OF:
                return _spelled("extract(hour FROM (", inner, " AT TIME ZONE 'UTC'))::bigint")
            case _:
                raise AssertionError("a keyed function was refused before")

    def negated(self, inner: Query) -> Query:
        return _spelled("(NOT ", inner, ")")

    def all_of(self, parts: Sequence[Query]) -> Query:
        return _spelled("(", _listed(parts, " AND "), ")")

    def any_of(self, parts: Sequence[Query]) -> Query:
        return _spelled("(", _listed(parts, " OR "), ")")


_SQL: Final[Algebra[Query]] = _SqlAlgebra()


def _comparable(found: Query, kind: Kind) -> Query:
    return _spelled("(", found, ' COLLATE "C")') if kind is Kind.STRING else found


def _in_float_range(found: Query) -> Query:
    within = (" BETWEEN ", Query("%s::double precision", (FLOAT_LOW,)), " AND ")
    high = Query("%s::double precision", (FLOAT_HIGH,))
    return _spelled("(CASE WHEN ", found, " = 0 OR abs(", found, ")", *within, high, " THEN ", found, " END)")


def _as_bigint(number: Query) -> Query:
    """Return a numeric as a bigint, or nothing if it is none; what is written once is calculated once."""
    low, high = INT_MIN - 1, INT_MAX + 1
    within = _spelled("LEAST(GREATEST(", number, f", {low}::numeric), {high}::numeric)")
    return _spelled("NULLIF(NULLIF(", within, f", {low}::numeric), {high}::numeric)::bigint")


def _stepped(call: Call, inner: Query) -> Query:
    rounds = call.function is Function.ROUND_TO
    if call.kind is Kind.FLOAT:
        step = Query("%s::double precision", (float(call.operands[0]),))
        steps = _spelled("(", _in_float_range(inner), " / ", step, ")")
        whole = _spelled("round(" if rounds else "floor(", steps, ")")
        per_one = steps_in_one(float(call.operands[0]))
        by = ("*", step) if per_one is None else ("/", Query("%s::double precision", (per_one,)))
        return _spelled("(", whole, f" {by[0]} ", by[1], " + 0::double precision)")
    size = int(call.operands[0])
    number = _spelled("(", inner, ")::numeric")
    if rounds:
        high = INT_MAX + 1
        moved = _spelled("LEAST(", number, f" + {size // 2}, {high}::numeric)")
        number = _spelled("NULLIF(", moved, f", {high}::numeric)")
    rest = _spelled("mod(mod(", number, f", {size}) + {size}, {size})")
    return _as_bigint(_spelled("(", number, " - ", rest, ")"))


def _operand(literal: PresentValue) -> str | int | float | bool | bytes | datetime:
    # As a datetime, because microseconds times an interval would go through a double.
    return literal.to_datetime() if isinstance(literal, Instant) else literal


def _listed(parts: Iterable[Query], separator: str) -> Query:
    listed = list(parts)
    operands = tuple(operand for part in listed for operand in part.operands)
    return Query(separator.join(part.text for part in listed), operands)


def _spelled(*pieces: str | Query) -> Query:
    return _listed((Query(piece) if isinstance(piece, str) else piece for piece in pieces), "")


# A View that summarises.


def to_sql_summary(
    view: View,
    table: TableName,
    stored: Kinds,
    delivered: tuple[Attribute, ...],
    *,
    published_at: str,
    closed_at: Instant | None = None,
) -> Query:
    """Return the SELECT that shows what the rows of a `table` come to, by a View that summarises.

    `published_at` is the column with the moment of publication. Periods that are closed at `closed_at`
    are shown; without it, those that are closed when the query runs.
    """
    parts = split(view)
    if any(step.is_keyed() for step in parts.front.windows[0].transformations):
        raise Refusal(
            "VIEW-NEEDS-KEY", "what is counted depends on a secret, which is never part of an SQL statement"
        )
    summary, found = parts.summary, transformed(parts.front, stored, _SQL)
    moment = Query(f"extract(epoch FROM {quoted(published_at)})")
    period = _spelled("floor(", moment, f" / {summary.every_s})::bigint AS period")
    inputs = [_spelled(value, f" AS {quoted(uid)}") for uid, (_, value) in found.seen.items()]
    taken = _query([*inputs, period], _stepped_source(_table(table), found), where=found.admits)
    keys = [quoted(f"k{place}") for place in range(len(summary.keys))]
    now = Query("clock_timestamp()")
    if closed_at is not None:
        now = Query("%s::timestamptz", (_operand(closed_at),))
    waits = summary.every_s + summary.late_s
    closed = _spelled(f"period * {summary.every_s} + {waits} <= extract(epoch FROM ", now, ")")
    rows = [*(Query(f"{key} IS NOT NULL") for key in keys), closed]
    columns = [Query(f"{key} AS {quoted(one.uid)}") for key, one in zip(keys, summary.keys, strict=True)]
    columns += [_measured(place, one, summary) for place, one in enumerate(summary.measures)]
    grouped = _spelled(
        _query(columns, _spelled("(", taken, ") AS taken"), where=_listed(rows, " AND ")),
        f" GROUP BY {', '.join([*keys, 'period'])} HAVING count(*) >= {summary.at_least}",
    )
    behind = _spelled("(", grouped, ") AS derived")
    return _transformed_query(parts.behind, behind, summary.kinds, delivered)


def _measured(place: int, measure: Measure, summary: Summary) -> Query:
    column, name = Query(quoted(f"m{place}")), quoted(measure.uid)
    match measure.aggregate:
        case Aggregate.COUNT:
            return Query(f"count(*) AS {name}")
        case Aggregate.PERIOD_START:
            # Whole seconds times an interval are exact as a double; microseconds would not be.
            start = f"period * {summary.every_s} * interval '1 second'"
            return Query(f"TIMESTAMPTZ '1970-01-01 00:00:00Z' + {start} AS {name}")
        case Aggregate.MEAN:
            step = None if measure.step is None else Query("%s::double precision", (measure.step,))
            values = column if step is None else _steps(column, step)
            value = _spelled("sum(", values, ")::double precision / count(", values, ")::double precision")
            if step is not None:
                value = _spelled("(", value, ") * ", step, " + 0::double precision")
        case _:
            values = column
            value = _spelled(f"{measure.aggregate.value}(", column, ")")
    enough = _spelled("count(", values, f") >= {summary.at_least}")
    return _spelled("CASE WHEN ", enough, " THEN ", value, f" END AS {name}")


def _steps(column: Query, step: Query) -> Query:
    """Return a float as a whole number of steps, or nothing if there are too many for one."""
    steps = _spelled("round(", _in_float_range(column), " / ", step, ")")
    width = f"{STEPS_WIDTH}::double precision"
    return _spelled("(CASE WHEN abs(", steps, f") <= {width} THEN ", steps, " END)::bigint")
