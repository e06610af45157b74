"""How do the Views of several periods become one, for rows that say of which period they are?

A governed stream asks, if its reader's rights changed. Each row goes through
the View of its own period and no other: Catalyst evaluates a branch of a
CASE only for the rows that take it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.events import Attribute, AttributeUid, Kind
from maia.policy.view import View
from maia.spark.governed.frame_reader import PERIOD
from maia.views.keyed_columns import KeySource
from maia.views.schema import spark_type
from maia.views.to_spark import SparkView, to_spark

__all__ = ["PeriodsView"]


class PeriodsView:
    """The Views of several periods as columns, over what `opening.PeriodsOpener` makes."""

    def __init__(
        self,
        views: Sequence[tuple[View, Mapping[AttributeUid, Kind]]],
        delivered: tuple[Attribute, ...],
        keys: KeySource | None = None,
    ) -> None:
        """Compile each View over the attributes that its period has."""
        self._views: list[SparkView] = [to_spark(view, dict(kinds), delivered, keys) for view, kinds in views]
        self._seen: list[dict[AttributeUid, Column]] = [
            dict(zip(made.uids, made.seen, strict=True)) for made in self._views
        ]
        self._delivered = delivered

    @property
    def admits(self) -> Column:
        """Return which rows may be read."""
        return _by_period(enumerate(view.admits for view in self._views))

    @property
    def seen(self) -> list[Column]:
        """Return what is seen of them, by uid."""
        return [self._seen_column(uid).alias(uid) for uid in self._uids]

    @property
    def interest(self) -> Column:
        """Return which of those are wanted."""
        wanted = (F.lit(True) if view.interest is None else view.interest for view in self._views)
        return _by_period(enumerate(wanted))

    @property
    def delivered(self) -> list[Column]:
        """Return the attributes by the names of the reader's version."""
        return [self._delivered_column(attribute) for attribute in self._delivered]

    @property
    def _uids(self) -> list[AttributeUid]:
        return sorted({uid for seen in self._seen for uid in seen})

    def _seen_column(self, uid: AttributeUid) -> Column:
        shown = ((number, seen[uid]) for number, seen in enumerate(self._seen) if uid in seen)
        return _by_period(shown)

    def _delivered_column(self, attribute: Attribute) -> Column:
        if attribute.uid in self._uids:
            return F.col(f"`{attribute.uid}`").alias(attribute.name)
        return F.lit(None).cast(spark_type(attribute.kind)).alias(attribute.name)


def _by_period(columns: Iterable[tuple[int, Column]]) -> Column:
    """Return each row's column by its period: null where there is none for it."""
    (first, column), *others = columns
    begun = F.when(F.col(PERIOD) == first, column)
    return reduce(lambda made, one: made.when(F.col(PERIOD) == one[0], one[1]), others, begun)
