"""The routing book: who wants what, who offers what, and what must be said to whom because of it?

The broker hands in what its clients and neighbours say, and sends the tells
that come back. Per type, the next hops towards the rendezvous node form a
tree (dissertation, section 2.3.1), and the book keeps this broker's place in
it. Nothing is sent twice, nothing is sent that a wider filter makes needless,
and a hop can change only what it said itself.

The book asks that the parent of a type is nearer to the rendezvous node than
this broker in one order that all brokers share, that links keep the order of
what is sent, and that `hop_up` and `hop_gone` frame everything said on a link.

What is known of interests and offers, type by type, and who wants this event?

Publications, replicas, status pages and tests ask. Nothing here changes what
is known: that is the routing book's own work (`table/routing_table.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence, Set
from dataclasses import replace
from itertools import count
from typing import Final, cast

from maia.events import AttributeUid, Event, Frame, Instant
from maia.predicates import ALWAYS, Predicate
from maia.routing.matching.index import Matcher, ScanMatcher
from maia.routing.table.hops import LOCAL, Hop, ResyncRequest, RouteEntry, RouteUpdate, TypeId, is_of_sealed
from maia.routing.table.interests import Group, known_attributes
from maia.routing.table.neighbours import (
    BookFull,
    BookLimits,
    NeighbourLink,
    Neighbours,
    TooManyInterests,
    UnknownHop,
    is_within,
)
from maia.routing.table.type_routes import TypeRoutes


class Targets:
    """The hops that want something of one type."""

    __slots__ = ("_asked", "_asking", "_everything", "_filters", "_matcher", "_with_local")

    def __init__(self, matcher: Matcher, *, with_local: bool, may_miss_columns: bool = False) -> None:
        """Begin without hops; `with_local` says whether the broker's own clients are one of the hops."""
        self._matcher = matcher
        self._filters = 0
        """How many filters the matcher has."""
        self._everything: dict[tuple[Hop, int], None] = {}
        """What wants everything: there is nothing to ask about an event."""
        self._with_local = with_local
        self._asking: dict[AttributeUid, Counter[Hop]] | None = {} if may_miss_columns else None
        """How many filters of each hop ask about an attribute; None where no frame misses a column."""
        self._asked: frozenset[AttributeUid] | None = None

    def keep_current(self, group: Group) -> None:
        """Hear that a group is now shown, or hidden."""
        if group.hop == LOCAL and not self._with_local:
            return
        if self._asking is not None:
            self._count(group, 1 if group.is_shown else -1, self._asking)
        key = group.hop, group.born
        if group.is_shown and group.front.entry.predicate == ALWAYS:
            self._everything[key] = None
        elif group.is_shown:
            self._matcher.add(key, group.front.entry.predicate)
            self._filters += 1
        elif key in self._everything:
            del self._everything[key]
        else:
            self._matcher.remove(key)
            self._filters -= 1

    def asked_about(self) -> frozenset[AttributeUid]:
        """Return the attributes about which a filter of a neighbour asks; none where no frame is sealed."""
        if self._asked is None:
            asking = self._asking or {}
            self._asked = frozenset(uid for uid, hops in asking.items() if any(hop != LOCAL for hop in hops))
        return self._asked

    def of_event(self, event: Event, *, from_hop: Hop) -> Set[Hop]:
        """Return the hops that want an event, in the order of `of_frame`, and never where it came from."""
        found = {hop: None for hop, _ in self._everything}
        if self._filters:
            found |= {_hop_of(match): None for match in self._matcher.match(event)}
        if from_hop != LOCAL:
            found.pop(from_hop, None)
        return found.keys()

    def of_frame(
        self, frame: Frame, *, from_hop: Hop, missing: Collection[AttributeUid] = ()
    ) -> dict[Hop, list[int]]:
        """Return the rows that each hop wants, in order, and never the neighbour from which they came.

        `missing` are attributes that the frame has and this broker cannot read.
        """
        everything = self._everything if frame.rows else ()
        if not self._filters:
            return {hop: list(range(frame.rows)) for hop, _ in everything if hop != from_hop or hop == LOCAL}
        by_hop: dict[Hop, list[Sequence[int]]] = {hop: [range(frame.rows)] for hop, _ in everything}
        for hop in self._asking_about(missing):
            by_hop[hop] = [range(frame.rows)]
        for match, rows in self._matcher.match_frame(frame).items():
            by_hop.setdefault(_hop_of(match), []).append(rows)
        if from_hop != LOCAL:
            by_hop.pop(from_hop, None)
        return {hop: _joined(found, frame.rows) for hop, found in by_hop.items()}

    def _asking_about(self, missing: Collection[AttributeUid]) -> Iterable[Hop]:
        asking = self._asking or {}
        return dict.fromkeys(hop for uid in sorted(missing) if uid in asking for hop in asking[uid])

    def _count(self, group: Group, step: int, asking: dict[AttributeUid, Counter[Hop]]) -> None:
        self._asked = None
        for uid in known_attributes(group.predicate):
            hops = asking.setdefault(uid, Counter())
            hops[group.hop] += step
            if not hops[group.hop]:
                del hops[group.hop]
            if not hops:
                del asking[uid]


def _hop_of(match: Hashable) -> Hop:
    # The index hands back the ids that `keep_current` gave it, and knows them as hashable alone.
    return cast("tuple[Hop, int]", match)[0]


def _joined(found: Sequence[Sequence[int]], rows: int) -> list[int]:
    if len(found) == 1:
        return list(found[0])
    together: set[int] = set()
    for some in found:
        together.update(some)
        if len(together) == rows:
            break
    return sorted(together)


class ReadableBook:
    """The part of a routing book that answers questions."""

    def __init__(self) -> None:
        """Begin empty."""
        self._types: dict[TypeId, TypeRoutes] = {}
        self._targets: dict[TypeId, Targets] = {}

    # ------------------------------------------------------------ publications

    def targets(self, type_id: TypeId, from_hop: Hop, event: Event) -> Set[Hop]:
        """Return the hops that want an event, and never the neighbour from which it came."""
        targets = self._targets.get(type_id)
        return set() if targets is None else targets.of_event(event, from_hop=from_hop)

    def targets_of_frame(
        self, type_id: TypeId, from_hop: Hop, frame: Frame, missing: Collection[AttributeUid] = ()
    ) -> dict[Hop, list[int]]:
        """Return the rows of a frame that each hop wants, in order; hops that want none are left out.

        `missing` are attributes of a sealed frame that this broker cannot open.
        """
        targets = self._targets.get(type_id)
        return {} if targets is None else targets.of_frame(frame, from_hop=from_hop, missing=missing)

    def knows(self, type_id: TypeId) -> bool:
        """Return whether an interest or an offer of a type is registered, from any hop."""
        return type_id in self._types

    def may_come_from(self, hop: Hop, type_id: TypeId) -> bool:
        """Say whether publications of a type are expected from a hop: it leads to the rendezvous, or offers.

        Interests are sent to no other. An offer without an advertisement came from a replica alone.
        """
        book = self._types.get(type_id)
        return book is not None and (book.parent == hop or book.offer_from(hop) is not None)

    def asked_about(self, type_id: TypeId) -> frozenset[AttributeUid]:
        """Return the attributes of a sealed type about which a neighbour's filter asks."""
        targets = self._targets.get(type_id)
        return frozenset() if targets is None else targets.asked_about()

    # ------------------------------------------------------------ for replicas, status pages and tests

    def types(self) -> tuple[TypeId, ...]:
        """Return the types of which anything is wanted or offered."""
        return tuple(self._types)

    def parent(self, type_id: TypeId) -> Hop | None:
        """Return the next hop towards a type's rendezvous; None at the rendezvous, or for an unknown type."""
        return self._types[type_id].parent if type_id in self._types else None

    def hops(self, type_id: TypeId) -> tuple[Hop, ...]:
        """Return the hops that want or offer something of a type, in an order that every process repeats."""
        return self._types[type_id].hops() if type_id in self._types else ()

    def entry(self, hop: Hop, type_id: TypeId, entry_id: bytes) -> RouteEntry | None:
        """Return one entry as a hop sent it, if it is there."""
        return self._types[type_id].entry_from(hop, entry_id) if type_id in self._types else None

    def source_of(self, type_id: TypeId, sent_as: bytes) -> tuple[Hop, RouteEntry] | None:
        """Return the entry that is forwarded under an id, as its hop sent it, and that hop."""
        return self._types[type_id].source_of(sent_as) if type_id in self._types else None

    def entries(self, hop: Hop, type_id: TypeId) -> tuple[RouteEntry, ...]:
        """Return all that a hop wants of a type."""
        return self._types[type_id].entries_from(hop) if type_id in self._types else ()

    def wanted(self, hop: Hop, type_id: TypeId) -> tuple[RouteEntry, ...]:
        """Return what a hop wants of a type, without what another filter of the same hop covers."""
        return self._types[type_id].shown_from(hop) if type_id in self._types else ()

    def offers(self, hop: Hop, type_id: TypeId) -> bool:
        """Say whether a hop offers a type."""
        return type_id in self._types and self._types[type_id].offers_from(hop)

    def offer(self, hop: Hop, type_id: TypeId) -> object:
        """Return what travels with the offer of a hop; None if it offers nothing of a type."""
        return self._types[type_id].offer_from(hop) if type_id in self._types else None

    def version(self, hop: Hop, type_id: TypeId) -> int:
        """Return a number that changes whenever a hop may want or offer something else of a type."""
        return self._types[type_id].version_of(hop) if type_id in self._types else 0

    def sent_to(self, hop: Hop, type_id: TypeId) -> tuple[tuple[RouteEntry, ...], bool]:
        """Return what a neighbour was sent of a type: the entries, and whether an offer is among it."""
        return self._types[type_id].sent_to(hop) if type_id in self._types else ((), False)


__all__ = ["BookFull", "BookLimits", "RoutingTable", "TooManyInterests", "UnknownHop"]

_ADVERTISEMENT: Final = "offer"
"""A neighbour has one offer per type, under this key unless it is sent anew under another."""


class RoutingTable(ReadableBook):
    """What this broker knows of interests and offers, and what it has sent of them."""

    def __init__(
        self,
        *,
        parent_of: Callable[[TypeId], Hop | None] = lambda type_id: None,
        limits: BookLimits = BookLimits(),  # noqa: B008 - frozen, so one value serves all
        matcher: Callable[[], Matcher] = ScanMatcher,
        with_local_targets: bool = True,
    ) -> None:
        """Begin empty. `parent_of` names the next hop towards a type's rendezvous; None at the rendezvous.

        A broker that matches for its own clients does without `LOCAL` among
        the targets.
        """
        super().__init__()
        self._parent_of = parent_of
        self._limits = limits
        self._new_matcher = matcher
        self._with_local_targets = with_local_targets
        self._neighbours = Neighbours(limits)
        self._links = self._neighbours.links
        self._local_entries = 0
        self._numbers: Final = count(1)
        self._moved: list[tuple[Hop, TypeId]] = []
        self._lapsed: list[tuple[Hop, TypeId]] = []

    # ------------------------------------------------------------ this broker's clients

    def local_subscribe(
        self, type_id: TypeId, entry_id: bytes, predicate: Predicate, baggage: object = None
    ) -> list[RouteUpdate]:
        """Add a client's interest, or replace it; one that differs in its baggage alone is not sent."""
        return self.local_entry(type_id, RouteEntry(entry_id, predicate, baggage))

    def local_entry(self, type_id: TypeId, entry: RouteEntry) -> list[RouteUpdate]:
        """Add a client's interest as an entry, sealed or not, or replace it."""
        is_new = self.entry(LOCAL, type_id, entry.id) is None
        if is_new and self._local_entries >= self._limits.local_entries_max:
            raise BookFull(f"the routing book holds {self._local_entries} interests of this broker's clients")
        updates = self._book(type_id).change(LOCAL, add=(entry,), remove=(), links=self._links)
        self._local_entries += is_new
        return updates

    def local_change(
        self, type_id: TypeId, add: Collection[RouteEntry], remove: Collection[bytes]
    ) -> list[RouteUpdate]:
        """Add clients' interests and remove others at one moment: no neighbour is without either."""
        new = sum(self.entry(LOCAL, type_id, entry.id) is None for entry in add)
        here = [one for one in remove if self.entry(LOCAL, type_id, one) is not None]
        if new and self._local_entries + new > self._limits.local_entries_max:
            raise BookFull(f"the routing book holds {self._local_entries} interests of this broker's clients")
        if not add and not here:
            return []
        updates = self._book(type_id).change(LOCAL, add=add, remove=here, links=self._links)
        self._local_entries += new - len(here)
        return self._settled(type_id, updates)

    def local_unsubscribe(self, type_id: TypeId, *entry_ids: bytes) -> list[RouteUpdate]:
        """Remove clients' interests at one moment, those that are there."""
        here = [one for one in entry_ids if self.entry(LOCAL, type_id, one) is not None]
        if not here:
            return []
        self._local_entries -= len(here)
        return self._settled(
            type_id, self._types[type_id].change(LOCAL, add=(), remove=here, links=self._links)
        )

    def local_advertise(
        self, type_id: TypeId, advertisement: Hashable = None, baggage: object = None
    ) -> list[RouteUpdate]:
        """Add a client's advertisement under its key, or refresh its baggage."""
        return self._book(type_id).add_offer(LOCAL, advertisement, baggage, self._links)

    def local_unadvertise(self, type_id: TypeId, advertisement: Hashable = None) -> list[RouteUpdate]:
        """Remove a client's advertisement, if it is there."""
        if type_id not in self._types:
            return []
        return self._settled(type_id, self._types[type_id].remove_offer(LOCAL, advertisement, self._links))

    # ------------------------------------------------------------ the overlay

    def hop_up(self, hop: Hop, now: Instant) -> list[RouteUpdate]:
        """Register a neighbour whose link is up; send it what it ought to know."""
        if hop in self._links:
            return []
        self._links[hop] = NeighbourLink(renewed_at=now)
        return self._for_all_types(lambda book: book.bring_up_to_date(self._links))

    def hop_gone(self, hop: Hop) -> list[RouteUpdate]:
        """Hear that the link to a neighbour is gone, and with it all that was said on it."""
        if not self._neighbours.gone(hop):
            return []
        for book in self._types.values():
            book.forget_sent(hop)
        return self._forget_received(hop)

    def set_parent(self, type_id: TypeId, parent: Hop | None) -> list[RouteUpdate]:
        """Change the next hop towards a type's rendezvous: tell the new one all, the old one nothing more."""
        book = self._types.get(type_id)
        if book is None or book.parent == parent:
            return []
        if book.parent is not None:
            self._moved.append((book.parent, type_id))
        book.parent = parent
        return book.bring_up_to_date(self._links)

    def parents_changed(self) -> list[RouteUpdate]:
        """Ask `parent_of` again for every type."""
        return [
            update
            for type_id in list(self._types)
            for update in self.set_parent(type_id, self._parent_of(type_id))
        ]

    def take_moved(self) -> list[tuple[Hop, TypeId]]:
        """Return the former parents of the types whose parent has changed since this was asked last."""
        moved, self._moved = self._moved, []
        return moved

    # ------------------------------------------------------------ what neighbours say

    def receive_interest(
        self, hop: Hop, type_id: TypeId, add: Collection[RouteEntry], remove: Iterable[bytes], now: Instant
    ) -> list[RouteUpdate]:
        """Change what a neighbour wants; ids that it never sent are ignored when it removes them."""
        self._neighbours.check_room(hop, len(add))
        updates = self._book(type_id).change(hop, add=add, remove=remove, links=self._links)
        self._neighbours.begin_lease(hop, now)
        return self._settled(type_id, updates)

    def understood_anew(
        self, hop: Hop, type_id: TypeId, entries: Collection[RouteEntry], remove: Iterable[bytes]
    ) -> list[RouteUpdate]:
        """Take entries that a neighbour sent, and has not withdrawn, as they are known now."""
        book = self._types.get(type_id)
        if book is None or hop not in self._links:
            return []
        updates = book.understand_anew(hop, entries=entries, remove=remove, links=self._links)
        return self._settled(type_id, updates)

    def send_one_again(self, hop: Hop, type_id: TypeId, entry_id: bytes) -> list[RouteUpdate]:
        """Repeat one entry to the neighbours that were sent it, because it has another proof now."""
        book = self._types.get(type_id)
        return [] if book is None else book.send_one_again(hop, entry_id)

    def receive_offer(
        self,
        hop: Hop,
        type_id: TypeId,
        stands: bool,
        baggage: object,
        now: Instant,
        advertisement: Hashable = _ADVERTISEMENT,
        size: int = 0,
    ) -> list[RouteUpdate]:
        """Hear whether publications may come from a neighbour; under another key, its offer is passed on."""
        self._neighbours.check_room(hop, 1 if stands else 0)
        book = self._book(type_id)
        if stands:
            updates = book.add_offer(hop, advertisement, baggage, self._links, size=size)
        else:
            updates = book.remove_offer(hop, None, self._links)
        self._neighbours.begin_lease(hop, now)
        return self._settled(type_id, updates)

    def set_offer_aside(
        self, type_id: TypeId, advertisement: Hashable
    ) -> tuple[Hop | None, list[RouteUpdate]]:
        """Send another offer in place of a doubted one; return whose it was, the first time."""
        book = self._types.get(type_id)
        return (None, []) if book is None else book.set_offer_aside(advertisement, self._links)

    def receive_renewal(self, hop: Hop, entries: int, digest: bytes, now: Instant) -> list[RouteUpdate]:
        """Accept a renewal; if a neighbour and we disagree on its entries, ask it to send all again."""
        link = self._neighbours.link(hop)
        if link.received.agrees(entries=entries, digest=digest):
            self._trust(hop)
            if entries:
                self._neighbours.extend_lease(hop, now)
            return []
        if link.has_stale and link.fresh.agrees(entries=entries, digest=digest):
            self._neighbours.extend_lease(hop, now)
            return self._for_all_types(lambda book: book.drop_stale(hop, self._links))
        if is_within(link.asked_again_at, now, self._limits.renew_every_us // 2):
            return []  # the answer is on its way
        link.asked_again_at = now
        self._doubt(hop)
        return [ResyncRequest(hop)]

    def receive_resync(self, hop: Hop, now: Instant) -> list[RouteUpdate]:
        """Tell a neighbour everything again, and that this is all; not more often than it can need it."""
        link = self._neighbours.link(hop)
        if is_within(link.sent_again_at, now, self._limits.renew_every_us // 4):
            return []
        link.sent_again_at = now
        again = [update for book in self._types.values() for update in book.send_again(hop)]
        return [*again, self._neighbours.renewal(hop, now)]

    def adopt(
        self, hop: Hop, type_id: TypeId, entries: Collection[RouteEntry], offers: bool, now: Instant
    ) -> list[RouteUpdate]:
        """Use a replica of what a neighbour sent the former rendezvous, until it sends it itself.

        What it does not repeat ends with the first renewal that leaves it out, or with the lease.
        """
        self._neighbours.check_room(hop, len(entries) + offers)
        book = self._book(type_id)
        updates = book.change(hop, add=entries, remove=(), links=self._links, is_stale=True)
        if offers:
            updates += book.add_offer(hop, _ADVERTISEMENT, None, self._links, is_stale=True)
        self._neighbours.begin_lease(hop, now)
        return self._settled(type_id, updates)

    # ------------------------------------------------------------ time

    def renew_due(self, now: Instant) -> list[RouteUpdate]:
        """Renew all entries at neighbours where a renewal is due."""
        return self._neighbours.renew_due(now)

    def expire(self, now: Instant) -> list[RouteUpdate]:
        """Forget the entries of neighbours that have not renewed them within the lease."""
        updates: list[RouteUpdate] = []
        for hop in self._neighbours.expired(now):
            self._lapsed += [(hop, type_id) for type_id in self._types if self.offers(hop, type_id)]
            updates += self._forget_received(hop)
        return updates

    def take_lapsed(self) -> list[tuple[Hop, TypeId]]:
        """Return the offers that have expired since this was asked last."""
        lapsed, self._lapsed = self._lapsed, []
        return lapsed

    def renewal(self, hop: Hop, now: Instant) -> RouteUpdate:
        """Renew all entries at a neighbour before that is due."""
        return self._neighbours.renewal(hop, now)

    def forgive(self, until: Instant) -> None:
        """Forget nothing before `until`: this broker slept, and missed renewals."""
        self._neighbours.forgive(until)

    def next_due(self) -> Instant | None:
        """Return the earliest moment at which `renew_due` or `expire` has something to do."""
        return self._neighbours.next_due()

    # ------------------------------------------------------------ neighbours

    def neighbours(self) -> tuple[Hop, ...]:
        """Return the neighbours whose links are up."""
        return tuple(self._links)

    def link(self, hop: Hop) -> NeighbourLink:
        """Return the tallies of the link to a neighbour; not to be changed by the caller."""
        return self._neighbours.link(hop)

    # ------------------------------------------------------------ one type

    def _book(self, type_id: TypeId) -> TypeRoutes:
        book = self._types.get(type_id)
        if book is None:
            targets = Targets(
                self._new_matcher(),
                with_local=self._with_local_targets,
                may_miss_columns=is_of_sealed(type_id),
            )
            book = TypeRoutes(
                type_id,
                parent=self._parent_of(type_id),
                on_change=targets.keep_current,
                numbers=self._numbers,
            )
            self._types[type_id], self._targets[type_id] = book, targets
        return book

    def _settled(self, type_id: TypeId, updates: list[RouteUpdate]) -> list[RouteUpdate]:
        """Throw a type's book away once nothing is left in it."""
        if self._types[type_id].is_idle:
            del self._types[type_id], self._targets[type_id]
        return updates

    def _for_all_types(self, change: Callable[[TypeRoutes], list[RouteUpdate]]) -> list[RouteUpdate]:
        books = list(self._types.items())
        return [update for type_id, book in books for update in self._settled(type_id, change(book))]

    def _forget_received(self, hop: Hop) -> list[RouteUpdate]:
        return self._for_all_types(lambda book: book.forget_received(hop, self._links))

    def _trust(self, hop: Hop) -> None:
        link = self._links[hop]
        if link.has_stale:
            for book in self._types.values():
                book.trust(hop)
            link.fresh = replace(link.received)

    def _doubt(self, hop: Hop) -> None:
        for book in self._types.values():
            book.doubt(hop)
        self._links[hop].fresh.clear()
