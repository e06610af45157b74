"""What does the event log ask of a disk, and when is something safe on it?

`sync` of a file makes its bytes safe, `sync_folder` the names in a folder.
Nothing is safe before. Every path is one that the log made itself, inside one
folder; links are not followed. Tests put another disk in the place of this
one: it forgets what was not synchronised, and fails wherever it likes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import Any, Final, Protocol

from maia.errors import Unavailable
from maia.log.format.errors import LogBroken, LogDiskFull
from maia.log.format.journal import ByteSource
from maia.log.format.names import manifest_number
from maia.places import Place
from maia.private_files import exposure, make_private_folder, sync_folder

_LOCK: Final = "lock"
_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class AppendFile(Protocol):
    """A file that grows."""

    def write(self, offset: int, data: bytes) -> None:
        """Write all of `data` at `offset`, which is no further than the file's end; safe after `sync`."""
        ...

    def sync(self) -> None:
        """Return when everything that was written is safe."""
        ...

    def cut(self, size: int) -> None:
        """Take back whatever is behind `size`, and return when that is safe."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class ReadFile(ByteSource, Protocol):
    """A file to read at any place."""

    def close(self) -> None:
        """Let go of the file."""
        ...


class ReadDisk(Protocol):
    """A folder of files that is only read."""

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        ...

    def read(self, path: str) -> ReadFile:
        """Return a file to read; raises `FileNotFoundError`."""
        ...


class Disk(ReadDisk, Protocol):
    """A folder of files, by paths inside it."""

    def lock(self) -> None:
        """Take the folder for this process alone; raises `LOG-IN-USE`."""
        ...

    def make_folder(self, path: str) -> None:
        """Make a folder and those it lies in; safe when it returns."""
        ...

    def create(self, path: str) -> AppendFile:
        """Return a new, empty file; what was there before is gone."""
        ...

    def reopen(self, path: str) -> AppendFile:
        """Return a file that is there, to be cut or to grow."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in place of any file of that name; safe after `sync_folder`."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...

    def sync_folder(self, path: str = "") -> None:
        """Return when the names in a folder are safe."""
        ...

    def close(self) -> None:
        """Let go of the folder."""
        ...


def disk_problem(problem: OSError, doing: str) -> LogDiskFull | LogBroken:
    """Return the operator's error for a disk that refused."""
    reason = problem.strerror or type(problem).__name__
    kind = LogDiskFull if problem.errno in _FULL else LogBroken
    return kind(f"the event log cannot {doing}: {reason}")


# ------------------------------------------------------------ a folder of this machine


class FolderDisk:
    """A folder of the file system, readable by its owner alone."""

    def __init__(self, root: Path, *, writable: bool = True) -> None:
        """Use `root`, which is made if need be and wanted."""
        self._root = root
        self._lock: int | None = None
        try:
            if writable:
                make_private_folder(root)
            if not root.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(root))
            exposed = exposure(root) if writable else None
        except OSError as problem:
            raise LogBroken(f"`{root}` cannot hold an event log: {problem.strerror}") from problem
        if exposed is not None:
            raise LogBroken(f"the event log cannot be written: {exposed}")

    def lock(self) -> None:
        """Take the folder; the kernel lets go of it when the process dies."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._root / _LOCK, flags, 0o600)
        except OSError as problem:
            raise disk_problem(problem, "lock its folder") from problem
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Unavailable(
                "LOG-IN-USE", f"another process writes to the event log in `{self._root}`"
            ) from None
        self._lock = descriptor

    def names(self, folder: str = "") -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self._path(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def make_folder(self, path: str) -> None:
        """Make each missing part, and synchronise the folder it is in."""
        self._path(path)
        done = ""
        for part in path.split("/"):
            parent, done = done, f"{done}/{part}" if done else part
            target = self._path(done)
            try:
                target.mkdir(mode=0o700)
            except FileExistsError:
                if not stat.S_ISDIR(target.lstat().st_mode):
                    raise LogBroken(f"`{target}` is in the way of a folder of the event log") from None
            else:
                self.sync_folder(parent)

    def create(self, path: str) -> AppendFile:
        return _FileToAppend(self._open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))

    def reopen(self, path: str) -> AppendFile:
        return _FileToAppend(self._open(path, os.O_WRONLY))

    def read(self, path: str) -> ReadFile:
        return _FileToRead(self._open(path, os.O_RDONLY))

    def rename(self, old: str, new: str) -> None:
        self._path(old).replace(self._path(new))

    def remove(self, path: str) -> None:
        self._path(path).unlink(missing_ok=True)

    def sync_folder(self, path: str = "") -> None:
        sync_folder(self._path(path))

    def close(self) -> None:
        """Let the next process have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _open(self, path: str, flags: int) -> int:
        return os.open(self._path(path), flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def _path(self, path: str) -> Path:
        # INVARIANT: paths are made by `format/names.py`. This is the second lock on that door (A71).
        if path.startswith("/") or "\0" in path or ".." in path.split("/"):
            raise LogBroken(f"`{ascii(path[:128])[1:-1]}` lies outside the event log")
        return self._root / path


class _FileToAppend:
    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, offset: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._descriptor, rest, offset)
            offset, rest = offset + written, rest[written:]

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def cut(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class _FileToRead:
    __slots__ = ("_descriptor", "_size")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    @property
    def size(self) -> int:
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length > 0 and (part := os.pread(self._descriptor, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def close(self) -> None:
        os.close(self._descriptor)


# ------------------------------------------------------------ a place that is only read


class PlaceDisk:
    """A log in an object store, or in a folder of this machine, as readers find it."""

    def __init__(self, place: Place) -> None:
        """Look nowhere yet."""
        self._place = place

    def names(self, folder: str = "") -> list[str]:
        return self._place.names(folder)

    def read(self, path: str) -> ReadFile:
        # A manifest is read entry by entry, and each would be a request of its own to a store.
        return (
            WholeFile(self._place.read(path)) if manifest_number(path) else PlaceFile(self._place.open(path))
        )


class WholeFile:
    """A file that is small enough to be fetched at once."""

    __slots__ = ("_data", "size")

    def __init__(self, data: bytes) -> None:
        self._data, self.size = data, len(data)

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + max(length, 0)]

    def close(self) -> None:
        """Hold nothing open."""


class PlaceFile:
    """A file of Arrow's, as the readers of the log take it."""

    __slots__ = ("_file", "size")

    # Any: pyarrow is not typed.
    def __init__(self, file: Any) -> None:
        self._file = file
        self.size: int = file.size()

    def read(self, offset: int, length: int) -> bytes:
        wanted = min(length, self.size - offset)
        data: bytes = self._file.read_at(wanted, offset) if wanted > 0 else b""
        return data

    def close(self) -> None:
        self._file.close()
