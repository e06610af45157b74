"""How does a certificate reach a client or a broker that runs, when its issuer makes it?

Issuers publish what they issue, each certificate for its subject alone (dissertation 6.5.2). A client
subscribes to those streams for itself, shows its broker what arrives, and keeps it for the next time.
The process of a broker is a client of its own broker for this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from maia.back_off import doubled
from maia.client.api.client import Client, connect
from maia.client.api.connected_client import takes_part_openly
from maia.clock import system_now
from maia.credentials import (
    NetworkName,
    Principal,
    SignedCertificate,
    SigningKey,
    VerifiedConstitution,
)
from maia.credentials.brokers import made_by, makes_broker
from maia.errors import MaiaError
from maia.keystore.wallet_folder import keep_pushed
from maia.sealing.pushed_certificates import pushed_in
from maia.types.verified import CERTIFICATES, certificates_type_name

Take: TypeAlias = Callable[[tuple[SignedCertificate, ...]], Awaitable[None]]
_ISSUERS_MAX: Final = 16
_FIRST_S: Final = 1.0
"""How long a client takes part before it subscribes: most commands are over by then."""
_AGAIN_S: Final = 2.0
_AGAIN_MOST_S: Final = 60.0
_ANSWER_S: Final = 10.0


def issuers_of(
    certificates: Iterable[SignedCertificate], subject: Principal, *others: Principal | None
) -> tuple[Principal, ...]:
    """Return who may have more certificates for a principal: who issued those that it has, and others."""
    found = [one.certificate.issuer for one in certificates if one.certificate.subject == subject]
    return tuple(dict.fromkeys(one for one in (*others, *found) if one not in (None, subject)))[:_ISSUERS_MAX]


async def follow_issuers(client: Client, key: SigningKey, issuers: Iterable[Principal], take: Take) -> None:
    """Take what these issuers push to the holder of `key`, for as long as this runs.

    To ask for it names the key to brokers on the way. So a client does that once it has asked for
    something of a plain type, and not if it takes part in a sealed one: what is new comes at its next login.
    """
    if await takes_part_openly(client):
        await asyncio.sleep(_FIRST_S)
        if await takes_part_openly(client):
            await _follow_all(client, key, issuers, take)


async def _follow_all(client: Client, key: SigningKey, issuers: Iterable[Principal], take: Take) -> None:
    await asyncio.gather(*(_follow(client, key, one, take) for one in issuers))


async def _follow(client: Client, key: SigningKey, issuer: Principal, take: Take) -> None:
    failures = 0
    while True:
        with suppress(MaiaError):  # not every issuer has a stream, and a broker may be away
            name = certificates_type_name(issuer)
            subscription = await client.subscribe(name, state=True, timeout_s=_ANSWER_S)
            failures = 0
            async for event in subscription:
                with suppress(MaiaError):  # made up by a broker on the way: the next one may be the issuer's
                    await take(pushed_in(event[CERTIFICATES.name], issuer=issuer, key=key))
            return  # the client was closed
        failures += 1
        await asyncio.sleep(doubled(_AGAIN_S, failures, most=_AGAIN_MOST_S))


async def receive_into(
    folder: Path,
    address: str,
    *,
    key: SigningKey,
    network: NetworkName,
    credentials: tuple[SignedCertificate, ...],
    constitutions: tuple[VerifiedConstitution, ...],
) -> None:
    """Keep what the issuers of a broker's certificates push to it in a folder; it is its own client.

    Whose broker it is decides who is beyond its borders. So the organisation that it is of may make it one
    anew, and another one that has granted it something may not (C18).
    """
    makers = made_by(key.principal, credentials)

    async def take(found: tuple[SignedCertificate, ...]) -> None:
        kept = [one for one in found if not makes_broker(one) or one.certificate.issuer in makers]
        await asyncio.to_thread(keep_pushed, folder, kept, system_now())

    issuers = issuers_of(credentials, key.principal)
    with suppress(MaiaError):  # the broker is going
        async with connect(
            address, key=key, network=network, credentials=credentials, constitutions=constitutions,
            brokers=[key.principal],
        ) as client:  # fmt: skip
            await _follow_all(client, key, issuers, take)  # every neighbour knows the key of a broker


def showing(client: Client, folder: Path | None) -> Take:
    """Return how a client takes what was pushed: it shows its broker, and keeps it in a folder of its own."""

    async def take(found: tuple[SignedCertificate, ...]) -> None:
        if folder is not None:
            with suppress(MaiaError):
                await asyncio.to_thread(keep_pushed, folder, found, client._now())
        await client.show(found)

    return take
