"""Is what Spark found in the log what the offices saw live, and did a place reach the billing office?

The demonstration asks, of the files that Spark wrote. Rows are compared with
live deliveries, and so are the bill and the counts, which are made once more
from what was delivered. The detective, whose right was
revoked, must be refused: the past is not a way around a revocation. Then the
files and plans of the billing office are searched for every place that exists
in the log. The same search of the statistics office, which may know places,
must find all of them, or it would prove nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq

from maia.demo.acts import LivePlay
from maia.demo.lake_jobs import RESULT, TABLE, Work
from maia.demo.numberplate import NUMBERPLATE_ATTRIBUTES, OFFICES, Received
from maia.demo.processes import Recording
from maia.events import Instant, Value
from maia.policy import GrantRevoked
from maia.spark.applications import BILLING, STATISTICS

# What would the bill and the traffic be, counted once more from what was delivered live?


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


BILLING_OFFICE, STATISTICS_OFFICE, DETECTIVE = OFFICES
_NAMES: Final = tuple(one.name for one in NUMBERPLATE_ATTRIBUTES)

Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class LakeOffice:
    """One office's table of the log, beside what it saw live."""

    office: str
    rows: int
    rows_live: int
    same: bool
    """Whether both are equal, row by row, and every trial sighting is there as well."""
    columns_read: tuple[str, ...]
    values: Mapping[str, int]
    """How many rows show each attribute."""
    refused: str | None = None
    """The code with which it was refused the log."""
    is_revoked: bool = False
    """Whether its right was taken away while the network played."""

    @property
    def is_as_live(self) -> bool:
        """Say whether it finds what it saw live; or nothing at all, if its right is revoked."""
        return self.refused == GrantRevoked.code and not self.rows if self.is_revoked else self.same


@dataclass(frozen=True, slots=True)
class Bill:
    """What the charges come to that Spark wrote."""

    charges: int
    vehicles: int
    days: int
    pounds: float
    same: bool
    """Whether they are the charges of what was delivered live."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the counts come to that Spark wrote."""

    sightings: int
    cameras: int
    windows: int
    busiest_camera: str
    same: bool
    """Whether they are the counts of what was delivered live."""


@dataclass(frozen=True, slots=True)
class MostSeen:
    """The vehicle that was seen most often on one day, and what that day costs it."""

    plate: str
    day: str
    sightings: int
    charges: int


@dataclass(frozen=True, slots=True)
class PlaceSearch:
    """How many of the places in the log are among some bytes."""

    where: str
    searched: int
    looked_for: int
    found: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LakeResult:
    """What came of the log."""

    events: int
    trials: int
    """How many of the events were trials."""
    frames: int
    offices: tuple[LakeOffice, ...]
    bill: Bill
    most_seen: MostSeen
    traffic: Traffic
    plot: str | None
    no_plot: str | None
    """Why there is no picture."""
    searches: tuple[PlaceSearch, ...]
    """The log, the billing office, and the statistics office, which may know."""

    def broken_claims(self) -> Iterator[str]:
        """Say where Spark and the network disagree, and what the billing office held that it must not."""
        for one in self.offices:
            if one.is_revoked and not one.is_as_live:
                yield (
                    f"{one.office}, whose right was revoked, reads {one.rows} sightings in the log, "
                    f"or is refused for another reason: {one.refused}"
                )
            elif not one.is_as_live:
                yield (
                    f"the {one.office} finds {one.rows} sightings in the log that differ "
                    f"from the {one.rows_live} it saw live"
                )
        if not self.bill.same:
            yield "the bill that Spark made is not the bill of what was delivered"
        if not self.traffic.same:
            yield "the traffic that Spark counted is not the traffic that was delivered"
        if self.most_seen.charges != 1:
            yield f"a vehicle was charged {self.most_seen.charges} times for one day"
        yield from self._about_places()

    def _about_places(self) -> Iterator[str]:
        billing = next(one for one in self.offices if one.office == BILLING_OFFICE)
        if billing.values["location"] or "location" in billing.columns_read:
            yield "Spark read a location for the billing office"
        *hidden, control = self.searches
        for one in hidden:
            if one.found:
                yield f"{len(one.found)} places were found in {one.where}"
        if not control.looked_for or len(control.found) != control.looked_for:
            yield "the search for places proves nothing: it did not find them where they are"


def compared_with_live(
    live: LivePlay, works: Iterable[Work], recording: Recording, *, out: Path, plot: Path, no_plot: str | None
) -> LakeResult:
    """Read what Spark wrote for each office, and compare and search it."""
    by_office = {one.office: one for one in works}
    charges, pence = _charges_in(out / BILLING_OFFICE / RESULT)
    counts = _counts_in(out / STATISTICS_OFFICE / RESULT)
    billed, counted = live.of(BILLING_OFFICE).events, live.of(STATISTICS_OFFICE).events
    places = {str(place).encode() for place in live.of(STATISTICS_OFFICE).values_of("location")}
    return LakeResult(
        events=recording.events,
        trials=len(live.tried),
        frames=recording.frames,
        offices=tuple(_office(live, by_office[office], out / office / TABLE) for office in OFFICES),
        bill=_bill(charges, pence=pence, same=charges == Counter(charged_once_a_day(billed))),
        most_seen=_most_seen(billed, charges),
        traffic=_traffic(counts, same=counts == counted_by_window(counted)),
        plot=None if no_plot else str(plot),
        no_plot=no_plot,
        searches=(
            _searched("the log, as it was recorded", [recording.written], places),
            *(_searched(f"the {one}'s tables and plans", _files(out / one), places) for one in _SEARCHED),
        ),
    )


_SEARCHED: Final = (BILLING_OFFICE, STATISTICS_OFFICE)


# ------------------------------------------------------------ rows


def _office(live: LivePlay, work: Work, table: Path) -> LakeOffice:
    seen = _rows(live.of(work.office))
    found = Counter(_rows_in(table) if table.exists() else ())
    trials = Counter({row: count for row, count in found.items() if row[1] in live.tried})
    found -= trials
    is_whole = Counter(row[1] for row in trials.elements()) == Counter(live.tried)
    return LakeOffice(
        office=work.office,
        rows=found.total(),
        rows_live=seen.total(),
        same=found == seen and is_whole,
        columns_read=work.columns_read,
        values={
            name: sum(count for row, count in found.items() if row[at] is not None)
            for at, name in enumerate(_NAMES)
        },
        refused=work.refused,
        is_revoked=live.revocation is not None and work.office == DETECTIVE,
    )


def _rows(received: Received) -> Counter[Row]:
    return Counter(tuple(event[name] for name in _NAMES) for event in received.events)


def _rows_in(table: Path) -> Iterator[Row]:
    plates, moments, places = (_values(pq.read_table(table)[name]) for name in _NAMES)
    for plate, moment, place in zip(plates, moments, places, strict=True):
        yield plate, Instant(moment), place


def _values(column: Any) -> list[Any]:
    # Any: pyarrow is not typed.
    is_moment = pa.types.is_timestamp(column.type)
    return list((column.cast(pa.int64()) if is_moment else column).to_pylist())


# ------------------------------------------------------------ the bill and the counts


def _charges_in(result: Path) -> tuple[Counter[tuple[str, date]], int]:
    """Return which charges there are, and what they cost together."""
    table = pq.read_table(result)
    charges = Counter(zip(table["numberplate"].to_pylist(), table["day"].to_pylist(), strict=True))
    return charges, sum(table["charge_pence"].to_pylist())


def _bill(charges: Counter[tuple[str, date]], *, pence: int, same: bool) -> Bill:
    plates, days = {plate for plate, _ in charges}, {day for _, day in charges}
    return Bill(charges.total(), len(plates), len(days), pence / 100, same)


def _most_seen(events: Iterable[Mapping[str, Value]], charges: Counter[tuple[str, date]]) -> MostSeen:
    seen = seen_on_charged_days(events)
    (plate, day), sightings = max(seen.items(), key=lambda one: (one[1], one[0]))
    return MostSeen(plate, str(day), sightings, charges[plate, day])


def _counts_in(result: Path) -> Counter[tuple[str, int]]:
    table = pq.read_table(result)
    keys = zip(_values(table["location"]), _values(table["starts_at"]), strict=True)
    found: Counter[tuple[str, int]] = Counter()
    for key, sightings in zip(keys, table["sightings"].to_pylist(), strict=True):
        found[key] += sightings
    return found


def _traffic(counts: Counter[tuple[str, int]], *, same: bool) -> Traffic:
    by_camera: Counter[str] = Counter()
    for (camera, _), sightings in counts.items():
        by_camera[camera] += sightings
    busiest = max(by_camera, key=lambda camera: (by_camera[camera], camera), default="")
    return Traffic(counts.total(), len(by_camera), len(counts), busiest, same)


# ------------------------------------------------------------ the search


def _files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]


def _searched(where: str, contents: list[bytes], places: set[bytes]) -> PlaceSearch:
    found = {place for place in places if any(place in data for data in contents)}
    return PlaceSearch(
        where, sum(map(len, contents)), len(places), tuple(sorted(place.decode() for place in found))
    )
