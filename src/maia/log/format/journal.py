"""Where does what was safely written end, and is what follows an unfinished write or damage?

Recovery asks at every start; reading, rolling and verifying ask of files that
are finished. A write that was under way when the power failed leaves a file
that ends early, or bytes that are still zero. Zeros to the end are room that
was reserved. Whatever else is not as it was written is
damage, and is named with its offset. When in doubt the answer is damage: what
was acknowledged is never taken for an unfinished write without a report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Final, Protocol

from maia.log.format.errors import LogDamaged
from maia.log.format.records import (
    CHECK_BYTES,
    END,
    HEAD_BYTES,
    MARKER_BYTES,
    NO_CHECK,
    RecordHead,
    check_of,
    read_head,
    record_bytes,
)

SECTOR: Final = 512
"""What a disk writes as a whole. Larger ones are multiples of it."""

_WINDOW: Final = 1 << 20
_FORM: Final = b"\x01"
_OPENING: Final = b"\x89maiaJ\r\n"
"""The marker of a file's first record, which tells the marker of all others."""

_POSITION_BYTES: Final = 8


class FileKind(Enum):
    """What a file of records is for."""

    JOURNAL = b"maia-journal"
    MANIFEST = b"maia-manifest"
    SNAPSHOT = b"maia-snapshot"
    """A manifest that is written once, as a whole."""


class ByteSource(Protocol):
    """A file that can be read at any place."""

    @property
    def size(self) -> int:
        """Return how many bytes there are."""
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes at `offset`: fewer than `length` only where the file ends."""
        ...


class TailKind(Enum):
    """What follows the last whole record."""

    NOTHING = "nothing"
    UNFINISHED = "an unfinished write"
    DAMAGE = "damage"


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the whole records end, and what is found there."""

    kind: TailKind
    offset: int
    what: str = ""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One whole record, with its place in the file."""

    head: RecordHead
    offset: int
    payload: bytes = field(repr=False)

    @property
    def end(self) -> int:
        """Return where the next record begins."""
        return self.offset + HEAD_BYTES + len(self.payload) + len(END)


# ------------------------------------------------------------ how a file begins


@dataclass(frozen=True, slots=True)
class FileOpening:
    """How a file begins: its marker, its first position, and the check of the record before that."""

    marker: bytes
    first: int
    before: bytes


def opening_bytes(kind: FileKind, opening: FileOpening, *, at: int) -> tuple[bytes, bytes]:
    """Return the beginning of a file, and the check that its first record is chained to."""
    first = opening.first.to_bytes(_POSITION_BYTES, "big")
    payload = b"".join((kind.value, _FORM, opening.marker, first, opening.before))
    head, check = record_bytes(payload, marker=_OPENING, position=0, recorded_at=at, batch=0, before=NO_CHECK)
    return head + payload + END, check


def _read_opening(payload: bytes, kind: FileKind) -> FileOpening | None:
    beginning = kind.value + _FORM
    rest = payload[len(beginning) :]
    if not payload.startswith(beginning) or len(rest) != MARKER_BYTES + _POSITION_BYTES + CHECK_BYTES:
        return None
    first = int.from_bytes(rest[MARKER_BYTES:-CHECK_BYTES], "big")
    return FileOpening(rest[:MARKER_BYTES], first, rest[-CHECK_BYTES:])


# ------------------------------------------------------------ reading


class JournalReader:
    """Reads a file's records in order. `tail` says what stopped it, once all were read."""

    __slots__ = ("_end", "_name", "_source", "_window", "_window_at", "last", "opening", "tail")

    def __init__(self, source: ByteSource, name: str, kind: FileKind, *, upto: int | None = None) -> None:
        """Read the opening; `upto` leaves out what lies behind it, because it is being written."""
        self._source, self._name = source, name
        self._end = source.size if upto is None else min(upto, source.size)
        self._window, self._window_at = b"", 0
        self.tail = Tail(TailKind.NOTHING, 0)
        self.last = self._first_entry()
        opening = _read_opening(self.last.payload, kind)
        if opening is None:
            raise LogDamaged(name, 0, f"it is no {kind.name.lower()} of a form that is known here")
        self.opening = opening

    def _first_entry(self) -> JournalEntry:
        head = read_head(self._read(0, HEAD_BYTES), _OPENING)
        if head is None or head.position != 0:
            raise LogDamaged(self._name, 0, "it does not begin as a file of records does")
        payload = self._read(HEAD_BYTES, head.length)
        ends = self._read(HEAD_BYTES + head.length, len(END)) == END
        if check_of(head.covered, payload, before=NO_CHECK) != head.check or not ends:
            raise LogDamaged(self._name, 0, "its beginning does not match its checksum")
        return JournalEntry(head, 0, payload)

    @property
    def next_position(self) -> int:
        """Return the position that follows the last record read."""
        return self.last.head.position + 1 if self.last.offset else self.opening.first

    def entries(self) -> Iterator[JournalEntry]:
        """Yield whole records until there are no more, and leave `tail` behind."""
        while True:
            entry = self._entry(self.last.end)
            if entry is None:
                self.tail = self._judged(self.last.end)
                return
            self.last = entry
            yield entry

    def finished_entries(self) -> Iterator[JournalEntry]:
        """Yield the records of a file that is complete; anything else in it is damage."""
        yield from self.entries()
        if self.tail.kind is not TailKind.NOTHING:
            raise LogDamaged(self._name, self.tail.offset, self.tail.what)

    def _entry(self, at: int) -> JournalEntry | None:
        head = self._head(at)
        if head is None or not self._follows(head):
            return None
        data = self._read(at + HEAD_BYTES, head.length + len(END))
        payload = data[: head.length]
        if data[head.length :] != END:
            return None
        if check_of(head.covered, payload, before=self.last.head.check) != head.check:
            return None
        return JournalEntry(head, at, payload)

    def _head(self, at: int) -> RecordHead | None:
        return read_head(self._read(at, HEAD_BYTES), self.opening.marker)

    def _follows(self, head: RecordHead) -> bool:
        """Return whether a record is the next one, in the batch of the last one or in its own."""
        expected = self.next_position
        return head.position == expected and head.batch in (self.last.head.batch or expected, expected)

    # -------------------------------------------------------- what follows the last whole record

    def _judged(self, at: int) -> Tail:
        if self._is_unwritten(at):
            return Tail(TailKind.NOTHING, at)
        if (later := self._later_batch(at)) is not None:
            what = f"this is no record, and a later batch follows at offset {later}"
            return Tail(TailKind.DAMAGE, at, what)
        data = self._read(at, HEAD_BYTES)
        if len(data) < HEAD_BYTES:
            return Tail(TailKind.UNFINISHED, at, "the file ends in the head of a record")
        head = read_head(data, self.opening.marker)
        if head is None:
            # No payload begins with a zero: if one follows, the write was cut short in the head.
            return self._judged_by_zeros(at, HEAD_BYTES + 1, "the head of a record is not as it was written")
        if not self._follows(head):
            return Tail(TailKind.DAMAGE, at, f"record {head.position} is where another belongs")
        length = HEAD_BYTES + head.length + len(END)
        if at + length > self._end:
            return Tail(TailKind.UNFINISHED, at, "the file ends in a record")
        what = f"record {head.position} does not match its checksum"
        return self._judged_by_zeros(at, length, what)

    def _is_unwritten(self, at: int) -> bool:
        """Return whether there is nothing but the zeros of room that was reserved."""
        while data := self._read(at, _WINDOW):
            if any(data):
                return False
            at += len(data)
        return True

    def _judged_by_zeros(self, at: int, length: int, what: str) -> Tail:
        """Take bytes for an unfinished write if their end or a sector was never written; else for damage."""
        data = self._read(at, length)
        until_sector = -at % SECTOR or SECTOR
        bounds = [0, *range(until_sector, len(data), SECTOR), len(data)]
        never_written = not data[length - 1 :].strip(b"\0") or any(
            not any(data[start:end]) for start, end in pairwise(bounds)
        )
        return Tail(TailKind.UNFINISHED if never_written else TailKind.DAMAGE, at, what)

    def _later_batch(self, at: int) -> int | None:
        """Return where a record of a later batch begins, if there is one: everything before it was safe."""
        unsafe_batch = self.next_position
        found = self._find(self.opening.marker, at)
        while found is not None:
            head = self._head(found)
            if head is not None and head.batch > unsafe_batch:
                return found
            found = self._find(self.opening.marker, found + 1)
        return None

    def _find(self, needle: bytes, at: int) -> int | None:
        while at + len(needle) <= self._end:
            data = self._read(at, _WINDOW)
            place = data.find(needle)
            if place >= 0:
                return at + place
            if len(data) < len(needle):
                return None
            at += len(data) - len(needle) + 1
        return None

    def _read(self, at: int, length: int) -> bytes:
        """Return bytes of the file, through a window, so that small records cost no call each."""
        length = max(0, min(length, self._end - at))
        start = at - self._window_at
        if start >= 0 and start + length <= len(self._window):
            return self._window[start : start + length]
        wanted = min(max(length, _WINDOW), self._end - at)
        self._window, self._window_at = self._source.read(at, wanted), at
        return self._window[:length]
