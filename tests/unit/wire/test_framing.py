"""Messages come out of a stream of bytes as they went in, however the stream was cut."""

from __future__ import annotations

import pytest

from maia.testing.refusals import raises
from maia.wire import HANDSHAKE_BYTES_MAX, MESSAGE_BYTES_MAX, Splitter, framed, length_prefix


def test_nothing_longer_than_the_limit_is_framed():
    with raises("PROTOCOL-MESSAGE-TOO-LARGE"):
        length_prefix(bytes(MESSAGE_BYTES_MAX + 1))


def test_the_limit_begins_small_and_can_be_raised_but_not_lowered():
    splitter = Splitter()
    assert splitter.limit == HANDSHAKE_BYTES_MAX
    assert splitter.raise_limit() == []
    assert splitter.limit == MESSAGE_BYTES_MAX
    splitter.raise_limit(10)
    assert splitter.limit == MESSAGE_BYTES_MAX


@pytest.mark.parametrize("limit", [0, -1, MESSAGE_BYTES_MAX + 1])
def test_a_limit_that_makes_no_sense_is_refused(limit):
    with pytest.raises(ValueError, match="limit"):
        Splitter(limit)


def test_a_long_message_right_behind_the_welcome_waits_for_the_limit_to_be_raised():
    splitter, long = Splitter(10), b"x" * 100
    assert splitter.feed(framed(b"welcome") + framed(long)) == [b"welcome"]
    assert splitter.raise_limit(100) == [long]


def test_without_a_higher_limit_it_is_refused_at_the_next_look():
    splitter = Splitter(10)
    assert splitter.feed(framed(b"welcome") + framed(b"x" * 100)) == [b"welcome"]
    held = splitter.held
    for _ in range(3):
        with raises("PROTOCOL-MESSAGE-TOO-LARGE"):
            splitter.feed(b"x" * 50)
    assert splitter.held == held
    with raises("PROTOCOL-MESSAGE-TOO-LARGE"):
        splitter.raise_limit(20)
