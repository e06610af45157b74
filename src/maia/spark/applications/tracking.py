"""Which way did this vehicle go?

Detective Smith asks under a court order (dissertation, section 3.7): one
vehicle, its sightings of a day in the order of time, how far and how fast it
went from each to the next, and where it was out of sight. No vehicle is followed
unless named: the vehicle is a term without a default. What the court did not
order is not in the frame; this function could not tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.events import Kind
from maia.spark.applications.application import Application, BadTerm, check_zone, with_day
from maia.spark.generators.sightings import CAMERAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


EARTH_KM: Final = 6371.0088


@dataclass(frozen=True, slots=True)
class TrackingTerms:
    """Whom to follow, and for how many minutes without a sighting a vehicle is not yet out of sight."""

    vehicle: str = ""
    gap_minutes: int = 30
    zone: str = "Europe/London"
    late_days: int = 2

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        check_zone(self.zone)
        if self.gap_minutes < 0 or self.late_days < 0:
            raise BadTerm("neither a gap nor a delay is negative")


def vehicle_path(sightings: DataFrame, terms: TrackingTerms) -> DataFrame:
    """Return the vehicle's sightings, numbered through each day, with the leg that led to each."""
    if not terms.vehicle:
        raise BadTerm("tracking follows one vehicle; name it with the term `vehicle`")
    followed = sightings.where(
        (F.col("numberplate") == terms.vehicle)
        & F.col("timestamp").isNotNull()
        & F.col("location").isNotNull()
    )
    paths = (
        with_day(followed, "timestamp", zone=terms.zone, late_days=terms.late_days)
        .groupBy("numberplate", "day")
        # A set, because a sighting that arrived twice is one sighting.
        .agg(F.array_sort(F.collect_set(F.struct("timestamp", "location"))).alias("path"))
    )
    steps = paths.select("numberplate", "day", F.explode(_legs(F.col("path"), terms)).alias("leg"))
    return steps.select("numberplate", F.col("day").cast("date").alias("day"), "leg.*")


def _legs(path: Column, terms: TrackingTerms) -> Column:
    return F.transform(path, _leg_of(path, terms))


def _leg_of(path: Column, terms: TrackingTerms) -> Callable[[Column, Column], Column]:
    def leg(seen: Column, number: Column) -> Column:
        # An array counts from one, so the element before this one has this one's number.
        before = F.when(number > 0, F.try_element_at(path, number))
        seconds = (F.unix_micros(seen["timestamp"]) - F.unix_micros(before["timestamp"])) / F.lit(1e6)
        km = _distance_km(before["location"], seen["location"])
        return F.struct(
            (number + 1).alias("step"),
            seen["timestamp"].alias("timestamp"),
            seen["location"].alias("location"),
            seconds.alias("seconds"),
            F.round(km, 3).alias("km"),
            F.round(F.when(seconds > 0, km / (seconds / F.lit(3600.0))), 1).alias("km_per_h"),
            F.coalesce(seconds > terms.gap_minutes * 60, F.lit(False)).alias("was_out_of_sight"),
        )

    return leg


def _distance_km(one: Column, other: Column) -> Column:
    """Return the distance between two cameras by the haversine formula; null if a place is unknown."""
    north_1, east_1, north_2, east_2 = (_place(of, at) for of in (one, other) for at in (0, 1))
    half = F.pow(F.sin((north_2 - north_1) / 2), 2)
    half += F.cos(north_1) * F.cos(north_2) * F.pow(F.sin((east_2 - east_1) / 2), 2)
    return F.lit(2 * EARTH_KM) * F.asin(F.sqrt(half))


def _place(location: Column, at: int) -> Column:
    radians = {name: place[at] * pi / 180.0 for name, place in CAMERAS.items()}
    places = F.create_map(*(F.lit(one) for pair in radians.items() for one in pair))
    return F.try_element_at(places, location)


def _totals() -> dict[str, Column]:
    return {
        "sightings": F.count("*"),
        "days": F.count_distinct("day"),
        "km": F.round(F.coalesce(F.sum("km"), F.lit(0.0)), 1),
        "fastest_km_per_h": F.max("km_per_h"),
        "times_out_of_sight": F.count_if("was_out_of_sight"),
    }


TRACKING: Final = Application(
    name="tracking",
    about="the path of one vehicle under a court order: where, when, how fast, and when out of sight",
    reads={"numberplate": Kind.STRING, "timestamp": Kind.TIMESTAMP, "location": Kind.STRING},
    never_reads=frozenset(),
    keys=("numberplate", "day"),
    terms=TrackingTerms(),
    compute=vehicle_path,
    totals=_totals,
    generator="sightings",
)
