"""Which vehicle owes the congestion charge for which day?

The billing office asks (dissertation, section 1.2.2). A vehicle that is seen
in charging hours owes one charge for that day, however often it is seen, in
whatever order the sightings come and however many of them come twice. The
office reads numberplates and times; it has no use for places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.events import Kind
from maia.spark.applications.application import Application, BadTerm, check_zone, local_time, with_day

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
            raise BadTerm("hours go from 0 to 24, and neither a charge nor a delay is negative")


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


def _totals() -> dict[str, Column]:
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
    totals=_totals,
    generator="sightings",
)
