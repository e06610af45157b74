"""All memory of a process that runs beside a test, to be searched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest


def memory_of(pid: int) -> Iterator[bytes]:
    """Yield all memory that a process can write to, stretch by stretch."""
    try:
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                where, rights, *_ = line.split()
                first, last = (int(one, 16) for one in where.split("-"))
                if rights.startswith("rw"):
                    with suppress(OSError):  # a page of the kernel's own
                        memory.seek(first)
                        yield memory.read(last - first)
    except PermissionError:
        pytest.skip("this system lets no process read the memory of its children")
