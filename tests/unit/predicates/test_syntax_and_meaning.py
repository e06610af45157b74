"""Claims about what a predicate can say and when it holds."""

from __future__ import annotations

import pytest

from maia.errors import BadInput
from maia.events import BadValue, Instant
from maia.predicates import (
    ALWAYS,
    DEPTH_MAX,
    NEVER,
    NODES_MAX,
    AllOf,
    AnyOf,
    BadPredicate,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    PredicateTooLarge,
    TextMatch,
    TextTest,
    admits,
    atoms,
    attributes_of,
    checked_size,
    verdict,
)

X = "x"
FIVE = Comparison(X, Operator.EQ, 5)


def test_predicates_about_1_and_true_and_one_point_zero_are_different():
    different = {Comparison(X, Operator.EQ, literal) for literal in (1, True, 1.0, Instant(1))}
    assert len(different) == 4
    assert len({Membership(X, frozenset({literal})) for literal in (1, True, 1.0, Instant(1))}) == 4


@pytest.mark.parametrize("operator", [Operator.LT, Operator.LE, Operator.GT, Operator.GE])
def test_bools_have_no_order(operator):
    with pytest.raises(BadPredicate):
        Comparison(X, operator, True)


@pytest.mark.parametrize("literals", [frozenset(), frozenset({1, "1"}), frozenset({1, 2.5})])
def test_a_list_is_neither_empty_nor_mixed(literals):
    with pytest.raises(BadPredicate):
        Membership(X, literals)


@pytest.mark.parametrize("word", ["", " ", "a b", " a"])
def test_a_token_is_one_word(word):
    with pytest.raises(BadPredicate):
        TextMatch(X, TextTest.TOKEN, word)


@pytest.mark.parametrize("literal", [float("nan"), float("inf"), 2**63, "\0", "\ud800", None, [], 1j])
def test_a_literal_is_a_value(literal):
    with pytest.raises((BadPredicate, BadValue)):
        Comparison(X, Operator.EQ, literal)


@pytest.mark.parametrize(
    ("operator", "holding"),
    [
        (Operator.EQ, {5}),
        (Operator.NE, {4, 6}),
        (Operator.LT, {4}),
        (Operator.LE, {4, 5}),
        (Operator.GT, {6}),
        (Operator.GE, {5, 6}),
    ],
)
def test_each_operator_means_what_it_looks_like(operator, holding):
    assert {found for found in (4, 5, 6) if admits(Comparison(X, operator, 5), {X: found})} == holding


@pytest.mark.parametrize(
    ("test", "text", "value", "holds"),
    [
        (TextTest.PREFIX, "uk.", "uk.police", True),
        (TextTest.PREFIX, "uk.", "Uk.police", False),
        (TextTest.SUFFIX, "lice", "uk.police", True),
        (TextTest.SUFFIX, "", "", True),
        (TextTest.CONTAINS, ".p", "uk.police", True),
        (TextTest.CONTAINS, "", "", True),
        (TextTest.TOKEN, "red", "a red car", True),
        (TextTest.TOKEN, "red", "a  red", True),
        (TextTest.TOKEN, "red", "redder", False),
        (TextTest.TOKEN, "red", "a\tred", False),
        (TextTest.TOKEN, "red", "red,blue", False),
    ],
)
def test_each_question_about_a_string(test, text, value, holds):
    assert verdict(TextMatch(X, test, text), {X: value}) is holds


@pytest.mark.parametrize(
    "atom",
    [FIVE, Comparison(X, Operator.NE, 5), Membership(X, frozenset({5})), TextMatch(X, TextTest.PREFIX, "")],
)
def test_a_missing_attribute_makes_a_question_and_its_opposite_unknown(atom):
    for event in ({}, {X: None}, {"y": 5}):
        assert verdict(atom, event) is None
        assert verdict(Not(atom), event) is None


def test_only_exists_is_never_unknown():
    assert verdict(Exists(X), {}) is False
    assert verdict(Not(Exists(X)), {X: None}) is True
    assert verdict(Exists(X), {X: ""}) is True


@pytest.mark.parametrize(
    ("first", "second", "both", "either"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (True, None, None, True),
        (False, False, False, False),
        (False, None, False, None),
        (None, None, None, None),
    ],
)
def test_and_and_or_follow_kleenes_tables(first, second, both, either):
    saying = {True: ALWAYS, False: NEVER, None: FIVE}
    for parts in ((saying[first], saying[second]), (saying[second], saying[first])):
        assert verdict(AllOf(parts), {}) is both
        assert verdict(AnyOf(parts), {}) is either


def test_atoms_come_from_left_to_right():
    predicate = AllOf((FIVE, Not(AnyOf((Exists("y"), Exists("z"))))))
    assert list(atoms(predicate)) == [FIVE, Exists("y"), Exists("z")]
    assert attributes_of(predicate) == {"x", "y", "z"}


def _nested(levels: int):
    predicate = FIVE
    for _ in range(levels - 1):
        predicate = Not(predicate)
    return predicate


def test_depth_is_limited_at_the_edge():
    assert checked_size(_nested(DEPTH_MAX))
    with pytest.raises(PredicateTooLarge):
        checked_size(_nested(DEPTH_MAX + 1))


def test_parts_are_limited_at_the_edge():
    assert checked_size(AllOf((FIVE,) * (NODES_MAX - 1)))
    with pytest.raises(PredicateTooLarge):
        checked_size(AllOf((FIVE,) * NODES_MAX))


def test_the_literals_of_a_list_count_as_parts():
    with pytest.raises(PredicateTooLarge):
        checked_size(Membership(X, frozenset(range(NODES_MAX))))


def test_every_complaint_is_bad_input():
    assert issubclass(PredicateTooLarge, BadPredicate)
    assert issubclass(BadPredicate, BadInput)
