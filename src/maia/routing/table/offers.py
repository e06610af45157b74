"""From which hops may publications of one type come?

A type's book asks to whom interests must go, and whether the parent is to
hear of an offer. A neighbour has one offer per type; the clients of this
broker have as many as there are advertisements, each under its own key, and
`LOCAL` offers as long as one of them is left.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from maia.routing.table.hops import Hop

Source: TypeAlias = tuple[Hop, Hashable]
"""A hop, and the key of one of its advertisements."""


@dataclass(slots=True)
class _Offer:
    """What one hop offers: baggage by the key of the advertisement."""

    advertisements: dict[Hashable, object] = field(default_factory=dict)
    is_stale: bool = False
    set_aside: Hashable = None
    """An advertisement that represents others only if there is no other to do it."""
    size: int = 0
    """About how many bytes it takes to keep what a neighbour offers."""


class Offers:
    """The standing offers of one type by hop."""

    __slots__ = ("_by_hop",)

    def __init__(self) -> None:
        """Begin with nothing offered."""
        self._by_hop: dict[Hop, _Offer] = {}

    def __contains__(self, hop: object) -> bool:
        """Return whether an offer of the hop is registered."""
        return hop in self._by_hop

    def __iter__(self) -> Iterator[Hop]:
        """Yield the hops that offer."""
        return iter(self._by_hop)

    def __len__(self) -> int:
        """Return the number of hops that offer."""
        return len(self._by_hop)

    def is_stale(self, hop: Hop) -> bool:
        """Return whether an offer has not been sent again since we asked."""
        return self._by_hop[hop].is_stale

    def set_stale(self, hop: Hop, stale: bool) -> None:
        """Doubt a hop's offer, if it has one, or trust it."""
        if hop in self._by_hop:
            self._by_hop[hop].is_stale = stale

    def size_from(self, hop: Hop) -> int:
        """Return how many bytes the standing offer of a hop takes."""
        return self._by_hop[hop].size

    def set_size(self, hop: Hop, size: int) -> None:
        """Take note of how many bytes the standing offer of a hop takes."""
        self._by_hop[hop].size = size

    def add(self, hop: Hop, advertisement: Hashable, baggage: object, *, is_stale: bool) -> bool:
        """Add or refresh an advertisement; say whether the hop had none before."""
        is_first = hop not in self._by_hop
        offer = self._by_hop.setdefault(hop, _Offer(is_stale=is_stale))
        offer.advertisements[advertisement] = baggage
        return is_first

    def forget_all_but(self, hop: Hop, advertisement: Hashable) -> None:
        """Remove all other advertisements of a hop, whose offer is or becomes this one."""
        if hop in self._by_hop:
            kept = self._by_hop[hop].advertisements
            self._by_hop[hop].advertisements = {key: kept[key] for key in kept if key == advertisement}

    def remove(self, hop: Hop, advertisement: Hashable) -> bool:
        """Remove an advertisement, if it is there; say whether the hop has none left because of it."""
        offer = self._by_hop.get(hop)
        if offer is None or advertisement not in offer.advertisements:
            return False
        del offer.advertisements[advertisement]
        return not offer.advertisements

    def forget(self, hop: Hop) -> None:
        """Remove all that a hop offers."""
        del self._by_hop[hop]

    def source_besides(self, hop: Hop, *, current: Source | None) -> Source | None:
        """Return an advertisement of another hop: the current one while it is there, else the oldest hop's.

        One that was set aside comes last.
        """
        if current is not None and self._stands(current) and not self._is_aside(current):
            return current
        sources = [
            (one, next(iter(offer.advertisements))) for one, offer in self._by_hop.items() if one != hop
        ]
        aside = sources[0] if sources else None
        return next((source for source in sources if not self._is_aside(source)), aside)

    def set_aside(self, advertisement: Hashable) -> Hop | None:
        """Let an advertisement represent others only if no other can; return its hop, unless it was done."""
        for hop, offer in self._by_hop.items():
            if advertisement in offer.advertisements and offer.set_aside != advertisement:
                offer.set_aside = advertisement
                return hop
        return None

    def baggage_from(self, hop: Hop) -> object:
        """Return what travels with the oldest advertisement of a hop; None if it offers nothing."""
        offer = self._by_hop.get(hop)
        return None if offer is None else next(iter(offer.advertisements.values()), None)

    def baggage_of(self, source: Source) -> object:
        """Return what travels with an advertisement."""
        hop, advertisement = source
        return self._by_hop[hop].advertisements[advertisement]

    def _is_aside(self, source: Source) -> bool:
        hop, advertisement = source
        return self._by_hop[hop].set_aside == advertisement

    def _stands(self, source: Source) -> bool:
        hop, advertisement = source
        return hop in self._by_hop and advertisement in self._by_hop[hop].advertisements
