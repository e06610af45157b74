"""Who was told what, and what is unusual about it? Questions to ledgers of deliveries, in Spark.

A ledger has no values. `who_saw` joins it with events of the log, which the asker reads under
rights of its own: who may not read a numberplate cannot ask who saw it. All functions are data frame to data
frame, so that they run over years of ledgers, and nothing is collected.

`maia ledger export` writes the table that these functions read.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use


def _rows() -> Column:
    """Return how many events a row of the table is about."""
    return F.sum(F.col("last_row") - F.col("first_row") + 1)


def who_saw(disclosed: DataFrame, events: DataFrame) -> DataFrame:
    """Return who received which of these events, with which attributes, how often and when first.

    `events` is a governed table `with_meta`. An event counts for each recipient once, however often it
    was delivered to it.
    """
    wanted = events.select(
        F.col("_publisher").alias("publisher"),
        F.col("_stream").alias("stream"),
        F.col("_sequence").alias("sequence"),
        F.col("_row").alias("row"),
    )
    is_row = F.col("row").between(F.col("first_row"), F.col("last_row"))
    found = disclosed.join(wanted, ["publisher", "stream", "sequence"]).where(is_row)
    one_event = F.struct("publisher", "stream", "sequence", "row")
    return (
        found.select(
            "recipient", "delivered_at", one_event.alias("event"), F.explode("attributes").alias("a")
        )
        .groupBy("recipient")
        .agg(
            F.count_distinct("event").alias("events"),
            F.array_sort(F.collect_set("a")).alias("attributes"),
            F.min("delivered_at").alias("first_at"),
            F.max("delivered_at").alias("last_at"),
        )
    )


def what_saw(disclosed: DataFrame, recipient: bytes) -> DataFrame:
    """Return how many events a principal received, by type, publisher and attributes."""
    mine = disclosed.where(F.col("recipient") == F.lit(recipient))
    return mine.groupBy("type_id", "publisher", "attributes").agg(
        _rows().alias("deliveries"),
        F.min("delivered_at").alias("first_at"),
        F.max("delivered_at").alias("last_at"),
    )


def by_rule(disclosed: DataFrame) -> DataFrame:
    """Return how much was delivered on which certificates."""
    return (
        disclosed.select(
            "type_id",
            "recipient",
            "delivered_at",
            "first_row",
            "last_row",
            F.explode("certificates").alias("id"),
        )
        .groupBy(F.col("id").alias("certificate"), "type_id")
        .agg(
            _rows().alias("deliveries"),
            F.count_distinct("recipient").alias("recipients"),
            F.max("delivered_at").alias("last_at"),
        )
    )


# ------------------------------------------------------------ what is unusual


def first_sights(disclosed: DataFrame, *, since: object) -> DataFrame:
    """Return recipients that saw an attribute of a type for the first time after a moment."""
    shown = disclosed.select(
        "recipient", "type_id", "delivered_at", F.explode("attributes").alias("attribute")
    )
    first = shown.groupBy("recipient", "type_id", "attribute").agg(F.min("delivered_at").alias("first_at"))
    return first.where(F.col("first_at") >= F.lit(since))


def unusual_volume(disclosed: DataFrame, *, times: float = 4.0, days: int = 7) -> DataFrame:
    """Return days on which a recipient got more than `times` its own average of the days before.

    A recipient is compared with itself, over at least `days` days on which it received something.
    """
    by_day = disclosed.groupBy("recipient", "type_id", F.to_date("delivered_at").alias("day")).agg(
        _rows().alias("deliveries")
    )
    before = (
        Window.partitionBy("recipient", "type_id").orderBy("day").rowsBetween(Window.unboundedPreceding, -1)
    )
    compared = by_day.withColumn("usual", F.avg("deliveries").over(before)).withColumn(
        "days_before", F.count("*").over(before)
    )
    is_unusual = (F.col("days_before") >= days) & (F.col("deliveries") > times * F.col("usual"))
    return compared.where(is_unusual).drop("days_before")


# ------------------------------------------------------------ what a policy has to say about it


def unexplained(disclosed: DataFrame, closure: DataFrame) -> DataFrame:
    """Return deliveries that no right explains that was in force when they were made.

    `closure` is the table of `maia pipeline closure build` over all certificates of the time, revoked
    ones too. A right explains an attribute that it shows to the recipient at that moment; whether
    its restriction admits the event, and whether its condition held, is not on record.
    """
    return _without_right(disclosed, closure, F.col("delivered_at"))


def no_longer_permitted(disclosed: DataFrame, closure: DataFrame, *, at: object) -> DataFrame:
    """Return what was delivered and would not be delivered at a moment, by the rights of a closure."""
    return _without_right(disclosed, closure, F.lit(at))


def _without_right(disclosed: DataFrame, closure: DataFrame, moment: Column) -> DataFrame:
    """Return recipients, types and attributes whose deliveries no row of a closure covers at a moment."""
    shown = disclosed.select(
        "recipient",
        "type_id",
        "delivered_at",
        (F.col("last_row") - F.col("first_row") + 1).alias("rows"),
        F.explode("attributes").alias("attribute"),
        moment.alias("moment"),
    )
    rights = closure.select(
        F.col("principal").alias("recipient"), "type_id", F.col("uid").alias("attribute"), "since", "until"
    ).distinct()
    covers = (
        (shown["recipient"] == rights["recipient"])
        & (shown["type_id"] == rights["type_id"])
        & (shown["attribute"] == rights["attribute"])
        & (rights["since"].isNull() | (rights["since"] <= shown["moment"]))
        & (rights["until"].isNull() | (rights["until"] >= shown["moment"]))
    )
    return (
        shown.join(rights, covers, "left_anti")
        .groupBy("recipient", "type_id", "attribute")
        .agg(
            F.sum("rows").alias("deliveries"),
            F.min("delivered_at").alias("first_at"),
            F.max("delivered_at").alias("last_at"),
        )
    )
