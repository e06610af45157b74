"""Do honest clients keep their rate while strangers and connect-only peers do their worst?

One broker process, a publisher and subscribers that keep it busy. Slices in
peace and slices under attack (`attackers.py`) follow each other until the
attack has lasted a minute. All the time newcomers connect, subscribe, and lose
their right to a revocation list that the issuer publishes at the same broker:
a newcomer that does not get in is counted, and so is the delay from sending
the list until the newcomer has read that its subscription has ended.
"""

from __future__ import annotations

import math
import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from attackers import attack
from b16_revocation import Issuer, Listener, tested_right
from harness import Benchmark, Case, Figure, at_least, at_most
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

HONEST_KEEP_AT_LEAST = 0.8
REVOKED_WITHIN_MS = 100.0
MEMORY_BYTES_MAX = 400_000_000
"""What the broker may take, attacked or not: its own, and what unproved peers may make it hold."""
SUBSCRIBERS = 4
BURST_FRAMES = 20
NEWCOMER_EVERY_S = 0.3


@dataclass(slots=True)
class Found:
    """What the slices have shown."""

    peace: list[float] = field(default_factory=list)
    """Events delivered a second, one number for each slice; `attacked` likewise, slice by slice."""
    attacked: list[float] = field(default_factory=list)
    revoked_ms: list[float] = field(default_factory=list)
    """Delays under attack, from the list to the end of the subscription."""
    newcomers: int = 0
    kept_out: int = 0
    memory_most: int = 0
    deeds: Counter[str] = field(default_factory=Counter)

    @property
    def shares(self) -> list[float]:
        """Return which part of its rate the honest side kept, slice by slice."""
        return [hostile / calm for hostile, calm in zip(self.attacked, self.peace, strict=True)]

    @property
    def revoked_p99_ms(self) -> float:
        """Return the delay that one revocation in a hundred exceeds; without any, no bound was kept."""
        if len(self.revoked_ms) < 2:
            return math.inf
        return statistics.quantiles(self.revoked_ms, n=100, method="inclusive")[98]

    def checks(self) -> dict[str, bool]:
        """Return the promises, and whether each was kept."""
        return {
            f"under attack, honest clients keep {HONEST_KEEP_AT_LEAST:.0%} of their rate": statistics.median(
                self.shares
            )
            >= HONEST_KEEP_AT_LEAST,
            f"under attack, a revocation ends a subscription within {REVOKED_WITHIN_MS:.0f} ms (p99)": (
                self.revoked_p99_ms <= REVOKED_WITHIN_MS
            ),
            "under attack, every newcomer gets in": self.kept_out == 0,
            f"under attack, memory stays within {MEMORY_BYTES_MAX / 1e6:.0f} MB": (
                self.memory_most <= MEMORY_BYTES_MAX
            ),
        }


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
            key, right = self._world.key(name), tested_right(self._world, name)
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
        found.memory_most = max(found.memory_most, _resident(broker))
    return events / passed


def _resident(broker: BrokerProcess) -> int:
    pages = int(Path(f"/proc/{broker.pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cases(quick: bool) -> Iterator[Case]:
    """Yield what the honest side keeps under attack."""
    played = (1, 2.0, 1.0) if quick else (6, 10.0, 5.0)
    found = hostile_minute(slices=played[0], slice_s=played[1], peace_s=played[2])
    deeds = ", ".join(f"{times} × {name}" for name, times in found.deeds.items())
    yield Figure(
        "honest rate under attack / in peace", found.shares, at_least(HONEST_KEEP_AT_LEAST), note=deeds
    )
    yield Figure(
        "p99 of a revocation under attack: milliseconds", [found.revoked_p99_ms], at_most(REVOKED_WITHIN_MS)
    )
    note = f"{found.newcomers} newcomers"
    yield Figure("honest newcomers kept out", [found.kept_out], at_most(0), note=note)
    bound = at_most(1)
    note = f"{found.memory_most / 1e6:.0f} MB of {MEMORY_BYTES_MAX / 1e6:.0f} MB"
    yield Figure("memory of the broker / its bound", [found.memory_most / MEMORY_BYTES_MAX], bound, note=note)


BENCH = Benchmark(
    number=38,
    name="hostile-minute",
    about="strangers and connect-only peers attack a broker for a minute while honest clients keep it busy",
    cases=cases,
    stood="one hello kept the broker busy for ten seconds, and 51 connections a second kept everybody out",
    peer_lacks="the peer is the same broker in peace, between the attacks",
)
