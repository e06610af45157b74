"""P7 over real sockets: three brokers in three domains, and a right that is taken back in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256

import pytest

import maia
from maia.broker import BrokerSettings
from maia.broker.server.server import RunningBroker, run_broker
from maia.client import BrokerUnavailable, RefusedByBroker
from maia.client.api.client import Client
from maia.client.api.publisher import Publisher
from maia.client.api.subscription import Subscription
from maia.clock import system_now
from maia.credentials import Action, SignedCertificate, SigningKey, TestKind
from maia.errors import MaiaError
from maia.testing import DEADLINE_S, Statements, in_a_loop, until
from maia.types import validity_definition
from support.numberplate import LOCATION, NUMBERPLATE, TIMESTAMP, add_brokers, tell_numberplate_story

SEED = b"revocation over three domains"
BROKERS = ("PITO broker", "CCS broker", "Met broker")


@dataclass
class Place:
    """The brokers that run, and the clients of this test."""

    brokers: dict[str, RunningBroker]
    stack: AsyncExitStack

    def __post_init__(self) -> None:
        self.cast = tell_numberplate_story(SEED, now=system_now())
        self.says = Statements(self.cast.keys["CCS"])

    def right(self, name: str, **changes: object) -> SignedCertificate:
        """Let CCS grant a client to see numberplates, for as long as it confirms that."""
        named = {"test": TestKind.TIMED_CRL, "attributes": frozenset({NUMBERPLATE, TIMESTAMP})} | changes
        to = key_of(name).principal
        return self.cast.grant("CCS", to, self.cast.definition, Action.SUBSCRIBE, **named)

    async def office(self, name: str, at: str, *rights: SignedCertificate, **named: object) -> Client:
        story, key = self.cast, key_of(name)
        chain = (story.connect_right(key.principal), story.issued("PITO to CCS", Action.PUBLISH))
        return await self.stack.enter_async_context(
            maia.connect(
                self.brokers[at].address,
                key=key,
                network=story.network,
                credentials=(*chain, *rights),
                types=[story.definition],
                **named,
            )
        )

    async def member(self, who: str, at: str) -> Client:
        story = self.cast
        return await self.stack.enter_async_context(
            maia.connect(
                self.brokers[at].address,
                key=story.keys[who],
                network=story.network,
                credentials=story.certificates,
                types=[story.definition],
            )
        )

    async def issuer(self) -> Publisher:
        """Connect CCS to its broker, to state what it confirms."""
        ccs = await self.member("CCS", "CCS broker")
        install = self.cast.issued("PITO to CCS", Action.INSTALL)
        return await ccs.advertise(validity_definition(self.cast.keys["CCS"], (install,)))

    async def state(self, issuer: Publisher, *statements) -> None:
        for signed in statements:
            await issuer.publish(statement=maia.credentials.statement_to_bytes(signed))
        await issuer.flush()


def key_of(name: str) -> SigningKey:
    return SigningKey.from_seed(sha256(SEED + b"/office/" + name.encode()).digest())


@asynccontextmanager
async def three_domains() -> AsyncIterator[Place]:
    story = tell_numberplate_story(SEED, now=system_now())
    cast = add_brokers(story, SEED)
    async with AsyncExitStack() as stack:
        running: dict[str, RunningBroker] = {}
        for name in BROKERS:
            seeds = tuple(one.address for one in running.values())
            settings = BrokerSettings(story.network, "127.0.0.1:0", cast.wallets[name], seeds)
            running[name] = await stack.enter_async_context(run_broker(cast.keys[name], settings))
        await _joined(running)
        yield Place(running, stack)


async def _joined(running: dict[str, RunningBroker]) -> None:
    await until(
        lambda: all(one.status()["peers"] == len(running) - 1 for one in running.values()),
        "everybody to know everybody",
    )


async def plates(subscription: Subscription) -> list[str]:
    """Return what arrives first, and within a moment behind it."""
    found: list[str] = []
    while some := await subscription.some(100, timeout_s=0.5 if found else DEADLINE_S):
        found += [str(event["numberplate"]) for event in some]
    return found


@in_a_loop
async def test_a_right_is_taken_back_in_three_domains_at_once() -> None:
    """A35: gone at the local broker when the publication has returned; elsewhere a moment later."""
    async with three_domains() as place:
        issuer = await place.issuer()
        await place.state(issuer, place.says.list_for(system_now(), 3600))
        rights = {name: place.right(name) for name in (*BROKERS, "other")}
        offices: dict[str, Subscription] = {}
        for name in BROKERS:
            client = await place.office(name, name, rights[name])
            offices[name] = await client.subscribe("uk.gov.pito.Numberplate", 'numberplate = "A1"')
        other = await (await place.office("other", "Met broker", rights["other"])).subscribe(
            "uk.gov.pito.Numberplate"
        )
        camera = await (await place.member("camera at Victoria", "CCS broker")).advertise(
            "uk.gov.pito.Numberplate"
        )
        await camera.publish(numberplate="A1", location="Victoria", timestamp=system_now())
        await camera.flush()
        assert [await plates(one) for one in (*offices.values(), other)] == [["A1"]] * 4

        await place.state(issuer, place.says.revoke(*(rights[name] for name in BROKERS)))
        await camera.publish(numberplate="A1", location="Victoria", timestamp=system_now())
        await camera.flush()
        for name, subscription in offices.items():
            with pytest.raises(RefusedByBroker) as ended:
                async with asyncio.timeout(DEADLINE_S):
                    assert [one async for one in subscription] == [], name
            assert ended.value.code == "POLICY-REVOKED"
        assert await plates(other) == ["A1"]
        assert other.problem is None


@in_a_loop
async def test_a_subscription_waits_for_the_word_that_it_needs() -> None:
    """The application does not notice that its broker had to ask who confirms its certificate."""
    async with three_domains() as place:
        right = place.right("early")
        client = await place.office("early", "Met broker", right)
        asking = asyncio.create_task(client.subscribe("uk.gov.pito.Numberplate"))
        await asyncio.sleep(0.5)
        assert not asking.done()
        issuer = await place.issuer()
        await place.state(issuer, place.says.list_for(system_now(), 3600))
        subscription = await asking
        assert subscription.problem is None


@in_a_loop
async def test_without_any_word_a_subscription_fails_with_its_code() -> None:
    async with three_domains() as place:
        client = await place.office("alone", "Met broker", place.right("alone"))
        with pytest.raises(BrokerUnavailable) as waited:
            await client.subscribe("uk.gov.pito.Numberplate", timeout_s=8)
        assert waited.value.code == "UNAVAILABLE-STATEMENT-AWAITED"


@in_a_loop
async def test_more_is_shown_within_a_connection() -> None:
    """Rights widen without a reconnection, and the client brings the statement that they need itself."""
    async with three_domains() as place:
        narrow = place.right("office", test=None)
        client = await place.office("office", "Met broker", narrow)
        subscription = await client.subscribe("uk.gov.pito.Numberplate")
        camera = await (await place.member("camera at Victoria", "Met broker")).advertise(
            "uk.gov.pito.Numberplate"
        )
        await camera.publish(numberplate="A1", location="Victoria", timestamp=system_now())
        wide = place.right("office", attributes=frozenset({NUMBERPLATE, TIMESTAMP, LOCATION}))
        first = await anext(subscription)
        await client.show([wide], [place.says.list_for(system_now(), 3600)])
        await camera.publish(numberplate="A1", location="Victoria", timestamp=system_now())
        second = await anext(subscription)
        assert first["location"] is None
        assert second["location"] == "Victoria"
        assert subscription.changed is not None


@in_a_loop
async def test_a_client_without_a_right_to_connect_any_more_is_told_so() -> None:
    async with three_domains() as place:
        name, to = "guest", key_of("guest").principal
        connect = place.cast.issued("PITO to CCS", Action.CONNECT)
        own = replace(connect.certificate, issuer=place.cast.principal("CCS"), subject=to, may_delegate=False)
        guest = maia.credentials.issue(own, place.cast.keys["CCS"])
        issuer = await place.issuer()
        async with maia.connect(
            place.brokers["CCS broker"].address,
            key=key_of(name),
            network=place.cast.network,
            credentials=[connect, guest, place.cast.issued("PITO to CCS", Action.PUBLISH),
                         place.right(name, test=None)],
            types=[place.cast.definition],
        ) as client:  # fmt: skip
            subscription = await client.subscribe("uk.gov.pito.Numberplate")
            await place.state(issuer, place.says.revoke(guest))
            with pytest.raises(MaiaError) as ended:
                async with asyncio.timeout(DEADLINE_S):
                    await anext(subscription)
            assert ended.value.code == "POLICY-REVOKED"
            with suppress(MaiaError):
                await subscription.unsubscribe(timeout_s=0.1)
