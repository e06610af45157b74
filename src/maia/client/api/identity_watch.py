"""How does a client that runs for days keep its identity statement in force?

A statement holds for minutes or hours. `maia domain identity --watch` asks the provider for the next one
and puts it in the place of the last, or the application brings a source of its own. The client asks
its source again and again, and shows what is new to its broker within the same connection: on a
statement link, which would end with the old one, and on a TLS link, where attributes would be gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

from maia.client.api.connected_client import Client
from maia.credentials.identity import SignedIdentity
from maia.errors import MaiaError
from maia.sealing.two_message import LinkIdentity

IdentitySource: TypeAlias = Callable[[], LinkIdentity]
"""Returns the client's key, its statement as it is now, and the providers that it trusts."""
LOOK_S = 1.0


@asynccontextmanager
async def renewing_identity(
    client: Client, source: IdentitySource | None, shown: SignedIdentity | None, *, every_s: float = LOOK_S
) -> AsyncIterator[None]:
    """Show what is new at the source while the body runs; `shown` is what was shown before."""
    if source is None:
        yield
        return
    task = asyncio.create_task(_renew(client, source, shown, every_s))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _renew(
    client: Client, source: IdentitySource, shown: SignedIdentity | None, every_s: float
) -> None:
    while True:
        await asyncio.sleep(every_s)
        # A file that is being replaced, or a broker that is away: the next look finds both again.
        with suppress(MaiaError):
            found = (await asyncio.to_thread(source)).own
            if shown is None or found.id != shown.id:
                shown = found  # also if it is refused: the same would be refused again
                await client.identify(found)
