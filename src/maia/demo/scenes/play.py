"""What happens in a scene, and is what arrives what the kernel says?

Publishers and readers are clients with connections of their own. Before
an event is published, the kernel says from certificates and policies who has to
see what of it. Afterwards each reader's inbox must hold exactly that: nothing
missing, nothing more, nothing twice. A probe, sent after everything else, shows
that nothing is still under way.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from maia.clock import system_now
from maia.credentials import Principal
from maia.demo.processes import arrival
from maia.demo.scenes.scene import Happening, Reader, Scene, Wallet
from maia.demo.scenes.world import World
from maia.errors import MaiaError, Refusal, Unavailable
from maia.events import SECOND, Instant, Value
from maia.expressions import TransformationKeys
from maia.policy import View

if TYPE_CHECKING:
    from maia.client.api.client import Client
    from maia.client.api.publisher import Publisher
    from maia.client.api.subscription import Subscription
    from maia.ledger.records import Disclosure


Say = Callable[[str], None]
"""Called with a sentence whenever something has happened."""

_SETTLE_S: Final = 90.0
_ARRIVE_S: Final = 60.0
_PROBE_S: Final = 0.25
_DAY: Final = 86_400 * SECOND


class NotConnectedInTime(Unavailable):
    """Events did not reach all readers of a scene within the time they were given."""

    code = "UNAVAILABLE-SCENE-NOT-CONNECTED"


@dataclass(frozen=True, slots=True)
class Published:
    """An event as it was published, and who has to see what of it, as the kernel says."""

    by: str
    type_name: str
    event: Happening
    expected: dict[str, Happening]
    is_probe: bool = False
    is_close_up: bool = False


@dataclass(slots=True)
class Inbox:
    """What a reader received."""

    events: list[Happening] = field(default_factory=list)
    probes: set[str] = field(default_factory=set)
    ended: str | None = None
    """The code with which its subscription has ended."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """Who tried what, and with which code it was refused; None if nothing stopped it."""

    title: str
    code: str | None


@dataclass(frozen=True, slots=True)
class _Showing:
    """What the kernel shows to each reader at one moment."""

    stage: Stage
    views: Mapping[str, View]
    keys: TransformationKeys

    def published(self, by: str, type_name: str, event: Happening) -> Published:
        """Return an event with what each reader has to see of it."""
        seen = {}
        for reader in self.stage.scene.readers:
            if reader.type_name == type_name and reader.name in self.views:
                shown = self.stage.world.cast.seen(reader, self.views[reader.name], event, self.keys)
                if shown is not None:
                    seen[reader.name] = shown
        return Published(by, type_name, event, seen)


@dataclass(slots=True)
class Stage:
    """What an act works with, and what the acts before it have left."""

    world: World
    say: Say
    stack: AsyncExitStack
    group: asyncio.TaskGroup
    wallets: dict[str, Wallet] = field(default_factory=dict)
    inboxes: dict[str, Inbox] = field(default_factory=dict)
    clients: dict[str, Client] = field(default_factory=dict)
    advertised: dict[str, Publisher] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)
    attempted: list[Attempted] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Claims that do not hold, beside those about deliveries."""
    probed: dict[str, set[str]] = field(default_factory=dict)
    """What each reader has to see of all probes so far."""
    rounds: int = 0
    """How often probes were published; each time they are a day older, so that each is known by its time."""
    rows: set[tuple[str, str]] = field(default_factory=set)
    """What the database's table holds, as the acts know it."""
    lost: set[str] = field(default_factory=set)
    """The readers that have lost a right."""
    disclosed: dict[str, int] = field(default_factory=dict)
    """How many events for each reader are in the brokers' ledgers, probes included."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def scene(self) -> Scene:
        """Return the scene that is played."""
        return self.world.cast.scene

    def inbox(self, reader: str) -> Inbox:
        """Return what a reader has received."""
        return self.inboxes[reader]

    # ------------------------------------------------------------ who takes part

    async def connect_all(self) -> None:
        """Register all readers, let them log in, and connect them and the publishers."""
        for reader in self.scene.readers:
            await asyncio.to_thread(self.world.register, reader)
        for reader in self.scene.readers:
            self.wallets[reader.name] = await asyncio.to_thread(self.world.log_in, reader)
        async with asyncio.TaskGroup() as group:
            for reader in self.scene.readers:
                group.create_task(self._join(reader))
        for publisher in self.scene.publishers:
            client = await self._connected(publisher.name, publisher.broker)
            self.advertised[publisher.name] = await client.advertise(
                self.world.cast.definitions[publisher.type_name]
            )
        await self.settle()

    async def _connected(self, who: str, broker: str, wallet: Wallet | None = None) -> Client:
        from maia.client.api.client import connect

        cast = self.world.cast
        connecting = connect(
            self.world.addresses[broker],
            key=cast.keys[who],
            network=cast.network,
            credentials=[*cast.certificates[who], *(wallet.certificates if wallet else ())],
            statements=wallet.statements if wallet else (),
            types=list(cast.definitions.values()),
            timeout_s=_SETTLE_S,
        )
        self.clients[who] = await self.stack.enter_async_context(connecting)
        return self.clients[who]

    async def _join(self, reader: Reader) -> None:
        definitions = self.world.cast.definitions
        client = await self._connected(reader.name, reader.broker, self.wallets[reader.name])
        shown_as = None if reader.shown_as is None else definitions[reader.shown_as]
        found = await client.subscribe(definitions[reader.type_name], shown_as=shown_as)
        self.inboxes[reader.name], self.probed[reader.name] = Inbox(), set()
        self.tasks.append(self.group.create_task(self._collect(reader.name, found)))

    async def _collect(self, who: str, subscription: Subscription) -> None:
        inbox = self.inboxes[who]
        try:
            async for event in subscription:
                seen = dict(event)
                if repr(seen) in self.probed[who]:
                    inbox.probes.add(repr(seen))
                else:
                    inbox.events.append(seen)
                self.arrived.set()
        except MaiaError as problem:
            inbox.ended = problem.code
            self.arrived.set()

    # ------------------------------------------------------------ what the kernel says

    def views(self) -> dict[str, View]:
        """Return what each reader may see at this moment; a reader without any right is left out."""
        found, now = {}, system_now()
        for reader in self.scene.readers:
            try:
                found[reader.name] = self.world.cast.view_of(reader, self.wallets[reader.name], now=now)
            except Refusal:
                continue
        return found

    def expected(self, by: str, events: Sequence[Happening]) -> list[Published]:
        """Return events as they will be published, what the database will make of them, and who sees what."""
        cast, now = self.world.cast, system_now()
        showing = _Showing(self, self.views(), self.world.transformation_keys())
        type_name = next(one.type_name for one in self.scene.publishers if one.name == by)
        found = []
        for event in events:
            written = cast.written(by, event, now=now)
            found.append(showing.published(by, type_name, written))
            for made_of, derived in cast.derived(type_name, written, self.rows):
                assert self.scene.database is not None  # noqa: S101 - it has derived something
                found.append(showing.published(self.scene.database.name, made_of, derived))
        return found

    # ------------------------------------------------------------ what happens

    async def publish(self, by: str, events: Sequence[Happening], *, is_close_up: bool = False) -> int:
        """Publish, and wait until everything has arrived; return how many deliveries there were."""
        before = self.deliveries()
        await self.send(by, events, is_close_up=is_close_up)
        await self.receive()
        return self.deliveries() - before

    async def send(self, by: str, events: Sequence[Happening], *, is_close_up: bool = False) -> None:
        """Publish, until the publisher's broker has accepted everything."""
        self.published += [replace(one, is_close_up=is_close_up) for one in self.expected(by, events)]
        await self.advertised[by].publish_many([dict(event) for event in events])
        await self.advertised[by].flush()

    async def receive(self) -> None:
        """Wait until all that has to arrive has arrived, and whatever else is under way."""
        deadline = time.monotonic() + _ARRIVE_S
        while any(len(self.inboxes[who].events) < count for who, count in self._awaited().items()):
            if not await self._something(deadline):
                break  # what is missing is reported by the comparison
        await self._probe_reaches(deadline)

    def deliveries(self) -> int:
        """Return how many events all readers have received, without probes."""
        return sum(len(inbox.events) for inbox in self.inboxes.values())

    def _awaited(self) -> Counter[str]:
        return Counter(who for one in self.published if not one.is_probe for who in one.expected)

    async def settle(self) -> None:
        """Probe until every reader is reached."""
        deadline = time.monotonic() + _SETTLE_S
        while missing := await self._probe_reaches(time.monotonic() + 2 * _PROBE_S):
            if time.monotonic() > deadline:
                raise NotConnectedInTime(f"no event reached {', '.join(missing)} in {_SETTLE_S:g} seconds")

    async def _probe_reaches(self, deadline: float) -> list[str]:
        """Publish the probes, and return the readers that have not received theirs by then."""
        self.rounds += 1
        moment, wanted = Instant(self.rounds * _DAY), []
        for by, event in self.scene.probes:
            probe = {**event, "time": moment}
            for one in self.expected(by, [probe]):
                self.published.append(replace(one, is_probe=True))
                for who, seen in one.expected.items():
                    self.probed[who].add(repr(dict(seen)))
                    wanted.append((who, repr(dict(seen))))
            await self.advertised[by].publish(probe)
            await self.advertised[by].flush()
        while missing := [who for who, seen in wanted if seen not in self.inboxes[who].probes]:
            if not await self._something(deadline):
                break
        return missing

    async def _something(self, deadline: float) -> bool:
        """Wait until something arrives or a moment has passed; say whether there is time left."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        await arrival(self.arrived, min(left, _PROBE_S))
        return True

    async def retract(self, reader: str, fact: str, *arguments: str) -> None:
        """Let a reader's organisation withdraw a fact, and the rights that depend on it."""
        one = self.scene.reader(reader)
        self.lost.add(reader)
        statement = await asyncio.to_thread(self.world.retract, one, fact, arguments)
        # Every reader of this organisation is judged by its newest statement from now on.
        for name, wallet in self.wallets.items():
            if self.scene.reader(name).organisation == one.organisation:
                self.wallets[name] = replace(wallet, statements=(*wallet.statements, statement))

    async def ending_of(self, reader: str) -> str | None:
        """Wait until the subscription of a reader ends; return the code, None if it goes on."""
        deadline = time.monotonic() + _ARRIVE_S
        while self.inboxes[reader].ended is None and await self._something(deadline):
            pass
        return self.inboxes[reader].ended

    async def check_stored(self) -> None:
        """Compare how many events the database has stored with how many were published."""
        database = self.scene.database
        if database is None:
            return
        published = sum(one.type_name == database.stores for one in self.published)
        stored = await asyncio.to_thread(self.world.stored)
        if stored != published:
            self.broken.append(f"{published} events were published, and {stored} are in the {database.name}")
        self.say(f"the {database.name} has stored all {stored} events, probes included")

    async def forget_row(self, row: tuple[str, str]) -> None:
        """Delete a row of the table that the database's queries ask."""
        await asyncio.to_thread(self.world.forget_row, row)
        self.rows.discard(row)

    async def attempt(self, title: str, trying: Awaitable[object]) -> None:
        """Try what has to be refused, and note the code."""
        try:
            await trying
        except MaiaError as problem:
            self.attempted.append(Attempted(title, problem.code))
        else:
            self.attempted.append(Attempted(title, None))
            self.broken.append(f"{title}: nothing stopped it")

    # ------------------------------------------------------------ what is found

    def differences(self) -> Iterator[str]:
        """Say where what arrived is not what the kernel says."""
        for reader in self.scene.readers:
            expected = Counter(repr(dict(one)) for one in self.due(reader.name))
            received = Counter(repr(dict(one)) for one in self.inboxes[reader.name].events)
            for words, count in (("missed", expected - received), ("got", received - expected)):
                if count.total():
                    yield f"{reader.name} {words} {count.total()} events, against the kernel"

    def unexplained(self, disclosures: Mapping[Principal, Sequence[Disclosure]]) -> Iterator[str]:
        """Say where the brokers' ledgers are not what the readers received, and by which right."""
        cast = self.world.cast
        for reader in self.scene.readers:
            inbox, told = self.inboxes[reader.name], disclosures.get(cast.principal(reader.name), ())
            rows = self.disclosed[reader.name] = sum(one.rows for one in told)
            received = len(inbox.events) + len(inbox.probes)
            if rows != received:
                yield f"the ledgers name {rows} events for {reader.name}, who received {received}"
            held = (*cast.certificates[reader.name], *self.wallets[reader.name].certificates)
            if not {each for one in told for each in one.certificates} <= {one.id for one in held}:
                yield f"a ledger names a certificate that {reader.name} does not hold"
            names = {one.uid: one.name for one in cast.types[reader.shown_as or reader.type_name].attributes}
            shown = {names.get(uid) for one in told for uid in one.attributes}
            seen = {name for name, values in self.values_seen(reader.name).items() if values}
            if not seen <= shown:
                yield f"{reader.name} saw attributes that no ledger names: {', '.join(sorted(seen - shown))}"

    def due(self, reader: str) -> list[Happening]:
        """Return what the kernel says that a reader has to see, in order."""
        return [one.expected[reader] for one in self.published if not one.is_probe and reader in one.expected]

    def on_record(self, reader: Reader) -> list[Happening]:
        """Return what the kernel says that a reader sees of the log with the rights that it has now."""
        showing = _Showing(self, self.views(), self.world.transformation_keys())
        again = (showing.published(one.by, one.type_name, one.event) for one in self.published)
        return [one.expected[reader.name] for one in again if reader.name in one.expected]

    def values_seen(self, reader: str) -> dict[str, set[Value]]:
        """Return all values of each attribute that reached a reader."""
        found: dict[str, set[Value]] = {}
        for event in self.inboxes[reader].events:
            for name, value in event.items():
                found.setdefault(name, set())
                if value is not None:
                    found[name].add(value)
        return found


async def play(world: World, say: Say) -> Stage:
    """Play all acts of a scene on a world that is at work."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        stage = Stage(world, say, stack, group)
        if stage.scene.database is not None:
            stage.rows |= stage.scene.database.rows
        try:
            await stage.connect_all()
            for act in stage.scene.acts:
                await act(stage)
        finally:
            for task in stage.tasks:
                task.cancel()
    stage.broken += stage.differences()
    return stage
