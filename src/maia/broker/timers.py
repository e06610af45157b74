"""Which timers run at this broker, and which have expired?

Leases, rights, unanswered questions and silent links end by themselves. Each
sets a timer here, and nothing walks through a hundred thousand subscriptions
every second. A timer that was reset leaves its old moment in the heap, which
costs less than finding it; when that moment comes, nothing happens.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final, TypeAlias

from maia.events import INSTANT_MIN, Instant
from maia.wire.effects import LinkId


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The broker renews, expires, replicates, dials, asks for keys and keeps what has changed."""


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The broker pings the peers that are silent, and closes the links of those that stay so."""


@dataclass(frozen=True, slots=True)
class Statements:
    """A validity statement ends or is asked for again, or a doubted proof is verified again."""


@dataclass(frozen=True, slots=True)
class SyncOverdue:
    """A neighbour has not answered in time that it knows of a new subscription or advertisement."""


@dataclass(frozen=True, slots=True)
class TypesOverdue:
    """A neighbour has not answered in time which versions of a type it knows."""


@dataclass(frozen=True, slots=True)
class FetchMissed:
    """A broker has not answered in time what it recorded, or is to be asked what it did."""


@dataclass(frozen=True, slots=True)
class AnnounceWaiting:
    """More of what clients wanted before the first neighbour came is announced to it."""


@dataclass(frozen=True, slots=True)
class MergeAnnounced:
    """So many filters of one type are announced by themselves that they are merged before a period ends."""

    type_id: bytes


@dataclass(frozen=True, slots=True)
class WithdrawEnded:
    """Other brokers are sent what is not wanted any more since rights to it were taken back."""


@dataclass(frozen=True, slots=True)
class OneTimeAnswers:
    """The time for an answer to a one-time question is over."""


@dataclass(frozen=True, slots=True)
class ClosePeriods:
    """A period of a summary of events of one type is closed, and delivered."""

    type_id: bytes


@dataclass(frozen=True, slots=True)
class CheckLink:
    """The handshake of a link takes too long, or its peer's right to connect is rechecked."""

    link: LinkId


@dataclass(frozen=True, slots=True)
class IdentityExpires:
    """The identity statement of a link's peer expires: its attributes go, or the link does."""

    link: LinkId


@dataclass(frozen=True, slots=True)
class RecheckEntries:
    """A lease or a right of subscriptions and advertisements on a link ends."""

    link: LinkId


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Durable subscriptions of a link that wait for keys or certificates are tried again."""

    link: LinkId


@dataclass(frozen=True, slots=True)
class StateQueries:
    """The time for answers to a state query from a link is over."""

    link: LinkId


Timer: TypeAlias = (
    Upkeep
    | KeepAlive
    | Statements
    | SyncOverdue
    | TypesOverdue
    | FetchMissed
    | AnnounceWaiting
    | MergeAnnounced
    | WithdrawEnded
    | OneTimeAnswers
    | ClosePeriods
    | CheckLink
    | IdentityExpires
    | RecheckEntries
    | CatchUp
    | StateQueries
)


class TimerWheel:
    """Timers by the moments at which they expire. A timer may have several moments, each of them once."""

    __slots__ = ("_heap", "_moments", "_numbers", "_promised", "forgives_until")

    def __init__(self) -> None:
        """Begin with no timer."""
        self._heap: list[tuple[Instant, int, Timer]] = []
        self._moments: dict[Timer, set[Instant]] = {}
        self._numbers: Final = count()  # so that timers are never compared with each other
        self._promised: Instant | None = None
        self.forgives_until = Instant(INSTANT_MIN)
        """Up to when no lease ends because this broker was too late to read its renewal."""

    def __len__(self) -> int:
        """Return how many moments are in the heap, outdated ones included."""
        return len(self._heap)

    def __contains__(self, timer: Timer) -> bool:
        """Return whether a timer runs."""
        return timer in self._moments

    def moment_of(self, timer: Timer) -> Instant | None:
        """Return when a timer expires next; None if it does not run."""
        return min(self._moments.get(timer, ()), default=None)

    def add(self, timer: Timer, at: Instant) -> None:
        """Let a timer expire at this moment too."""
        moments = self._moments.setdefault(timer, set())
        if at not in moments:
            moments.add(at)
            heapq.heappush(self._heap, (at, next(self._numbers), timer))

    def reset(self, timer: Timer, at: Instant | None) -> None:
        """Let a timer expire at this moment and no other; never, for None."""
        self._moments.pop(timer, None)
        if at is not None:
            self.add(timer, at)

    def is_due(self, now: Instant) -> bool:
        """Return whether a timer has expired, or was reset from a moment that has come."""
        return bool(self._heap) and self._heap[0][0] <= now

    def lateness(self, now: Instant) -> int:
        """Return by how many microseconds the first timer is late; 0 if none has expired."""
        return max(0, now - self._heap[0][0]) if self._heap else 0

    def expired(self, now: Instant) -> Iterator[Timer]:
        """Yield the timers that have expired. What is set meanwhile waits for the next time."""
        heap = self._heap
        if not self.is_due(now):
            return
        if self._promised is not None and self._promised <= now:
            self._promised = None
        due: list[tuple[Instant, int, Timer]] = []
        while heap and heap[0][0] <= now:
            due.append(heapq.heappop(heap))
        for at, _, timer in due:
            moments = self._moments.get(timer, set())
            if at not in moments:
                continue  # it was reset, perhaps by the one before it
            moments.discard(at)
            if not moments:
                del self._moments[timer]
            yield timer

    def woken(self) -> None:
        """Take note that the runtime has woken the broker, and may remember no other moment."""
        self._promised = None

    def promise_wake(self) -> Instant | None:
        """Return the next moment if the runtime has not been asked for it yet."""
        if not self._heap:
            return None
        first = self._heap[0][0]
        if self._promised is not None and self._promised <= first:
            return None
        self._promised = first
        return first
