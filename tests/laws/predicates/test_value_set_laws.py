"""What holds of every set of values."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.events import Kind, kind_of
from maia.predicates import AllOf, Not, ValueSet, admits
from maia.predicates.covering.ordered_sets import successor
from maia.predicates.covering.value_sets import ANYTHING
from reference.covering_by_enumeration import texts_up_to
from support.predicates import POOLS, atoms_about, wild_values

pytestmark = pytest.mark.laws

X = "x"
VALUES = (None, *(value for kind in Kind for value in POOLS[kind]), *texts_up_to(3, "ab c"))
questions = st.lists(
    st.tuples(st.sampled_from(Kind).flatmap(lambda kind: atoms_about(X, kind)), st.booleans()), max_size=4
)


def _set_of(asked):
    return reduce(ValueSet.intersection, (ValueSet.from_atom(a, negated=n) for a, n in asked), ANYTHING)


def _predicate_of(asked):
    return AllOf(tuple(Not(atom) if negated else atom for atom, negated in asked))


@given(questions)
def test_a_set_holds_exactly_the_values_that_the_questions_admit(asked):
    values, predicate = _set_of(asked), _predicate_of(asked)
    for value in VALUES:
        assert (value in values) is admits(predicate, {X: value})


@given(questions)
def test_a_set_is_empty_or_shows_a_member(asked):
    values, predicate = _set_of(asked), _predicate_of(asked)
    members = values.samples()
    assert values.is_empty() is (members == ())
    for member in members:
        assert admits(predicate, {X: member})


@given(questions, questions)
def test_containment_is_exact_for_what_is_left_shows_a_member(wide_asked, narrow_asked):
    wide, narrow = _set_of(wide_asked), _set_of(narrow_asked)
    left = [member for piece in narrow.minus(wide) for member in piece.samples()]
    assert wide.contains_all(narrow) is (not left)
    for member in left:
        assert member in narrow
        assert member not in wide


@given(questions, questions)
def test_a_difference_is_in_disjoint_pieces(wide_asked, narrow_asked):
    wide, narrow = _set_of(wide_asked), _set_of(narrow_asked)
    pieces = list(narrow.minus(wide))
    for value in VALUES:
        assert sum(value in piece for piece in pieces) == (value in narrow and value not in wide)


@given(questions, questions)
def test_a_union_that_is_offered_is_exact(one_asked, other_asked):
    one, other = _set_of(one_asked), _set_of(other_asked)
    union = one.union(other)
    assert union is not None or one.claims != other.claims
    if union is not None:
        for value in VALUES:
            assert (value in union) is (value in one or value in other)


@given(st.sampled_from(Kind).flatmap(lambda kind: st.tuples(wild_values(kind), wild_values(kind))))
def test_nothing_lies_between_a_value_and_its_successor(drawn):
    value, other = drawn
    following = successor(value)
    if following is None:
        assert other <= value
    else:
        assert kind_of(following) is kind_of(value)
        assert other <= value < following or other >= following > value
