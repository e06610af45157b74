"""Which MQTT sessions outlive their gateway, and when are they on disk?

A session with durable subscriptions is a file. Files are written beside the event loop, one at a time, and
accounts take turns: an account that subscribes and unsubscribes without a pause keeps no message of another
one waiting for the disk, and no session for long (A116).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import msgspec

from maia.private_files import make_private_folder, replace_file
from maia.sessions.admission import Places

Which: TypeAlias = tuple[str, str]
"""The account and the client identifier of a session."""


class KeptSession(msgspec.Struct):
    """A lasting session as it is kept on disk."""

    account: str
    client_id: str
    ends_at: int | None
    subscriptions: dict[str, tuple[int, int | None]]


class KeptSessions:
    """The folder of lasting sessions."""

    def __init__(self, folder: Path, failed: Callable[[Which, OSError], None]) -> None:
        """Keep sessions in a folder; `failed` is told of one that could not be written."""
        self._folder, self._failed = folder, failed
        make_private_folder(folder)
        self._turns: Places[Which] = Places(1)
        self._unwritten: dict[Which, tuple[KeptSession | None, asyncio.Event]] = {}
        """What shall be on disk, None for nothing, and what is set when it is."""
        self._being_written: tuple[Which, KeptSession | None] | None = None
        self._writing: asyncio.Task[None] | None = None

    def all(self) -> Iterator[KeptSession]:
        """Yield what an earlier run has kept."""
        for path in self._folder.glob("*.json"):
            if (kept := _read(path)) is not None:
                yield kept

    def find(self, which: Which) -> KeptSession | None:
        """Return a session that is kept, or is about to be."""
        if (unwritten := self._unwritten.get(which)) is not None:
            return unwritten[0]
        if self._being_written is not None and self._being_written[0] == which:
            return self._being_written[1]
        return _read(self._file(which))

    def put(self, which: Which, kept: KeptSession | None) -> asyncio.Event:
        """Keep a session, or with None no more; return what is set when the disk has it."""
        before = self._unwritten.get(which)
        done = asyncio.Event() if before is None else before[1]
        if before is None and kept is None and self.find(which) is None:
            done.set()
            return done
        self._unwritten[which] = (kept, done)
        if before is None:
            self._turns.take(which, which[0])
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return done

    async def settled(self) -> None:
        """Return when everything is on disk."""
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while (which := self._turns.take_turn()) is not None:
            kept, done = self._unwritten.pop(which)
            self._being_written = which, kept
            try:
                await asyncio.to_thread(_put, self._file(which), kept)
            except OSError as problem:
                self._failed(which, problem)
            finally:
                self._being_written = None
                done.set()

    def _file(self, which: Which) -> Path:
        digest = sha256("\x00".join(which).encode()).hexdigest()
        return self._folder / f"{digest}.json"


def _put(path: Path, kept: KeptSession | None) -> None:
    if kept is None:
        path.unlink(missing_ok=True)
    else:
        replace_file(path, msgspec.json.encode(kept))


def _read(path: Path) -> KeptSession | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=KeptSession)
    except (OSError, msgspec.DecodeError):
        return None
