"""What does another broker want and offer of a sealed type, and may it?

A sealed interest is opened as far as this broker's keys go. Within the
type's group it must have been made by a member, must open, and its proof must
prove what it asks for, as far as this broker can read it (A67). Outside the
group no broker can tell, so it is carried by its type alone: it matches every
publication, and covers no other interest.

A sealed offer depends on the certificates in its proof wherever that opens: when one
of them counts no more, the offer ends, unless its neighbour proves it by another
publisher (A35). A broker without the keys cannot know on whose behalf it passes an
offer on. It receives that the offer is doubted, and then sends another one
if there is one, so that no publisher falls silent for another's sake.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from maia.broker.publication.expected_sources import let_arrive
from maia.broker.refusals import SealOutdated, SealTooNew
from maia.broker.routing.outbox import new_proof, route_messages
from maia.broker.routing.proofs import (
    is_to_be_verified,
    prove_offer,
    proved_filter,
    remember_refusal,
    spend_on,
)
from maia.broker.routing.routes import Neighbour
from maia.broker.sealed.entries import ReceivedInterest, ReceivedOffer, offer_from_wire, wanted_from_wire
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState, seconds_after
from maia.broker.turn import Turn
from maia.credentials import Action, Budget
from maia.errors import MaiaError, ProtocolViolation
from maia.events import Instant
from maia.policy.answers import spelt_out
from maia.predicates import ALWAYS
from maia.routing.table.hops import LOCAL, Hop, SealedEntry, book_key_of_sealed, type_of_book_key
from maia.routing.table.interests import mark_of_interest, mark_of_offer
from maia.sealing.filters.proofs import check_made_by_a_member, open_proof
from maia.sealing.filters.sealed_filters import open_filter
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.wire.effects import LinkId
from maia.wire.messages import SealedDoubted, SealedInterest, SealedOffer, SealedWanted

EPOCHS_AHEAD_MAX: Final = 16
"""How far ahead of this broker's keys an interest may be sealed: its key may be on the way."""

DOUBTED_MAX: Final = 65_536

_OPENING_BYTES: Final = 256
"""To open a sealed interest costs about as much as to read so many bytes; its content is paid for when it
is read."""


# ------------------------------------------------------------ what neighbours say


def receive_sealed_interest(state: BrokerState, link: Link, message: SealedInterest, turn: Turn) -> None:
    """Take note of what is wanted, sealed, behind a neighbour."""
    now = turn.now
    neighbour, key = state.routes.neighbour_on(link.id), book_key_of_sealed(message.type_id)
    state.routes.mark_changed(now)
    add: list[SealedEntry] = []
    refused: list[bytes] = []
    replaced: list[bytes] = []
    budget = state.authoriser.budget_of_message()
    for wanted in message.add:
        spend_on(budget, _OPENING_BYTES)
        received = wanted_from_wire(message.type_id, wanted)
        neighbour.forget_change(key, wanted.id)
        try:
            entry = understood(state, wanted.id, received, now, budget, neighbour)
            add.append(entry)
            assert isinstance(entry.baggage, ReceivedInterest)  # noqa: S101 - made by `understood`
            watched = entry.baggage.watched
            state.statements.dependencies.note(link.id, watched)
            known = state.routes.book.entry(neighbour.node, key, entry.id)
            before = None if known is None else known.baggage
            if isinstance(before, ReceivedInterest) and before.watched != watched:
                replaced.append(wanted.id)  # it depends on other certificates than when it came before
        except MaiaError as problem:
            refused.append(wanted.id)
            refuse_entry(neighbour, key, wanted.id, received)
            turn.refused(problem, link.peer, link=link.id, asked="SealedInterest")
    doubts(link.id, message.type_id, refused, turn)
    for entry_id in message.remove:
        neighbour.forget_change(key, entry_id)
    gone = [*message.remove, *refused]
    updates = state.routes.book.receive_interest(neighbour.node, key, add, gone, now)
    for entry_id in replaced:
        updates += state.routes.book.send_one_again(neighbour.node, key, entry_id)
    route_messages(state, updates, turn)


def receive_doubted_interests(state: BrokerState, _link: Link, message: SealedDoubted, turn: Turn) -> None:
    """Let interests cover no others that a broker refused which could read more of them; pass that on."""
    key = book_key_of_sealed(message.type_id)
    for sent_as in message.ids:
        found = state.routes.book.source_of(key, sent_as)
        if found is not None and isinstance(found[1], SealedEntry):
            _doubt(state, key, found[0], found[1], turn)


def _doubt(state: BrokerState, key: bytes, hop: Hop, entry: SealedEntry, turn: Turn) -> None:
    if entry.digest in state.sealed.doubted:
        return
    state.sealed.doubted[entry.digest] = None
    if len(state.sealed.doubted) > DOUBTED_MAX:
        del state.sealed.doubted[next(iter(state.sealed.doubted))]
    alone = replace(entry, marks=entry.marks | {entry.digest})
    book, link = state.routes.book, state.routes.link_to(hop)
    updates = book.local_entry(key, alone) if hop == LOCAL else book.understood_anew(hop, key, [alone], ())
    route_messages(state, updates, turn)
    if link is not None:
        doubts(link, type_of_book_key(key), [entry.id], turn)


def doubts(link: LinkId, type_id: bytes, refused: list[bytes], turn: Turn) -> None:
    """Send a neighbour that its entries are refused here, and must not cover what would not be."""
    if refused:
        turn.send(link, SealedDoubted(type_id, refused))


def understood_in_replica(
    state: BrokerState, type_id: bytes, wanted: SealedWanted, now: Instant
) -> SealedEntry:
    """Return an interest of a replica: one that cannot be proved asks for everything."""
    received = wanted_from_wire(type_id, wanted)
    try:
        return understood(state, wanted.id, received, now)
    except ProtocolViolation:
        raise
    except MaiaError:
        return _by_type_alone(wanted.id, received)


def refuse_entry(neighbour: Neighbour, key: bytes, entry_id: bytes, received: ReceivedInterest) -> None:
    """Leave an entry out of what is compared with a neighbour: it is registered there, and not here."""
    mark = mark_of_interest(key, entry_id, received.filter.digest)
    neighbour.forget_change(key, entry_id)
    neighbour.remember_change(key, entry_id, before=mark, after=None)


# ------------------------------------------------------------ as far as the keys go


def understood(
    state: BrokerState,
    entry_id: bytes,
    received: ReceivedInterest,
    now: Instant,
    budget: Budget | None = None,
    neighbour: Neighbour | None = None,
) -> SealedEntry:
    """Return an interest as far as it opens and proves here, or raise what is wrong with it.

    A `neighbour` is asked to send it again when a certificate that is refused now counts.
    """
    sealed, ring = received.filter, state.sealed.ring_of(received.filter.type_id)
    state.blinded.check_id(sealed.type_id)
    if ring is None:
        return _by_type_alone(entry_id, received)
    is_checked = check_made_by_a_member(sealed, received.proof, ring)
    check_epoch(state, ring, sealed.epoch, now)
    if not is_checked:
        return _by_type_alone(entry_id, received)
    opened, proof = open_filter(sealed, ring), open_proof(sealed, received.proof, ring)
    known = spelt_out(opened.opened, ring.answers)
    if proof is not None and is_to_be_verified(state):
        shown = new_proof(proof.request, proof.certificates)
        type_id = state.blinded.type_of(sealed.type_id)
        try:
            proved = proved_filter(state, type_id, shown, known, now, budget)
        except MaiaError:
            if neighbour is not None:
                remember_refusal(state, neighbour, type_id, shown, Action.SUBSCRIBE, now)
            raise
        known, received = proved.filter, replace(received, watched=proved.watched)
    digest = sealed.digest
    own = frozenset({digest}) if digest in state.sealed.doubted else frozenset()
    return SealedEntry(entry_id, known, received, opened.unopened | own, digest, size=received.size)


def _by_type_alone(entry_id: bytes, received: ReceivedInterest) -> SealedEntry:
    digest = received.filter.digest
    # Its mark is its own: one that was made up must not cover others (A67).
    return SealedEntry(entry_id, ALWAYS, received, frozenset({digest}), digest, size=received.size)


def check_epoch(state: BrokerState, ring: KeyRing, epoch: int, now: Instant) -> None:
    """Refuse an epoch that is over, or far ahead; one whose key may be on its way is given time."""
    newest = ring.newest
    if newest is None or ring.key(GroupId(ring.type_id), newest) is None:
        return  # not a member at this time
    if epoch > newest + EPOCHS_AHEAD_MAX:
        raise SealTooNew("a sealed interest or offer is of an epoch that is far ahead")
    if epoch >= newest:
        return
    late, latest = ends_of_patience(state, ring, now)
    # Whoever was put out of the group holds the old keys, and is not to want anything by them for ever.
    if now >= (latest if ring.knows_epoch(epoch) else late):
        raise SealOutdated("a sealed interest or offer is of an epoch that is over")


def ends_of_patience(state: BrokerState, ring: KeyRing, now: Instant) -> tuple[Instant, Instant]:
    """Return until when earlier epochs count: those that cannot be opened here, and those that can."""
    since, lease_s = state.sealed.changed_at.get(ring.type_id, now), state.settings.lease_s
    return seconds_after(since, lease_s), seconds_after(since, max(lease_s, ring.terms.drift_s))


_OFFER: Final = b"offer"


def receive_sealed_offer(state: BrokerState, link: Link, message: SealedOffer, turn: Turn) -> None:
    """Take note of whether a neighbour's side publishes a type, sealed."""
    now = turn.now
    neighbour, key = state.routes.neighbour_on(link.id), book_key_of_sealed(message.type_id)
    state.routes.mark_changed(now)
    neighbour.forget_change(key, _OFFER)
    received, book = offer_from_wire(message), state.routes.book
    if received is None:
        if book.offers(neighbour.node, key):
            let_arrive(neighbour, key, now)
        gone = book.receive_offer(neighbour.node, key, stands=False, baggage=None, now=now)
        route_messages(state, gone, turn)
        return
    try:
        received = _with_dependencies(state, link, received, now)
    except MaiaError as problem:
        _refuse_offer(state, link, received, problem, turn)
        return
    updates = book.receive_offer(
        neighbour.node,
        key,
        stands=True,
        baggage=received,
        now=now,
        advertisement=received.offer.id,
        size=received.size,
    )
    route_messages(state, updates, turn)


def recheck_sealed_offer(state: BrokerState, link: Link, received: ReceivedOffer, turn: Turn) -> None:
    """Keep an offer only by a proof that holds."""
    try:
        _with_dependencies(state, link, received, turn.now)
    except MaiaError as problem:
        _refuse_offer(state, link, received, problem, turn)


def receive_doubted(state: BrokerState, link: Link, message: SealedDoubted, turn: Turn) -> None:
    """Let what a broker refused which could read more of it cover nothing else; pass that on.

    A broker that doubts without reason is sent more, and nothing is taken away.
    """
    receive_doubted_interests(state, link, message, turn)
    book, key = state.routes.book, book_key_of_sealed(message.type_id)
    for offer_id in message.ids:
        hop, updates = book.set_offer_aside(key, offer_id)
        route_messages(state, updates, turn)
        further = None if hop is None or hop == LOCAL else state.routes.link_to(hop)
        if further is not None:
            doubts(further, message.type_id, [offer_id], turn)


def _with_dependencies(
    state: BrokerState, link: Link, received: ReceivedOffer, now: Instant
) -> ReceivedOffer:
    """Return an offer with what it depends on, as far as it opens here, or raise what is wrong with it."""
    state.blinded.check_id(received.offer.type_id)
    kind = state.blinded.type_of(received.offer.type_id)
    ring = state.sealed.ring_of(received.offer.type_id)
    if ring is None:
        return received
    is_checked = check_made_by_a_member(received.offer, received.proof, ring)
    check_epoch(state, ring, received.offer.epoch, now)
    proof = open_proof(received.offer, received.proof, ring) if is_checked else None
    if proof is None or not is_to_be_verified(state):
        return received
    shown = new_proof(proof.request, proof.certificates)
    try:
        watched = prove_offer(state, kind, shown, now)
    except MaiaError:
        neighbour = state.routes.neighbour_on(link.id)
        remember_refusal(state, neighbour, kind, shown, Action.PUBLISH, now)
        raise
    state.statements.dependencies.note(link.id, watched)
    return replace(received, watched=watched)


def _refuse_offer(
    state: BrokerState, link: Link, received: ReceivedOffer, problem: MaiaError, turn: Turn
) -> None:
    neighbour, key = state.routes.neighbour_on(link.id), book_key_of_sealed(received.offer.type_id)
    gone = state.routes.book.receive_offer(neighbour.node, key, stands=False, baggage=None, now=turn.now)
    neighbour.parting.pop(key, None)
    neighbour.forget_change(key, _OFFER)
    neighbour.remember_change(key, _OFFER, before=mark_of_offer(key), after=None)
    route_messages(state, gone, turn)
    doubts(link.id, received.offer.type_id, [received.offer.id], turn)
    turn.refused(problem, link.peer, link=link.id, asked="SealedOffer")
