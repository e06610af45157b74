"""How does the numberplate story go over a real network, with a broker lost in the middle?

The camera publishes through CCS's broker. The billing office listens there
too, Detective Smith at Met's broker, and the statistics office at PITO's,
with CCS's as its second choice. Between them stands the broker of a domain
without any right to the type (`carriers.py`). After half of the sightings
PITO's broker is killed. What each office received is then compared with what
the kernel alone says it should have seen (`performance.py`); nothing is taken
on trust.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from maia.errors import MaiaError, Unavailable
from maia.events import Instant, Value
from maia.runtime.clock import system_now
from maia.scenarios.attempts import Attempt
from maia.scenarios.carriage import FrameId
from maia.scenarios.live_brokers import LiveBroker, LiveNodes
from maia.scenarios.numberplate import SUSPECT, NumberplateStory
from maia.scenarios.performance import OFFICES, Performance, Received, play

if TYPE_CHECKING:
    from maia.runtime.client_api import Client
    from maia.runtime.publisher import Publisher
    from maia.runtime.subscription import Subscription

__all__ = ["LiveNetwork", "LivePlay", "Tell", "connected", "keep_going", "play_live"]

Tell = Callable[[str, str, Mapping[str, Value]], None]
"""Who is told of each delivery: the office, what kind of event it is, and the event."""

HOMES: Final[Mapping[str, tuple[str, ...]]] = {
    "camera at Victoria": ("CCS broker",),
    "billing office": ("CCS broker",),
    "statistics office": ("PITO broker", "CCS broker"),
    "Detective Smith": ("Met broker",),
}
"""Through which brokers each member of the cast connects, the second when the first is gone."""

WITNESS: Final = "billing office"
"""Whose deliveries are shown beside what the broker in the middle carried."""

_SETTLE_S: Final = 20.0
_PROBE_S: Final = 0.05
_ARRIVE_S: Final = 10.0
_SECOND: Final = 1_000_000


class NotSettled(Unavailable):
    """Events did not reach everybody who should see them within the time that a demonstration has."""

    code = "UNAVAILABLE-NOT-SETTLED"


@dataclass(slots=True)
class LiveNetwork:
    """The connected cast: one publisher, and what each office has received so far."""

    story: NumberplateStory
    publisher: Publisher
    clients: Mapping[str, Client]
    tell: Tell
    inboxes: dict[str, list[Mapping[str, Value]]] = field(default_factory=dict)
    probes: dict[str, set[Instant]] = field(default_factory=dict)
    """Which probes reached which office."""
    probed: set[Instant] = field(default_factory=set)
    frames: dict[str, FrameId] = field(default_factory=dict)
    """In which frame each sighting reached the billing office, by its moment."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    first_event_at: float | None = None

    async def publish(self, sightings: Sequence[Mapping[str, Value]]) -> None:
        """Publish through the camera, and wait until its broker has taken everything on."""
        for sighting in sightings:
            await self.publisher.publish(sighting)
        await self.publisher.flush()

    async def settle(self) -> float:
        """Publish the suspect's car until a sighting of it reaches every office; return the seconds."""
        begun, moment = time.monotonic(), system_now()
        mine: set[Instant] = set()
        while not all(mine & self.probes[office] for office in OFFICES):
            if time.monotonic() - begun > _SETTLE_S:
                missing = [office for office in OFFICES if not mine & self.probes[office]]
                raise NotSettled(
                    f"no event reached the {', the '.join(missing)} within {_SETTLE_S:g} seconds"
                )
            moment = Instant(max(system_now(), moment + 1))
            self.probed.add(moment)
            mine.add(moment)
            await self.publish([{"numberplate": SUSPECT, "timestamp": moment, "location": "Victoria"}])
            await self._something(_PROBE_S)
        return time.monotonic() - begun

    async def receive(self, how_many: Mapping[str, int]) -> None:
        """Wait until every office has so many events, or has had the time to."""
        deadline = time.monotonic() + _ARRIVE_S
        while any(len(self.inboxes[office]) < how_many[office] for office in OFFICES):
            if time.monotonic() >= deadline:
                return  # what is missing is reported by the comparison
            await self._something(0.1)

    async def collect(self, office: str, subscription: Subscription) -> None:
        """Take what arrives for one office, for as long as it is subscribed."""
        async for event in subscription:
            if self.first_event_at is None:
                self.first_event_at = time.time()
            moment = event.get("timestamp")
            if isinstance(moment, Instant) and moment in self.probed:
                self.probes[office].add(moment)
                self.tell(office, "probe", event)
            else:
                self.inboxes[office].append(dict(event))
                if office == WITNESS:
                    self.frames[str(moment)] = (event.delivered.stream.hex(), event.delivered.sequence)
                self.tell(office, "sighting", event)
            self.arrived.set()

    async def _something(self, seconds: float) -> None:
        self.arrived.clear()
        try:
            async with asyncio.timeout(seconds):
                await self.arrived.wait()
        except TimeoutError:
            return


@dataclass(frozen=True, slots=True)
class LivePlay:
    """What was received over the network, beside what the kernel says."""

    received: tuple[Received, ...]
    expected: Performance
    killed: str
    ready_s: float
    """From the first probe until events reached everybody."""
    repaired_s: float
    """From the death of a broker until events reached everybody again."""
    first_event_at: float | None
    refused: Attempt
    frames: Mapping[str, FrameId]
    """In which frame each sighting reached the billing office, by its moment."""

    def lost(self) -> list[str]:
        """Return the offices that did not receive the last event they should have seen after the loss."""
        pairs = zip(self.received, self.expected.received, strict=True)
        return [live.office for live, told in pairs if told.events and told.events[-1] not in live.events]

    def differences(self) -> list[str]:
        """Return where the network and the kernel disagree, as sentences."""
        found = []
        for live, told in zip(self.received, self.expected.received, strict=True):
            if list(live.events) != list(told.events):
                found.append(
                    f"the {live.office} received {len(live.events)} events over the network "
                    f"that differ from the {len(told.events)} it should have seen"
                )
        return found


@asynccontextmanager
async def connected(nodes: LiveNodes, tell: Tell) -> AsyncIterator[LiveNetwork]:
    """Connect the camera and the three offices, and subscribe each office to the type."""
    from maia.runtime.client_api import connect

    story = nodes.story
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        clients: dict[str, Client] = {}
        for who, homes in HOMES.items():
            addresses = [nodes.brokers[home].address for home in homes]
            clients[who] = await stack.enter_async_context(
                connect(addresses, key=story.keys[who], network=story.network, credentials=story.certificates)
            )
        publisher = await clients["camera at Victoria"].advertise(story.definition)
        network = LiveNetwork(story, publisher, clients, tell)
        collecting = []
        for office in OFFICES:
            network.inboxes[office], network.probes[office] = [], set()
            subscription = await clients[office].subscribe(story.definition)
            collecting.append(group.create_task(network.collect(office, subscription)))
        try:
            yield network
        finally:
            for task in collecting:
                task.cancel()


async def keep_going(network: LiveNetwork, *, every_s: float = 1.0) -> None:
    """Publish one more sighting now and then, until somebody cancels this."""
    for number in itertools.count():
        plate = SUSPECT if number % 3 == 0 else f"LB{number % 100:02d} KRT"
        sighting: dict[str, Value] = {"numberplate": plate, "timestamp": system_now(), "location": "Victoria"}
        await network.publish([sighting])
        await asyncio.sleep(every_s)


async def play_live(
    network: LiveNetwork,
    brokers: Mapping[str, LiveBroker],
    sightings: Sequence[Mapping[str, Value]],
    *,
    now: Instant,
    say: Callable[[str], None],
) -> LivePlay:
    """Publish half, kill PITO's broker, publish the rest, and compare."""
    expected = play(network.story, sightings, now=now)
    half = len(sightings) // 2 + 1
    ready_s = await network.settle()
    say(f"events reach all three offices {ready_s:.2f} s after the camera's first")
    await network.publish(sightings[:half])
    await network.receive(_counts(play(network.story, sightings[:half], now=now)))
    refused = await _probing(network)
    brokers["PITO broker"].kill()
    say("PITO's broker was killed; the statistics office was connected to it")
    repaired_s = await network.settle()
    say(f"events reach all three offices again after {repaired_s:.2f} s, and nobody subscribed anew")
    await network.publish(sightings[half:])
    await network.receive(_counts(expected))
    received = tuple(Received(office, tuple(network.inboxes[office])) for office in OFFICES)
    return LivePlay(
        received,
        expected,
        "PITO broker",
        ready_s,
        repaired_s,
        network.first_event_at,
        refused,
        network.frames,
    )


async def _probing(network: LiveNetwork) -> Attempt:
    """Let the billing office ask its broker for a filter on what it may not read."""
    title = "over the network: the billing office asks CCS's broker to filter on the location"
    try:
        await network.clients["billing office"].subscribe(network.story.definition, 'location == "Victoria"')
    except MaiaError as problem:
        return Attempt(title, problem.code, problem.message)
    return Attempt(title, None, "nothing stopped it")


def _counts(performance: Performance) -> dict[str, int]:
    return {one.office: len(one.events) for one in performance.received}
