"""How do a network's events become tables and streams in Spark, under the rights that hold on the wire?

    maia.spark.table(spark, "LabResult", profile="dashboard.maia")
    maia.spark.stream(spark, "LabResult", profile="dashboard.maia")

`governed` is left for `maia.spark.governed.table` itself, because importing it
loads PySpark; `table`, `stream`, `close` and `check_endpoint` are loaded when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from maia.spark.governed.reader import FactPeriod, Reader, ReaderIdentity
from maia.spark.keys.content_keys import HeldEpoch, KeyDesk, KeyPass, KeySource, RingKeys, SeveralSources
from maia.spark.session.java_home import check_spark_version

if TYPE_CHECKING:
    from maia.spark.endpoint import check_endpoint
    from maia.spark.tables import close, stream, table

__all__ = [
    "FactPeriod",
    "HeldEpoch",
    "KeyDesk",
    "KeyPass",
    "KeySource",
    "Reader",
    "ReaderIdentity",
    "RingKeys",
    "SeveralSources",
    "check_endpoint",
    "close",
    "stream",
    "table",
]


def __getattr__(name: str) -> object:
    """Return one of the functions that need a Spark session from its home."""
    if name not in {"check_endpoint", "close", "stream", "table"}:
        raise AttributeError(f"module `maia.spark` has no attribute `{name}`")
    check_spark_version(import_module("pyspark").__version__)
    home = "maia.spark.endpoint" if name == "check_endpoint" else "maia.spark.tables"
    return getattr(import_module(home), name)
