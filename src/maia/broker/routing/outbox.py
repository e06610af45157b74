"""How does what the routing book wants told leave this broker?

As messages to neighbours, with the proof of whoever stands for it. What is
told of a sealed type leaves sealed: no filter, certificate or name of it is
readable without the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from maia.broker.publication.projection import ProjectedOffer
from maia.broker.routing.messages import NO_PROOF, Proof, messages_of, new_proof
from maia.broker.sealed.messages import (
    interests_of,
    offer_to_wire,
    wanted_to_wire,
)
from maia.broker.sealed.state import HeardOffer, HeardSealed, LocalSealed
from maia.broker.sessions.links import Advertisement, Right, Subscription
from maia.broker.state import BrokerState
from maia.broker.subscriptions.local_subscribers import SubscriberGroup
from maia.credentials import AuthorisationCertificate, SignedCertificate, certificate_to_bytes
from maia.events import AttributeUid
from maia.predicates import AllOf, Predicate, attributes_of
from maia.routing.table.hops import (
    RouteEntry,
    Tell,
    TellInterest,
    TellOffer,
    TellRenew,
    is_of_sealed,
    type_of_book_key,
)
from maia.sealing.filters.proofs import OpenedProof, SealedOffer, SealedProof, seal_proof
from maia.sealing.filters.sealed_filters import FILTER_ID_BYTES, SealedFilter
from maia.types import SealingLevel
from maia.wire.codec import encode
from maia.wire.effects import Effect, Send
from maia.wire.messages import Message, Renew, SealedWanted

__all__ = ["proof_of", "restricted_in", "right_behind", "sealed_wanted_of", "speaks_of", "route_messages"]

_NOBODY: Final = SealedProof((), b"", bytes(16))
"""What stands where a proof should be and is not known: whoever can check it refuses it."""
_OF_SUB_TYPE: Final = AttributeUid("of-a-sub-type")
"""Among the uids of a proof: it holds values that readers of this type have no key for, so it stays shut."""


def route_messages(state: BrokerState, tells: Iterable[Tell]) -> list[Effect]:
    """Return the messages that say what the book wants said."""
    effects: list[Effect] = []
    renewals: dict[tuple[int, bytes], bytes] = {}
    for tell in tells:
        state.routes.is_stirred = True
        link = state.routes.link_to(tell.hop)
        if link is None:
            continue
        if isinstance(tell, TellRenew):
            # Most neighbours were told the same, so most renewals are the same bytes.
            same = (tell.entries, tell.digest)
            if same not in renewals:
                renewals[same] = encode(Renew(*same))
            effects.append(Send(link, renewals[same]))
            continue
        effects += [Send(link, encode(message)) for message in _messages(state, tell)]
    return effects


def _messages(state: BrokerState, tell: Tell) -> Iterator[Message]:
    match tell:
        case TellInterest(_, key, add, remove) if is_of_sealed(key):
            wanted = [sealed_wanted_of(state, key, entry) for entry in add]
            yield from interests_of(type_of_book_key(key), wanted, list(remove))
        case TellOffer(_, key, stands, baggage) if is_of_sealed(key):
            found = _sealed_offer(state, type_of_book_key(key), baggage)
            yield offer_to_wire(found, stands=stands)
        case _:
            yield from messages_of(tell, lambda baggage: proof_of(state, baggage))


# ------------------------------------------------------------ who stands for it


def proof_of(state: BrokerState, baggage: object) -> Proof:
    """Return the proof behind an entry: of a local one, the latest request of somebody who stands for it."""
    if isinstance(baggage, Proof):
        return baggage
    entry = _behind(state, baggage)
    if entry is None:
        return NO_PROOF
    credentials = tuple([certificate_to_bytes(signed) for signed in entry.right.used])
    if isinstance(entry, Subscription):
        return Proof(entry.frame, entry.own, credentials)
    if isinstance(baggage, ProjectedOffer):
        credentials = (*baggage.definitions, *credentials)
    return new_proof(entry.proof, credentials)


def right_behind(state: BrokerState, baggage: object) -> Right | None:
    """Return the right of whoever stands for something local; None if there is nobody."""
    entry = _behind(state, baggage)
    return None if entry is None else entry.right


def _behind(state: BrokerState, baggage: object) -> Subscription | Advertisement | None:
    match baggage:
        case Advertisement():
            return baggage
        case ProjectedOffer(entry=entry):
            return entry
        case SubscriberGroup(members=members) if members:
            link, refs = next(iter(members.items()))
            holder = state.recording.link if state.recording is not None and link < 0 else state.links[link]
            return holder.subscriptions[refs[0]]
        case _:
            return None


# ------------------------------------------------------------ sealed


def sealed_wanted_of(state: BrokerState, key: bytes, entry: RouteEntry) -> SealedWanted:
    """Return an entry of the book as it travels sealed."""
    match entry.baggage:
        case HeardSealed(filter_, proof):
            return wanted_to_wire(entry.id, filter_, proof)
        case LocalSealed(filter_, view_class):
            return wanted_to_wire(entry.id, filter_, _sealed_proof(state, filter_, view_class))
        case _:
            # A replica that says no more than "everything" has nothing that could be sealed.
            everything = SealedFilter(type_of_book_key(key), 0, bytes(FILTER_ID_BYTES), ())
            return wanted_to_wire(entry.id, everything, _NOBODY)


def _sealed_offer(state: BrokerState, type_id: bytes, baggage: object) -> HeardOffer:
    if isinstance(baggage, HeardOffer):
        return baggage
    epoch = state.sealed.in_use.get(type_id, 0)
    offer = SealedOffer(type_id, epoch, state.random(FILTER_ID_BYTES))
    return HeardOffer(offer, _sealed_proof(state, offer, baggage))


def _sealed_proof(state: BrokerState, sealed: SealedFilter | SealedOffer, baggage: object) -> SealedProof:
    ring, entry = state.sealed.ring_of(sealed.type_id), _behind(state, baggage)
    if ring is None or entry is None:
        return _NOBODY
    proof = proof_of(state, baggage)
    opened = None if proof.request is None else OpenedProof(proof.request, proof.credentials)
    uids = speaks_of(state, sealed.type_id, entry.right)
    if isinstance(baggage, ProjectedOffer) and _speaks_of_sub_type(sealed.type_id, entry):
        uids |= {_OF_SUB_TYPE}
    return seal_proof(sealed, opened, uids=uids, keys=ring, random=state.random) or _NOBODY


def _speaks_of_sub_type(type_id: bytes, entry: Subscription | Advertisement) -> bool:
    """Say whether a request or its certificates hold values of attributes that a super-type lacks."""
    event_type = entry.right.event_type
    above = next((one for one in event_type.super_types if one.type_id == type_id), event_type)
    rights = [signed.certificate for signed in entry.right.used]
    said = [one.authority.restriction for one in rights if isinstance(one, AuthorisationCertificate)]
    return not attributes_of(AllOf((*said, entry.right.filter))) <= above.kinds.keys()


def speaks_of(state: BrokerState, type_id: bytes, right: Right) -> frozenset[AttributeUid]:
    """Return the attributes of which a request and its certificates hold values."""
    return restricted_in(state, type_id, right.used) | _of_type(state, type_id, right.filter)


def restricted_in(
    state: BrokerState, type_id: bytes, certificates: Iterable[SignedCertificate]
) -> frozenset[AttributeUid]:
    """Return the attributes of a sealed type of which certificates hold values."""
    rights = [signed.certificate for signed in certificates]
    said = [one.authority.restriction for one in rights if isinstance(one, AuthorisationCertificate)]
    return _of_type(state, type_id, AllOf(tuple(said)))


def _of_type(state: BrokerState, type_id: bytes, said: Predicate) -> frozenset[AttributeUid]:
    sealing = state.types.sealing(type_id)
    if sealing is None or sealing.level is SealingLevel.EVENT:
        return frozenset()  # at event level all content has one key
    return attributes_of(said) & state.types.kinds(type_id).keys()
