"""How does Spark show a View that summarises?

As a group-by between the View's two ordinary parts. Sums are of whole numbers, in decimals that hold
them exactly, so the answer does not depend on partitions. It is that of `summarised` in
`maia.policy.summaries`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql import types as t

from maia.events import SECOND, Attribute, Kinds
from maia.expressions.meaning import FLOAT_HIGH, FLOAT_LOW
from maia.expressions.summaries import STEPS_WIDTH, Aggregate, Measure, Summary
from maia.policy.summaries import split
from maia.policy.view import View
from maia.views.keyed_columns import KeySource
from maia.views.to_spark import SparkView, to_spark

__all__ = ["SparkSummary", "to_spark_summary"]

_START = "period start"
_WHOLE = t.DecimalType(20, 0)


@dataclass(frozen=True, slots=True)
class SparkSummary:
    """A View that summarises, as columns."""

    front: SparkView
    summary: Summary = field(repr=False)
    behind: SparkView

    def of(self, events: DataFrame, published_at: Column, shown: Column | None = None) -> DataFrame:
        """Return what many `events`, whose columns are called by uid, come to.

        `shown` says of which periods, over `period_start()` and `closes_at()`.
        """
        taken = events.where(self.front.admits).select(*self.front.seen, _start(self.summary, published_at))
        return self.grouped(taken, shown)

    def grouped(self, taken: DataFrame, shown: Column | None = None) -> DataFrame:
        """Return what rows of the front part come to, which `start_column` gave the start of their period."""
        summary = self.summary
        keys = [f"`k{place}`" for place in range(len(summary.keys))]
        for key in keys:
            taken = taken.where(F.col(key).isNotNull())
        if shown is not None:
            taken = taken.where(shown)
        found = taken.groupBy(F.col(f"`{_START}`"), *map(F.col, keys)).agg(
            F.count(F.lit(1)).alias("events"),
            *(column for place, one in enumerate(summary.measures) for column in _parts(place, one)),
        )
        named = [F.col(key).alias(one.uid) for key, one in zip(keys, summary.keys, strict=True)]
        made = [_made(place, one, summary).alias(one.uid) for place, one in enumerate(summary.measures)]
        # What a user asks of a key is not asked of groups that are not shown: nothing passes this filter.
        barrier = F.spark_partition_id() >= F.lit(0)
        derived = found.where(F.col("events") >= summary.at_least).where(barrier).select(*named, *made)
        return self.behind.of(derived)

    def start_column(self, published_at: Column) -> Column:
        """Return the beginning of the period of each row, as microseconds, under its own name."""
        return _start(self.summary, published_at)

    @property
    def start(self) -> Column:
        """Return the beginning of a row's period, in microseconds."""
        return F.col(f"`{_START}`")


def to_spark_summary(
    view: View, stored: Kinds, delivered: tuple[Attribute, ...], keys: KeySource | None = None
) -> SparkSummary:
    """Compile a View that summarises for data frames with the `stored` columns."""
    parts = split(view)
    behind = to_spark(parts.behind, parts.summary.kinds, delivered, keys)
    return SparkSummary(to_spark(parts.front, stored, (), keys), parts.summary, behind)


def _start(summary: Summary, published_at: Column) -> Column:
    moment, every = F.unix_micros(published_at), F.lit(summary.every_s * SECOND)
    return (moment - F.pmod(moment, every)).alias(_START)


def _parts(place: int, measure: Measure) -> list[Column]:
    """Return what is counted, added up or compared for a measure."""
    column = F.col(f"`m{place}`")
    match measure.aggregate:
        case Aggregate.COUNT | Aggregate.PERIOD_START:
            return []
        case Aggregate.MEAN:
            whole = column.cast(_WHOLE) if measure.step is None else _steps(column, measure.step)
            return [F.count(whole).alias(f"n{place}"), F.sum(whole).alias(f"v{place}")]
        case _:
            pick = F.min if measure.aggregate is Aggregate.MIN else F.max
            return [F.count(column).alias(f"n{place}"), pick(column).alias(f"v{place}")]


def _steps(column: Column, step: float) -> Column:
    size = F.abs(column)
    within = (column == F.lit(0.0)) | ((size >= F.lit(FLOAT_LOW)) & (size <= F.lit(FLOAT_HIGH)))
    steps = F.rint(F.when(within, column) / F.lit(step))
    return F.when(F.abs(steps) <= F.lit(float(STEPS_WIDTH)), steps.cast(t.LongType()).cast(_WHOLE))


def _made(place: int, measure: Measure, summary: Summary) -> Column:
    number, value = F.col(f"n{place}"), F.col(f"v{place}")
    match measure.aggregate:
        case Aggregate.COUNT:
            return F.col("events")
        case Aggregate.PERIOD_START:
            return F.timestamp_micros(F.col(f"`{_START}`"))
        case Aggregate.MEAN:
            mean = value.cast(t.DoubleType()) / number.cast(t.DoubleType())
            value = mean if measure.step is None else mean * F.lit(measure.step) + F.lit(0.0)
        case _:
            pass
    return F.when(number >= summary.at_least, value)
