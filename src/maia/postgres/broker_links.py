"""Which brokers does a connector have, and which of them are there now?

Stores are subscribed at all of them, and a release is published through the first that is there. Each address
leads to the broker that answered there the first time, and to no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from maia.client.api.client import Client
from maia.client.errors import ClientClosed

LOST_S: Final = 1.0
"""How long a broker is away before what is published moves to another one."""
LOOK_S: Final = 0.1


@dataclass(slots=True, eq=False)
class BrokerLink:
    """One broker of the organisation."""

    address: str
    key: str
    """The broker's key, or its address while it was never reached."""
    client: Client | None = None
    has_client: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_up(self) -> bool:
        """Return whether the broker is there now."""
        return self.client is not None and self.client.broker is not None

    def connected(self) -> Client:
        """Return the client, which there is once the broker was reached."""
        if self.client is None:
            raise ClientClosed(f"`{self.address}` was not reached yet")
        return self.client


async def lost(link: BrokerLink, links: Sequence[BrokerLink]) -> None:
    """Return when a broker has been away for a while and another one is there."""
    loop = asyncio.get_running_loop()
    seen = loop.time()
    while True:
        await asyncio.sleep(LOOK_S)
        if link.is_up:
            seen = loop.time()
        elif loop.time() - seen >= LOST_S and any(one.is_up for one in links):
            return
