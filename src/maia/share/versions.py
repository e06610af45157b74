"""Which files are a table, of the present and of earlier versions?

A version is named by the moment at which it was made, in milliseconds since 1970: it grows, and says
nothing about what the right hides in between (A91). A version that only adds to the one before has its
files, and new ones; where the log has forgotten frames, or small files have become many, all are
written anew.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from maia.private_files import make_private_folder, replace_file
from maia.share.files import PARQUET, READS

VERSIONS_MAX: Final = 64
"""Versions of a table that are remembered, as long as their files are kept."""
CLASSES_MAX: Final = 4096
_FILE_BYTES_MAX: Final = 64 << 20


class SharedFile(msgspec.Struct, frozen=True, array_like=True):
    """One file of a table, with the draft of what its reading puts on record."""

    file: str
    reads: str
    size: int
    rows: int

    @property
    def names(self) -> tuple[str, str]:
        """Return the names of both."""
        return self.file + PARQUET, self.reads + READS


class TableVersion(msgspec.Struct, frozen=True, array_like=True):
    """What a class of right sees of a type, at one moment."""

    version: int
    upto: int
    """The position of the log up to which its frames are shown."""
    forgotten: int
    """Up to where the log had forgotten frames."""
    files: tuple[SharedFile, ...]

    @property
    def rows(self) -> int:
        """Return how many rows it has."""
        return sum(one.rows for one in self.files)

    @property
    def size(self) -> int:
        """Return how many bytes its files have."""
        return sum(one.size for one in self.files)

    @property
    def names(self) -> list[str]:
        """Return the names of its files."""
        return [name for one in self.files for name in one.names]


class TableVersions:
    """The versions of all tables of one server, also of its earlier runs."""

    def __init__(self, folder: Path) -> None:
        """Keep a small file for each class of right in a folder of the server's own."""
        make_private_folder(folder)
        for one in sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime_ns)[:-CLASSES_MAX]:
            one.unlink()
        self._folder, self._lock = folder, threading.Lock()
        self._known: dict[bytes, tuple[TableVersion, ...]] = {}

    def of(self, shown_class: bytes) -> tuple[TableVersion, ...]:
        """Return the versions of a table, oldest first."""
        with self._lock:
            if shown_class not in self._known:
                self._known[shown_class] = self._read(shown_class)
            return self._known[shown_class]

    def add(self, shown_class: bytes, version: TableVersion) -> None:
        """Remember a version; one of the same number, which shows the same, goes."""
        before = [one for one in self.of(shown_class) if one.version != version.version]
        found = (*before, version)[-VERSIONS_MAX:]
        replace_file(self._file(shown_class), msgspec.msgpack.encode(found))
        with self._lock:
            self._known[shown_class] = found
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Forget tables that nobody has asked for, for longest."""
        if len(self._known) <= CLASSES_MAX:
            return
        oldest = next(iter(self._known))
        del self._known[oldest]
        with suppress(OSError):
            self._file(oldest).unlink()

    def _read(self, shown_class: bytes) -> tuple[TableVersion, ...]:
        try:
            with self._file(shown_class).open("rb") as file:
                data = file.read(_FILE_BYTES_MAX)
            return msgspec.msgpack.decode(data, type=tuple[TableVersion, ...])
        except (OSError, msgspec.MsgspecError):
            return ()  # they are written anew

    def _file(self, shown_class: bytes) -> Path:
        return self._folder / f"{shown_class.hex()}.versions"
