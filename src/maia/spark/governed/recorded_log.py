"""Which frames of a log does Spark read, as a table or as a stream, while its files come, are joined, and go?

By positions. A frame has one position in its log for good, whichever file it
lies in, so a checkpoint that holds a position is worth the same after segments
were joined, and nothing is read twice or left out. Spark asks the driver how
far the log goes; tasks read ranges of positions, and look into the manifest
themselves if a file was joined meanwhile. Frames come out as they were
recorded, sealed ones sealed: opening them, and every decision, is the work of
`maia.spark.governed.table`. Neither options nor offsets hold anything secret.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from maia.errors import BadInput, Unavailable
from maia.events import AttributeUid, Instant
from maia.log.format.names import already_joined
from maia.spark.errors import told_to_spark
from maia.spark.governed.log_folder import (
    BYTES_AT_ONCE,
    BadLogPlace,
    LogFolder,
    LogFrames,
    Stretch,
    TypeInLog,
    Wanted,
    columns_to_read,
    cut,
    is_address,
)

FORMAT: Final = "maia-log"
PARTITION_BYTES: Final = 8 << 20
"""About what one task reads. A segment is divided by positions, and small ones are read together."""
_PARTS_MAX: Final = 1024


def register_log_stream(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(LogStreamSource)


class LogStreamSource(DataSource):
    """The frames of one type in a log, as a stream."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads batch after batch."""
        # Options are compared without case, and kept in lower case by some of Spark.
        lower = {name.lower(): value for name, value in self.options.items()}
        known = ("log", "type", "since", "until", "failOnDataLoss", "batchBytes")
        wanted = Wanted.from_options({name: lower[name.lower()] for name in known})
        return LogStreamReader(wanted, tuple(schema.names))


class Ranges(InputPartition):
    """What one task reads."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        """Name the ranges; a task looks for the frames itself."""
        super().__init__(tuple(stretches))


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One running query's way through the log of one type.

    An offset is a position: everything up to it is done. Beside it is up to
    where the log had forgotten frames when the offset was made, because a stream
    that begins late has not lost what was gone before.
    """

    # Any: Spark's offsets are dictionaries of whatever JSON holds.

    def __init__(self, wanted: Wanted, columns: tuple[str, ...]) -> None:
        """Read nothing yet: Spark also makes readers that it only sends to tasks."""
        self._wanted, self._columns = wanted, columns
        self._frames = LogFrames(wanted, columns)
        self._upto: int | None = None

    def __getstate__(self) -> dict[str, object]:
        """Leave open files and what was read of the manifest behind."""
        return {"_wanted": self._wanted, "_columns": self._columns}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Begin anew in another process."""
        wanted, columns = state["_wanted"], state["_columns"]
        assert isinstance(wanted, Wanted)  # noqa: S101 - put there above
        assert isinstance(columns, tuple)  # noqa: S101 - put there above
        self.__init__(wanted, columns)  # type: ignore[misc]  # a reader that arrives is a new reader

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
            position, _ = self._checked(start, found)
            bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
            newest = _reached(found, position, bytes_max)
            newest = newest if self._upto is None else min(newest, self._upto)
            return start if newest <= position else self._offset(newest, found.forgotten)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return ranges for tasks; of a batch that was planned before a restart, the same frames."""
        with told_to_spark():
            found = self._frames.found()
            first, _ = self._checked(start, found)
            last, _ = self._read(end)
            within = [cut(one, first + 1, last) for one in found.between(first + 1, last)]
            return [Ranges(group) for group in _groups(one for one in within if self._frames.may_hold(one))]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: a log does not track its readers."""

    def stop(self) -> None:
        """Do nothing: nothing is held."""

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

    def _checked(self, start: dict[str, Any], found: TypeInLog) -> tuple[int, int]:
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
        return position, forgotten

    # -------------------------------------------------------- in a task

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the frames of some ranges."""
        assert isinstance(partition, Ranges)  # noqa: S101 - no other partitions are made here
        with told_to_spark():
            for one in partition.value:
                yield from self._frames.batches(one)


# ------------------------------------------------------------ ranges for tasks


def _reached(found: TypeInLog, position: int, bytes_max: int | None) -> int:
    """Return how far so many bytes of segments behind a position go, and one segment at least."""
    taken = 0
    for one in found.between(position + 1, found.newest):
        taken += one.size
        if bytes_max is not None and taken >= bytes_max:
            return one.last
    return found.newest


def _groups(stretches: Iterator[Stretch]) -> list[list[Stretch]]:
    """Return stretches as they are read together, each group about as large as a task is to be."""
    groups: list[list[Stretch]] = []
    held = PARTITION_BYTES
    for one in (part for stretch in stretches for part in _divided(stretch)):
        if held + one.size > PARTITION_BYTES:
            groups.append([])
            held = 0
        groups[-1].append(one)
        held += one.size
    return groups


def _divided(one: Stretch) -> Iterator[Stretch]:
    """Yield a large stretch as several of equally many positions."""
    count = one.last - one.first + 1
    parts = min(count, _PARTS_MAX, max(1, one.size // PARTITION_BYTES))
    bounds = [one.first + count * number // parts for number in range(parts + 1)]
    for first, after in pairwise(bounds):
        yield replace(one, first=first, last=after - 1, size=one.size // parts)


# Which frames of a log does Spark read, as a table or as a stream?
#
# `governed` asks, and opens them. Frames are read once for all periods of a
# table, so a reader whose certificates were renewed goes on from its checkpoint.


_MOMENT = "published_at"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The frames of one type in a log; segments with none from `since` to `until` may be left out."""

    spark: SparkSession
    log: str
    type_id: bytes
    since: Instant
    until: Instant

    def stream(
        self, uids: Sequence[AttributeUid], *, fails_on_loss: bool, batch_bytes: int = BYTES_AT_ONCE
    ) -> DataFrame:
        """Return frames as they are recorded, each once; nothing where nothing was recorded yet."""
        since, until = int(self.since), int(self.until)
        wanted = Wanted(self._place, self.type_id, since, until, fails_on_loss, batch_bytes)
        register_log_stream(self.spark)
        stream = self.spark.readStream.format(FORMAT).schema(_schema(uids))
        return stream.options(**wanted.as_options()).load()

    def table(self, uids: Sequence[AttributeUid], files: tuple[str, ...] | None) -> DataFrame:
        """Return the frames that are in these files, or in all that the log has now."""
        schema = _schema(uids)
        chosen = self._files() if files is None else files
        if chosen is None:
            return self._in_folder(schema)
        # Named by the manifest: nothing there was joined to anything else.
        return self.spark.read.schema(schema).parquet(*chosen) if chosen else self._nothing(schema)

    @property
    def _place(self) -> str:
        """Return where the log is for processes that run elsewhere on this machine, or on others."""
        return self.log if is_address(self.log) else str(Path(self.log).absolute())

    def _files(self) -> tuple[str, ...] | None:
        """Return the files that the log has now; None if only Spark has a way to them."""
        try:
            found = LogFolder(self._place).of_type(self.type_id)
        except BadLogPlace:
            return None
        place = self._place.rstrip("/")
        return tuple(
            f"{place}/{one.path}"
            for one in found.stretches
            if one.published_until >= self.since and one.published_from <= self.until
        )

    def _in_folder(self, schema: t.StructType) -> DataFrame:
        folder = f"{self._place.rstrip('/')}/type={self.type_id.hex()}"
        try:
            table = self.spark.read.schema(schema).option("pathGlobFilter", "*.parquet").parquet(folder)
        except AnalysisException as problem:
            if problem.getCondition() != "PATH_NOT_FOUND":
                raise
            return self._nothing(schema)
        # Segments that were joined to a larger one lie beside it for a while.
        joined = already_joined(table.inputFiles())
        return table.where(~F.col("_metadata.file_name").isin(*joined)) if joined else table

    def _nothing(self, schema: t.StructType) -> DataFrame:
        return self.spark.createDataFrame([], schema)


def between(frames: DataFrame, since: Instant, until: Instant, uids: Collection[AttributeUid]) -> DataFrame:
    """Return frames published in a period, with what is needed of them."""
    at = F.col(_MOMENT)
    chosen = frames.where((at >= _moment(since)) & (at <= _moment(until)))
    return chosen.select(*columns_to_read(uids))


def _schema(uids: Sequence[AttributeUid]) -> t.StructType:
    fields = [t.StructField(name, t.BinaryType()) for name in columns_to_read(uids)]
    return t.StructType([t.StructField(_MOMENT, t.TimestampType()), *fields])


def _moment(moment: Instant) -> Column:
    return F.timestamp_micros(F.lit(int(moment)).cast(t.LongType()))
