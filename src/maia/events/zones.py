"""What does a clock on the wall show at a moment, in a place?

Conditions and roles name working hours in a zone. The
rules of the zones come with the package `tzdata` and never from the machine,
so that two brokers with the same release give the same answer; they are
constants, read once (docs/decisions/facts.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from maia.errors import BadInput
from maia.events.values import Instant

MINUTES_IN_A_DAY = 24 * 60


class UnknownZone(BadInput):
    """A text does not name a time zone."""

    code = "INPUT-ZONE"


@dataclass(frozen=True, slots=True)
class LocalTime:
    """What clock and calendar show: minutes since midnight, 1 for Monday to 7 for Sunday, `2026-11-15`."""

    minute: int
    weekday: int
    date: str
    into_minute: timedelta
    """How much of this minute has passed."""
    offset: timedelta
    """How far the clock is ahead of UTC."""


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return the names of all zones, such as `Europe/London`."""
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo:
    """Return the rules of a zone; refuse what is none."""
    if name not in zone_names():  # asked before a path is made of it
        raise UnknownZone(f"`{name[:64]}` is not a time zone such as `Europe/London`")
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as rules:
        return ZoneInfo.from_file(rules, key=name)


def local_time(moment: Instant, zone: str) -> LocalTime | None:
    """Return what the clock shows in a zone; None at the edges of the calendar, where it shows nothing."""
    try:
        shown = moment.to_datetime().astimezone(zone_of(zone))
    except OverflowError:
        return None
    offset = shown.utcoffset() or timedelta()
    return LocalTime(
        shown.hour * 60 + shown.minute, shown.isoweekday(), _date(shown), _into_minute(shown), offset
    )


def _date(shown: datetime) -> str:
    return shown.date().isoformat()


def _into_minute(shown: datetime) -> timedelta:
    return timedelta(seconds=shown.second, microseconds=shown.microsecond)
