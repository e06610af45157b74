"""How far does a stream over a log go, while the log's files come, are joined, and go?

By positions. A frame has one position in its log for good, whichever file it
lies in, so a checkpoint that holds a position is worth the same after segments
were joined, and nothing is read twice or left out. Spark asks the driver how
far the log goes, and gets ranges of positions as rows, which tasks read and open
(`opener.py`) as those of a table. Neither options nor offsets hold anything secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from maia.errors import BadInput, Unavailable
from maia.spark.errors import told_to_spark
from maia.spark.governed.log_folder import FramesWanted, LogFrames, TypeInLog

FORMAT: Final = "maia-log"
OPTION: Final = "wanted"
RANGES: Final = (
    "day string, first bigint, last bigint, path string, size bigint, "
    "published_from bigint, published_until bigint"
)
"""What a row of the source is: a `Stretch`."""


class LogStreamSource(DataSource):
    """Where the frames of one type lie in a log, as a stream of ranges."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of a range."""
        return RANGES

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads batch after batch."""
        return LogStreamReader(FramesWanted.from_option(self.options[OPTION]))


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One running query's way through the log of one type.

    An offset is a position: everything up to it is done. Beside it is up to
    where the log had forgotten frames when the offset was made, because a stream
    that begins late has not lost what was gone before.
    """

    # Any: Spark's offsets are dictionaries of whatever JSON holds.

    def __init__(self, wanted: FramesWanted) -> None:
        """Read nothing yet: Spark also makes readers that it only sends to tasks."""
        self._wanted, self._frames = wanted, LogFrames(wanted)
        self._upto: int | None = None

    def __reduce__(self) -> tuple[type[LogStreamReader], tuple[FramesWanted]]:
        """Leave open files and what was read of the manifest behind: a reader that arrives is a new one."""
        return LogStreamReader, (self._wanted,)

    # -------------------------------------------------------- on the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Begin with the oldest frame that the log still has."""
        with told_to_spark():
            return self._offset(0, self._frames.found().forgotten)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how much a batch reads."""
        return ReadMaxBytes(self._wanted.batch_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take note of what there is now: the run ends there."""
        with told_to_spark():
            self._upto = self._frames.found().newest

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return how far the log goes; raise if it has forgotten what the stream has not read."""
        with told_to_spark():
            found = self._frames.found()
            position = self._checked(start, found)
            bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
            newest = _reached(found, position, bytes_max)
            newest = newest if self._upto is None else min(newest, self._upto)
            return start if newest <= position else self._offset(newest, found.forgotten)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return ranges for tasks; of a batch that was planned before a restart, the same frames."""
        with told_to_spark():
            first = self._checked(start, self._frames.found()) + 1
            last, _ = self._read(end)
            return list(map(InputPartition, self._frames.ranges(first, last)))

    def _offset(self, position: int, forgotten: int) -> dict[str, Any]:
        return {"type": self._wanted.type_id.hex(), "position": position, "forgotten": forgotten}

    def _read(self, offset: dict[str, Any]) -> tuple[int, int]:
        match offset:
            case {"type": str(kind), "position": int(position), "forgotten": int(forgotten)} if (
                kind == self._wanted.type_id.hex() and position >= 0 and forgotten >= 0
            ):
                return position, forgotten
        raise BadInput(
            "PIPELINE-CHECKPOINT", "the checkpoint was not written by a stream of this type; begin a new one"
        )

    def _checked(self, start: dict[str, Any], found: TypeInLog) -> int:
        """Return where a batch begins, if everything behind it is still there."""
        position, forgotten = self._read(start)
        if position > max(found.newest, found.forgotten):
            raise BadInput(
                "PIPELINE-CHECKPOINT",
                f"the checkpoint is at position {position}, and the log ends before: it is another log",
            )
        if found.forgotten > max(position, forgotten) and self._wanted.fails_on_loss:
            raise Unavailable(
                "PIPELINE-FRAMES-FORGOTTEN",
                f"the log has forgotten frames up to position {found.forgotten}, and this stream has read "
                f"up to {position}; keep frames for longer, or let streams go on with `fails_on_loss=False`",
            )
        return position

    # -------------------------------------------------------- in a task

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the ranges of a task as rows; what opens them reads them."""
        yield pa.RecordBatch.from_pylist(list(map(asdict, partition.value)))


def _reached(found: TypeInLog, position: int, bytes_max: int | None) -> int:
    """Return how far so many bytes of segments behind a position go, and one segment at least."""
    taken = 0
    for one in found.between(position + 1, found.newest):
        taken += one.size
        if bytes_max is not None and taken >= bytes_max:
            return one.last
    return found.newest
