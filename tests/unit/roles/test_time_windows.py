"""Times of the day and week: inside or outside, and when a window ends, clock changes included."""

from __future__ import annotations

import pytest

from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.roles.time_windows import TimeWindow, is_within, window_end

EVERY_DAY = frozenset(range(1, 8))
WORKING_DAYS = frozenset(range(1, 6))
LONDON = "Europe/London"


def window(begins: str, ends: str, days=EVERY_DAY, zone: str = LONDON) -> TimeWindow:
    def minutes(clock: str) -> int:
        return int(clock[:2]) * 60 + int(clock[3:])

    return TimeWindow(minutes(begins), minutes(ends), frozenset(days), zone)


@pytest.mark.parametrize(
    ("moment", "inside"),
    [
        ("2026-11-16T08:59:59.999999Z", False),
        ("2026-11-16T09:00:00Z", True),
        ("2026-11-16T16:59:59.999999Z", True),
        ("2026-11-16T17:00:00Z", False),
        ("2026-11-15T12:00:00Z", False),  # a Sunday
        ("2026-07-06T08:00:00Z", True),  # nine o'clock in summer time
        ("2026-07-06T16:00:00Z", False),
    ],
)
def test_working_hours_are_those_of_the_clock_on_the_wall(moment, inside):
    assert is_within(window("09:00", "17:00", WORKING_DAYS), Instant.parse(moment)) is inside


@pytest.mark.parametrize(
    ("moment", "inside"),
    [
        ("2026-11-20T22:00:00Z", True),  # Friday evening
        ("2026-11-21T05:59:59Z", True),  # and the morning after it
        ("2026-11-21T06:00:00Z", False),
        ("2026-11-21T22:00:00Z", False),  # Saturday evening
        ("2026-11-20T05:00:00Z", False),  # the morning of Friday belongs to Thursday
    ],
)
def test_a_night_belongs_to_the_day_on_which_it_begins(moment, inside):
    assert is_within(window("22:00", "06:00", {5}), Instant.parse(moment)) is inside


@pytest.mark.parametrize(
    ("asked", "now", "ends"),
    [
        (window("09:00", "17:00"), "2026-11-16T09:00:00Z", "2026-11-16T16:59:59Z"),
        (window("22:00", "06:00"), "2026-11-16T23:00:00Z", "2026-11-17T05:59:59Z"),
        (window("09:00", "24:00"), "2026-11-16T09:00:00Z", "2026-11-16T23:59:59Z"),
        (window("00:00", "24:00", WORKING_DAYS), "2026-11-16T09:00:00Z", "2026-11-20T23:59:59Z"),
        # A working day in summer ends an hour earlier in UTC.
        (window("09:00", "17:00"), "2026-07-06T09:00:00Z", "2026-07-06T15:59:59Z"),
        # Clocks go back at 01:00 UTC on 25 October: the hour from one to two is lived twice.
        (window("00:00", "01:30"), "2026-10-24T23:30:00Z", "2026-10-25T00:29:59Z"),
        (window("00:00", "03:00"), "2026-10-24T23:30:00Z", "2026-10-25T02:59:59Z"),
        # Clocks go forward at 01:00 UTC on 29 March: half past one never comes.
        (window("00:00", "01:30"), "2026-03-29T00:10:00Z", "2026-03-29T00:59:59Z"),
        (window("00:00", "03:00"), "2026-03-29T00:10:00Z", "2026-03-29T01:59:59Z"),
        (window("09:00", "17:00", zone="Asia/Kathmandu"), "2026-11-16T04:00:00Z", "2026-11-16T11:14:59Z"),
    ],
)
def test_a_window_ends_when_the_clock_first_leaves_it(asked, now, ends):
    assert is_within(asked, Instant.parse(now))
    assert str(window_end(asked, Instant.parse(now))) == ends


@pytest.mark.parametrize("moment", [INSTANT_MIN, INSTANT_MAX])
def test_at_the_ends_of_the_calendar_no_clock_shows_anything(moment):
    for asked in (window("00:00", "12:00"), window("12:00", "24:00")):
        assert not is_within(asked, Instant(moment))
