"""Do honest clients keep their rate while strangers and connect-only peers do their worst?

One broker process, a publisher and subscribers that keep it busy. Slices in
peace and slices under attack (`attackers.py`) follow each other until the
attack has lasted a minute. All the time newcomers connect, subscribe, and lose
their right to a revocation list that the issuer publishes at the same broker:
a newcomer that does not get in is counted, and so is the delay from sending
the list until the newcomer has read that its subscription has ended. A gateway and a domain's
server are attacked likewise (`hostile_doors.py`): MQTT clients keep their rate, and administrators theirs.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

from attackers import attack
from b16_revocation import Issuer, Listener, own_tested_right
from harness import Benchmark, Case
from hostile_doors import domain_minute, gateway_minute
from hostile_measures import Found, resident
from live_network import (
    EVERY_EVENT,
    FRAME_ROWS,
    BrokerProcess,
    Line,
    MaiaConnection,
    World,
    broker_process,
    new_publisher,
    new_world,
)
from maia.credentials import Action, SignedCertificate
from maia.wire.messages import Published

SUBSCRIBERS = 4
BURST_FRAMES = 20
NEWCOMER_EVERY_S = 0.3


class Newcomers:
    """Honest clients that connect one after another, subscribe, and lose their right again."""

    def __init__(self, world: World, broker: BrokerProcess, issuer: Issuer, found: Found) -> None:
        """Start when `going` is entered."""
        self._world, self._broker, self._issuer, self._found = world, broker, issuer, found
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._come, daemon=True)

    def __enter__(self) -> Newcomers:
        self._thread.start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self._stop.set()
        self._thread.join()

    def _come(self) -> None:
        while not self._stop.wait(NEWCOMER_EVERY_S):
            self._found.newcomers += 1
            name = f"newcomer {os.urandom(8).hex()}"
            key, right = self._world.key(name), own_tested_right(self._world, name)
            shown = [self._world.connect_right(key.principal), right]
            try:
                with closing(Listener(self._world, self._broker, name, shown)) as listener:
                    (ref,) = listener.stands([self._world.filter("speed > 100000")])
                    listener.socket.setblocking(False)
                    self._found.revoked_ms.append(self._revoked(listener, ref, right))
            except (OSError, AssertionError):
                self._found.kept_out += 1

    def _revoked(self, listener: Listener, ref: int, right: SignedCertificate) -> float:
        statement = self._issuer.revocation([right])
        started = time.perf_counter()
        self._issuer.send(statement)
        while ref not in listener.ended_at:
            listener.wait_readable()
            listener.read()
        self._issuer.wait_for(Published)
        return (listener.ended_at[ref] - started) * 1000


def hostile_minute(*, slices: int, slice_s: float, peace_s: float) -> Found:
    """Play peace and attack in turns, `slices` times, and return what was found."""
    world, found, in_peace = new_world(), Found(), Found()
    with ExitStack() as stack:
        # Newcomers ask several times until the broker has heard their issuer.
        limits = {"requests_per_minute": 1_000_000}
        broker = stack.enter_context(broker_process(world, limits=limits))
        issuer = stack.enter_context(closing(Issuer(world, broker)))
        issuer.vouch()
        line = stack.enter_context(closing(_busy_line(world, broker)))
        _rate(line, broker, found, seconds=1.0)  # once before anything counts
        for _ in range(slices):
            with Newcomers(world, broker, issuer, in_peace):
                found.peace.append(_rate(line, broker, found, seconds=peace_s))
            with attack(broker.address) as done, Newcomers(world, broker, issuer, found):
                found.attacked.append(_rate(line, broker, found, seconds=slice_s))
            found.deeds.update(done)
    return found


def _busy_line(world: World, broker: BrokerProcess) -> Line:
    subscribers = []
    for number in range(SUBSCRIBERS):
        key = world.key(f"subscriber {number}")
        rights = [world.connect_right(key.principal), world.type_right(key.principal, Action.SUBSCRIBE)]
        connection = MaiaConnection(world, broker, key, rights)
        connection.subscribe(world.filter(EVERY_EVENT))
        subscribers.append(connection)
    return Line(new_publisher(world, broker), subscribers)


def _rate(line: Line, broker: BrokerProcess, found: Found, *, seconds: float) -> float:
    """Return how many events a second are published and delivered to all."""
    started, events = time.perf_counter(), 0
    while (passed := time.perf_counter() - started) < seconds:
        line.carry(BURST_FRAMES * FRAME_ROWS)
        events += BURST_FRAMES * FRAME_ROWS
        found.memory_most = max(found.memory_most, resident(broker.pid))
    return events / passed


def cases(quick: bool) -> Iterator[Case]:
    """Yield what the honest side keeps under attack, at each kind of server."""
    played = (1, 2.0, 1.0) if quick else (6, 10.0, 5.0)
    yield from hostile_minute(slices=played[0], slice_s=played[1], peace_s=played[2]).figures("broker")
    yield from gateway_minute(played).figures("gateway")
    yield from domain_minute(played).figures("domain server")


BENCH = Benchmark(
    number=38,
    name="hostile-minute",
    about="strangers, connect-only peers and one account attack a broker, a gateway and a domain's server "
    "for a minute each, while honest clients keep them busy",
    cases=cases,
    stood="one hello kept the broker busy for ten seconds, and 51 connections a second kept everybody out",
    peer_lacks="the peer is the same server in peace, between the attacks",
)
