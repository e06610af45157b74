"""Who wants, and who offers, publications of one type, and what has each neighbour been sent of it?

The routing book keeps one of these per type. It works out what a neighbour
ought to have been sent, compares that with what it was sent, and answers with
the difference:

- interests go to the parent, which is the next hop towards the rendezvous
  node, and to every neighbour with a registered offer (dissertation,
  section 2.3.1: a publication follows its advertisement, and turns off
  wherever it meets an interest);
- a neighbour receives the filters of all other hops that none of these others
  covers;
- an offer goes to the parent while any other hop offers.

What was one neighbour sent of one type, and what must it be sent to be up to date?

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

import hashlib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from maia.routing.table.hops import (
    ENTRIES_PER_TELL_MAX,
    LOCAL,
    Hop,
    InterestUpdate,
    OfferUpdate,
    RouteEntry,
    RouteUpdate,
    TypeId,
)
from maia.routing.table.interests import (
    CoveringOrder,
    Group,
    Held,
    HopInterests,
    Tally,
    digest_of_meaning,
    digest_on_the_link,
    is_received_by,
    mark_of_interest,
    mark_of_offer,
)
from maia.routing.table.neighbours import NeighbourLink

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


Links: TypeAlias = Mapping[Hop, NeighbourLink]
"""The neighbours whose links are up."""


class TypeRoutes:
    """Interests and offers of all hops for one type."""

    __slots__ = (
        "_aliases",
        "_crowd",
        "_hops",
        "_numbers",
        "_offers",
        "_sent",
        "_versions",
        "parent",
        "type_id",
    )

    def __init__(
        self,
        type_id: TypeId,
        *,
        parent: Hop | None,
        on_change: Callable[[Group], None],
        numbers: Iterator[int],
    ) -> None:
        """Begin with nothing wanted and nothing offered; `numbers` grow and never come again.

        `on_change` is called for each filter of a hop that comes to be shown to others, or hidden.
        """
        self.type_id = type_id
        self._numbers = numbers
        self._versions: dict[Hop, int] = {}
        self.parent = parent
        self._hops: dict[Hop, HopInterests] = {}
        self._crowd = CoveringOrder(self._hops, on_change)
        self._offers = Offers()
        self._sent: dict[Hop, SentRoutes] = {}
        self._aliases: dict[bytes, tuple[Hop, Held]] = {}
        """The entries that are passed on under another id than their own, by that id."""

    # ------------------------------------------------------------ what is here

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is wanted, offered or sent, so that the routes can be dropped."""
        return not self._hops and not len(self._offers) and not self._sent

    def hops(self) -> tuple[Hop, ...]:
        """Return the hops that want or offer something, in an order that every process repeats."""
        return tuple(dict.fromkeys((*self._hops, *self._offers)))

    def entries_from(self, hop: Hop) -> tuple[RouteEntry, ...]:
        """Return what a hop wants."""
        return tuple(held.entry for held in self._held_from(hop))

    def entry_from(self, hop: Hop, entry_id: bytes) -> RouteEntry | None:
        """Return one entry of a hop, if it is there."""
        held = self._hops[hop].find(entry_id) if hop in self._hops else None
        return None if held is None else held.entry

    def source_of(self, sent_as: bytes) -> tuple[Hop, RouteEntry] | None:
        """Return the entry that is forwarded under an id, and the hop that sent it."""
        found = self._passed_on_as(sent_as)
        return None if found is None else (found[0], found[1].entry)

    def shown_from(self, hop: Hop) -> tuple[RouteEntry, ...]:
        """Return what a hop wants, without what another filter of the same hop covers."""
        shown = self._hops[hop].shown() if hop in self._hops else ()
        return tuple(group.front.entry for group in shown)

    def offers_from(self, hop: Hop) -> bool:
        """Return whether an offer of a hop is registered."""
        return hop in self._offers

    def offer_from(self, hop: Hop) -> object:
        """Return what travels with the offer of a hop; None if it has none."""
        return self._offers.baggage_from(hop)

    def version_of(self, hop: Hop) -> int:
        """Return a number that changes whenever a hop may want or offer something else than before."""
        return self._versions.get(hop, 0)

    def sent_to(self, hop: Hop) -> tuple[tuple[RouteEntry, ...], bool]:
        """Return the entries that a neighbour was sent, and whether it was sent an offer."""
        sent = self._sent.get(hop)
        return ((), False) if sent is None else (sent.entries(), sent.offer is not None)

    # ------------------------------------------------------------ what is received

    def change(
        self,
        hop: Hop,
        *,
        add: Iterable[RouteEntry],
        remove: Iterable[bytes],
        links: Links,
        is_stale: bool = False,
    ) -> list[RouteUpdate]:
        """Change the entries of one hop, and only of that hop (A67)."""
        self._versions[hop] = next(self._numbers)
        changed = self._remove(hop, remove, links)
        for entry in add:
            changed |= self._add(hop, entry, links, is_stale=is_stale)
        return self._changed(hop, changed, links)

    def understand_anew(
        self, hop: Hop, *, entries: Iterable[RouteEntry], remove: Iterable[bytes], links: Links
    ) -> list[RouteUpdate]:
        """Take entries of a hop as they are known now; whether they are stale is as it was."""
        changed = self._remove(hop, remove, links)
        for entry in entries:
            held = self._hops[hop].find(entry.id) if hop in self._hops else None
            if held is not None and held.filter_digest != digest_of_meaning(entry):
                changed |= self._remove(hop, (entry.id,), links)
                changed |= self._add(hop, entry, links, is_stale=held.is_stale)
        return self._changed(hop, changed, links) if changed else []

    def _changed(self, hop: Hop, changed: set[Group], links: Links) -> list[RouteUpdate]:
        touched = self._crowd.settle(hop, changed) if changed else changed
        if hop in self._hops and not len(self._hops[hop]):
            del self._hops[hop]
        return self._updates(touched, links)

    def add_offer(
        self,
        hop: Hop,
        advertisement: Hashable,
        baggage: object,
        links: Links,
        *,
        is_stale: bool = False,
        size: int = 0,
    ) -> list[RouteUpdate]:
        """Register an offer of a hop."""
        self._versions[hop] = next(self._numbers)
        if hop in self._offers and is_stale:
            return []
        link, mark = links.get(hop), mark_of_offer(self.type_id)
        if hop != LOCAL:
            self._offers.forget_all_but(hop, advertisement)  # a neighbour has one offer
        if self._offers.add(hop, advertisement, baggage, is_stale=is_stale) and link is not None:
            link.add(mark, is_stale=is_stale)
        elif self._offers.is_stale(hop) and link is not None:
            self._offers.set_stale(hop, False)
            link.fresh.add(mark)
        if link is not None:
            link.bytes += size - self._offers.size_from(hop)
            self._offers.set_size(hop, size)
        return self.bring_up_to_date(links)

    def remove_offer(self, hop: Hop, advertisement: Hashable, links: Links) -> list[RouteUpdate]:
        """Withdraw an advertisement of a hop, or the one that a neighbour has; it need not be there."""
        self._versions[hop] = next(self._numbers)
        if hop != LOCAL or self._offers.remove(hop, advertisement):
            self._withdraw_offer(hop, links)
        return self.bring_up_to_date(links)

    def set_offer_aside(self, advertisement: Hashable, links: Links) -> tuple[Hop | None, list[RouteUpdate]]:
        """Replace an advertisement that a neighbour doubts, if there is another."""
        hop = self._offers.set_aside(advertisement)
        return hop, [] if hop is None else self.bring_up_to_date(links)

    def forget_received(self, hop: Hop, links: Links) -> list[RouteUpdate]:
        """Forget all that a hop sent; what it was sent stays."""
        self._versions.pop(hop, None)
        touched: set[Group] = set()
        if hop in self._hops:
            touched = self._crowd.forget(hop)
            for held in self._hops.pop(hop).all_held():
                self._release(held, links.get(hop))
        self._withdraw_offer(hop, links)
        return self._updates(touched, links)

    def forget_sent(self, hop: Hop) -> None:
        """Forget what a neighbour was sent, without a message: it is gone."""
        self._sent.pop(hop, None)

    # ------------------------------------------------------------ doubt about what was received

    def doubt(self, hop: Hop) -> None:
        """Mark all that a hop sent as stale, until it is sent again."""
        self._set_stale(hop, True)

    def trust(self, hop: Hop) -> None:
        """Take all that a hop sent as current."""
        self._set_stale(hop, False)

    def drop_stale(self, hop: Hop, links: Links) -> list[RouteUpdate]:
        """Forget what a hop has not sent again."""
        if hop in self._offers and self._offers.is_stale(hop):
            self._withdraw_offer(hop, links)
        stale = [held.entry.id for held in self._held_from(hop) if held.is_stale]
        return self.change(hop, add=(), remove=stale, links=links)

    # ------------------------------------------------------------ what is sent

    def bring_up_to_date(self, links: Links) -> list[RouteUpdate]:
        """Tell every neighbour what it ought to know; one whose standing has not changed costs a look."""
        return self._updates(frozenset(), links)

    def send_again(self, hop: Hop) -> list[RouteUpdate]:
        """Repeat all that a neighbour was sent."""
        sent = self._sent.get(hop)
        return [] if sent is None else sent.again(self._offers)

    def send_one_again(self, hop: Hop, entry_id: bytes) -> list[RouteUpdate]:
        """Repeat one entry of a hop to the neighbours that were sent it: its baggage is another one."""
        interests = self._hops.get(hop)
        held = None if interests is None else interests.find(entry_id)
        if interests is None or held is None:
            return []
        group = interests.group_of(held)
        return [update for sent in self._sent.values() for update in sent.one_again(group, held)]

    def _updates(self, touched: Collection[Group], links: Links) -> list[RouteUpdate]:
        audience = self._audience(links)
        updates: list[RouteUpdate] = []
        for hop in [hop for hop in self._sent if hop not in audience]:
            updates += self._sent.pop(hop).withdraw(links[hop].sent)
        ordered = sorted(touched, key=lambda group: group.born)
        for hop in audience:
            sent, groups = self._sent.get(hop), ordered
            if sent is None:
                sent, groups = self._sent.setdefault(hop, SentRoutes(hop, self.type_id)), self._all_shown()
            updates += sent.catch_up(groups, links[hop].sent)
            source = self._offers.source_besides(hop, current=sent.offer) if hop == self.parent else None
            updates += sent.catch_up_with_offer(source, self._offers, links[hop].sent)
        return updates

    def _audience(self, links: Links) -> dict[Hop, None]:
        """Return the neighbours that receive interests: the parent, and those that offer."""
        if not self._hops and not len(self._offers):
            return {}
        return {hop: None for hop in (self.parent, *self._offers) if hop in links}

    def _all_shown(self) -> list[Group]:
        shown = [group for interests in self._hops.values() for group in interests.shown()]
        return sorted(shown, key=lambda group: group.born)

    # ------------------------------------------------------------ one entry

    def _add(self, hop: Hop, entry: RouteEntry, links: Links, *, is_stale: bool) -> set[Group]:
        interests = self._hops.get(hop)
        known = None if interests is None else interests.find(entry.id)
        if known is not None and is_stale:
            return set()  # what the neighbour says itself counts more than what others say of it
        digest = digest_of_meaning(entry)
        mark = self._mark(entry, digest)
        if known is not None and known.filter_digest == digest and self._mark_of(known) == mark:
            self._confirm(known, entry, links.get(hop))
            return set()
        changed = self._remove(hop, (entry.id,), links)
        held = Held(entry, digest, self._free_id(entry.id), is_stale)
        if held.sent_as != entry.id:
            self._aliases[held.sent_as] = (hop, held)
        if (link := links.get(hop)) is not None:
            link.add(mark, is_stale=is_stale)
            link.bytes += entry.size
        interests = self._hops.setdefault(hop, HopInterests(hop))
        return changed | interests.add(held, born=next(self._numbers))

    def _confirm(self, known: Held, entry: RouteEntry, link: NeighbourLink | None) -> None:
        """Keep an entry that is sent again; its baggage may be fresher."""
        if link is not None:
            link.bytes += entry.size - known.entry.size
        known.entry = entry
        if known.is_stale and link is not None:
            known.is_stale = False
            link.fresh.add(self._mark_of(known))

    def _remove(self, hop: Hop, entry_ids: Iterable[bytes], links: Links) -> set[Group]:
        """Remove those entries of a hop that are here, at one moment; return the groups that may change."""
        interests = self._hops.get(hop)
        if interests is None:
            return set()
        here = {one: held for one in entry_ids if (held := interests.find(one)) is not None}
        for held in here.values():
            self._release(held, links.get(hop))
        return interests.remove(here) if here else set()

    def _release(self, held: Held, link: NeighbourLink | None) -> None:
        self._aliases.pop(held.sent_as, None)
        if link is not None:
            link.subtract(self._mark_of(held), is_stale=held.is_stale)
            link.bytes -= held.entry.size

    def _mark_of(self, held: Held) -> int:
        return self._mark(held.entry, held.filter_digest)

    def _mark(self, entry: RouteEntry, meaning: bytes) -> int:
        """Return the mark by which both ends of a link count an entry."""
        return mark_of_interest(self.type_id, entry.id, digest_on_the_link(entry, meaning))

    def _free_id(self, entry_id: bytes) -> bytes:
        """Return an id under which an entry can be passed on: no hop may displace another's entry (A67)."""
        free, tried = entry_id, 0
        while self._passed_on_as(free) is not None:
            tried += 1
            free = hashlib.sha256(b"maia/1/entry-alias\x00%d\x00" % tried + entry_id).digest()[:16]
        return free

    def _passed_on_as(self, sent_as: bytes) -> tuple[Hop, Held] | None:
        if sent_as in self._aliases:
            return self._aliases[sent_as]
        for hop, interests in self._hops.items():
            held = interests.find(sent_as)
            if held is not None and held.sent_as == sent_as:
                return hop, held
        return None

    def _withdraw_offer(self, hop: Hop, links: Links) -> None:
        if hop not in self._offers:
            return
        if (link := links.get(hop)) is not None:
            link.subtract(mark_of_offer(self.type_id), is_stale=self._offers.is_stale(hop))
            link.bytes -= self._offers.size_from(hop)
        self._offers.forget(hop)

    def _held_from(self, hop: Hop) -> Iterator[Held]:
        return self._hops[hop].all_held() if hop in self._hops else iter(())

    def _set_stale(self, hop: Hop, stale: bool) -> None:
        for held in self._held_from(hop):
            held.is_stale = stale
        self._offers.set_stale(hop, stale)
