"""What does another broker offer of a sealed type, on whose behalf, and for how long?

A sealed offer is checked as far as this broker's keys go, and rests on the
certificates in its proof wherever that opens: when one of them counts no
more, the offer falls, unless its neighbour proves it by another publisher
(A35). A broker without the keys cannot know on whose behalf it passes an
offer on. It is told that the offer is doubted, and then tells of another one
if there is one, so that nobody falls silent for somebody else's sake.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from maia.broker.access.authoriser import refusal_effects
from maia.broker.publication.expected_sources import let_arrive
from maia.broker.routing.messages import new_proof
from maia.broker.routing.outbox import route_messages
from maia.broker.routing.proofs import is_to_be_verified, prove_offer, remember_refusal
from maia.broker.routing.routes import Neighbour
from maia.broker.sealed.interests import check_epoch, doubts, hear_doubted_interests
from maia.broker.sealed.messages import offer_from_wire
from maia.broker.sealed.state import HeardOffer
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.credentials import Action
from maia.errors import MaiaError
from maia.events import Instant
from maia.routing.table.digests import mark_of_offer
from maia.routing.table.hops import LOCAL, book_key_of_sealed
from maia.sealing.filters.proofs import check_made_by_a_member, open_proof
from maia.wire.effects import Effect
from maia.wire.messages import SealedDoubted, SealedOffer

__all__ = ["hear_doubted", "hear_sealed_offer", "look_at_sealed_offer_again"]

_OFFER: Final = b"offer"


def hear_sealed_offer(state: BrokerState, link: Link, message: SealedOffer, now: Instant) -> list[Effect]:
    """Take note of whether a neighbour's side publishes a type, sealed."""
    neighbour, key = _neighbour(state, link), book_key_of_sealed(message.type_id)
    state.routes.stir(now)
    neighbour.forget_change(key, _OFFER)
    heard, book = offer_from_wire(message), state.routes.book
    if heard is None:
        if book.offers(neighbour.node, key):
            let_arrive(neighbour, key, now)
        return route_messages(
            state, book.heard_offer(neighbour.node, key, stands=False, baggage=None, now=now)
        )
    try:
        heard = _resting(state, link, heard, now)
    except MaiaError as problem:
        return _refused(state, link, heard, problem, now)
    tells = book.heard_offer(
        neighbour.node,
        key,
        stands=True,
        baggage=heard,
        now=now,
        advertisement=heard.offer.id,
        size=heard.size,
    )
    return route_messages(state, tells)


def look_at_sealed_offer_again(
    state: BrokerState, link: Link, heard: HeardOffer, now: Instant
) -> list[Effect]:
    """Let an offer stand only by a proof that holds."""
    try:
        _resting(state, link, heard, now)
    except MaiaError as problem:
        return _refused(state, link, heard, problem, now)
    return []


def hear_doubted(state: BrokerState, link: Link, message: SealedDoubted, now: Instant) -> list[Effect]:
    """Let what somebody refused who could read more of it stand for nothing else; say so further.

    Whoever says so without reason has more told to it, and nothing taken away.
    """
    effects = hear_doubted_interests(state, link, message, now)
    book, key = state.routes.book, book_key_of_sealed(message.type_id)
    for offer_id in message.ids:
        hop, tells = book.set_offer_aside(key, offer_id)
        effects += route_messages(state, tells)
        further = None if hop is None or hop == LOCAL else state.routes.link_to(hop)
        effects += [] if further is None else doubts(further, message.type_id, [offer_id])
    return effects


def _resting(state: BrokerState, link: Link, heard: HeardOffer, now: Instant) -> HeardOffer:
    """Return an offer with what it rests on, as far as it opens here, or raise what is wrong with it."""
    state.blinded.check_id(heard.offer.type_id)
    ring, kind = state.sealed.ring_of(heard.offer.type_id), state.blinded.type_of(heard.offer.type_id)
    if ring is None:
        return heard
    is_checked = check_made_by_a_member(heard.offer, heard.proof, ring)
    check_epoch(state, ring, heard.offer.epoch, now)
    proof = open_proof(heard.offer, heard.proof, ring) if is_checked else None
    if proof is None or not is_to_be_verified(state):
        return heard
    shown = new_proof(proof.request, proof.certificates)
    try:
        watched = prove_offer(state, kind, shown, now)
    except MaiaError:
        remember_refusal(state, _neighbour(state, link), kind, shown, Action.PUBLISH, now)
        raise
    state.statements.reliance.note(link.id, watched)
    return replace(heard, watched=watched)


def _refused(
    state: BrokerState, link: Link, heard: HeardOffer, problem: MaiaError, now: Instant
) -> list[Effect]:
    neighbour, key = _neighbour(state, link), book_key_of_sealed(heard.offer.type_id)
    gone = state.routes.book.heard_offer(neighbour.node, key, stands=False, baggage=None, now=now)
    neighbour.parting.pop(key, None)
    neighbour.forget_change(key, _OFFER)
    neighbour.remember_change(key, _OFFER, before=mark_of_offer(key), after=None)
    return [
        *route_messages(state, gone),
        *doubts(link.id, heard.offer.type_id, [heard.offer.id]),
        *refusal_effects(problem, link.peer, link=link.id, asked="SealedOffer"),
    ]


def _neighbour(state: BrokerState, link: Link) -> Neighbour:
    return state.routes.neighbours[state.routes.node_of[link.id]]
