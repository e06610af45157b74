"""Who brings the evidence that a client's certificates still count? The client, where it can be asked for.

While a client connects, the testers of those certificates for which it has no
statement that holds are asked at the locations in them. What they say is shown
to the broker as soon as it is there. Nobody waits for it: most brokers have
heard the same by themselves, and a right that waits for a statement is asked
for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from maia.credentials import SignedCertificate, SignedStatement
from maia.errors import MaiaError
from maia.events import Instant
from maia.validity import fetch as testers

__all__ = ["Shows", "bringing_statements", "show_fetched"]


class Shows(Protocol):
    """A client, as far as it can show something."""

    def now(self) -> Instant:
        """Return the present moment by the client's clock."""

    async def show(
        self, certificates: Iterable[SignedCertificate] = (), statements: Iterable[SignedStatement] = ()
    ) -> None:
        """Show the broker more certificates, or newer statements."""


@asynccontextmanager
async def bringing_statements(
    client: Shows, certificates: tuple[SignedCertificate, ...], statements: tuple[SignedStatement, ...]
) -> AsyncIterator[None]:
    """Fetch and show, beside the body, what the statements at hand lack."""
    if not any(test.locations for one in certificates for test in one.certificate.validity.tests):
        yield
        return
    task = asyncio.create_task(show_fetched(client, certificates, statements))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def show_fetched(
    client: Shows, certificates: Iterable[SignedCertificate], statements: Iterable[SignedStatement]
) -> None:
    """Show statements that had to be fetched; a broker that is away is shown them when it is back."""
    held = tuple(statements)
    found = await testers.with_fetched(certificates, held, now=client.now())
    if len(found) > len(held):
        with suppress(MaiaError):
            await client.show((), found[len(held) :])
