"""Have the certificates of this broker been renewed, or members of a quorum replaced?

Whoever issues them puts new ones into the broker's credential folder, by hand
or as a domain's server does (`[[push]]`). The folder is looked at again and
again; what cannot be read, or would not let the broker connect any more,
changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from maia.config.input_files import QUORUM_SUFFIX, read_certificates
from maia.credentials import SignedCertificate
from maia.errors import MaiaError
from maia.net.observer import Records

__all__ = ["watching"]

LOOK_S: Final = 5.0


async def watching(
    paths: Sequence[Path],
    take: Callable[[tuple[SignedCertificate, ...]], None],
    records: Records,
    *,
    every_s: float = LOOK_S,
) -> None:
    """Hand over all certificates whenever a file has come, gone or changed; `take` raises to refuse them."""
    seen = await asyncio.to_thread(_stamps, paths)
    while True:
        await asyncio.sleep(every_s)
        found = await asyncio.to_thread(_stamps, paths)
        if found == seen:
            continue
        seen = found
        try:
            take(tuple(await asyncio.to_thread(read_certificates, paths)))
        except MaiaError as problem:
            records.note("refused", {"code": problem.code, "why": problem.message})


def _stamps(paths: Sequence[Path]) -> frozenset[tuple[str, int, int]]:
    found: set[tuple[str, int, int]] = set()
    for path in paths:
        folder = (*path.glob("*.cert"), *path.glob(f"*{QUORUM_SUFFIX}")) if path.is_dir() else (path,)
        for file in folder:
            try:
                stat = file.stat()
            except OSError:
                continue  # it is being replaced; the next look sees it
            found.add((str(file), stat.st_mtime_ns, stat.st_size))
    return frozenset(found)
