"""A frame is new exactly once, whatever the order, within the window of its stream."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.client.duplicates import WINDOW, SeenFrames

KEY, STREAM = b"k" * 32, b"s" * 16


@pytest.mark.laws
@given(st.lists(st.integers(0, 3 * WINDOW), max_size=200))
@example([0, 0, 1, 0])
@example([5, 4, 3, 5, 4])
@example([0, WINDOW, 0, 1])
@example([2**63 - 1, 0, 2**63 - 1])
def test_the_memory_agrees_with_a_set_and_forgets_only_behind_the_window(sequences: list[int]):
    memory, plain = SeenFrames(4), set[int]()
    newest = -1
    for sequence in sequences:
        is_known = sequence in plain
        is_behind = newest - sequence >= WINDOW
        assert memory.is_new(KEY, STREAM, sequence) == (not is_known and not is_behind)
        plain.add(sequence)
        newest = max(newest, sequence)


def test_streams_are_apart_and_the_one_unused_for_longest_is_forgotten():
    memory = SeenFrames(2)
    assert memory.is_new(KEY, b"one", 1)
    assert memory.is_new(KEY, b"two", 1)
    assert memory.is_new(b"another", b"one", 1)  # `one` of KEY makes room
    assert not memory.is_new(KEY, b"two", 1)
    assert memory.is_new(KEY, b"one", 1)


def test_a_publisher_cannot_take_the_number_of_another():
    """A66: the key of the publisher is part of what is remembered."""
    memory = SeenFrames(8)
    assert memory.is_new(b"mallory", STREAM, 7)
    assert memory.is_new(KEY, STREAM, 7)
