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
    conjuncts,
    mistyped,
)

A, B = AttributeUid("a"), AttributeUid("b")
KINDS = {A: Kind.INT, B: Kind.STRING}


def equals(uid, literal):
    return Comparison(uid, Operator.EQ, literal)


def test_an_equality_forces_its_value():
    assert forced_values(equals(A, 1)) == {A: 1}


def test_a_list_of_one_forces_its_value():
    assert forced_values(Membership(A, frozenset({1}))) == {A: 1}


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


def test_equalities_are_found_inside_nested_conjunctions():
    nested = AllOf((AllOf((equals(A, 1),)), AnyOf((equals(B, "x"),))))
    assert forced_values(nested) == {A: 1, B: "x"}
    assert len(list(conjuncts(nested))) == 2


def test_a_deep_conjunction_is_no_danger():
    deep = equals(A, 1)
    for _ in range(100_000):
        deep = AllOf((deep,))
    assert forced_values(deep) == {A: 1}


def unmet(restriction, writable=ALL_ATTRIBUTES):
    return unmeetable(restriction, writable=writable, kinds=KINDS)


def test_a_restriction_on_something_that_cannot_be_written_cannot_be_met():
    found = unmet(equals(B, "x"), writable=frozenset({A}))
    assert found.attribute == B


def test_a_restriction_that_one_writable_attribute_can_satisfy_is_left_to_the_event():
    assert unmet(AnyOf((equals(B, "x"), Comparison(A, Operator.GT, 1))), writable=frozenset({A})) is None


def test_asking_for_the_absence_of_something_that_cannot_be_written_is_met():
    assert unmet(Not(Exists(B)), writable=frozenset({A})) is None


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


def test_two_equal_equalities_agree():
    assert unmet(AllOf((equals(A, 1), equals(A, 1)))) is None


def test_one_and_true_do_not_agree():
    assert unmet(AllOf((equals(A, 1), equals(A, True)))) is not None


def test_never_cannot_be_met_and_names_no_attribute():
    assert unmet(NEVER).attribute is None


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
