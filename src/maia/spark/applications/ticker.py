"""What was each instrument worth, minute by minute, in the flows that a brokerage pays for?

A brokerage asks (dissertation, section 1.2.1). The exchange sells its flows
one by one: shares, commodities, derivatives. What a firm does not pay for is
not in its frame; of what is, it may pick flows. The price of a minute is
weighted by volume, and computed with exact decimals, so that it does not
depend on the order in which trades come.
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


_CENTS: Final = "decimal(18,4)"


@dataclass(frozen=True, slots=True)
class TickerTerms:
    """Which flows are wanted (none named: all that there are), and how late a trade may be."""

    flows: tuple[str, ...] = ()
    late_minutes: int = 10

    def __post_init__(self) -> None:
        """Refuse a negative delay."""
        if self.late_minutes < 0:
            raise BadInput("INPUT-PIPELINE-TERM", "a delay is not negative")


def prices_per_minute(trades: DataFrame, terms: TickerTerms) -> DataFrame:
    """Return volume, volume-weighted price, lowest and highest of each instrument and minute."""
    wanted = trades.where(F.col("shares") > 0).dropna(subset=["time", "flow", "stock", "price"])
    if terms.flows:
        wanted = wanted.where(F.col("flow").isin(list(terms.flows)))
    turnover = F.col("price").cast(_CENTS) * F.col("shares")
    minutes = (
        wanted.withWatermark("time", f"{terms.late_minutes} minutes")
        .groupBy("flow", "stock", F.window("time", "1 minute").alias("window"))
        .agg(
            F.count("*").alias("trades"),
            F.sum("shares").alias("shares"),
            F.sum(turnover).alias("turnover"),
            F.min("price").alias("lowest"),
            F.max("price").alias("highest"),
        )
    )
    price = F.round(F.col("turnover").cast("double") / F.col("shares"), 4)
    starts_at = F.col("window.start").alias("starts_at")
    return minutes.select(
        "flow", "stock", starts_at, "trades", "shares", price.alias("price"), "lowest", "highest"
    )


def _totals() -> dict[str, Column]:
    return {
        "instruments": F.count_distinct("stock"),
        "minutes": F.count("*"),
        "trades": F.coalesce(F.sum("trades"), F.lit(0)),
        "shares": F.coalesce(F.sum("shares"), F.lit(0)),
    }


TICKER: Final = Application(
    name="ticker",
    about="volume-weighted price per instrument and minute, of the flows that a brokerage pays for",
    reads={
        "time": Kind.TIMESTAMP,
        "flow": Kind.STRING,
        "stock": Kind.STRING,
        "shares": Kind.INT,
        "price": Kind.FLOAT,
    },
    never_reads=frozenset({"seller", "buyer"}),
    keys=("flow", "stock", "starts_at"),
    terms=TickerTerms(),
    compute=prices_per_minute,
    totals=_totals,
    generator="trades",
)
