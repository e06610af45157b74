"""Which day is it, where the city is, and how late may an event of it be?

A day is the local one: a congestion charge follows the clock on the wall. It
is kept as a moment (local midnight), because a stream forgets by moments.
Sessions compute in UTC, as ours do, so that a local time keeps its hour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.spark.applications.application import BadTerm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["check_zone", "day_of", "local_time", "with_day"]


def check_zone(zone: str) -> None:
    """Refuse a zone that is not in the tables."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadTerm(f"`{zone[:80]}` is no time zone such as `Europe/London`") from None


def local_time(moment: Column, zone: str) -> Column:
    """Return what the clock on the wall says."""
    return F.from_utc_timestamp(moment, zone)


def day_of(moment: Column, zone: str) -> Column:
    """Return the local midnight before a moment."""
    return F.date_trunc("day", local_time(moment, zone))


def with_day(events: DataFrame, moment: str, *, zone: str, late_days: int) -> DataFrame:
    """Return events with their `day`; a stream takes events of a day until so many days after it.

    A stream drops what is as old as its watermark, so the watermark lies one
    day further back than the last day that counts.
    """
    days = events.withColumn("day", day_of(F.col(moment), zone))
    return days.withWatermark("day", f"{late_days + 1} days")
