"""What is a generator of events, and what does it promise?

Row `i` of a seed is the same row on every machine: however many rows are
asked for, in however many parts, on whatever machine. Rows come in the order
of arrival; their own times may lag behind, and some arrive twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from maia.errors import BadInput
from maia.events import INT_MAX, INT_MIN, Kind
from maia.spark.generators.chance import Numbers
from maia.views import ARROW_TYPES

__all__ = ["PER_DAY", "ROWS_MAX", "BadGeneration", "Generator"]

ROWS_MAX: Final = 10_000_000_000
PER_DAY: Final = 500_000
"""How many rows a day has by default: ten million are twenty days."""

_PER_DAY_MAX: Final = 1 << 34


class BadGeneration(BadInput):
    """Events were asked for that cannot be made."""

    code = "INPUT-GENERATION"


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
        """Return the Arrow schema of its batches."""
        # Any: pyarrow is not typed.
        return pa.schema([pa.field(name, ARROW_TYPES[kind]) for name, kind in self.columns])

    def rows(self, *, start: int = 0, rows: int, seed: int, per_day: int = PER_DAY) -> pa.RecordBatch:
        """Return `rows` rows from row `start` on."""
        if start < 0 or rows < 0 or start + rows > ROWS_MAX:
            raise BadGeneration(f"rows are numbered from 0 to {ROWS_MAX:,}")
        if not INT_MIN <= seed <= INT_MAX or not 1 <= per_day <= _PER_DAY_MAX:
            raise BadGeneration("a seed fits into 64 bits, and a day has 1 to 2^34 rows")
        numbers = np.arange(start, start + rows, dtype=np.int64)
        return pa.RecordBatch.from_arrays(list(self.make(numbers, seed, per_day)), schema=self.schema)
