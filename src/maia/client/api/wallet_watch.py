"""How does a client that runs for days use what a login renews?

`maia login --watch` puts renewed certificates into a wallet; a client that
follows the wallet shows them to its broker within the same connection, so
its subscriptions go on, and may show more from then on.

The client brings the evidence: where a new certificate needs a validity
statement and the wallet has none, its tester is asked at the location that the
certificate names. Brokers receive newer statements by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeAlias

from maia.api import testers
from maia.client.api.connected_client import Client
from maia.credentials import SignedCertificate, SignedStatement
from maia.credentials.identity import SignedIdentity
from maia.errors import MaiaError
from maia.events import Instant
from maia.keystore.wallet_folder import KeptWallet, WalletFolder
from maia.net.process import beside
from maia.sealing.two_message import LinkIdentity

# ------------------------------------------------------------ statements, while a client connects

# The client asks the testers of its certificates for the statements that it lacks, at the locations in the
# certificates, and shows them to the broker as they arrive. The connection does not wait for them: most
# brokers have received the same, and a right that waits for a statement is asked for again.


class Shows(Protocol):
    """A client, as far as it can show something."""

    def _now(self) -> Instant:
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
    async with beside(show_fetched(client, certificates, statements)):
        yield


async def show_fetched(
    client: Shows, certificates: Iterable[SignedCertificate], statements: Iterable[SignedStatement]
) -> None:
    """Show statements that had to be fetched; a broker that is away is shown them when it is back."""
    held = tuple(statements)
    found = await testers.with_fetched(certificates, held, now=client._now())
    if len(found) > len(held):
        with suppress(MaiaError):
            await client.show((), found[len(held) :])


# ------------------------------------------------------------ a wallet that changes


LOOK_S = 2.0


@asynccontextmanager
async def following(
    client: Client, wallet: WalletFolder, *, shown: KeptWallet, every_s: float = LOOK_S
) -> AsyncIterator[None]:
    """Show what is new in a wallet while the body runs.

    `shown` is the wallet as it was when the client took its certificates out of
    it: a login may have renewed them while the client was still connecting.
    """
    async with beside(_follow(client, wallet, shown, every_s)):
        yield


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


# Identity statements, renewed in time.
#
# A statement holds for minutes or hours. `maia domain identity --watch` asks the provider for the next one
# and puts it in the place of the last, or the application brings a source of its own. The client asks
# its source again and again, and shows what is new to its broker within the same connection: on a
# statement link, which would end with the old one, and on a TLS link, where attributes would be gone.


IdentitySource: TypeAlias = Callable[[], LinkIdentity]
"""Returns the client's key, its statement as it is now, and the providers that it trusts."""
_IDENTITY_S = 1.0


@asynccontextmanager
async def renewing_identity(
    client: Client,
    source: IdentitySource | None,
    shown: SignedIdentity | None,
    *,
    every_s: float = _IDENTITY_S,
) -> AsyncIterator[None]:
    """Show what is new at the source while the body runs; `shown` is what was shown before."""
    if source is None:
        yield
        return
    async with beside(_renew(client, source, shown, every_s)):
        yield


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
