"""How long does one event take from its publisher, through a broker, to its subscriber?

One event at a time: the next leaves when the last has arrived. Ours travels
over mutual TLS 1.3 and through the same checks, filter and screening as in
#12; events are sent in clear. Sides take turns in short series; each series gives
one median and one 99th percentile, and a ratio belongs to two series that ran
side by side. Beside us and each peer runs a relay over TLS in Python that passes bytes on and does nothing
else (`bare_relay.py`): where its ratio is near a target, Python and TLS leave no room below it. The last case
measures what an application sees that uses our
Python client on both sides, which decodes and checks every value again.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from time import perf_counter_ns

import maia
from harness import Benchmark, Case, Figure, NotMeasured, Target, at_most
from live_network import (
    ATTRIBUTES,
    EVERY_EVENT,
    BrokerProcess,
    Line,
    World,
    broker_process,
    events,
    maia_line,
    new_world,
)
from live_peers import MissingPeer, bare_relay_line, mosquitto_line, nats_line
from maia.credentials import Action
from maia.types import definition_from_bytes

Series = Callable[[int], list[float]]
"""Send so many events one by one, and return how many microseconds each took."""
Played = list[tuple[list[float], ...]]
"""The series of all sides, round by round."""

WITH_WHAT = "TLS, access control and filter, sent in clear"
RELAY = "a relay over TLS in Python that does nothing"
HALF, MOST = 0.50, 0.99
PEERS: tuple[tuple[str, Callable[[], AbstractContextManager[Line]], float, Target], ...] = (
    ("nats-server", lambda: nats_line(rows=1), HALF, at_most(2.5)),
    ("mosquitto QoS 0", lambda: mosquitto_line(rows=1), MOST, at_most(2)),
)


def cases(quick: bool) -> Iterator[Case]:
    """Yield the median against one peer, the 99th percentile against the other, and our own client."""
    length, rounds = (100, 3) if quick else (1000, 15)
    world = new_world()
    with (
        broker_process(world) as broker,
        maia_line(world, broker, rows=1) as line,
        bare_relay_line(rows=1) as bare,
    ):
        ours, relay = _series_on(line), _series_on(bare)
        for name, start, share, target in PEERS:
            cases = [f"p{share * 100:.0f}, {what}, against {name}" for what in (WITH_WHAT, RELAY)]
            with ExitStack() as stack:
                try:
                    peer = _series_on(stack.enter_context(start()))
                except MissingPeer as missing:
                    yield from (NotMeasured(case, str(missing), target) for case in cases)
                    continue
                played = _played([ours, relay, peer], length, rounds)
            for at, case in enumerate(cases):
                yield _figure(case, [(row[at], row[2]) for row in played], share, target)
            case = f"p{share * 100:.0f}, {WITH_WHAT}, against {RELAY}"
            yield _figure(case, [(row[0], row[1]) for row in played], share, at_most(2))
        with _client_series(world, broker) as client:
            yield _figure(
                f"our Python client on both sides, p50, {WITH_WHAT}, against our raw connections",
                _played([client, ours], length, rounds),
                HALF,
                at_most(3),
            )


def _played(sides: Sequence[Series], length: int, rounds: int) -> Played:
    """Let all sides take turns, once before anything counts."""
    for one in sides:
        one(length // 4)
    return [tuple(one(length) for one in sides) for _ in range(rounds)]


def _figure(case: str, played: Played, share: float, target: Target) -> Figure:
    ours = [_quantile(one, share) for one, _ in played]
    peer = [_quantile(other, share) for _, other in played]
    ratios = [one / other for one, other in zip(ours, peer, strict=True)]
    return Figure(case, ratios, target, ours_us=ours, peer_us=peer)


def _quantile(took: list[float], share: float) -> float:
    return statistics.quantiles(took, n=100, method="inclusive")[round(share * 100) - 1]


def _series_on(line: Line) -> Series:
    def series(length: int) -> list[float]:
        took = []
        line.pack(length)
        for _ in range(length):
            started = perf_counter_ns()
            line.carry(1)
            took.append((perf_counter_ns() - started) / 1000)
        return took

    return series


@contextmanager
def _client_series(world: World, broker: BrokerProcess) -> Iterator[Series]:
    """Measure what an application sees: `publisher.publish` on one side, `async for` on the other."""
    with asyncio.Runner() as runner:
        yield lambda length: runner.run(_through_clients(world, broker, length))


async def _through_clients(world: World, broker: BrokerProcess, length: int) -> list[float]:
    definition = definition_from_bytes(world.definition)
    names = {attribute.uid: attribute.name for attribute in ATTRIBUTES}
    (event,) = events(1)
    said = {names[uid]: value for uid, value in event.items()}
    camera, reader = world.key("client publisher"), world.key("client subscriber")
    rights = [
        [world.connect_right(key.principal), world.type_right(key.principal, action)]
        for key, action in ((camera, Action.PUBLISH), (reader, Action.SUBSCRIBE))
    ]
    where, network = broker.address, world.network
    async with (
        maia.connect(where, key=camera, network=network, credentials=rights[0]) as sending,
        maia.connect(where, key=reader, network=network, credentials=rights[1]) as receiving,
    ):
        subscription = await receiving.subscribe(definition, EVERY_EVENT)
        publisher = await sending.advertise(definition)
        took = []
        for _ in range(length):
            started = perf_counter_ns()
            await publisher.publish(said)
            await anext(subscription)
            took.append((perf_counter_ns() - started) / 1000)
            await publisher.flush()
        return took


BENCH = Benchmark(
    number=13,
    name="event-latency",
    about="one event at a time from publisher to subscriber through one broker, our latency over the peer's",
    cases=cases,
    peer_lacks="nats-server and mosquitto as run here encrypt nothing, ask nobody who they are, check no "
    "value and filter by name alone",
    floor="a relay over TLS in Python that does nothing, which is measured beside us",
)
