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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from maia.broker.interests.entries import Received
from maia.broker.interests.expected_sources import ExpectedSources, offer_ended
from maia.broker.interests.impairment import Impairments
from maia.broker.interests.outbox import Outbox
from maia.broker.interests.received import ReceivedInterests
from maia.broker.interests.rekeying import Rekeying
from maia.broker.interests.routes import Neighbour, Routes
from maia.broker.interests.sealed import SealedInterests
from maia.broker.links.links import Link
from maia.broker.own import Own
from maia.broker.rights.validity import ValidityTracker
from maia.broker.turn import Turn
from maia.errors import MaiaError
from maia.events import Instant, seconds_after
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


def superseded(own: Own, links: Mapping[LinkId, Link], routes: Routes, link: Link) -> Link | None:
    """Return which of two links to the same broker has to go, now that a second one is ready."""
    node = node_id_of_key(link.peer.key)
    known = routes.neighbours.get(node)
    before = None if known is None else links.get(known.link)
    if before is None or before.peer != link.peer:
        return None
    if before.instance != link.instance:
        return before
    return before if _dialler(own, link) < _dialler(own, before) else link


def _dialler(own: Own, link: Link) -> bytes:
    return link.peer.key if link.dialled is None else own.principal.key


@dataclass(slots=True, eq=False, repr=False)
class OverlayPeers:
    """The other brokers of the overlay: dialled, answered and announced as it asks for."""

    own: Own
    routes: Routes
    statements: ValidityTracker
    sealed: SealedInterests
    impairments: Impairments
    outbox: Outbox
    sources: ExpectedSources
    received: ReceivedInterests
    rekeying: Rekeying

    # ------------------------------------------------------------ links

    def neighbour_known(self, link: Link, turn: Turn) -> None:
        """A broker that is a neighbour already has answered at an address that we dialled."""
        contact = Contact.of(link.peer.key, link.address or "")
        self._perform(self.routes.membership.confirmed(contact, turn.now, dialled=link.dialled), turn)

    def neighbour_up(self, link: Link, turn: Turn) -> None:
        """A broker has proved its right to connect: it is a neighbour from now on."""
        contact = Contact.of(link.peer.key, link.address or "")
        routes = self.routes
        if contact.node in routes.neighbours:
            self._forget(routes.neighbours[contact.node], turn)
        routes.neighbours[contact.node] = Neighbour(contact.node, link.id)
        routes.node_of[link.id] = contact.node
        self.impairments.neighbour_found()
        self._perform(routes.membership.confirmed(contact, turn.now, dialled=link.dialled), turn)
        self.outbox.route_messages(routes.book.hop_up(contact.node, turn.now), turn)
        self.rekeying.show_rights([link.id], self.sealed.in_use, turn)
        self._parents_changed(turn)
        self._adopt(contact.node, self.routes.take_waiting(contact.node), turn)

    def neighbour_gone(self, link: Link, turn: Turn) -> None:
        """A link to a broker is gone, and everything that it sent with it."""
        routes = self.routes
        node = routes.node_of.get(link.id)
        if node is None:
            return
        self._forget(routes.neighbours[node], turn)
        self._perform(routes.membership.lost(node, turn.now), turn)
        self._parents_changed(turn)
        # What a rendezvous that is gone had given to this broker is used where this broker now follows it.
        own, overlay = routes.membership.own.node, routes.overlay

        def follows(type_id: bytes) -> bool:
            """Whether this broker leads where another may have led; one further away never did (A67)."""
            rendezvous = node_id_of_type(type_id)
            return overlay.next_hop(rendezvous) is None and is_closer(node, than=own, target=rendezvous)

        for replica in routes.store.promoted(node, follows):
            self._promote(replica, turn)

    def _forget(self, neighbour: Neighbour, turn: Turn) -> None:
        del self.routes.neighbours[neighbour.node], self.routes.node_of[neighbour.link]
        self.outbox.route_messages(self.routes.book.hop_gone(neighbour.node), turn)

    # ------------------------------------------------------------ the overlay's steps

    def start(self, turn: Turn) -> None:
        """Begin to dial other brokers."""
        self.routes.is_changed = True
        self._perform(self.routes.membership.start(turn.now), turn)

    def join(self, seeds: tuple[str, ...], turn: Turn) -> None:
        """Join the network through these brokers from now on."""
        if seeds == self.own.settings.seeds:
            return
        self.own.settings = replace(self.own.settings, seeds=seeds)
        self._perform(self.routes.membership.seek(seeds, turn.now), turn)

    def leave(self, turn: Turn) -> None:
        """Send the neighbours that this broker leaves."""
        self._perform(self.routes.membership.leave(), turn)

    def dial_failed(self, address: str, turn: Turn) -> None:
        """No broker that may connect answered at an address."""
        self.impairments.seed_silent(address)
        self._perform(self.routes.membership.dial_failed(address, turn.now), turn)

    def _perform(self, steps: Iterable[Step], turn: Turn) -> None:
        """Do what the overlay wants done; without a node that it dropped, types may lead elsewhere."""
        self.routes.is_changed = True
        is_changed = False
        for step in steps:
            match step:
                case Connect(address):
                    turn.add(Dial(address))
                case Ask(node, target, number):
                    self._send_to(node, FindClosest(number, node_id_to_bytes(target)), turn)
                case Spread(to, about, alive):
                    self._send_to(to, Announce(NodeRecord(about.key, about.address), alive), turn)
                case Dropped():
                    is_changed = True  # the link stays: the other side may count on it
                case _:
                    assert_never(step)
        if is_changed:
            self._parents_changed(turn)

    def _send_closest(self, link: Link, message: FindClosest, turn: Turn) -> None:
        """Answer a broker that asks which brokers are near a point of the ring."""
        near = self.routes.membership.answer(node_id_from_bytes(message.target))
        turn.send(link.id, Nodes(message.id, [NodeRecord(contact.key, contact.address) for contact in near]))

    def _receive_nodes(self, link: Link, message: Nodes, turn: Turn) -> None:
        """Look into an answer to our own question."""
        contacts = [Contact.of(record.key, record.address) for record in message.nodes]
        node, membership = self.routes.node_of[link.id], self.routes.membership
        steps = membership.reply(node, message.id, contacts, turn.now)
        if steps or membership.candidates_waiting:  # else nothing new, so nothing is due earlier than before
            self._perform(steps, turn)

    def _receive_announce(self, link: Link, message: Announce, turn: Turn) -> None:
        """Look into news of a broker; a peer is believed about itself alone."""
        about = Contact.of(message.node.key, message.node.address)
        node = self.routes.node_of[link.id]
        self._perform(self.routes.membership.heard(node, about, message.alive, turn.now), turn)

    def _send_to(self, node: NodeId, message: Message, turn: Turn) -> None:
        link = self.routes.link_to(node)
        if link is not None:
            turn.send(link, message)

    # ------------------------------------------------------------ rendezvous

    def _parents_changed(self, turn: Turn) -> None:
        """Let every type find its way again."""
        routes = self.routes
        routes.mark_changed(turn.now)
        updates = routes.book.parents_changed()
        self.sources.not_asked_any_more(routes.book.take_moved(), turn.now)
        self.outbox.route_messages(updates, turn)

    def _promote(self, replica: Replica, turn: Turn) -> None:
        """Use a replica as soon as there is a link to its holder; dial it if there is none."""
        routes = self.routes
        holder = replica.holder
        contact = routes.contacts.get(holder) if isinstance(holder, int) else None  # type: ignore[arg-type]  # NodeId is an int
        if contact is None or contact.node == routes.membership.own.node:
            return
        routes.wait_for(contact.node, replica, bytes_max=self.own.settings.limits.bytes_per_peer)
        if contact.node in routes.neighbours:
            self._adopt(contact.node, self.routes.take_waiting(contact.node), turn)
        else:
            turn.note("rendezvous-taken-over", type=replica.type_id.hex())
            turn.add(Dial(contact.address))

    def _adopt(self, node: NodeId, replicas: Iterable[Replica], turn: Turn) -> None:
        """Use what a former rendezvous said of a neighbour, as far as it is proved."""
        now, neighbour, book = turn.now, self.routes.neighbours[node], self.routes.book
        for replica in replicas:
            type_id = replica.type_id
            entries = tuple(self._proved(neighbour.link, replica, now))
            if lost := len(replica.entries) - len(entries):
                turn.count("maia_replicas_not_proved_total", lost)
            if replica.offers:
                offer_ended(neighbour, type_id, seconds_after(now, self.own.settings.lease_s))
            # Another broker said it, so it is not on this one's account.
            entries = tuple(replace(entry, size=0) for entry in entries)
            self.routes.mark_changed(now)
            updates = book.adopt(node, type_id, entries, offers=replica.offers, now=now)
            self.outbox.route_messages(updates, turn)

    def _proved(self, link: LinkId, replica: Replica, now: Instant) -> Iterator[RouteEntry]:
        for entry in replica.entries:
            try:
                is_released = link in self.routes.borders
                known = self.received.understood(replica.type_id, entry, now, is_released=is_released)
            except MaiaError:
                # Who wants it will say so, and is then answered. What is sealed asks for its type until then.
                if is_of_sealed(replica.type_id):
                    yield entry
                continue
            if isinstance(known.baggage, Received):
                self.statements.dependencies.note(link, known.baggage.watched)
            yield known
