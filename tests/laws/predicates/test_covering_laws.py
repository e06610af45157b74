"""What holds of covering, emptiness, overlap and intersection, whatever the predicates."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from maia.predicates import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Not,
    admits,
    checked_size,
    counterexample,
    covers,
    intersection,
    may_overlap,
    parse_predicate,
    provably_empty,
    simplified,
    union,
    verdict,
)
from maia.predicates.covering.normal_form import clauses_of, satisfies
from maia.predicates.syntax import Steps, is_true_formula
from support.predicates import KINDS, conjunctions, events, predicates

pytestmark = pytest.mark.laws

some_events = st.lists(events(), min_size=6, max_size=6)


@given(predicates(), predicates(), some_events)
@example(parse_predicate("true"), parse_predicate("not (x == 5)"), [{}])
@example(parse_predicate("x == 5 or not (x == 5)"), parse_predicate("exists(x)"), [{"x": "a"}])
def test_a_covering_filter_admits_whatever_the_covered_one_admits(wide, narrow, drawn):
    assume(covers(wide=wide, narrow=narrow))
    for event in drawn:
        assert admits(wide, event) or not admits(narrow, event)


@given(conjunctions(), conjunctions())
def test_covering_of_conjunctions_is_exact_for_there_is_an_event_that_proves_every_no(wide, narrow):
    shown = counterexample(wide=wide, narrow=narrow)
    assert covers(wide=wide, narrow=narrow) is (shown is None)
    if shown is not None:
        assert admits(narrow, shown)
        assert not admits(wide, shown)


@given(predicates(), predicates())
def test_covering_of_small_predicates_is_exact_too(wide, narrow):
    shown = counterexample(wide=wide, narrow=narrow)
    assert covers(wide=wide, narrow=narrow) is (shown is None)


@given(predicates(max_leaves=10))
def test_every_filter_covers_itself(predicate):
    assert covers(wide=predicate, narrow=predicate)
    assert covers(wide=ALWAYS, narrow=predicate)
    assert covers(wide=predicate, narrow=NEVER)


@given(predicates(max_leaves=3), predicates(max_leaves=3), predicates(max_leaves=3))
def test_covering_is_transitive(one, two, three):
    widest, middle, narrowest = AnyOf((one, two)), one, AllOf((one, three))
    assert covers(wide=widest, narrow=middle)
    assert covers(wide=middle, narrow=narrowest)
    assert covers(wide=widest, narrow=narrowest)


@given(predicates(KINDS, max_leaves=4), predicates(KINDS, max_leaves=4), st.lists(events(KINDS), max_size=6))
def test_not_turns_covering_around_where_nothing_is_unknown(wide, narrow, drawn):
    assume(covers(wide=wide, narrow=narrow))
    for event in drawn:
        if (
            verdict(wide, event) is not None
            and verdict(narrow, event) is not None
            and admits(Not(wide), event)
        ):
            assert admits(Not(narrow), event)


@given(predicates(), predicates(), some_events)
def test_the_intersection_admits_what_both_admit(one, other, drawn):
    both = intersection(one, other)
    for event in drawn:
        assert admits(both, event) is (admits(one, event) and admits(other, event))


@given(predicates(max_leaves=4), predicates(max_leaves=4), predicates(max_leaves=4))
def test_the_intersection_is_the_widest_filter_below_both(one, other, third):
    both = intersection(one, other)
    assert covers(wide=one, narrow=both)
    assert covers(wide=other, narrow=both)
    if covers(wide=one, narrow=third) and covers(wide=other, narrow=third):
        assert covers(wide=both, narrow=third)


@given(predicates())
def test_intersecting_with_itself_or_with_everything_adds_nothing(predicate):
    assert intersection(predicate, predicate) == intersection(predicate, ALWAYS)
    assert intersection(intersection(predicate, predicate), predicate) == intersection(predicate, predicate)
    assert intersection(predicate, NEVER) == NEVER


@given(predicates(), some_events)
def test_a_provably_empty_filter_admits_nothing(predicate, drawn):
    empty = provably_empty(predicate)
    assert empty is covers(wide=NEVER, narrow=predicate)
    assert not empty or not any(admits(predicate, event) for event in drawn)


@given(predicates(), predicates(), some_events)
def test_filters_that_cannot_overlap_share_no_event(one, other, drawn):
    assert may_overlap(one, other) is may_overlap(other, one)
    if not may_overlap(one, other):
        assert not any(admits(one, event) and admits(other, event) for event in drawn)


@given(predicates(max_leaves=8), some_events)
def test_a_simplified_filter_admits_the_same_and_is_no_longer(predicate, drawn):
    short = simplified(predicate)
    for event in drawn:
        assert admits(short, event) is admits(predicate, event)
    assert _nodes(short) <= _nodes(is_true_formula(checked_size(predicate)))
    assert covers(wide=short, narrow=predicate)
    assert covers(wide=predicate, narrow=short)


def _nodes(predicate):
    match predicate:
        case Not(inner):
            return 1 + _nodes(inner)
        case AllOf(parts) | AnyOf(parts):
            return 1 + sum(map(_nodes, parts))
        case _:
            return 1


@given(predicates(max_leaves=8), some_events)
def test_the_formula_has_the_same_verdict_and_the_clauses_the_same_events(predicate, drawn):
    formula = is_true_formula(predicate)
    clauses = clauses_of(formula, Steps())
    for event in drawn:
        assert verdict(formula, event) is verdict(predicate, event)
        assert any(satisfies(event, clause) for clause in clauses) is admits(predicate, event)


@given(st.lists(predicates(max_leaves=6), max_size=5), some_events)
@example([], [{}])
@example(
    [parse_predicate(text) for text in ("x == 1 and y == 2", "x == 1 and y == 3", "x == 1 and y in (4, 5)")],
    [{"x": 1, "y": number} for number in range(6)],
)
@example([parse_predicate("x == 1"), parse_predicate("x == 1.0"), parse_predicate("x == true")], [{"x": 1.0}])
def test_a_union_says_what_the_most_favourable_of_its_parts_says(parts, drawn):
    """True, false and unknown alike: a union may stand under a `not`."""
    whole = union(parts)
    for event in drawn:
        assert verdict(whole, event) is verdict(AnyOf(tuple(parts)), event)


def test_a_union_of_many_values_is_one_list():
    cars = [parse_predicate(f'place == "Victoria" and plate == "{number}"') for number in range(40)]
    listed = ", ".join(f'"{number}"' for number in range(40))
    assert union(cars) == parse_predicate(f'place == "Victoria" and plate in ({listed})')
