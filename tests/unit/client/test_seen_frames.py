"""The application hears each publisher in order, and nothing twice."""

from __future__ import annotations

from maia.client.entries import SeenFrames
from maia.wire.columns import TIME_BEHIND_MAX

CAMERA, OTHER = b"c" * 32, b"o" * 32
STREAM = b"s" * 16


def label(number: int) -> bytes:
    return number.to_bytes(16)


def heard(*moments: int) -> list[int]:
    """Return which frames of one stream get through, each with a label and a moment of its own."""
    seen = SeenFrames(10)
    return [one for one in moments if seen.remember(CAMERA, STREAM, label(one), one)]


def test_frames_in_order_get_through_and_gaps_are_no_reason_to_wait():
    assert heard(0, 1, 2, 7, 8) == [0, 1, 2, 7, 8]


def test_a_frame_that_comes_again_is_dropped():
    assert heard(0, 1, 1, 0, 2, 1) == [0, 1, 2]


def test_a_frame_that_a_later_one_has_overtaken_is_dropped():
    """Seed 48128 of the simulation: a cut held frame 6 up while 7 took another way."""
    assert heard(5, 7, 6, 8) == [5, 7, 8]


def test_a_moment_just_beyond_the_late_ones_begins_anew():
    """A85: what a forged moment would silence is bounded; the edge is the first that it does not."""
    behind = TIME_BEHIND_MAX
    assert heard(behind + 5, 5) == [behind + 5]
    assert heard(behind + 5, 4, 5, 4) == [behind + 5, 4, 5]


def test_frames_of_one_moment_get_through_and_each_of_them_once():
    seen = SeenFrames(10)
    assert [seen.remember(CAMERA, STREAM, label(one), 7) for one in (2, 1, 2, 1, 3)] == [1, 1, 0, 0, 1]


def test_a_frame_that_was_published_again_is_dropped_whatever_its_moment():
    seen = SeenFrames(10)
    assert seen.remember(CAMERA, STREAM, label(1), 7)
    assert not seen.remember(CAMERA, STREAM, label(1), 9)


def test_streams_and_publishers_do_not_disturb_each_other():
    seen = SeenFrames(10)
    assert seen.remember(CAMERA, STREAM, label(5), 5)
    assert seen.remember(OTHER, STREAM, label(3), 3)
    assert seen.remember(CAMERA, b"t" * 16, label(0), 0)


def test_no_more_streams_are_remembered_than_was_agreed():
    seen = SeenFrames(2)
    for number in (0, 1, 2):
        assert seen.remember(CAMERA, bytes([number]) * 16, label(9), 9)
    assert not seen.remember(CAMERA, bytes([2]) * 16, label(9), 9)
    assert seen.remember(CAMERA, bytes([0]) * 16, label(9), 9)
