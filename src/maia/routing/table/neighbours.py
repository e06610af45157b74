"""Which neighbours are there, and for how long does what they said hold?

The routing book asks. All that a neighbour said is held under one lease, and
ends with it; all that a neighbour was sent is renewed with one message, some
time before its own lease ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Generic, TypeVar

from maia.errors import BadInput, ProtocolViolation, Unavailable
from maia.events import Instant
from maia.routing.table.hops import Hop, Renewal, RouteUpdate
from maia.routing.table.interests import Tally

# What do we know of the link to one neighbour, over all types?


@dataclass(slots=True)
class NeighbourLink:
    """A neighbour whose link is up."""

    renewed_at: Instant
    """When we last renewed all entries, or the link came up."""
    sent: Tally = field(default_factory=Tally)
    """What we sent."""
    received: Tally = field(default_factory=Tally)
    """What it sent us, stale or not."""
    fresh: Tally = field(default_factory=Tally)
    """What it sent us, without what is stale."""
    bytes: int = 0
    """About how much memory its entries take."""
    knows_of_nothing: bool = False
    """Whether our last renewal said that nothing is registered."""
    asked_again_at: Instant | None = None
    sent_again_at: Instant | None = None

    @property
    def is_to_be_renewed(self) -> bool:
        """Return whether something is registered, or the neighbour has yet to learn that nothing is."""
        return self.sent.count > 0 or not self.knows_of_nothing

    def renew(self, now: Instant) -> None:
        """Note that all entries were renewed at the neighbour."""
        self.renewed_at, self.knows_of_nothing = now, self.sent.count == 0

    @property
    def has_stale(self) -> bool:
        """Return whether something has not been sent again since we asked."""
        return self.received.count != self.fresh.count

    def add(self, mark: int, *, is_stale: bool) -> None:
        """Count an entry or offer of the neighbour."""
        self.received.add(mark)
        if not is_stale:
            self.fresh.add(mark)

    def subtract(self, mark: int, *, is_stale: bool) -> None:
        """Count an entry or offer of the neighbour less."""
        self.received.subtract(mark)
        if not is_stale:
            self.fresh.subtract(mark)


# What has not been renewed in time?


_Subject = TypeVar("_Subject", bound=Hashable)

_OUTDATED_MIN: Final = 64


class Leases(Generic[_Subject]):
    """Subjects by the moment at which they end unless they are renewed."""

    __slots__ = ("_heap", "_numbers", "_until")

    def __init__(self) -> None:
        """Begin without leases."""
        self._until: dict[_Subject, Instant] = {}
        self._heap: list[tuple[int, int, _Subject]] = []
        self._numbers: Final = count()  # so that subjects are never compared with each other

    def __len__(self) -> int:
        """Return the number of leases."""
        return len(self._until)

    def __contains__(self, subject: object) -> bool:
        """Say whether there is a lease for the subject."""
        return subject in self._until

    def grant(self, subject: _Subject, until: Instant) -> None:
        """Let a subject last until a moment, whatever was granted before."""
        if self._until.get(subject) == until:
            return
        self._until[subject] = until
        heapq.heappush(self._heap, (until, next(self._numbers), subject))
        self._forget_outdated()

    def forgive(self, until: Instant) -> None:
        """Let every lease last until `until` at least."""
        for subject, ends in self._until.items():
            if ends < until:
                self._until[subject] = until
        self._heap = [(ends, next(self._numbers), subject) for subject, ends in self._until.items()]
        heapq.heapify(self._heap)

    def drop(self, subject: _Subject) -> None:
        """Forget a lease, if there is one."""
        self._until.pop(subject, None)
        self._forget_outdated()

    def expired(self, now: Instant) -> list[_Subject]:
        """Return and forget the subjects whose last moment has passed, earliest first."""
        ended: list[_Subject] = []
        while self._heap and self._heap[0][0] < now:
            until, _, subject = heapq.heappop(self._heap)
            if self._until.get(subject) == until:
                del self._until[subject]
                ended.append(subject)
        return ended

    def next_end(self) -> Instant | None:
        """Return the last moment of the lease that ends first."""
        while self._heap and self._until.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return Instant(self._heap[0][0]) if self._heap else None

    def _forget_outdated(self) -> None:
        if len(self._heap) <= 2 * len(self._until) + _OUTDATED_MIN:
            return
        self._heap = [(until, next(self._numbers), subject) for subject, until in self._until.items()]
        heapq.heapify(self._heap)


# How much may be said to the routing book, and what is said if it is too much?


class UnknownHop(BadInput):
    """A message came from a neighbour whose link is not up."""

    code = "INPUT-UNKNOWN-HOP"


class TooManyInterests(ProtocolViolation):
    """A neighbour sent more entries than one neighbour may."""

    code = "PROTOCOL-TOO-MUCH-TOLD"


class BookFull(Unavailable):
    """The broker's clients want more than the book may hold for them."""

    code = "UNAVAILABLE-ROUTING-BOOK-FULL"


@dataclass(frozen=True, slots=True)
class BookLimits:
    """How much one hop may say, and for how long it holds."""

    lease_us: int = 60_000_000
    entries_per_neighbour: int = 500_000
    local_entries_max: int = 1_000_000

    @property
    def renew_every_us(self) -> int:
        """Return how often everything is renewed at a neighbour.

        Twice in a lease, and early enough that one renewal may go missing.
        """
        return self.lease_us * 5 // 12


class Neighbours:
    """The neighbours whose links are up, and the leases on what they said."""

    __slots__ = ("_leases", "_limits", "links")

    def __init__(self, limits: BookLimits) -> None:
        """Begin without neighbours."""
        self._limits = limits
        self.links: dict[Hop, NeighbourLink] = {}
        self._leases: Leases[Hop] = Leases()

    # ------------------------------------------------------------ links

    def link(self, hop: Hop) -> NeighbourLink:
        """Return the tallies of the link to a neighbour, whose link must be up."""
        link = self.links.get(hop)
        if link is None:
            raise UnknownHop("a message came from a neighbour whose link is not up")
        return link

    def gone(self, hop: Hop) -> bool:
        """Forget a neighbour; say whether its link was up."""
        self._leases.drop(hop)
        return self.links.pop(hop, None) is not None

    def check_room(self, hop: Hop, more: int) -> None:
        """Refuse what is more than one neighbour may say."""
        received, most = self.link(hop).received.count, self._limits.entries_per_neighbour
        if received + more > most:
            raise TooManyInterests(
                f"a neighbour sent {received + more} interests and offers, and may send {most}"
            )

    # ------------------------------------------------------------ leases

    def begin_lease(self, hop: Hop, now: Instant) -> None:
        """Let what a neighbour says hold for a while from its first word on."""
        if hop not in self._leases:
            self.extend_lease(hop, now)

    def extend_lease(self, hop: Hop, now: Instant) -> None:
        """Let what a neighbour said hold for a while from now on."""
        self._leases.grant(hop, Instant(now + self._limits.lease_us))

    def expired(self, now: Instant) -> list[Hop]:
        """Return the neighbours who have not renewed what they said within the lease, each once."""
        return self._leases.expired(now)

    def forgive(self, until: Instant) -> None:
        """Let every lease last until `until` at least."""
        self._leases.forgive(until)

    # ------------------------------------------------------------ renewals

    def renew_due(self, now: Instant) -> list[RouteUpdate]:
        """Renew all entries at neighbours where a third of a lease has passed since the last renewal.

        When one is due, those that would be soon go along, so that a broker
        wakes once for many neighbours and not once for each. A neighbour that
        knows that nothing is registered gets no more renewals; if it should believe
        something else later, that ends with the lease.
        """
        every = self._limits.renew_every_us
        links = [(hop, link) for hop, link in self.links.items() if link.is_to_be_renewed]
        if all(is_within(link.renewed_at, now, every) for _, link in links):
            return []
        return [
            self.renewal(hop, now) for hop, link in links if not is_within(link.renewed_at, now, every // 2)
        ]

    def renewal(self, hop: Hop, now: Instant) -> Renewal:
        """Renew all entries at a neighbour."""
        link = self.link(hop)
        link.renew(now)
        return Renewal(hop, link.sent.count, link.sent.digest)

    def next_due(self) -> Instant | None:
        """Return the earliest moment at which a renewal is due or a lease has ended."""
        renewed = [link.renewed_at for link in self.links.values() if link.is_to_be_renewed]
        oldest = min(renewed, default=None)
        end = self._leases.next_end()
        if oldest is None:
            return None if end is None else Instant(end + 1)
        renewal = oldest + self._limits.renew_every_us
        return Instant(renewal if end is None else min(renewal, end + 1))


def is_within(then: Instant | None, now: Instant, span_us: int) -> bool:
    """Say whether a moment, if there was one, is less than so long ago."""
    return then is not None and then <= now < then + span_us
