"""What do the brokers that would follow this one as a rendezvous have to know?

The rendezvous of a type gives its book to its two closest neighbours, soon
after a change and again within each lease. They keep it until they are the
closest themselves; until then it routes nothing.
"""

from __future__ import annotations

from typing import Final

from maia.broker.peers import performed
from maia.broker.routes import Routes
from maia.broker.routing_glue import proof_of, told
from maia.broker.sessions import Link
from maia.broker.state import BrokerState
from maia.broker.tells import entry_of, wanted_of
from maia.events import Instant
from maia.routing.ids import NodeId, distance
from maia.routing.overlay_join import Contact
from maia.routing.replicas import Replica as BookReplica
from maia.routing.replicas import TellReplica
from maia.wire.codec import encode
from maia.wire.effects import Effect, Send
from maia.wire.messages import NodeRecord, Replica

__all__ = ["hear_replica", "look_at_routing"]

_REPLICAS: Final = 2
_CONTACTS_MAX: Final = 4096


def look_at_routing(state: BrokerState, now: Instant) -> list[Effect]:
    """Do what routing has to do by itself: renew, expire, replicate, look for brokers."""
    routes = state.routes
    routes.is_stirred = True
    effects = told(state, routes.book.renew_due(now))
    effects += told(state, routes.book.expire(now))
    routes.store.expire(now)
    effects += performed(state, routes.membership.tick(now), now)
    if routes.replicate_at is not None and routes.replicate_at <= now:
        effects += _replicated(state, now)
    return effects


def hear_replica(state: BrokerState, link: Link, message: Replica, now: Instant) -> list[Effect]:
    """Keep what a rendezvous gives to the brokers that would follow it."""
    routes = state.routes
    holder = Contact.of(message.holder.key, message.holder.address)
    routes.contacts[holder.node] = holder
    routes.contacts.move_to_end(holder.node)
    if len(routes.contacts) > _CONTACTS_MAX:
        routes.contacts.popitem(last=False)
    entries = tuple(entry_of(wanted) for wanted in message.wanted)
    replica = BookReplica(message.type_id, holder.node, entries, message.offers)
    routes.store.heard(routes.node_of[link.id], replica, now)
    routes.is_stirred = True
    return []


def _replicated(state: BrokerState, now: Instant) -> list[Effect]:
    routes = state.routes
    routes.replicate_at = Instant(now + state.settings.lease_s * 1_000_000 // 3)
    effects: list[Effect] = []
    for tell in routes.replicas.due(_closest_neighbours(routes), now):
        effects += _given(state, tell)
    return effects


def _closest_neighbours(routes: Routes) -> list[NodeId]:
    own = routes.membership.own.node
    linked = [node for node in routes.overlay.leaf_set if node in routes.neighbours]
    return sorted(linked, key=lambda node: (distance(node, own), node))[:_REPLICAS]


def _given(state: BrokerState, tell: TellReplica) -> list[Effect]:
    routes, replica = state.routes, tell.replica
    link, holder = routes.link_to(tell.hop), _contact_of(routes, replica.holder)
    if link is None or holder is None:
        return []
    wanted = [wanted_of(entry, lambda baggage: proof_of(state, baggage)) for entry in replica.entries]
    record = NodeRecord(holder.key, holder.address)
    return [Send(link, encode(Replica(replica.type_id, record, wanted, replica.offers)))]


def _contact_of(routes: Routes, holder: object) -> Contact | None:
    return routes.membership.contact(NodeId(holder)) if isinstance(holder, int) else None
