"""Who are the other brokers, and which link leads to which of them?

The overlay says whom to look for; this file dials, answers and tells on its
behalf. Between two brokers one link counts. When both dial at once, both keep
the one that the smaller key dialled; a peer that started anew replaces its
old link.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from maia.broker.access.impairment import neighbour_found, seed_silent
from maia.broker.publication.expected_sources import not_asked_any_more
from maia.broker.routing.outbox import route_messages
from maia.broker.routing.routes import Neighbour
from maia.broker.routing.takeover import adopt
from maia.broker.sealed.broker_rights import show_rights
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.events import Instant
from maia.routing.overlay.ids import (
    NodeId,
    is_closer,
    node_id_from_bytes,
    node_id_of_key,
    node_id_of_type,
    node_id_to_bytes,
)
from maia.routing.overlay.membership import Ask, Connect, Contact, Dropped, Spread, Step
from maia.routing.table.replicas import Replica
from maia.wire.codec import encode
from maia.wire.effects import Dial, Effect, Note, Send
from maia.wire.messages import Announce, FindClosest, Message, NodeRecord, Nodes

__all__ = [
    "broker_gone",
    "broker_known",
    "broker_ready",
    "dial_failed",
    "hear_announce",
    "hear_nodes",
    "leave",
    "performed",
    "start",
    "superseded",
    "tell_closest",
]


# ------------------------------------------------------------ links


def superseded(state: BrokerState, link: Link) -> Link | None:
    """Return which of two links to the same broker has to go, now that a second one is ready."""
    node = node_id_of_key(link.peer.key)
    known = state.routes.neighbours.get(node)
    if known is None:
        return None
    before = state.links[known.link]
    if before.instance != link.instance:
        return before
    return before if _dialler(state, link) < _dialler(state, before) else link


def broker_known(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """A broker that is a neighbour already has answered at an address that we dialled."""
    contact = Contact.of(link.peer.key, link.address or "")
    return performed(state, state.routes.membership.confirmed(contact, now, dialled=link.dialled), now)


def broker_ready(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """A broker has proved its right to connect: it is a neighbour from now on."""
    contact = Contact.of(link.peer.key, link.address or "")
    routes = state.routes
    effects: list[Effect] = []
    if contact.node in routes.neighbours:
        effects += _forget(state, routes.neighbours[contact.node])
    routes.neighbours[contact.node] = Neighbour(contact.node, link.id)
    routes.node_of[link.id] = contact.node
    neighbour_found(state)
    effects += performed(state, routes.membership.confirmed(contact, now, dialled=link.dialled), now)
    effects += route_messages(state, routes.book.hop_up(contact.node, now))
    effects += show_rights(state, [link.id], state.sealed.in_use)
    return [*effects, *_parents_changed(state, now), *_adopted(state, contact.node, now)]


def broker_gone(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """A link to a broker is gone, and everything that it told with it."""
    routes = state.routes
    node = routes.node_of.get(link.id)
    if node is None:
        return []
    effects = _forget(state, routes.neighbours[node])
    effects += performed(state, routes.membership.lost(node, now), now)
    return [*effects, *_parents_changed(state, now), *_taken_over(state, node, now)]


def _forget(state: BrokerState, neighbour: Neighbour) -> list[Effect]:
    del state.routes.neighbours[neighbour.node], state.routes.node_of[neighbour.link]
    return route_messages(state, state.routes.book.hop_gone(neighbour.node))


def _dialler(state: BrokerState, link: Link) -> bytes:
    return link.peer.key if link.dialled is None else state.principal.key


# ------------------------------------------------------------ the overlay's steps


def start(state: BrokerState, now: Instant) -> list[Effect]:
    """Look for the others."""
    state.routes.is_stirred = True
    return performed(state, state.routes.membership.start(now), now)


def leave(state: BrokerState, now: Instant) -> list[Effect]:
    """Tell the neighbours that this broker goes."""
    return performed(state, state.routes.membership.leave(), now)


def dial_failed(state: BrokerState, address: str, now: Instant) -> list[Effect]:
    """Nobody answered at an address, or nobody who may."""
    seed_silent(state, address)
    return performed(state, state.routes.membership.dial_failed(address, now), now)


def performed(state: BrokerState, steps: Iterable[Step], now: Instant) -> list[Effect]:
    """Return what the overlay wants done; without a node that it dropped, types may lead elsewhere."""
    state.routes.is_stirred = True
    effects: list[Effect] = []
    is_changed = False
    for step in steps:
        match step:
            case Connect(address):
                effects.append(Dial(address))
            case Ask(node, target, number):
                effects += _sent(state, node, FindClosest(number, node_id_to_bytes(target)))
            case Spread(to, about, alive):
                effects += _sent(state, to, Announce(NodeRecord(about.key, about.address), alive))
            case Dropped():
                is_changed = True  # the link stays: the other side may count on it
            case _:
                assert_never(step)
    return [*effects, *_parents_changed(state, now)] if is_changed else effects


def tell_closest(state: BrokerState, link: Link, message: FindClosest, _now: Instant) -> list[Effect]:
    """Answer a broker that asks who stands near a point of the ring."""
    near = state.routes.membership.answer(node_id_from_bytes(message.target))
    records = [NodeRecord(contact.key, contact.address) for contact in near]
    return [Send(link.id, encode(Nodes(message.id, records)))]


def hear_nodes(state: BrokerState, link: Link, message: Nodes, now: Instant) -> list[Effect]:
    """Look into an answer to our own question."""
    contacts = [Contact.of(record.key, record.address) for record in message.nodes]
    node, membership = state.routes.node_of[link.id], state.routes.membership
    steps = membership.reply(node, message.id, contacts, now)
    if not steps and not membership.candidates_waiting:
        return []  # nothing new, so there is nothing to be looked at earlier than before
    return performed(state, steps, now)


def hear_announce(state: BrokerState, link: Link, message: Announce, now: Instant) -> list[Effect]:
    """Look into news of a broker; a peer is believed about itself alone."""
    about = Contact.of(message.node.key, message.node.address)
    node = state.routes.node_of[link.id]
    steps = state.routes.membership.heard(node, about, message.alive, now)
    return performed(state, steps, now)


def _sent(state: BrokerState, node: NodeId, message: Message) -> list[Effect]:
    link = state.routes.link_to(node)
    return [] if link is None else [Send(link, encode(message))]


# ------------------------------------------------------------ rendezvous


def _parents_changed(state: BrokerState, now: Instant) -> list[Effect]:
    """Let every type find its way again."""
    routes = state.routes
    routes.stir(now)
    tells = routes.book.parents_changed()
    not_asked_any_more(state, routes.book.take_moved(), now)
    return route_messages(state, tells)


def _taken_over(state: BrokerState, gone: NodeId, now: Instant) -> list[Effect]:
    """Use what a rendezvous that is gone had given to this broker, where this broker now follows it."""
    routes = state.routes
    replicas = routes.store.promoted(gone, lambda type_id: _follows(state, gone, node_id_of_type(type_id)))
    return [effect for replica in replicas for effect in _promoted(state, replica, now)]


def _follows(state: BrokerState, gone: NodeId, rendezvous: NodeId) -> bool:
    """Say whether this broker leads now where another may have led; who was further away never did (A67)."""
    own = state.routes.membership.own.node
    return state.routes.overlay.next_hop(rendezvous) is None and is_closer(gone, than=own, target=rendezvous)


def _promoted(state: BrokerState, replica: Replica, now: Instant) -> list[Effect]:
    """Use a replica as soon as there is a link to its holder; dial it if there is none."""
    routes = state.routes
    holder = replica.holder
    contact = routes.contacts.get(holder) if isinstance(holder, int) else None  # type: ignore[arg-type]  # NodeId is an int
    if contact is None or contact.node == routes.membership.own.node:
        return []
    routes.wait_for(contact.node, replica, bytes_max=state.settings.limits.bytes_per_peer)
    if contact.node in routes.neighbours:
        return _adopted(state, contact.node, now)
    return [Note("rendezvous-taken-over", {"type": replica.type_id.hex()}), Dial(contact.address)]


def _adopted(state: BrokerState, node: NodeId, now: Instant) -> list[Effect]:
    return adopt(state, node, state.routes.take_waiting(node), now)
