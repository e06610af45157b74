"""How is a change of an organisation's folder tried before it counts?

It is made in a copy, which lies inside the folder and is as private. Only
what a change of the copy has survived is written to the folder itself, each file at
once; a write that fails puts back what was there. Recorded events and the
data of servers are not copied, and never changed so.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from maia.config.input_files import BadFile
from maia.private_files import make_private_folder, replace_file

_DRAFT: Final = ".draft"
_FOLDERS: Final = ("", "types", "certs", "issued", "introduced", "known", "revoked")
_OF_EACH: Final = ("*-certs", "*.maia", "*.maia/types", "*.maia/certs")
_FILES: Final = (".toml", ".pub", ".key", ".cert", ".quorum", ".type", ".name")


class FolderDraft:
    """A copy of what is small in a folder; it is gone when the `with` ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / _DRAFT
        self._before: dict[Path, bytes] = {}

    def __enter__(self) -> FolderDraft:
        shutil.rmtree(self.path, ignore_errors=True)  # of a command that was killed
        make_private_folder(self.path)
        places = [self._folder / one for one in _FOLDERS]
        places += [one for pattern in _OF_EACH for one in self._folder.glob(pattern)]
        for place in places:
            if not place.is_dir():
                continue
            inside = self.path / place.relative_to(self._folder)
            make_private_folder(inside)
            for file in place.iterdir():
                if file.suffix in _FILES and file.is_file():
                    self._copy(file, inside / file.name)
        self._before = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def changed(self) -> list[Path]:
        """Return which files differ now, from the folder on."""
        now = self._read()
        return sorted(
            one for one in now.keys() | self._before.keys() if now.get(one) != self._before.get(one)
        )

    def accept(self) -> None:
        """Write what has changed to the folder itself, settings last; put everything back if that fails."""
        now, done = self._read(), list[Path]()
        try:
            for one in sorted(self.changed(), key=lambda path: (path.suffix == ".toml", path)):
                done.append(one)
                write_file(self._folder / one, now.get(one))
        except BaseException:
            for one in done:
                with suppress(BadFile):
                    write_file(self._folder / one, self._before.get(one))
            raise

    def _read(self) -> dict[Path, bytes]:
        """Return what is in the copy, but for keys, which no change of an organisation changes."""
        return {
            one.relative_to(self.path): one.read_bytes()
            for one in self.path.rglob("*")
            if one.suffix in _FILES and one.suffix != ".key"
        }

    @staticmethod
    def _copy(file: Path, copy: Path) -> None:
        if file.suffix == ".key":  # the same file under a second name: a secret is not written twice
            with suppress(OSError):
                os.link(file, copy)
                return
        shutil.copy2(file, copy)


def write_file(path: Path, data: bytes | None) -> None:
    """Put a file in its place at once, or remove it: a server that runs reads the old one or the new one."""
    try:
        if data is None:
            path.unlink(missing_ok=True)
            return
        make_private_folder(path.parent)
        replace_file(path, data)
    except OSError as problem:
        raise BadFile(f"`{path}` cannot be written: {problem.strerror}") from problem
