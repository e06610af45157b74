"""Where in a log's folder are the frames of a type, by position, at this moment, and what is in them?

The driver of a governed table or stream asks, each of its tasks, and a program that reads a log without
Spark. A task reads its frames itself, and looks into the manifest where a
file that the driver has seen is gone. The answer is the
manifest's: segments are joined and forgotten while jobs run, but a frame keeps its position. A
folder without a manifest, such as a copy of some segments, is listed; names
tell positions, too. Nothing is locked or changed, and frames come out as they were recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from maia.errors import BadInput, MaiaError, Unavailable
from maia.events import INSTANT_MAX, INSTANT_MIN, INT_MAX, AttributeUid
from maia.log.format.errors import LogDamaged
from maia.log.format.journal import TailKind
from maia.log.format.manifest import Manifest, Segment, read_manifest
from maia.log.format.names import SegmentName, already_joined, manifest_number, segment_name
from maia.log.format.segments import SEALED_COLUMN, column_name

HEADER: Final = "header"
"""The column with what of a frame is in no other column."""
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
    """Return whether a place is an address such as `file:/logs`, and not a path."""
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


def can_list(place: str) -> bool:
    """Return whether this process finds files in a place."""
    files, root = _file_system(place)
    try:
        return bool(files.get_file_info(fs.FileSelector(root)))
    except OSError:
        return False


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
        self._folder = LogFolder(wanted.log)

    def found(self) -> TypeInLog:
        """Return what the log holds of the type now."""
        return self._folder.of_type(self._wanted.type_id)

    def ranges(self, first: int = 1, last: int = INT_MAX, *, cores: int = 1) -> list[tuple[Stretch, ...]]:
        """Return what each task reads between two positions, both included; some work for each core."""
        found = (cut(one, first, last) for one in self.found().between(first, last))
        wanted = self._wanted
        chosen = [
            one for one in found if one.published_until >= wanted.since and one.published_from <= wanted.until
        ]
        most = min(PARTITION_BYTES, -(-sum(one.size for one in chosen) // cores))
        groups: list[list[Stretch]] = []
        held = most + 1
        for one in (part for stretch in chosen for part in _divided(stretch)):
            if held + one.size > most:
                groups.append([])
                held = 0
            groups[-1].append(one)
            held += one.size
        return list(map(tuple, groups))

    # Any: pyarrow is not typed.
    def batches(self, one: Stretch) -> Iterator[Any]:
        """Yield the frames of a range from wherever they are now, in batches that a task has room for."""
        for table in self._frames(one):
            if table.num_rows:
                rows = max(1, table.num_rows * _BATCH_BYTES // max(table.nbytes, _BATCH_BYTES))
                yield from table.combine_chunks().to_batches(max_chunksize=rows)

    def _frames(self, one: Stretch) -> Iterator[Any]:
        try:
            file = self._folder.open(one.path)
        except FileNotFoundError:
            for moved in self._moved(one):
                yield from self._in_file(self._folder.open(moved.path), moved)
        else:
            yield from self._in_file(file, one)

    def _moved(self, one: Stretch) -> list[Stretch]:
        """Return where the frames of a range are, whose file is gone: joined with others, or forgotten."""
        found = self.found()
        if found.forgotten >= one.first and self._wanted.fails_on_loss:
            raise Unavailable(
                "PIPELINE-FRAMES-FORGOTTEN",
                f"the log forgot frames up to position {found.forgotten} while they were read",
            )
        moved = [cut(each, one.first, one.last) for each in found.between(one.first, one.last)]
        there = [each for each in moved if each.day == one.day and each.path != one.path]
        if not there and self._wanted.fails_on_loss:
            raise LogDamaged(one.path, 0, "the file is missing")
        return there

    def _in_file(self, file: Any, one: Stretch) -> Iterator[Any]:
        try:
            with pq.ParquetFile(file, page_checksum_verification=True) as opened:
                for number in range(opened.num_row_groups):
                    yield from self._in_group(opened, number, one)
        except MaiaError:
            raise
        except (pa.ArrowException, OSError, KeyError) as problem:
            raise LogDamaged(one.path, 0, "it cannot be read as it was written") from problem
        finally:
            file.close()

    def _in_group(self, file: Any, number: int, one: Stretch) -> Iterator[Any]:
        """Yield the frames of a row group that are in the range and of the moments wanted, if there are any.

        Not by the statistics: Arrow ends the process where a file lies about the kind of a column.
        """
        heads = file.read_row_group(number, columns=["position", "published_at"])
        positions, moments = heads["position"], heads["published_at"].cast(pa.int64())
        is_in = pc.and_(_within(positions, one.first, one.last), _within(moments, *self._wanted.moments))
        if not pc.any(is_in).as_py():
            return
        stored = set(file.schema_arrow.names)
        there = [name for name in self._columns if name in stored]
        table = file.read_row_group(number, columns=there).filter(is_in)
        columns = [
            table.column(name) if name in there else pa.nulls(table.num_rows, pa.binary())
            for name in self._columns
        ]
        yield pa.Table.from_arrays(columns, names=list(self._columns))


def _within(values: Any, first: int, last: int) -> Any:
    return pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last))


def _divided(one: Stretch) -> Iterator[Stretch]:
    """Yield a large stretch as several of equally many positions."""
    count = one.last - one.first + 1
    parts = min(count, _PARTS_MAX, max(1, one.size // PARTITION_BYTES))
    bounds = [one.first + count * number // parts for number in range(parts + 1)]
    for first, after in pairwise(bounds):
        yield replace(one, first=first, last=after - 1, size=one.size // parts)


def cut(one: Stretch, first: int, last: int) -> Stretch:
    """Return what of a stretch lies between two positions, both included."""
    return replace(one, first=max(one.first, first), last=min(one.last, last))


def columns_to_read(uids: Iterable[AttributeUid]) -> tuple[str, ...]:
    """Return the columns of the log that a reader of these attributes needs."""
    return (HEADER, SEALED_COLUMN, *(column_name(uid) for uid in uids))
