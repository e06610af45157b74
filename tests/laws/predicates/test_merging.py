"""Merged filters admit all that the originals admit, and no more beyond that than the bound says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.events import AttributeUid, Value
from maia.predicates.covering.covers import covers
from maia.predicates.meaning import admits
from maia.predicates.merging.measure import Choices, Domains, Span
from maia.predicates.merging.merge import Merged, merge
from maia.predicates.syntax import AllOf, Comparison, Exists, Membership, Not, Operator, Predicate
from support.constraint_filters import UIDS, constraint_lists, filter_of
from support.random_cases import count_cases

X, Y, Z = UIDS
SMALL = range(8)
LETTERS = ("a", "b", "ab", "c", None)
DOMAINS: Domains = {X: Span(0, 7), Y: Span(0, 7), Z: Choices(LETTERS)}
EVENTS: tuple[Mapping[AttributeUid, Value], ...] = tuple(
    {X: x, Y: y, Z: z} for x, y, z in product(SMALL, SMALL, LETTERS)
)
ROUNDING = 1e-12


def ranges(uid: AttributeUid) -> st.SearchStrategy[Predicate]:
    """A range of ints, partly outside the domain now and then, or a list, or a hole."""
    number = st.integers(-2, 9)
    pair = st.tuples(number, number).map(sorted)
    between = pair.map(
        lambda ends: AllOf((Comparison(uid, Operator.GE, ends[0]), Comparison(uid, Operator.LE, ends[1])))
    )
    listed = st.frozensets(number, min_size=1, max_size=3).map(lambda some: Membership(uid, some))
    hole = number.map(lambda literal: Comparison(uid, Operator.NE, literal))
    return st.one_of(between, between, between, listed, listed.map(Not), hole, st.just(Exists(uid)))


def boxes() -> st.SearchStrategy[Predicate]:
    """A filter on up to three attributes."""
    letters = st.sampled_from(["a", "b", "ab"]).map(lambda text: Comparison(Z, Operator.EQ, text))
    parts = st.tuples(*[st.one_of(st.none(), some) for some in (ranges(X), ranges(Y), letters)])
    return parts.map(lambda some: AllOf(tuple(one for one in some if one is not None)))


def true_spill(merged: Merged, originals: Sequence[Predicate]) -> float:
    """Count it: of the events that pass the merged filters, the share that no original admits."""
    passing = [event for event in EVENTS if any(admits(one, event) for one in merged.filters)]
    wanted = sum(any(admits(one, event) for one in originals) for event in passing)
    return 1 - wanted / len(passing) if passing else 0.0


@pytest.mark.laws
@given(st.lists(boxes(), max_size=8), st.integers(1, 5))
@example([], 1)
@example([AllOf(())], 1)
@example([Exists(X), Comparison(X, Operator.EQ, True)], 1)
@example([AllOf((Comparison(X, Operator.LT, 1), Comparison(X, Operator.GT, 1))), Exists(Y)], 1)
def test_the_bound_is_never_below_the_spill_that_brute_force_counts(originals, size_max):
    merged = merge(originals, size_max=size_max, domains=DOMAINS)
    count_cases(len(EVENTS) - 1)
    assert true_spill(merged, originals) <= merged.spill_bound + ROUNDING
    assert 0.0 <= merged.spill_bound <= 1.0


@pytest.mark.laws
@given(st.lists(boxes(), max_size=8), st.integers(1, 5))
def test_whatever_an_original_admits_a_merged_filter_admits(originals, size_max):
    merged = merge(originals, size_max=size_max, domains=DOMAINS)
    assert len(merged.filters) == len(merged.groups) <= size_max
    assert sorted(one for group in merged.groups for one in group) == list(range(len(originals)))
    for event in EVENTS:
        if any(admits(one, event) for one in originals):
            assert any(admits(one, event) for one in merged.filters)


@pytest.mark.laws
@given(st.lists(constraint_lists(uids=UIDS, size_max=4).map(filter_of), max_size=6), st.integers(1, 3))
def test_a_merged_filter_is_proved_to_cover_every_original_of_its_group(originals, size_max):
    merged = merge(originals, size_max=size_max)
    for wide, group in zip(merged.filters, merged.groups, strict=True):
        for number in group:
            assert covers(wide=wide, narrow=originals[number])


@pytest.mark.laws
@given(st.lists(boxes(), min_size=1, max_size=5))
def test_with_room_for_all_nothing_changes(originals):
    merged = merge(originals, size_max=len(originals))
    assert list(merged.filters) == originals
    assert merged.spill_bound == 0.0
