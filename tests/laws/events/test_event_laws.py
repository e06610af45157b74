"""What holds of all values, events and frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.events import Instant, Kind, checked_event, checked_value, frame_of, kind_of
from support.predicates import KINDS, events, wild_values

pytestmark = pytest.mark.laws

kinds_and_values = st.sampled_from(Kind).flatmap(lambda kind: st.tuples(st.just(kind), wild_values(kind)))


@given(kinds_and_values)
def test_checking_changes_neither_value_nor_class(drawn):
    kind, value = drawn
    checked = checked_value(value, kind)
    assert (type(checked), repr(checked)) == (type(value), repr(value))
    assert kind_of(checked) is kind


@given(wild_values(Kind.TIMESTAMP))
def test_a_moment_reads_back_from_its_text_and_from_a_datetime(moment):
    assert Instant.parse(str(moment)) == moment
    assert Instant.from_datetime(moment.to_datetime()) == moment


@given(events(KINDS))
def test_checking_an_event_twice_is_checking_it_once(event):
    once = checked_event(event, KINDS)
    assert checked_event(once, KINDS) == once == event


@given(st.lists(events(KINDS), max_size=6), st.data())
def test_a_frame_is_its_events(rows, data):
    frame = frame_of(rows, KINDS)
    assert list(frame.events()) == rows
    taken = data.draw(st.lists(st.sampled_from(range(len(rows))), max_size=4)) if rows else []
    assert list(frame.take(taken).events()) == [rows[row] for row in taken]
