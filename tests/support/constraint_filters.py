"""Small constraint filters and all the values that can tell two of them apart.

Literals are few and short, and `VALUES` holds a value in every region between
them, of every kind. A relation that holds over `VALUES` therefore holds over
all values, and brute force is the truth.
"""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from maia.events import AttributeUid, PresentValue
from maia.predicates.syntax import (
    AllOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
)

UIDS = tuple(AttributeUid(name) for name in ("x", "y", "z"))

WORDS: tuple[PresentValue, ...] = tuple(
    "".join(letters) for size in range(5) for letters in product("ab ", repeat=size)
)
NUMBERS: tuple[PresentValue, ...] = (-1, 0, 1, 2, 3, 4)
OTHERS: tuple[PresentValue, ...] = (True, False, -1.0, 0.0, 0.5, 1.0, 2.0, b"", b"a")
VALUES: tuple[PresentValue, ...] = NUMBERS + OTHERS + WORDS
FEW: tuple[PresentValue, ...] = (*NUMBERS, True, False, 0.0, 1.0, b"", b"a", "", "a", "b", "ab", "ba", "a b")

_OPERATORS = st.sampled_from(list(Operator))
_INTS = st.integers(0, 3)


def number_constraints(uid: AttributeUid) -> st.SearchStrategy[Predicate]:
    """Questions about integers."""
    comparison = st.builds(Comparison, st.just(uid), _OPERATORS, _INTS)
    membership = st.builds(Membership, st.just(uid), st.frozensets(_INTS, min_size=1, max_size=3))
    return st.one_of(comparison, comparison, membership, membership.map(Not))


def text_constraints(uid: AttributeUid) -> st.SearchStrategy[Predicate]:
    """Questions about strings of one letter."""
    letter = st.sampled_from("ab")
    tests = [test for test in TextTest if test is not TextTest.LEVELS]
    match = st.builds(TextMatch, st.just(uid), st.sampled_from(tests), letter)
    equality = st.builds(Comparison, st.just(uid), st.sampled_from([Operator.EQ, Operator.NE]), letter)
    return st.one_of(match, match.map(Not), equality)


def constraints(uid: AttributeUid, *, text: bool = True) -> st.SearchStrategy[Predicate]:
    """One constraint on `uid`: mostly numbers, sometimes words, another kind, or `any`."""
    other = st.sampled_from([True, 1.0, b"a"]).map(lambda literal: Comparison(uid, Operator.EQ, literal))
    numbers = number_constraints(uid)
    rest = [text_constraints(uid)] if text else []
    return st.one_of(numbers, numbers, st.just(Exists(uid)), other, *rest)


def constraint_lists(
    *, uids: tuple[AttributeUid, ...] = UIDS[:2], size_max: int = 4, text: bool = True
) -> st.SearchStrategy[list[Predicate]]:
    """The constraints of one filter, in any order, several on one attribute included."""
    one = st.sampled_from(uids).flatmap(lambda uid: constraints(uid, text=text))
    return st.lists(one, max_size=size_max)


def filter_of(some: list[Predicate]) -> Predicate:
    """Write constraints as the predicate that a user would send."""
    return some[0] if len(some) == 1 else AllOf(tuple(some))
