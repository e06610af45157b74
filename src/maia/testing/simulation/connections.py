"""What is on its way between two hosts?

A connection has two lanes, one for each direction. A lane is a queue, so its
messages stay in order by construction; the schedule only says when the next
one comes out. While the two hosts cannot reach each other nothing comes out,
and what was due is owed until they can.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Final, TypeAlias

from maia.credentials.identity import VerifiedIdentity
from maia.testing.simulation.hosts import Host
from maia.testing.simulation.weather import CALM, NO_CHAOS, Chaos, Weather
from maia.wire.effects import LinkId

__all__ = ["Connection", "End", "EndState", "Lane", "Parcel", "Signal"]


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
        """Say whether the node that held this end still runs."""
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
