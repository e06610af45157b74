"""What does an event cost in a mesh of routers, compared with flooding everything and with the overlay?

Real brokers in the simulator, on a random graph of mean degree four. One camera
publishes, and a tenth of the routers have an office that reads everything. Counted
are the messages and bytes that cross links between brokers while events are
published, frames alone and with whatever else the brokers say meanwhile. Flooding
is counted on the same graph: every router sends a frame that is new to it to all
neighbours but the one that it came from. A link of the overlay may cross several
links of a poor network, and counts once here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import Benchmark, Case, Figure, NotMeasured, at_most
from maia.wire.codec import decode
from maia.wire.effects import Send
from maia.wire.messages import Carried, FrameTargets

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.city import City, mesh_city, random_edges

SEED = 28
LEASE_S = 60
EVENTS = 20


@dataclass(slots=True)
class Crossed:
    """What has crossed links between brokers."""

    messages: int = 0
    bytes: int = 0
    frames: int = 0
    frame_bytes: int = 0
    one_frame: int = 0

    def add(self, data: bytes) -> None:
        self.messages += 1
        self.bytes += len(data)
        message = decode(data)
        if isinstance(message, Carried | FrameTargets):
            self.frames += 1
            self.frame_bytes += len(data)
            self.one_frame = max(self.one_frame, len(data) if isinstance(message, Carried) else 0)


def measure(city: City, routers: int) -> tuple[Crossed, int]:
    """Publish an event a second; return what crossed links, and how many events were delivered."""
    readers = range(1, routers, 10) if routers > 10 else (3, 7)
    camera = city.camera("camera", "Victoria", via=[0])
    for number in readers:
        city.office(f"office {number}", via=[number])
    city.settle(600)
    city.network.run_for(LEASE_S)
    crossed, brokers = Crossed(), set(city.brokers)
    links = {
        (name, link["link"])
        for name in city.brokers
        for link in city.network.node(name).status(city.network.now)["links"]
        if link["role"] == "broker"
    }
    performers = city.network._performers
    honest = performers[Send]

    def counting(host: object, effect: Send) -> None:
        if host.name in brokers and (host.name, effect.link) in links:
            crossed.add(effect.data)
        honest(host, effect)

    performers[Send] = counting
    seen = sum(len(office.seen) for office in city.offices)
    for _ in range(EVENTS):
        city.sees(camera)
        city.network.run_for(1)
    city.network.run_for(3)
    performers[Send] = honest
    delivered = sum(len(office.seen) for office in city.offices) - seen
    assert delivered == EVENTS * len(city.offices), delivered
    return crossed, delivered


def cases(quick: bool) -> Iterator[Case]:
    """Yield messages and bytes for each size, over flooding and over the overlay."""
    for routers in (10,) if quick else (10, 50):
        edges = random_edges(SEED, routers, degree=4)
        city = mesh_city(SEED, brokers=routers, edges=edges, lease_s=LEASE_S)
        mesh, delivered = measure(city, routers)
        flooded = EVENTS * (2 * len(edges) - (routers - 1))
        flooded_bytes = flooded * mesh.one_frame
        target, size = at_most(0.25 if routers == 50 else 1), f"{routers} routers"
        note = f"for a delivered event: ours {mesh.frames / delivered:.2f}, theirs {flooded / delivered:.2f}"
        yield Figure(
            f"messages, mesh / flooding, {size}", values=[mesh.frames / flooded], target=target, note=note
        )
        ours, theirs = mesh.frame_bytes / delivered, flooded_bytes / delivered
        yield Figure(
            f"bytes, mesh / flooding, {size}",
            values=[ours / theirs],
            target=target,
            note=f"for a delivered event: ours {ours:.0f} B, theirs {theirs:.0f} B",
        )
        yield Figure(
            f"bytes with all that routers say at 1 event/s, mesh / flooding, {size}",
            values=[mesh.bytes / flooded_bytes],
            target=at_most(1),
        )
        overlay, _ = measure(City(SEED, brokers=routers, lease_s=LEASE_S), routers)
        yield Figure(
            f"messages, mesh / overlay, {size}", values=[mesh.frames / overlay.frames], target=at_most(1)
        )
        yield Figure(
            f"bytes, mesh / overlay, {size}",
            values=[mesh.frame_bytes / overlay.frame_bytes],
            target=at_most(1),
        )
    if not quick:
        why = "the simulator had not settled 200 routers in four minutes"
        yield NotMeasured("messages, mesh / flooding, 200 routers", why, at_most(1))


BENCH = Benchmark(
    number=28,
    name="mesh",
    about="messages and bytes of an event in a mesh of routers, against flooding everything and the overlay",
    cases=cases,
    peer_lacks="flooding needs no interests, and shows every router everything; the overlay needs every "
    "broker to reach every other",
    floor="a frame crosses at least as many links as the nearest reader is away",
)
