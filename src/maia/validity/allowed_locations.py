"""Where may a broker ask for statements that it misses? Where its operator says, and nowhere else.

The holder of a certificate would choose where it connects, so what
certificates say is not enough: an address must also stand in the broker's own
configuration (`[statements] fetch_from`), which names none unless the operator
writes one. Only what is missed is asked for, and seldom.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from maia.credentials import SignedCertificate, SignedStatement
from maia.events import Instant
from maia.net.observer import Records
from maia.validity.fetch import ask_testers

__all__ = ["fetching"]

LOOK_S: Final = 1.0
_AGAIN_S: Final = 2.0
_AGAIN_MOST_S: Final = 60.0


@asynccontextmanager
async def fetching(
    allowed: frozenset[str],
    *,
    missed: Callable[[], tuple[SignedCertificate, ...]],
    hear: Callable[[tuple[SignedStatement, ...]], None],
    records: Records,
    clock: Callable[[], Instant],
    look_s: float = LOOK_S,
) -> AsyncIterator[None]:
    """Fetch what is missed from `allowed` addresses while the body runs; with none, do nothing."""
    if not allowed:
        yield
        return
    task = asyncio.create_task(_fetch(allowed, missed, hear, records, clock, look_s))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _fetch(
    allowed: frozenset[str],
    missed: Callable[[], tuple[SignedCertificate, ...]],
    hear: Callable[[tuple[SignedStatement, ...]], None],
    records: Records,
    clock: Callable[[], Instant],
    look_s: float,
) -> None:
    again_s = _AGAIN_S
    while True:
        await asyncio.sleep(look_s)
        lacking = missed()
        if not lacking:
            again_s = _AGAIN_S
            continue
        found = await ask_testers(lacking, now=clock(), allowed=allowed)
        if found.statements:
            hear(found.statements)
        for by, problem in found.problems.items():
            records.note("unheard", {"issuer": str(by), "code": problem.code})
        # A tester that does not answer, or with nothing that helps, is asked less and less often.
        await asyncio.sleep(again_s)
        again_s = min(2 * again_s, _AGAIN_MOST_S)
