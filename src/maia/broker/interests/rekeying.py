"""What is sealed or opened anew when the keys of a type change, and who is shown this broker's rights?

A group of subscribers of a sealed type is sent to others sealed, and nothing
of it before there is a key. When an epoch begins, each is sealed anew: the new
one is in the routing table before the old one leaves it, so that there is no moment
without either. What neighbours sent is opened anew as well, as far as the
keys now go. A step does so many of these and asks to be called again.

In the handshake a broker shows everything that concerns the network. What it
may do with a type says which types and attributes there are, so it is shown
to members of the type's own key group alone: sealed, after the handshake, and
again when keys change. Neighbours that cannot open it learn that there is
something.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from maia.broker.audiences.local_subscribers import Audiences, SubscriberGroup
from maia.broker.interests.aggregation import Announcer
from maia.broker.interests.entries import (
    LocalInterest,
    SealedClaim,
    proof_from_wire,
    proof_to_wire,
    size_of_proof,
)
from maia.broker.interests.impairment import Impairments
from maia.broker.interests.outbox import Outbox
from maia.broker.interests.received import ReceivedInterests
from maia.broker.interests.routes import Routes
from maia.broker.interests.sealed import Placed, SealedInterests, Task
from maia.broker.keys.blinded import BlindedIds
from maia.broker.keys.keys import KeyRequests, SealingKeys, parts_read
from maia.broker.links.links import Advertisement, Link
from maia.broker.links.projection import Projections
from maia.broker.own import Own
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.known_types import KnownTypes
from maia.broker.turn import Turn
from maia.credentials import AuthorisationCertificate, TypeName, TypePattern, certificate_to_bytes
from maia.errors import MaiaError
from maia.events import AttributeUid, just_after
from maia.policy.view import shows
from maia.routing.overlay.table import NodeId
from maia.routing.table.hops import LOCAL, RouteEntry, RouteUpdate, SealedEntry, TypeId, book_key_of_sealed
from maia.sealing.filters.proofs import OpenedProof, SealedShowing, open_proof, seal_proof
from maia.sealing.filters.sealed_filters import FILTER_ID_BYTES, seal_filter
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.types import SealingLevel
from maia.wire.codec import encode
from maia.wire.effects import LinkId
from maia.wire.messages import SealedRights


@dataclass(slots=True, eq=False, repr=False)
class Rekeying:
    """What is sealed and opened anew with other keys."""

    own: Own
    types: KnownTypes
    routes: Routes
    keys: KeyRequests
    blinded: BlindedIds
    seals: SealingKeys
    links: dict[LinkId, Link]
    audiences: Audiences
    sealed: SealedInterests
    impairments: Impairments
    projections: Projections
    outbox: Outbox
    received: ReceivedInterests
    announcer: Announcer

    # ------------------------------------------------------------ showing

    def show_rights(self, links: Iterable[LinkId], types: Iterable[bytes], turn: Turn) -> None:
        """Show neighbours this broker's rights to types, sealed with the newest key of each type's group."""
        sealed = (self._sealed_rights(type_id) for type_id in types)
        messages = [encode(message) for message in sealed if message is not None]
        for link in list(links):
            for data in messages:
                turn.send_bytes(link, data)

    def _sealed_rights(self, type_id: bytes) -> SealedRights | None:
        ring, epoch = self.sealed.ring_of(type_id), self.sealed.in_use.get(type_id)
        names = {version.name for version in self.types.versions(type_id)}
        mine = [
            signed
            for signed in self.own.settings.credentials
            if isinstance(signed.certificate, AuthorisationCertificate)
            and any(_is_about(signed.certificate, name) for name in names)
        ]
        if ring is None or epoch is None or not mine or not self.own.settings.share_plaintext:
            return None
        showing = SealedShowing(type_id, epoch, self.own.random(FILTER_ID_BYTES))
        # Bound to who shows it: the request of a proof is its place for that.
        proof = OpenedProof(self.own.principal.key, tuple(certificate_to_bytes(signed) for signed in mine))
        # A restriction holds values, which are for readers of that attribute alone.
        uids = self.outbox.restricted_in(type_id, mine)
        sealed = seal_proof(showing, proof, uids=uids, keys=ring, random=self.own.random)
        return None if sealed is None else SealedRights(type_id, proof_to_wire(showing, sealed))

    # ------------------------------------------------------------ being shown

    def receive_rights(self, link: Link, message: SealedRights, turn: Turn) -> None:
        """Look at what a neighbour may do with a type, or keep it until there is a key for it."""
        if (
            message.type_id not in link.sealed_rights
            and len(link.sealed_rights) >= self.own.settings.limits.types
        ):
            return
        _forget_rights(link, message.type_id)
        link.sealed_rights[message.type_id] = message
        link.rights_bytes += size_of_proof(message.proof)
        self._open_rights(link, message, turn)

    def open_rights_again(self, type_id: bytes, turn: Turn) -> None:
        """Look again at what neighbours showed before the key was here."""
        for link in self.links.values():
            message = link.sealed_rights.get(type_id)
            if message is not None:
                self._open_rights(link, message, turn)

    def _open_rights(self, link: Link, message: SealedRights, turn: Turn) -> None:
        ring = self.sealed.ring_of(message.type_id)
        if ring is None:
            return
        showing = SealedShowing(message.type_id, message.proof.epoch, message.proof.seal)
        try:
            shown = open_proof(showing, proof_from_wire(message.proof), ring)
        except MaiaError as problem:
            _forget_rights(link, message.type_id)
            turn.count("maia_refused_total", code=problem.code)
            return
        if shown is None:
            return  # the key may come
        _forget_rights(link, message.type_id)
        if shown.request == link.peer.key:  # what another peer showed is worth nothing here
            link.rights_bytes += sum(map(len, shown.certificates))
            link.rights_bytes -= sum(map(len, link.rights.get(message.type_id, ())))
            link.rights[message.type_id] = shown.certificates
            link.shares.pop(message.type_id, None)

    # ------------------------------------------------------------ this broker's clients

    def place_sealed(self, type_id: bytes, view_class: SubscriberGroup, turn: Turn) -> None:
        """Put a class of subscribers into the book under every id that the type has at this moment."""
        for name in self.blinded.ids(type_id):
            self._place_under(name, view_class, turn)

    def _place_under(self, name: bytes, view_class: SubscriberGroup, turn: Turn) -> None:
        """Put a class of subscribers into the book, sealed with the newest keys; wait if there are none."""
        ring, epoch = self.sealed.ring_of(name), self.sealed.in_use.get(name)
        if ring is None or epoch is None:
            return
        before = self.sealed.placed.get((name, view_class.key))
        groups = ring.groups(epoch)
        sealed = epoch, groups, view_class.routed
        if before is not None and (before.epoch, before.groups, before.filter) == sealed:
            return
        entry = self._sealed_entry(name, view_class, ring, epoch)
        self.sealed.placed[name, view_class.key] = Placed(entry.id, *sealed)
        book, key = self.routes.book, book_key_of_sealed(name)
        updates = book.local_entry(key, entry)
        gone = book.local_unsubscribe(key, before.entry_id) if before else ()
        self.outbox.route_messages([*updates, *gone], turn)

    def take_back_sealed(self, type_id: bytes, class_key: bytes, turn: Turn) -> None:
        """Take a class of subscribers out of the book, if it is there."""
        for name in self.blinded.ids(type_id):
            self._take_back_under(name, class_key, turn)

    def _take_back_under(self, name: bytes, class_key: bytes, turn: Turn) -> None:
        placed = self.sealed.placed.pop((name, class_key), None)
        if placed is not None:
            key = book_key_of_sealed(name)
            self.outbox.route_messages(self.routes.book.local_unsubscribe(key, placed.entry_id), turn)

    def offer(self, type_id: bytes, entry: Advertisement, turn: Turn, *, stands: bool = True) -> None:
        """Put an advertisement into the book under each name that its type has now, and under no other.

        Of a sealed type these are names of sealed publications, in each epoch another one; none without keys.
        """
        routes, offered, updates = self.routes, (entry.link, entry.ref, type_id), list[RouteUpdate]()
        names: dict[TypeId, int] = {}
        if stands and self.types.sealing(type_id) is None:
            names[type_id] = 0
        elif stands:
            epochs = {name: self.sealed.in_use.get(name) for name in self.blinded.ids(type_id)}
            names = {book_key_of_sealed(name): epoch for name, epoch in epochs.items() if epoch is not None}
            routes.is_changed = True  # a covered type has slots from now on
        before, routes.offered[offered] = routes.offered.pop(offered, {}), names
        for key, epoch in names.items():
            updates += routes.book.local_advertise(
                key, (*offered, epoch), self.projections.offer_of(type_id, entry)
            )
            if before.get(key) == epoch:  # it is proved by another request or certificate than before
                updates += routes.book.send_offer_again(key, (*offered, epoch))
        for key, epoch in before.items():
            if names.get(key) != epoch:
                updates += routes.book.local_unadvertise(key, (*offered, epoch))
        if not names:
            del routes.offered[offered]
        self.outbox.route_messages(updates, turn)

    def _retire(self, name: bytes, turn: Turn) -> None:
        """Ask no more under a blinded id whose epoch is over and forgotten; offers follow with those anew."""
        for class_key in [one for placed, one in self.sealed.placed if placed == name]:
            self._take_back_under(name, class_key, turn)
        self.sealed.in_use.pop(name, None)
        self.sealed.changed_at.pop(name, None)

    def _sealed_entry(
        self, name: bytes, view_class: SubscriberGroup, ring: KeyRing, epoch: int
    ) -> SealedEntry:
        sealing = self.types.sealing(self.blinded.type_of(name))
        sealed = seal_filter(
            view_class.routed,
            type_id=name,
            epoch=epoch,
            by_attribute=sealing is None
            or sealing.level is SealingLevel.ATTRIBUTE
            or bool(parts_read(self.seals, name)),
            keys=ring,
            random=self.own.random,
        )
        right = self.outbox.right_behind(view_class)
        named = frozenset() if right is None else self.outbox.speaks_of(name, right)
        is_provable = all(ring.key(GroupId(name, uid), epoch) is not None for uid in named)
        # What others are bound to refuse must not cover what they would accept.
        marks = frozenset() if is_provable else frozenset({sealed.digest})
        return SealedEntry(
            sealed.id, view_class.routed, LocalInterest(sealed, view_class), marks, sealed.digest
        )

    # ------------------------------------------------------------ when keys change

    def keys_changed(self, type_id: bytes, turn: Turn) -> None:
        """Hear that a ring learned, lost or forgot something, or that a type is known to be sealed.

        What is wanted and offered here follows at once or in the next steps.
        """
        self.audiences.follow_answers(type_id)
        for name in self.blinded.refresh(type_id):
            self._retire(name, turn)
        for name in self.blinded.ids(type_id):
            ring = self.sealed.ring_of(name)
            # The newest epoch in which this broker is a member; interests need not wait for it to begin.
            epoch = None if ring is None else ring.newest
            if ring is not None and epoch is not None and not ring.groups(epoch):
                epoch = None
            if epoch is not None and self.sealed.in_use.get(name) != epoch:
                self.sealed.in_use[name] = epoch
                self.sealed.changed_at[name] = turn.now
                self.routes.schedule_rekeying(just_after(turn.now))
                self.show_rights(self.routes.node_of, [name], turn)
            self._find_work(name)
        if self.types.sealing(type_id) is not None:
            for link in self.links.values():
                for entry in link.advertisements.values():
                    if type_id in entry.type_ids:
                        self.offer(type_id, entry, turn)
        self.rekey_pending(turn)

    def rekey_pending(self, turn: Turn) -> None:
        """Seal and open anew what is waiting for it, so many at a time."""
        routes, sealed, now = self.routes, self.sealed, turn.now
        if routes.sealed_at is not None and routes.sealed_at <= now:
            routes.sealed_at = None
            # What neighbours should have sealed anew by now is opened again.
            before, sealed.looked_at = sealed.looked_at, now
            for type_id in sealed.changed_at:
                ring = sealed.ring_of(type_id)
                for end in () if ring is None else self.received.ends_of_patience(ring, now):
                    if end > now:
                        routes.schedule_rekeying(end)
                    elif before is None or end > before:
                        self._find_work(type_id)
        for task in list(islice(sealed.to_do, TASKS_PER_STEP)):
            del sealed.to_do[task]
            self._do(task, turn)
        if sealed.to_do:
            routes.schedule_rekeying(just_after(now))

    def _find_work(self, name: bytes) -> None:
        book, key = self.routes.book, book_key_of_sealed(name)
        audience = self.audiences.get(self.blinded.type_of(name))
        for class_key in audience.classes if audience is not None else ():
            self.sealed.to_do[name, LOCAL, class_key] = None
        ring = self.sealed.ring_of(name)
        for hop in book.hops(key):
            if hop != LOCAL:
                for entry in book.entries(hop, key):
                    if _may_change(entry, ring):
                        self.sealed.to_do[name, hop, entry.id] = None

    def _do(self, task: Task, turn: Turn) -> None:
        name, hop, what = task
        if hop != LOCAL:
            neighbour = self.routes.neighbours.get(NodeId(hop)) if isinstance(hop, int) else None
            if neighbour is not None:
                self.received.look_again(neighbour, book_key_of_sealed(name), what, turn)
            return
        type_id = self.blinded.type_of(name)
        audience = self.audiences.get(type_id)
        view_class = None if audience is None else audience.classes.get(what)
        if view_class is None or self.types.sealing(type_id) is None:
            return
        plain = turn.beside()  # neighbours hear of it behind what is wanted in its place
        self.announcer.withdraw(type_id, (what,), plain)
        self._place_under(name, view_class, turn)
        turn.add(*plain.effects)

    def type_met(self, type_id: bytes, is_new: bool, turn: Turn) -> None:
        """Look for the keys of a sealed type; if a version of it is new here, what was said in clear ends."""
        if self.keys.look_for(type_id, turn) or is_new:
            self.routes.is_changed = True
            self.impairments.changed.add(type_id)
        if is_new:
            self.keys_changed(type_id, turn)

    def note_missing_keys(self, right: Authorisation, turn: Turn) -> None:
        """Say in the log which attributes a subscriber may see, and this broker cannot read now."""
        type_id = right.event_type.type_id
        sealing = self.types.sealing(type_id)
        ring = self.seals.ring_of(type_id)
        if sealing is None or (ring is not None and ring.newest is None):
            return  # nothing to miss, or the keys are on their way
        seen = [uid for uid in right.event_type.kinds if any(shows(one, uid) for one in right.view.windows)]
        by_attribute, parts = sealing.level is SealingLevel.ATTRIBUTE, parts_read(self.seals, type_id)
        wanted: list[AttributeUid | None] = [*(seen if by_attribute else parts or [None])]
        missing = [uid or "*" for uid in wanted if not self.seals.holds(type_id, uid, turn.now)]
        if missing:
            principal = str(right.request.principal)
            turn.note("keys-missing", type=type_id.hex(), attributes=missing, principal=principal)


def _is_about(certificate: AuthorisationCertificate, name: TypeName) -> bool:
    pattern = certificate.authority.resources
    if not isinstance(pattern, TypePattern):
        return False
    return pattern.owner in (None, name.owner) and pattern.name.matches(name.name)


def _forget_rights(link: Link, type_id: bytes) -> None:
    """Forget what waited for a key, if something did."""
    waited = link.sealed_rights.pop(type_id, None)
    if waited is not None:
        link.rights_bytes -= size_of_proof(waited.proof)


TASKS_PER_STEP: Final = 64


def _may_change(entry: RouteEntry, ring: KeyRing | None) -> bool:
    """Whether other keys could say anything new of an entry: most are of this epoch and open already."""
    received = entry.baggage
    if ring is None or not isinstance(entry, SealedEntry) or not isinstance(received, SealedClaim):
        return True
    if entry.marks or received.sealed.epoch != ring.newest:
        return True
    spoken_of = {uid for part in received.parts for uid in part.uids}
    held = {group.uid for group in ring.groups(received.sealed.epoch)}
    return not spoken_of.union(received.proof.uids) <= spoken_of or not spoken_of | {None} <= held
