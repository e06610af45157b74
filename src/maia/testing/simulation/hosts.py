"""Where does a node run, and what is left of it when its machine fails?

A host is a machine with one node on it: a key, a disk, and a clock that may
be wrong. A crash takes the node, and the transport takes its connections; the
disk and the clock's error stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from random import Random
from typing import Final, Protocol, TypeAlias

from maia.credentials import Principal
from maia.errors import BadInput
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.log.format.records import type_id_of
from maia.net.connections import BackOff
from maia.sealing.two_message import LinkIdentity
from maia.wire.effects import Effect, Input, LinkId, LogAtStart, Logged, LogRead, ReadLog, Record, Recorded

_DIAL_AGAIN_S: Final = 0.25
_DIAL_AT_LEAST_S: Final = 30.0


class Node(Protocol):
    """What a host runs: brokers and clients are nodes, and so is whatever a test makes up."""

    def start(self, now: Instant) -> Sequence[Effect]:
        """Return what the node asks for before anything has happened to it."""

    def handle(self, happened: Input, now: Instant, /) -> Sequence[Effect]:
        """Return what the node asks for after one more thing has happened to it."""


Build: TypeAlias = Callable[[Mapping[str, bytes], Callable[[int], bytes]], Node]
"""Makes a node from what its disk holds and a source of random bytes; called again at a restart."""


class Power(Enum):
    """Whether a host answers, and if not, in which way."""

    ON = "on"
    KILLED = "killed"
    """The process is gone; the machine refuses connections, and its peers notice."""
    DARK = "dark"
    """The machine is gone; no peer notices, and a dialling peer waits."""


@dataclass(slots=True)
class Dialling:
    """How a host gets on with one address: it dials once at a time, and waits longer after each failure."""

    chance: Random
    is_under_way: bool = False
    back_off: BackOff = field(init=False)
    """The one that the other runtime uses."""

    def __post_init__(self) -> None:
        """Wait as long as the other runtime does."""
        random = self.chance.randbytes
        self.back_off = BackOff(first_s=_DIAL_AGAIN_S, most_s=_DIAL_AT_LEAST_S, random=random)


@dataclass(slots=True)
class Host:
    """One machine; the times here are by its own clock unless they say otherwise."""

    name: str
    principal: Principal
    address: str | None
    build: Build = field(repr=False)
    chance: Random = field(repr=False)
    """Breaks ties between this host's alarm clock and whatever else happens."""
    skew: int = 0
    """By how many microseconds its clock is ahead of true time."""
    node: Node | None = field(default=None, repr=False)
    power: Power = Power.KILLED
    life: int = 0
    """Grows at every start, so that what was meant for an earlier life is recognised."""
    disk: dict[str, bytes] = field(default_factory=dict, repr=False)
    log: list[Logged] = field(default_factory=list, repr=False)
    """The safe part of the event log; retention may have taken its beginning."""
    removed_upto: dict[bytes, int] = field(default_factory=dict, repr=False)
    """The last position that retention took, by type."""
    unsafe: list[Logged] = field(default_factory=list, repr=False)
    """What was written to the event log and would not survive a crash."""
    is_synchronising: bool = False
    ledger: list[bytes] = field(default_factory=list, repr=False)
    """The entries of the ledger of deliveries."""
    links_made: int = 0
    dials: dict[str, Dialling] = field(default_factory=dict, repr=False)
    wake_at: int | None = None
    """The earliest moment that the node has asked for."""
    wakes_asked: int = 0
    asleep: list[Input] | None = None
    """What happens to a node that does not run for a while, and waits for it; None while it runs."""
    effects_left: int | None = None
    """How many more effects are performed before the host fails, in the middle of a list if need be."""
    counts: Counter[str] = field(default_factory=Counter, repr=False)
    link_identity: LinkIdentity | None = field(default=None, repr=False)
    """With which statement it opens links to hosts that have one, too: statement links."""

    def begin(self, random: Callable[[int], bytes]) -> Node:
        """Make a node from what the disk holds, in a process that remembers nothing."""
        self.life += 1
        self.power = Power.ON
        self.node = self.build(dict(self.disk), random)
        return self.node

    def end(self, power: Power) -> None:
        """Lose whatever was not on the disk."""
        self.node, self.wake_at, self.effects_left, self.asleep = None, None, None, None
        self.dials.clear()
        self.unsafe.clear()
        self.is_synchronising = False
        self.power = power

    def clock(self, true_time: int) -> Instant:
        """Return what this host's clock shows."""
        if not self.skew:
            return Instant(true_time)
        return Instant(min(max(true_time + self.skew, INSTANT_MIN), INSTANT_MAX))

    def next_link(self) -> LinkId:
        """Return a number for a connection that was never used before, in this life or another."""
        self.links_made += 1
        return LinkId(self.links_made)


# What a crash leaves of an event log.


_DISK_S: Final = 0.02
"""How long a disk takes at most to make something safe, or to read it."""


class SimulatedLogs:
    """The event logs of all hosts of one simulated network."""

    def __init__(
        self,
        *,
        after: Callable[[float, Callable[[], None]], None],
        happen: Callable[[Host, Input], None],
        now: Callable[[], int],
    ) -> None:
        """Tell hosts through `happen` what became of their logs; `now` is true time."""
        self._after, self._happen, self._now = after, happen, now

    def record(self, host: Host, effect: Record) -> None:
        """Write a frame, which is safe after a while."""
        before = [*host.log[-1:], *host.unsafe[-1:]]
        if before and effect.position != before[-1].position + 1:
            raise BadInput(
                "SIMULATION-RECORD", f"frame {effect.position} was to be behind {before[-1].position}"
            )
        # By the host's clock: it says itself when it recorded something.
        host.unsafe.append(Logged(effect.position, host.clock(self._now()), effect.data))
        if not host.is_synchronising:
            self._synchronise(host)

    def _synchronise(self, host: Host) -> None:
        host.is_synchronising = True
        self._after(_disk_s(host), partial(self._synchronised, host, len(host.unsafe), host.life))

    def _synchronised(self, host: Host, batch: int, life: int) -> None:
        if host.life != life or host.node is None:
            return
        host.log += host.unsafe[:batch]
        del host.unsafe[:batch]
        host.is_synchronising = False
        if host.unsafe:
            self._synchronise(host)
        self._happen(host, Recorded(host.log[-1].position))

    def read(self, host: Host, effect: ReadLog) -> None:
        """Read frames, which takes a while too."""
        self._after(_disk_s(host), partial(self._read, host, effect, host.life))

    def _read(self, host: Host, asked: ReadLog, life: int) -> None:
        if host.life == life:
            self._happen(host, _found(host, asked))


def log_at_start(host: Host, since: int) -> LogAtStart:
    """Return what a broker reads of its log when it starts."""
    recent = tuple(one for one in host.log if one.position >= since)
    return LogAtStart(host.log[-1].position + 1 if host.log else 1, recent)


def _disk_s(host: Host) -> float:
    return 0.0005 + host.chance.random() * _DISK_S


def _found(host: Host, asked: ReadLog) -> LogRead:
    removed = host.removed_upto.get(asked.type_id, 0)
    frames: list[Logged] = []
    size = 0
    for one in host.log:
        if not asked.first <= one.position <= asked.upto or type_id_of(one.data) != asked.type_id:
            continue
        if frames and (len(frames) >= asked.frames_max or size >= asked.bytes_max):
            return LogRead(asked.read, tuple(frames), frames[-1].position, removed)
        frames.append(one)
        size += len(one.data)
    return LogRead(asked.read, tuple(frames), asked.upto, removed)
