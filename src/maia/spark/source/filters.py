"""Which part of the filter of a query of Spark can a source apply for it?

Spark hands a source the conjuncts of a query's filter. One that has an exact
counterpart in Maia's language narrows what is read; Spark applies all of
them again, so nothing depends on it but the number of rows that travel. A
conjunct without a counterpart is left to Spark alone. Narrowing never adds a
row: what is pushed is only ever joined with `and`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, cast

from pyspark.sql import datasource as spark

from maia.errors import BadInput
from maia.events import Attribute, Instant, Kind, PresentValue, Vocabulary
from maia.predicates import Comparison, Exists, Membership, Not, Operator, Predicate, TextMatch, TextTest

__all__ = ["pushed_predicate", "pushed_predicates"]

LITERALS_MAX: Final = 1_000
"""A longer list of values is left to Spark: requests to brokers are bounded."""
CONJUNCTS_MAX: Final = 64

_COMPARISONS: Final[dict[type[spark.Filter], Operator]] = {
    spark.EqualTo: Operator.EQ,
    spark.GreaterThan: Operator.GT,
    spark.GreaterThanOrEqual: Operator.GE,
    spark.LessThan: Operator.LT,
    spark.LessThanOrEqual: Operator.LE,
}
_TEXT_TESTS: Final[dict[type[spark.Filter], TextTest]] = {
    spark.StringStartsWith: TextTest.PREFIX,
    spark.StringEndsWith: TextTest.SUFFIX,
    spark.StringContains: TextTest.CONTAINS,
}
_CLASSES: Final[dict[Kind, type]] = {
    Kind.STRING: str,
    Kind.INT: int,
    Kind.FLOAT: float,
    Kind.BOOL: bool,
    Kind.TIMESTAMP: datetime,
    Kind.BYTES: bytes,
}


def pushed_predicates(filters: Iterable[spark.Filter], vocabulary: Vocabulary) -> tuple[Predicate, ...]:
    """Return what of Spark's conjuncts the network can apply, each by itself."""
    found = (pushed_predicate(one, vocabulary) for one in filters)
    return tuple(one for one in found if one is not None)[:CONJUNCTS_MAX]


def pushed_predicate(pushed: spark.Filter, vocabulary: Vocabulary) -> Predicate | None:
    """Return the exact counterpart of one conjunct, or None if it has none."""
    try:
        return _counterpart(pushed, vocabulary)
    except BadInput:  # a literal that no event can have, or an order on a kind that has none
        return None


def _counterpart(pushed: spark.Filter, vocabulary: Vocabulary) -> Predicate | None:
    match pushed:
        case spark.Not(child=inner):
            found = _counterpart(inner, vocabulary)
            return None if found is None else Not(found)
        case spark.IsNotNull(attribute=path):
            return _of(path, vocabulary, lambda attribute: Exists(attribute.uid))
        case spark.IsNull(attribute=path):
            return _of(path, vocabulary, lambda attribute: Not(Exists(attribute.uid)))
        case spark.In(attribute=path, value=values):
            return _of(path, vocabulary, lambda attribute: _membership(attribute, values))
        case _ if type(pushed) in _COMPARISONS or type(pushed) in _TEXT_TESTS:
            return _compared(pushed, vocabulary)
    return None


def _compared(pushed: spark.Filter, vocabulary: Vocabulary) -> Predicate | None:
    # The classes share these two fields, and their base class does not say so.
    found = cast("spark.EqualTo", pushed)
    operator, test = _COMPARISONS.get(type(pushed)), _TEXT_TESTS.get(type(pushed))

    def compared(attribute: Attribute) -> Predicate | None:
        literal = _literal(attribute.kind, found.value)
        if literal is None:
            return None
        if test is not None:
            return TextMatch(attribute.uid, test, literal) if isinstance(literal, str) else None
        return None if operator is None else Comparison(attribute.uid, operator, literal)

    return _of(found.attribute, vocabulary, compared)


def _of(
    path: tuple[str, ...], vocabulary: Vocabulary, make: Callable[[Attribute], Predicate | None]
) -> Predicate | None:
    attribute = vocabulary.get(path[0]) if len(path) == 1 else None
    return None if attribute is None else make(attribute)


def _membership(attribute: Attribute, values: object) -> Predicate | None:
    if not isinstance(values, tuple | list) or not 1 <= len(values) <= LITERALS_MAX:
        return None
    literals = [_literal(attribute.kind, value) for value in values]
    present = frozenset(literal for literal in literals if literal is not None)
    # With a null in the list `not in` never passes, which our language cannot say: left to Spark.
    return None if None in literals else Membership(attribute.uid, present)


def _literal(kind: Kind, value: object) -> PresentValue | None:
    """Return Spark's literal as a value of the attribute's kind; None if it is of another one."""
    if type(value) is not _CLASSES[kind]:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return None  # it is of another kind
        since = value - datetime(1970, 1, 1, tzinfo=UTC)
        return Instant((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
    return cast("PresentValue", value)  # its class is the one of its kind
