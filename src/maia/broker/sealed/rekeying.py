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
from itertools import islice
from typing import Final

from maia.broker.access.authorisation import Authorisation
from maia.broker.publication.projection import offer_of
from maia.broker.routing.aggregation import withdraw
from maia.broker.routing.entries import (
    LocalInterest,
    SealedClaim,
    proof_from_wire,
    proof_to_wire,
    size_of_proof,
)
from maia.broker.routing.outbox import restricted_in, right_behind, route_messages, speaks_of
from maia.broker.routing.received import ends_of_patience, look_again
from maia.broker.sealed.answers import hear_answers
from maia.broker.sealed.entries import Placed, Task
from maia.broker.sessions.links import Advertisement, Link
from maia.broker.state import BrokerState, just_after
from maia.broker.subscriptions.local_subscribers import SubscriberGroup
from maia.broker.turn import Turn
from maia.credentials import AuthorisationCertificate, TypeName, TypePattern, certificate_to_bytes
from maia.errors import MaiaError
from maia.events import AttributeUid
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

# ------------------------------------------------------------ showing


def show_rights(state: BrokerState, links: Iterable[LinkId], types: Iterable[bytes], turn: Turn) -> None:
    """Show neighbours this broker's rights to types, sealed with the newest key of each type's group."""
    sealed = (_sealed_rights(state, type_id) for type_id in types)
    messages = [encode(message) for message in sealed if message is not None]
    for link in list(links):
        for data in messages:
            turn.send_bytes(link, data)


def _sealed_rights(state: BrokerState, type_id: bytes) -> SealedRights | None:
    ring, epoch = state.sealed.ring_of(type_id), state.sealed.in_use.get(type_id)
    names = {version.name for version in state.types.versions(type_id)}
    mine = [
        signed
        for signed in state.settings.credentials
        if isinstance(signed.certificate, AuthorisationCertificate)
        and any(_is_about(signed.certificate, name) for name in names)
    ]
    if ring is None or epoch is None or not mine or not state.settings.share_plaintext:
        return None
    showing = SealedShowing(type_id, epoch, state.random(FILTER_ID_BYTES))
    # Bound to who shows it: the request of a proof is its place for that.
    proof = OpenedProof(state.principal.key, tuple(certificate_to_bytes(signed) for signed in mine))
    # A restriction holds values, which are for readers of that attribute alone.
    uids = restricted_in(state, type_id, mine)
    sealed = seal_proof(showing, proof, uids=uids, keys=ring, random=state.random)
    return None if sealed is None else SealedRights(type_id, proof_to_wire(showing, sealed))


def _is_about(certificate: AuthorisationCertificate, name: TypeName) -> bool:
    pattern = certificate.authority.resources
    if not isinstance(pattern, TypePattern):
        return False
    return pattern.owner in (None, name.owner) and pattern.name.matches(name.name)


# ------------------------------------------------------------ being shown


def receive_rights(state: BrokerState, link: Link, message: SealedRights, turn: Turn) -> None:
    """Look at what a neighbour may do with a type, or keep it until there is a key for it."""
    if message.type_id not in link.sealed_rights and len(link.sealed_rights) >= state.settings.limits.types:
        return
    _forget_rights(link, message.type_id)
    link.sealed_rights[message.type_id] = message
    link.rights_bytes += size_of_proof(message.proof)
    _open_rights(state, link, message, turn)


def _forget_rights(link: Link, type_id: bytes) -> None:
    """Forget what waited for a key, if something did."""
    waited = link.sealed_rights.pop(type_id, None)
    if waited is not None:
        link.rights_bytes -= size_of_proof(waited.proof)


def open_rights_again(state: BrokerState, type_id: bytes, turn: Turn) -> None:
    """Look again at what neighbours showed before the key was here."""
    for link in state.links.values():
        message = link.sealed_rights.get(type_id)
        if message is not None:
            _open_rights(state, link, message, turn)


def _open_rights(state: BrokerState, link: Link, message: SealedRights, turn: Turn) -> None:
    ring = state.sealed.ring_of(message.type_id)
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


TASKS_PER_STEP: Final = 64


# ------------------------------------------------------------ this broker's clients


def place_sealed(state: BrokerState, type_id: bytes, view_class: SubscriberGroup, turn: Turn) -> None:
    """Put a class of subscribers into the book under every id that the type has at this moment."""
    for name in state.blinded.ids(type_id):
        _place_under(state, name, view_class, turn)


def _place_under(state: BrokerState, name: bytes, view_class: SubscriberGroup, turn: Turn) -> None:
    """Put a class of subscribers into the book, sealed with the newest keys; wait if there are none."""
    ring, epoch = state.sealed.ring_of(name), state.sealed.in_use.get(name)
    if ring is None or epoch is None:
        return
    before = state.sealed.placed.get((name, view_class.key))
    groups = ring.groups(epoch)
    sealed = epoch, groups, view_class.routed
    if before is not None and (before.epoch, before.groups, before.filter) == sealed:
        return
    entry = _sealed_entry(state, name, view_class, ring, epoch)
    state.sealed.placed[name, view_class.key] = Placed(entry.id, *sealed)
    book, key = state.routes.book, book_key_of_sealed(name)
    updates = book.local_entry(key, entry)
    gone = book.local_unsubscribe(key, before.entry_id) if before else ()
    route_messages(state, [*updates, *gone], turn)


def take_back_sealed(state: BrokerState, type_id: bytes, class_key: bytes, turn: Turn) -> None:
    """Take a class of subscribers out of the book, if it is there."""
    for name in state.blinded.ids(type_id):
        _take_back_under(state, name, class_key, turn)


def _take_back_under(state: BrokerState, name: bytes, class_key: bytes, turn: Turn) -> None:
    placed = state.sealed.placed.pop((name, class_key), None)
    if placed is not None:
        key = book_key_of_sealed(name)
        route_messages(state, state.routes.book.local_unsubscribe(key, placed.entry_id), turn)


def offer(
    state: BrokerState, type_id: bytes, entry: Advertisement, turn: Turn, *, stands: bool = True
) -> None:
    """Put an advertisement into the book under each name that its type has now, and under no other.

    Of a sealed type these are names of sealed publications, in each epoch another one; none without keys.
    """
    routes, offered, updates = state.routes, (entry.link, entry.ref, type_id), list[RouteUpdate]()
    names: dict[TypeId, int] = {}
    if stands and state.types.sealing(type_id) is None:
        names[type_id] = 0
    elif stands:
        epochs = {name: state.sealed.in_use.get(name) for name in state.blinded.ids(type_id)}
        names = {book_key_of_sealed(name): epoch for name, epoch in epochs.items() if epoch is not None}
        routes.is_changed = True  # a covered type has slots from now on
    before, routes.offered[offered] = routes.offered.pop(offered, {}), names
    for key, epoch in names.items():
        updates += routes.book.local_advertise(key, (*offered, epoch), offer_of(state, type_id, entry))
    for key, epoch in before.items():
        if names.get(key) != epoch:
            updates += routes.book.local_unadvertise(key, (*offered, epoch))
    if not names:
        del routes.offered[offered]
    route_messages(state, updates, turn)


def _retire(state: BrokerState, name: bytes, turn: Turn) -> None:
    """Ask no more under a blinded id whose epoch is over and forgotten; offers follow with those anew."""
    for class_key in [one for placed, one in state.sealed.placed if placed == name]:
        _take_back_under(state, name, class_key, turn)
    state.sealed.in_use.pop(name, None)
    state.sealed.changed_at.pop(name, None)


def _sealed_entry(
    state: BrokerState, name: bytes, view_class: SubscriberGroup, ring: KeyRing, epoch: int
) -> SealedEntry:
    sealing = state.types.sealing(state.blinded.type_of(name))
    sealed = seal_filter(
        view_class.routed,
        type_id=name,
        epoch=epoch,
        by_attribute=sealing is None or sealing.level is SealingLevel.ATTRIBUTE,
        keys=ring,
        random=state.random,
    )
    right = right_behind(state, view_class)
    named = frozenset() if right is None else speaks_of(state, name, right)
    is_provable = all(ring.key(GroupId(name, uid), epoch) is not None for uid in named)
    # What others are bound to refuse must not cover what they would accept.
    marks = frozenset() if is_provable else frozenset({sealed.digest})
    return SealedEntry(sealed.id, view_class.routed, LocalInterest(sealed, view_class), marks, sealed.digest)


# ------------------------------------------------------------ when keys change


def keys_changed(state: BrokerState, type_id: bytes, turn: Turn) -> None:
    """Hear that a ring learned, was given, lost or forgot something, or that a type is known to be sealed.

    What is wanted and offered here follows at once or in the next steps.
    """
    hear_answers(state, type_id)
    for name in state.blinded.refresh(type_id):
        _retire(state, name, turn)
    for name in state.blinded.ids(type_id):
        ring = state.sealed.ring_of(name)
        # The newest epoch in which this broker is a member; interests need not wait for it to begin.
        epoch = None if ring is None else ring.newest
        if ring is not None and epoch is not None and ring.key(GroupId(ring.type_id), epoch) is None:
            epoch = None
        if epoch is not None and state.sealed.in_use.get(name) != epoch:
            state.sealed.in_use[name] = epoch
            state.sealed.changed_at[name] = turn.now
            state.routes.schedule_rekeying(just_after(turn.now))
            show_rights(state, state.routes.node_of, [name], turn)
        _find_work(state, name)
    if state.types.sealing(type_id) is not None:
        for link in state.links.values():
            for entry in link.advertisements.values():
                if type_id in entry.type_ids:
                    offer(state, type_id, entry, turn)
    rekey_pending(state, turn)


def rekey_pending(state: BrokerState, turn: Turn) -> None:
    """Seal and open anew what is waiting for it, so many at a time."""
    routes, sealed, now = state.routes, state.sealed, turn.now
    if routes.sealed_at is not None and routes.sealed_at <= now:
        routes.sealed_at = None
        # What neighbours should have sealed anew by now is opened again.
        before, sealed.looked_at = sealed.looked_at, now
        for type_id in sealed.changed_at:
            ring = sealed.ring_of(type_id)
            for end in () if ring is None else ends_of_patience(state, ring, now):
                if end > now:
                    routes.schedule_rekeying(end)
                elif before is None or end > before:
                    _find_work(state, type_id)
    for task in list(islice(sealed.to_do, TASKS_PER_STEP)):
        del sealed.to_do[task]
        _do(state, task, turn)
    if sealed.to_do:
        routes.schedule_rekeying(just_after(now))


def _find_work(state: BrokerState, name: bytes) -> None:
    book, key = state.routes.book, book_key_of_sealed(name)
    audience = state.audiences.get(state.blinded.type_of(name))
    for class_key in audience.classes if audience is not None else ():
        state.sealed.to_do[name, LOCAL, class_key] = None
    ring = state.sealed.ring_of(name)
    for hop in book.hops(key):
        if hop != LOCAL:
            for entry in book.entries(hop, key):
                if _may_change(entry, ring):
                    state.sealed.to_do[name, hop, entry.id] = None


def _may_change(entry: RouteEntry, ring: KeyRing | None) -> bool:
    """Say whether other keys could say anything new of an entry: most are of this epoch and open already."""
    received = entry.baggage
    if ring is None or not isinstance(entry, SealedEntry) or not isinstance(received, SealedClaim):
        return True
    if entry.marks or received.sealed.epoch != ring.newest:
        return True
    spoken_of = {uid for part in received.parts for uid in part.uids}
    held = {group.uid for group in ring.groups(received.sealed.epoch)}
    return not spoken_of.union(received.proof.uids) <= spoken_of or not spoken_of | {None} <= held


def _do(state: BrokerState, task: Task, turn: Turn) -> None:
    name, hop, what = task
    if hop != LOCAL:
        neighbour = state.routes.neighbours.get(NodeId(hop)) if isinstance(hop, int) else None
        if neighbour is not None:
            look_again(state, neighbour, book_key_of_sealed(name), what, turn)
        return
    type_id = state.blinded.type_of(name)
    audience = state.audiences.get(type_id)
    view_class = None if audience is None else audience.classes.get(what)
    if view_class is None or state.types.sealing(type_id) is None:
        return
    plain = turn.beside()  # neighbours hear of it behind what is wanted in its place
    withdraw(state, type_id, (what,), plain)
    _place_under(state, name, view_class, turn)
    turn.add(*plain.effects)


def type_met(state: BrokerState, type_id: bytes, is_new: bool, turn: Turn) -> None:
    """Look for the keys of a sealed type; if a version of it is new here, what was said in clear ends."""
    if state.keys.look_for(type_id, turn) or is_new:
        state.routes.is_changed = True
        state.impairments.changed.add(type_id)
    if is_new:
        keys_changed(state, type_id, turn)


def note_missing_keys(state: BrokerState, right: Authorisation, turn: Turn) -> None:
    """Say in the log which attributes a subscriber may see, and this broker cannot read at this moment."""
    type_id = right.event_type.type_id
    sealing = state.types.sealing(type_id)
    ring = state.seals.ring_of(type_id)
    if sealing is None or (ring is not None and ring.newest is None):
        return  # nothing to miss, or the keys are on their way
    seen = [uid for uid in right.event_type.kinds if any(shows(one, uid) for one in right.view.windows)]
    wanted: list[AttributeUid | None] = [*seen] if sealing.level is SealingLevel.ATTRIBUTE else [None]
    missing = [uid or "*" for uid in wanted if not state.seals.holds(type_id, uid, turn.now)]
    if missing:
        principal = str(right.request.principal)
        turn.note("keys-missing", type=type_id.hex(), attributes=missing, principal=principal)
