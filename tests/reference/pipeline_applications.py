"""What do the pipeline's applications mean? The same, event by event, in plain Python.

Each model takes events as dictionaries and returns rows in the order of the
application's columns. Nothing is clever: every day, window and leg is looked
at on its own, with exact fractions where an application promises exactness.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import asin, cos, log10, radians, sin, sqrt
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Event = Mapping[str, object]
Row = tuple[object, ...]


def charges(
    events: Iterable[Event],
    *,
    zone: str = "Europe/London",
    weekday: tuple[int, int] = (7, 18),
    weekend: tuple[int, int] = (12, 18),
    pence: int = 1500,
) -> set[Row]:
    """Whoever was seen on a day in charging hours owes one charge for that day."""
    owed: set[Row] = set()
    for event in events:
        plate, moment = event["numberplate"], event["timestamp"]
        if plate is None or moment is None:
            continue
        local = moment.astimezone(ZoneInfo(zone))
        first, last = weekend if local.weekday() in {5, 6} else weekday
        if first <= local.hour < last:
            owed.add((plate, local.date(), pence))
    return owed


def counts(events: Iterable[Event], *, minutes: int = 15) -> set[Row]:
    """Count sightings by camera and window; nobody looks at plates."""
    found: dict[Row, int] = defaultdict(int)
    for event in events:
        if event["location"] is not None and event["timestamp"] is not None:
            found[event["location"], window_start(event["timestamp"], minutes)] += 1
    return {(*key, count) for key, count in found.items()}


def window_start(moment: datetime, minutes: int) -> datetime:
    """Return when the window of a moment began; windows are counted from midnight in UTC."""
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    length = timedelta(minutes=minutes)
    return midnight + (moment - midnight) // length * length


def path(
    events: Iterable[Event],
    places: Mapping[str, tuple[float, float]],
    *,
    vehicle: str,
    zone: str = "Europe/London",
    gap_s: int = 1800,
) -> list[Row]:
    """Follow one vehicle through each of its days."""
    days: dict[object, set[tuple[datetime, str]]] = defaultdict(set)
    for event in events:
        moment, place = event["timestamp"], event["location"]
        if event["numberplate"] == vehicle and moment is not None and place is not None:
            days[moment.astimezone(ZoneInfo(zone)).date()].add((moment, place))
    return [
        (vehicle, day, *leg)
        for day, seen in sorted(days.items())
        for leg in legs(sorted(seen), places, gap_s=gap_s)
    ]


def legs(
    seen: Sequence[tuple[datetime, str]], places: Mapping[str, tuple[float, float]], *, gap_s: int
) -> list[Row]:
    """Return each sighting of a day with its number and how the vehicle got there."""
    rows: list[Row] = []
    for number, (moment, place) in enumerate(seen, start=1):
        if number == 1:
            rows.append((number, moment, place, None, None, None, False))
            continue
        since, start = seen[number - 2]
        seconds = (moment - since) / timedelta(seconds=1)
        km = distance_km(places.get(start), places.get(place))
        speed = None if km is None or seconds == 0 else km / (seconds / 3600)
        rows.append((number, moment, place, seconds, km, speed, seconds > gap_s))
    return rows


def distance_km(one: tuple[float, float] | None, other: tuple[float, float] | None) -> float | None:
    """Return the way of a crow, if both places are known."""
    if one is None or other is None:
        return None
    (north_1, east_1), (north_2, east_2) = map(radians, one), map(radians, other)
    half = sin((north_2 - north_1) / 2) ** 2
    half += cos(north_1) * cos(north_2) * sin((east_2 - east_1) / 2) ** 2
    return 2 * 6371.0088 * asin(sqrt(half))


def prices(events: Iterable[Event], *, flows: Sequence[str] = ()) -> dict[Row, Row]:
    """Return by flow, stock and minute: trades, shares, exact price, lowest, highest."""
    minutes: dict[Row, list[tuple[int, float]]] = defaultdict(list)
    for event in events:
        named = ("time", "flow", "stock", "shares", "price")
        is_whole = all(event[name] is not None for name in named)
        if is_whole and event["shares"] > 0 and (not flows or event["flow"] in flows):
            key = (event["flow"], event["stock"], window_start(event["time"], 1))
            minutes[key].append((event["shares"], event["price"]))
    return {key: summary(trades) for key, trades in minutes.items()}


def summary(trades: Sequence[tuple[int, float]]) -> Row:
    """Say what a minute's trades come to."""
    shares = sum(count for count, _ in trades)
    turnover = sum(count * Fraction(str(price)) for count, price in trades)
    found = [price for _, price in trades]
    return len(trades), shares, float(turnover / shares), min(found), max(found)


def environment(
    events: Iterable[Event], *, noise: float = 65.0, pm25: float = 15.0, no2: float = 40.0
) -> dict[Row, Row]:
    """Return by district and hour: reports, noise, dust, gas, too loud, too dirty."""
    hours: dict[Row, list[Event]] = defaultdict(list)
    for event in events:
        if event["time"] is not None and event["district"] is not None:
            hours[event["district"], window_start(event["time"], 60)].append(event)
    return {key: measured(reports, noise, pm25, no2) for key, reports in hours.items()}


def measured(reports: Sequence[Event], noise: float, pm25: float, no2: float) -> Row:
    """Say what an hour's reports come to, to two places."""
    loud = [10 ** (one["noise_db"] / 10) for one in reports if one["noise_db"] is not None]
    sound = round(10 * log10(sum(loud) / len(loud)), 2) if loud else None
    dust, gas = (mean([one[name] for one in reports if one[name] is not None]) for name in ("pm25", "no2"))
    is_dirty = (dust is not None and dust > pm25) or (gas is not None and gas > no2)
    return len(reports), sound, dust, gas, sound is not None and sound > noise, is_dirty


def audit(
    events: Iterable[Event],
    *,
    classes: Sequence[str] = ("A", "B"),
    days: int = 28,
    times: str = "3",
    others_min: int = 5,
) -> set[Row]:
    """Return prescriber, drug, start of the four weeks, day, and what that day comes to."""
    histories: dict[Row, list[Row]] = defaultdict(list)
    for event in events:
        named = ("time", "prescriber", "drug", "dose")
        if event["drug_class"] in classes and all(event[name] is not None for name in named):
            since = EPOCH + (event["time"] - EPOCH) // timedelta(days=days) * timedelta(days=days)
            prescription = (event["time"], Fraction(str(event["dose"])), event["reference"], event["treated"])
            histories[event["prescriber"], event["drug"], since].append(prescription)
    return {
        (*key, day, *audited_day(written, day, Fraction(times), others_min))
        for key, written in histories.items()
        for day in {moment.date() for moment, *_ in written}
    }


def audited_day(written: Sequence[Row], day: object, times: Fraction, others_min: int) -> Row:
    """Say what one day of a history comes to: each dose is compared with all others of the history."""
    that_day = [one for one in written if one[0].date() == day]
    unusual = 0
    for one in that_day:
        others = [each[1] for each in written]
        others.remove(one[1])
        unusual += len(others) >= others_min and one[1] > times * sum(others) / len(others)
    patients = {reference for _, _, reference, _ in that_day}
    untreated = sum(treated is not True for *_, treated in that_day)
    return len(that_day), len(patients), float(sum(one[1] for one in that_day)), untreated, unusual


def mean(values: Sequence[float]) -> float | None:
    """Return the mean to two places, computed exactly."""
    return round(float(sum(Fraction(str(value)) for value in values) / len(values)), 2) if values else None
