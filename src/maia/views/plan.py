"""What does a View come to over the columns that are stored?

The three executors over columns ask before they compile. The plan says which
windows show which column, so that hidden columns are dropped, columns that
every window shows are passed on untouched, and only the rest need a CASE. It
also keeps the compiled form within limits, whatever the View says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, assert_never

from maia.errors import BadInput
from maia.events import AttributeUid, Kind, Kinds, PresentValue
from maia.policy.view import WINDOWS_MAX, View, parts_of, shows
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import (
    NODES_MAX,
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
    atoms,
    checked_size,
)
from maia.views.schema import checked_stored

EXPANDED_NODES_MAX: Final = 100_000


class ViewTooLarge(BadInput):
    """A View has too many windows, or its predicates are too large together."""

    code = "INPUT-VIEW-SIZE"


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """A View, resolved against what is stored."""

    windows: tuple[Predicate, ...]
    interest: Predicate
    stored: Kinds
    shown_by: dict[AttributeUid, tuple[int, ...]]
    """The windows, by position, that show each stored attribute; hidden ones are left out."""

    @property
    def seen(self) -> dict[AttributeUid, Kind]:
        """Return the kinds of what some window shows: all that the interest may name."""
        return {uid: self.stored[uid] for uid in self.shown_by}

    def is_always_shown(self, uid: AttributeUid) -> bool:
        """Say whether every window shows this attribute, so that an admitted row always has it."""
        return len(self.shown_by[uid]) == len(self.windows)


def plan(view: View, stored: Kinds) -> ViewPlan:
    """Resolve a View against the stored columns, within the limits."""
    checked_view(view)
    checked_stored(stored)
    shown_by = {
        uid: windows
        for uid in stored
        if (windows := tuple(i for i, window in enumerate(view.windows) if shows(window, uid)))
    }
    resolved = ViewPlan(tuple(window.admits for window in view.windows), view.interest, stored, shown_by)
    _check_expansion(resolved)
    return resolved


def checked_view(view: View) -> View:
    """Return `view`, refused if it is too large to compile. Everything recursive runs behind this."""
    if len(view.windows) > WINDOWS_MAX:
        raise ViewTooLarge(f"a view has at most {WINDOWS_MAX} windows, and this one has {len(view.windows)}")
    predicates = [window.admits for window in view.windows] + [view.interest]
    if sum(parts_of(checked_size(predicate)) for predicate in predicates) > NODES_MAX:
        raise ViewTooLarge(f"the predicates of a view have at most {NODES_MAX} parts together")
    return view


def _check_expansion(resolved: ViewPlan) -> None:
    # The planners of Spark and PostgreSQL put the definition of a column wherever it is used, so
    # an attribute that some windows show costs the size of those windows each time.
    sizes = [parts_of(window) for window in resolved.windows]
    cost = {
        uid: sum(sizes[i] for i in windows)
        for uid, windows in resolved.shown_by.items()
        if not resolved.is_always_shown(uid)
    }
    uses = sum(cost.get(atom.uid, 0) for atom in atoms(resolved.interest))
    if uses + sum(cost.values()) > EXPANDED_NODES_MAX:
        raise ViewTooLarge(f"written out by column, the view has more than {EXPANDED_NODES_MAX} parts")


# How is a predicate put together in a target language?


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


__all__ = [
    "EXPANDED_NODES_MAX",
    "WINDOWS_MAX",
    "ViewPlan",
    "ViewTooLarge",
    "checked_view",
    "plan",
    "Algebra",
    "compiled",
    "either",
    "in_order",
]
