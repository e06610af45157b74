"""How is a predicate put together in a target language?

The executors over columns each supply the nine pieces below; the walk over
the predicate, and the rule that a comparison across kinds is unknown, are
written here once. A target that follows Kleene's logic by itself (SQL,
Catalyst, Arrow's `_kleene` kernels) needs nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar, assert_never

from maia.events import AttributeUid, Kind, Kinds, PresentValue
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
)

__all__ = ["Algebra", "compiled", "either", "in_order"]

T = TypeVar("T")


class Algebra(Protocol[T]):
    """The pieces of one target language. Answers are true, false or unknown per row."""

    def constant(self, answer: bool | None) -> T:
        """Return the same answer for every row; None is unknown."""

    def is_present(self, uid: AttributeUid) -> T:
        """Ask whether the column has a value: true or false, never unknown."""

    def compare(self, uid: AttributeUid, operator: Operator, literal: PresentValue, kind: Kind) -> T:
        """Compare a column with a literal of the column's kind."""

    def is_one_of(self, uid: AttributeUid, literals: Sequence[PresentValue], kind: Kind) -> T:
        """Ask whether a column equals one of some literals of its kind."""

    def matches(self, uid: AttributeUid, test: TextTest, text: str) -> T:
        """Put a question to a column of strings."""

    def negated(self, inner: T) -> T:
        """Turn true and false around; unknown stays."""

    def all_of(self, parts: Sequence[T]) -> T:
        """Join at least two parts: false if one is false, else unknown if one is."""

    def any_of(self, parts: Sequence[T]) -> T:
        """Join at least two parts: true if one is true, else unknown if one is."""


def compiled(predicate: Predicate, columns: Kinds, algebra: Algebra[T]) -> T:
    """Write `predicate` over `columns` in the target language.

    An attribute without a column is missing in every row. The caller has
    checked the size, so the recursion is bounded.
    """
    match predicate:
        case Exists(uid):
            return algebra.is_present(uid) if uid in columns else algebra.constant(False)
        case Comparison(uid, operator, literal):
            if columns.get(uid) is not predicate.kind:
                return algebra.constant(None)
            return algebra.compare(uid, operator, literal, predicate.kind)
        case Membership(uid, literals):
            if columns.get(uid) is not predicate.kind:
                return algebra.constant(None)
            return algebra.is_one_of(uid, in_order(literals), predicate.kind)
        case TextMatch(uid, test, text):
            if columns.get(uid) is not Kind.STRING:
                return algebra.constant(None)
            if test is TextTest.LEVELS and (pattern := parse_path_pattern(text)).is_literal:
                # Comparisons are faster than a regular expression, and a planner understands them.
                node = algebra.compare(uid, Operator.EQ, pattern.literal, Kind.STRING)
                below = algebra.matches(uid, TextTest.PREFIX, f"{pattern.literal}/")
                return algebra.any_of([node, below]) if pattern.has_rest else node
            return algebra.matches(uid, test, text)
        case Not(inner):
            return algebra.negated(compiled(inner, columns, algebra))
        case AllOf(parts):
            answers = [compiled(part, columns, algebra) for part in parts]
            return _joined(answers, algebra, conjunction=True)
        case AnyOf(parts):
            answers = [compiled(part, columns, algebra) for part in parts]
            return _joined(answers, algebra, conjunction=False)
        case _:
            assert_never(predicate)


def in_order(literals: frozenset[PresentValue]) -> list[PresentValue]:
    """Return the literals of an `in` in a fixed order, so that equal views compile to equal text."""
    # All literals are of one kind, so they have an order; False < True serves here too.
    return sorted(literals)


def either(answers: Sequence[T], algebra: Algebra[T]) -> T:
    """Join any number of answers: true where at least one is."""
    return _joined(answers, algebra, conjunction=False)


def _joined(answers: Sequence[T], algebra: Algebra[T], *, conjunction: bool) -> T:
    if not answers:
        return algebra.constant(conjunction)
    if len(answers) == 1:
        return answers[0]
    return algebra.all_of(answers) if conjunction else algebra.any_of(answers)
