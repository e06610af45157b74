"""Each publisher is accepted in order and nothing twice, whatever order frames arrive in."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.client.entries import SeenFrames
from maia.wire.stream_numbers import NUMBERS_BEHIND_MAX

KEY, STREAM = b"k" * 32, b"s" * 16


@pytest.mark.laws
@given(st.lists(st.integers(0, 50) | st.integers(0, NUMBERS_BEHIND_MAX), max_size=200))
@example([0, 0, 1, 0])
@example([5, 4, 3, 5, 4])
@example([NUMBERS_BEHIND_MAX, 0, NUMBERS_BEHIND_MAX])
def test_what_the_application_receives_grows_strictly_and_leaves_nothing_newer_out(sequences: list[int]):
    memory = SeenFrames(4)
    heard = [sequence for sequence in sequences if memory.remember(KEY, STREAM, sequence)]
    assert heard == sorted(set(heard))
    # Exactly those that were newer than everything before them.
    assert heard == [
        one for at, one in enumerate(sequences) if all(before < one for before in sequences[:at])
    ]


@pytest.mark.laws
@given(st.integers(0, 2**61), st.lists(st.integers(2, 2**61), min_size=1, max_size=50))
@example(7, [2])
def test_a_number_far_ahead_silences_no_publisher(last: int, ahead: list[int]):
    """A85: after numbers of another user's choice, the next one of the publisher is accepted."""
    memory = SeenFrames(4)
    assert memory.remember(KEY, STREAM, last)
    for far in ahead:
        memory.remember(KEY, STREAM, last + far + NUMBERS_BEHIND_MAX)
    assert memory.remember(KEY, STREAM, last + 1)
    assert not memory.remember(KEY, STREAM, last + 1)


def test_streams_are_apart_and_the_one_unused_for_longest_is_forgotten():
    memory = SeenFrames(2)
    assert memory.remember(KEY, b"one", 1)
    assert memory.remember(KEY, b"two", 1)
    assert memory.remember(b"another", b"one", 1)  # `one` of KEY makes room
    assert not memory.remember(KEY, b"two", 1)
    assert memory.remember(KEY, b"one", 1)


def test_a_publisher_cannot_take_the_number_of_another():
    """A66: the key of the publisher is part of what is remembered."""
    memory = SeenFrames(8)
    assert memory.remember(b"mallory", STREAM, 7)
    assert memory.remember(KEY, STREAM, 7)
