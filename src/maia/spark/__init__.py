"""How do a network's events become tables and streams in Spark, under the rights that hold on the wire?

`governed` is left for `maia.spark.governed.table` itself, because importing it
loads PySpark.
"""

from __future__ import annotations

from maia.spark.governed.reader import FactPeriod, Reader
from maia.spark.governed.requirements import ReaderIdentity
from maia.spark.keys.content_keys import HeldEpoch, KeyDesk, KeyPass, KeySource, RingKeys, SeveralSources

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
]
