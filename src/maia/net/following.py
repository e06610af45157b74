"""Have the files changed that a server was started from?

A running broker or domain's server looks at its settings, its certificates and
its types again and again, and takes in what has changed. What is broken, or
half written, is refused with one line in the log, and the last good state stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from maia.errors import MaiaError
from maia.net.observer import Records

LOOK_S: Final = 0.25
_READ: Final = frozenset({".cert", ".quorum", ".type"})


async def following(
    paths: Callable[[], Iterable[Path]],
    take: Callable[[], Awaitable[None]],
    records: Records,
    *,
    from_start: bool = True,
) -> None:
    """Call `take` whenever a file has come, gone or changed; it raises to refuse what is there.

    And once soon, `from_start`: files may have changed since they were read.
    """
    seen = None if from_start else await asyncio.to_thread(_stamps, tuple(paths()))
    while True:
        await asyncio.sleep(LOOK_S)
        found = await asyncio.to_thread(_stamps, tuple(paths()))
        if found == seen:
            continue
        seen = found
        try:
            await take()
        except MaiaError as problem:
            records.note("refused", {"code": problem.code, "why": problem.message})


def _stamps(paths: Iterable[Path]) -> frozenset[tuple[str, int, int]]:
    found: set[tuple[str, int, int]] = set()
    for path in paths:
        files = [path]
        with suppress(OSError):  # it is being replaced; the next round sees it
            files = [one for one in path.iterdir() if one.suffix in _READ] if path.is_dir() else files
        for file in files:
            with suppress(OSError):
                stat = file.stat()
                found.add((str(file), stat.st_mtime_ns, stat.st_size))
    return frozenset(found)
