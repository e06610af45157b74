"""How does a connection come about, carry messages, and end?

This is what TLS over TCP looks like to a node: order within a connection,
none between two connections, and an end that each side learns of in its own
time. A host that was killed has its connections shut by its machine. One
that went dark, or lies behind a cut, leaves its peers waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from random import Random
from typing import Final, TypeAlias

from maia.credentials.identity import VerifiedIdentity, pack_identity
from maia.errors import MaiaError
from maia.events import SECOND
from maia.testing.simulation.hosts import Dialling, Host, Power
from maia.testing.simulation.schedule import Schedule
from maia.testing.simulation.weather import CALM, NO_CHAOS, Chaos, Partitions, Weather
from maia.wire.effects import DialFailed, Input, LinkClosed, LinkId, LinkOpened, Received

# Messages on their way between two hosts.
#
# A connection has two lanes, one for each direction. A lane is a queue, so its
# messages stay in order by construction; the schedule only says when the next
# one comes out. While the two hosts cannot reach each other nothing comes out,
# and what was due is owed until they can.


class Signal(Enum):
    """What the transport itself says inside a lane."""

    OPEN = auto()
    SHUT = auto()


Parcel: TypeAlias = bytes | Signal

_NEVER: Final = -1


class EndState(Enum):
    """What the node at one end knows of the connection."""

    OPENING = auto()
    OPEN = auto()
    CLOSING = auto()
    """The node has closed it, and is notified in a moment."""
    GONE = auto()


@dataclass(slots=True)
class Lane:
    """One direction: what is under way, when the last of it arrives, and how much was held up."""

    chance: Random = field(repr=False)
    """Decides about this direction and nothing else."""
    parcels: deque[Parcel] = field(default_factory=deque)
    line_free_at: int = 0
    last_arrival: int = 0
    owed: int = 0


@dataclass(slots=True, eq=False)
class End:
    """One end of a connection, in one life of its host."""

    host: Host
    link: LinkId
    life: int
    dialled: str | None
    connection: Connection = field(repr=False)
    lane: Lane = field(repr=False)
    """On which this end sends."""
    state: EndState = EndState.OPENING
    other: End = field(init=False, repr=False)
    """The end at the far side."""
    arrive: Callable[[], None] = field(init=False, repr=False)
    """Takes the next parcel out of this end's lane."""
    weather: Weather = field(default=CALM, repr=False)
    chaos: Chaos = field(default=NO_CHAOS, repr=False)
    looked_up: int = _NEVER
    """At which state of the ground the two before this one were looked up."""
    identity: VerifiedIdentity | None = field(default=None, repr=False)
    """What the far side has proved by its statement, on a statement link."""

    @property
    def is_alive(self) -> bool:
        """Return whether the node that held this end still runs."""
        return self.host.node is not None and self.host.life == self.life


@dataclass(slots=True, eq=False)
class Connection:
    """Two ends, each with the lane on which it sends."""

    number: int
    ends: list[End] = field(default_factory=list)
    is_cut: bool = False
    cuts: int = 0
    """Grows with every cut, so that the giving up of an earlier one is recognised."""

    @property
    def dialling(self) -> End:
        """Return the end that asked for the connection."""
        return self.ends[0]

    @property
    def accepting(self) -> End:
        """Return the end that was asked."""
        return self.ends[1]


_SIGNAL_BYTES: Final = 64


class Transport:
    """All connections of a simulated network."""

    __slots__ = (
        "_chance_for", "_connections_made", "_ends", "_happen", "_patience_us", "_places", "_schedule",
    )  # fmt: skip

    def __init__(
        self,
        schedule: Schedule,
        *,
        chance_for: Callable[[str], Random],
        happen: Callable[[Host, Input], None],
        partitions: Partitions,
        gives_up_s: float,
    ) -> None:
        """Tell nodes what happens through `happen`; `gives_up_s` bounds every wait for a silent peer."""
        self._schedule = schedule
        self._chance_for = chance_for
        self._happen = happen
        self._places = partitions
        self._patience_us = int(gives_up_s * SECOND)
        self._connections_made = 0
        self._ends: dict[str, dict[LinkId, End]] = {}
        """What each host holds, by its name."""

    def connections(self) -> list[Connection]:
        """Return every connection that some host still holds, each once and oldest first."""
        held = (end.connection for ends in self._ends.values() for end in ends.values())
        found = {connection.number: connection for connection in held}
        return [found[number] for number in sorted(found)]

    # ------------------------------------------------------------ opening

    def dial(self, host: Host, target: Host | None, address: str) -> None:
        """Open a connection, later if the address has failed before; once at a time for each address."""
        dialling = host.dials.get(address)
        if dialling is None:
            dialling = Dialling(self._chance_for(f"dial/{host.name}/{host.life}/{address}"))
            host.dials[address] = dialling
        if dialling.is_under_way:
            return
        dialling.is_under_way = True
        wait = int(dialling.back_off.wait_s(address) * SECOND)
        delay = self._places.weather(host, target or host).delay(dialling.chance)
        self._after(wait + delay, dialling.chance, partial(self._knock, host, host.life, target, address))

    def _knock(self, host: Host, life: int, target: Host | None, address: str) -> None:
        if host.node is None or host.life != life:
            return
        chance, failed = host.dials[address].chance, partial(self._dial_failed, host, life, address)
        if target is None or target.power is Power.KILLED:
            self._after(1, chance, failed)
        elif target.power is Power.DARK or not self._places.is_reachable(host, target):
            self._after(self._patience_us, chance, failed)
        elif not self._is_proved(host, target) or not self._is_proved(target, host):
            self._after(1, chance, failed)
        else:
            self._put(self._connect(host, target, address).accepting, Signal.OPEN)

    def _dial_failed(self, host: Host, life: int, address: str) -> None:
        if host.node is not None and host.life == life:
            host.dials[address].is_under_way = False
            host.dials[address].back_off.failed(address)
            self._happen(host, DialFailed(address))

    def _connect(self, host: Host, target: Host, address: str) -> Connection:
        self._connections_made += 1
        made = Connection(self._connections_made)
        for side, (at, dialled) in enumerate(((host, address), (target, None))):
            lane = Lane(self._chance_for(f"lane/{host.name}/{target.name}/{made.number}/{side}"))
            end = End(at, at.next_link(), at.life, dialled, made, lane)
            self._ends.setdefault(at.name, {})[end.link] = end
            made.ends.append(end)
            end.arrive = partial(self._arrive, end)
        made.dialling.other, made.accepting.other = made.accepting, made.dialling
        made.dialling.identity = self._proved_identity(host, target)
        made.accepting.identity = self._proved_identity(target, host)
        return made

    # ------------------------------------------------------------ carrying

    def send(self, host: Host, link: LinkId, data: bytes) -> None:
        """Put one message on its way; a connection that is closing or gone takes none."""
        end = self._end(host, link)
        if end is None or end.state is not EndState.OPEN:
            return
        chaos = self._looked_up(end).chaos
        if chaos is NO_CHAOS or not chaos.concerns(data):
            end.lane.parcels.append(data)
            self._schedule_arrival(end, len(data))
        else:
            self._put_in_chaos(end, data, chaos)

    def _end(self, host: Host, link: LinkId) -> End | None:
        ends = self._ends.get(host.name)
        return None if ends is None else ends.get(link)

    def _put(self, end: End, parcel: Parcel) -> None:
        end.lane.parcels.append(parcel)
        self._schedule_arrival(end, len(parcel) if isinstance(parcel, bytes) else _SIGNAL_BYTES)

    def _put_in_chaos(self, end: End, data: bytes, chaos: Chaos) -> None:
        chance = end.lane.chance
        if chance.random() < chaos.drop:
            return
        self._put(end, data)
        if chance.random() < chaos.double:
            self._put(end, data)
        parcels = end.lane.parcels
        if len(parcels) > 1 and isinstance(parcels[-2], bytes) and chance.random() < chaos.overtake:
            parcels[-1], parcels[-2] = parcels[-2], parcels[-1]

    def _schedule_arrival(self, end: End, size: int) -> None:
        lane, schedule = end.lane, self._schedule
        weather = (end if end.looked_up == self._places.changes else self._looked_up(end)).weather
        sent = schedule.now if schedule.now > lane.line_free_at else lane.line_free_at
        if weather.bytes_per_s is not None:
            sent += weather.passage(size)
        at = sent + weather.delay(lane.chance)
        lane.line_free_at = sent
        lane.last_arrival = at if at > lane.last_arrival else lane.last_arrival + 1
        schedule.add(lane.last_arrival, lane.chance, end.arrive)

    def _arrive(self, sender: End) -> None:
        """Hand over the next parcel of a lane, if the way is open and the host runs."""
        lane, end = sender.lane, sender.other
        if sender.connection.is_cut:
            lane.owed += 1
            return
        if not lane.parcels:  # what was under way died with its sender
            return
        parcel = lane.parcels.popleft()
        host = end.host
        if end.state is EndState.GONE or host.node is None or host.life != end.life:
            self._host_is_gone(sender, end)
        elif isinstance(parcel, bytes):
            if end.state is EndState.OPEN:
                self._happen(host, Received(end.link, parcel))
        elif parcel is Signal.OPEN:
            self._opened(end)
        else:
            self._gone(end)

    def _host_is_gone(self, sender: End, end: End) -> None:
        """Let the sender know that its peer has forgotten the connection, unless nothing answers."""
        if end.host.power is not Power.DARK:
            self._after(self._delay(sender), sender.lane.chance, partial(self._gone, sender))

    def _opened(self, end: End) -> None:
        if end.state is not EndState.OPENING:
            return
        end.state = EndState.OPEN
        if end.dialled is not None:
            end.host.dials[end.dialled].is_under_way = False
            end.host.dials[end.dialled].back_off.succeeded(end.dialled)
            self._put(end, Signal.OPEN)
        opened = LinkOpened(end.link, end.other.host.principal, end.dialled, None, end.identity)
        self._happen(end.host, opened)

    def _is_proved(self, verifier: Host, peer: Host) -> bool:
        """Return whether a link can be opened: by TLS always, by statements while they hold."""
        try:
            self._proved_identity(verifier, peer)
        except MaiaError:
            return False
        return True

    def _proved_identity(self, verifier: Host, peer: Host) -> VerifiedIdentity | None:
        """Return the peer's statement, if the two hosts open statement links."""
        if verifier.link_identity is None or peer.link_identity is None:
            return None
        own = pack_identity(peer.link_identity.own)
        return verifier.link_identity.trust.verified(own, peer.principal, verifier.clock(self._schedule.now))

    # ------------------------------------------------------------ ending

    def close(self, host: Host, link: LinkId) -> None:
        """Let go of a connection: what was sent still goes out, nothing more comes in."""
        end = self._end(host, link)
        if end is None or end.state is not EndState.OPEN:
            return
        end.state = EndState.CLOSING
        self._put(end, Signal.SHUT)
        self._after(self._delay(end), end.lane.chance, partial(self._gone, end))

    def _gone(self, end: End) -> None:
        """Tell a node, once, that a connection is gone."""
        if end.state is EndState.GONE:
            return
        was, end.state = end.state, EndState.GONE
        if not end.is_alive:
            return
        del self._ends[end.host.name][end.link]
        if was is not EndState.OPENING:
            self._happen(end.host, LinkClosed(end.link))
        elif end.dialled is not None:
            self._dial_failed(end.host, end.life, end.dialled)

    def lose(self, host: Host) -> None:
        """End every connection of a host that has just failed."""
        for end in self._ends.pop(host.name, {}).values():
            end.state = EndState.GONE
            if host.power is Power.DARK:
                self._give_up_in_time(end.other)
            else:
                self._lose_what_was_not_sent(end.lane)
                self._put(end, Signal.SHUT)

    def _lose_what_was_not_sent(self, lane: Lane) -> None:
        for _ in range(lane.chance.randint(0, len(lane.parcels))):
            lane.parcels.pop()

    # ------------------------------------------------------------ being cut off

    def cut(self, connection: Connection) -> None:
        """Let nothing pass from now on; each side notices in its own time."""
        if connection.is_cut:
            return
        connection.is_cut = True
        connection.cuts += 1
        for end in connection.ends:
            gone = partial(self._gone_if_still_cut, end, connection.cuts)
            self._after(self._patience(end), end.lane.chance, gone)

    def _gone_if_still_cut(self, end: End, cut: int) -> None:
        if end.connection.is_cut and end.connection.cuts == cut:
            self._gone(end)

    def mend(self, connection: Connection) -> None:
        """Let everything pass that was held up; a side whose peer has given up meanwhile learns of it."""
        if not connection.is_cut:
            return
        connection.is_cut = False
        for end in connection.ends:
            owed, end.lane.owed = end.lane.owed, 0
            for _ in range(owed):
                self._schedule_arrival(end, _SIGNAL_BYTES)
            if end.other.state is EndState.GONE:
                self._give_up_in_time(end)

    def _give_up_in_time(self, end: End) -> None:
        self._after(self._patience(end), end.lane.chance, partial(self._gone, end))

    def _patience(self, end: End) -> int:
        return end.lane.chance.randint(1, self._patience_us)

    def _delay(self, end: End) -> int:
        return self._looked_up(end).weather.delay(end.lane.chance)

    def _looked_up(self, end: End) -> End:
        """Return the end with the weather and the chaos of this moment."""
        if end.looked_up != self._places.changes:
            end.looked_up = self._places.changes
            end.weather = self._places.weather(end.host, end.other.host)
            end.chaos = self._places.chaos(end.host, end.other.host)
        return end

    def _after(self, microseconds: int, chance: Random, action: Callable[[], None]) -> None:
        self._schedule.add(self._schedule.now + microseconds, chance, action)
