"""P6 over real sockets: the station confirms an officer's right anew, each time it is used (MAIA 6.2.3).

The right says where the station can be asked. A client that logs in, connects and
subscribes does nothing for it: the broker asks, the client has the station
answer over HTTPS, and within a lease all of that happens again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import maia
from maia.broker import BrokerSettings
from maia.broker.server.server import RunningBroker, run_broker
from maia.client.api.client import Client, connect, fetch_definitions
from maia.client.api.subscription import Subscription
from maia.clock import system_now
from maia.credentials import (
    Action,
    SignedCertificate,
    SigningKey,
    TestKind,
)
from maia.domain.access.results import Wallet
from maia.domain.server.access import RunningAccess, access_running
from maia.domain.server.access_config import AccessConfig, PreparedAccess
from maia.domain.server.statement_stream import DomainIdentity
from maia.errors import MaiaError
from maia.testing import free_port, in_a_loop
from support.domain_server import RecordedNotes, key_of
from support.met_town import MET, NETWORK, may, type_with_a_street

SMITH = key_of("smith")
LEASE_S = 8
WARRANTS = type_with_a_street("Warrant")
POLICY = """\
policy "Metropolitan Police"
type Warrant = Warrant
fact detective(who: principal)
role officer()
rule officer()
    while detective(holder)
    for 1 day
grant officer()
    may subscribe, publish Warrant(street)
    checked by one-time
grant officer()
    may connect to network "Met" of here
    checked by one-time
end
"""


@dataclass
class Town:
    """A broker, the station's server, and a client that connects."""

    broker: RunningBroker
    station: RunningAccess
    stack: AsyncExitStack
    serving: AsyncExitStack

    async def wallet(self, who: SigningKey) -> Wallet:
        now = system_now()
        return await self.station.service.ask(
            lambda access: access.login(who.principal, (), actor=who.principal, now=now)
        )

    async def connected(self, who: SigningKey, *shown: SignedCertificate, **named: object) -> Client:
        connecting = maia.connect(
            self.broker.address,
            key=who,
            network=NETWORK,
            credentials=shown or [may(who.principal, Action.CONNECT)],
            types=[WARRANTS],
            **named,  # type: ignore[arg-type]
        )
        return await self.stack.enter_async_context(connecting)

    async def take_back(self, *rights: SignedCertificate) -> bool:
        """Revoke certificates; say whether the network knows it when this returns."""
        ids = [one.id for one in rights]
        _, is_known = await self.station.service.take_away(
            lambda access: access.revoke(ids, "suspended", actor=MET.principal, now=system_now())
        )
        return is_known


@asynccontextmanager
async def town(folder: Path, *, states: bool) -> AsyncIterator[Town]:
    """Run a broker and the station's server, which publishes its lists there if it `states` anything."""
    (folder / "met.policy").write_text(POLICY)
    async with AsyncExitStack() as serving, AsyncExitStack() as stack:
        key = key_of("west")
        settings = BrokerSettings(
            NETWORK, "127.0.0.1:0", (may(key.principal, Action.BROKER),), lease_s=LEASE_S
        )
        broker = await stack.enter_async_context(run_broker(key, settings))
        address = f"127.0.0.1:{free_port()}"
        config = AccessConfig(
            api_listen=address,
            api_public=address,
            broker_addresses=(broker.address,) if states else (),
            broker_carry_s=120,
            policy_file=folder / "met.policy",
            statements_period_s=86_400,
        )
        prepared = PreparedAccess(config, types=(WARRANTS,))
        station = await serving.enter_async_context(
            access_running(prepared, DomainIdentity(MET, NETWORK, ()), data=folder, records=RecordedNotes())
        )
        await station.service.ask(
            lambda access: access.assert_fact(
                "detective", [SMITH.principal], actor=MET.principal, now=system_now()
            )
        )
        yield Town(broker, station, stack, serving)


def asked_each_time(wallet: Wallet) -> list[SignedCertificate]:
    return [
        one
        for one in wallet.chains
        if any(test.kind is TestKind.ONE_TIME for test in one.certificate.validity.tests)
    ]


async def ended(subscription: Subscription) -> str:
    try:
        async with asyncio.timeout(120):
            async for _event in subscription:
                pass
    except MaiaError as problem:
        return problem.code
    return "it was closed"


def challenges(here: Town) -> int:
    counters = here.broker.status()["counters"]
    return counters.get("maia_challenges_total", 0)  # type: ignore[union-attr,attr-defined,no-any-return]


@in_a_loop
async def test_a_right_is_confirmed_when_it_is_used_and_within_every_lease(tmp_path: Path) -> None:
    async with town(tmp_path, states=False) as here:
        wallet = await here.wallet(SMITH)
        assert asked_each_time(wallet)
        smith = await here.connected(SMITH, *wallet.chains, statements=wallet.statements)
        heard = await smith.subscribe(WARRANTS)
        own = await smith.advertise(WARRANTS)
        published, delivered = 0, list[object]()
        async with asyncio.timeout(120):
            while challenges(here) < 9:  # the connection and both, and each of them twice again
                await own.publish(street="Brick Lane")
                await own.flush()
                published += 1
                delivered += [event["street"] for event in await heard.some(10, timeout_s=1.0)]
                await asyncio.sleep(0.1)
        assert heard.problem is None
        assert set(delivered) == {"Brick Lane"}
        # Nothing is lost but while an answer is late: then the client asks for the right again.
        assert len(delivered) > 0.8 * published
        # A client that only asks for a definition is let in by the same right.
        shown = {"network": NETWORK, "credentials": tuple(wallet.chains)}
        async with connect(here.broker.address, key=SMITH, **shown) as asking:
            found = await fetch_definitions(asking, WARRANTS.definition.name, timeout_s=60)
        assert found == (WARRANTS,)


@in_a_loop
async def test_who_is_confirmed_no_more_loses_the_right_at_the_next_authorisation(tmp_path: Path) -> None:
    """The broker receives nothing of the station's lists: its next question tells."""
    async with town(tmp_path, states=False) as here:
        wallet = await here.wallet(SMITH)
        smith = await here.connected(SMITH, *wallet.chains, statements=wallet.statements)
        heard = await smith.subscribe(WARRANTS)
        await here.take_back(*asked_each_time(wallet))
        assert await ended(heard) == "CREDENTIAL-REVOKED"
        with pytest.raises(MaiaError) as refused:
            await here.connected(SMITH, *wallet.chains, statements=wallet.statements)
        assert refused.value.code == "CREDENTIAL-REVOKED"


@in_a_loop
async def test_a_list_of_the_station_still_ends_the_right_at_once(tmp_path: Path) -> None:
    """A35: the act has returned, and nothing is delivered any more."""
    async with town(tmp_path, states=True) as here:
        wallet = await here.wallet(SMITH)
        smith = await here.connected(SMITH, *wallet.chains, statements=wallet.statements)
        heard = await smith.subscribe(WARRANTS)
        before = challenges(here)
        assert await here.take_back(*asked_each_time(wallet))
        assert await ended(heard) == "POLICY-REVOKED"
        assert challenges(here) <= before + 1


@in_a_loop
async def test_a_station_that_is_away_for_a_while_ends_nothing_for_good(tmp_path: Path) -> None:
    """No client vouches meanwhile, so nothing is delivered; the client asks again until a client does."""
    testers = aclosing(maia.api.revalidation.AskingTesters(SMITH))
    async with testers as asking, town(tmp_path, states=False) as here:
        wallet = await here.wallet(SMITH)
        is_away = asyncio.Event()

        async def ask(question, certificate):  # type: ignore[no-untyped-def]
            if is_away.is_set():
                raise maia.errors.Unavailable("UNAVAILABLE-NOT-CONNECTED", "the station does not answer")
            return await asking(question, certificate)

        smith = await here.connected(SMITH, *wallet.chains, statements=wallet.statements, revalidate=ask)
        desk = await here.connected(MET)
        calls = await desk.advertise(WARRANTS)
        heard = await smith.subscribe(WARRANTS)
        is_away.set()
        async with asyncio.timeout(120):
            while here.broker.status()["subscriptions"]:
                await asyncio.sleep(0.05)
        await calls.publish(street="Brick Lane")
        await calls.flush()
        is_away.clear()
        async with asyncio.timeout(120):
            while not here.broker.status()["subscriptions"]:
                await asyncio.sleep(0.05)
        await calls.publish(street="Fashion Street")
        async with asyncio.timeout(120):
            assert (await anext(heard))["street"] == "Fashion Street"


@in_a_loop
async def test_a_station_that_does_not_answer_is_told_of_at_once(tmp_path: Path) -> None:
    async with town(tmp_path, states=False) as here:
        wallet = await here.wallet(SMITH)
        smith = await here.connected(SMITH, *wallet.chains, statements=wallet.statements)
        await here.serving.aclose()
        with pytest.raises(MaiaError) as refused:
            await smith.subscribe(WARRANTS)
        assert refused.value.code.startswith("UNAVAILABLE-")
