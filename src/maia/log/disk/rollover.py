"""How do journals become segments, and small segments large ones, so that a crash repeats nothing?

Each job writes new files beside the old ones, makes them safe, and then says
so in one change of the manifest. Before it, nothing has happened; after it,
the old files are of no use and are removed, now or at the next start.
The event log reads the manifest at its start and changes it with every roll. A change is one record; a
manifest that has grown long is written anew beside the old one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Final

import pyarrow

from maia.events import Instant
from maia.log.disk.files import Disk, ReadDisk, disk_problem
from maia.log.disk.journals import Cut, GrowingFile, JournalFile, cut_off, read_journal, write_whole
from maia.log.format.errors import LogDamaged
from maia.log.format.journal import FileKind, FileOpening, opening_bytes
from maia.log.format.manifest import (
    Change,
    Manifest,
    RemovedSegment,
    Segment,
    change_bytes,
    read_manifest,
    whole_state,
)
from maia.log.format.names import (
    UNFINISHED,
    is_cut,
    journal_first,
    manifest_name,
    manifest_number,
    segment_name,
)
from maia.log.format.records import MARKER_BYTES, NO_CHECK, LogRecord, batch_bytes
from maia.log.format.retention import Piece
from maia.log.format.segments import digest_of, joined, parquet_bytes, table_of, verified_file

_KEPT_FREE: Final = 4 << 20
"""What the process keeps for its next frames, as while it runs (`net/process.py`)."""


def give_memory_back() -> None:
    """Give the system back what a roll has taken: Arrow and the C library keep what is freed.

    A burst of 1.2 million events takes some 600 MB for a moment, and the next one may be days away.
    """
    pyarrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # another C library has no such call
        ctypes.CDLL(None).malloc_trim(_KEPT_FREE)


def records_of(disk: ReadDisk, journals: Sequence[JournalFile]) -> Iterator[LogRecord]:
    for journal in journals:
        yield from read_journal(disk, journal)


def write_piece(disk: Disk, piece: Piece) -> Segment:
    """Write a piece as a segment, and return it when it is safe."""
    rows = piece.rows
    recorded, published = [row.recorded_at for row in rows], [row.published_at for row in rows]
    spans = min(recorded), max(recorded), min(published), max(published)
    about = piece.type_id, piece.day, rows[0].position, rows[-1].position
    data, events = parquet_bytes(table_of(rows), piece.type_id), sum(row.rows for row in rows)
    return _written(disk, Segment(*about, digest_of(data), len(rows), events, len(data), *spans), data)


def join_segments(disk: Disk, segments: Sequence[Segment]) -> Segment:
    """Write neighbours as one segment, once all of them are verified; return it when it is safe."""
    return _written(disk, *joined_segment(disk, segments))


def joined_segment(disk: ReadDisk, segments: Sequence[Segment]) -> tuple[Segment, bytes]:
    """Return neighbours as one segment with its bytes, once all of them are verified."""
    tables = [verified_file(read_bytes(disk, one.path), one.name).read() for one in segments]
    spans = (
        min(one.recorded_from for one in segments),
        max(one.recorded_until for one in segments),
        min(one.published_from for one in segments),
        max(one.published_until for one in segments),
    )
    frames, events = sum(one.frames for one in segments), sum(one.events for one in segments)
    last = max(one.last for one in segments)
    data = parquet_bytes(joined(tables), segments[0].type_id)
    about = segments[0].type_id, segments[0].day, segments[0].first, last
    return Segment(*about, digest_of(data), frames, events, len(data), *spans), data


def _written(disk: Disk, segment: Segment, data: bytes) -> Segment:
    try:
        disk.make_folder(segment.name.folder)
        write_whole(disk, segment.path, data)
    except OSError as problem:
        raise disk_problem(problem, "write a segment") from problem
    return segment


def delete_due(disk: Disk, state: Manifest, now: Instant) -> list[str]:
    """Delete the files that are no longer part of the log and whose time has come."""
    paths = [one.segment.path for one in state.due(+now)]
    for path in paths:
        disk.remove(path)
    state.deleted(paths)
    return paths


def remove_left_overs(disk: Disk, state: Manifest, *, next_position: int) -> list[str]:
    """Remove what was being written when a process died; whatever is not ours is left alone."""
    left = (name for name in disk.names() if name.endswith(UNFINISHED))
    gone = [
        name
        for name, one in ((name, name.removesuffix(UNFINISHED)) for name in left)
        if journal_first(one) is not None or manifest_number(one) is not None or is_cut(one)
    ]
    for path in segment_paths(disk):
        name = segment_name(path.removesuffix(UNFINISHED))
        if name is None or path in state.segments or path in state.waiting:
            continue
        if name.last >= next_position and not path.endswith(UNFINISHED):
            # Its journals are gone, so it was part of the log: the manifest has lost what it said of it.
            raise LogDamaged(path, 0, f"it holds record {name.last}, and the manifest does not know of it")
        gone.append(path)
    for path in gone:
        disk.remove(path)
    return gone


def segment_paths(disk: ReadDisk) -> Iterator[str]:
    """Yield the paths of all files in the folders of types and days."""
    for type_folder in disk.names():
        if not type_folder.startswith("type="):
            continue
        for day in disk.names(type_folder):
            for name in disk.names(f"{type_folder}/{day}"):
                yield f"{type_folder}/{day}/{name}"


def read_bytes(disk: ReadDisk, path: str) -> bytes:
    """Return a whole file; one that should be there and is not, is damage."""
    try:
        with closing(disk.read(path)) as file:
            return file.read(0, file.size)
    except FileNotFoundError:
        raise LogDamaged(path, 0, "the file is missing") from None


def changed(
    state: Manifest, now: Instant, *, added: Sequence[Segment], removed: Sequence[RemovedSegment]
) -> Change:
    """Return a change that leaves what is rolled as it is."""
    return Change(+now, state.rolled_upto, state.check, list(added), list(removed), [])


CHANGES_MAX: Final = 10_000
"""After so many changes a manifest is written anew."""


class ManifestFile:
    """The manifest of a log that this process owns."""

    def __init__(self, disk: Disk, *, random: Callable[[int], bytes], at: Instant) -> None:
        """Read the newest manifest, or begin the first one of a new log."""
        self._disk, self._random = disk, random
        self.cuts: list[Cut] = []
        name = newest_manifest(disk)
        if name is None:
            for other in disk.names():
                if journal_first(other) is not None or other.startswith("type="):
                    raise LogDamaged(manifest_name(1), 0, f"there is no manifest, and there is `{other}`")
            self._number = 1
            self.state = Manifest()
            self._write_anew(at)
        else:
            self._number = manifest_number(name) or 0
            self._recover(name)
        self._remove_older()

    def _recover(self, name: str) -> None:
        with closing(self._disk.read(name)) as file:
            self.state, reader = read_manifest(file, name)
            size = file.size
        cut = cut_off(self._disk, name, reader.tail, size)
        self.cuts = [cut] if cut else []
        self._file = GrowingFile.resume(self._disk, name, reader)

    def change(self, change: Change) -> None:
        """Make a change safe; it holds when this returns, and otherwise not at all."""
        self._file.append([change_bytes(change)], at=Instant(change.at))
        self.state.apply(change)
        if self.state.changes > CHANGES_MAX:
            self._number += 1
            self._file.close()
            self._write_anew(Instant(change.at))
            self._remove_older()

    def mend(self, at: Instant) -> None:
        """Go on in a new manifest, if it is in doubt what the disk holds of this one."""
        if self._file.is_broken:
            self._number += 1
            broken = self._file
            self._write_anew(at)
            broken.close()
            self._remove_older()

    def _write_anew(self, at: Instant) -> None:
        """Write all that holds now into the manifest of this number, and go on with it."""
        name = manifest_name(self._number)
        opening = FileOpening(self._random(MARKER_BYTES), 1, NO_CHECK)
        data, check = opening_bytes(FileKind.MANIFEST, opening, at=+at)
        changes = whole_state(self.state, at=+at) if self.state.rolled_upto else []
        records, check = batch_bytes(
            [change_bytes(one) for one in changes],
            marker=opening.marker,
            first=1,
            recorded_at=+at,
            before=check,
        )
        try:
            write_whole(self._disk, name, data + records)
            file = self._disk.reopen(name)
        except OSError as problem:
            raise disk_problem(problem, f"begin `{name}`") from problem
        self._file = GrowingFile(file, name, opening, end=len(data) + len(records), check=check)
        self._file.next_position = len(changes) + 1
        self.state.changes = len(changes)

    def _remove_older(self) -> None:
        for name in self._disk.names():
            number = manifest_number(name)
            if number is not None and number < self._number:
                self._disk.remove(name)

    @property
    def name(self) -> str:
        return self._file.name

    def close(self) -> None:
        self._file.close()


def newest_manifest(disk: ReadDisk) -> str | None:
    """Return the name of the manifest that holds, or None if there is none."""
    return max((name for name in disk.names() if manifest_number(name) is not None), default=None)
