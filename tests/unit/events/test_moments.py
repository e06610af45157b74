"""Arithmetic of moments: it ends at the first and the last moment there is."""

from __future__ import annotations

import pytest

from maia.events import INSTANT_MAX, INSTANT_MIN, Instant, just_after, seconds_after

NOON = Instant.parse("2026-11-15T12:00:00Z")


def test_seconds_are_added_and_taken_off() -> None:
    assert seconds_after(NOON, 90) == Instant.parse("2026-11-15T12:01:30Z")
    assert seconds_after(NOON, -0.5) == Instant.parse("2026-11-15T11:59:59.500000Z")
    assert type(seconds_after(NOON, 1)) is Instant


@pytest.mark.parametrize("seconds", [1, 1e9, 10**15])
def test_there_is_nothing_beyond_the_first_and_the_last_moment(seconds: float) -> None:
    assert seconds_after(Instant(INSTANT_MAX), seconds) == INSTANT_MAX
    assert seconds_after(Instant(INSTANT_MIN), -seconds) == INSTANT_MIN
    assert just_after(Instant(INSTANT_MAX)) == INSTANT_MAX


def test_just_after_is_one_microsecond_later() -> None:
    assert just_after(NOON) - NOON == 1
