"""How does a file of records grow, and what happens when the disk refuses?

Journals and manifests grow this way. `append` returns when its records are
safe. If they cannot be written they are taken back, and the next attempt may
succeed; if it is in doubt what the disk holds, nothing more is written until
the log is opened again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress

from maia.events import Instant
from maia.log.disk.files import AppendFile, Disk, disk_problem
from maia.log.format.errors import LogBroken
from maia.log.format.journal import JournalReader, Kind, Opening, opening_bytes
from maia.log.format.names import UNFINISHED
from maia.log.format.records import batch_bytes


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
        self, file: AppendFile, name: str, opening: Opening, *, end: int, check: bytes, reserves: int = 0
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
        cls, disk: Disk, name: str, kind: Kind, opening: Opening, *, at: Instant, reserves: int
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

    def refuse_if_broken(self) -> None:
        """Refuse to go on where it is in doubt what the disk holds."""
        if self._broken is not None:
            raise LogBroken(self._broken)

    def _write(self, data: bytes) -> None:
        self._broken = "a write to the event log was interrupted; open it again"
        try:
            self._file.write(self.end, data + self._room_after(len(data)))
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

    def _room_after(self, length: int) -> bytes:
        """Return zeros to reserve room behind so many bytes, if they need more than there is."""
        if self.end + length <= self._reserved:
            return b""
        self._reserved = self.end + length + self._reserves
        return bytes(self._reserves)

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
