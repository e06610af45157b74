"""What merging makes of plain cases, and what it refuses."""

from __future__ import annotations

import pytest

from maia.events import AttributeUid, Instant
from maia.predicates.merging.measure import Choices, Span
from maia.predicates.merging.merge import merge
from maia.predicates.syntax import (
    ALWAYS,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    NotAConstraintFilter,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
)
from maia.testing.refusals import raises

PRICE = AttributeUid("price")
NAME = AttributeUid("name")


def between(low: float, high: float, uid: AttributeUid = PRICE) -> Predicate:
    return AllOf((Comparison(uid, Operator.GE, low), Comparison(uid, Operator.LE, high)))


def named(name: str) -> Predicate:
    return Comparison(NAME, Operator.EQ, name)


def test_two_ranges_that_touch_become_one_without_spill():
    merged = merge([between(0, 4), between(5, 9)], size_max=1, domains={PRICE: Span(0, 99)})
    assert merged.filters == (between(0, 9),)
    assert merged.spill_bound < 1e-6


def test_the_gap_between_two_ranges_is_the_spill():
    merged = merge([between(0, 3), between(6, 9)], size_max=1, domains={PRICE: Span(0, 99)})
    assert merged.filters == (between(0, 9),)
    assert merged.spill_bound == pytest.approx(0.2, abs=1e-6)


def test_floats_are_measured_by_length():
    merged = merge([between(0.0, 1.0), between(3.0, 4.0)], size_max=1, domains={PRICE: Span(0.0, 100.0)})
    assert merged.spill_bound == pytest.approx(0.5, abs=1e-6)


def test_instants_are_counted_like_ints():
    moments = [Instant(number) for number in range(4)]
    originals = [Comparison(PRICE, Operator.LE, moments[0]), Comparison(PRICE, Operator.GE, moments[2])]
    merged = merge(originals, size_max=1, domains={PRICE: Span(moments[0], moments[3])})
    assert merged.spill_bound == pytest.approx(0.25, abs=1e-6)


def test_lists_are_merged_into_a_list():
    merged = merge([named("tea"), named("coffee"), named("tea")], size_max=1)
    assert merged.filters == (Membership(NAME, frozenset({"tea", "coffee"})),)
    assert merged.spill_bound < 1e-6


def test_a_filter_that_another_one_covers_costs_nothing():
    merged = merge([between(0, 9), between(2, 3), between(50, 60)], size_max=2)
    assert set(merged.filters) == {between(0, 9), between(50, 60)}
    assert sorted(merged.groups) == [(0, 1), (2,)]
    assert merged.spill_bound == 0.0


def test_neighbours_are_merged_and_strangers_are_left_alone():
    originals = [between(10 * number, 10 * number + 8) for number in (0, 1, 50, 51)]
    merged = merge(originals, size_max=2)
    assert sorted(merged.groups) == [(0, 1), (2, 3)]


def test_different_kinds_and_different_texts_fall_back_to_presence():
    prefixes = [TextMatch(NAME, TextTest.PREFIX, text) for text in ("tea", "coffee")]
    assert merge(prefixes, size_max=1).filters == (Exists(NAME),)
    kinds = [Comparison(NAME, Operator.EQ, 1), Comparison(NAME, Operator.EQ, True)]
    assert merge(kinds, size_max=1).filters == (Exists(NAME),)


def test_filters_without_a_common_attribute_merge_into_everything():
    assert merge([named("tea"), between(0, 1)], size_max=1).filters == (ALWAYS,)


def test_merging_nothing_gives_nothing():
    assert merge([], size_max=1).filters == ()
    assert merge([], size_max=1).spill_bound == 0.0


def test_thousands_of_filters_fit_into_the_size_that_was_asked_for():
    originals = [between(number % 60, number % 60 + number // 60) for number in range(3000)]
    merged = merge(originals, size_max=7)
    assert len(merged.filters) <= 7
    assert sorted(one for group in merged.groups for one in group) == list(range(3000))


@pytest.mark.parametrize("size_max", [0, -1])
def test_a_merge_into_nothing_is_refused(size_max):
    with raises("INPUT-MERGE"):
        merge([ALWAYS], size_max=size_max)


def test_a_disjunction_is_refused():
    with pytest.raises(NotAConstraintFilter):
        merge([AnyOf((named("tea"), named("coffee")))], size_max=1)


@pytest.mark.parametrize(("low", "high"), [(0, 1.0), ("a", "b"), (True, False), (1.0, 1.0), (2, 1)])
def test_a_span_without_a_measure_is_refused(low, high):
    with raises("INPUT-DOMAIN"):
        Span(low, high)


@pytest.mark.parametrize("values", [(), ("a", "a"), (1, 2, 1)])
def test_choices_that_repeat_or_are_missing_are_refused(values):
    with raises("INPUT-DOMAIN"):
        Choices(values)


def test_choices_of_different_kinds_are_different():
    assert len(Choices((1, True, 1.0, None)).values) == 4
