"""When does an event satisfy a predicate?

This is the definition, plain and slow. Every compiler agrees with it. The
logic is Kleene's: a comparison with an attribute that is missing, null,
hidden or of another kind is unknown, unknown stays unknown under `not`, and
only true ever passes. SQL's WHERE does the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

from maia.events import Event, PresentValue, kind_of
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Atom,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
)

__all__ = ["admits", "atom_holds_for", "verdict"]


def admits(predicate: Predicate, event: Event) -> bool:
    """Say whether `event` passes: its verdict is true, not false and not unknown."""
    return verdict(predicate, event) is True


def verdict(predicate: Predicate, event: Event) -> bool | None:
    """Say whether `event` satisfies `predicate`: True, False, or None for unknown."""
    match predicate:
        case Exists(uid):
            return event.get(uid) is not None
        case Comparison() | Membership() | TextMatch():
            found = event.get(predicate.uid)
            return None if found is None else atom_holds_for(predicate, found)
        case Not(inner):
            return _kleene_not(verdict(inner, event))
        case AllOf(parts):
            return _kleene_and(verdict(part, event) for part in parts)
        case AnyOf(parts):
            return _kleene_or(verdict(part, event) for part in parts)
        case _:
            assert_never(predicate)


def atom_holds_for(atom: Atom, found: PresentValue) -> bool | None:
    """Answer one question about one present value; unknown if the kinds differ."""
    match atom:
        case Exists():
            return True
        case Comparison(_, operator, literal):
            return _compare(operator, found, literal) if kind_of(found) is atom.kind else None
        case Membership(_, literals):
            return found in literals if kind_of(found) is atom.kind else None
        case TextMatch(_, test, text):
            return _text_holds(test, found, text) if isinstance(found, str) else None
        case _:
            assert_never(atom)


def _compare(operator: Operator, found: Any, literal: Any) -> bool:
    # Any: both sides are of one kind, which the caller has checked and the type checker cannot see.
    match operator:
        case Operator.EQ:
            return bool(found == literal)
        case Operator.NE:
            return bool(found != literal)
        case Operator.LT:
            return bool(found < literal)
        case Operator.LE:
            return bool(found <= literal)
        case Operator.GT:
            return bool(found > literal)
        case Operator.GE:
            return bool(found >= literal)
        case _:
            assert_never(operator)


def _text_holds(test: TextTest, found: str, text: str) -> bool:
    match test:
        case TextTest.PREFIX:
            return found.startswith(text)
        case TextTest.SUFFIX:
            return found.endswith(text)
        case TextTest.CONTAINS:
            return text in found
        case TextTest.TOKEN:
            return text in found.split(" ")
        case TextTest.LEVELS:
            return parse_path_pattern(text).matches(found)
        case _:
            assert_never(test)


def _kleene_not(inner: bool | None) -> bool | None:
    return None if inner is None else not inner


def _kleene_and(parts: Iterable[bool | None]) -> bool | None:
    answers = list(parts)
    if False in answers:
        return False
    return None if None in answers else True


def _kleene_or(parts: Iterable[bool | None]) -> bool | None:
    answers = list(parts)
    if True in answers:
        return True
    return None if None in answers else False
