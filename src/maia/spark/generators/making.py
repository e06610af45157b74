"""How do very many made-up events come about, without one process holding them?

`generated` asks Spark's executors to make them, as a data frame.
`generators/files.py` writes the same rows as files, without Java.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from maia.spark.generators.generator import PER_DAY, Generator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BATCH_ROWS", "Order", "generated"]

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
