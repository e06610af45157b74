"""What do we know of the link to one neighbour, over all types?

The routing book keeps one of these per neighbour whose link is up. It tallies
what was sent each way, so that a renewal of everything costs one message.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from maia.events import Instant
from maia.routing.table.digests import Tally

__all__ = ["NeighbourLink"]


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
    told_again_at: Instant | None = None

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

    def unhear(self, mark: int, *, is_stale: bool) -> None:
        """Count an entry or offer of the neighbour less."""
        self.received.subtract(mark)
        if not is_stale:
            self.fresh.subtract(mark)
