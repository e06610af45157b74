"""What do we know of the link to one neighbour, over all types?

The routing book keeps one of these per neighbour whose link is up. It tallies
what was told each way, so that a renewal of everything costs one message.
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
    """When we last told it that all stands, or the link came up."""
    told: Tally = field(default_factory=Tally)
    """What we told it."""
    heard: Tally = field(default_factory=Tally)
    """What it told us, stale or not."""
    fresh: Tally = field(default_factory=Tally)
    """What it told us, without what is stale."""
    bytes: int = 0
    """About how much memory takes what it told us."""
    knows_of_nothing: bool = False
    """Whether our last renewal said that nothing stands."""
    asked_again_at: Instant | None = None
    told_again_at: Instant | None = None

    @property
    def is_to_be_renewed(self) -> bool:
        """Say whether something stands, or the neighbour has yet to hear that nothing does."""
        return self.told.count > 0 or not self.knows_of_nothing

    def renew(self, now: Instant) -> None:
        """Take note that the neighbour is told of all that stands."""
        self.renewed_at, self.knows_of_nothing = now, self.told.count == 0

    @property
    def has_stale(self) -> bool:
        """Say whether something that it told us has not been told again since we asked."""
        return self.heard.count != self.fresh.count

    def hear(self, mark: int, *, is_stale: bool) -> None:
        """Count an entry or offer that the neighbour told us."""
        self.heard.add(mark)
        if not is_stale:
            self.fresh.add(mark)

    def unhear(self, mark: int, *, is_stale: bool) -> None:
        """Count an entry or offer of the neighbour less."""
        self.heard.subtract(mark)
        if not is_stale:
            self.fresh.subtract(mark)
