"""How do a network's events become tables and streams in Spark, under the rights that hold on the wire?

`governed` is left for `maia.pipeline.governed` itself, because importing it
loads PySpark.
"""

from __future__ import annotations

from maia.pipeline.keys import HeldEpoch, KeyDesk, KeyPass, KeySource, RingKeys, SeveralSources
from maia.pipeline.reader import FactPeriod, Reader

__all__ = [
    "FactPeriod",
    "HeldEpoch",
    "KeyDesk",
    "KeyPass",
    "KeySource",
    "Reader",
    "RingKeys",
    "SeveralSources",
]
