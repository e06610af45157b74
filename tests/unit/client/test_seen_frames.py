"""The application hears each publisher in order, and nothing twice."""

from __future__ import annotations

from maia.client.entries import SeenFrames
from maia.wire.stream_numbers import NUMBERS_BEHIND_MAX

CAMERA, OTHER = b"c" * 32, b"o" * 32
STREAM = b"s" * 16


def heard(*sequences: int) -> list[int]:
    """Return which frames of one stream get through."""
    seen = SeenFrames(10)
    return [number for number in sequences if seen.remember(CAMERA, STREAM, number)]


def test_frames_in_order_get_through_and_gaps_are_no_reason_to_wait():
    assert heard(0, 1, 2, 7, 8) == [0, 1, 2, 7, 8]


def test_a_frame_that_comes_again_is_dropped():
    assert heard(0, 1, 1, 0, 2, 1) == [0, 1, 2]


def test_a_frame_that_a_later_one_has_overtaken_is_dropped():
    """Seed 48128 of the simulation: a cut held frame 6 up while 7 took another way."""
    assert heard(5, 7, 6, 8) == [5, 7, 8]


def test_a_number_just_beyond_the_late_ones_begins_anew():
    """A85: what a forged number would silence is bounded; the edge is the first number that it does not."""
    behind = NUMBERS_BEHIND_MAX
    assert heard(behind + 5, 5) == [behind + 5]
    assert heard(behind + 5, 4, 5, 4) == [behind + 5, 4, 5]


def test_streams_and_publishers_do_not_disturb_each_other():
    seen = SeenFrames(10)
    assert seen.remember(CAMERA, STREAM, 5)
    assert seen.remember(OTHER, STREAM, 3)
    assert seen.remember(CAMERA, b"t" * 16, 0)


def test_no_more_streams_are_remembered_than_was_agreed():
    seen = SeenFrames(2)
    for number in (0, 1, 2):
        assert seen.remember(CAMERA, bytes([number]) * 16, 9)
    assert not seen.remember(CAMERA, bytes([2]) * 16, 9)
    assert seen.remember(CAMERA, bytes([0]) * 16, 9)
