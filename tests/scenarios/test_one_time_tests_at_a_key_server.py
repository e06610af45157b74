"""P6 over real sockets: the station confirms a client that gets keys, each time and within every lease.

A broker and a reader of old frames hold rights that are checked by one-time
answers. The key server asks, they have the station answer over HTTPS where
their own certificates say, and a client that the station confirms no more is out
of the key groups by its next question.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import maia
from maia.broker import BrokerSettings
from maia.broker.server.server import RunningBroker, run_broker
from maia.clock import system_now
from maia.credentials import (
    FIRST_VERSION,
    Action,
    SignedCertificate,
    SigningKey,
    TestKind,
    TypeName,
    TypePattern,
    exact_name,
)
from maia.domain import DomainSettings, KeyServer
from maia.domain.access.results import Wallet
from maia.domain.server.access import RunningAccess, access_running
from maia.domain.server.access_config import AccessConfig, PreparedAccess
from maia.domain.server.statement_stream import DomainIdentity
from maia.errors import MaiaError
from maia.events import Attribute, Kind, attribute_uid
from maia.net.addresses import bind
from maia.net.node_runner import NodeRunner
from maia.sealing import Secret
from maia.sealing.member.settings import MemberSettings
from maia.spark.keys.reading_keys import fetch_reading_keys
from maia.testing import free_port, grant, in_a_loop, until
from maia.types import (
    Sealing,
    SealingLevel,
    SignedDefinition,
    TypeDefinition,
    sign_definition,
    verify_definition,
)
from maia.validity import Monitor
from support.domain_server import RecordedNotes, key_of
from support.met_town import MET, NETWORK, may

KEYS, WEST, ADA, READER = (key_of(name) for name in ("keys", "west", "ada", "reader"))
LEASE_S = 4
POLICY = """\
policy "Metropolitan Police"
type Warrant = Warrant
fact trusted(who: principal)
role trustee()
rule trustee()
    while trusted(holder)
    for 1 day
grant trustee()
    may subscribe to Warrant(street)
    checked by one-time
end
"""


def warrants(keys_at: str) -> SignedDefinition:
    """Return a sealed type of the Met's, whose keys are to be had at an address."""
    street = Attribute(attribute_uid("street"), "street", Kind.STRING)
    name = TypeName(MET.principal, "Warrant", FIRST_VERSION)
    sealing = Sealing(SealingLevel.ATTRIBUTE, KEYS.principal, (keys_at,))
    return sign_definition(TypeDefinition(name, None, (street,), sealing=sealing), MET)


def reads(who: SigningKey) -> SignedCertificate:
    """Let a client read the type, on the Met's own word."""
    return grant(MET, who, TypePattern(MET.principal, exact_name("Warrant"), None), Action.SUBSCRIBE)


@dataclass
class Town:
    """The station's server, the key server, and the type that they are about."""

    station: RunningAccess
    keys: KeyServer
    definition: SignedDefinition

    @property
    def type_id(self) -> bytes:
        return verify_definition(self.definition, at=system_now()).type_id

    def asked(self) -> int:
        """Return how often the key server has asked."""
        return self.keys.status(system_now())["counters"].get("maia_challenges_total", 0)  # type: ignore[attr-defined,no-any-return]

    async def wallet(self, who: SigningKey) -> Wallet:
        """Make a client trusted, and let it log in."""
        now = system_now()
        await self.station.service.ask(
            lambda access: access.assert_fact("trusted", [who.principal], actor=MET.principal, now=now)
        )
        return await self.station.service.ask(
            lambda access: access.login(who.principal, (), actor=who.principal, now=now)
        )

    async def take_back(self, *rights: SignedCertificate) -> None:
        ids = [one.id for one in rights]
        await self.station.service.take_away(
            lambda access: access.revoke(ids, "suspended", actor=MET.principal, now=system_now())
        )


@asynccontextmanager
async def town(folder: Path) -> AsyncIterator[Town]:
    """Run the station, which no client receives lists of, and a key server."""
    (folder / "met.policy").write_text(POLICY)
    listening, keys_at = bind("127.0.0.1:0")
    definition, address = warrants(keys_at), f"127.0.0.1:{free_port()}"
    config = AccessConfig(
        api_listen=address,
        api_public=address,
        policy_file=folder / "met.policy",
        statements_period_s=86_400,
    )
    prepared, identity = PreparedAccess(config, types=(definition,)), DomainIdentity(MET, NETWORK, ())
    history = frozenset({verify_definition(definition, at=system_now()).type_id})
    shown = (may(KEYS.principal, Action.CONNECT),)
    settings = DomainSettings(NETWORK, keys_at, shown, history=history, lease_s=LEASE_S)
    server = KeyServer(KEYS, settings, at_rest=Secret.from_bytes(os.urandom(32)), random=os.urandom)
    async with AsyncExitStack() as stack:
        stack.enter_context(listening)
        station = await stack.enter_async_context(
            access_running(prepared, identity, data=folder, records=RecordedNotes())
        )
        runner = NodeRunner(server, KEYS)
        await stack.enter_async_context(runner.running())
        runner.perform(server.start(system_now()))
        runner.listen(listening)
        yield Town(station, server, definition)
        await runner.drain(server.drain(system_now()))


def asked_each_time(wallet: Wallet) -> list[SignedCertificate]:
    kinds = [(one, {test.kind for test in one.certificate.validity.tests}) for one in wallet.chains]
    found = [one for one, tests in kinds if TestKind.ONE_TIME in tests]
    assert found
    return found


def groups_of(broker: RunningBroker, here: Town) -> int:
    keys = broker.status()["keys"]
    known = keys["types"].get(here.type_id.hex())  # type: ignore[index]
    return 0 if known is None else known["groups"]


@in_a_loop
async def test_a_broker_is_confirmed_while_it_holds_keys_and_put_out_when_it_is_not(tmp_path: Path) -> None:
    """A30, A35: the broker's own wallet says where the station is; no client asks about anything else."""
    async with town(tmp_path) as here:
        wallet = await here.wallet(WEST)
        own = (may(WEST.principal, Action.BROKER), *wallet.chains)
        settings = BrokerSettings(NETWORK, "127.0.0.1:0", own)
        shown = [may(ADA.principal, Action.CONNECT), reads(ADA)]
        async with (
            run_broker(WEST, settings) as broker,
            maia.connect(
                broker.address, key=ADA, network=NETWORK, credentials=shown, types=[here.definition]
            ) as ada,
        ):
            broker.runner.perform(broker.broker.hear(wallet.statements, system_now()))
            await ada.subscribe(here.definition)
            await until(lambda: groups_of(broker, here) > 0, "the broker has keys")
            await until(lambda: here.asked() >= 3, "it was asked about again, and again")
            # On a slow machine an answer may have been late; then it has asked for the keys again.
            await until(lambda: groups_of(broker, here) > 0, "it has the keys still, or again")
            await here.take_back(*asked_each_time(wallet))
            await until(lambda: groups_of(broker, here) == 0, "the broker is put out")


@in_a_loop
async def test_a_reader_of_old_frames_is_confirmed_when_it_asks_for_keys(tmp_path: Path) -> None:
    """A30: what the station confirms no more opens nothing, and the reader receives the station's reason."""
    async with town(tmp_path) as here:
        wallet = await here.wallet(READER)
        versions = [verify_definition(here.definition, at=system_now())]
        settings = MemberSettings(NETWORK, (may(READER.principal, Action.CONNECT), *wallet.chains))
        heard = Monitor()
        for one in wallet.statements:
            heard.receive(one, system_now())
        asking = partial(fetch_reading_keys, READER, settings, versions, standing=heard)
        found = await asking()
        wanted = frozenset({None, *versions[0].kinds})
        held = found.source.held(1, wanted)
        assert held is not None
        assert held.keys
        await here.take_back(*asked_each_time(wallet))
        with pytest.raises(MaiaError) as refused:
            await asking()
        assert refused.value.code == "CREDENTIAL-REVOKED"
