"""How much may be said to the routing book, and what is said if it is too much?"""

from __future__ import annotations

from dataclasses import dataclass

from maia.errors import BadInput, ProtocolViolation, Unavailable

__all__ = ["BookFull", "BookLimits", "TooMuchTold", "UnknownHop"]


class UnknownHop(BadInput):
    """A message came from a neighbour whose link is not up."""

    code = "INPUT-UNKNOWN-HOP"


class TooMuchTold(ProtocolViolation):
    """A neighbour sent more entries than one neighbour may."""

    code = "PROTOCOL-TOO-MUCH-TOLD"


class BookFull(Unavailable):
    """The broker's clients want more than the book may hold for them."""

    code = "UNAVAILABLE-ROUTING-BOOK-FULL"


@dataclass(frozen=True, slots=True)
class BookLimits:
    """How much one hop may say, and for how long it holds."""

    lease_us: int = 60_000_000
    told_by_neighbour_max: int = 500_000
    local_entries_max: int = 1_000_000

    @property
    def renew_every_us(self) -> int:
        """Return how often everything is renewed at a neighbour.

        Twice in a lease, and early enough that one renewal may go missing.
        """
        return self.lease_us * 5 // 12
