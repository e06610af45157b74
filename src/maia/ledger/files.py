"""How does a ledger of disclosures get to the disk, and how is it read and verified there?

A broker hands over what it is about to deliver. It is with the operating system before
anything is sent, so a broker that is killed has delivered nothing that is not on record; the
disk follows within a second. What was being written when the process ended was not sent,
and is cut off at the next start.

The tasks of a job that reads a log write parts: one whole file each, under a name that is made of what it
says, so that a task that runs twice writes one. They are with the operating system before the rows are
handed out, too. The process that started the job chains them (`chain_parts`); until then they count, and
`maia ledger verify` says how many there are.

A file begins with a mark, how many entries are in the files before it, and the check of the last of
them. Then entries: their length in four bytes, their bytes, their check in 32.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self, TypeAlias
from uuid import uuid4

from maia.errors import BadInput, Unavailable
from maia.ledger.records import (
    CHECK_BYTES,
    ENTRY_BYTES_MAX,
    Disclosure,
    LedgerReader,
    LedgerRecord,
    Part,
    check_after,
    records_from_bytes,
    records_to_bytes,
)
from maia.places import AlreadyThere, Place, place_of
from maia.private_files import create_private, exposure, make_private_folder, sync_folder
from maia.wire.effects import Disclose

LedgerFolder: TypeAlias = Path | Place
"""A folder, or, of a ledger of reads, an object store; made by `ledger_at`."""
SUFFIX: Final = ".ledger"
_PARTS: Final = "reads"
_PART_NAME: Final = re.compile(rf"{_PARTS}/[0-9a-z-]{{1,128}}/[0-9a-f]{{64}}\.part", re.ASCII)
_PARTS_AT_ONCE: Final = 4096
"""Parts that one entry names."""
_AT_A_TIME: Final = 16
"""Parts that are read at a time."""
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
                _cut_off_unfinished(folder / files[-1])
            files = _files(folder)  # the last one is gone if not even its header was whole
            self.head = _last_head(folder, files)
        except OSError as problem:
            raise _unavailable(folder, problem) from problem
        self._number = int(files[-1].removesuffix(SUFFIX)) if files else 0
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
        files = (self._folder / name for name in _files(self._folder))
        return [path for path in files if int(path.stem) <= number]

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


# ------------------------------------------------------------ parts, which tasks write


def ledger_at(given: str | os.PathLike[str]) -> LedgerFolder:
    """Return where a ledger of reads is: a folder of this machine, or a place in an object store."""
    place = place_of(given)
    return place if place.local is None else place.local


def write_part(ledger: LedgerFolder, read: str, records: Sequence[LedgerRecord], timeless: bytes) -> None:
    """Write what a task of a read has shown, unless another attempt at it has.

    `timeless` are the same records as bytes, without the moments at which they were written.
    """
    name = f"{_PARTS}/{read}/{sha256(timeless).hexdigest()}.part"
    if isinstance(ledger, Place):
        with suppress(AlreadyThere):
            ledger.create(name, records_to_bytes(records))
        return
    path = ledger / name
    beside = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        if path.exists():
            return
        make_private_folder(path.parent)
        # Not waited for until it is on the disk, as no delivery of a broker is.
        with create_private(beside) as file:
            file.write(records_to_bytes(records))
        with suppress(FileExistsError):
            os.link(beside, path)
        beside.unlink()
    except OSError as problem:
        raise _unavailable(ledger, problem) from problem


def chain_parts(ledger: LedgerFolder) -> int:
    """Name every part in the chain that is in no entry yet; return how many these were.

    Several processes may do so at a time: each file of the chain is made whole, by one of them.
    """
    count = 0
    while waiting := unchained_parts(ledger)[:_PARTS_AT_ONCE]:
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            checks = list(pool.map(lambda name: sha256(_read(ledger, name)).digest(), waiting))
        entry = records_to_bytes([Part(*one) for one in zip(waiting, checks, strict=True)])
        with suppress(AlreadyThere):
            _add_file(ledger, entry)
            count += len(waiting)
    return count


def _add_file(ledger: LedgerFolder, entry: bytes) -> None:
    """Add one file with one entry to a chain; raise if another process has added one meanwhile."""
    if isinstance(ledger, Path):
        make_private_folder(ledger)
        if (exposed := exposure(ledger)) is not None:
            raise LedgerUnavailable(f"no ledger can be kept: {exposed}")
        if files := _files(ledger):
            _cut_off_unfinished(ledger / files[-1])
    files = _files(ledger)
    head = _last_head(ledger, files)
    number = int(files[-1].removesuffix(SUFFIX)) + 1 if files else 1
    whole = _header(head) + len(entry).to_bytes(_LENGTH_BYTES, "big") + entry + check_after(head.check, entry)
    place_of(str(ledger)).create(f"{number:08d}{SUFFIX}", whole)


def unchained_parts(ledger: LedgerFolder) -> list[str]:
    """Return the parts that tasks wrote and the chain does not name: of jobs that run, or were killed."""
    if isinstance(ledger, Path):
        found = {path.relative_to(ledger).as_posix() for path in (ledger / _PARTS).glob("*/*.part")}
    else:
        found = {one.path for one in ledger.listed(_PARTS, is_deep=True) if _PART_NAME.fullmatch(one.path)}
    if found:
        for _head, entry in _entries(ledger, _files(ledger)):
            found.difference_update(one.name for one in records_from_bytes(entry) if isinstance(one, Part))
    return sorted(found)


def _read(ledger: LedgerFolder, name: str) -> bytes:
    with _opened(ledger, name) as file:
        data: bytes = file.read(ENTRY_BYTES_MAX + 1)
        return data


# Any: Arrow's files have no type.
def _opened(ledger: LedgerFolder, name: str) -> Any:
    return (ledger / name).open("rb") if isinstance(ledger, Path) else ledger.open(name)


def _told(
    folder: LedgerFolder, records: Iterable[LedgerRecord], reader: LedgerReader
) -> Iterator[Disclosure]:
    """Yield what records say, those in parts included."""
    for record in records:
        if isinstance(record, Part):
            yield from _told_in_part(folder, record.name, record.check)
        else:
            yield from reader.read([record])


def _told_in_part(folder: LedgerFolder, name: str, check: bytes | None = None) -> Iterator[Disclosure]:
    if _PART_NAME.fullmatch(name) is None:
        raise BadInput("INPUT-LEDGER", "a part has a name that no reader gives it")
    try:
        data = _read(folder, name)
    except OSError as problem:
        raise BadInput("INPUT-LEDGER", f"`{name}` cannot be read: {problem.strerror}") from problem
    if check is not None and sha256(data).digest() != check:
        raise BadInput("INPUT-LEDGER", f"`{name}` is not as it was written")
    yield from LedgerReader().read(records_from_bytes(data))


def _all_told(folder: LedgerFolder, files: Sequence[str], reader: LedgerReader) -> Iterator[Disclosure]:
    """Yield what a ledger says: the chain, and then the parts that are not in it yet."""
    for _head, entry in _entries(folder, files):
        yield from _told(folder, records_from_bytes(entry), reader)
    for name in unchained_parts(folder):
        yield from _told_in_part(folder, name)


# ------------------------------------------------------------ reading


def read_ledger(folder: LedgerFolder, reader: LedgerReader) -> Iterator[Disclosure]:
    """Yield as `disclosures_in`; the `reader` knows afterwards what recipients may read by themselves."""
    yield from _all_told(folder, _begun(folder), reader)


@dataclass(frozen=True, slots=True)
class LedgerVerification:
    """What was found in a ledger that is whole."""

    head: LedgerHead
    deliveries: int
    earlier: LedgerHead | None
    """Where the head is that was looked for, if it is in the ledger."""
    unchained: int = 0
    """Parts that no entry names yet; what they say is among the deliveries."""


def verify_ledger(folder: LedgerFolder, earlier: bytes | None = None) -> LedgerVerification:
    """Read every entry and compare every check, and look for an `earlier` head; raise if a check is wrong."""
    last, deliveries, reader = LedgerHead(0, _NOTHING_BEFORE), 0, LedgerReader()
    found = last if earlier == last.check else None
    for head, entry in _entries(folder, _begun(folder) if earlier is None else _files(folder)):
        last, deliveries = head, deliveries + _count(_told(folder, records_from_bytes(entry), reader))
        if head.check == earlier:
            found = head
    waiting = unchained_parts(folder)
    deliveries += sum(_count(_told_in_part(folder, name)) for name in waiting)
    return LedgerVerification(last, deliveries, found, len(waiting))


def _count(found: Iterable[Disclosure]) -> int:
    return sum(1 for _ in found)


def missing_heads(folder: LedgerFolder, stated: Iterable[LedgerHead]) -> list[LedgerHead]:
    """Return the heads that a ledger once had and does not lead through: it was cut or written anew."""
    waiting = set(stated)
    waiting.discard(LedgerHead(0, _NOTHING_BEFORE))
    for head, _entry in _entries(folder, _files(folder)):
        waiting.discard(head)
    return sorted(waiting, key=lambda one: one.entries)


def disclosures_in(folder: LedgerFolder) -> Iterator[Disclosure]:
    """Yield everything that was delivered, in order, one for each recipient; verified as it is read."""
    yield from _all_told(folder, _files(folder), LedgerReader())


def disclosures_of(path: Path) -> Iterator[Disclosure]:
    """Yield what one file of a ledger says, verified in itself: numbers begin anew in each file."""
    reader = LedgerReader()
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    for _head, entry in _entries(path.parent, [path.name], _head_before(header)):
        yield from _told(path.parent, records_from_bytes(entry), reader)


def _files(folder: LedgerFolder) -> list[str]:
    """Return the names of the files of a chain, in order."""
    if isinstance(folder, Place):
        names = [one.name for one in folder.listed()]
    elif folder.is_dir():
        names = [path.name for path in folder.glob(f"*{SUFFIX}")]
    else:
        raise BadInput("INPUT-LEDGER", f"there is no ledger in `{folder}`")
    return sorted(one for one in names if one.endswith(SUFFIX) and one.removesuffix(SUFFIX).isdecimal())


def _begun(folder: LedgerFolder) -> list[str]:
    """Return the files of a ledger with at least one: an account of nothing is not one that is whole."""
    files = _files(folder)
    if not files and not unchained_parts(folder):
        raise BadInput(
            "INPUT-LEDGER",
            f"there is no ledger in `{folder}`: it has no `*{SUFFIX}` file, which a broker with "
            "`ledger.folder` begins with its first delivery",
        )
    return files


def _entries(
    folder: LedgerFolder, files: Sequence[str], head: LedgerHead | None = None
) -> Iterator[tuple[LedgerHead, bytes]]:
    """Yield the entries of files that follow `head`, each with the head that it makes."""
    head = head or LedgerHead(0, _NOTHING_BEFORE)
    for name in files:
        with _opened(folder, name) as file:
            header, expected = file.read(_HEADER_BYTES), _header(head)
            if header != expected:
                if name == files[-1] and expected.startswith(header):
                    return  # its writer is at work, or was killed before it wrote anything
                raise BadInput(
                    "INPUT-LEDGER",
                    f"`{name}` does not follow the file before it: a part is missing or new",
                )
            while length := file.read(_LENGTH_BYTES):
                size = int.from_bytes(length, "big")
                if size > ENTRY_BYTES_MAX:
                    raise BadInput("INPUT-LEDGER", f"entry {head.entries + 1}, in `{name}`, is too long")
                entry, check = file.read(size), file.read(CHECK_BYTES)
                if len(check) < CHECK_BYTES:
                    if name != files[-1]:
                        raise BadInput("INPUT-LEDGER", f"`{name}` was cut off after entry {head.entries}")
                    return  # its writer is at work, or was killed before it sent this
                head = LedgerHead(head.entries + 1, check_after(head.check, entry))
                if check != head.check:
                    raise BadInput(
                        "INPUT-LEDGER", f"entry {head.entries}, in `{name}`, is not as it was written"
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


def _last_head(folder: LedgerFolder, files: Sequence[str]) -> LedgerHead:
    if not files:
        return LedgerHead(0, _NOTHING_BEFORE)
    with _opened(folder, files[-1]) as file:
        head = _head_before(file.read(_HEADER_BYTES))
    for found, _entry in _entries(folder, files[-1:], head):
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
