"""How many events a second does one broker carry from one publisher to one subscriber?

Ours arrive over mutual TLS 1.3 in frames of 256. The broker checks the
publisher's right and every value, matches the subscriber's filter and its
certificate's restriction, which it can know of no event before it has looked,
and delivers all ten attributes. Sealing and signing begin between brokers, and
here is one: what they cost on the way through two is benchmarks 5 and 15.

The peers carry the same values as one packed message each, over plain TCP,
from and to any client that connects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

from harness import Benchmark, Case, NotMeasured, Race, Ratio, Side, at_least
from live_network import Line, broker_process, maia_line, new_world
from live_peers import MissingPeer, mosquitto_line, nats_line, redis_line

PEERS: tuple[tuple[str, Callable[[], AbstractContextManager[Line]], float], ...] = (
    ("mosquitto QoS 0", mosquitto_line, 2.0),
    ("redis publish/subscribe", redis_line, 0.4),
    ("nats-server", nats_line, 0.25),
)
WITH_WHAT = "1 to 1 in frames of 256, TLS, access control and filter, sent in clear"


def cases(quick: bool) -> Iterator[Case]:
    """Yield our broker against each peer, and against itself without filter and restriction."""
    total = 4_096 if quick else 102_400
    world = new_world()
    with broker_process(world) as broker, maia_line(world, broker) as line:
        ours = _side(line, total)
        for name, start, target in PEERS:
            yield from _against(name, start, target, ours, total)
        with (
            broker_process(world) as other,
            maia_line(world, other, filter_="", restriction="") as unfiltered,
        ):
            yield Race(
                "filter and restriction, against our own broker without",
                ours=ours,
                peer=_side(unfiltered, total),
                ratio=Ratio.PEER_OVER_OURS,
                target=at_least(0.8),
            )


def _against(
    name: str,
    start: Callable[[], AbstractContextManager[Line]],
    target: float,
    ours: Side,
    total: int,
) -> Iterator[Case]:
    case = f"{WITH_WHAT}, against {name}"
    with ExitStack() as stack:
        try:
            peer = stack.enter_context(start())
        except MissingPeer as missing:
            yield NotMeasured(case, str(missing), at_least(target))
            return
        yield Race(
            case, ours=ours, peer=_side(peer, total), ratio=Ratio.PEER_OVER_OURS, target=at_least(target)
        )


def _side(line: Line, total: int) -> Side:
    line.carry(total // 4)  # once without the clock, to warm both ends
    return Side(run=lambda: line.carry(total), operations=total, calls=1)


BENCH = Benchmark(
    number=12,
    name="broker-throughput",
    about="delivered events a second through one broker, ours over the peer's; 10 attributes, 140 bytes",
    cases=cases,
    stood="mosquitto 165 k, redis 811 k, nats-server 1.30 M events a second",
    peer_lacks="mosquitto, redis and nats-server as run here encrypt nothing, ask nobody who they are, "
    "check no value, filter by topic alone and hide no attribute; they carry single messages and not frames",
)
