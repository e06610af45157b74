"""What does a stock exchange report, at any size?

The StockTicker event of the dissertation (table 1.1), with the flow that a
brokerage pays for: shares, commodities or derivatives. Few instruments have
most of the trades, as Zipf found of words. Prices walk at random: each is
Lévy's construction of Brownian motion, which can be asked for any moment
without walking there.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from maia.events import Kind
from maia.spark.generators.generator import (
    DAY_US,
    Bits,
    Generator,
    Numbers,
    Reals,
    Rhythm,
    bell,
    chance,
    cut,
    moments,
    named,
    shares_of,
)

FLOWS: Final = ("shares", "commodities", "derivatives")
BROKERAGES: Final = ("Ashdown", "Brook", "Calder", "Dunmore", "Elm Street", "Fenwick", "Garrick", "Holt")

_MARKET: Final = Rhythm((0,) * 8 + (34, 22, 16, 14, 13, 15, 22, 28, 36) + (0,) * 7)
_COUNT: Final = 500
_HORIZON_DAYS: Final = 4096
_LEVELS: Final = 20
"""Each level halves the span of time: 4096 days halved twenty times are six minutes."""
_LETTERS: Final = "ABCDEFGHKLMNPQRSTUVWXYZ"


def _code(number: int) -> str:
    # The factor has no divisor in common with 23 to the third, so no code is given twice.
    spread = (number + 1) * 7919 % len(_LETTERS) ** 3
    return "".join(_LETTERS[spread // len(_LETTERS) ** place % len(_LETTERS)] for place in range(3))


STOCKS: Final = tuple(_code(number) for number in range(_COUNT))
_PICKED: Final = shares_of([(1 << 20) // (rank + 1) for rank in range(_COUNT)])
# Of five instruments three are shares, one a commodity, one a derivative.
_FLOW_OF: Final = np.array([(0, 1, 0, 2, 0)[number % 5] for number in range(_COUNT)], np.int64)


def _made(numbers: Numbers, seed: int, per_day: int) -> tuple[Any, ...]:
    # Any: pyarrow is not typed.
    bits, what = chance(numbers, seed=seed, purpose=1), chance(numbers, seed=seed, purpose=2)
    stock = np.searchsorted(_PICKED, cut(what, 0, 32), side="right")
    since = _since_start(numbers, bits, per_day)
    size = (cut(bits, 20, 8) * cut(bits, 28, 8) * cut(bits, 36, 8)) >> 17
    return (
        moments(since),
        named(_FLOW_OF[stock], FLOWS),
        named(stock, STOCKS),
        pa.array(10 * (1 + size)),
        pa.array(_price(stock, since, what, seed)),
        named(cut(what, 32, 3), BROKERAGES),
        named(cut(what, 35, 3), BROKERAGES),
    )


def _since_start(numbers: Numbers, bits: Bits, per_day: int) -> Numbers:
    """Return microseconds since the start: no trade at weekends, one in 256 some seconds late."""
    day, number = numbers // per_day, numbers % per_day
    moment = _MARKET.moments(number, per_day=per_day) + cut(bits, 0, 20)
    late = np.where(cut(bits, 44, 8) == 0, cut(bits, 44, 20) * 40, 0)
    return (day // 5 * 7 + day % 5) * DAY_US + moment - late


def _price(stock: Numbers, since: Numbers, what: Bits, seed: int) -> Reals:
    """Return prices in whole cents: a base, a walk, and the small change of one trade."""
    first = chance(stock, seed=seed, purpose=3)
    base = 500.0 + cut(first, 0, 14).astype(np.float64)
    walked = np.maximum(_walk(stock, since, seed) * 1.6 + 1.0, 0.05)
    cents = base * walked * (1.0 + (cut(what, 38, 6) - 32) * 0.00002)
    return np.floor(cents + 0.5) / 100.0


def _walk(stock: Numbers, since: Numbers, seed: int) -> Reals:
    """Return Brownian motion on [0, 1] at the given moments, one path for each stock.

    Every level adds a tent over each of its spans, half as wide as the level
    before and lower by the root of two; the tent's height is a chance of its own.
    """
    span = np.int64(_HORIZON_DAYS * DAY_US)
    time = since % span
    value = bell(chance(stock, seed=seed, purpose=4)) * (time / span)
    for level in range(_LEVELS):
        number, within = time // span, (time % span) / span
        height = bell(chance((stock << 32) + (np.int64(1) << level) + number, seed=seed, purpose=5))
        tent = np.minimum(within, 1.0 - within) * 2.0
        value += height * tent * _HEIGHTS[level]
        span = span // 2
    return np.asarray(value, np.float64)


_HEIGHTS: Final = tuple(0.5 * 0.7071067811865476**level for level in range(_LEVELS))


TRADES: Final = Generator(
    name="trades",
    about="trades of a stock exchange: instruments as Zipf would have them, prices that walk at random",
    columns=(
        ("time", Kind.TIMESTAMP),
        ("flow", Kind.STRING),
        ("stock", Kind.STRING),
        ("shares", Kind.INT),
        ("price", Kind.FLOAT),
        ("seller", Kind.STRING),
        ("buyer", Kind.STRING),
    ),
    make=_made,
)
