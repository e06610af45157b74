"""What was recorded from this position on, in order and each once; and is all of it as it was written?

Durable subscriptions read, operators verify. Readers see the log as it was
when they began. When a file has gone in the meantime, because it was rolled or
joined with others, they look again and go on from where they were.

`LogView` is for readers that do not own the log, such as `maia log`. Nothing is locked, changed or
cut; a broker may go on recording meanwhile. What it has rolled is found
through the manifest, never by listing folders: a file that the manifest does not name
is not part of the log.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from maia.events import Instant
from maia.log.disk.files import FolderDisk, PlaceDisk, ReadDisk
from maia.log.disk.journals import JournalFile, read_journal, read_to_end
from maia.log.disk.rollover import newest_manifest, read_bytes, segment_paths
from maia.log.format.errors import LogDamaged
from maia.log.format.journal import TailKind
from maia.log.format.manifest import Manifest, Segment, in_order, read_manifest
from maia.log.format.names import is_cut, journal_first, manifest_name, segment_name
from maia.log.format.records import LogRecord, type_id_of
from maia.log.format.segments import digest_of, records_in
from maia.places import place_of


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a log at one moment."""

    segments: tuple[Segment, ...]
    journals: tuple[JournalFile, ...]

    def files(self) -> frozenset[str]:
        return frozenset((*(one.path for one in self.segments), *(one.name for one in self.journals)))


def read_records(
    disk: ReadDisk, look: Callable[[], Snapshot], *, from_position: int, type_ids: Collection[bytes] | None
) -> Iterator[LogRecord]:
    """Yield records in the order of positions, each once."""
    wanted = None if type_ids is None else frozenset(type_ids)
    snapshot = look()
    while True:
        try:
            for record in _in_snapshot(disk, snapshot, from_position, wanted):
                from_position = record.position + 1
                yield record
        except FileNotFoundError as problem:
            now = look()
            if now.files() == snapshot.files():
                parts = str(problem.filename).split("/")
                name = "/".join(parts[-3:]) if parts[-1].endswith(".parquet") else parts[-1]
                raise LogDamaged(name, 0, "the file is missing") from None
            snapshot = now
        else:
            return


def _in_snapshot(
    disk: ReadDisk, snapshot: Snapshot, start: int, wanted: frozenset[bytes] | None
) -> Iterator[LogRecord]:
    segments = [
        one for one in snapshot.segments if one.last >= start and (wanted is None or one.type_id in wanted)
    ]
    yield from _merged(disk, in_order(segments), start)
    for journal in snapshot.journals:
        if journal.last < start:
            continue
        for record in read_journal(disk, journal):
            if record.position >= start and (wanted is None or type_id_of(record.message) in wanted):
                yield record


def _merged(disk: ReadDisk, segments: Sequence[Segment], start: int) -> Iterator[LogRecord]:
    """Yield the records of segments that lie across each other; each is opened when its turn comes."""
    groups: list[list[Segment]] = []
    reach = 0
    for one in segments:
        if one.first > reach:
            groups.append([])
        groups[-1].append(one)
        reach = max(reach, one.last)
    for group in groups:
        parts = [_records(disk, one, start) for one in group]
        yield from heapq.merge(*parts, key=attrgetter("position"))


def _records(disk: ReadDisk, segment: Segment, start: int) -> Iterator[LogRecord]:
    with closing(disk.read(segment.path)) as file:
        data = file.read(0, file.size)
    yield from records_in(data, segment.name, from_position=start)


# ------------------------------------------------------------ verifying


@dataclass(frozen=True, slots=True)
class Problem:
    """What is not as it was written, and where."""

    file: str
    offset: int
    what: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was read, and what is wrong with it. `notes` lose nothing, and are worth a look."""

    files: int
    records: int
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]

    @property
    def is_whole(self) -> bool:
        """Return whether everything is as it was written."""
        return not self.problems


def verify_files(
    disk: ReadDisk, snapshot: Snapshot, *, on_file: Callable[[str], None] = lambda _name: None
) -> tuple[int, list[Problem], list[Problem]]:
    """Read every file; return how many records there are, what is damaged, and what is worth a look."""
    records, problems, notes = 0, [], []
    for segment in snapshot.segments:
        try:
            found = sum(1 for _ in _records(disk, segment, 1))
            records += found
            if found != segment.frames:
                what = f"it holds {found} records, and {segment.frames} were written"
                problems.append(Problem(segment.path, 0, what))
        except (LogDamaged, OSError) as problem:
            problems.append(_problem(segment.path, problem))
        on_file(segment.path)
    position, check = None, None
    for journal in snapshot.journals:
        try:
            found, position, check, note = _verify_journal(disk, journal, position, check)
            records += found
            notes += note
        except (LogDamaged, OSError) as problem:
            problems.append(_problem(journal.name, problem))
            position, check = None, None
        on_file(journal.name)
    return records, problems, notes


def _verify_journal(
    disk: ReadDisk, journal: JournalFile, position: int | None, check: bytes | None
) -> tuple[int, int, bytes, list[Problem]]:
    """Read a journal that follows one of this position and check, if they are known."""
    reader, _ = read_to_end(disk, journal.name, upto=journal.end, position=position, check=check)
    found, tail = reader.next_position - reader.opening.first, reader.tail
    if tail.kind is TailKind.DAMAGE:
        raise LogDamaged(journal.name, tail.offset, tail.what)
    note = [] if tail.kind is TailKind.NOTHING else [Problem(journal.name, tail.offset, tail.what)]
    last_check = reader.last.head.check if reader.last.offset else reader.opening.before
    return found, reader.next_position, last_check, note


def _problem(path: str, problem: LogDamaged | OSError) -> Problem:
    if isinstance(problem, LogDamaged):
        return Problem(problem.file, problem.offset, problem.what)
    return Problem(path, 0, f"it cannot be read: {problem.strerror or type(problem).__name__}")


class LogView:
    """A log as it is found, for reading."""

    def __init__(self, place: str | Path, *, disk: ReadDisk | None = None) -> None:
        """Read the manifest. Raises `LogDamaged` if there is none, or if it is not as it was written."""
        self._place = place_of(place)
        folder = self._place.local
        self._disk = disk or (
            PlaceDisk(self._place) if folder is None else FolderDisk(folder, writable=False)
        )
        self._notes: list[Problem] = []
        self.state = self._read_manifest()

    def _read_manifest(self) -> Manifest:
        name = newest_manifest(self._disk)
        if name is None:
            raise LogDamaged(manifest_name(1), 0, "there is no manifest, so this is no event log")
        with closing(self._disk.read(name)) as file:
            state, reader = read_manifest(file, name)
        if reader.tail.kind is TailKind.DAMAGE:
            raise LogDamaged(name, reader.tail.offset, reader.tail.what)
        if reader.tail.kind is TailKind.UNFINISHED:
            self._notes.append(Problem(name, reader.tail.offset, reader.tail.what))
        return state

    def segments(
        self, type_id: bytes, *, since: Instant | None = None, until: Instant | None = None
    ) -> list[Path]:
        """Return the verified Parquet files of a type with frames published from `since` until `until`."""
        found = published_between(self.state.of_type(type_id), since=since, until=until)
        return verified_paths(self._disk, self._place.local or Path(), found)

    def journals(self) -> list[JournalFile]:
        """Return the journals with something that is in no segment yet; how far they go is not known."""
        found = [(first, name) for name in self._disk.names() if (first := journal_first(name)) is not None]
        left: list[JournalFile] = []
        for at, (first, name) in enumerate(found):
            following = found[at + 1][0] if at + 1 < len(found) else None
            if following is None or following > self.state.rolled_upto + 1:
                left.append(self._journal(name, first))
        return [one for one in left if one.last > self.state.rolled_upto or one.last < one.first]

    def _journal(self, name: str, first: int) -> JournalFile:
        try:
            reader, size = read_to_end(self._disk, name)
        except LogDamaged:
            with closing(self._disk.read(name)) as file:
                return JournalFile(name, first, first - 1, file.size, b"")
        return JournalFile(name, first, reader.next_position - 1, size, reader.last.head.check)

    def verify(self, *, on_file: Callable[[str], None] = lambda _name: None) -> Verification:
        """Read everything that is part of the log, and report whatever is not as it was written."""
        snapshot = Snapshot(tuple(in_order(self.state.segments.values())), tuple(self.journals()))
        records, problems, notes = verify_files(self._disk, snapshot, on_file=on_file)
        # Whatever a broker has rolled or joined while we read is not missing.
        now = LogView(self._place.address, disk=self._disk)
        present = {*now.state.segments, *(one.name for one in now.journals())}
        problems = [one for one in problems if one.file in present]
        files = len(snapshot.segments) + len(snapshot.journals) + 1
        noted = (*self._notes, *notes, *self._worth_a_look(now.state))
        return Verification(files, records, tuple(problems), noted)

    def _worth_a_look(self, state: Manifest) -> Iterable[Problem]:
        for name in self._disk.names():
            if is_cut(name):
                yield Problem(name, 0, "the end of a journal that was cut off at a start")
        for path in segment_paths(self._disk):
            if segment_name(path) is None or (path not in state.segments and path not in state.waiting):
                yield Problem(path, 0, "this file is not part of the log")


def published_between(
    segments: Iterable[Segment], *, since: Instant | None, until: Instant | None
) -> list[Segment]:
    """Return the segments that may hold frames published between two moments, both included."""
    return [
        one
        for one in segments
        if (since is None or one.published_until >= since) and (until is None or one.published_from <= until)
    ]


def verified_paths(disk: ReadDisk, folder: Path, segments: Iterable[Segment]) -> list[Path]:
    """Return where segments lie, once the digest of each is checked: who reads them next checks nothing."""
    paths: list[Path] = []
    for segment in segments:
        if digest_of(read_bytes(disk, segment.path)) != segment.digest:
            raise LogDamaged(segment.path, 0, "it does not match the digest in its name")
        paths.append(folder / segment.path)
    return paths
