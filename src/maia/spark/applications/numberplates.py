"""What do a city's cameras tell: who owes a charge, how much traffic there is, which way a vehicle went?

The offices of a city ask (dissertation, section 1.2.2). Billing: a vehicle that is seen
in charging hours owes one charge for that day, however often it is seen, in
whatever order the sightings come and however many of them come twice. The
office reads numberplates and times; it has no use for places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.errors import BadInput
from maia.events import Kind
from maia.spark.applications.application import Application, check_zone, local_time, with_day
from maia.spark.generators.sightings import CAMERAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_SATURDAY: Final = 5


@dataclass(frozen=True, slots=True)
class ChargingTerms:
    """What a day costs and when it costs: from the first hour on, until the last hour begins."""

    charge_pence: int = 1500
    first_hour: int = 7
    last_hour: int = 18
    weekend_first_hour: int = 12
    weekend_last_hour: int = 18
    zone: str = "Europe/London"
    late_days: int = 2

    def __post_init__(self) -> None:
        """Refuse hours that no day has."""
        check_zone(self.zone)
        hours = (self.first_hour, self.last_hour, self.weekend_first_hour, self.weekend_last_hour)
        if not all(0 <= hour <= 24 for hour in hours) or self.late_days < 0 or self.charge_pence < 0:
            raise BadInput(
                "INPUT-PIPELINE-TERM", "hours go from 0 to 24, and neither a charge nor a delay is negative"
            )


def congestion_charges(sightings: DataFrame, terms: ChargingTerms) -> DataFrame:
    """Return one row for each vehicle and day that is to be charged."""
    seen = sightings.where(F.col("numberplate").isNotNull() & F.col("timestamp").isNotNull())
    charged = seen.where(_in_charging_hours(local_time(F.col("timestamp"), terms.zone), terms))
    once = with_day(charged, "timestamp", zone=terms.zone, late_days=terms.late_days).dropDuplicates(
        ["numberplate", "day"]
    )
    return once.select(
        "numberplate", F.col("day").cast("date").alias("day"), F.lit(terms.charge_pence).alias("charge_pence")
    )


def _in_charging_hours(local: Column, terms: ChargingTerms) -> Column:
    hour = F.hour(local)
    on_weekdays = (hour >= terms.first_hour) & (hour < terms.last_hour)
    at_weekends = (hour >= terms.weekend_first_hour) & (hour < terms.weekend_last_hour)
    return F.when(F.weekday(local) >= _SATURDAY, at_weekends).otherwise(on_weekdays)


def _charge_totals() -> dict[str, Column]:
    return {
        "charges": F.count("*"),
        "vehicles": F.count_distinct("numberplate"),
        "days": F.count_distinct("day"),
        "pounds": F.coalesce(F.sum("charge_pence"), F.lit(0)) / 100,
    }


BILLING: Final = Application(
    name="billing",
    about="the congestion charge: each vehicle owes it once a day",
    reads={"numberplate": Kind.STRING, "timestamp": Kind.TIMESTAMP},
    never_reads=frozenset({"location"}),
    keys=("numberplate", "day"),
    terms=ChargingTerms(),
    compute=congestion_charges,
    totals=_charge_totals,
    generator="sightings",
)


# Traffic by camera and quarter hour.
#
# The statistics office asks (dissertation, sections 1.2.2 and 3.7). It reads
# places and times and there is no numberplate anywhere: not in what it reads,
# not in what it keeps. So it counts sightings, and a sighting that a camera
# sent twice counts twice, because without plates it cannot be recognised.


_DAY_MINUTES: Final = 1440


@dataclass(frozen=True, slots=True)
class StatisticsTerms:
    """How long a window is, and how late a sighting may be that a stream still counts."""

    window_minutes: int = 15
    late_minutes: int = 180

    def __post_init__(self) -> None:
        """Refuse windows that do not fill a day."""
        if self.window_minutes < 1 or _DAY_MINUTES % self.window_minutes or self.late_minutes < 0:
            raise BadInput(
                "INPUT-PIPELINE-TERM",
                "windows of `window_minutes` fill a day exactly, and a delay is not negative",
            )


def traffic_statistics(sightings: DataFrame, terms: StatisticsTerms) -> DataFrame:
    """Return how many sightings each camera had in each window, where it had any."""
    seen = sightings.where(F.col("location").isNotNull() & F.col("timestamp").isNotNull())
    window = F.window("timestamp", f"{terms.window_minutes} minutes")
    counted = (
        seen.withWatermark("timestamp", f"{terms.late_minutes} minutes")
        .groupBy("location", window.alias("window"))
        .agg(F.count("*").alias("sightings"))
    )
    return counted.select("location", F.col("window.start").alias("starts_at"), "sightings")


def _traffic_totals() -> dict[str, Column]:
    return {
        "cameras": F.count_distinct("location"),
        "windows": F.count("*"),
        "sightings": F.coalesce(F.sum("sightings"), F.lit(0)),
        "busiest_camera": F.max_by("location", "sightings"),
        "busiest_at": F.max_by("starts_at", "sightings"),
    }


STATISTICS: Final = Application(
    name="statistics",
    about="traffic by camera and quarter hour, without any numberplate",
    reads={"timestamp": Kind.TIMESTAMP, "location": Kind.STRING},
    never_reads=frozenset({"numberplate"}),
    keys=("location", "starts_at"),
    terms=StatisticsTerms(),
    compute=traffic_statistics,
    totals=_traffic_totals,
    generator="sightings",
)


# The way of one vehicle.
#
# Detective Smith asks under a court order (dissertation, section 3.7): one
# vehicle, its sightings of a day in the order of time, how far and how fast it
# went from each to the next, and where it was out of sight. No vehicle is followed
# unless named: the vehicle is a term without a default. What the court did not
# order is not in the frame; this function could not tell.


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
            raise BadInput("INPUT-PIPELINE-TERM", "neither a gap nor a delay is negative")


def vehicle_path(sightings: DataFrame, terms: TrackingTerms) -> DataFrame:
    """Return the vehicle's sightings, numbered through each day, with the leg that led to each."""
    if not terms.vehicle:
        raise BadInput("INPUT-PIPELINE-TERM", "tracking follows one vehicle; name it with the term `vehicle`")
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
    legs = F.transform(F.col("path"), _leg_of(F.col("path"), terms))
    steps = paths.select("numberplate", "day", F.explode(legs).alias("leg"))
    return steps.select("numberplate", F.col("day").cast("date").alias("day"), "leg.*")


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


def _path_totals() -> dict[str, Column]:
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
    totals=_path_totals,
    generator="sightings",
)
