"""What was appended and is not in a segment yet, and where does the next record go?

The event log asks. At the start the journals are read from the beginning: an
unfinished write at the very end is cut off, put aside and reported, and
anything else that is not as it was written is damage. What is appended then
goes into a new journal, so that a finished one never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Final

from maia.events import Instant
from maia.log.disk.files import AppendFile, Disk, ReadDisk, disk_problem
from maia.log.format.errors import LogBroken, LogDamaged
from maia.log.format.journal import FileKind, FileOpening, JournalReader, Tail, TailKind, opening_bytes
from maia.log.format.names import UNFINISHED, cut_name, journal_first, journal_name
from maia.log.format.records import MARKER_BYTES, LogRecord, batch_bytes

# A file of records that grows, also where the disk refuses.
#
# Journals and manifests grow this way. `append` returns when its records are
# safe. If they cannot be written they are taken back, and the next attempt may
# succeed; if it is in doubt what the disk holds, nothing more is written until
# the log is opened again.


class GrowingFile:
    """A file of records, open at its end."""

    __slots__ = (
        "_broken",
        "_file",
        "_reserved",
        "_reserves",
        "check",
        "end",
        "first",
        "marker",
        "name",
        "next_position",
    )

    def __init__(
        self, file: AppendFile, name: str, opening: FileOpening, *, end: int, check: bytes, reserves: int = 0
    ) -> None:
        """Take over a file whose last record has this check and ends here.

        It grows by `reserves` bytes of zeros at a time: to write over bytes that are
        there is safe sooner than to make a file longer.
        """
        self._file, self.name, self.marker = file, name, opening.marker
        self.first = self.next_position = opening.first
        self.end, self.check = end, check
        self._reserved, self._reserves = end, reserves
        self._broken: str | None = None

    @classmethod
    def begin(
        cls, disk: Disk, name: str, kind: FileKind, opening: FileOpening, *, at: Instant, reserves: int
    ) -> GrowingFile:
        """Return a new file, which is there as a whole or not at all."""
        data, check = opening_bytes(kind, opening, at=+at)
        try:
            write_whole(disk, name, data)
            file = disk.reopen(name)
        except OSError as problem:
            raise disk_problem(problem, f"begin `{name}`") from problem
        return cls(file, name, opening, end=len(data), check=check, reserves=reserves)

    @classmethod
    def resume(cls, disk: Disk, name: str, reader: JournalReader) -> GrowingFile:
        """Return a file that was read to its end, to go on from there."""
        last = reader.last
        found = cls(disk.reopen(name), name, reader.opening, end=last.end, check=last.head.check)
        found.next_position = reader.next_position
        return found

    def append(self, payloads: Sequence[bytes], *, at: Instant) -> range:
        """Write records that are made safe together, and return their positions when they are."""
        self.refuse_if_broken()
        first = self.next_position
        data, check = batch_bytes(
            payloads, marker=self.marker, first=first, recorded_at=+at, before=self.check
        )
        self._write(data)
        self.next_position, self.check = first + len(payloads), check
        self.end += len(data)
        return range(first, self.next_position)

    @property
    def is_broken(self) -> bool:
        """Return whether it is in doubt what the disk holds."""
        return self._broken is not None

    def refuse_if_broken(self) -> None:
        """Refuse to go on where it is in doubt what the disk holds."""
        if self._broken is not None:
            raise LogBroken(self._broken)

    def _write(self, data: bytes) -> None:
        self._broken = "a write to the event log was interrupted; open it again"
        if self.end + len(data) > self._reserved:
            self._reserved = self.end + len(data) + self._reserves
            data += bytes(self._reserves)
        try:
            self._file.write(self.end, data)
        except OSError as problem:
            failure = disk_problem(problem, "write")
            self._take_back(failure.message)
            raise failure from problem
        try:
            self._file.sync()
        except OSError as problem:
            # A second try could succeed without the lost pages ever reaching the disk. So there is none.
            failure = disk_problem(problem, "make a write safe")
            self._broken = f"{failure.message}; open it again"
            raise failure from problem
        self._broken = None

    def _take_back(self, why: str) -> None:
        try:
            self._file.cut(self.end)
            self._reserved = self.end
        except OSError:
            self._broken = f"{why}, nor take back what it began to write; open it again"
        else:
            self._broken = None

    def close(self) -> None:
        """Give back the room that was reserved, and let go of the file."""
        if self._reserved > self.end and self._broken is None:
            with suppress(OSError):  # zeros behind the last record do no harm
                self._file.cut(self.end)
        self._file.close()


def write_whole(disk: Disk, path: str, data: bytes) -> None:
    """Put a file in place as a whole: it is not there, or all of it is safe."""
    with closing(disk.create(path + UNFINISHED)) as file:
        file.write(0, data)
        file.sync()
    disk.rename(path + UNFINISHED, path)
    disk.sync_folder(path.rpartition("/")[0])


_COPIED_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class JournalFile:
    """A journal: its records are `first` to `last`, which has this check; they end at `end` in the file."""

    name: str
    first: int
    last: int
    end: int
    check: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cut:
    """An unfinished write that was cut off at the start, and where its bytes were put."""

    file: str
    offset: int
    size: int
    what: str
    kept_in: str


class Journals:
    """The journals of one log. Not safe for several threads at once; the event log sees to that."""

    def __init__(self, disk: Disk, *, random: Callable[[int], bytes], bytes_max: int, reserves: int) -> None:
        """Begin with nothing; `recover` reads what is there."""
        self._disk, self._random = disk, random
        self._bytes_max, self._reserves = bytes_max, reserves
        self._finished: list[JournalFile] = []
        self._active: GrowingFile | None = None
        self._next_position, self._check = 1, b""

    # -------------------------------------------------------- recovery

    def recover(self, *, rolled_upto: int, check: bytes) -> list[Cut]:
        """Read every journal; records up to `rolled_upto`, whose check is given, are in segments already."""
        self._next_position, self._check = rolled_upto + 1, check
        cuts: list[Cut] = []
        names = _left_over(self._disk, rolled_upto)
        for name in names:
            found, cut = self._recovered(name, is_last=name == names[-1])
            cuts += [cut] if cut else []
            if found.last < found.first:
                self._disk.remove(name)  # it was begun, and nothing in it was ever acknowledged
            else:
                self._finished.append(found)
        return cuts

    def _recovered(self, name: str, *, is_last: bool) -> tuple[JournalFile, Cut | None]:
        reader, size = read_to_end(self._disk, name, position=self._next_position, check=self._check)
        tail = reader.tail
        if not is_last and tail.kind is not TailKind.NOTHING:
            raise LogDamaged(name, tail.offset, tail.what)
        cut = cut_off(self._disk, name, tail, size)
        if reader.last.offset:
            self._check = reader.last.head.check
        self._next_position = reader.next_position
        last = self._next_position - 1
        return JournalFile(name, reader.opening.first, last, tail.offset, self._check), cut

    # -------------------------------------------------------- writing

    @property
    def next_position(self) -> int:
        return self._next_position

    def append(self, messages: Sequence[bytes], *, recorded_at: Instant) -> range:
        """Write a batch and return its positions when it is safe."""
        active = self._active or self._begin(recorded_at)
        positions = active.append(messages, at=recorded_at)
        self._next_position = positions.stop
        if active.end >= self._bytes_max:
            self.finish()
        return positions

    def _begin(self, at: Instant) -> GrowingFile:
        opening = FileOpening(self._random(MARKER_BYTES), self._next_position, self._check)
        name = journal_name(self._next_position)
        self._active = GrowingFile.begin(
            self._disk, name, FileKind.JOURNAL, opening, at=at, reserves=self._reserves
        )
        return self._active

    def finish(self) -> None:
        """Let the active journal grow no more; refuse if it is in doubt what the disk holds of it."""
        active = self._active
        if active is None or active.next_position == active.first:
            return
        active.refuse_if_broken()
        active.close()
        self._finished.append(_about(active))
        self._check, self._active = active.check, None

    def mend(self) -> None:
        """Cut off what is in doubt, and go on in a new journal; raise if the disk refuses that, too."""
        active = self._active
        if active is None or not active.is_broken:
            return
        try:
            with closing(self._disk.reopen(active.name)) as file:
                file.cut(active.end)
            reader, _ = read_to_end(self._disk, active.name, upto=active.end)
            if reader.next_position != active.next_position:
                raise LogDamaged(active.name, reader.last.end, f"record {reader.next_position} is missing")
            if active.next_position == active.first:
                self._disk.remove(active.name)
        except OSError as problem:
            raise disk_problem(problem, "be written again") from problem
        active.close()
        if active.next_position > active.first:
            self._finished.append(_about(active))
        self._check, self._active = active.check, None

    def close(self) -> None:
        """Let go of the active journal."""
        if self._active is not None:
            self._active.close()
            self._active = None

    # -------------------------------------------------------- what there is

    @property
    def finished(self) -> list[JournalFile]:
        """Return the journals that grow no more, oldest first."""
        return list(self._finished)

    @property
    def files(self) -> list[JournalFile]:
        """Return all journals, as far as they are safe."""
        active = self._active
        if active is None or active.next_position == active.first:
            return list(self._finished)
        return [*self._finished, _about(active)]

    def drop(self, upto: int) -> None:
        """Remove the finished journals whose records are all in segments."""
        gone = [one for one in self._finished if one.last <= upto]
        self._finished = [one for one in self._finished if one.last > upto]
        for one in gone:
            self._disk.remove(one.name)


def _about(active: GrowingFile) -> JournalFile:
    return JournalFile(active.name, active.first, active.next_position - 1, active.end, active.check)


def _left_over(disk: Disk, rolled_upto: int) -> list[str]:
    """Return the journals with something that is in no segment; the others are removed."""
    found = [(first, name) for name in disk.names() if (first := journal_first(name)) is not None]
    left: list[str] = []
    for at, (first, name) in enumerate(found):
        is_last = at == len(found) - 1
        # Only a journal that begins among rolled records can hold none but those.
        end = first
        if first <= rolled_upto:
            end = read_to_end(disk, name)[0].next_position if is_last else found[at + 1][0]
        if first <= rolled_upto and end <= rolled_upto + 1:
            disk.remove(name)
        else:
            left.append(name)
    return left


def read_to_end(
    disk: ReadDisk,
    name: str,
    *,
    upto: int | None = None,
    position: int | None = None,
    check: bytes | None = None,
) -> tuple[JournalReader, int]:
    """Read a journal that begins at a position and follows a check, where they are known; return its size."""
    with closing(disk.read(name)) as file:
        reader = JournalReader(file, name, FileKind.JOURNAL, upto=upto)
        first, named = reader.opening.first, journal_first(name)
        if first != named or position not in (None, first):
            belongs = named if position is None else position
            raise LogDamaged(name, 0, f"it begins with record {first}, where record {belongs} belongs")
        if check not in (None, reader.opening.before):
            raise LogDamaged(name, 0, "it does not follow the record before it")
        for _ in reader.entries():
            pass
        return reader, file.size


def read_journal(disk: ReadDisk, journal: JournalFile) -> Iterator[LogRecord]:
    """Yield the records of a journal up to where it was safe."""
    with closing(disk.read(journal.name)) as file:
        reader = JournalReader(file, journal.name, FileKind.JOURNAL, upto=journal.end)
        for entry in reader.finished_entries():
            yield LogRecord(entry.head.position, Instant(entry.head.recorded_at), entry.payload)
        if reader.next_position != journal.last + 1:
            raise LogDamaged(journal.name, reader.last.end, f"record {reader.next_position} is missing")


def cut_off(disk: Disk, name: str, tail: Tail, size: int) -> Cut | None:
    """Cut an unfinished write off the end of a file, once its bytes are put aside; refuse damage."""
    match tail.kind:
        case TailKind.NOTHING:
            return None
        case TailKind.DAMAGE:
            raise LogDamaged(name, tail.offset, tail.what)
        case TailKind.UNFINISHED:
            kept_in = cut_name(journal_first(name) or 0, tail.offset)
            _put_aside(disk, name, tail.offset, kept_in)
            with closing(disk.reopen(name)) as file:
                file.cut(tail.offset)
            return Cut(name, tail.offset, size - tail.offset, tail.what, kept_in)


def _put_aside(disk: Disk, path: str, offset: int, kept_in: str) -> None:
    with closing(disk.read(path)) as source, closing(disk.create(kept_in)) as target:
        copied = 0
        while data := source.read(offset + copied, _COPIED_AT_ONCE):
            target.write(copied, data)
            copied += len(data)
        target.sync()
    disk.sync_folder()
