"""Who besides its user could read or change what a process keeps, and does a new folder survive a power cut?

Event logs, kept state, key files and results of pipelines ask. Files and
folders that Maia makes are for their owner alone, whatever the umask; who
wants to share them changes their mode afterwards. A folder that another user
owns or can write to is refused: its content could be replaced.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["create_private", "exposure", "make_private_folder", "own_folder", "replace_file", "sync_folder"]

_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those it lies in, for its owner alone; what was made is on the disk afterwards."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
        sync_folder(one.parent)


def exposure(folder: Path) -> str | None:
    """Say how another user could change what is in a folder, and what to do about it; None if none can."""
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        return f"`{folder}` is not a folder"
    if found.st_uid != os.geteuid():
        return f"`{folder}` belongs to another user, who could change it; use a folder of your own"
    if found.st_mode & _WRITABLE:
        mode = stat.S_IMODE(found.st_mode)
        return f"`{folder}` can be changed by others (mode {mode:04o}); make it 0700"
    return None


def create_private(path: Path, *, follow_links: bool = False) -> BinaryIO:
    """Open a file to write it anew; if it is a new one, only its owner can read it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def replace_file(path: Path, data: bytes) -> None:
    """Put a file for its owner alone in a place, at once: readers find the old one or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.unlink(missing_ok=True)  # what is there could have another mode
        with create_private(beside) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def own_folder() -> Path:
    """Return the folder of this user's own settings, which is also the user's own book of names."""
    configured = os.environ.get("XDG_CONFIG_HOME")
    return (Path(configured) if configured else Path.home() / ".config") / "maia"


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are safe."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
