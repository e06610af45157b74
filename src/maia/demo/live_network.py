"""How does the cast of the numberplate story come onto a real network, and what does it receive?

The cameras publish through CCS's broker. The billing office listens there
too, the statistics office at PITO's, with CCS's as its second choice, and
Detective Smith at Met's, as soon as she has her right. Between them is
the broker of a domain without any right to the type. What
happens on this network is in `acts.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from maia.demo.carriage import FrameId
from maia.demo.met_domain import MET_DOMAIN, domain_files
from maia.demo.numberplate import (
    CAMERA,
    CARRIER,
    CONTROL_ROOM,
    KEY_SERVER,
    OFFICES,
    NumberplateStory,
    SealedCast,
    Sighting,
    sealed_story,
    trial_sighting,
)
from maia.demo.processes import (
    BROKER_FILE,
    DOMAIN_FILE,
    LOG_FOLDER,
    RECEIVED_FILE,
    Child,
    Starting,
    arrival,
    home_of,
    start,
    stop_all,
    write_node,
)
from maia.errors import MaiaError, Unavailable
from maia.events import Instant, Value
from maia.types import definition_to_text

if TYPE_CHECKING:
    from maia.client.api.client import Client
    from maia.client.api.publisher import Publisher
    from maia.client.api.subscription import Subscription
    from maia.credentials import SignedCertificate, SignedStatement


# How do the brokers, the key server and the Met's server of the numberplate story come to run, side by side?
#
# Each is a process with files of its own (`processes.py`). One broker records
# what it carries, so that Spark can read it afterwards.


Start = Callable[[str, Path], Starting]
"""How a node is started from its folder."""

LISTENED_TO: Final = (CARRIER, "CCS broker")
"""The brokers that record what they receive: the one that must not read, and one that may."""


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker or key server that runs: whose it is, where it listens, and its process."""

    name: str
    address: str
    folder: Path
    process: Child

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        self.process.kill()


@dataclass(frozen=True, slots=True)
class LiveNodes:
    """The brokers and the key server that run, and the story with the type that names the key server."""

    story: NumberplateStory
    brokers: Mapping[str, LiveBroker]
    key_server: LiveBroker
    domain: Starting | None = None
    """The Met's own server, which may still be starting."""

    def stop_brokers(self) -> None:
        """Ask every broker, and the Met's server, to stop; return when all have. The key server goes on."""
        domain = () if self.domain is None else (self.domain.process,)
        stop_all([*domain, *(one.process for one in self.brokers.values())])


@contextmanager
def starting_nodes(
    story: NumberplateStory,
    cast: SealedCast,
    folder: Path,
    *,
    start: Start = start,
    settings: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> Iterator[StartingNodes]:
    """Start the key server and the third domain's broker; whatever runs has ended when the body has.

    The body has a moment for other things before it asks for the rest with
    `ready`. Tests give some nodes other settings, and start them otherwise.
    """
    starting = StartingNodes(story, cast, folder, start, settings)
    try:
        starting.begin(KEY_SERVER)
        starting.begin(CARRIER)
        yield starting
    finally:
        stop_all([one.process for one in starting.begun.values()])


@dataclass(frozen=True, slots=True)
class StartingNodes:
    """Nodes of which some have been started."""

    story: NumberplateStory
    cast: SealedCast
    folder: Path
    start: Start
    settings: Mapping[str, Mapping[str, object]]
    begun: dict[str, Starting] = field(default_factory=dict)

    def begin(self, name: str, *, join: tuple[str, ...] = (), definition: str | None = None) -> None:
        """Start one node, which joins the network through `join` and knows the type by its definition."""
        home = home_of(self.folder, name)
        lines = dict(self.settings.get(name, {}))
        if definition is not None:
            (home / "types").mkdir(parents=True)
            (home / "types" / "numberplate.type").write_text(definition, encoding="utf-8")
            lines |= {"types": "types", "join": join}
        self._write(home, name, lines)
        self.begun[name] = self.start(name, home)

    def ready(self) -> LiveNodes:
        """Start the three other brokers together, and return when all of them listen."""
        server, carrier = self._listening(KEY_SERVER), self._listening(CARRIER)
        sealed = sealed_story(self.story, self.cast, keys_at=server.address)
        text = definition_to_text(sealed.definition)
        # A broker with more configuration loads more, and starts first.
        for name in sorted(self.cast.brokers, key=lambda one: one not in self.settings):
            self.begin(name, join=(carrier.address,), definition=text)
        others = {name: self._listening(name) for name in self.cast.brokers}
        domain = self._begun_domain(text, others) if MET_DOMAIN in self.cast.keys else None
        return LiveNodes(sealed, {CARRIER: carrier, **others}, server, domain)

    def restarted(self, broker: LiveBroker) -> LiveBroker:
        """Start a broker that was killed again, from its own files, and return when it listens."""
        self.begun[broker.name] = self.start(broker.name, broker.folder)
        return self._listening(broker.name)

    def _begun_domain(self, definition: str, brokers: Mapping[str, LiveBroker]) -> Starting:
        """Start the Met's server, which publishes through the Met's broker."""
        home = home_of(self.folder, MET_DOMAIN)
        lines = domain_files(home, self.story, definition, broker=brokers["Met broker"].address)
        self._write(home, MET_DOMAIN, lines | dict(self.settings.get(MET_DOMAIN, {})))
        self.begun[MET_DOMAIN] = self.start(MET_DOMAIN, home)
        return self.begun[MET_DOMAIN]

    def _write(self, home: Path, name: str, settings: Mapping[str, object]) -> None:
        write_node(
            home,
            file=DOMAIN_FILE if name in {KEY_SERVER, MET_DOMAIN} else BROKER_FILE,
            key=self.cast.keys[name],
            network=self.story.network,
            certificates=self.cast.credentials[name],
            settings=settings,
        )
        if name in LISTENED_TO:
            (home / RECEIVED_FILE).touch()

    def _listening(self, name: str) -> LiveBroker:
        begun = self.begun[name]
        return LiveBroker(name, begun.address(), begun.config.parent, begun.process)


# How is the live network set up so that Spark can read what it carried?


RECORDER: Final = "CCS broker"
"""The broker that records; the cameras are connected to it."""


def recording_settings(story: NumberplateStory, folder: Path) -> dict[str, Mapping[str, object]]:
    """Return the additional settings of CCS's broker and the key server."""
    definition = folder / "recorded.type"
    definition.write_text(definition_to_text(story.definition), encoding="utf-8")
    name = story.definition.definition.name.name
    return {
        RECORDER: {"log.folder": LOG_FOLDER, "log.types": [name]},
        KEY_SERVER: {"history": [str(definition)]},
    }


Tell = Callable[[str, str, Mapping[str, Value]], None]
"""Called for each delivery with the office, the kind of event and the event."""

HOMES: Final[Mapping[str, tuple[str, ...]]] = {
    CAMERA: ("CCS broker",),
    CONTROL_ROOM: ("CCS broker",),
    "billing office": ("CCS broker",),
    "statistics office": ("PITO broker", "CCS broker"),
    "Detective Smith": ("Met broker",),
}
"""Through which brokers each member of the cast connects, the second when the first is gone."""

WITNESS: Final = "billing office"
"""Whose deliveries are shown beside what the broker in the middle carried."""

_SETTLE_S: Final = 120.0
_PROBE_S: Final = 0.05
_ARRIVE_S: Final = 60.0


class NotSettled(Unavailable):
    """Events did not reach every office in time."""

    code = "UNAVAILABLE-NOT-SETTLED"


@dataclass(frozen=True, slots=True)
class Ending:
    """Why an office receives nothing more, and when it was notified."""

    problem: MaiaError
    at: float
    """By the clock that only goes forward."""


@dataclass(slots=True)
class LiveNetwork:
    """The connected cast: who publishes, and what each office has received so far."""

    nodes: LiveNodes
    tell: Tell
    stack: AsyncExitStack
    """Connections that end when the network does."""
    group: asyncio.TaskGroup
    collecting: list[asyncio.Task[None]] = field(default_factory=list)
    clients: dict[str, Client] = field(default_factory=dict)
    publishers: dict[str, Publisher] = field(default_factory=dict)
    inboxes: dict[str, list[Mapping[str, Value]]] = field(default_factory=dict)
    trials: dict[str, set[Instant]] = field(default_factory=dict)
    """Which trial sightings reached which office."""
    tried: set[Instant] = field(default_factory=set)
    """All trial sightings that were published."""
    frames: dict[str, FrameId] = field(default_factory=dict)
    """In which frame each sighting reached the billing office, by its moment."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    first_event_at: float | None = None
    ended: dict[str, Ending] = field(default_factory=dict)
    """The offices whose subscription has ended."""

    @property
    def readers(self) -> list[str]:
        """Return the offices that are subscribed."""
        return [office for office in self.inboxes if office not in self.ended]

    @property
    def story(self) -> NumberplateStory:
        """Return the story that is played."""
        return self.nodes.story

    async def connect(
        self,
        who: str,
        *,
        credentials: Sequence[SignedCertificate] = (),
        statements: Sequence[SignedStatement] = (),
    ) -> Client:
        """Connect a member of the cast through its broker, with the story's certificates and its own."""
        from maia.client.api.client import connect

        story, addresses = self.story, [self.nodes.brokers[home].address for home in HOMES[who]]
        connecting = connect(
            addresses,
            key=story.keys[who],
            network=story.network,
            credentials=[*story.certificates, *credentials],
            statements=statements,
        )
        self.clients[who] = await self.stack.enter_async_context(connecting)
        return self.clients[who]

    async def join(
        self,
        office: str,
        *,
        credentials: Sequence[SignedCertificate] = (),
        statements: Sequence[SignedStatement] = (),
    ) -> None:
        """Connect an office, subscribe it to the type, and collect what it receives."""
        client = await self.connect(office, credentials=credentials, statements=statements)
        subscription = await client.subscribe(self.story.definition)
        self.inboxes[office], self.trials[office] = [], set()
        self.collecting.append(self.group.create_task(self.collect(office, subscription)))

    async def publish(self, sightings: Sequence[Sighting], *, by: str = CAMERA) -> None:
        """Publish as one of the clients, and wait until the broker has accepted everything."""
        if by not in self.publishers:
            self.publishers[by] = await (await self.connect(by)).advertise(self.story.definition)
        publisher = self.publishers[by]
        if by == CAMERA:
            for sighting in sightings:
                await publisher.publish(sighting)
        else:
            await publisher.publish_many(sightings)
        await publisher.flush()

    async def settle(self) -> float:
        """Publish trial sightings until one of them reaches all who are subscribed; return the seconds."""
        begun = time.monotonic()
        mine: set[Instant] = set()
        while not all(mine & self.trials[office] for office in self.readers):
            if time.monotonic() - begun > _SETTLE_S:
                missing = [office for office in self.readers if not mine & self.trials[office]]
                raise NotSettled(
                    f"no event reached the {', the '.join(missing)} within {_SETTLE_S:g} seconds"
                )
            moment = Instant(len(self.tried) + 1)
            self.tried.add(moment)
            mine.add(moment)
            await self.publish([trial_sighting(moment)])
            await arrival(self.arrived, _PROBE_S)
        return time.monotonic() - begun

    async def receive(self, how_many: Mapping[str, int]) -> None:
        """Wait until every office has so many events, or has had the time to."""
        deadline = time.monotonic() + _ARRIVE_S
        while any(len(self.inboxes[office]) < how_many[office] for office in self.readers):
            if time.monotonic() >= deadline:
                return  # what is missing is reported by the comparison
            await arrival(self.arrived, 0.1)

    async def until_ended(self, office: str, *, timeout_s: float = _ARRIVE_S) -> Ending | None:
        """Wait until an office is notified that its subscription has ended; None if it is not."""
        deadline = time.monotonic() + timeout_s
        while office not in self.ended and time.monotonic() < deadline:
            await arrival(self.arrived, 0.1)
        return self.ended.get(office)

    async def collect(self, office: str, subscription: Subscription) -> None:
        """Take what arrives for one office, for as long as it is subscribed."""
        try:
            await self._taken(office, subscription)
        except MaiaError as problem:
            self.ended[office] = Ending(problem, time.monotonic())
            self.arrived.set()

    async def _taken(self, office: str, subscription: Subscription) -> None:
        async for event in subscription:
            if self.first_event_at is None:
                self.first_event_at = time.time()
            moment = event.get("timestamp")
            if isinstance(moment, Instant) and moment in self.tried:
                self.trials[office].add(moment)
                self.tell(office, "trial", event)
            else:
                self.inboxes[office].append(dict(event))
                if office == WITNESS:
                    self.frames[str(moment)] = event.delivered.label.hex()
                self.tell(office, "sighting", event)
            self.arrived.set()


@asynccontextmanager
async def connected(
    nodes: LiveNodes, tell: Tell, *, offices: Sequence[str] = OFFICES
) -> AsyncIterator[LiveNetwork]:
    """Connect the camera and these offices, and subscribe each of them to the type."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        network = LiveNetwork(nodes, tell, stack, group)
        await network.publish(())
        for office in offices:
            await network.join(office)
        try:
            yield network
        finally:
            for task in network.collecting:
                task.cancel()
