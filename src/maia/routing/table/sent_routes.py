"""What was one neighbour sent of one type, and what must it be sent to be up to date?

A type keeps one of these per neighbour that receives its interests.
Only differences are sent. What is added goes first and what is removed goes
last, so that between two steps a neighbour wants too much and never too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from maia.routing.table.covering_order import is_heard_by
from maia.routing.table.hops import (
    ENTRIES_PER_TELL_MAX,
    Hop,
    RouteEntry,
    Tell,
    TellInterest,
    TellOffer,
    TypeId,
)
from maia.routing.table.interests import (
    Group,
    Held,
    Tally,
    digest_on_the_link,
    mark_of_interest,
    mark_of_offer,
)
from maia.routing.table.offers import Offers, Source


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
        return tuple(_as_told(held) for held in self._by_group.values())

    def catch_up(self, groups: Iterable[Group], tally: Tally) -> list[Tell]:
        """Tell what has changed for some groups."""
        add: dict[bytes, RouteEntry] = {}
        remove: list[bytes] = []
        for group in groups:
            ought = group.front if is_heard_by(self._hop, group) else None
            known = self._by_group.get(group.born)
            if ought is known:
                continue
            if known is not None:
                del self._by_group[group.born]
                tally.subtract(self._mark(known))
                remove.append(known.told_as)
            if ought is not None:
                self._by_group[group.born] = ought
                tally.add(self._mark(ought))
                add[ought.told_as] = _as_told(ought)
        return self._in_steps(list(add.values()), [one for one in remove if one not in add])

    def catch_up_with_offer(self, source: Source | None, offers: Offers, tally: Tally) -> list[Tell]:
        """Send an offer, its withdrawal, or another advertisement for it."""
        if source == self.offer:
            return []
        if self.offer is not None:
            tally.subtract(mark_of_offer(self._type_id))
        if source is not None:
            tally.add(mark_of_offer(self._type_id))
        self.offer = source
        return [self._tell_offer(offers)]

    def withdraw(self, tally: Tally) -> list[Tell]:
        """Take back everything."""
        gone = list(self._by_group.values())
        for held in gone:
            tally.subtract(self._mark(held))
        self._by_group.clear()
        tells = self._in_steps([], [held.told_as for held in gone])
        if self.offer is not None:
            tally.subtract(mark_of_offer(self._type_id))
            tells.append(TellOffer(self._hop, self._type_id, False))
        return tells

    def one_again(self, group: Group, held: Held) -> list[Tell]:
        """Repeat one entry, if it is what the neighbour was sent for its group."""
        return self._in_steps([_as_told(held)], []) if self._by_group.get(group.born) is held else []

    def again(self, offers: Offers) -> list[Tell]:
        """Repeat everything."""
        tells = self._in_steps(self.entries(), [])
        return tells if self.offer is None else [*tells, self._tell_offer(offers)]

    def _tell_offer(self, offers: Offers) -> Tell:
        if self.offer is None:
            return TellOffer(self._hop, self._type_id, False)
        return TellOffer(self._hop, self._type_id, True, offers.baggage_of(self.offer))

    def _in_steps(self, add: Sequence[RouteEntry], remove: Sequence[bytes]) -> list[Tell]:
        size = ENTRIES_PER_TELL_MAX
        if len(add) + len(remove) <= size:
            return (
                [TellInterest(self._hop, self._type_id, tuple(add), tuple(remove))] if add or remove else []
            )
        parts = [(add[at : at + size], ()) for at in range(0, len(add), size)]
        rest = [((), remove[at : at + size]) for at in range(0, len(remove), size)]
        return [
            TellInterest(self._hop, self._type_id, tuple(more), tuple(less)) for more, less in [*parts, *rest]
        ]

    def _mark(self, held: Held) -> int:
        digest = digest_on_the_link(held.entry, held.filter_digest)
        return mark_of_interest(self._type_id, held.told_as, digest)


def _as_told(held: Held) -> RouteEntry:
    return held.entry if held.told_as == held.entry.id else replace(held.entry, id=held.told_as)
