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

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from maia.errors import BadInput, MaiaError
from maia.events import INSTANT_MAX, INSTANT_MIN, AttributeUid, Instant
from maia.log.format.errors import LogDamaged
from maia.log.format.journal import TailKind
from maia.log.format.manifest import Manifest, Segment, read_manifest
from maia.log.format.names import SegmentName, already_joined, manifest_number, segment_name
from maia.log.format.segments import SEALED_COLUMN, column_name
from maia.spark.errors import told_to_spark
from maia.spark.governed.frame_reader import HEADER
from maia.spark.governed.reader import FramesForgotten, NotThisStream

# Where in a log's folder are the frames of a type, by position, at this moment?
#
# The driver of a governed table or stream asks, and each of its tasks where a
# file that the driver has seen is gone. The answer is the manifest's: segments
# are joined and forgotten while jobs run, but a frame keeps its position. A
# folder without a manifest, such as a copy of some segments, is listed; names
# tell positions, too. Nothing is locked or changed.


_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
_LOOKS_MAX: Final = 5
"""A manifest that is written anew while we look for it is looked for again."""


class BadLogPlace(BadInput):
    """A log lies where this process has no way to read files."""

    code = "PIPELINE-LOG-PLACE"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Frames of one type and day from position `first` to `last`, both included, and the file with them."""

    day: str
    first: int
    last: int
    path: str
    size: int
    published_from: int = INSTANT_MIN
    published_until: int = INSTANT_MAX


@dataclass(frozen=True, slots=True)
class TypeInLog:
    """What a log holds of one type: stretches by position, and up to where it has forgotten."""

    stretches: tuple[Stretch, ...]
    forgotten: int

    @property
    def newest(self) -> int:
        """Return the highest position there is; 0 if there is none."""
        return max((one.last for one in self.stretches), default=0)

    def between(self, first: int, last: int) -> list[Stretch]:
        """Return the stretches that hold anything from one position to another, both included."""
        return [one for one in self.stretches if one.first <= last and one.last >= first]


def is_address(place: str) -> bool:
    """Say whether a place is an address such as `file:/logs`, and not a path."""
    return _ADDRESS.match(place) is not None


def _file_system(place: str) -> tuple[Any, str]:
    if not is_address(place):
        return fs.LocalFileSystem(), place
    try:
        files, root = fs.FileSystem.from_uri(place)
    except (pa.ArrowException, OSError) as problem:
        shown = ascii(place[:128])[1:-1]
        raise BadLogPlace(f"`{shown}` is no place from which a log is read") from problem
    return files, root


class LogFolder:
    """A log that another process writes, on a disk that this machine has too."""

    __slots__ = ("_files", "_known", "_manifest", "_root")

    def __init__(self, place: str) -> None:
        """Look nowhere yet; `place` is a path, or an address that begins with `file:`."""
        self._files, root = _file_system(place)
        self._root = root.rstrip("/")
        self._known: tuple[str, int, int] | None = None
        self._manifest = Manifest()

    def of_type(self, type_id: bytes) -> TypeInLog:
        """Return what the log holds of a type now; nothing where no log was begun."""
        if self._read_manifest():
            found = self._manifest.of_type(type_id)
            return TypeInLog(tuple(map(_stretch, found)), self._manifest.forgotten.get(type_id, 0))
        return TypeInLog(tuple(self._listed(type_id)), 0)

    # Any: pyarrow is not typed.
    def open(self, path: str) -> Any:
        """Return a file inside the folder, to be read at any place; raises `FileNotFoundError`."""
        return self._files.open_input_file(f"{self._root}/{path}")

    # -------------------------------------------------------- the manifest

    def _read_manifest(self) -> bool:
        """Read the newest manifest unless it is the one that was read; say whether there is one."""
        for _ in range(_LOOKS_MAX):
            newest = self._newest_manifest()
            if newest is None or newest == self._known:
                return newest is not None
            try:
                self._manifest = self._whole(newest[0])
            except FileNotFoundError:
                continue
            self._known = newest
            return True
        raise LogDamaged(newest[0] if newest else "manifest", 0, "the file is missing")

    def _newest_manifest(self) -> tuple[str, int, int] | None:
        named = [one for one in self._in_folder(self._root) if manifest_number(one.base_name) is not None]
        found = max(named, key=lambda one: str(one.base_name), default=None)
        return None if found is None else (found.base_name, found.size, found.mtime_ns)

    def _whole(self, name: str) -> Manifest:
        with closing(self.open(name)) as file:
            manifest, reader = read_manifest(_Bytes(file), name)
        if reader.tail.kind is TailKind.DAMAGE:
            raise LogDamaged(name, reader.tail.offset, reader.tail.what)
        return manifest

    # -------------------------------------------------------- without one

    def _listed(self, type_id: bytes) -> Iterator[Stretch]:
        begin = len(self._root) + 1
        folder = f"{self._root}/type={type_id.hex()}"
        sizes = {one.path[begin:]: one.size for one in self._in_folder(folder, is_deep=True)}
        joined = set(already_joined(sizes))
        named = ((name, size) for path, size in sizes.items() if (name := segment_name(path)) is not None)
        for name, size in sorted(named, key=lambda one: (one[0].first, one[0].last)):
            if name.path.rpartition("/")[2] not in joined:
                yield Stretch(name.day, name.first, name.last, name.path, size)

    def _in_folder(self, folder: str, *, is_deep: bool = False) -> Iterable[Any]:
        wanted = fs.FileSelector(folder, recursive=is_deep, allow_not_found=True)
        return [one for one in self._files.get_file_info(wanted) if one.is_file]


def _stretch(segment: Segment) -> Stretch:
    name: SegmentName = segment.name
    return Stretch(
        name.day,
        name.first,
        name.last,
        name.path,
        segment.size,
        segment.published_from,
        segment.published_until,
    )


class _Bytes:
    """A file of Arrow's, as the readers of the log take it."""

    __slots__ = ("_file", "size")

    def __init__(self, file: Any) -> None:
        self._file = file
        self.size: int = file.size()

    def read(self, offset: int, length: int) -> bytes:
        data: bytes = self._file.read_at(min(length, max(0, self.size - offset)), offset)
        return data


FORMAT: Final = "maia-log"
PARTITION_BYTES: Final = 8 << 20
"""About what one task reads. A segment is divided by positions, and small ones are read together."""
BYTES_AT_ONCE: Final = 1 << 30
"""About what one batch of a stream reads, so that one that begins late has something to go back to."""
_BATCH_BYTES: Final = 8 << 20
_PARTS_MAX: Final = 1024


def register_log_stream(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(LogStreamSource)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a stream reads: a log, a type, and the moments outside of which whole segments are left out."""

    log: str
    type_id: bytes
    since: int
    until: int
    fails_on_loss: bool = True
    batch_bytes: int = BYTES_AT_ONCE

    def as_options(self) -> dict[str, str]:
        """Return this as Spark carries it; it is no secret."""
        return {
            "log": self.log,
            "type": self.type_id.hex(),
            "since": str(self.since),
            "until": str(self.until),
            "failOnDataLoss": str(self.fails_on_loss).lower(),
            "batchBytes": str(self.batch_bytes),
        }

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Wanted:
        """Read what `as_options` wrote."""
        return cls(
            options["log"],
            bytes.fromhex(options["type"]),
            int(options["since"]),
            int(options["until"]),
            options["failOnDataLoss"] == "true",
            int(options["batchBytes"]),
        )


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
        self._folder = LogFolder(wanted.log)
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
            return self._offset(0, self._found().forgotten)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how much a batch reads."""
        return ReadMaxBytes(self._wanted.batch_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take note of what there is now: the run ends there."""
        with told_to_spark():
            self._upto = self._found().newest

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return how far the log goes; raise if it has forgotten what the stream has not read."""
        with told_to_spark():
            found = self._found()
            position, _ = self._checked(start, found)
            bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
            newest = _reached(found, position, bytes_max)
            newest = newest if self._upto is None else min(newest, self._upto)
            return start if newest <= position else self._offset(newest, found.forgotten)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return ranges for tasks; of a batch that was planned before a restart, the same frames."""
        with told_to_spark():
            found = self._found()
            first, _ = self._checked(start, found)
            last, _ = self._read(end)
            cut = [_cut(one, first + 1, last) for one in found.between(first + 1, last)]
            return [Ranges(group) for group in _groups(one for one in cut if self._may_hold(one))]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: a log does not track its readers."""

    def stop(self) -> None:
        """Do nothing: nothing is held."""

    def _found(self) -> TypeInLog:
        return self._folder.of_type(self._wanted.type_id)

    def _may_hold(self, one: Stretch) -> bool:
        return one.published_until >= self._wanted.since and one.published_from <= self._wanted.until

    def _offset(self, position: int, forgotten: int) -> dict[str, Any]:
        return {"type": self._wanted.type_id.hex(), "position": position, "forgotten": forgotten}

    def _read(self, offset: dict[str, Any]) -> tuple[int, int]:
        match offset:
            case {"type": str(kind), "position": int(position), "forgotten": int(forgotten)} if (
                kind == self._wanted.type_id.hex() and position >= 0 and forgotten >= 0
            ):
                return position, forgotten
        raise NotThisStream("the checkpoint was not written by a stream of this type; begin a new one")

    def _checked(self, start: dict[str, Any], found: TypeInLog) -> tuple[int, int]:
        """Return where a batch begins, if everything behind it is still there."""
        position, forgotten = self._read(start)
        if position > max(found.newest, found.forgotten):
            raise NotThisStream(
                f"the checkpoint is at position {position}, and the log ends before: it is another log"
            )
        if found.forgotten > max(position, forgotten) and self._wanted.fails_on_loss:
            raise FramesForgotten(
                f"the log has forgotten frames up to position {found.forgotten}, and this stream has read "
                f"up to {position}; keep frames for longer, or let streams go on with `fails_on_loss=False`"
            )
        return position, forgotten

    # -------------------------------------------------------- in a task

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the frames of some ranges."""
        assert isinstance(partition, Ranges)  # noqa: S101 - no other partitions are made here
        with told_to_spark():
            for one in partition.value:
                for table in self._frames(one):
                    yield from _batches(table)

    def _frames(self, one: Stretch) -> Iterator[Any]:
        """Yield the frames of a range from wherever they are now."""
        try:
            file = self._folder.open(one.path)
        except FileNotFoundError:
            for moved in self._moved(one):
                yield from self._in_file(self._folder.open(moved.path), moved)
        else:
            yield from self._in_file(file, one)

    def _moved(self, one: Stretch) -> list[Stretch]:
        """Return where the frames of a range are, whose file is gone: joined with others, or forgotten."""
        found = self._found()
        if found.forgotten >= one.first and self._wanted.fails_on_loss:
            raise FramesForgotten(
                f"the log forgot frames up to position {found.forgotten} while they were read"
            )
        moved = [_cut(each, one.first, one.last) for each in found.between(one.first, one.last)]
        there = [each for each in moved if each.day == one.day and each.path != one.path]
        if not there and self._wanted.fails_on_loss:
            raise LogDamaged(one.path, 0, "the file is missing")
        return there

    def _in_file(self, file: Any, one: Stretch) -> Iterator[Any]:
        try:
            with pq.ParquetFile(file, page_checksum_verification=True) as opened:
                yield from self._in_groups(opened, one)
        except MaiaError:
            raise
        except (pa.ArrowException, OSError) as problem:
            raise LogDamaged(one.path, 0, "it cannot be read as it was written") from problem
        finally:
            file.close()

    def _in_groups(self, file: Any, one: Stretch) -> Iterator[Any]:
        stored = set(file.schema_arrow.names)
        there = [name for name in self._columns if name in stored]
        for number in range(file.num_row_groups):
            positions = file.metadata.row_group(number).column(0).statistics
            if positions is not None and (positions.min > one.last or positions.max < one.first):
                continue
            table = file.read_row_group(number, columns=["position", *there])
            chosen = (pc.field("position") >= one.first) & (pc.field("position") <= one.last)
            yield self._as_asked(table.filter(chosen))

    def _as_asked(self, table: Any) -> Any:
        """Return the columns in the order that Spark knows, null where a segment has none."""
        columns = [
            table.column(name) if name in table.column_names else pa.nulls(table.num_rows, pa.binary())
            for name in self._columns
        ]
        return pa.Table.from_arrays(columns, names=list(self._columns))


def _batches(table: Any) -> Iterator[Any]:
    """Yield a table in batches that a task has room for, whatever its frames weigh."""
    if not table.num_rows:
        return
    rows = max(1, table.num_rows * _BATCH_BYTES // max(table.nbytes, _BATCH_BYTES))
    yield from table.combine_chunks().to_batches(max_chunksize=rows)


# ------------------------------------------------------------ ranges for tasks


def _reached(found: TypeInLog, position: int, bytes_max: int | None) -> int:
    """Return how far so many bytes of segments behind a position go, and one segment at least."""
    taken = 0
    for one in found.between(position + 1, found.newest):
        taken += one.size
        if bytes_max is not None and taken >= bytes_max:
            return one.last
    return found.newest


def _cut(one: Stretch, first: int, last: int) -> Stretch:
    return replace(one, first=max(one.first, first), last=min(one.last, last))


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

    def has_any(self, since: Instant, until: Instant) -> bool:
        """Say whether the log may hold frames that were published in a period."""
        try:
            found = LogFolder(self._place).of_type(self.type_id)
        except BadLogPlace:
            return False
        return any(one.published_until >= since and one.published_from <= until for one in found.stretches)

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


def columns_to_read(uids: Collection[AttributeUid]) -> tuple[str, ...]:
    """Return the columns of the log that a reader of these attributes needs."""
    return (HEADER, SEALED_COLUMN, *(column_name(uid) for uid in uids))
