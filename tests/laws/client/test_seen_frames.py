"""Each publisher is accepted in order and nothing twice, whatever order frames arrive in."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.client.entries import SeenFrames
from maia.wire.columns import TIME_BEHIND_MAX

KEY, STREAM = b"k" * 32, b"s" * 16


@pytest.mark.laws
@given(st.lists(st.integers(0, 50) | st.integers(0, TIME_BEHIND_MAX), max_size=200))
@example([0, 0, 1, 0])
@example([5, 4, 3, 5, 4])
@example([TIME_BEHIND_MAX, 0, TIME_BEHIND_MAX])
def test_what_the_application_receives_grows_strictly_and_leaves_nothing_newer_out(moments: list[int]):
    memory = SeenFrames(4)
    heard = [moment for moment in moments if memory.remember(KEY, STREAM, moment.to_bytes(16), moment)]
    assert heard == sorted(set(heard))
    # Exactly those that were newer than everything before them.
    assert heard == [one for at, one in enumerate(moments) if all(before < one for before in moments[:at])]


@pytest.mark.laws
@given(st.integers(0, 2**61), st.lists(st.integers(2, 2**61), min_size=1, max_size=50))
@example(7, [2])
def test_a_moment_far_ahead_silences_no_publisher(last: int, ahead: list[int]):
    """A85: after moments of another user's choice, the next frame of the publisher is accepted."""
    memory = SeenFrames(4)
    assert memory.remember(KEY, STREAM, bytes(16), last)
    for far in ahead:
        memory.remember(KEY, STREAM, far.to_bytes(16), last + far + TIME_BEHIND_MAX)
    assert memory.remember(KEY, STREAM, b"next", last + 1)
    assert not memory.remember(KEY, STREAM, b"next", last + 1)


def test_streams_are_apart_and_the_one_unused_for_longest_is_forgotten():
    memory = SeenFrames(2)
    assert memory.remember(KEY, b"one", b"label", 1)
    assert memory.remember(KEY, b"two", b"label", 1)
    assert memory.remember(b"another", b"one", b"label", 1)  # `one` of KEY makes room
    assert not memory.remember(KEY, b"two", b"label", 1)
    assert memory.remember(KEY, b"one", b"label", 1)


def test_a_publisher_cannot_take_the_label_of_another():
    """A66: the key of the publisher is part of what is remembered."""
    memory = SeenFrames(8)
    assert memory.remember(b"mallory", STREAM, b"label", 7)
    assert memory.remember(KEY, STREAM, b"label", 7)
