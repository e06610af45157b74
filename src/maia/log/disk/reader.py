"""What was recorded from this position on, in order and each once; and is all of it as it was written?

Durable subscriptions read, operators verify. Readers see the log as it was
when they began. When a file has gone in the meantime, because it was rolled or
joined with others, they look again and go on from where they were.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from operator import attrgetter

from maia.log.disk.files import Disk
from maia.log.disk.journals import JournalFile, read_journal
from maia.log.format.errors import LogDamaged
from maia.log.format.journal import JournalReader, Kind, TailKind
from maia.log.format.manifest import Segment, in_order
from maia.log.format.names import journal_first
from maia.log.format.records import LogRecord, type_id_of
from maia.log.format.segments import records_in


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a log at one moment."""

    segments: tuple[Segment, ...]
    journals: tuple[JournalFile, ...]

    def files(self) -> frozenset[str]:
        """Return the names of all files."""
        return frozenset((*(one.path for one in self.segments), *(one.name for one in self.journals)))


def read_records(
    disk: Disk,
    look: Callable[[], Snapshot],
    *,
    from_position: int,
    type_ids: Collection[bytes] | None,
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
                raise LogDamaged(_name_of(problem), 0, "the file is missing") from None
            snapshot = now
        else:
            return


def _name_of(problem: FileNotFoundError) -> str:
    parts = str(problem.filename).split("/")
    return "/".join(parts[-3:]) if parts[-1].endswith(".parquet") else parts[-1]


def _in_snapshot(
    disk: Disk, snapshot: Snapshot, start: int, wanted: frozenset[bytes] | None
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


def _merged(disk: Disk, segments: Sequence[Segment], start: int) -> Iterator[LogRecord]:
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


def _records(disk: Disk, segment: Segment, start: int) -> Iterator[LogRecord]:
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
        """Say whether everything is as it was written."""
        return not self.problems


def verify_files(
    disk: Disk, snapshot: Snapshot, *, on_file: Callable[[str], None] = lambda _name: None
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
    disk: Disk, journal: JournalFile, position: int | None, check: bytes | None
) -> tuple[int, int, bytes, list[Problem]]:
    """Read a journal that follows one of this position and check, if they are known."""
    with closing(disk.read(journal.name)) as file:
        reader = JournalReader(file, journal.name, Kind.JOURNAL, upto=journal.end)
        first = reader.opening.first
        if first != journal_first(journal.name) or (position is not None and first != position):
            raise LogDamaged(journal.name, 0, f"it begins with record {first}, where another belongs")
        if check is not None and reader.opening.before != check:
            raise LogDamaged(journal.name, 0, "it does not follow the record before it")
        found = sum(1 for _ in reader.entries())
    tail = reader.tail
    if tail.kind is TailKind.DAMAGE:
        raise LogDamaged(journal.name, tail.offset, tail.what)
    note = [] if tail.kind is TailKind.NOTHING else [Problem(journal.name, tail.offset, tail.what)]
    last_check = reader.last.head.check if reader.last.offset else reader.opening.before
    return found, reader.next_position, last_check, note


def _problem(path: str, problem: LogDamaged | OSError) -> Problem:
    if isinstance(problem, LogDamaged):
        return Problem(problem.file, problem.offset, problem.what)
    return Problem(path, 0, f"it cannot be read: {problem.strerror or type(problem).__name__}")
