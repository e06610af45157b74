"""The routing table: who wants what, who offers what, and what must be said to whom because of it?

The broker hands in what its clients and neighbours say, and sends the tells
that come back. Per type, the next hops towards the rendezvous node form a
tree (dissertation, section 2.3.1), and the table keeps this broker's place in
it. Nothing is sent twice, nothing is sent that a wider filter makes needless,
and a hop can change only what it said itself.

The table asks that the parent of a type is nearer to the rendezvous node than
this broker in one order that all brokers share, that links keep the order of
what is sent, and that `hop_up` and `hop_gone` frame everything said on a link.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from maia.errors import BadInput, ProtocolViolation
from maia.events import AttributeUid, Frame, Instant
from maia.predicates import Predicate
from maia.routing.table.hops import LOCAL, Hop, ResyncRequest, RouteEntry, RouteUpdate, TypeId, is_of_sealed
from maia.routing.table.neighbours import BookLimits, Leases, Links, NeighbourLink, is_within
from maia.routing.table.type_routes import Targets, TypeRoutes

__all__ = [
    "BookLimits",
    "RoutingTable",
]

_ADVERTISEMENT: Final = "offer"
"""A neighbour has one offer per type, under this key unless it is sent anew under another."""


class RoutingTable:
    """What this broker knows of interests and offers, and what it has sent of them."""

    def __init__(
        self,
        *,
        parent_of: Callable[[TypeId], Hop | None] = lambda type_id: None,
        limits: BookLimits = BookLimits(),  # noqa: B008 - frozen, so one value serves all
    ) -> None:
        """Begin empty. `parent_of` names the next hop towards a type's rendezvous; None at the rendezvous."""
        self._parent_of = parent_of
        self._limits = limits
        self._links = Links()
        self._leases: Leases[Hop] = Leases()
        self._numbers: Final = count(1)
        self._types: dict[TypeId, TypeRoutes] = {}
        self._nothing = self._new_routes(b"", None)
        """In place of the routes of a type of which nothing is known."""
        self._moved: list[tuple[Hop, TypeId]] = []
        self._lapsed: list[tuple[Hop, TypeId]] = []

    # ------------------------------------------------------------ publications

    def targets_of_frame(
        self, type_id: TypeId, from_hop: Hop, frame: Frame, missing: Collection[AttributeUid] = ()
    ) -> dict[Hop, Sequence[int]]:
        """Return the rows of a frame that each neighbour wants, in order; those that want none are left out.

        `missing` are attributes of a sealed frame that this broker cannot open.
        """
        routes = self._types.get(type_id)
        return {} if routes is None else routes.targets.of_frame(frame, from_hop=from_hop, missing=missing)

    def targets_in_class(
        self, type_id: TypeId, view: bytes, from_hop: Hop, frame: Frame
    ) -> dict[Hop, Sequence[int]]:
        """Return the rows that each neighbour wants of a frame that is what a class of Views shows."""
        routes = self._types.get(type_id)
        return {} if routes is None else routes.targets_in_class(view).of_frame(frame, from_hop=from_hop)

    def targets_by_class(
        self, type_id: TypeId, from_hop: Hop, frame: Frame
    ) -> dict[tuple[Hop, bytes], Sequence[int]]:
        """Return the rows of a frame that each class of Views behind each neighbour wants."""
        routes = self._types.get(type_id)
        return {} if routes is None else routes.targets.by_class(frame, from_hop=from_hop)

    def in_class(self, type_id: TypeId, view: bytes) -> Iterator[tuple[Hop, object]]:
        """Yield who wants something of what a class sees, and what travels with it."""
        return self._routes(type_id).in_class(view)

    def knows(self, type_id: TypeId) -> bool:
        """Return whether an interest or an offer of a type is registered, from any hop."""
        return type_id in self._types

    def may_come_from(self, hop: Hop, type_id: TypeId) -> bool:
        """Whether publications of a type are expected from a hop: it leads to the rendezvous, or offers.

        Interests are sent to no other. An offer without an advertisement came from a replica alone.
        """
        return self.parent(type_id) == hop or self.offer(hop, type_id) is not None

    def asked_about(self, type_id: TypeId) -> frozenset[AttributeUid]:
        """Return the attributes of a sealed type about which a neighbour's filter asks."""
        return self._routes(type_id).targets.asked_about()

    # ------------------------------------------------------------ for replicas, status pages and tests

    def types(self) -> tuple[TypeId, ...]:
        """Return the types of which anything is wanted or offered."""
        return tuple(self._types)

    def parent(self, type_id: TypeId) -> Hop | None:
        """Return the next hop towards a type's rendezvous; None at the rendezvous, or for an unknown type."""
        return self._routes(type_id).parent

    def hops(self, type_id: TypeId) -> tuple[Hop, ...]:
        """Return the hops that want or offer something of a type, in an order that every process repeats."""
        return self._routes(type_id).hops()

    def entry(self, hop: Hop, type_id: TypeId, entry_id: bytes) -> RouteEntry | None:
        """Return one entry as a hop sent it, if it is there."""
        held = self._routes(type_id).held(hop).get(entry_id)
        return None if held is None else held.entry

    def source_of(self, type_id: TypeId, sent_as: bytes) -> tuple[Hop, RouteEntry] | None:
        """Return the entry that is forwarded under an id, as its hop sent it, and that hop."""
        return self._routes(type_id).source_of(sent_as)

    def entries(self, hop: Hop, type_id: TypeId) -> tuple[RouteEntry, ...]:
        """Return all that a hop wants of a type."""
        return tuple(held.entry for held in self._routes(type_id).held(hop).values())

    def wanted(self, hop: Hop, type_id: TypeId) -> tuple[RouteEntry, ...]:
        """Return what a hop wants of a type, without what another filter of the same hop covers."""
        return self._routes(type_id).shown(hop)

    def offers(self, hop: Hop, type_id: TypeId) -> bool:
        """Return whether a hop offers a type."""
        return hop in self._routes(type_id).offers

    def offer(self, hop: Hop, type_id: TypeId) -> object:
        """Return what travels with the offer of a hop; None if it offers nothing of a type."""
        return self._routes(type_id).offer(hop)

    def version(self, hop: Hop, type_id: TypeId) -> int:
        """Return a number that changes whenever a hop may want or offer something else of a type."""
        return self._routes(type_id).versions.get(hop, 0)

    def sent_to(self, hop: Hop, type_id: TypeId) -> tuple[tuple[RouteEntry, ...], bool]:
        """Return what a neighbour was sent of a type: the entries, and whether an offer is among it."""
        return self._routes(type_id).sent_to(hop)

    def awaits_offer(self, hop: Hop, type_id: TypeId) -> bool:
        """Return whether a neighbour says what it wants of a type only when it is offered some.

        It leads to the rendezvous, and nothing was offered to it.
        """
        return self._parent_of(type_id) == hop and not self.sent_to(hop, type_id)[1]

    def neighbours(self) -> tuple[Hop, ...]:
        """Return the neighbours whose links are up."""
        return tuple(self._links)

    def link(self, hop: Hop) -> NeighbourLink:
        """Return the tallies of the link to a neighbour, which is up; not to be changed by the caller."""
        if hop not in self._links:
            raise BadInput("INPUT-UNKNOWN-HOP", "a message came from a neighbour whose link is not up")
        return self._links[hop]

    # ------------------------------------------------------------ this broker's clients

    def local_change(
        self, type_id: TypeId, add: Collection[RouteEntry], remove: Collection[bytes]
    ) -> list[RouteUpdate]:
        """Add or replace clients' interests and remove others at one moment: no neighbour is without either.

        One that differs in its baggage alone is not sent; one that is removed need not be there.
        """
        here = [one for one in remove if self.entry(LOCAL, type_id, one) is not None]
        if not add and not here:
            return []
        return self._with(type_id, lambda routes: routes.change(LOCAL, add=add, remove=here))

    def local_entry(self, type_id: TypeId, entry: RouteEntry) -> list[RouteUpdate]:
        """Add a client's interest as an entry, sealed or not, or replace it."""
        return self.local_change(type_id, (entry,), ())

    def local_subscribe(
        self, type_id: TypeId, entry_id: bytes, predicate: Predicate, baggage: object = None
    ) -> list[RouteUpdate]:
        """Add a client's interest, or replace it."""
        return self.local_change(type_id, (RouteEntry(entry_id, predicate, baggage),), ())

    def local_unsubscribe(self, type_id: TypeId, *entry_ids: bytes) -> list[RouteUpdate]:
        """Remove clients' interests at one moment, those that are there."""
        return self.local_change(type_id, (), entry_ids)

    def local_advertise(
        self, type_id: TypeId, advertisement: Hashable = None, baggage: object = None
    ) -> list[RouteUpdate]:
        """Add a client's advertisement under its key, or refresh its baggage."""
        return self._with(type_id, lambda routes: routes.add_offer(LOCAL, advertisement, baggage))

    def local_unadvertise(self, type_id: TypeId, advertisement: Hashable = None) -> list[RouteUpdate]:
        """Remove a client's advertisement, if it is there."""
        return self._with(type_id, lambda routes: routes.remove_offer(LOCAL, advertisement))

    # ------------------------------------------------------------ the overlay

    def hop_up(self, hop: Hop, now: Instant) -> list[RouteUpdate]:
        """Register a neighbour whose link is up; send it what it ought to know."""
        if hop in self._links:
            return []
        self._links[hop] = NeighbourLink(renewed_at=now)
        return self._with_all(TypeRoutes.bring_up_to_date)

    def hop_gone(self, hop: Hop) -> list[RouteUpdate]:
        """Hear that the link to a neighbour is gone, and with it all that was said on it."""
        self._leases.drop(hop)
        if self._links.pop(hop, None) is None:
            return []
        for routes in self._types.values():
            routes.forget_sent(hop)
        return self._forget_received(hop)

    def set_parent(self, type_id: TypeId, parent: Hop | None) -> list[RouteUpdate]:
        """Change the next hop towards a type's rendezvous: tell the new one all, the old one nothing more."""
        routes = self._types.get(type_id)
        if routes is None or routes.parent == parent:
            return []
        if routes.parent is not None:
            self._moved.append((routes.parent, type_id))
        routes.parent = parent
        return routes.bring_up_to_date()

    def parents_changed(self) -> list[RouteUpdate]:
        """Ask `parent_of` again for every type."""
        types = list(self._types)
        return [update for one in types for update in self.set_parent(one, self._parent_of(one))]

    def take_moved(self) -> list[tuple[Hop, TypeId]]:
        """Return the former parents of the types whose parent has changed since this was asked last."""
        moved, self._moved = self._moved, []
        return moved

    # ------------------------------------------------------------ what neighbours say

    def receive_interest(
        self, hop: Hop, type_id: TypeId, add: Collection[RouteEntry], remove: Iterable[bytes], now: Instant
    ) -> list[RouteUpdate]:
        """Change what a neighbour wants; ids that it never sent are ignored when it removes them."""
        self._let_say(hop, len(add), now)
        return self._with(type_id, lambda routes: routes.change(hop, add=add, remove=remove))

    def understood_anew(
        self, hop: Hop, type_id: TypeId, entries: Collection[RouteEntry], remove: Iterable[bytes]
    ) -> list[RouteUpdate]:
        """Take entries that a neighbour sent, and has not withdrawn, as they are known now."""
        if type_id not in self._types or hop not in self._links:
            return []
        return self._with(type_id, lambda one: one.understand_anew(hop, entries=entries, remove=remove))

    def send_one_again(self, hop: Hop, type_id: TypeId, entry_id: bytes) -> list[RouteUpdate]:
        """Repeat one entry to the neighbours that were sent it, because it has another proof now."""
        return self._routes(type_id).send_one_again(hop, entry_id)

    def send_offer_again(self, type_id: TypeId, advertisement: Hashable) -> list[RouteUpdate]:
        """Repeat a client's offer to the neighbours that were sent it, because it has another proof now."""
        return self._routes(type_id).send_offer_again((LOCAL, advertisement))

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
        self._let_say(hop, 1 if stands else 0, now)
        if not stands:
            return self._with(type_id, lambda routes: routes.remove_offer(hop, None))
        return self._with(type_id, lambda one: one.add_offer(hop, advertisement, baggage, size=size))

    def ask(self, hop: Hop, type_id: TypeId, step: int) -> list[RouteUpdate]:
        """Let a neighbour have what is wanted of a type while a question (+1) waits for its answer (-1)."""
        if type_id not in self._types or hop not in self._links:
            return []
        return self._with(type_id, lambda routes: routes.ask(hop, step))

    def set_offer_aside(
        self, type_id: TypeId, advertisement: Hashable
    ) -> tuple[Hop | None, list[RouteUpdate]]:
        """Send another offer in place of a doubted one; return whose it was, the first time."""
        return self._routes(type_id).set_offer_aside(advertisement)

    def receive_renewal(self, hop: Hop, entries: int, digest: bytes, now: Instant) -> list[RouteUpdate]:
        """Accept a renewal; if a neighbour and we disagree on its entries, ask it to send all again."""
        link = self.link(hop)
        if link.received.agrees(entries=entries, digest=digest):
            if link.has_stale:
                self._set_stale(hop, False)
                link.fresh = replace(link.received)
            if entries:
                self._extend_lease(hop, now)
            return []
        if link.has_stale and link.fresh.agrees(entries=entries, digest=digest):
            self._extend_lease(hop, now)
            return self._with_all(lambda routes: routes.drop_stale(hop))
        if is_within(link.asked_again_at, now, self._limits.renew_every_us // 2):
            return []  # the answer is on its way
        link.asked_again_at = now
        self._set_stale(hop, True)
        link.fresh.clear()
        return [ResyncRequest(hop)]

    def receive_resync(self, hop: Hop, now: Instant) -> list[RouteUpdate]:
        """Tell a neighbour everything again, and that this is all.

        Not more often than some times in a lease: one that asks again before gets it when that time has come.
        It has reason to ask, and would ask no more (statements arrive one after the other, for instance).
        """
        link = self.link(hop)
        link.is_to_be_sent_again = is_within(link.sent_again_at, now, self._resent_every_us)
        if link.is_to_be_sent_again:
            return []
        link.sent_again_at = now
        again = [update for routes in self._types.values() for update in routes.send_again(hop)]
        return [*again, link.renewal(hop, now)]

    def adopt(
        self, hop: Hop, type_id: TypeId, entries: Collection[RouteEntry], offers: bool, now: Instant
    ) -> list[RouteUpdate]:
        """Use a replica of what a neighbour sent the former rendezvous, until it sends it itself.

        What it does not repeat ends with the first renewal that leaves it out, or with the lease.
        """
        self._let_say(hop, len(entries) + offers, now)

        def adopted(routes: TypeRoutes) -> list[RouteUpdate]:
            updates = routes.change(hop, add=entries, remove=(), is_stale=True)
            return updates + (routes.add_offer(hop, _ADVERTISEMENT, None, is_stale=True) if offers else [])

        return self._with(type_id, adopted)

    # ------------------------------------------------------------ time

    def renew_due(self, now: Instant) -> list[RouteUpdate]:
        """Renew all entries at neighbours where most of half a lease has passed since the last renewal.

        When one is due, those that would be soon go along, so that a broker
        wakes once for many neighbours and not once for each. A neighbour that
        knows that nothing is registered gets no more renewals; if it should believe
        something else later, that ends with the lease.
        """
        every = self._limits.renew_every_us
        asking = [hop for hop, link in self._links.items() if link.is_to_be_sent_again]
        again = [update for hop in asking for update in self.receive_resync(hop, now)]
        links = [(hop, link) for hop, link in self._links.items() if link.is_to_be_renewed]
        if all(is_within(link.renewed_at, now, every) for _, link in links):
            return again
        soon = [(hop, link) for hop, link in links if not is_within(link.renewed_at, now, every // 2)]
        return [*again, *(link.renewal(hop, now) for hop, link in soon)]

    def renewal(self, hop: Hop, now: Instant) -> RouteUpdate:
        """Renew all entries at a neighbour before that is due."""
        return self.link(hop).renewal(hop, now)

    def expire(self, now: Instant) -> list[RouteUpdate]:
        """Forget the entries of neighbours that have not renewed them within the lease."""
        updates: list[RouteUpdate] = []
        for hop in self._leases.expired(now):
            self._lapsed += [(hop, type_id) for type_id in self._types if self.offers(hop, type_id)]
            updates += self._forget_received(hop)
        return updates

    def take_lapsed(self) -> list[tuple[Hop, TypeId]]:
        """Return the offers that have expired since this was asked last."""
        lapsed, self._lapsed = self._lapsed, []
        return lapsed

    def forgive(self, until: Instant) -> None:
        """Forget nothing before `until`: this broker slept, and missed renewals."""
        self._leases.forgive(until)

    def next_due(self) -> Instant | None:
        """Return the earliest moment at which `renew_due` or `expire` has something to do."""
        moments = [
            link.renewed_at + self._limits.renew_every_us
            for link in self._links.values()
            if link.is_to_be_renewed
        ]
        moments += [
            link.sent_again_at + self._resent_every_us
            for link in self._links.values()
            if link.is_to_be_sent_again and link.sent_again_at is not None
        ]
        end = self._leases.next_end()
        moments += [] if end is None else [end + 1]
        return Instant(min(moments)) if moments else None

    @property
    def _resent_every_us(self) -> int:
        return self._limits.renew_every_us // 4

    def _let_say(self, hop: Hop, more: int, now: Instant) -> None:
        """Refuse what is more than one neighbour may say; what it says holds for a while from now on."""
        received, most = self.link(hop).received.count + more, self._limits.entries_per_neighbour
        if received > most:
            raise ProtocolViolation(
                "PROTOCOL-TOO-MUCH-TOLD",
                f"a neighbour sent {received} interests and offers, and may send {most}",
            )
        if hop not in self._leases:
            self._extend_lease(hop, now)

    def _extend_lease(self, hop: Hop, now: Instant) -> None:
        self._leases.grant(hop, Instant(now + self._limits.lease_us))

    def _forget_received(self, hop: Hop) -> list[RouteUpdate]:
        return self._with_all(lambda routes: routes.forget_received(hop))

    def _set_stale(self, hop: Hop, is_stale: bool) -> None:
        for routes in self._types.values():
            routes.set_stale(hop, is_stale)

    # ------------------------------------------------------------ one type, and all

    def _routes(self, type_id: TypeId) -> TypeRoutes:
        return self._types.get(type_id, self._nothing)

    def _new_routes(self, type_id: TypeId, parent: Hop | None) -> TypeRoutes:
        targets = Targets(may_miss_columns=is_of_sealed(type_id))
        return TypeRoutes(type_id, parent=parent, targets=targets, links=self._links, numbers=self._numbers)

    def _with(self, type_id: TypeId, change: Callable[[TypeRoutes], list[RouteUpdate]]) -> list[RouteUpdate]:
        """Change what is known of a type; once nothing is left of it, it is dropped."""
        routes = self._types.get(type_id)
        if routes is None:
            routes = self._types[type_id] = self._new_routes(type_id, self._parent_of(type_id))
        updates = change(routes)
        if routes.is_idle:
            del self._types[type_id]
        return updates

    def _with_all(self, change: Callable[[TypeRoutes], list[RouteUpdate]]) -> list[RouteUpdate]:
        return [update for type_id in list(self._types) for update in self._with(type_id, change)]
