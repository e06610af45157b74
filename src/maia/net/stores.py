"""What does a node keep across restarts, and where?

A node asks to keep bytes under a name. Nothing that the node says after it
asked leaves before the bytes are safe. What is found at the start is handed
back as it was; whether it still holds is for the node to judge.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote, unquote

from maia.errors import Unavailable
from maia.private_files import create_private, exposure, make_private_folder, sync_folder

_UNFINISHED: Final = ".unfinished"
_AT_ONCE: Final = 64
"""How many files are open at one time."""


class Store(Protocol):
    """Named bytes that survive the process."""

    def load(self) -> Mapping[str, bytes]:
        """Return everything that is kept."""
        ...

    def keep(self, changes: Mapping[str, bytes | None]) -> None:
        """Keep these bytes, or forget those whose value is None, and return when that is safe."""
        ...


class MemoryStore:
    """Keeps for as long as the process lives: for tests, and for clients that start afresh."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load(self) -> Mapping[str, bytes]:
        """Return a copy of everything that is kept."""
        return dict(self._kept)

    def keep(self, changes: Mapping[str, bytes | None]) -> None:
        """Keep or forget."""
        for name, data in changes.items():
            if data is None:
                self._kept.pop(name, None)
            else:
                self._kept[name] = data


class FolderStore:
    """One file for each name in a folder of its own, replaced as a whole and synchronised."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is made if need be; it is this store's own, and readable by its owner alone."""
        self._folder = folder
        try:
            make_private_folder(folder)
            exposed = exposure(folder)
            if exposed is None:
                folder.chmod(0o700)  # a copy that was put back may have lost its mode
        except OSError as problem:
            raise _unavailable(folder, problem) from problem
        if exposed is not None:
            raise Unavailable("UNAVAILABLE-STORE", f"no state can be kept: {exposed}")

    def load(self) -> Mapping[str, bytes]:
        """Return every whole file; what was being written when the process died is removed."""
        found: dict[str, bytes] = {}
        try:
            for path in sorted(self._folder.iterdir()):
                if path.name.endswith(_UNFINISHED):
                    path.unlink()
                else:
                    found[unquote(path.name)] = path.read_bytes()
        except OSError as problem:
            raise _unavailable(self._folder, problem) from problem
        return found

    def keep(self, changes: Mapping[str, bytes | None]) -> None:
        """Write all files beside the old ones, synchronise them, and put them in the old ones' places.

        What is to be forgotten goes when the rest is safe, so that whatever
        takes its place is there before it.
        """
        written = {self._path(name): data for name, data in changes.items() if data is not None}
        gone = [self._path(name) for name, data in changes.items() if data is None]
        try:
            _write_beside(written)
            for path in written:
                _unfinished(path).replace(path)
            if written:
                sync_folder(self._folder)
            for path in gone:
                path.unlink(missing_ok=True)
            if gone:
                sync_folder(self._folder)
        except OSError as problem:
            raise _unavailable(self._folder, problem) from problem

    def _path(self, name: str) -> Path:
        # Nothing but letters, digits, `_`, `-` and `~` stays as it is, so no name leaves the folder (A71).
        return self._folder / quote(name, safe="").replace(".", "%2E")


def _write_beside(files: Mapping[Path, bytes]) -> None:
    """Write files under their unfinished names; many are on their way to the disk before any is awaited."""
    waiting = list(files.items())
    while waiting:
        some, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
        with ExitStack() as stack:
            opened = [stack.enter_context(create_private(_unfinished(path))) for path, _ in some]
            for file, (_, data) in zip(opened, some, strict=True):
                file.write(data)
                file.flush()
            for file in opened:
                os.fsync(file.fileno())


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + _UNFINISHED)


def _unavailable(folder: Path, problem: OSError) -> Unavailable:
    return Unavailable("UNAVAILABLE-STORE", f"`{folder}` cannot be used to keep state: {problem.strerror}")
