"""How do a network's events become tables and streams in Spark, under the rights that hold on the wire?

    log = maia.spark.open_log("/var/lib/maia/log", as_="dashboard.maia")
    log.table("LabResult").to_spark(spark)
    log.stream("LabResult", spark=spark)

`governed` is left for `maia.spark.governed.table` itself, because importing it
loads PySpark; `check_endpoint` and `compact_log` are loaded when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from maia.spark.governed.reader import FactPeriod, Reader, ReaderIdentity
from maia.spark.keys.content_keys import HeldEpoch, KeySource, RingKeys, SeveralSources
from maia.spark.open_log import LogReader, RecordedLog, RecordedTable, open_log

if TYPE_CHECKING:
    from maia.spark.compaction import compact_log
    from maia.spark.endpoint import check_endpoint

__all__ = [
    "FactPeriod",
    "HeldEpoch",
    "KeySource",
    "LogReader",
    "Reader",
    "ReaderIdentity",
    "RecordedLog",
    "RecordedTable",
    "RingKeys",
    "SeveralSources",
    "check_endpoint",
    "compact_log",
    "open_log",
]


def __getattr__(name: str) -> object:
    """Return the function that needs a Spark session from its home."""
    home = {"check_endpoint": "endpoint", "compact_log": "compaction"}.get(name)
    if home is None:
        raise AttributeError(f"module `maia.spark` has no attribute `{name}`")
    return getattr(import_module(f"maia.spark.{home}"), name)
