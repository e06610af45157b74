"""How does Spark show what this View shows?

Pipelines ask. The answer is made of Catalyst columns only, so the planner
prunes, pushes down and generates code exactly as for a query written by hand;
no Python function runs per row. No text is ever parsed as SQL: columns are
called by uid in backticks, operands are typed literals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.events import Attribute, AttributeUid, Kind, Kinds, PresentValue
from maia.policy.view import View
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import ALWAYS, Operator, Predicate, TextTest, checked_size
from maia.views.plan import Algebra, ViewPlan, compiled, either, plan
from maia.views.schema import StoredMismatch, checked_delivered, checked_stored, spark_type

__all__ = ["SparkView", "to_spark", "to_spark_test"]


@dataclass(frozen=True, slots=True)
class SparkView:
    """A View as columns: which rows, what is seen of them, which of those are wanted, and by which names.

    `interest` is null where the subscriber wants everything it may see.
    """

    stored: Kinds = field(repr=False)
    admits: Column
    seen: tuple[Column, ...]
    interest: Column | None
    delivered: tuple[Column, ...]

    def of(self, events: DataFrame) -> DataFrame:
        """Return `events`, whose columns are called by uid, as the View shows them."""
        _check_columns(events, self.stored)
        seen = events.where(self.admits).select(*self.seen)
        wanted = seen if self.interest is None else seen.where(self.interest)
        return wanted.select(*self.delivered)


def to_spark(view: View, stored: Kinds, delivered: tuple[Attribute, ...]) -> SparkView:
    """Compile a View for data frames with the `stored` columns.

    The result has the delivered attributes, by name, in that order; what is
    hidden or not stored is null. Needs a running session.
    """
    resolved = plan(view, stored)
    windows = [compiled(window, stored, _SPARK) for window in resolved.windows]
    asks = resolved.interest != ALWAYS
    return SparkView(
        stored=dict(stored),
        admits=either(windows, _SPARK),
        seen=tuple(_seen_column(uid, resolved, windows) for uid in resolved.shown_by),
        interest=compiled(resolved.interest, resolved.seen, _SPARK) if asks else None,
        delivered=tuple(_delivered_column(a, resolved.seen) for a in checked_delivered(delivered, stored)),
    )


def to_spark_test(predicate: Predicate, stored: Kinds) -> Column:
    """Return `predicate` over the `stored` columns, called by uid: true, false, or null for unknown."""
    return compiled(checked_size(predicate), checked_stored(stored), _SPARK)


def _check_columns(events: DataFrame, stored: Kinds) -> None:
    # A string column with another collation would compare differently, so the type must be exact.
    found = {column.name: column.dataType for column in events.schema.fields}
    for uid, kind in stored.items():
        if found.get(uid) != spark_type(kind):
            raise StoredMismatch(
                f"the data frame has no column `{uid}` of type `{spark_type(kind).simpleString()}`"
            )


def _seen_column(uid: AttributeUid, resolved: ViewPlan, windows: Sequence[Column]) -> Column:
    if resolved.is_always_shown(uid):
        return _column(uid)
    showing = either([windows[i] for i in resolved.shown_by[uid]], _SPARK)
    return F.when(showing, _column(uid)).alias(uid)


def _delivered_column(attribute: Attribute, seen: Kinds) -> Column:
    if attribute.uid in seen:
        return _column(attribute.uid).alias(attribute.name)
    return F.lit(None).cast(spark_type(attribute.kind)).alias(attribute.name)


class _SparkAlgebra:
    """Each piece is a boolean column. Catalyst's own logic is three-valued already."""

    def constant(self, answer: bool | None) -> Column:
        return F.lit(answer).cast(spark_type(Kind.BOOL)) if answer is None else F.lit(answer)

    def is_present(self, uid: AttributeUid) -> Column:
        return _column(uid).isNotNull()

    def compare(self, uid: AttributeUid, operator: Operator, literal: PresentValue, kind: Kind) -> Column:
        column, operand = _column(uid), _literal(literal, kind)
        match operator:
            case Operator.EQ:
                return column == operand
            case Operator.NE:
                return column != operand
            case Operator.LT:
                return column < operand
            case Operator.LE:
                return column <= operand
            case Operator.GT:
                return column > operand
            case Operator.GE:
                return column >= operand
            case _:
                assert_never(operator)

    def is_one_of(self, uid: AttributeUid, literals: Sequence[PresentValue], kind: Kind) -> Column:
        listed = _column(uid).isin([_literal(literal, kind) for literal in literals])
        if kind is Kind.FLOAT and 0.0 in literals:
            # A long list becomes a hash set, where zero has two forms; `=` knows only one.
            return listed | (_column(uid) == _literal(0.0, kind))
        return listed

    def matches(self, uid: AttributeUid, test: TextTest, text: str) -> Column:
        column = _column(uid)
        match test:
            case TextTest.PREFIX:
                return F.startswith(column, F.lit(text))
            case TextTest.SUFFIX:
                return F.endswith(column, F.lit(text))
            case TextTest.CONTAINS:
                return F.contains(column, F.lit(text))
            case TextTest.TOKEN:
                space = F.lit(" ")
                return F.contains(F.concat(space, column, space), F.lit(f" {text} "))
            case TextTest.LEVELS:
                return F.rlike(column, F.lit(rf"(?s)\A{parse_path_pattern(text).regex()}\z"))
            case _:
                assert_never(test)

    def negated(self, inner: Column) -> Column:
        return ~inner

    def all_of(self, parts: Sequence[Column]) -> Column:
        return _balanced(lambda one, other: one & other, parts)

    def any_of(self, parts: Sequence[Column]) -> Column:
        return _balanced(lambda one, other: one | other, parts)


_SPARK: Final[Algebra[Column]] = _SparkAlgebra()


def _balanced(join: Callable[[Column, Column], Column], parts: Sequence[Column]) -> Column:
    # A chain of ten thousand would be that deep, and Catalyst walks its trees by recursion.
    level = list(parts)
    while len(level) > 1:
        paired = [join(one, other) for one, other in zip(level[::2], level[1::2], strict=False)]
        level = paired + level[len(paired) * 2 :]
    return level[0]


def _column(uid: AttributeUid) -> Column:
    return F.col("`" + uid.replace("`", "``") + "`")


def _literal(value: PresentValue, kind: Kind) -> Column:
    """Return a literal of exactly the column's type, so that Catalyst has nothing to coerce."""
    if kind is Kind.TIMESTAMP:
        return F.timestamp_micros(F.lit(int(value)).cast(spark_type(Kind.INT)))
    if kind is Kind.INT:
        return F.lit(value).cast(spark_type(kind))
    return F.lit(value)
