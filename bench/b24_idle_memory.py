"""What does it cost to keep a subscription, a capability or a connection that does nothing?

Resident memory of the whole process is read from the kernel before and after
so many of them were added, and the difference divided. Some were there before:
what a server takes once, when the first of them comes, is no part of it. For ours that includes
the filter, the signed request, the lease and the right, and not the matching index, which is
made when a first frame comes (#9);
for a connection the TLS state of both directions and the session. Capability
means a certificate of its own behind each subscription, verified and cached.

A subscription of ours has a filter over two attributes that no other has, so
nothing is shared that would not be in real life. A broker with a neighbour also
keeps what it announces to it, and which filters cover which, until there are so
many that it merges them. A peer's subscription is to a topic of its own.
`python bench/b24_idle_memory.py` prints a census: which lines
of the code hold how many bytes of a subscription, and of one with a capability of its own.
"""

from __future__ import annotations

import os
import signal
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from harness import Benchmark, Case, Figure, NotMeasured, at_most
from live_network import BrokerProcess, MaiaConnection, World, broker_process, new_world
from live_peers import MissingPeer, MqttConnection, NatsConnection, mosquitto, mqtt_over_tls, nats
from maia.credentials import Action, certificate_to_bytes
from maia.predicates import Predicate
from maia.wire.messages import Accepted

KILOBYTE = 1000
PER_CLIENT = 2000
AT_ONCE = 100
THERE_BEFORE = 20
"""One of so many is there before memory is read."""
PEERS = (
    ("mosquitto over mutual TLS", partial(mosquitto, over_tls=True), mqtt_over_tls),
    ("mosquitto, plain", mosquitto, MqttConnection),
    ("nats-server, plain", nats, lambda port, _name: NatsConnection(port)),
)
LIMITS = {"lease_s": 3600, "limits": {"requests_per_minute": 1_000_000}}
"""Nothing is renewed while we look, and one client may ask for much in a short time."""

TO_BE_MERGED = 2500
"""More than are announced by themselves: of so many a broker makes few and wide ones at once."""


def cases(quick: bool) -> Iterator[Case]:
    """Yield bytes a subscription and a capability, then bytes a connection against the peers."""
    subscriptions, connections = (100, 20) if quick else (20_000, 1000)
    each = bytes_per_subscription(subscriptions)
    yield Figure("kilobytes a subscription", [each / KILOBYTE], at_most(1))
    with_right = bytes_per_subscription(subscriptions, own_rights=True)
    yield Figure("kilobytes a subscription with a capability of its own", [with_right / KILOBYTE], at_most(2))
    case = "kilobytes a subscription at a broker with a neighbour"
    singly = bytes_per_subscription(subscriptions // 2, has_neighbour=True, aggregation={"merge": False})
    yield Figure(f"{case}, merging turned off", [singly / KILOBYTE], at_most(1))
    usual = bytes_per_subscription(subscriptions // 2, has_neighbour=True)
    yield Figure(f"{case}, the first 2,048 announced singly", [usual / KILOBYTE], at_most(1))
    if not quick:
        merged = bytes_per_merged_subscription(subscriptions // 2) / KILOBYTE
        yield Figure(f"{case}, filters merged", [merged], at_most(1))
    yield from _connections(new_world(), connections)


def bytes_per_subscription(
    number: int, *, own_rights: bool = False, has_neighbour: bool = False, **settings: object
) -> float:
    """Return by how much a new broker grows for each of so many subscriptions."""
    world = new_world()
    with ExitStack() as stack:
        join = []
        if has_neighbour:
            neighbour = stack.enter_context(broker_process(world, "neighbour", **LIMITS))
            join = [neighbour.address]
        broker = stack.enter_context(broker_process(world, join=join, **LIMITS, **settings))
        return _bytes_each(
            broker.pid, number, lambda some: _subscribed(world, broker, some, own_rights=own_rights)
        )


def bytes_per_merged_subscription(number: int) -> float:
    """Return the same for a broker that has begun to announce one filter in place of many."""
    world = new_world()
    with (
        broker_process(world, "neighbour", **LIMITS) as neighbour,
        broker_process(world, join=[neighbour.address], **LIMITS) as broker,
    ):
        held = _subscribed(world, broker, range(TO_BE_MERGED))
        # What merging has freed is filled first, so that it does not look like a gain.
        held += _subscribed(world, broker, range(TO_BE_MERGED, 3 * TO_BE_MERGED))
        before = _resident(broker.pid)
        held += _subscribed(world, broker, range(3 * TO_BE_MERGED, 3 * TO_BE_MERGED + number))
        grown = _resident(broker.pid) - before
        for one in held:
            one.close()
    return max(grown, 1) / number


def _connections(world: World, number: int) -> Iterator[Case]:
    with broker_process(world) as broker:
        ours = _bytes_each(
            broker.pid, number, lambda some: [_connected(world, broker, f"idle-{one}") for one in some]
        )
    for peer_name, start, connect in PEERS:
        case = f"bytes a connection, ours over mutual TLS, against {peer_name}"
        with ExitStack() as stack:
            try:
                peer = stack.enter_context(start())
            except MissingPeer as missing:
                yield NotMeasured(case, str(missing), at_most(1.5))
                continue
            join = partial(connect, peer.port)
            theirs = _bytes_each(
                peer.pid, number, lambda some, join=join: [join(f"idle-{one}") for one in some]
            )
        note = f"ours {ours / KILOBYTE:.1f} kB, theirs {theirs / KILOBYTE:.1f} kB"
        yield Figure(case, [ours / theirs], at_most(1.5), note=note)


class Closable(Protocol):
    """A connection of either kind."""

    def close(self) -> None:
        """Hang up."""


def _bytes_each(pid: int, number: int, add: Callable[[range], Sequence[Closable]]) -> float:
    """Return by how much a process has grown, divided by how many were added to those that were there."""
    first = number // THERE_BEFORE
    held = list(add(range(first)))
    before = _resident(pid)
    held += add(range(first, first + number))
    grown = _resident(pid) - before
    for one in held:
        one.close()
    return max(grown, 1) / number


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no resident memory")


def _connected(world: World, broker: BrokerProcess, name: str) -> MaiaConnection:
    key = world.key(name)
    return MaiaConnection(world, broker, key, [world.connect_right(key.principal)])


def _subscribed(
    world: World, broker: BrokerProcess, some: range, *, own_rights: bool = False
) -> list[MaiaConnection]:
    """Make subscriptions whose filters all differ, from as few clients as may have them."""
    clients, made = [], 0
    for start in some[::PER_CLIENT]:
        key = world.key(f"holder {start}")
        right = world.type_right(key.principal, Action.SUBSCRIBE)
        client = MaiaConnection(world, broker, key, [world.connect_right(key.principal), right])
        numbers = range(start, min(start + PER_CLIENT, some.stop))
        for first in range(numbers.start, numbers.stop, AT_ONCE):
            together = range(first, min(first + AT_ONCE, numbers.stop))
            if own_rights:
                _subscribe_each_by_its_own_right(client, world, together)
            else:
                client.subscribe(*(_own_filter(world, one) for one in together))
            made += len(together)
        clients.append(client)
    assert made == len(some), "memory is divided by what was asked for"
    return clients


def _subscribe_each_by_its_own_right(client: MaiaConnection, world: World, numbers: range) -> None:
    principal = client.key.principal
    for number in numbers:
        own = _own_filter(world, number)
        right = world.type_right(principal, Action.SUBSCRIBE, restriction=own)
        client.say(client.request(Action.SUBSCRIBE, own, shown=[certificate_to_bytes(right)]))
        client.wait_for(Accepted)


def _own_filter(world: World, number: int) -> Predicate:
    return world.filter(f'camera == "camera-{number}" and speed > {20 + number % 80}')


# ---------------------------------------------------------------- where the bytes are

TRACED = """
import gc, os, signal, sys, tracemalloc
def dump(*_):
    gc.collect()
    tracemalloc.take_snapshot().dump(os.environ["MAIA_BENCH_CENSUS"] + ".new")
    os.rename(os.environ["MAIA_BENCH_CENSUS"] + ".new", os.environ["MAIA_BENCH_CENSUS"])
signal.signal(signal.SIGUSR1, dump)
tracemalloc.start()
sys.argv[0] = "maia"
from maia.cli.main import main
main()
"""
"""A broker that writes down where its memory was taken, whenever it is asked."""


def census(number: int, *, own_rights: bool) -> Iterator[tuple[float, str]]:
    """Yield the bytes of each subscription that each line of the code has taken and holds, the most first."""
    world = new_world()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "census"
        os.environ["MAIA_BENCH_CENSUS"] = str(file)
        with broker_process(world, runs=("-c", TRACED), **LIMITS) as broker:
            clients = _subscribed(world, broker, range(number // THERE_BEFORE), own_rights=own_rights)
            before = _snapshot(broker.pid, file)
            more = range(number // THERE_BEFORE, number // THERE_BEFORE + number)
            clients += _subscribed(world, broker, more, own_rights=own_rights)
            after = _snapshot(broker.pid, file)
            for one in clients:
                one.close()
    for line in after.compare_to(before, "lineno"):
        where = line.traceback[0]
        yield line.size_diff / number, f"{where.filename.rpartition('/src/')[2]}:{where.lineno}"


def _snapshot(pid: int, file: Path) -> tracemalloc.Snapshot:
    file.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    for _ in range(1000):
        if file.exists():
            return tracemalloc.Snapshot.load(str(file))
        time.sleep(0.1)
    raise AssertionError("the broker has not written down where its memory was taken")


BENCH = Benchmark(
    number=24,
    name="idle-memory",
    about="resident memory for each subscription, capability and connection that does nothing",
    cases=cases,
    peer_lacks="a peer's connection has no verified principal; plain ones hold no TLS state",
)

if __name__ == "__main__":
    for own in (False, True):
        print("bytes a subscription" + (" with a capability of its own" if own else ""))
        for size, where in islice(census(10_000, own_rights=own), 24):
            print(f"{size:8.0f}  {where}")
