"""Routing by rendezvous: brokers find each other, and interests and offers of a type meet at one of them.

This is the overlay of the dissertation (sections 2.3 and 4.4.3), for networks
of any size. Who the other brokers are is in `peers.py`, what they want and offer in
`received.py`, and from whom frames may come in `interests/expected_sources.py`.

What do the brokers that would follow this one as a rendezvous have to know?

The rendezvous of a type gives its book to its two closest neighbours, soon
after a change and again within each lease. They keep it until they are the
closest themselves; until then it routes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from maia.broker.interests.entries import entry_of
from maia.broker.interests.peers import OverlayPeers
from maia.broker.interests.router import Handler
from maia.broker.interests.routes import REPLICAS
from maia.broker.links.links import Link
from maia.broker.links.transit import Transit
from maia.broker.turn import Turn
from maia.events import AttributeUid, Instant
from maia.routing.overlay.membership import Contact
from maia.routing.overlay.table import NodeId, distance, node_id_text
from maia.routing.table.hops import LOCAL, Hop, TypeId, is_of_sealed, type_of_book_key
from maia.routing.table.replicas import Replica as BookReplica
from maia.routing.table.replicas import ReplicaUpdate
from maia.wire.effects import LinkId
from maia.wire.messages import (
    Announce,
    FindClosest,
    Interest,
    NodeRecord,
    Nodes,
    Offer,
    Renew,
    Replica,
    Resync,
)


class RendezvousRouter(OverlayPeers):
    """One broker's place in the overlay."""

    flooding = None

    @property
    def handlers(self) -> Mapping[type, Handler]:
        """Return what to do with the messages of the overlay, interests, offers and replicas."""
        return {
            FindClosest: self._send_closest,
            Nodes: self._receive_nodes,
            Announce: self._receive_announce,
            Interest: self.received.receive_interest,
            Offer: self.received.receive_offer,
            Renew: self.received.receive_renew,
            Resync: self.received.receive_resync,
            Replica: self._receive_replica,
        }

    # ------------------------------------------------------------ time and certificates

    def maintain(self, turn: Turn) -> None:
        """Renew, expire, replicate, dial."""
        now, routes = turn.now, self.routes
        routes.is_changed = True
        self.outbox.route_messages(routes.book.renew_due(now), turn)
        self.outbox.route_messages(routes.book.expire(now), turn)
        self.sources.not_asked_any_more(routes.book.take_lapsed(), now)
        self.received.refuse_stale(turn)
        routes.store.expire(now)
        self._perform(routes.membership.tick(now), turn)
        self.rekeying.rekey_pending(turn)
        # What would be due soon goes along, so that a broker wakes once for several things.
        soon = now + self.own.settings.lease_s * 1_000_000 // 12
        if routes.replicate_at is not None and routes.replicate_at <= soon:
            own = routes.membership.own.node
            linked = [node for node in routes.overlay.leaf_set if node in routes.neighbours]
            closest = sorted(linked, key=lambda node: (distance(node, own), node))[:REPLICAS]
            for update in routes.replicas.due(closest, now):
                self._give(update, turn)
            # A broker with nothing to give is not woken for it: whatever changes that marks it.
            again = Instant(now + self.own.settings.lease_s * 1_000_000 // 3)
            routes.replicate_at = None if routes.replicas.is_idle else again

    def _receive_replica(self, link: Link, message: Replica, turn: Turn) -> None:
        """Keep what a rendezvous gives to the brokers that would follow it, and where its holder listens."""
        routes, holder = self.routes, Contact.of(message.holder.key, message.holder.address)
        routes.contacts.put(holder.node, holder)
        entries = tuple(entry_of(message.key, wanted) for wanted in message.wanted)
        # It ends with a lease from now, and upkeep runs before that anyway.
        replica = BookReplica(message.key, holder.node, entries, message.offers)
        routes.store.heard(routes.node_of[link.id], replica, turn.now)

    def _give(self, update: ReplicaUpdate, turn: Turn) -> None:
        routes, replica = self.routes, update.replica
        link, node = routes.link_to(update.hop), replica.holder
        holder = routes.membership.contact(NodeId(node)) if isinstance(node, int) else None
        if link is not None and holder is not None:
            wanted = [self.outbox.wanted_of(replica.type_id, entry) for entry in replica.entries]
            record = NodeRecord(holder.key, holder.address)
            turn.send(link, Replica(replica.type_id, record, wanted, replica.offers))

    def next_due(self, now: Instant) -> Instant | None:
        """Return when something of that is due."""
        return self.routes.next_look(now)

    def forgive(self, until: Instant) -> None:
        """End no lease before `until`."""
        self.routes.book.forgive(until)
        if self.routes.stale_at is not None:
            self.routes.stale_at = max(self.routes.stale_at, until)
        self.routes.store.forgive(until)

    def recheck(self, certificates: Collection[bytes], turn: Turn) -> None:
        """Do nothing more: entries are doubted link by link (`sessions/revocation.py`)."""

    def doubt(self, link: Link, certificates: Collection[bytes], turn: Turn) -> None:
        """Doubt entries of the neighbour that depend on one of these certificates."""
        self.received.doubt_entries(link, certificates, turn)

    def targets(
        self,
        key: TypeId,
        transit: Transit,
        *,
        source: LinkId | None,
        missing: Collection[AttributeUid] = (),
        signer: bytes = b"",
    ) -> dict[LinkId, Sequence[int]]:
        """Return the rows that are wanted behind each neighbour: towards the rendezvous, and away from it."""
        del signer
        routes = self.routes
        came_from = LOCAL if source is None else routes.node_of.get(source, LOCAL)
        view, borders = transit.view, routes.borders
        if view is not None:
            wanted = routes.book.targets_in_class(key, view, came_from, transit.matched)
        else:
            wanted = routes.book.targets_of_frame(key, came_from, transit.matched, missing)
        if not wanted:
            return {}
        found = {link: rows for node, rows in wanted.items() if (link := routes.link_to(node)) is not None}
        if borders and view is None and not is_of_sealed(key):
            return {link: rows for link, rows in found.items() if link not in borders}
        return found

    def released(
        self, key: TypeId, transit: Transit, *, source: LinkId | None, signer: bytes = b""
    ) -> dict[bytes, dict[LinkId, Sequence[int]]]:
        """Return the rows that are released to each neighbour behind a border, by class."""
        del signer
        routes = self.routes
        came_from = LOCAL if source is None else routes.node_of.get(source, LOCAL)
        found: dict[bytes, dict[LinkId, Sequence[int]]] = {}
        for (node, view), rows in routes.book.targets_by_class(key, came_from, transit.matched).items():
            link = routes.link_to(node)
            if link is not None and link in routes.borders:
                found.setdefault(view, {})[link] = rows
        return found

    def sync_targets(self, keys: Sequence[TypeId], *, is_offer: bool) -> Iterable[LinkId]:
        """Return the links towards the rendezvous; for an interest those to neighbours that offer, too."""
        if not is_offer:
            return self.towards_publishers(keys)
        routes = self.routes
        parents = {routes.book.parent(key) for key in keys}
        return [link for hop in parents if hop is not None and (link := routes.link_to(hop)) is not None]

    def expects(self, link: Link, key: TypeId, now: Instant, view: bytes | None = None) -> bool:
        """Return whether a neighbour leads to the rendezvous or offers the type."""
        return self.sources.is_expected_source(link, key, now, view)

    def let_ask(self, keys: Iterable[TypeId], link: LinkId, step: int, turn: Turn) -> None:
        """Send interests to a neighbour for the time of a question: it answers as far as these admit."""
        node = self.routes.node_of.get(link)
        for key in keys if node is not None else ():
            self.outbox.route_messages(self.routes.book.ask(node, key, step), turn)

    def towards_publishers(self, keys: Iterable[TypeId]) -> Iterator[LinkId]:
        """Yield the links towards the rendezvous and to neighbours that offer the type."""
        routes = self.routes
        hops: dict[Hop, None] = {}
        for key in keys:
            parent = routes.book.parent(key)
            offering = [hop for hop in routes.book.hops(key) if routes.book.offers(hop, key)]
            hops |= dict.fromkeys(offering if parent is None else [*offering, parent])
        return (link for hop in hops if (link := routes.link_to(hop)) is not None)

    def answer_rows(
        self, link: LinkId, key: TypeId, transit: Transit, *, came_from: Hop
    ) -> Mapping[bytes | None, Sequence[int]]:
        """Return the rows that are wanted behind the neighbour."""
        book, node, frame = self.routes.book, self.routes.node_of[link], transit.matched
        if transit.view is not None:
            return {None: book.targets_in_class(key, transit.view, came_from, frame).get(node, ())}
        if link not in self.routes.borders or is_of_sealed(key):
            return {None: book.targets_of_frame(key, came_from, frame).get(node, ())}
        wanted = book.targets_by_class(key, came_from, frame).items()
        return {view: rows for (hop, view), rows in wanted if hop == node}

    def wants(self, link: LinkId, key: TypeId) -> bool:
        """Return whether anything of a type is wanted behind the neighbour."""
        routes = self.routes
        return bool(routes.book.wanted(routes.node_of[link], key))

    def status(self) -> dict[str, object]:
        """Return the place in the overlay, and how much is wanted and offered behind which neighbour."""
        routes = self.routes
        overlay = routes.overlay
        return {
            "overlay": {
                "node": node_id_text(overlay.own),
                "is_joined": routes.membership.is_joined,
                "known": len(overlay),
                "leaves": [node_id_text(node) for node in sorted(overlay.leaf_set)],
                "table": len(overlay.table),
            },
            "rendezvous": {
                type_of_book_key(type_id).hex() + ("/sealed" if is_of_sealed(type_id) else ""): {
                    "is_here": routes.book.parent(type_id) is None,
                    "parent": _hop_text(routes.book.parent(type_id)),
                    "hops": {
                        _hop_text(hop): {
                            "wanted": len(routes.book.entries(hop, type_id)),
                            "offers": routes.book.offers(hop, type_id),
                        }
                        for hop in routes.book.hops(type_id)
                    },
                }
                for type_id in routes.book.types()
            },
            "replicas": len(routes.store),
        }


def _hop_text(hop: object) -> str | None:
    match hop:
        case None:
            return None
        case int():
            return node_id_text(NodeId(hop))
        case _:
            return "local"
