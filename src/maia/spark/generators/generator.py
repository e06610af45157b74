"""What is a generator of events, and what does it promise?

Row `i` of a seed is the same row on every machine: however many rows are
asked for, in however many parts, on whatever machine. Rows come in the order
of arrival; their own times may lag behind, and some arrive twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from maia.errors import BadInput
from maia.events import INT_MAX, INT_MIN, Instant, Kind
from maia.views import ARROW_TYPES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# ------------------------------------------------------------ chance, by row and seed


Bits: TypeAlias = npt.NDArray[np.uint64]
Numbers: TypeAlias = npt.NDArray[np.int64]
Reals: TypeAlias = npt.NDArray[np.float64]

START: Final = Instant.parse("2026-11-02T00:00:00Z")
DAY_US: Final = 86_400_000_000
_HOUR_US: Final = 3_600_000_000
_PLACES: Final = 1 << 28
"""How many places a day has for arrivals; times the microseconds of an hour they still fit into 64 bits."""

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MIXING: Final = ((0xBF58476D1CE4E5B9, 30), (0x94D049BB133111EB, 27), (0xD6E8FEB86659FD93, 32))


def chance(of: Bits | Numbers, *, seed: int, purpose: int) -> Bits:
    """Return 64 bits for each number, as splitmix64 mixes them; each purpose has bits of its own."""
    start = int(_mixed(np.array([(3 * seed + 1) % (1 << 64)], np.uint64))[0])
    return _mixed(of.astype(np.uint64) + np.uint64((start + _GOLDEN * purpose) % (1 << 64)))


def _mixed(bits: Bits) -> Bits:
    for factor, shift in _MIXING:
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def cut(bits: Bits, start: int, width: int) -> Numbers:
    """Return `width` bits from `start` on, as a number."""
    return ((bits >> np.uint64(start)) & np.uint64((1 << width) - 1)).astype(np.int64)


def uniform(bits: Bits) -> Reals:
    """Return a real number from 0 to 1, the 1 excluded."""
    return cut(bits, 11, 53).astype(np.float64) * 2.0**-53


def bell(bits: Bits) -> Reals:
    """Return a real number around 0 with variance 1: a sum of four chances is bell enough."""
    total = cut(bits, 0, 16) + cut(bits, 16, 16) + cut(bits, 32, 16) + cut(bits, 48, 16)
    return (total.astype(np.float64) / 65_536.0 - 2.0) * 1.7320508075688772


def shares_of(weights: Sequence[int]) -> Numbers:
    """Return where each weight's share ends, on a scale of 2**32. `np.searchsorted` picks by it."""
    total, so_far, ends = sum(weights), 0, []
    for weight in weights:
        so_far += weight
        ends.append((so_far << 32) // total)
    return np.array(ends, np.int64)


# Any: pyarrow is not typed.
def named(places: Numbers, names: Sequence[str]) -> Any:
    return pa.DictionaryArray.from_arrays(
        pa.array(places.astype(np.int32)), pa.array(names)
    ).dictionary_decode()


def moments(since: Numbers) -> Any:
    """Return moments, by their microseconds since the start of the first day."""
    return pa.array(int(START) + since).cast(ARROW_TYPES[Kind.TIMESTAMP])


@dataclass(frozen=True)
class Rhythm:
    """How busy each hour of a day is. Arrivals that are numbered through a day follow it."""

    hours: tuple[int, ...]

    @cached_property
    def _begins(self) -> Numbers:
        ends = [sum(self.hours[: hour + 1]) * _PLACES // sum(self.hours) for hour in range(24)]
        return np.array([0, *ends], np.int64)

    def moments(self, numbers: Numbers, *, per_day: int) -> Numbers:
        """Return microseconds since the first day began, for arrivals of which each day has `per_day`."""
        place = (numbers % per_day) * _PLACES // per_day
        hour = np.searchsorted(self._begins, place, side="right") - 1
        begins = self._begins[hour]
        within = (place - begins) * _HOUR_US // (self._begins[hour + 1] - begins)
        return numbers // per_day * DAY_US + hour * _HOUR_US + within


ROWS_MAX: Final = 10_000_000_000
PER_DAY: Final = 500_000
"""How many rows a day has by default: ten million are twenty days."""

_PER_DAY_MAX: Final = 1 << 34


@dataclass(frozen=True, slots=True)
class Generator:
    """A named source of made-up events of one type, and their columns by attribute name."""

    name: str
    about: str
    columns: tuple[tuple[str, Kind], ...]
    # Any: pyarrow is not typed.
    make: Callable[[Numbers, int, int], tuple[Any, ...]]
    """Takes row numbers, the seed, and how many rows a day has; returns one array for each column."""

    @property
    def schema(self) -> Any:
        # Any: pyarrow is not typed.
        return pa.schema([pa.field(name, ARROW_TYPES[kind]) for name, kind in self.columns])

    def rows(self, *, start: int = 0, rows: int, seed: int, per_day: int = PER_DAY) -> pa.RecordBatch:
        """Return `rows` rows from row `start` on."""
        if start < 0 or rows < 0 or start + rows > ROWS_MAX:
            raise BadInput("INPUT-GENERATION", f"rows are numbered from 0 to {ROWS_MAX:,}")
        if not INT_MIN <= seed <= INT_MAX or not 1 <= per_day <= _PER_DAY_MAX:
            raise BadInput("INPUT-GENERATION", "a seed fits into 64 bits, and a day has 1 to 2^34 rows")
        numbers = np.arange(start, start + rows, dtype=np.int64)
        return pa.RecordBatch.from_arrays(list(self.make(numbers, seed, per_day)), schema=self.schema)


# ------------------------------------------------------------ very many events, made by executors


BATCH_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Order:
    """How many rows are wanted, of which seed, and how many of them make a day."""

    rows: int
    seed: int
    per_day: int = PER_DAY

    def part(self, generator: Generator, start: int, most: int) -> pa.RecordBatch:
        """Return the ordered rows from `start` on, at most so many."""
        rows = min(most, self.rows - start)
        return generator.rows(start=start, rows=rows, seed=self.seed, per_day=self.per_day)


def generated(
    spark: SparkSession, generator: Generator, order: Order, *, partitions: int | None = None
) -> DataFrame:
    """Return the rows as a data frame, made by the executors when they are needed."""
    from maia.views import spark_type

    order.part(generator, order.rows, 0)  # refuses here what executors would refuse

    def made(batches: Iterator[Any]) -> Iterator[Any]:
        # Any: pyarrow is not typed.
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield order.part(generator, number * BATCH_ROWS, BATCH_ROWS)

    parts = -(-order.rows // BATCH_ROWS)
    schema = ", ".join(f"`{name}` {spark_type(kind).simpleString()}" for name, kind in generator.columns)
    return spark.range(0, parts, 1, partitions).mapInArrow(made, schema)
