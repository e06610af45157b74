"""Claims about frames: events stored by column."""

from __future__ import annotations

import itertools

import pytest

from maia.events import ATTRIBUTES_MAX, ROWS_MAX, BadFrame, BadValue, Column, Frame, Kind, frame_of

KINDS = {"plate": Kind.STRING, "speed": Kind.INT}
EVENTS = [{"plate": "AE05 XYZ", "speed": 30}, {"speed": 50}, {}]


def test_a_frame_gives_its_events_back_in_order():
    assert list(frame_of(EVENTS, KINDS).events()) == EVENTS


def test_null_and_missing_are_one_in_a_frame():
    assert frame_of([{"plate": None}], KINDS) == frame_of([{}], KINDS)


def test_a_frame_has_a_column_for_every_declared_attribute():
    assert frame_of([], KINDS).kinds == KINDS


def test_dropping_columns_keeps_the_rows():
    only_speed = frame_of(EVENTS, KINDS).only(["speed", "unheard-of"])
    assert list(only_speed.events()) == [{"speed": 30}, {"speed": 50}, {}]
    assert frame_of(EVENTS, KINDS).only([]).rows == len(EVENTS)


def test_rows_are_taken_in_the_given_order():
    assert list(frame_of(EVENTS, KINDS).take([1, 0]).events()) == [EVENTS[1], EVENTS[0]]


@pytest.mark.parametrize("row", [-1, 3])
def test_a_row_that_is_not_there_cannot_be_taken(row):
    with pytest.raises(BadFrame):
        frame_of(EVENTS, KINDS).take([row])


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(BadFrame):
        Frame(2, {"speed": Column(Kind.INT, (1,))})


@pytest.mark.parametrize("rows", [-1, ROWS_MAX + 1])
def test_a_frame_has_a_largest_number_of_rows(rows):
    with pytest.raises(BadFrame):
        Frame(rows, {})


def test_an_endless_stream_of_events_is_refused_and_not_read_to_its_end():
    with pytest.raises(BadFrame):
        frame_of(itertools.repeat({}), {})


def test_a_frame_has_a_largest_number_of_columns():
    with pytest.raises(BadFrame):
        Frame(0, {f"u{index}": Column(Kind.INT, ()) for index in range(ATTRIBUTES_MAX + 1)})


def test_a_frame_refuses_what_an_event_refuses():
    with pytest.raises(BadValue):
        frame_of([{"speed": 1.0}], KINDS)
