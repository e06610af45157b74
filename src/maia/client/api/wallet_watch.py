"""How does a client that runs for days use what a login renews?

`maia login --watch` puts renewed certificates into a wallet; a client that
follows the wallet shows them to its broker within the same connection, so
what stands goes on standing, and may show more from then on.

Whoever asks brings the evidence: where certificates have come that must be
vouched for, and no statement in the wallet does so, their testers are asked at
the locations that the certificates name. Newer statements brokers hear by
themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from maia.client.api.client import Client
from maia.client.api.validity import show_fetched
from maia.credentials.validity.statements import SignedStatement
from maia.errors import MaiaError
from maia.keystore.wallet_folder import KeptWallet, WalletFolder

__all__ = ["following", "show_news"]

LOOK_S = 2.0


@asynccontextmanager
async def following(
    client: Client, wallet: WalletFolder, *, shown: KeptWallet, every_s: float = LOOK_S
) -> AsyncIterator[None]:
    """Show what is new in a wallet while the body runs.

    `shown` is the wallet as it was when the client took its certificates out of
    it: a login may have renewed them while the client was still connecting.
    """
    task = asyncio.create_task(_follow(client, wallet, shown, every_s))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _follow(client: Client, wallet: WalletFolder, shown: KeptWallet, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        # A wallet that cannot be read just now, or a broker that is away: the next look finds both again.
        with suppress(MaiaError):
            found = await asyncio.to_thread(wallet.read)
            if await show_news(client, before=shown, now=found):
                await show_fetched(client, found.certificates, found.statements)
            shown = found


async def show_news(client: Client, *, before: KeptWallet, now: KeptWallet) -> bool:
    """Show the certificates and statements that were not there before; say whether there were any."""
    known = {one.id for one in before.certificates}
    heard = {one.id for one in before.statements}
    certificates = [one for one in now.certificates if one.id not in known]
    statements: list[SignedStatement] = [one for one in now.statements if one.id not in heard]
    if not certificates and not statements:
        return False
    await client.show(certificates, statements)
    return True
