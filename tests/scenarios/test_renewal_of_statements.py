"""Statements are renewed inside live links, and a link ends with one that is not; over sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from maia.broker.server.server import RunningBroker, run_broker
from maia.client.api.client import Client
from maia.clock import system_now
from maia.credentials import SigningKey
from maia.credentials.identity import SignedIdentity
from maia.events import SECOND, Instant
from maia.net.statement_links import StatementLinks
from maia.sealing.two_message import LinkIdentity
from maia.testing import in_a_loop, soon, until
from support.live import BROKER, STORY, client, settings
from support.two_message import link_identity, live_statement

CAMERA, BILLING = "camera at Victoria", "billing office"
HERE, THERE = STORY.keys[BROKER], SigningKey.from_seed(b"\x7a" * 32)
TRUST = link_identity(HERE, own=live_statement(HERE)).trust
SHORT_S, LONG_S = 60, 3000


class Clock:
    """The machine's clock, which a test sets ahead for all nodes at once."""

    ahead_s = 0.0

    def __call__(self) -> Instant:
        return Instant(system_now() + int(self.ahead_s * SECOND))


@dataclass
class Notes:
    """What a node writes to its log."""

    events: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        self.events.append((event, fields))

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        pass

    def codes(self, event: str) -> list[object]:
        return [fields.get("code") for name, fields in self.events if name == event]

    def identified(self) -> int:
        return sum(name == "identified" for name, _ in self.events)


@dataclass
class Source:
    """A node's statement, which its provider renews while the node runs."""

    key: SigningKey
    own: SignedIdentity

    def __call__(self) -> LinkIdentity:
        return link_identity(self.key, own=self.own)


def source(key: SigningKey, until_s: float = SHORT_S) -> Source:
    return Source(key, live_statement(key, until_s=until_s))


@dataclass
class World:
    """Two brokers that a statement link connects, and two clients at the ends of statement links."""

    clock: Clock
    here: RunningBroker
    there: RunningBroker
    camera: Client
    billing: Client
    sources: dict[str, Source]
    notes: dict[str, Notes]

    def renew(self, *who: str) -> None:
        for name in who:
            self.sources[name].own = live_statement(self.sources[name].key, until_s=LONG_S)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    clock, notes = Clock(), {name: Notes() for name in ("here", "there", "camera", "billing")}
    keys = {"here": HERE, "there": THERE, "camera": STORY.keys[CAMERA], "billing": STORY.keys[BILLING]}
    sources = {name: source(key) for name, key in keys.items()}
    async with AsyncExitStack() as stack:

        async def broker(name: str, **changes: object) -> RunningBroker:
            before = clock()
            running = await stack.enter_async_context(
                run_broker(
                    keys[name],
                    settings(identity=TRUST, **changes),
                    records=notes[name],
                    clock=clock,
                    by_statement=StatementLinks(sources[name], clock),
                    listen_by_statement="127.0.0.1:0",
                )
            )
            await until(lambda: clock() > before, "requests are signed after the broker's start")
            return running

        async def connected(name: str, who: str, at: RunningBroker, by: SigningKey) -> Client:
            address = at.statement_address
            links = StatementLinks(sources[name], clock, {address: by.principal})
            given = {"by_statement": links, "records": notes[name], "clock": clock}
            return await stack.enter_async_context(client(who, address, **given))

        here = await broker("here")
        seed = f"{HERE.principal}@{here.statement_address}"
        credentials = (STORY.broker_right(THERE),)
        there = await broker("there", credentials=credentials, seeds=(seed,))
        await until(lambda: there.status()["peers"], "the brokers are connected")
        camera = await connected("camera", CAMERA, here, HERE)
        billing = await connected("billing", BILLING, there, THERE)
        yield World(clock, here, there, camera, billing, sources, notes)


def _renewed_broker(one: Client) -> bool:
    """Return whether a client has verified the renewed statement of its broker."""
    session = one._session._connection._session
    return session is not None and session.identity.statement.not_after > system_now() + 2 * SHORT_S * SECOND


@in_a_loop
async def test_links_of_clients_and_brokers_outlive_the_statements_that_opened_them():
    """I4: each side shows its renewed statement on the link, clients, brokers and brokers to clients."""
    async with world() as town:
        bills = await town.billing.subscribe(STORY.definition)
        cars = await town.camera.advertise(STORY.definition)
        town.renew("here", "there", "camera", "billing")
        # Each broker takes the renewed statements of its client and of the other broker.
        await until(lambda: town.notes["here"].identified() >= 2, "the first broker has both")
        await until(lambda: town.notes["there"].identified() >= 2, "the second broker has both")
        for one in (town.camera, town.billing):
            await until(lambda one=one: _renewed_broker(one), "the client has its broker's")
        town.clock.ahead_s = 2 * SHORT_S
        await cars.publish(numberplate="AE05 XYZ")
        event = await soon(anext(bills))
        assert event.publisher.identity is not None
        assert event.publisher.identity.not_after == town.sources["camera"].own.statement.not_after
        assert [code for notes in town.notes.values() for code in notes.codes("closing")] == []
        assert [code for notes in town.notes.values() for code in notes.codes("disconnected")] == []


@in_a_loop
async def test_an_expired_statement_ends_the_link_with_a_code_and_a_renewed_one_brings_it_back():
    """I4, A96: the clients of this town renew, and one of them too late."""
    async with world() as town:
        bills = await town.billing.subscribe(STORY.definition)
        cars = await town.camera.advertise(STORY.definition)
        town.renew("here", "there", "camera")
        await until(lambda: town.notes["there"].identified() >= 1, "the brokers have renewed")
        await until(lambda: town.notes["here"].identified() >= 2, "the camera has, too")
        town.clock.ahead_s = 2 * SHORT_S
        billing = town.notes["billing"]
        await until(lambda: billing.codes("disconnected"), "the link of the billing office has ended")
        assert billing.codes("disconnected")[0] == "CREDENTIAL-IDENTITY-EXPIRED"
        assert any("new one from your provider" in str(one) for _, one in billing.events)
        assert town.notes["here"].codes("closing") == []
        await cars.publish(numberplate="AE05 XYZ")
        await cars.flush()
        town.renew("billing")
        await until(lambda: town.billing.broker == THERE.principal, "the billing office is back")
        await until(lambda: town.there.status()["subscriptions"], "its subscription is asked for again")
        while True:
            await cars.publish(numberplate="BD51 SMR")
            if await bills.some(1, timeout_s=0.5):
                break
