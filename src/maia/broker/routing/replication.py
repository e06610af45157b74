"""What do the brokers that would follow this one as a rendezvous have to know?

The rendezvous of a type gives its book to its two closest neighbours, soon
after a change and again within each lease. They keep it until they are the
closest themselves; until then it routes nothing.
"""

from __future__ import annotations

from maia.broker.publication.expected_sources import not_asked_any_more
from maia.broker.routing.outbox import entry_of, proof_of, route_messages, sealed_wanted_of, wanted_of
from maia.broker.routing.peers import performed
from maia.broker.routing.routes import REPLICAS, Routes
from maia.broker.sealed.interests import understood_in_replica
from maia.broker.sealed.rekeying import rekey_pending
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.events import Instant
from maia.routing.overlay.membership import Contact
from maia.routing.overlay.table import NodeId, distance
from maia.routing.table.hops import book_key_of_sealed, is_of_sealed, type_of_book_key
from maia.routing.table.replicas import Replica as BookReplica
from maia.routing.table.replicas import TellReplica
from maia.wire.codec import encode
from maia.wire.effects import Effect, Send
from maia.wire.messages import NodeRecord, Replica, SealedReplica


def maintain_routing(state: BrokerState, now: Instant) -> list[Effect]:
    """Do what routing has to do by itself: renew, expire, replicate, dial brokers."""
    routes = state.routes
    routes.is_changed = True
    effects = route_messages(state, routes.book.renew_due(now))
    effects += route_messages(state, routes.book.expire(now))
    not_asked_any_more(state, routes.book.take_lapsed(), now)
    routes.store.expire(now)
    effects += performed(state, routes.membership.tick(now), now)
    effects += rekey_pending(state, now)
    # What would be due soon goes along, so that a broker wakes once for several things.
    soon = now + state.settings.lease_s * 1_000_000 // 12
    if routes.replicate_at is not None and routes.replicate_at <= soon:
        routes.replicate_at = Instant(now + state.settings.lease_s * 1_000_000 // 3)
        own = routes.membership.own.node
        linked = [node for node in routes.overlay.leaf_set if node in routes.neighbours]
        closest = sorted(linked, key=lambda node: (distance(node, own), node))[:REPLICAS]
        for tell in routes.replicas.due(closest, now):
            effects += _given(state, tell)
    return effects


def receive_replica(state: BrokerState, link: Link, message: Replica, now: Instant) -> list[Effect]:
    """Keep what a rendezvous gives to the brokers that would follow it."""
    holder = _holder(state.routes, message.holder)
    entries = tuple(entry_of(wanted) for wanted in message.wanted)
    return _kept(state, link, BookReplica(message.type_id, holder, entries, message.offers), now)


def receive_sealed_replica(
    state: BrokerState, link: Link, message: SealedReplica, now: Instant
) -> list[Effect]:
    """Keep what a rendezvous gives of a sealed type, as far as it is understood here."""
    holder, type_id = _holder(state.routes, message.holder), message.type_id
    entries = tuple(understood_in_replica(state, type_id, wanted, now) for wanted in message.wanted)
    replica = BookReplica(book_key_of_sealed(type_id), holder, entries, message.offers)
    return _kept(state, link, replica, now)


def _holder(routes: Routes, record: NodeRecord) -> NodeId:
    """Return the broker whose interests a replica tells, and remember where it listens."""
    holder = Contact.of(record.key, record.address)
    routes.contacts.put(holder.node, holder)
    return holder.node


def _kept(state: BrokerState, link: Link, replica: BookReplica, now: Instant) -> list[Effect]:
    # It ends with a lease from now, and upkeep runs before that anyway.
    state.routes.store.heard(state.routes.node_of[link.id], replica, now)
    return []


def _given(state: BrokerState, tell: TellReplica) -> list[Effect]:
    routes, replica = state.routes, tell.replica
    link, node = routes.link_to(tell.hop), replica.holder
    holder = routes.membership.contact(NodeId(node)) if isinstance(node, int) else None
    if link is None or holder is None:
        return []
    record, key = NodeRecord(holder.key, holder.address), replica.type_id
    if is_of_sealed(key):
        sealed = [sealed_wanted_of(state, key, entry) for entry in replica.entries]
        return [Send(link, encode(SealedReplica(type_of_book_key(key), record, sealed, replica.offers)))]
    wanted = [wanted_of(entry, lambda baggage: proof_of(state, baggage)) for entry in replica.entries]
    return [Send(link, encode(Replica(key, record, wanted, replica.offers)))]
