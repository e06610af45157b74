"""Who are the other brokers, and which link leads to which of them?

The overlay says whom to look for; this file dials, answers and announces on its
behalf. Between two brokers one link counts. When both dial at once, both keep
the one that the smaller key dialled; a peer that started anew replaces its
old link.

A broker that takes over as a rendezvous goes on by the replicas that it was given,
until the brokers in them have sent everything themselves. Every broker that may connect
may send replicas, so these count for no more than what they prove: an interest
without a proof asks for nothing (A67), and one with a proof ends with its
certificates (A35). An offer in a replica has no proof. It says whom to ask, and
frames from there are accepted for a lease and no longer, unless that broker proves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from maia.broker.publication.expected_sources import not_asked_any_more, offer_ended
from maia.broker.routing.outbox import NO_PROOF, Proof, route_messages
from maia.broker.routing.proofs import is_to_be_verified, proved_filter
from maia.broker.routing.routes import Neighbour
from maia.broker.sealed.rekeying import show_rights
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState, seconds_after
from maia.broker.turn import Turn
from maia.errors import MaiaError
from maia.events import Instant
from maia.routing.overlay.membership import Ask, Connect, Contact, Dropped, Spread, Step
from maia.routing.overlay.table import (
    NodeId,
    is_closer,
    node_id_from_bytes,
    node_id_of_key,
    node_id_of_type,
    node_id_to_bytes,
)
from maia.routing.table.hops import RouteEntry, is_of_sealed
from maia.routing.table.replicas import Replica
from maia.wire.effects import Dial, LinkId
from maia.wire.messages import Announce, FindClosest, Message, NodeRecord, Nodes

# ------------------------------------------------------------ links


def superseded(state: BrokerState, link: Link) -> Link | None:
    """Return which of two links to the same broker has to go, now that a second one is ready."""
    node = node_id_of_key(link.peer.key)
    known = state.routes.neighbours.get(node)
    before = None if known is None else state.links.get(known.link)
    if before is None or before.peer != link.peer:
        return None
    if before.instance != link.instance:
        return before
    return before if _dialler(state, link) < _dialler(state, before) else link


def broker_known(state: BrokerState, link: Link, turn: Turn) -> None:
    """A broker that is a neighbour already has answered at an address that we dialled."""
    contact = Contact.of(link.peer.key, link.address or "")
    performed(state, state.routes.membership.confirmed(contact, turn.now, dialled=link.dialled), turn)


def broker_ready(state: BrokerState, link: Link, turn: Turn) -> None:
    """A broker has proved its right to connect: it is a neighbour from now on."""
    contact = Contact.of(link.peer.key, link.address or "")
    routes = state.routes
    if contact.node in routes.neighbours:
        _forget(state, routes.neighbours[contact.node], turn)
    routes.neighbours[contact.node] = Neighbour(contact.node, link.id)
    routes.node_of[link.id] = contact.node
    state.impairments.neighbour_found()
    performed(state, routes.membership.confirmed(contact, turn.now, dialled=link.dialled), turn)
    route_messages(state, routes.book.hop_up(contact.node, turn.now), turn)
    show_rights(state, [link.id], state.sealed.in_use, turn)
    _parents_changed(state, turn)
    _adopted(state, contact.node, turn)


def broker_gone(state: BrokerState, link: Link, turn: Turn) -> None:
    """A link to a broker is gone, and everything that it sent with it."""
    routes = state.routes
    node = routes.node_of.get(link.id)
    if node is None:
        return
    _forget(state, routes.neighbours[node], turn)
    performed(state, routes.membership.lost(node, turn.now), turn)
    _parents_changed(state, turn)
    # What a rendezvous that is gone had given to this broker is used where this broker now follows it.
    own, overlay = routes.membership.own.node, routes.overlay

    def follows(type_id: bytes) -> bool:
        """Say whether this broker leads where another may have led; who was further away never did (A67)."""
        rendezvous = node_id_of_type(type_id)
        return overlay.next_hop(rendezvous) is None and is_closer(node, than=own, target=rendezvous)

    for replica in routes.store.promoted(node, follows):
        _promoted(state, replica, turn)


def _forget(state: BrokerState, neighbour: Neighbour, turn: Turn) -> None:
    del state.routes.neighbours[neighbour.node], state.routes.node_of[neighbour.link]
    route_messages(state, state.routes.book.hop_gone(neighbour.node), turn)


def _dialler(state: BrokerState, link: Link) -> bytes:
    return link.peer.key if link.dialled is None else state.principal.key


# ------------------------------------------------------------ the overlay's steps


def start(state: BrokerState, turn: Turn) -> None:
    """Begin to dial other brokers."""
    state.routes.is_changed = True
    performed(state, state.routes.membership.start(turn.now), turn)


def join(state: BrokerState, seeds: tuple[str, ...], turn: Turn) -> None:
    """Join the network through these brokers from now on."""
    if seeds == state.settings.seeds:
        return
    state.settings = replace(state.settings, seeds=seeds)
    performed(state, state.routes.membership.seek(seeds, turn.now), turn)


def leave(state: BrokerState, turn: Turn) -> None:
    """Send the neighbours that this broker leaves."""
    performed(state, state.routes.membership.leave(), turn)


def dial_failed(state: BrokerState, address: str, turn: Turn) -> None:
    """No broker that may connect answered at an address."""
    state.impairments.seed_silent(address)
    performed(state, state.routes.membership.dial_failed(address, turn.now), turn)


def performed(state: BrokerState, steps: Iterable[Step], turn: Turn) -> None:
    """Do what the overlay wants done; without a node that it dropped, types may lead elsewhere."""
    state.routes.is_changed = True
    is_changed = False
    for step in steps:
        match step:
            case Connect(address):
                turn.add(Dial(address))
            case Ask(node, target, number):
                _sent(state, node, FindClosest(number, node_id_to_bytes(target)), turn)
            case Spread(to, about, alive):
                _sent(state, to, Announce(NodeRecord(about.key, about.address), alive), turn)
            case Dropped():
                is_changed = True  # the link stays: the other side may count on it
            case _:
                assert_never(step)
    if is_changed:
        _parents_changed(state, turn)


def send_closest(state: BrokerState, link: Link, message: FindClosest, turn: Turn) -> None:
    """Answer a broker that asks which brokers are near a point of the ring."""
    near = state.routes.membership.answer(node_id_from_bytes(message.target))
    turn.send(link.id, Nodes(message.id, [NodeRecord(contact.key, contact.address) for contact in near]))


def receive_nodes(state: BrokerState, link: Link, message: Nodes, turn: Turn) -> None:
    """Look into an answer to our own question."""
    contacts = [Contact.of(record.key, record.address) for record in message.nodes]
    node, membership = state.routes.node_of[link.id], state.routes.membership
    steps = membership.reply(node, message.id, contacts, turn.now)
    if steps or membership.candidates_waiting:  # else nothing new, so nothing is due earlier than before
        performed(state, steps, turn)


def receive_announce(state: BrokerState, link: Link, message: Announce, turn: Turn) -> None:
    """Look into news of a broker; a peer is believed about itself alone."""
    about = Contact.of(message.node.key, message.node.address)
    node = state.routes.node_of[link.id]
    performed(state, state.routes.membership.heard(node, about, message.alive, turn.now), turn)


def _sent(state: BrokerState, node: NodeId, message: Message, turn: Turn) -> None:
    link = state.routes.link_to(node)
    if link is not None:
        turn.send(link, message)


# ------------------------------------------------------------ rendezvous


def _parents_changed(state: BrokerState, turn: Turn) -> None:
    """Let every type find its way again."""
    routes = state.routes
    routes.mark_changed(turn.now)
    updates = routes.book.parents_changed()
    not_asked_any_more(state, routes.book.take_moved(), turn.now)
    route_messages(state, updates, turn)


def _promoted(state: BrokerState, replica: Replica, turn: Turn) -> None:
    """Use a replica as soon as there is a link to its holder; dial it if there is none."""
    routes = state.routes
    holder = replica.holder
    contact = routes.contacts.get(holder) if isinstance(holder, int) else None  # type: ignore[arg-type]  # NodeId is an int
    if contact is None or contact.node == routes.membership.own.node:
        return
    routes.wait_for(contact.node, replica, bytes_max=state.settings.limits.bytes_per_peer)
    if contact.node in routes.neighbours:
        _adopted(state, contact.node, turn)
    else:
        turn.note("rendezvous-taken-over", type=replica.type_id.hex())
        turn.add(Dial(contact.address))


def _adopted(state: BrokerState, node: NodeId, turn: Turn) -> None:
    adopt(state, node, state.routes.take_waiting(node), turn)


def adopt(state: BrokerState, node: NodeId, replicas: Iterable[Replica], turn: Turn) -> None:
    """Use what a former rendezvous said of a neighbour, as far as it is proved."""
    now, neighbour, book = turn.now, state.routes.neighbours[node], state.routes.book
    for replica in replicas:
        entries, type_id = replica.entries, replica.type_id
        if not is_of_sealed(type_id):  # as far as those can be read, they were when they came
            entries = tuple(_proved(state, neighbour.link, replica, now))
            lost = len(replica.entries) - len(entries)
            if lost:
                turn.count("maia_replicas_not_proved_total", lost)
        if replica.offers:
            offer_ended(neighbour, type_id, seconds_after(now, state.settings.lease_s))
        # Another broker said it, so it is not on this one's account.
        entries = tuple(replace(entry, size=0) for entry in entries)
        state.routes.mark_changed(now)
        updates = book.adopt(node, type_id, entries, offers=replica.offers, now=now)
        route_messages(state, updates, turn)


def _proved(state: BrokerState, link: LinkId, replica: Replica, now: Instant) -> Iterator[RouteEntry]:
    for entry in replica.entries:
        if not is_to_be_verified(state):
            yield entry
            continue
        proof = entry.baggage if isinstance(entry.baggage, Proof) else NO_PROOF
        try:
            proved = proved_filter(state, replica.type_id, proof, entry.predicate, now)
        except MaiaError:
            continue  # who wants it will say so, and is then answered
        state.statements.dependencies.note(link, proved.watched)
        yield replace(entry, predicate=proved.filter, baggage=replace(proof, watched=proved.watched))
