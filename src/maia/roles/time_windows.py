"""Is it this time of the day and week, and when does that end?

A window is a span of the clock on some days, in one stated zone: 22:00 to
06:00 on Friday means from Friday evening to Saturday morning. The clock on
the wall decides, so a window is an hour shorter or longer on the days on
which clocks change.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Final

from maia.events import INSTANT_MAX, INSTANT_MIN, SECOND, Instant
from maia.events.zones import MINUTES_IN_A_DAY, zone_of

DAY_NAMES: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_HOUR: Final = 3600 * SECOND
_DAYS_AHEAD: Final = 9
_MARGIN: Final = 30 * 24 * _HOUR  # beyond the first and the last day a clock shows nothing


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """From minute `begins` of the day to `ends`, not included, on `days` (1 is Monday).

    A window that ends before it begins reaches into the next day; `days` are those on which it begins.
    """

    begins: int
    ends: int
    days: frozenset[int]
    zone: str


def is_within(window: TimeWindow, now: Instant) -> bool:
    """Return whether the wall clock of the window's zone is inside; never at the calendar's ends."""
    if not INSTANT_MIN + _MARGIN <= now <= INSTANT_MAX - _MARGIN:
        return False
    local = _local(window, now)
    minute = local.hour * 60 + local.minute
    today, yesterday = local.isoweekday(), (local.isoweekday() - 2) % 7 + 1
    if window.begins < window.ends:
        return today in window.days and window.begins <= minute < window.ends
    late = today in window.days and minute >= window.begins
    return late or (yesterday in window.days and minute < window.ends)


def window_end(window: TimeWindow, now: Instant) -> Instant | None:
    """Return the last whole second of the window that contains `now`; None if it never ends.

    `now` must be a moment inside. The candidates are the ends that the clock
    shows on the next days, and the moments at which the clock itself jumps.
    """
    for moment in sorted(_wall_ends(window, now) | _jumps(window, now)):
        if moment > now and not is_within(window, Instant(moment)):
            return Instant((moment - 1) // SECOND * SECOND)
    return None


def _local(window: TimeWindow, now: Instant) -> datetime:
    return now.to_datetime().astimezone(zone_of(window.zone))


def _wall_ends(window: TimeWindow, now: Instant) -> set[int]:
    today = _local(window, now).date()
    clock, days = divmod(window.ends, MINUTES_IN_A_DAY)[1], window.ends // MINUTES_IN_A_DAY
    found = set()
    for ahead in range(_DAYS_AHEAD):
        day = today + timedelta(days=ahead + days)
        for fold in (0, 1):
            shown = datetime.combine(
                day, time(clock // 60, clock % 60, fold=fold), tzinfo=zone_of(window.zone)
            )
            found.add(int(Instant.from_datetime(shown.astimezone(UTC))))
    return found


def _jumps(window: TimeWindow, now: Instant) -> set[int]:
    """Return the moments of the next days from which on the zone is at another distance from UTC."""
    found = set()
    earlier = int(now)
    for hours in range(1, _DAYS_AHEAD * 24):
        later = now + hours * _HOUR
        if _offset(window, earlier) != _offset(window, later):
            found.add(_jump_between(window, earlier, later))
        earlier = later
    return found


def _jump_between(window: TimeWindow, earlier: int, later: int) -> int:
    before = _offset(window, earlier)
    while later - earlier > 1:
        middle = (earlier + later) // 2
        earlier, later = (middle, later) if _offset(window, middle) == before else (earlier, middle)
    return later


def _offset(window: TimeWindow, moment: int) -> timedelta | None:
    return _local(window, Instant(moment)).utcoffset()
