"""What was one neighbour sent of one type, and what must it be sent to be up to date?

A type keeps one of these per neighbour that receives its interests.
Only differences are sent. What is added goes first and what is removed goes
last, so that between two steps a neighbour wants too much and never too little.

From which hops may publications of one type come?

A type's book asks to whom interests must go, and whether the parent is to
hear of an offer. A neighbour has one offer per type; the clients of this
broker have as many as there are advertisements, each under its own key, and
`LOCAL` offers as long as one of them is left.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from maia.routing.table.hops import (
    ENTRIES_PER_TELL_MAX,
    Hop,
    InterestUpdate,
    OfferUpdate,
    RouteEntry,
    RouteUpdate,
    TypeId,
)
from maia.routing.table.interests import (
    Group,
    Held,
    Tally,
    digest_on_the_link,
    is_received_by,
    mark_of_interest,
    mark_of_offer,
)

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


class SentRoutes:
    """What one neighbour was sent of one type."""

    __slots__ = ("_by_group", "_hop", "_type_id", "offer")

    def __init__(self, hop: Hop, type_id: TypeId) -> None:
        """Begin with nothing sent."""
        self._hop = hop
        self._type_id = type_id
        self._by_group: dict[int, Held] = {}
        self.offer: Source | None = None
        """Whose advertisement went with the offer that it was sent, if any."""

    def entries(self) -> tuple[RouteEntry, ...]:
        """Return the entries that the neighbour was sent."""
        return tuple(_as_sent(held) for held in self._by_group.values())

    def catch_up(self, groups: Iterable[Group], tally: Tally) -> list[RouteUpdate]:
        """Tell what has changed for some groups."""
        add: dict[bytes, RouteEntry] = {}
        remove: list[bytes] = []
        for group in groups:
            ought = group.front if is_received_by(self._hop, group) else None
            known = self._by_group.get(group.born)
            if ought is known:
                continue
            if known is not None:
                del self._by_group[group.born]
                tally.subtract(self._mark(known))
                remove.append(known.sent_as)
            if ought is not None:
                self._by_group[group.born] = ought
                tally.add(self._mark(ought))
                add[ought.sent_as] = _as_sent(ought)
        return self._in_steps(list(add.values()), [one for one in remove if one not in add])

    def catch_up_with_offer(self, source: Source | None, offers: Offers, tally: Tally) -> list[RouteUpdate]:
        """Send an offer, its withdrawal, or another advertisement for it."""
        if source == self.offer:
            return []
        if self.offer is not None:
            tally.subtract(mark_of_offer(self._type_id))
        if source is not None:
            tally.add(mark_of_offer(self._type_id))
        self.offer = source
        return [self._offer_update(offers)]

    def withdraw(self, tally: Tally) -> list[RouteUpdate]:
        """Take back everything."""
        gone = list(self._by_group.values())
        for held in gone:
            tally.subtract(self._mark(held))
        self._by_group.clear()
        updates = self._in_steps([], [held.sent_as for held in gone])
        if self.offer is not None:
            tally.subtract(mark_of_offer(self._type_id))
            updates.append(OfferUpdate(self._hop, self._type_id, False))
        return updates

    def one_again(self, group: Group, held: Held) -> list[RouteUpdate]:
        """Repeat one entry, if it is what the neighbour was sent for its group."""
        return self._in_steps([_as_sent(held)], []) if self._by_group.get(group.born) is held else []

    def again(self, offers: Offers) -> list[RouteUpdate]:
        """Repeat everything."""
        updates = self._in_steps(self.entries(), [])
        return updates if self.offer is None else [*updates, self._offer_update(offers)]

    def _offer_update(self, offers: Offers) -> RouteUpdate:
        if self.offer is None:
            return OfferUpdate(self._hop, self._type_id, False)
        return OfferUpdate(self._hop, self._type_id, True, offers.baggage_of(self.offer))

    def _in_steps(self, add: Sequence[RouteEntry], remove: Sequence[bytes]) -> list[RouteUpdate]:
        size = ENTRIES_PER_TELL_MAX
        if len(add) + len(remove) <= size:
            return (
                [InterestUpdate(self._hop, self._type_id, tuple(add), tuple(remove))] if add or remove else []
            )
        parts = [(add[at : at + size], ()) for at in range(0, len(add), size)]
        rest = [((), remove[at : at + size]) for at in range(0, len(remove), size)]
        return [
            InterestUpdate(self._hop, self._type_id, tuple(more), tuple(less))
            for more, less in [*parts, *rest]
        ]

    def _mark(self, held: Held) -> int:
        digest = digest_on_the_link(held.entry, held.filter_digest)
        return mark_of_interest(self._type_id, held.sent_as, digest)


def _as_sent(held: Held) -> RouteEntry:
    return held.entry if held.sent_as == held.entry.id else replace(held.entry, id=held.sent_as)
