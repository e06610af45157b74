"""How does a ledger of disclosures get to the disk, and how is it read and verified there?

A broker hands over what it is about to deliver. It is with the operating system before
anything is sent, so a broker that is killed has delivered nothing that is not on record; the
disk follows within a second. What was being written when the process ended was not sent,
and is cut off at the next start.

A file begins with a mark, how many entries are in the files before it, and the check of the last of
them. Then entries: their length in four bytes, their bytes, their check in 32.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from maia.errors import BadInput, Unavailable
from maia.ledger.records import (
    CHECK_BYTES,
    ENTRY_BYTES_MAX,
    Disclosure,
    LedgerReader,
    check_after,
    records_from_bytes,
)
from maia.private_files import exposure, make_private_folder, sync_folder
from maia.wire.effects import Disclose

SUFFIX: Final = ".ledger"
_MARK: Final = b"\x89maiaD\r\n\x01"
_COUNT_BYTES: Final = 8
_HEADER_BYTES: Final = len(_MARK) + _COUNT_BYTES + CHECK_BYTES
_LENGTH_BYTES: Final = 4
_NOTHING_BEFORE: Final = bytes(CHECK_BYTES)


class LedgerUnavailable(Unavailable):
    """Deliveries cannot be put on record, so nothing is delivered."""

    code = "UNAVAILABLE-LEDGER"


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """How far a ledger has come: how many entries there are, and the check of the last one."""

    entries: int
    check: bytes


class LedgerFiles:
    """The ledger that one broker writes."""

    def __init__(self, folder: Path) -> None:
        """Go on behind what is in `folder`, which is made if need be; its last file is verified first.

        To verify all of it is for `maia ledger verify`: a start does not wait for years of deliveries.
        """
        self._folder = folder
        try:
            make_private_folder(folder)
            exposed = exposure(folder)
            if exposed is not None:
                raise LedgerUnavailable(f"no ledger can be kept: {exposed}")
            if files := _files(folder):
                _cut_off_unfinished(files[-1])
            files = _files(folder)  # the last one is gone if not even its header was whole
            self.head = _last_head(files)
        except OSError as problem:
            raise _unavailable(folder, problem) from problem
        self._number = int(files[-1].stem) if files else 0
        self._file: int | None = None
        self._is_synced = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.close()

    def write(self, entries: Sequence[Disclose], /) -> None:
        """Add entries; with the operating system on return, whatever becomes of this process."""
        together, head = bytearray(), self.head
        try:
            for entry in entries:
                if entry.begins or self._file is None:
                    self._append(together, head)
                    self._begin_file()
                    together = bytearray()
                head = LedgerHead(head.entries + 1, check_after(head.check, entry.data))
                together += len(entry.data).to_bytes(_LENGTH_BYTES, "big") + entry.data + head.check
            self._append(together, head)
        except OSError as problem:
            raise _unavailable(self._folder, problem) from problem

    def _append(self, data: bytearray, head: LedgerHead) -> None:
        if data and self._file is not None:
            _write_whole(self._file, data)
            self.head, self._is_synced = head, False

    def sync(self) -> None:
        """Return when everything that was written is on the disk."""
        if self._is_synced or self._file is None:
            return
        self._is_synced = True  # what is written meanwhile says that there is more to do
        try:
            os.fdatasync(self._file)
        except OSError as problem:
            raise _unavailable(self._folder, problem) from problem

    def close(self) -> None:
        """Synchronise and let go of the file."""
        if self._file is not None:
            self.sync()
            os.close(self._file)
            self._file = None

    def closed(self) -> list[Path]:
        """Return the files to which nothing is added any more; each start begins another one."""
        number = self._number if self._file is None else self._number - 1
        return [path for path in _files(self._folder) if int(path.stem) <= number]

    def _begin_file(self) -> None:
        self.close()
        path = self._folder / f"{self._number + 1:08d}{SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(path, flags, 0o600)
        try:
            _write_whole(file, _header(self.head))
            os.fsync(file)
            sync_folder(self._folder)
        except OSError:  # a file without a whole header is no part of the ledger
            os.close(file)
            path.unlink()
            raise
        self._file, self._number = file, self._number + 1


def read_ledger(folder: Path, reader: LedgerReader) -> Iterator[Disclosure]:
    """Yield as `disclosures_in`; the `reader` knows afterwards what recipients may read by themselves."""
    for _head, entry in _entries(_begun(folder)):
        yield from reader.read(records_from_bytes(entry))


@dataclass(frozen=True, slots=True)
class LedgerVerification:
    """What was found in a ledger that is whole."""

    head: LedgerHead
    deliveries: int
    earlier: LedgerHead | None
    """Where the head is that was looked for, if it is in the ledger."""


def verify_ledger(folder: Path, earlier: bytes | None = None) -> LedgerVerification:
    """Read every entry and compare every check, and look for an `earlier` head; raise if a check is wrong."""
    last, deliveries, reader = LedgerHead(0, _NOTHING_BEFORE), 0, LedgerReader()
    found = last if earlier == last.check else None
    for head, entry in _entries(_begun(folder) if earlier is None else _files(folder)):
        last, deliveries = head, deliveries + sum(1 for _ in reader.read(records_from_bytes(entry)))
        if head.check == earlier:
            found = head
    return LedgerVerification(last, deliveries, found)


def missing_heads(folder: Path, stated: Iterable[LedgerHead]) -> list[LedgerHead]:
    """Return the heads that a ledger once had and does not lead through: it was cut or written anew."""
    waiting = set(stated)
    waiting.discard(LedgerHead(0, _NOTHING_BEFORE))
    for head, _entry in _entries(_files(folder)):
        waiting.discard(head)
    return sorted(waiting, key=lambda one: one.entries)


def disclosures_in(folder: Path) -> Iterator[Disclosure]:
    """Yield everything that was delivered, in order, one for each recipient; verified as it is read."""
    reader = LedgerReader()
    for _head, entry in _entries(_files(folder)):
        yield from reader.read(records_from_bytes(entry))


def disclosures_of(path: Path) -> Iterator[Disclosure]:
    """Yield what one file of a ledger says, verified in itself: numbers begin anew in each file."""
    reader = LedgerReader()
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    for _head, entry in _entries([path], _head_before(header)):
        yield from reader.read(records_from_bytes(entry))


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise BadInput("INPUT-LEDGER", f"there is no ledger in `{folder}`")
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal())


def _begun(folder: Path) -> list[Path]:
    """Return the files of a ledger with at least one: an account of nothing is not one that is whole."""
    files = _files(folder)
    if not files:
        raise BadInput(
            "INPUT-LEDGER",
            f"there is no ledger in `{folder}`: it has no `*{SUFFIX}` file, which a broker with "
            "`ledger.folder` begins with its first delivery",
        )
    return files


def _entries(files: Sequence[Path], head: LedgerHead | None = None) -> Iterator[tuple[LedgerHead, bytes]]:
    """Yield the entries of files that follow `head`, each with the head that it makes."""
    head = head or LedgerHead(0, _NOTHING_BEFORE)
    for path in files:
        with path.open("rb") as file:
            header, expected = file.read(_HEADER_BYTES), _header(head)
            if header != expected:
                if path == files[-1] and expected.startswith(header):
                    return  # its writer is at work, or was killed before it wrote anything
                raise BadInput(
                    "INPUT-LEDGER",
                    f"`{path.name}` does not follow the file before it: a part is missing or new",
                )
            while length := file.read(_LENGTH_BYTES):
                size = int.from_bytes(length, "big")
                if size > ENTRY_BYTES_MAX:
                    raise BadInput("INPUT-LEDGER", f"entry {head.entries + 1}, in `{path.name}`, is too long")
                entry, check = file.read(size), file.read(CHECK_BYTES)
                if len(check) < CHECK_BYTES:
                    if path != files[-1]:
                        raise BadInput(
                            "INPUT-LEDGER", f"`{path.name}` was cut off after entry {head.entries}"
                        )
                    return  # its writer is at work, or was killed before it sent this
                head = LedgerHead(head.entries + 1, check_after(head.check, entry))
                if check != head.check:
                    raise BadInput(
                        "INPUT-LEDGER", f"entry {head.entries}, in `{path.name}`, is not as it was written"
                    )
                yield head, entry


def _write_whole(file: int, data: bytes | bytearray) -> None:
    """Append all of some bytes or none of them: what comes later must not stand behind a part."""
    written = os.write(file, data)
    if written != len(data):
        os.ftruncate(file, os.fstat(file).st_size - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _header(before: LedgerHead) -> bytes:
    return _MARK + before.entries.to_bytes(_COUNT_BYTES, "big") + before.check


def _head_before(header: bytes) -> LedgerHead:
    """Return the head of the files before one, as its header states it."""
    count, check = header[len(_MARK) : -CHECK_BYTES], header[-CHECK_BYTES:]
    return LedgerHead(int.from_bytes(count, "big"), check)


def _last_head(files: Sequence[Path]) -> LedgerHead:
    if not files:
        return LedgerHead(0, _NOTHING_BEFORE)
    with files[-1].open("rb") as file:
        head = _head_before(file.read(_HEADER_BYTES))
    for found, _entry in _entries(files[-1:], head):
        head = found
    return head


def _cut_off_unfinished(path: Path) -> None:
    """Remove what was being written when the process ended: nothing of it was sent."""
    with path.open("r+b") as file:
        whole = size = file.seek(0, os.SEEK_END)
        if size < _HEADER_BYTES:
            file.close()
            path.unlink()
            return
        at = file.seek(_HEADER_BYTES)
        while length := file.read(_LENGTH_BYTES):
            end = at + _LENGTH_BYTES + int.from_bytes(length, "big") + CHECK_BYTES
            if len(length) < _LENGTH_BYTES or end > size:
                whole = at
                break
            at = file.seek(end)
        if whole < size:
            file.truncate(whole)
            os.fsync(file.fileno())


def _unavailable(folder: Path, problem: OSError) -> LedgerUnavailable:
    return LedgerUnavailable(f"`{folder}` cannot hold the ledger: {problem.strerror or problem}")
