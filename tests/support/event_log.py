"""A disk that forgets what was not made safe, and frames to record on it.

`PowerDisk` keeps two versions of everything: what a process sees, and what is
safe. `after_power_cut` returns a disk as it may look when the power comes back:
what was safe, and any part of the rest, by sectors, with zeros where a sector
never arrived.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from maia.errors import Unavailable
from maia.events import Instant
from maia.log import LogDamaged, LogRecord
from maia.log.disk.event_log import EventLog, LogLimits
from maia.wire import encode
from maia.wire.messages import Carried, Column, Sealed, SealedColumn, SealMark


def draws(seed: int) -> Random:
    """Return a source of chance that a test can repeat."""
    return Random(seed)  # noqa: S311 - test cases, not secrets


NOON = Instant.parse("2026-11-15T12:00:00Z")
FOLDER = Path("nowhere")
SECTOR = 512
PLATES, NOISE = b"\xaf" * 32, b"\xcf" * 32
SMALL = LogLimits(journal_bytes=6000, reserved_bytes=1300, segment_bytes=1 << 20)
DAY_US = 86_400 * 1_000_000


# ------------------------------------------------------------ frames


def carried(number: int, *, type_id: bytes = PLATES, size: int = 40, day: int = 0) -> bytes:
    """Return the bytes of a plain frame, all different, without a sector of zeros in them."""
    filling = draws(number).randbytes(size)
    columns = [Column("3265", 1, filling), Column("level", 2, b"")]
    at = NOON + number + day * DAY_US
    return encode(Carried(type_id, b"p" * 32, b"s" * 16, number, at, 3, [], columns))


def sealed(number: int, *, type_id: bytes = PLATES, level: int = 2) -> bytes:
    """Return the bytes of something that looks like a sealed frame."""
    draw = draws(number)
    uids = ["3265", "77"] if level == 2 else [""]
    known = {
        "type_id": type_id,
        "publisher": b"p" * 32,
        "signer": b"b" * 32,
        "stream": b"s" * 16,
        "sequence": number,
        "published_at": NOON + number,
        "level": level,
        "epoch": 7,
        "rows": 256,
        "is_committed": True,
        "kept": [1, 5, 300],
        "mark": SealMark(draw.randbytes(16), number),
        "columns": [SealedColumn(uid, draw.randbytes(64), draw.randbytes(32)) for uid in uids],
        "signature": draw.randbytes(64),
        "place": 3,
        "path": [draw.randbytes(32)],
    }
    return encode(Sealed(**known))


# ------------------------------------------------------------ the disk


class PowerCut(BaseException):
    """The power has gone: nothing of the process goes on."""


@dataclass(slots=True)
class _File:
    """What a process sees of a file, and what of it is safe."""

    seen: bytearray = field(default_factory=bytearray)
    safe: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class _Names:
    """The names in a folder: what is seen, what is safe, and what was changed in between."""

    seen: dict[str, _File] = field(default_factory=dict)
    safe: dict[str, _File] = field(default_factory=dict)
    changes: list[tuple[str, _File | None]] = field(default_factory=list)

    def put(self, name: str, file: _File | None) -> None:
        self.changes.append((name, file))
        _put(self.seen, name, file)


def _put(names: dict[str, _File], name: str, file: _File | None) -> None:
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file


class PowerDisk:
    """A disk in memory. `cut_at` is the number of the step at which the power goes."""

    def __init__(self, *, cut_at: int | None = None, random: Random | None = None) -> None:
        self.folders: dict[str, _Names] = {"": _Names()}
        self.steps = 0
        self.cut_at = cut_at
        self.random = random or draws(0)
        self.room: int | None = None
        self.fails_to_sync = False
        self.fails_to_cut = False
        self.is_locked = False

    # -------------------------------------------------------- what the log asks

    def lock(self) -> None:
        if self.is_locked:
            raise Unavailable("LOG-IN-USE", "locked")
        self.is_locked = True

    def close(self) -> None:
        self.is_locked = False

    def names(self, folder: str = "") -> list[str]:
        files = self.folders[folder].seen if folder in self.folders else {}
        start = f"{folder}/" if folder else ""
        inside = (path.removeprefix(start) for path in self.folders if path and path.startswith(start))
        return sorted({*files, *(path.split("/")[0] for path in inside if path != folder)})

    def make_folder(self, path: str) -> None:
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            self.folders.setdefault("/".join(parts[:count]), _Names())

    def create(self, path: str) -> _Appending:
        self.step()
        file = _File()
        self._folder(path).put(path.rpartition("/")[2], file)
        return _Appending(self, file)

    def reopen(self, path: str) -> _Appending:
        return _Appending(self, self._file(path))

    def read(self, path: str) -> _Reading:
        return _Reading(self._file(path).seen)

    def rename(self, old: str, new: str) -> None:
        self.step()
        file = self._file(old)
        self._folder(old).put(old.rpartition("/")[2], None)
        self._folder(new).put(new.rpartition("/")[2], file)

    def remove(self, path: str) -> None:
        self.step()
        name = path.rpartition("/")[2]
        if path.rpartition("/")[0] in self.folders and name in self._folder(path).seen:
            self._folder(path).put(name, None)

    def sync_folder(self, path: str = "") -> None:
        self.step()
        names = self.folders[path]
        names.safe, names.changes = dict(names.seen), []

    # -------------------------------------------------------- what goes wrong

    def step(self) -> bool:
        """Count one step; the power goes before it happens."""
        self.steps += 1
        if self.cut_at is not None and self.steps >= self.cut_at:
            raise PowerCut
        return True

    def after_power_cut(self, random: Random) -> PowerDisk:
        """Return the disk as it may be found: what was safe, and some of the rest."""
        found = PowerDisk(random=random)
        files: dict[int, _File] = {}
        for folder, names in self.folders.items():
            kept = dict(names.safe)
            for name, file in names.changes[: random.randint(0, len(names.changes))]:
                _put(kept, name, file)
            new = _Names()
            for name, file in kept.items():
                new.seen[name] = files.setdefault(id(file), _left_of(file, random))
            new.safe = dict(new.seen)
            found.folders[folder] = new
        return found

    def paths(self) -> list[str]:
        """Return the paths of all files."""
        return [
            f"{folder}/{name}" if folder else name for folder, n in self.folders.items() for name in n.seen
        ]

    def bytes_of(self, path: str) -> bytearray:
        """Return the bytes of a file, to be spoiled."""
        return self._file(path).seen

    def copy(self) -> PowerDisk:
        """Return the same disk again, with everything safe and nothing locked."""
        found = PowerDisk()
        for folder, names in self.folders.items():
            new = _Names(
                {name: _File(bytearray(f.seen), bytearray(f.seen)) for name, f in names.seen.items()}
            )
            new.safe = dict(new.seen)
            found.folders[folder] = new
        return found

    def _folder(self, path: str) -> _Names:
        return self.folders[path.rpartition("/")[0]]

    def _file(self, path: str) -> _File:
        folder, _, name = path.rpartition("/")
        if folder not in self.folders or name not in self.folders[folder].seen:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self.folders[folder].seen[name]


def _left_of(file: _File, random: Random) -> _File:
    """Return a file of which any sectors that were not safe have arrived, or not."""
    safe, seen = len(file.safe), len(file.seen)
    if seen < safe:
        left = bytearray(random.choice((file.safe, file.seen)))
        return _File(left, bytearray(left))
    size = random.choice((safe, seen, random.randint(safe, seen)))
    left = file.safe + bytes(size - safe)
    all_arrive = random.random() < 0.3
    for start in range(0, size, SECTOR):
        if all_arrive or random.random() < 0.5:
            left[start : start + SECTOR] = file.seen[start : min(start + SECTOR, size)]
    return _File(left, bytearray(left))


class _Appending:
    def __init__(self, disk: PowerDisk, file: _File) -> None:
        self._disk, self._file = disk, file

    def write(self, offset: int, data: bytes) -> None:
        assert offset <= len(self._file.seen)
        try:
            self._disk.step()
        except PowerCut:
            self._put(offset, data[: self._disk.random.randint(0, len(data))])
            raise
        more = max(0, offset + len(data) - len(self._file.seen))
        if self._disk.room is not None and more > self._disk.room:
            self._put(offset, data[: len(data) - more + self._disk.room])
            self._disk.room = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._put(offset, data)
        if self._disk.room is not None:
            self._disk.room -= more

    def _put(self, offset: int, data: bytes) -> None:
        self._file.seen[offset : offset + len(data)] = data

    def sync(self) -> None:
        self._disk.step()
        if self._disk.fails_to_sync:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._file.safe = bytearray(self._file.seen)

    def cut(self, size: int) -> None:
        if self._disk.fails_to_cut:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        del self._file.seen[size:]
        self._disk.step()
        self._file.safe = bytearray(self._file.seen)

    def close(self) -> None:
        pass


class _Reading:
    def __init__(self, data: bytearray) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._data[offset : offset + length])

    def close(self) -> None:
        pass


# ------------------------------------------------------------ logs on it


def markers(random: Random) -> Callable[[int], bytes]:
    """Return a source of random bytes that a test can repeat."""
    return random.randbytes


def opened(disk: PowerDisk, *, limits: LogLimits = SMALL, seed: int = 1) -> EventLog:
    """Open a log on a disk of the test's own."""
    return EventLog.open(FOLDER, disk=disk, limits=limits, now=NOON, random=markers(draws(seed)))


@dataclass(slots=True)
class Recorder:
    """Records frames on a disk and remembers which were acknowledged, and which were on their way."""

    disk: PowerDisk
    acknowledged: list[bytes] = field(default_factory=list)
    on_their_way: list[bytes] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    number: int = 0

    def append(self, log: EventLog, count: int, *, size: int = 40) -> None:
        """Append a batch of new frames."""
        batch = []
        for _ in range(count):
            self.number += 1
            kind = PLATES if self.number % 3 else NOISE
            batch.append(carried(self.number, type_id=kind, size=size, day=self.number % 2))
        self.on_their_way = batch
        self.sent += batch
        log.append(batch, recorded_at=Instant(NOON + self.number))
        self.acknowledged += batch
        self.on_their_way = []

    def play(self, script: Sequence[str | int]) -> bool:
        """Open the log and do what the script says; return whether the power held."""
        try:
            log = opened(self.disk)
            for word in script:
                self._do(log, word)
            log.close()
        except PowerCut:
            return False
        return True

    def _do(self, log: EventLog, word: str | int) -> None:
        match word:
            case int(count):
                self.append(log, count)
            case "large":
                self.append(log, 2, size=1500)
            case "roll":
                log.roll(NOON)
            case "compact":
                log.compact(NOON)
            case _:
                raise AssertionError(word)

    def check(self, log: EventLog) -> None:
        """Everything acknowledged is there, once and in order; behind it at most what was on its way."""
        found = [record.message for record in log.read()]
        assert found[: len(self.acknowledged)] == self.acknowledged
        rest = found[len(self.acknowledged) :]
        assert rest == self.on_their_way[: len(rest)]
        positions = [record.position for record in log.read()]
        assert positions == list(range(1, len(found) + 1))
        self.acknowledged, self.on_their_way = found, []

    def check_order(self, log: EventLog) -> None:
        """Whatever was acknowledged is there; all of it was sent, and comes once and in order."""
        found = [record.message for record in log.read()]
        assert found == [message for message in self.sent if message in set(found)]
        assert set(self.acknowledged) <= set(found)


def outcome_of(disk: PowerDisk) -> list[LogRecord] | LogDamaged:
    """Return what a log on this disk serves, or the damage that it reports."""
    try:
        with opened(disk) as log:
            found = list(log.read())
            return found if not log.cuts else LogDamaged(log.cuts[0].file, log.cuts[0].offset, "cut")
    except LogDamaged as damage:
        return damage
