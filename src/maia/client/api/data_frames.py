"""How does an application get events as tables of Arrow, pandas or polars?

Each of the three is in an extra of the distribution, because a client needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maia.errors import ExtraMissing

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["brought", "to_pandas", "to_polars"]


# Any: a module that may not be there.
def brought(module: str, *, extra: str) -> Any:
    """Return a module that an extra brings; say which one if it is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name != module.partition(".")[0]:
            raise
        raise ExtraMissing(f"this needs {module}: pip install 'maia-pubsub[{extra}]'") from problem


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return a table as pandas has it; whole numbers and booleans stay so where some are missing."""
    arrow, pandas = brought("pyarrow", extra="arrow"), brought("pandas", extra="pandas")
    kept = {arrow.int64(): pandas.Int64Dtype(), arrow.bool_(): pandas.BooleanDtype()}
    found: pd.DataFrame = table.to_pandas(types_mapper=kept.get)
    return found


def to_polars(table: pa.Table) -> pl.DataFrame:
    """Return a table as polars has it."""
    found: pl.DataFrame = brought("polars", extra="polars").from_arrow(table)
    return found
