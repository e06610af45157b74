"""Where do the files lie that recipients fetch, and how much room do they take?

    files/5e0c…9a.parquet     what a class of right shows of some frames
    files/77ab…01.reads       which rows of which frames these are, for the ledger

A file is named by what it holds, and never changes. Together they take so many bytes; beyond, those go that
were not used for longest. A file that is being sent stays open, and ends with that.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from maia.errors import Unavailable
from maia.private_files import create_private, make_private_folder

PARQUET: Final = ".parquet"
READS: Final = ".reads"
_NEW: Final = ".new"
_CHUNK: Final = 1 << 20


def room_is_full(what: str) -> Unavailable:
    """Return the refusal of what would take more room than there is."""
    return Unavailable("UNAVAILABLE-SHARE-FULL", what)


class SharedFiles:
    """The files of one server, in a folder that is its own."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        """Take over what an earlier run has left, but for what it had begun."""
        make_private_folder(folder)
        self._folder, self.bytes_max = folder, bytes_max
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}
        """By the name of each file, those used last at the end."""
        found = sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime_ns)
        for one in found:
            if one.suffix in (PARQUET, READS):
                self._sizes[one.name] = one.stat().st_size
            else:
                one.unlink()
        self._make_room(())

    @property
    def size(self) -> int:
        """Return how many bytes all files take."""
        return sum(self._sizes.values())

    def has(self, names: Iterable[str]) -> bool:
        """Return whether all these files are there."""
        with self._lock:
            return all(name in self._sizes for name in names)

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """Lend a path for a new file, which is gone afterwards unless it was kept."""
        path = self._folder / f"{uuid4().hex}{_NEW}"
        create_private(path).close()
        try:
            yield path
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT):
                raise room_is_full("the disk for the files of shared tables is full") from problem
            raise
        finally:
            path.unlink(missing_ok=True)

    def keep(self, path: Path, suffix: str, needed: Iterable[str] = ()) -> tuple[str, int]:
        """Keep a file that was written; return the digest that names it, and its size.

        `needed` are files of the same table: they stay, and if there is no room beside them, it is refused.
        """
        digest, size = sha256(), 0
        with path.open("rb") as file:
            while part := file.read(_CHUNK):
                digest.update(part)
                size += len(part)
            os.fsync(file.fileno())
        called = digest.hexdigest()
        path.replace(self._folder / (name := called + suffix))
        with self._lock:
            self._sizes.pop(name, None)
            self._sizes[name] = size
        try:
            self._make_room({*needed, name})
        except Unavailable:
            with self._lock:
                (self._folder / name).unlink(missing_ok=True)
                del self._sizes[name]
            raise
        return called, size

    def put(self, data: bytes, suffix: str, needed: Iterable[str] = ()) -> tuple[str, int]:
        """Keep bytes as a file."""
        with self.writing() as path:
            path.write_bytes(data)
            return self.keep(path, suffix, needed)

    def open(self, name: str) -> BinaryIO:
        """Open a file, which counts as used now; raise if it is not kept."""
        try:
            file = (self._folder / name).open("rb")
        except FileNotFoundError:
            raise Unavailable(
                "UNAVAILABLE-SHARE-GONE", "this file is not kept any more: ask for the table again"
            ) from None
        self.touch([name])
        return file

    def touch(self, names: Iterable[str]) -> None:
        """Take note that files are used: others go before them."""
        with self._lock:
            for name in names:
                if name in self._sizes:
                    self._sizes[name] = self._sizes.pop(name)
                    with suppress(OSError):
                        os.utime(self._folder / name)

    def _make_room(self, needed: Iterable[str]) -> None:
        stays = frozenset(needed)
        with self._lock:
            over = sum(self._sizes.values()) - self.bytes_max
            for name in list(self._sizes):
                if over <= 0:
                    return
                if name not in stays:
                    (self._folder / name).unlink(missing_ok=True)
                    over -= self._sizes.pop(name)
        if over > 0:
            raise room_is_full(
                f"the table needs more than the {self.bytes_max >> 20} MB that files may take (`cache_mb`)"
            )
