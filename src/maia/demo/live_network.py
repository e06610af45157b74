"""How does the cast of the numberplate story come onto a real network, and what does it receive?

The cameras publish through CCS's broker. The billing office listens there
too, the statistics office at PITO's, with CCS's as its second choice, and
Detective Smith at Met's, as soon as she has her right. Between them is
the broker of a domain without any right to the type (`carriers.py`). What
happens on this network is in `acts.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from maia.demo.carriage import FrameId
from maia.demo.live_processes import LiveNodes
from maia.demo.numberplate import CONTROL_ROOM, NumberplateStory, Sighting, trial_sighting
from maia.demo.performance import CAMERA, OFFICES
from maia.errors import MaiaError, Unavailable
from maia.events import Instant, Value

if TYPE_CHECKING:
    from maia.client.api.client import Client
    from maia.client.api.publisher import Publisher
    from maia.client.api.subscription import Subscription
    from maia.credentials import SignedCertificate, SignedStatement


RouteUpdate = Callable[[str, str, Mapping[str, Value]], None]
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
    tell: RouteUpdate
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
            await self._something(_PROBE_S)
        return time.monotonic() - begun

    async def receive(self, how_many: Mapping[str, int]) -> None:
        """Wait until every office has so many events, or has had the time to."""
        deadline = time.monotonic() + _ARRIVE_S
        while any(len(self.inboxes[office]) < how_many[office] for office in self.readers):
            if time.monotonic() >= deadline:
                return  # what is missing is reported by the comparison
            await self._something(0.1)

    async def until_ended(self, office: str, *, timeout_s: float = _ARRIVE_S) -> Ending | None:
        """Wait until an office is notified that its subscription has ended; None if it is not."""
        deadline = time.monotonic() + timeout_s
        while office not in self.ended and time.monotonic() < deadline:
            await self._something(0.1)
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

    async def _something(self, seconds: float) -> None:
        self.arrived.clear()
        try:
            async with asyncio.timeout(seconds):
                await self.arrived.wait()
        except TimeoutError:
            return


@asynccontextmanager
async def connected(
    nodes: LiveNodes, tell: RouteUpdate, *, offices: Sequence[str] = OFFICES
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
