"""Does this process own its data folder, and which of its tasks' errors does the operator hear?"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from maia.errors import MaiaError, Unavailable

_LOCK: Final = "lock"


class DataFolderInUse(Unavailable):
    """Another process runs with this data folder."""

    code = "UNAVAILABLE-DATA-FOLDER"


@contextmanager
def own_folder(data: Path) -> Iterator[None]:
    """Take the data folder for this process alone; a lock that the kernel lets go when the process dies."""
    descriptor = os.open(data / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataFolderInUse(f"another process runs with the data folder `{data}`") from None
        yield
    finally:
        os.close(descriptor)


def one_of(group: ExceptionGroup[Exception]) -> Exception:
    """Return one of ours out of a task group's errors: the operator mends one thing at a time."""
    for one in group.exceptions:
        problem = one_of(one) if isinstance(one, ExceptionGroup) else one
        if isinstance(problem, MaiaError | OSError):
            return problem
    return group
