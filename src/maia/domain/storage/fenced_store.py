"""What does a key server keep across restarts, and can a second one write over it?

Everything that one step changes is safe together or not at all, in one SQLite
file. Each write also raises a generation number, and only from the one that
this process has seen: a second process that opened the same file and wrote to
it has raised it too, and the next write here is refused instead of forking
the groups. A lock on the folder keeps most of them apart; the fence holds
even where locks do not, as on some network file systems.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from maia.errors import Unavailable

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fence (one INTEGER PRIMARY KEY CHECK (one = 1), generation INTEGER NOT NULL);
INSERT OR IGNORE INTO fence VALUES (1, 0);
"""

PRAGMAS: Final = (
    "journal_mode = WAL",
    # A full write to the disk for each step: what is sent after it must not be taken back.
    "synchronous = FULL",
    # The journal of a domain that does nothing but sign its lists would reach sixteen times its tables.
    "wal_autocheckpoint = 64",
    "journal_size_limit = 262144",
)
"""How a domain writes to a file of SQLite: what is safe when, and how long its journal grows."""


class StoreFenced(Unavailable):
    """Another process has written to the store since this one opened it."""

    code = "UNAVAILABLE-STORE-FENCED"


class FencedStore:
    """Named bytes in one file, changed in steps that are safe as a whole."""

    def __init__(self, file: Path) -> None:
        """Open the file, which is made if need be, readable by its owner alone."""
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            os.close(descriptor)
            self._file = sqlite3.connect(file, isolation_level=None, timeout=5.0)
            for pragma in (*PRAGMAS, "secure_delete = ON"):
                self._file.execute(f"PRAGMA {pragma}")
            self._file.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as problem:
            raise Unavailable(
                "UNAVAILABLE-STORE", f"`{file}` cannot be used to keep state: {problem}"
            ) from problem
        self._path = file
        self._generation = self._read_generation()

    def load(self) -> Mapping[str, bytes]:
        try:
            self._generation = self._read_generation()
            return dict(self._file.execute("SELECT name, data FROM kept"))
        except sqlite3.Error as problem:
            raise self._unavailable(problem) from problem

    def keep(self, changes: Mapping[str, bytes | None]) -> None:
        """Keep or forget all of these, and return when that is safe; refuse if another process wrote."""
        try:
            self._file.execute("BEGIN IMMEDIATE")
            try:
                raised = self._file.execute(
                    "UPDATE fence SET generation = generation + 1 WHERE generation = ?", (self._generation,)
                )
                if raised.rowcount != 1:
                    raise StoreFenced(f"another process has written to `{self._path}`: this one stops")
                for name, data in changes.items():
                    if data is None:
                        self._file.execute("DELETE FROM kept WHERE name = ?", (name,))
                    else:
                        self._file.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (name, data))
                self._file.execute("COMMIT")
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
        except sqlite3.Error as problem:
            raise self._unavailable(problem) from problem
        self._generation += 1

    def close(self) -> None:
        self._file.close()

    def _read_generation(self) -> int:
        ((generation,),) = self._file.execute("SELECT generation FROM fence")
        return int(generation)

    def _unavailable(self, problem: sqlite3.Error) -> Unavailable:
        return Unavailable("UNAVAILABLE-STORE", f"`{self._path}` cannot be used to keep state: {problem}")
