"""How loud and how dirty is each district, hour by hour, and is that still allowed?

Citizens and the planning office ask (OASIS'08, section 2.1). Dust and gas are
averaged as they are. Decibels are not: twice the sound is three decibels
more, so the sound is averaged and the result given in decibels. Sums are exact
decimals, so that they do not depend on the order in which reports come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.errors import BadInput
from maia.events import Kind
from maia.spark.applications.application import Application

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# A sound of 200 decibels is 10^20 times the faintest; a hundred thousand million of them still fit.
_SOUND: Final = "decimal(27,4)"
_AMOUNT: Final = "decimal(18,4)"
_LOUDEST_DB: Final = 200.0


@dataclass(frozen=True, slots=True)
class EnvironmentTerms:
    """What an hour may have: decibels, and micrograms in a cubic metre. How late a report may be."""

    noise_limit_db: float = 65.0
    pm25_limit: float = 15.0
    no2_limit: float = 40.0
    late_minutes: int = 120

    def __post_init__(self) -> None:
        """Refuse a negative delay."""
        if self.late_minutes < 0:
            raise BadInput("INPUT-PIPELINE-TERM", "a delay is not negative")


def city_environment(reports: DataFrame, terms: EnvironmentTerms) -> DataFrame:
    """Return noise and air of each district and hour; what was not measured is null and exceeds nothing."""
    hours = (
        reports.dropna(subset=["time", "district"])
        .withWatermark("time", f"{terms.late_minutes} minutes")
        .groupBy("district", F.window("time", "1 hour").alias("window"))
        .agg(
            F.count("*").alias("reports"),
            _sound_in_db().alias("noise_db"),
            _mean("pm25").alias("pm25"),
            _mean("no2").alias("no2"),
        )
    )
    return hours.select(
        "district",
        F.col("window.start").alias("starts_at"),
        "reports",
        "noise_db",
        "pm25",
        "no2",
        _exceeds("noise_db", terms.noise_limit_db).alias("is_too_loud"),
        (_exceeds("pm25", terms.pm25_limit) | _exceeds("no2", terms.no2_limit)).alias("is_too_dirty"),
    )


def _sound_in_db() -> Column:
    # A level outside this range is a broken microphone.
    measured = F.col("noise_db").between(0.0, _LOUDEST_DB)
    sound = F.pow(F.lit(10.0), F.col("noise_db") / 10.0).cast(_SOUND)
    total = F.sum(F.when(measured, sound)).cast("double")
    count = F.sum(F.when(measured, 1).otherwise(0))
    return F.round(F.when(count > 0, F.log10(total / count) * 10.0), 2)


def _mean(name: str) -> Column:
    total = F.sum(F.col(name).cast(_AMOUNT)).cast("double")
    return F.round(F.when(F.count(name) > 0, total / F.count(name)), 2)


def _exceeds(name: str, limit: float) -> Column:
    return F.coalesce(F.col(name) > limit, F.lit(False))


def _totals() -> dict[str, Column]:
    return {
        "districts": F.count_distinct("district"),
        "hours": F.count("*"),
        "hours_too_loud": F.count_if("is_too_loud"),
        "hours_too_dirty": F.count_if("is_too_dirty"),
        "loudest_district": F.max_by("district", "noise_db"),
    }


ENVIRONMENT: Final = Application(
    name="environment",
    about="noise and air per district and hour, and where limits are exceeded",
    reads={
        "time": Kind.TIMESTAMP,
        "district": Kind.STRING,
        "noise_db": Kind.FLOAT,
        "pm25": Kind.FLOAT,
        "no2": Kind.FLOAT,
    },
    never_reads=frozenset({"sensor"}),
    keys=("district", "starts_at"),
    terms=EnvironmentTerms(),
    compute=city_environment,
    totals=_totals,
    generator="sensors",
)
