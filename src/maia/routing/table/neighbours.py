"""Which neighbours are there, and for how long does what they said hold?

The routing book asks. All that a neighbour said is held under one lease, and
ends with it; all that a neighbour was sent is renewed with one message, some
time before its own lease ends.
"""

from __future__ import annotations

from maia.events import Instant
from maia.routing.table.hops import Hop, Tell, TellRenew
from maia.routing.table.leases import Leases
from maia.routing.table.limits import BookLimits, TooMuchTold, UnknownHop
from maia.routing.table.links import NeighbourLink

__all__ = ["Neighbours", "is_within"]


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
        received, most = self.link(hop).received.count, self._limits.told_by_neighbour_max
        if received + more > most:
            raise TooMuchTold(f"a neighbour sent {received + more} interests and offers, and may send {most}")

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

    def renew_due(self, now: Instant) -> list[Tell]:
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

    def renewal(self, hop: Hop, now: Instant) -> TellRenew:
        """Renew all entries at a neighbour."""
        link = self.link(hop)
        link.renew(now)
        return TellRenew(hop, link.sent.count, link.sent.digest)

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
