"""How does an application publish and subscribe?

    async with maia.connect("127.0.0.1:7400", key=key, credentials=wallet, network=network) as client:
        publisher = await client.advertise(definition)
        await publisher.publish(numberplate="AE05 XYZ", location="Victoria")
        await publisher.flush()

Refusals are raised where they can be acted upon, with the code of whoever
decided. Connections that break are made again, and everything that stood is
asked for again, without the application doing anything.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from maia.api.revalidation import AskingTesters, Revalidate
from maia.client import ClientSession, ClientSettings, histories
from maia.client.api.connected_client import ANSWER_S, Client, OnEnding
from maia.client.api.moved_brokers import AskBrokers, finding_brokers
from maia.client.api.publisher import OnWarning
from maia.client.api.types import EventType, definitions_of
from maia.client.api.wallet_watch import IdentitySource, bringing_statements, renewing_identity
from maia.clock import system_now
from maia.credentials import (
    NetworkName,
    Principal,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TypeName,
    VerifiedConstitution,
)
from maia.errors import MaiaError
from maia.events import Instant
from maia.net.addresses import host_and_port
from maia.net.links import LinkLimits
from maia.net.node_runner import NodeRunner
from maia.net.observer import Records
from maia.types import SignedDefinition

if TYPE_CHECKING:
    from maia.net.statement_links import StatementLinks

__all__ = ["ANSWER_S", "Client", "EventType", "connect", "fetch_definitions"]


@asynccontextmanager
async def connect(  # noqa: PLR0913 - every one is named at the call
    address: str | Sequence[str],
    *,
    key: SigningKey,
    network: NetworkName,
    credentials: Iterable[SignedCertificate] = (),
    statements: Iterable[SignedStatement] = (),
    types: Iterable[SignedDefinition] = (),
    brokers: Iterable[Principal] | None = None,
    brokers_of: Iterable[Principal] | None = None,
    constitutions: tuple[VerifiedConstitution, ...] = (),
    dial_again_s: float = 0.25,
    limits: LinkLimits | None = None,
    records: Records | None = None,
    clock: Callable[[], Instant] = system_now,
    timeout_s: float = ANSWER_S,
    revalidate: Revalidate | None = None,
    by_statement: StatementLinks | None = None,
    identity: IdentitySource | None = None,
    on_waiting: Callable[[MaiaError], None] | None = None,
    follows: bool = True,
    on_warning: OnWarning | None = None,
    on_ending: OnEnding | None = None,
    folders: Sequence[Path] = (),
    ask_brokers: AskBrokers | None = None,
) -> AsyncIterator[Client]:
    """Connect to a network through one of its brokers, for as long as the body runs.

    Give several addresses to be connected to the next broker when one fails.
    That the peer was made a broker of the network is verified before any of `credentials` is
    shown; with `brokers`, the client talks to no others, and with `brokers_of` to none that
    other organisations have made. `types` can be named by their readable names later.
    `statements` say that certificates which demand it still count. Where none of them does, their
    testers are asked at the locations in the certificates; of newer ones brokers hear by themselves.
    Where one must be vouched for anew for each request, its tester is asked,
    or `revalidate` is. `by_statement` says which of the addresses are dialled by
    statement links and not by TLS. `identity` is called again and again for the client's
    own identity statement, such as `IdentityFile` of a file that `maia domain identity --watch` renews:
    a new one is shown to the broker before the old one ends, on links of both kinds. The providers in it
    are those whose statements about publishers this client believes. `on_waiting` is called once with the
    reason if the first broker cannot be reached, while others, and the same again, are still tried.
    A broker of several processes sends a client to the one that serves a type; it `follows` by itself.
    `on_warning` is that of publishers and subscriptions which are asked for without one of their own.
    `on_ending` is called with what ends two weeks before a certificate of this client ends that was not
    renewed, and two days before.
    While no broker is reached, `ask_brokers` is asked for addresses that are tried, too.
    In `folders`, profiles and organisations, are the names of owners by which types are told apart.
    """
    if identity is None and by_statement is not None:
        identity = by_statement.identity
    own = None if identity is None else identity()
    addresses = (address,) if isinstance(address, str) else tuple(address)
    for one in addresses:
        host_and_port(one)  # a mistake is no reason to wait
    pinned = None if brokers is None else frozenset(brokers)
    settings = ClientSettings(
        network,
        addresses,
        tuple(credentials),
        pinned,
        constitutions,
        tuple(statements),
        None if own is None else own.own,
        own.trust if own is not None and own.providers else None,
        brokers_of=None if brokers_of is None else frozenset(brokers_of),
        dial_again_s=dial_again_s,
    )
    session = ClientSession(key, settings, random=os.urandom)
    client = Client(
        session, settings, clock, revalidate or AskingTesters(key), on_warning, folders, on_ending
    )
    for history in histories(types):
        client.learn(*history)
    if follows:
        client._connect_elsewhere = lambda other, held: connect(
            other, key=key, network=network, credentials=held, statements=settings.statements,
            brokers=pinned, brokers_of=settings.brokers_of, constitutions=constitutions,
            dial_again_s=dial_again_s, limits=limits, records=records, clock=clock, timeout_s=timeout_s,
            revalidate=revalidate, by_statement=by_statement, identity=identity, follows=False,
        )  # fmt: skip
    runner = NodeRunner(
        session,
        key,
        limits=limits,
        records=records,
        clock=clock,
        dial_again_s=0.0,  # the session itself waits before it dials again
        after_inputs=client._take_notices,
        by_statement=by_statement,
    )
    async with runner.running():
        try:
            async with (
                bringing_statements(client, settings.credentials, settings.statements),
                renewing_identity(client, identity, settings.identity),
                finding_brokers(client, ask_brokers),
            ):
                await client._opened(runner, timeout_s, on_waiting)
                yield client
        finally:
            await client._closed()


async def fetch_definitions(
    client: Client, name: TypeName, *, every: bool = False, timeout_s: float
) -> tuple[SignedDefinition, ...]:
    """Ask a client's broker for a version, or for all, and for those before; nothing of it is verified.

    The broker hands definitions out and vouches for none of them: the caller verifies what it receives
    (`type_folder.verified_lineage`).
    """
    return await definitions_of(name, partial(client._definitions_of, timeout_s=timeout_s), every=every)
