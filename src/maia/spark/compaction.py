"""How are very many small segments of a log in a place joined by the executors of a cluster?

    maia.spark.compact_log(spark, "s3://city-logs/north")

Each task reads, verifies and joins one group of segments; then the driver has all of them hold at once, by
one manifest (`log/disk/place_log.py`). Readers see the log before it or after it. `maia log compact` is the
same on one machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from maia.clock import system_now
from maia.log.disk.event_log import LogLimits
from maia.log.disk.place_log import PlaceLog
from maia.log.format.manifest import Segment
from maia.places import place_of
from maia.spark.errors import told_by_spark, told_to_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["compact_log"]


def compact_log(
    spark: SparkSession, place: str | PathLike[str], *, limits: LogLimits | None = None
) -> list[Segment]:
    """Join small segments of one type and day; return those that were made.

    Raises `LOG-PLACE-RACED` if a broker or another job was first; then nothing is changed, and it can be
    called again.
    """
    began, log = system_now(), PlaceLog(place_of(place), limits=limits)
    groups = log.to_join()
    if groups:
        tasks = spark.range(0, len(groups), 1, len(groups))
        task = _Joining(log.place.address, tuple(map(tuple, groups)), log.limits)
        with told_by_spark():
            rows = tasks.mapInArrow(task, "id bigint, made binary").collect()
        made = {row["id"]: msgspec.msgpack.decode(row["made"], type=Segment) for row in rows}
        log.replace([(group, made[at]) for at, group in enumerate(groups)], began=began, now=system_now())
    log.clean(system_now())
    return [made[at] for at in range(len(groups))] if groups else []


@dataclass(frozen=True, slots=True)
class _Joining:
    """Joins the groups whose numbers a task is told. It is pickled into the job."""

    place: str
    groups: tuple[tuple[Segment, ...], ...] = field(repr=False)
    limits: LogLimits

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with told_to_spark():
            log = PlaceLog(place_of(self.place), limits=self.limits)
            for at in (one for batch in batches for one in batch.column("id").to_pylist()):
                made = msgspec.msgpack.encode(log.join(self.groups[at]))
                yield pa.RecordBatch.from_pydict({"id": [at], "made": [made]})
