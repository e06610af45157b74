"""A window of a role and a condition in a certificate agree, and a window ends when it says."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from maia.events import Instant
from maia.policy.facts import clock_facts, during
from maia.predicates.meaning import admits
from maia.roles.time_windows import TimeWindow, is_within, window_end

MINUTE = 60_000_000
ZONES = ("Europe/London", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC")
YEAR = st.integers(Instant.parse("2026-01-01T00:00:00Z"), Instant.parse("2027-01-01T00:00:00Z"))
# The days around which clocks change, so that a change is the rule rather than the exception.
CHANGES = st.sampled_from(
    ("2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01")
)
NEAR = st.builds(
    lambda day, minutes: int(Instant.parse(f"{day}T00:00:00Z")) + minutes * MINUTE,
    CHANGES,
    st.integers(-1500, 1500),
)
MOMENTS = st.one_of(YEAR, NEAR).map(Instant)


@st.composite
def windows(draw):
    begins = draw(st.integers(0, 1439))
    ends = draw(st.integers(0, 1440).filter(lambda ends: ends != begins))
    days = draw(st.sets(st.integers(1, 7), min_size=1))
    return TimeWindow(begins, ends, frozenset(days), draw(st.sampled_from(ZONES)))


@pytest.mark.laws
@given(windows(), MOMENTS)
@example(TimeWindow(0, 90, frozenset({7}), "Europe/London"), Instant.parse("2026-03-29T00:10:00Z"))
def test_roles_and_certificates_read_the_same_clock(window, now):
    condition = during(window.zone, days=window.days, start=window.begins, end=window.ends)
    assert is_within(window, now) == admits(condition, clock_facts(condition, now))


@pytest.mark.laws
@given(windows(), MOMENTS)
def test_a_window_holds_until_its_end_and_not_a_second_longer(window, now):
    assume(is_within(window, now))
    end = window_end(window, now)
    if end is None:
        # Every minute of the week is in it.
        assert all(is_within(window, Instant(now + hours * 60 * MINUTE)) for hours in range(24 * 8))
        return
    assert not is_within(window, Instant(end + 1_000_000))
    steps = range(int(now), int(end) + 1, max(MINUTE, (int(end) - int(now)) // 400 or 1))
    assert all(is_within(window, Instant(moment)) for moment in steps)
    assert end < now or is_within(window, end)
