"""How much traffic passes which camera, quarter hour by quarter hour?

The statistics office asks (dissertation, sections 1.2.2 and 3.7). It reads
places and times and there is no numberplate anywhere: not in what it reads,
not in what it keeps. So it counts sightings, and a sighting that a camera
sent twice counts twice, because without plates it cannot be recognised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.events import Kind
from maia.spark.applications.application import Application, BadTerm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_DAY_MINUTES: Final = 1440


@dataclass(frozen=True, slots=True)
class StatisticsTerms:
    """How long a window is, and how late a sighting may be that a stream still counts."""

    window_minutes: int = 15
    late_minutes: int = 180

    def __post_init__(self) -> None:
        """Refuse windows that do not fill a day."""
        if self.window_minutes < 1 or _DAY_MINUTES % self.window_minutes or self.late_minutes < 0:
            raise BadTerm("windows of `window_minutes` fill a day exactly, and a delay is not negative")


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


def _totals() -> dict[str, Column]:
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
    totals=_totals,
    generator="sightings",
)
