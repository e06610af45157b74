"""Which neighbours are there, and for how long does what they said hold?

The routing table asks. All that a neighbour said is held under one lease, and
ends with it; all that a neighbour was sent is renewed with one message, some
time before its own lease ends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Generic, TypeVar

from maia.events import Instant
from maia.routing.table.hops import Hop, Renewal
from maia.routing.table.interests import Tally

_Subject = TypeVar("_Subject", bound=Hashable)


@dataclass(frozen=True, slots=True)
class BookLimits:
    """How much one neighbour may say, and for how long it holds."""

    lease_us: int = 60_000_000
    entries_per_neighbour: int = 500_000

    @property
    def renew_every_us(self) -> int:
        """Return how often everything is renewed at a neighbour.

        Twice in a lease, and early enough that one renewal may go missing.
        """
        return self.lease_us * 5 // 12


@dataclass(slots=True)
class NeighbourLink:
    """What is known of the link to one neighbour, over all types."""

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
    is_to_be_sent_again: bool = False
    """Whether it has asked for everything so soon after the last time that it gets it a little later."""

    @property
    def is_to_be_renewed(self) -> bool:
        """Return whether something is registered, or the neighbour has yet to learn that nothing is."""
        return self.sent.count > 0 or not self.knows_of_nothing

    @property
    def has_stale(self) -> bool:
        """Return whether something has not been sent again since we asked."""
        return self.received.count != self.fresh.count

    def renewal(self, hop: Hop, now: Instant) -> Renewal:
        """Renew all entries at the neighbour, which is `hop`."""
        self.renewed_at, self.knows_of_nothing = now, self.sent.count == 0
        return Renewal(hop, self.sent.count, self.sent.digest)

    def add(self, mark: int, *, is_stale: bool, size: int) -> None:
        """Count an entry or offer of the neighbour."""
        self.received.add(mark)
        self.bytes += size
        if not is_stale:
            self.fresh.add(mark)

    def subtract(self, mark: int, *, is_stale: bool, size: int) -> None:
        """Count an entry or offer of the neighbour less."""
        self.received.subtract(mark)
        self.bytes -= size
        if not is_stale:
            self.fresh.subtract(mark)


class Links(dict[Hop, NeighbourLink]):
    """The neighbours whose links are up. What others say, such as this broker's clients, is counted apart."""

    def __init__(self) -> None:
        """Begin without neighbours."""
        super().__init__()
        self._apart = NeighbourLink(Instant(0))

    def __missing__(self, hop: Hop) -> NeighbourLink:
        return self._apart


class Leases(Generic[_Subject]):
    """Subjects by the moment at which they end unless they are renewed.

    All are as long as each other, so the one that was granted first ends first. If the clock was set back in
    between, one that was granted since may last as long as one that was granted before.
    """

    __slots__ = ("_until",)

    def __init__(self) -> None:
        """Begin without leases."""
        self._until: OrderedDict[_Subject, Instant] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of leases."""
        return len(self._until)

    def __contains__(self, subject: object) -> bool:
        """Return whether there is a lease for the subject."""
        return subject in self._until

    def grant(self, subject: _Subject, until: Instant) -> None:
        """Let a subject last until a moment, whatever was granted before."""
        self._until[subject] = until
        self._until.move_to_end(subject)

    def forgive(self, until: Instant) -> None:
        """Let every lease last until `until` at least."""
        for subject, ends in self._until.items():
            self._until[subject] = max(ends, until)

    def drop(self, subject: _Subject) -> None:
        """Forget a lease, if there is one."""
        self._until.pop(subject, None)

    def expired(self, now: Instant) -> list[_Subject]:
        """Return and forget the subjects whose last moment has passed, earliest first."""
        ended = [subject for subject, _ in takewhile(lambda one: one[1] < now, self._until.items())]
        for subject in ended:
            del self._until[subject]
        return ended

    def next_end(self) -> Instant | None:
        """Return the last moment of the lease that ends first."""
        return next(iter(self._until.values()), None)


def is_within(then: int | None, now: int, span_us: int) -> bool:
    """Return whether a moment, if there was one, is less than so long ago."""
    return then is not None and then <= now < then + span_us
