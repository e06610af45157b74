"""Who can see this, and what has changed since? Questions to the table of a closure, in Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.spark.closure.tables import Closure

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession


_RIGHT = (
    "principal", "type_id", "type", "owner", "attribute", "uid", "since", "until", "where", "condition",
    "transformation", "shown_as", "tests",
)  # fmt: skip
"""What two rows have in common that are one right; the certificates behind it may be others."""


def holds_at(moment: datetime | Column) -> Column:
    """Return whether a row of a closure holds at a moment."""
    at = moment if isinstance(moment, Column) else F.lit(moment)
    begun = F.col("since").isNull() | (F.col("since") <= at)
    return begun & (F.col("until").isNull() | (F.col("until") >= at))


def who_can(
    rows: DataFrame, *, type_name: str, attribute: str | None = None, at: datetime | None = None
) -> DataFrame:
    """Return the grants of a type, by its readable name; of an attribute by its name or uid; at a moment."""
    found = rows.where(F.col("type") == type_name)
    if attribute is not None:
        found = found.where((F.col("attribute") == attribute) | (F.col("uid") == attribute))
    if at is not None:
        found = found.where(holds_at(at))
    return found.drop("type_no")


def difference(spark: SparkSession, old: Closure, new: Closure) -> DataFrame:
    """Return the rights that only one of two closures has, `more` of the new one and `less` of the old."""
    before, after = (_distinct(_some(spark, *pair)) for pair in ((old, new), (new, old)))
    more, less = after.exceptAll(before), before.exceptAll(after)
    return more.withColumn("change", F.lit("more")).union(less.withColumn("change", F.lit("less")))


def _distinct(rows: DataFrame) -> DataFrame:
    return rows.select(*_RIGHT).distinct()


def _some(spark: SparkSession, closure: Closure, other: Closure) -> DataFrame:
    """Return the rows that may differ: a file that was linked has the same rows in both."""
    mine, others = (_files(one) for one in (closure, other))
    differ = [file for name, file in mine.items() if closure.types != other.types or name not in others]
    if not differ:
        return closure.rows(spark).limit(0)
    base = str(closure.folder.resolve() / "rows")
    return spark.read.option("basePath", base).parquet(*map(str, differ))


def _files(closure: Closure) -> dict[tuple[str, str], Path]:
    files = (closure.folder.resolve() / "rows").glob("type_no=*/*.parquet")
    return {(file.parent.name, file.name): file for file in files}
