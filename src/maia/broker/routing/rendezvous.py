"""Routing by rendezvous: brokers find each other, and interests and offers of a type meet at one of them.

This is the overlay of the dissertation (sections 2.3 and 4.4.3), for networks
of any size. The work is in `peers.py`, `interests.py`, `replication.py` and
`publication/expected_sources.py`.

What do the brokers that would follow this one as a rendezvous have to know?

The rendezvous of a type gives its book to its two closest neighbours, soon
after a change and again within each lease. They keep it until they are the
closest themselves; until then it routes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from maia.broker.publication.expected_sources import is_expected_source, not_asked_any_more
from maia.broker.publication.transit import Transit
from maia.broker.routing import peers
from maia.broker.routing.interests import (
    doubt_entries,
    receive_interest,
    receive_offer,
    receive_renew,
    receive_resync,
)
from maia.broker.routing.outbox import entry_of, proof_of, route_messages, sealed_wanted_of, wanted_of
from maia.broker.routing.peers import performed, receive_announce, receive_nodes, send_closest
from maia.broker.routing.router import Handler
from maia.broker.routing.routes import REPLICAS, Routes
from maia.broker.sealed.interests import receive_sealed_interest, receive_sealed_offer, understood_in_replica
from maia.broker.sealed.rekeying import rekey_pending
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.broker.turn import Turn
from maia.events import AttributeUid, Frame, Instant
from maia.routing.overlay.membership import Contact
from maia.routing.overlay.table import NodeId, distance, node_id_text
from maia.routing.table.hops import LOCAL, Hop, TypeId, book_key_of_sealed, is_of_sealed, type_of_book_key
from maia.routing.table.replicas import Replica as BookReplica
from maia.routing.table.replicas import ReplicaUpdate
from maia.wire.effects import LinkId
from maia.wire.messages import (
    Announce,
    Carried,
    FindClosest,
    Interest,
    NodeRecord,
    Nodes,
    Offer,
    Renew,
    Replica,
    Resync,
    Sealed,
    SealedInterest,
    SealedOffer,
    SealedReplica,
    SealedWithPlaintext,
)


def maintain_routing(state: BrokerState, turn: Turn) -> None:
    """Do what routing has to do by itself: renew, expire, replicate, dial brokers."""
    now, routes = turn.now, state.routes
    routes.is_changed = True
    route_messages(state, routes.book.renew_due(now), turn)
    route_messages(state, routes.book.expire(now), turn)
    not_asked_any_more(state, routes.book.take_lapsed(), now)
    routes.store.expire(now)
    performed(state, routes.membership.tick(now), turn)
    rekey_pending(state, turn)
    # What would be due soon goes along, so that a broker wakes once for several things.
    soon = now + state.settings.lease_s * 1_000_000 // 12
    if routes.replicate_at is not None and routes.replicate_at <= soon:
        own = routes.membership.own.node
        linked = [node for node in routes.overlay.leaf_set if node in routes.neighbours]
        closest = sorted(linked, key=lambda node: (distance(node, own), node))[:REPLICAS]
        for update in routes.replicas.due(closest, now):
            _given(state, update, turn)
        # A broker with nothing to give is not woken for it: whatever changes that marks it.
        again = Instant(now + state.settings.lease_s * 1_000_000 // 3)
        routes.replicate_at = None if routes.replicas.is_idle else again


def receive_replica(state: BrokerState, link: Link, message: Replica, turn: Turn) -> None:
    """Keep what a rendezvous gives to the brokers that would follow it."""
    holder = _holder(state.routes, message.holder)
    entries = tuple(entry_of(wanted) for wanted in message.wanted)
    _kept(state, link, BookReplica(message.type_id, holder, entries, message.offers), turn.now)


def receive_sealed_replica(state: BrokerState, link: Link, message: SealedReplica, turn: Turn) -> None:
    """Keep what a rendezvous gives of a sealed type, as far as it is understood here."""
    holder, type_id = _holder(state.routes, message.holder), message.type_id
    entries = tuple(understood_in_replica(state, type_id, wanted, turn.now) for wanted in message.wanted)
    _kept(state, link, BookReplica(book_key_of_sealed(type_id), holder, entries, message.offers), turn.now)


def _holder(routes: Routes, record: NodeRecord) -> NodeId:
    """Return the broker whose interests a replica tells, and remember where it listens."""
    holder = Contact.of(record.key, record.address)
    routes.contacts.put(holder.node, holder)
    return holder.node


def _kept(state: BrokerState, link: Link, replica: BookReplica, now: Instant) -> None:
    # It ends with a lease from now, and upkeep runs before that anyway.
    state.routes.store.heard(state.routes.node_of[link.id], replica, now)


def _given(state: BrokerState, update: ReplicaUpdate, turn: Turn) -> None:
    routes, replica = state.routes, update.replica
    link, node = routes.link_to(update.hop), replica.holder
    holder = routes.membership.contact(NodeId(node)) if isinstance(node, int) else None
    if link is None or holder is None:
        return
    record, key = NodeRecord(holder.key, holder.address), replica.type_id
    if is_of_sealed(key):
        sealed = [sealed_wanted_of(state, key, entry) for entry in replica.entries]
        turn.send(link, SealedReplica(type_of_book_key(key), record, sealed, replica.offers))
    else:
        wanted = [wanted_of(entry, lambda baggage: proof_of(state, baggage)) for entry in replica.entries]
        turn.send(link, Replica(key, record, wanted, replica.offers))


_HANDLERS: Final[Mapping[type, Handler]] = {
    FindClosest: send_closest,
    Nodes: receive_nodes,
    Announce: receive_announce,
    Interest: receive_interest,
    Offer: receive_offer,
    Renew: receive_renew,
    Resync: receive_resync,
    Replica: receive_replica,
    SealedInterest: receive_sealed_interest,
    SealedOffer: receive_sealed_offer,
    SealedReplica: receive_sealed_replica,
}


class RendezvousRouter:
    """One broker's place in the overlay."""

    __slots__ = ("_state",)

    def __init__(self, state: BrokerState) -> None:
        """Route for a broker."""
        self._state = state

    @property
    def handlers(self) -> Mapping[type, Handler]:
        """Return what to do with the messages of the overlay, interests, offers and replicas."""
        return _HANDLERS

    def start(self, turn: Turn) -> None:
        """Begin to dial other brokers."""
        peers.start(self._state, turn)

    def leave(self, turn: Turn) -> None:
        """Inform the neighbours that this broker leaves."""
        peers.leave(self._state, turn)

    def dial_failed(self, address: str, turn: Turn) -> None:
        """No broker that may connect answered at an address."""
        peers.dial_failed(self._state, address, turn)

    def neighbour_up(self, link: Link, turn: Turn) -> None:
        """Take a broker into the overlay."""
        peers.broker_ready(self._state, link, turn)

    def neighbour_known(self, link: Link, turn: Turn) -> None:
        """Note where a neighbour has answered."""
        peers.broker_known(self._state, link, turn)

    def neighbour_gone(self, link: Link, turn: Turn) -> None:
        """Take a broker out of the overlay."""
        peers.broker_gone(self._state, link, turn)

    def maintain(self, turn: Turn) -> None:
        """Renew, expire, replicate, dial."""
        maintain_routing(self._state, turn)

    def next_due(self, now: Instant) -> Instant | None:
        """Return when something of that is due."""
        return self._state.routes.next_look(now)

    def forgive(self, until: Instant) -> None:
        """End no lease before `until`."""
        self._state.routes.book.forgive(until)
        self._state.routes.store.forgive(until)

    def recheck(self, certificates: Collection[bytes], turn: Turn) -> None:
        """Do nothing more: entries are doubted link by link (`revocation/streams.py`)."""

    def doubt(self, link: Link, certificates: Collection[bytes], turn: Turn) -> None:
        """Doubt entries of the neighbour that depend on one of these certificates."""
        doubt_entries(self._state, link, certificates, turn)

    def arriving(self, link: Link, message: Carried | Sealed | SealedWithPlaintext) -> None:
        """Do nothing: a frame says by its type where it goes."""

    def targets(
        self,
        key: TypeId,
        transit: Transit,
        *,
        source: LinkId | None,
        missing: Collection[AttributeUid] = (),
        signer: bytes = b"",
    ) -> dict[LinkId, list[int]]:
        """Return the rows that are wanted behind each neighbour: towards the rendezvous, and away from it."""
        del signer
        routes = self._state.routes
        came_from = LOCAL if source is None else routes.node_of.get(source, LOCAL)
        wanted = routes.book.targets_of_frame(key, came_from, transit.matched, missing)
        if not wanted:
            return {}
        return {link: rows for node, rows in wanted.items() if (link := routes.link_to(node)) is not None}

    def sync_targets(self, keys: Sequence[TypeId], *, is_offer: bool) -> Iterable[LinkId]:
        """Return the links towards the rendezvous; for an interest those to neighbours that offer, too."""
        if not is_offer:
            return self.towards_publishers(keys)
        routes = self._state.routes
        parents = {routes.book.parent(key) for key in keys}
        return [link for hop in parents if hop is not None and (link := routes.link_to(hop)) is not None]

    def sync_number(self) -> int | None:
        """Return no number: interests were sent when they were registered, and links keep their order."""
        return 0

    def has_received(self, origin: bytes, number: int) -> bool:
        """Take for received what was sent before the question, on the same link."""
        del origin, number
        return True

    def before_frame(self, link: LinkId, turn: Turn) -> None:
        """Send nothing."""

    @property
    def asks_filters_alone(self) -> bool:
        """Say so: interests meet at the rendezvous, and whoever wants a frame is sent it."""
        return True

    def carries_again(self, publisher: bytes, stream: bytes, sequence: int, signer: bytes = b"") -> bool:
        """Carry no frame twice: each neighbour was sent all that is wanted behind it."""
        del publisher, stream, sequence, signer
        return False

    def expects(self, link: Link, key: TypeId, now: Instant) -> bool:
        """Say whether a neighbour leads to the rendezvous or offers the type."""
        return is_expected_source(self._state, link, key, now)

    def towards_publishers(self, keys: Iterable[TypeId]) -> Iterator[LinkId]:
        """Yield the links towards the rendezvous and to neighbours that offer the type."""
        routes = self._state.routes
        hops: dict[Hop, None] = {}
        for key in keys:
            parent = routes.book.parent(key)
            offering = [hop for hop in routes.book.hops(key) if routes.book.offers(hop, key)]
            hops |= dict.fromkeys(offering if parent is None else [*offering, parent])
        return (link for hop in hops if (link := routes.link_to(hop)) is not None)

    @property
    def question_wait_s(self) -> float:
        """Wait for nothing: interest and question go the same way, one after the other."""
        return 0.0

    def answer_rows(self, link: LinkId, key: TypeId, frame: Frame, *, came_from: Hop) -> Sequence[int]:
        """Return the rows that are wanted behind the neighbour."""
        routes = self._state.routes
        return routes.book.targets_of_frame(key, came_from, frame).get(routes.node_of[link], ())

    def wants(self, link: LinkId, key: TypeId) -> bool:
        """Say whether anything of a type is wanted behind the neighbour."""
        routes = self._state.routes
        return bool(routes.book.wanted(routes.node_of[link], key))

    def status(self) -> dict[str, object]:
        """Return the place in the overlay, and how much is wanted and offered behind which neighbour."""
        routes = self._state.routes
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
