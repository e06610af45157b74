"""How far does a stream over a log go, while the log's files come, are joined, and go?

By positions. A frame has one position in its log for good, whichever file it
lies in, so a checkpoint that holds a position is worth the same after segments
were joined, and nothing is read twice or left out. Spark asks the driver how
far the log goes, and which ranges of positions tasks read. A task opens them as those of a table, and
hands on what the reader's View shows, so that Spark counts the rows of its query. Neither options nor
offsets hold anything secret. A stream that wants all or nothing stays where it is while the log is known to
lack something.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from maia.errors import BadInput, Unavailable
from maia.spark.errors import told_to_spark
from maia.spark.governed.asked_columns import work_of_task
from maia.spark.governed.log_folder import LogFrames, TypeInLog, missing_of
from maia.spark.governed.reading_ledger import ReadingLedger, SeenRows, chain_reads

_FORMAT: Final = "maia-log"


class LogStreamSource(DataSource):
    """What a reader sees of one type in a log, as a stream. `recorded_stream` makes one for each stream."""

    called: ClassVar[str] = _FORMAT
    shown: ClassVar[SeenRows | None] = None
    ledger: ClassVar[ReadingLedger | None] = None

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return cls.called

    def schema(self) -> StructType:
        """Return the columns that the reader is shown."""
        assert self.shown is not None  # noqa: S101 - no other class is registered
        return from_arrow_schema(self.shown.schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads batch after batch."""
        assert self.shown is not None  # noqa: S101 - no other class is registered
        return LogStreamReader(self.shown, self.ledger)


def recorded_stream(spark: SparkSession, shown: SeenRows, ledger: ReadingLedger | None) -> DataFrame:
    """Return what a reader sees of a type, as a stream of Spark.

    What decides is part of a class that no module has: Spark keeps it apart, and shows options in plans.
    """
    called = f"{_FORMAT}-{uuid4().hex}"
    about = {"called": called, "shown": shown, "ledger": ledger}
    ours = type(LogStreamSource.__name__, (LogStreamSource,), about)
    spark.dataSource.register(ours)
    return spark.readStream.format(called).load()


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One running query's way through the log of one type.

    An offset is a position: everything up to it is done. Beside it is up to
    where the log had forgotten frames when the offset was made, because a stream
    that begins late has not lost what was gone before. Of several logs, each has a position of its own.
    """

    # Any: Spark's offsets are dictionaries of whatever JSON holds.

    def __init__(self, shown: SeenRows, ledger: ReadingLedger | None = None) -> None:
        """Read nothing yet: Spark also makes readers that it only sends to tasks."""
        self._shown, self._ledger = shown, ledger
        self._wanted = shown.opener.wanted
        self._frames = LogFrames(self._wanted)
        self._upto: list[int] | None = None

    def __reduce__(self) -> tuple[type[LogStreamReader], tuple[SeenRows, ReadingLedger | None]]:
        """Leave open files and what was read of the manifest behind: a reader that arrives is a new one."""
        return LogStreamReader, (self._shown, self._ledger)

    # -------------------------------------------------------- on the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Begin with the oldest frame that the log still has."""
        with told_to_spark():
            return self._offset([(0, one.forgotten) for one in self._frames.found()])

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how much a batch reads."""
        return ReadMaxBytes(self._wanted.batch_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take note of what there is now: the run ends there."""
        with told_to_spark():
            found = self._frames.found()
            if missing := self._waits_for(found):
                raise Unavailable(
                    "UNAVAILABLE-LOG-INCOMPLETE",
                    f"the log is known to lack {missing} publications of this type, and a stream that ends "
                    "by itself cannot wait for them; its broker asks others for them",
                )
            self._upto = [one.newest for one in found]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return how far the log goes; raise if it has forgotten what the stream has not read."""
        with told_to_spark():
            found = self._frames.found()
            begins = self._checked(start, found)
            if self._waits_for(found):
                return start
            bytes_max = limit.max_bytes // len(found) if isinstance(limit, ReadMaxBytes) else None
            ends = [_reached(*each, bytes_max) for each in zip(found, begins, strict=True)]
            ends = [min(each) for each in zip(ends, self._upto or ends, strict=True)]
            if all(end <= begin for begin, end in zip(begins, ends, strict=True)):
                return start
            points = zip(begins, ends, found, strict=True)
            return self._offset([(max(begin, end), one.forgotten) for begin, end, one in points])

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return how far the log is, for Spark's reports; and whether the stream waits for what it lacks."""
        with told_to_spark():
            found = self._frames.found()
            offset = self._offset([(one.newest, one.forgotten) for one in found])
            missing, is_held = missing_of(found), bool(self._waits_for(found))
            return {**offset, "log": list(self._wanted.logs), "missing": missing, "held": is_held}

    def _waits_for(self, found: Sequence[TypeInLog]) -> int:
        """Return how many publications the stream waits for; 0 if it may go on."""
        return missing_of(found) if self._wanted.require_complete else 0

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return ranges for tasks; of a batch that was planned before a restart, the same frames."""
        with told_to_spark():
            begins = self._checked(start, self._frames.found())
            bounds = [(begin + 1, last) for begin, (last, _) in zip(begins, self._read(end), strict=True)]
            return list(map(InputPartition, self._frames.ranges(*bounds)))

    def commit(self, end: dict[str, Any]) -> None:
        """Chain what the tasks of a batch that is done have put on record."""
        if self._ledger is not None:
            with told_to_spark():
                chain_reads(self._ledger.folder)

    def _offset(self, points: Sequence[tuple[int, int]]) -> dict[str, Any]:
        kind = {"type": self._wanted.type_id.hex()}
        if len(points) == 1:
            return {**kind, "position": points[0][0], "forgotten": points[0][1]}
        return {**kind, "logs": {log: list(one) for log, one in zip(self._wanted.logs, points, strict=True)}}

    def _read(self, offset: dict[str, Any]) -> list[tuple[int, int]]:
        """Return position and what was forgotten, of each log; a log that was added later begins anew."""
        logs = self._wanted.logs
        match offset:
            case {"type": kind, "position": position, "forgotten": forgotten} if len(logs) == 1:
                found = [(position, forgotten)]
            case {"type": kind, "logs": dict(by_log)} if len(logs) > 1:
                found = [tuple(by_log.get(log, (0, 0))) for log in logs]
            case _:
                kind, found = None, []
        numbers = [number for point in found for number in point]
        is_good = len(numbers) == 2 * len(logs) and all(type(one) is int and one >= 0 for one in numbers)
        if kind == self._wanted.type_id.hex() and is_good:
            return found
        raise BadInput(
            "PIPELINE-CHECKPOINT", "the checkpoint was not written by a stream of this type; begin a new one"
        )

    def _checked(self, start: dict[str, Any], found: Sequence[TypeInLog]) -> list[int]:
        """Return where a batch begins in each log, if everything behind it is still there."""
        points = self._read(start)
        for (position, forgotten), log in zip(points, found, strict=True):
            if position > max(log.newest, log.forgotten):
                raise BadInput(
                    "PIPELINE-CHECKPOINT",
                    f"the checkpoint is at position {position}, and the log ends before: it is another log",
                )
            if log.forgotten > max(position, forgotten) and self._wanted.fails_on_loss:
                raise Unavailable(
                    "PIPELINE-FRAMES-FORGOTTEN",
                    f"the log has forgotten frames up to position {log.forgotten}, and this stream has read "
                    f"up to {position}; keep frames for longer, or let streams go on with "
                    "`fails_on_loss=False`",
                )
        return [position for position, _ in points]

    # -------------------------------------------------------- in a task

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what the reader sees of the ranges of a task."""
        with told_to_spark():
            seen = self._shown.of(self._shown.opener.opened(partition.value))
            if self._ledger is None:
                yield from (one.shown for one in seen)
            else:
                yield from self._ledger.shown(seen, work_of_task(self._ledger.table))


def _reached(found: TypeInLog, position: int, bytes_max: int | None) -> int:
    """Return how far so many bytes of segments behind a position go, and one segment at least."""
    taken = 0
    for one in found.between(position + 1, found.newest):
        taken += one.size
        if bytes_max is not None and taken >= bytes_max:
            return one.last
    return found.newest
