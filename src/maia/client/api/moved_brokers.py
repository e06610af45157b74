"""How does a client find brokers that have moved? While it reaches none, it asks where they are now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from maia.errors import MaiaError
from maia.net.process import beside

if TYPE_CHECKING:
    from maia.client.api.client import Client

AskBrokers = Callable[[], Sequence[str]]
"""Asks for the addresses of brokers, in a thread; raises if nobody answers."""
_AGAIN_S: Final = 5.0


@asynccontextmanager
async def finding_brokers(client: Client, ask: AskBrokers | None) -> AsyncIterator[None]:
    """Dial also what is answered, while the body runs."""
    if ask is None:
        yield
        return
    async with beside(_find(client, ask)):
        yield


async def _find(client: Client, ask: AskBrokers) -> None:
    while True:
        await client._is_away.wait()
        # A server that is away, too: the next look finds both again.
        with suppress(MaiaError):
            client._session.know_brokers(await asyncio.to_thread(ask))
        await asyncio.sleep(_AGAIN_S)
