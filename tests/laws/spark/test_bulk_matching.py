"""What bulk matching works out before Spark sees anything: predicates over whole events, boxes, keys."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.events import AttributeUid
from maia.policy.view import see
from maia.predicates.meaning import admits
from maia.spark.matching.boxes import BOXES_MAX, Bounds, Box, boxes_of, buckets_of, key_of
from maia.spark.matching.tables import opened_by
from support import predicates
from support.predicates import KINDS
from support.view_cases import STORED, random_event, random_view

seeds = st.integers(0, 2**32 - 1)


def lies_in(event, box: Box) -> bool:
    return all(_within(event.get(uid), bounds) for uid, bounds in box.items())


def _within(value, bounds: Bounds) -> bool:
    if value is None or not bounds.is_present:
        return value is None and not bounds.is_present
    above = bounds.low is None or value >= bounds.low
    return above and (bounds.beyond is None or value < bounds.beyond)


@pytest.mark.laws
@given(seeds)
def test_the_predicates_of_a_view_over_whole_events_say_what_see_says(seed):
    random = Random(seed)  # noqa: S311 - test cases, not secrets
    view = random_view(random)
    opened = opened_by(view, STORED)
    for row in range(20):
        event = random_event(random, row)
        holding = [shown for predicate, shown in opened.items() if admits(predicate, event)]
        seen = see(view, event)
        assert bool(holding) == (seen is not None)
        if seen is not None:
            assert frozenset(seen) == frozenset().union(*holding) & event.keys()


@pytest.mark.laws
@given(predicates.predicates(kinds=KINDS), st.lists(predicates.events(KINDS), min_size=1, max_size=8))
def test_an_admitted_event_lies_in_a_box_and_an_exact_box_holds_no_other(predicate, events):
    found = boxes_of(predicate, KINDS)
    assert len(found.boxes) <= BOXES_MAX
    for event in events:
        inside = sum(lies_in(event, box) for box in found.boxes)
        assert inside or not admits(predicate, event)
        if found.is_exact:
            assert admits(predicate, event) == bool(inside)
        if found.are_apart:
            assert inside <= 1


@pytest.mark.laws
@given(
    st.lists(predicates.predicates(kinds=KINDS), max_size=8), st.lists(predicates.events(KINDS), max_size=8)
)
def test_a_box_is_found_by_the_key_of_every_event_in_it(filters, events):
    boxes = [box for one in filters for box in boxes_of(one, KINDS).boxes]
    ends, points = {}, {}
    for uid, bounds in (pair for box in boxes for pair in box.items()):
        if bounds.is_point:
            points.setdefault(uid, set()).add(bounds.low)
        elif bounds.is_range and KINDS[uid].is_ordered:
            ends.setdefault(uid, []).extend(end for end in (bounds.low, bounds.beyond) if end is not None)
    buckets = buckets_of(ends)
    for box in boxes:
        key = key_of(box, {uid: len(values) for uid, values in points.items()}, buckets)
        if key is None:
            continue
        assert key.shape == tuple(sorted(key.shape))
        for event in (one for one in events if lies_in(one, box)):
            values = [part.uid for part in key.shape if not part.is_bucket]
            assert all(event[uid] == box[uid].low for uid in values)
            places = [part.uid for part in key.shape if part.is_bucket]
            for uid, (first, last) in zip(places, key.touched, strict=True):
                assert first <= _bucket(event[uid], buckets[uid].begin) <= last


def _bucket(value, begin) -> int:
    return sum(value >= one for one in begin)


def test_a_list_of_values_is_as_many_points_and_not_a_range():
    plate = AttributeUid("plate")
    listed = predicates.Membership(plate, frozenset({"a", "b", "c"}))
    found = boxes_of(listed, KINDS)
    assert found.is_exact
    assert [box[plate].is_point for box in found.boxes] == [True] * 3
