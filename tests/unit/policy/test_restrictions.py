"""Which values does a restriction force, and when can nothing satisfy it?"""

from __future__ import annotations

import pytest

from maia.credentials.authority import ALL_ATTRIBUTES
from maia.events import AttributeUid, Kind
from maia.policy.restrictions import forced_values, unmeetable
from maia.predicates.syntax import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    mistyped,
)

A, B = AttributeUid("a"), AttributeUid("b")
KINDS = {A: Kind.INT, B: Kind.STRING}


def equals(uid, literal):
    return Comparison(uid, Operator.EQ, literal)


@pytest.mark.parametrize(
    "free",
    [
        ALWAYS,
        Membership(A, frozenset({1, 2})),
        Comparison(A, Operator.LE, 1),
        Not(equals(A, 1)),
        AnyOf((equals(A, 1), equals(A, 2))),
        Not(Not(Exists(A))),
    ],
)
def test_anything_else_forces_nothing(free):
    assert forced_values(free) == {}


def test_a_deep_conjunction_is_no_danger():
    deep = equals(A, 1)
    for _ in range(100_000):
        deep = AllOf((deep,))
    assert forced_values(deep) == {A: 1}


def unmet(restriction, writable=ALL_ATTRIBUTES):
    return unmeetable(restriction, writable=writable, kinds=KINDS)


@pytest.mark.parametrize(
    "restriction",
    [
        AllOf((equals(A, 1), equals(A, 2))),
        AllOf((equals(A, 1), Comparison(A, Operator.GT, 5))),
        AllOf((equals(A, 1), Not(Exists(A)))),
    ],
)
def test_a_forced_value_that_the_rest_contradicts_cannot_be_met(restriction):
    assert unmet(restriction).attribute == A


def test_a_literal_of_another_kind_than_declared_cannot_be_met():
    assert unmet(Comparison(A, Operator.GT, 1.0)).attribute == A
    assert mistyped(Exists(A), KINDS) is None
    assert mistyped(equals(AttributeUid("elsewhere"), 1), KINDS) is None


KIND_TOO = "the restriction compares an attribute with another kind than declared"


@pytest.mark.parametrize(
    "restriction",
    [
        AnyOf((equals(A, "one"), equals(B, "x"))),
        AnyOf((Not(equals(A, "one")), Comparison(B, Operator.GT, "x"))),
        Not(AllOf((equals(A, "one"), equals(B, "x")))),
        AnyOf((Not(Exists(A)), equals(A, "one"))),
    ],
)
def test_a_term_of_another_kind_is_no_obstacle_where_another_one_can_be_met(restriction):
    assert unmet(restriction) is None


@pytest.mark.parametrize(
    "restriction",
    [
        equals(A, "one"),
        Not(equals(A, "one")),
        AllOf((equals(A, "one"), Comparison(A, Operator.GT, 5))),
        AllOf((Comparison(B, Operator.GT, "x"), AnyOf((equals(A, "one"), equals(A, "two"))))),
    ],
)
def test_where_kinds_stand_in_the_way_the_reason_says_so(restriction):
    found = unmet(restriction)
    assert (found.attribute, found.why) == (A, KIND_TOO)


def test_where_something_else_blocks_kinds_are_not_blamed():
    hidden = AllOf((equals(B, "x"), Comparison(A, Operator.GT, 5)))
    found = unmet(AnyOf((hidden, NEVER)), writable=frozenset({A}))
    assert found.attribute == B
    assert found.why == "the restriction names an attribute that cannot be written here"
