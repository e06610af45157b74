"""Back-off: twice as long after each failure, up to a limit, and never in step."""

from __future__ import annotations

import pytest

from maia.back_off import Pauses, doubled, jittered


def test_each_failure_doubles_the_wait_up_to_the_limit() -> None:
    assert [doubled(1, failures, most=10) for failures in (1, 2, 3, 4, 5, 10_000)] == [1, 2, 4, 8, 10, 10]
    assert doubled(0.25, 10_000, most=30.0) == 30.0


@pytest.mark.parametrize(("chance", "least", "most"), [(b"\x00\x00", 4.0, 4.0), (b"\xff\xff", 7.9, 8.0)])
def test_a_wait_is_between_half_and_all_of_it(chance: bytes, least: float, most: float) -> None:
    assert least <= jittered(8.0, lambda size: chance) <= most


def test_what_ran_for_longer_than_any_pause_is_begun_again_after_a_short_one() -> None:
    """L9: a broker that is killed once a minute was away for half of it."""
    now = 0.0
    pauses = Pauses(1.0, most_s=30.0, clock=lambda: now)
    waits = []
    for ran_s in (1, 1, 1, 29, 31, 0.5, 3600, 3600):
        pauses.begin()
        now += ran_s
        waits.append(pauses.ended_s())
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 1, 2, 1, 1]
