"""What would the bill and the traffic be, counted once more from what was delivered live?

Plain Python over the deliveries, for the demonstration to hold beside what
Spark made of the log by the same terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Final
from zoneinfo import ZoneInfo

from maia.events import Instant, Value
from maia.spark.applications import BILLING, STATISTICS

__all__ = ["charged_once_a_day", "counted_by_window", "seen_on_charged_days"]

_SATURDAY: Final = 5
_MINUTE: Final = 60_000_000


def charged_once_a_day(events: Iterable[Mapping[str, Value]]) -> set[tuple[str, date]]:
    """Return which vehicle owes the charge for which day."""
    return set(_charged(events))


def seen_on_charged_days(events: Iterable[Mapping[str, Value]]) -> Counter[tuple[str, date]]:
    """Return how often each vehicle was seen on each day for which it owes the charge."""
    return Counter(_charged(events))


def counted_by_window(events: Iterable[Mapping[str, Value]]) -> Counter[tuple[str, int]]:
    """Return how many sightings each camera had in each window, by the moment at which it begins."""
    length = STATISTICS.terms.window_minutes * _MINUTE
    return Counter(
        (place, int(moment) // length * length)
        for event in events
        if isinstance(place := event["location"], str) and isinstance(moment := event["timestamp"], Instant)
    )


def _charged(events: Iterable[Mapping[str, Value]]) -> Iterator[tuple[str, date]]:
    """Yield vehicle and day of each sighting within the hours that are charged."""
    zone = ZoneInfo(BILLING.terms.zone)
    for event in events:
        plate, moment = event["numberplate"], event["timestamp"]
        if isinstance(plate, str) and isinstance(moment, Instant):
            local = moment.to_datetime().astimezone(zone)
            if _is_charged(local.weekday(), local.hour):
                yield plate, local.date()


def _is_charged(weekday: int, hour: int) -> bool:
    terms = BILLING.terms
    if weekday >= _SATURDAY:
        return bool(terms.weekend_first_hour <= hour < terms.weekend_last_hour)
    return bool(terms.first_hour <= hour < terms.last_hour)
