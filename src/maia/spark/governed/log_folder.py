"""Where in a log's folder are the frames of a type, by position, at this moment, and what is in them?

The driver of a governed table or stream asks, each of its tasks, and a program that reads a log without
Spark. A task reads its frames itself, and looks into the manifest where a
file that the driver has seen is gone. The answer is the
manifest's: segments are joined and forgotten while jobs run, but a frame keeps its position. A
folder without a manifest, such as a copy of some segments, is listed; names
tell positions, too. Nothing is locked or changed, and frames come out as they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from maia.errors import MaiaError, Unavailable
from maia.events import INSTANT_MAX, INSTANT_MIN, INT_MAX, AttributeUid
from maia.log.disk.files import PlaceFile
from maia.log.format.errors import LogDamaged
from maia.log.format.journal import TailKind
from maia.log.format.manifest import Manifest, Segment, read_manifest
from maia.log.format.names import SegmentName, already_joined, manifest_name, manifest_number, segment_name
from maia.log.format.segments import SEALED_COLUMN, column_name
from maia.places import Found, place_of
from maia.spark.errors import worker_problem

HEADER: Final = "header"
"""The column with what of a frame is in no other column."""
_HEADS: Final = ["position", "published_at"]
_LOOKS_MAX: Final = 5
"""A manifest that is written anew while we look for it is looked for again."""


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
    """The moments between which frames are wanted, both included."""
    recorded_from: int = INSTANT_MIN
    """The moment at which the first of them was recorded."""
    file_size: int = 0
    """How many bytes the whole file has, where that is known."""
    events: int = 0
    """About how many events they are, where that is known."""
    log: int = 0
    """Which one of several logs."""
    is_shown: bool = False
    """Whether a stream has shown these frames before: they are read to recognise copies of them."""


@dataclass(frozen=True, slots=True)
class TypeInLog:
    """What a log holds of one type: stretches by position, and up to where it has forgotten."""

    stretches: tuple[Stretch, ...]
    forgotten: int
    missing: int = 0
    """How many publications its broker knows to be missing, and asks others for."""

    @property
    def newest(self) -> int:
        """Return the highest position there is; 0 if there is none."""
        return max((one.last for one in self.stretches), default=0)

    def between(self, first: int, last: int) -> list[Stretch]:
        """Return the stretches that hold anything from one position to another, both included."""
        return [one for one in self.stretches if one.first <= last and one.last >= first]


def missing_of(found: Iterable[TypeInLog]) -> int:
    """Return how many publications all of some logs lack, at most: those of the log that lacks least."""
    return min(one.missing for one in found)


class LogFolder:
    """A log that another process writes, in a place that this process reaches too."""

    __slots__ = ("_known", "_manifest", "place")

    def __init__(self, place: str) -> None:
        """Look nowhere yet; `place` is a path or an address."""
        self.place = place_of(place)
        self._known: Found | None = None
        self._manifest = Manifest()

    def of_type(self, type_id: bytes) -> TypeInLog:
        """Return what the log holds of a type now; nothing where no log was begun."""
        if self._read_manifest():
            found = self._manifest.of_type(type_id)
            forgotten, missing = self._manifest.forgotten.get(type_id, 0), self._manifest.lacks(type_id)
            return TypeInLog(tuple(map(_stretch, found)), forgotten, missing)
        if self.place.local is None:
            raise LogDamaged(
                manifest_name(1), 0, f"there is no manifest in `{self.place}`: it is no event log"
            )
        return TypeInLog(tuple(self._listed(type_id)), 0)

    # Any: pyarrow is not typed.
    def open(self, path: str) -> Any:
        """Return a file inside the folder, to be read at any place; raises `FileNotFoundError`."""
        return self.place.open(path)

    # -------------------------------------------------------- the manifest

    def _read_manifest(self) -> bool:
        """Read the newest manifest unless it is the one that was read; say whether there is one."""
        for _ in range(_LOOKS_MAX):
            newest = self._newest_manifest()
            if newest is None or newest == self._known:
                return newest is not None
            try:
                self._manifest = self._whole(newest.path)
            except FileNotFoundError:
                continue
            self._known = newest
            return True
        raise LogDamaged(newest.path if newest else "manifest", 0, "the file is missing")

    def _newest_manifest(self) -> Found | None:
        named = [one for one in self.place.listed() if manifest_number(one.path) is not None]
        return named[-1] if named else None

    def _whole(self, name: str) -> Manifest:
        with closing(self.open(name)) as file:
            manifest, reader = read_manifest(PlaceFile(file), name)
        if reader.tail.kind is TailKind.DAMAGE:
            raise LogDamaged(name, reader.tail.offset, reader.tail.what)
        return manifest

    # -------------------------------------------------------- without one

    def _listed(self, type_id: bytes) -> Iterator[Stretch]:
        sizes = {one.path: one.size for one in self.place.listed(f"type={type_id.hex()}", is_deep=True)}
        joined = set(already_joined(sizes))
        named = ((name, size) for path, size in sizes.items() if (name := segment_name(path)) is not None)
        for name, size in sorted(named, key=lambda one: (one[0].first, one[0].last)):
            if name.path.rpartition("/")[2] not in joined:
                yield Stretch(name.day, name.first, name.last, name.path, size)


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
        segment.recorded_from,
        segment.size,
        segment.events,
    )


# ------------------------------------------------------------ frames

BYTES_AT_ONCE: Final = 1 << 30
"""About what one batch of a stream reads, so that one that begins late has something to go back to."""
_BATCH_BYTES: Final = 8 << 20
PARTITION_BYTES: Final = 8 << 20
"""About what one task reads. A segment is divided by positions, and small ones are read together."""
_PARTS_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class FramesWanted:
    """What a stream reads: a log, a type, and the moments outside of which whole segments are left out."""

    log: str
    type_id: bytes
    since: int
    until: int
    fails_on_loss: bool = True
    batch_bytes: int = BYTES_AT_ONCE
    require_complete: bool = False
    """Whether a stream stays where it is while the log is known to lack something."""
    others: tuple[str, ...] = ()
    """More logs."""
    has_copies: bool = False
    """Whether a publication may be there twice: recorded by two brokers, or released for two classes.

    Each is shown once.
    """
    last: int = INT_MAX
    """The last position that is read."""
    recorded_until: int = INSTANT_MAX
    """The last moment at which a frame was recorded that is read."""

    @property
    def logs(self) -> tuple[str, ...]:
        """Return all logs."""
        return self.log, *self.others

    @property
    def moments(self) -> tuple[int, int]:
        """Return the first and the last moment."""
        return self.since, self.until

    def as_option(self) -> str:
        """Return this as Spark carries it; it is no secret."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_option(cls, text: str) -> FramesWanted:
        """Read what `as_option` wrote."""
        return msgspec.json.decode(text, type=cls)


class LogFrames:
    """The frames of one type in a log, by ranges of positions, wherever their files are by now."""

    def __init__(self, wanted: FramesWanted, columns: tuple[str, ...] = ()) -> None:
        """Read nothing yet; of each frame, these columns are wanted."""
        self._wanted, self._columns = wanted, columns
        self._heads = [*_HEADS, *(["recorded_at"] if wanted.recorded_until < INSTANT_MAX else [])]
        self._folders = [LogFolder(one) for one in wanted.logs]

    def found(self) -> list[TypeInLog]:
        """Return what each log holds of the type now."""
        return [one.of_type(self._wanted.type_id) for one in self._folders]

    def ranges(self, *bounds: tuple[int, int], cores: int = 1) -> list[tuple[Stretch, ...]]:
        """Return what each task reads between two positions of each log; some work for each core."""
        bounds = bounds or ((1, INT_MAX),) * len(self._folders)
        found = self.found()
        chosen = [
            replace(one, log=log)
            for log, (first, last) in enumerate(bounds)
            for one in self._within(found[log], first, last)
        ]
        most = min(PARTITION_BYTES, -(-sum(one.size for one in chosen) // cores))
        if self._wanted.has_copies:
            shown = [
                replace(one, log=log, is_shown=True)
                for log, (first, _) in enumerate(bounds)
                for one in self._within(found[log], 1, first - 1)
            ]
            return _windows(chosen, shown, max(1, most))
        groups: list[list[Stretch]] = []
        held = most + 1
        for one in (part for stretch in chosen for part in _divided(stretch)):
            if held + one.size > most:
                groups.append([])
                held = 0
            groups[-1].append(one)
            held += one.size
        return list(map(tuple, groups))

    def _within(self, found: TypeInLog, first: int, last: int) -> Iterator[Stretch]:
        since, until = self._wanted.moments
        last = min(last, self._wanted.last)
        for one in found.between(first, last):
            is_then = one.recorded_from <= self._wanted.recorded_until
            if one.published_until >= since and one.published_from <= until and is_then:
                yield cut(one, first, last)

    # Any: pyarrow is not typed.
    def batches(self, one: Stretch) -> Iterator[Any]:
        """Yield the frames of a range from wherever they are now, in batches that a task has room for."""
        for table in self._frames(one):
            if table.num_rows:
                rows = max(1, table.num_rows * _BATCH_BYTES // max(table.nbytes, _BATCH_BYTES))
                yield from table.combine_chunks().to_batches(max_chunksize=rows)

    def _frames(self, one: Stretch) -> Iterator[Any]:
        folder = self._folders[one.log]
        try:
            file = folder.open(one.path)
        except FileNotFoundError:
            for moved in self._moved(one):
                yield from self._in_file(folder.open(moved.path), moved)
        else:
            yield from self._in_file(file, one)

    def _moved(self, one: Stretch) -> list[Stretch]:
        """Return where the frames of a range are, whose file is gone: joined with others, or forgotten."""
        folder = self._folders[one.log]
        if not folder.place.exists():  # it was there when the driver looked
            raise worker_problem("read", folder.place, "it is not there")
        found = folder.of_type(self._wanted.type_id)
        fails = self._wanted.fails_on_loss and not one.is_shown
        if found.forgotten >= one.first and fails:
            raise Unavailable(
                "PIPELINE-FRAMES-FORGOTTEN",
                f"the log forgot frames up to position {found.forgotten} while they were read",
            )
        between = one.published_from, one.published_until
        moved = [
            replace(cut(each, one.first, one.last), published_from=between[0], published_until=between[1])
            for each in found.between(one.first, one.last)
        ]
        there = [each for each in moved if each.day == one.day and each.path != one.path]
        if not there and fails:
            raise LogDamaged(one.path, 0, "the file is missing")
        return there

    def _in_file(self, file: Any, one: Stretch) -> Iterator[Any]:
        try:
            if one.file_size not in (0, file.size()):
                raise LogDamaged(one.path, 0, f"it has {file.size()} bytes, and {one.file_size} were written")
            # Ranges that lie near each other are one request to an object store.
            with pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=True) as opened:
                # Where a part of a file may be wanted, one request says which row groups it is in.
                is_at_once = opened.num_row_groups == 1 and _is_whole(one)
                heads = None if is_at_once else opened.read(columns=self._heads)
                held: list[int] = []
                begin = 0
                for number in range(opened.num_row_groups):
                    rows = opened.metadata.row_group(number).num_rows
                    some = None if heads is None else heads.slice(begin, rows)
                    positions, found = self._in_group(opened, number, one, some)
                    begin += rows
                    held += [positions[0].as_py(), positions[-1].as_py()] if len(positions) else []
                    if found is not None:
                        yield found
                _check_name(held, one)
        except MaiaError:
            raise
        except (pa.ArrowException, OSError, KeyError) as problem:
            raise LogDamaged(one.path, 0, "it cannot be read as it was written") from problem
        finally:
            file.close()

    def _in_group(self, file: Any, number: int, one: Stretch, heads: Any) -> tuple[Any, Any]:
        """Return the positions in a row group, and its frames in the range and of the moments wanted.

        Not by the statistics: Arrow ends the process where a file lies about the kind of a column. Without
        `heads`, one request brings all frames with what says that they are wanted.
        """
        stored = set(file.schema_arrow.names)
        there = [name for name in self._columns if name in stored]
        table = file.read_row_group(number, columns=[*self._heads, *there]) if heads is None else heads
        positions, moments = table["position"], table["published_at"].cast(pa.int64())
        since, until = self._wanted.moments
        between = max(since, one.published_from), min(until, one.published_until)
        is_in = pc.and_(_within(positions, one.first, one.last), _within(moments, *between))
        if self._wanted.recorded_until < INSTANT_MAX:
            recorded = table["recorded_at"].cast(pa.int64())
            is_in = pc.and_(is_in, pc.less_equal(recorded, self._wanted.recorded_until))
        if not pc.any(is_in).as_py():
            return positions, None
        if heads is not None:
            table = file.read_row_group(number, columns=there)
        if not pc.all(is_in).as_py():
            table = table.filter(is_in)
        columns = [
            table.column(name) if name in there else pa.nulls(table.num_rows, pa.binary())
            for name in self._columns
        ]
        return positions, pa.Table.from_arrays(columns, names=list(self._columns))


def _is_whole(one: Stretch) -> bool:
    """Return whether all positions of a file are wanted."""
    name = segment_name(one.path)
    return name is not None and (one.first, one.last) == (name.first, name.last)


def _check_name(held: list[int], one: Stretch) -> None:
    """Refuse a file that holds the frames of another: what a file holds is in its name."""
    name = segment_name(one.path)
    if name is not None and [*held[:1], *held[-1:]] != [name.first, name.last]:
        raise LogDamaged(one.path, 0, "it holds the records of another file")


def _within(values: Any, first: int, last: int) -> Any:
    return pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last))


def _divided(one: Stretch) -> Iterator[Stretch]:
    """Yield a large stretch as several of equally many positions."""
    count = one.last - one.first + 1
    parts = min(count, _PARTS_MAX, max(1, one.size // PARTITION_BYTES))
    bounds = [one.first + count * number // parts for number in range(parts + 1)]
    for first, after in pairwise(bounds):
        yield replace(one, first=first, last=after - 1, size=one.size // parts, events=one.events // parts)


def _windows(chosen: list[Stretch], shown: list[Stretch], most: int) -> list[tuple[Stretch, ...]]:
    """Return, for each task, the frames of all logs that were published in one stretch of time.

    Copies of a publication have one moment, so one task has all of them before it.
    """
    groups: list[tuple[int, int, int]] = []
    for one in sorted(chosen, key=lambda one: one.published_from):
        since, until, size = one.published_from, one.published_until, one.size
        if groups and groups[-1][1] >= since:
            since, until, size = groups[-1][0], max(groups[-1][1], until), groups.pop()[2] + size
        groups.append((since, until, size))
    windows = [window for group in groups for window in _parts(*group, most)]
    tasks = [
        tuple(
            replace(
                one,
                published_from=max(one.published_from, since),
                published_until=min(one.published_until, until),
            )
            for one in (*shown, *chosen)
            if one.published_from <= until and one.published_until >= since
        )
        for since, until in windows
    ]
    return [task for task in tasks if not all(one.is_shown for one in task)]


def _parts(since: int, until: int, size: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield a stretch of time as several, each of about so many bytes."""
    parts = min(until - since + 1, _PARTS_MAX, max(1, size // most))
    bounds = [since + (until - since + 1) * number // parts for number in range(parts + 1)]
    for first, after in pairwise(bounds):
        yield first, after - 1


def cut(one: Stretch, first: int, last: int) -> Stretch:
    """Return what of a stretch lies between two positions, both included."""
    return replace(one, first=max(one.first, first), last=min(one.last, last))


def columns_to_read(uids: Iterable[AttributeUid]) -> tuple[str, ...]:
    """Return the columns of the log that a reader of these attributes needs."""
    return (HEADER, SEALED_COLUMN, *(column_name(uid) for uid in uids))
