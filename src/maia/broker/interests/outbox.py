"""How do changes of the routing table leave this broker as messages?

The table speaks of hops and entries; brokers send interests, offers, renewals
and requests for more. An interest carries the request that caused it and the
certificates behind it, so that any broker on the way can verify it (C9). The
proof of a local interest is found when it is sent: the latest request of a
subscriber that still wants it. Of a sealed type everything leaves sealed: no
filter, certificate or name of it is readable without the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from maia.broker.audiences.local_subscribers import SubscriberGroup
from maia.broker.interests.entries import (
    NO_PROOF,
    LocalInterest,
    Proof,
    SealedClaim,
    new_proof,
    parts_to_wire,
    proof_to_wire,
    size_of_wanted,
)
from maia.broker.interests.routes import Routes
from maia.broker.interests.sealed import SealedInterests
from maia.broker.keys.keys import SealingKeys, parts_read, readers_of
from maia.broker.links.links import Advertisement, Link, Subscription
from maia.broker.links.projection import ProjectedOffer
from maia.broker.log.recording import Recording
from maia.broker.own import Own
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.known_types import KnownTypes
from maia.broker.turn import Turn
from maia.credentials import AuthorisationCertificate, SignedCertificate, certificate_to_bytes
from maia.credentials.identity import identity_to_bytes
from maia.events import SUBSCRIBER_PREFIX, AttributeUid
from maia.policy.facts import about_the_world
from maia.policy.view_bytes import EVERYTHING
from maia.predicates import AllOf, Predicate, attributes_of
from maia.routing.table.hops import (
    InterestUpdate,
    OfferUpdate,
    Renewal,
    ResyncRequest,
    RouteEntry,
    RouteUpdate,
    TypeId,
    is_of_sealed,
    type_of_book_key,
)
from maia.sealing.filters.proofs import OpenedProof, SealedOffer, SealedProof, seal_proof
from maia.sealing.filters.sealed_filters import FILTER_ID_BYTES, SealedFilter
from maia.types import SealingLevel
from maia.wire.codec import encode
from maia.wire.effects import LinkId
from maia.wire.messages import Interest, Message, Offer, Renew, Resync, Wanted
from maia.wire.names import filter_to_bytes
from maia.wire.requests import with_filter

_CREDENTIALS_MAX: Final = 256
_INTEREST_BYTES: Final = 1 << 17
"""From this size on, an interest is sent in several messages; each stays far below the work that a peer does
for one message (`work_per_message`)."""
_NOBODY: Final = SealedProof((), b"", bytes(16))
"""In place of a proof that is not known: a broker that can check it refuses it."""
_OF_SUB_TYPE: Final = AttributeUid("of-a-sub-type")
"""Among the uids of a proof: it holds values for which readers of this type have no key."""


@dataclass(slots=True, eq=False, repr=False)
class Outbox:
    """What leaves for other brokers."""

    own: Own
    types: KnownTypes
    routes: Routes
    seals: SealingKeys
    links: dict[LinkId, Link]
    sealed: SealedInterests
    recording: Recording | None

    def route_messages(self, updates: Iterable[RouteUpdate], turn: Turn) -> int:
        """Send neighbours the changes of the routing table; return how many bytes that is."""
        sent = 0
        renewals: dict[tuple[int, bytes], bytes] = {}
        for update in updates:
            link = self.routes.link_to(update.hop)
            if link is None:
                continue
            self.routes.is_sent = True
            if isinstance(update, InterestUpdate) and update.add and self.recording is not None:
                self.recording.interest_sent(type_of_book_key(update.type_id), link)
            if isinstance(update, Renewal):
                # Most neighbours were sent the same, so most renewals are the same bytes.
                same = (update.entries, update.digest)
                if same not in renewals:
                    renewals[same] = encode(Renew(*same))
                turn.send_bytes(link, renewals[same])
                sent += len(renewals[same])
                continue
            for message in self._messages(update):
                data = encode(message)
                turn.send_bytes(link, data)
                sent += len(data)
        return sent

    def _messages(self, update: RouteUpdate) -> Iterator[Message]:
        """Yield the messages for one change of the table, in the order in which it counts."""
        match update:
            case InterestUpdate(_, key, add, remove):
                # What is added goes first: between two messages the peer wants too much, never too little.
                some: list[Wanted] = []
                size = 0
                for wanted in [self.wanted_of(key, entry) for entry in add]:
                    more = size_of_wanted(wanted)
                    if some and size + more > _INTEREST_BYTES:
                        yield Interest(key, some, [])
                        some, size = [], 0
                    some.append(wanted)
                    size += more
                yield Interest(key, some, list(remove))
            case OfferUpdate(_, key, stands, baggage) if stands:
                if is_of_sealed(key):
                    claim = self._sealed_claim(key, baggage)
                    yield Offer(key, True, proof_to_wire(claim.sealed, claim.proof), [])
                else:
                    yield Offer(key, True, *_shown(self.proof_of(baggage)))
            case OfferUpdate(_, key):
                yield Offer(key, False, None, [])
            case Renewal(_, entries, digest):
                yield Renew(entries, digest)
            case ResyncRequest():
                yield Resync()
            case _:
                assert_never(update)

    def wanted_of(self, key: TypeId, entry: RouteEntry) -> Wanted:
        """Return an entry of the table as it travels."""
        if is_of_sealed(key):
            claim = self._sealed_claim(key, entry.baggage)
            return Wanted(entry.id, parts_to_wire(claim), proof_to_wire(claim.sealed, claim.proof), [], b"")
        proof = self.proof_of(entry.baggage)
        return Wanted(entry.id, filter_to_bytes(entry.predicate), *_shown(proof), proof.view)

    # ------------------------------------------------------------ proofs

    def proof_of(self, baggage: object) -> Proof:
        """Return the proof behind an entry: of a local one, the latest request of a client that it is for."""
        if isinstance(baggage, Proof):
            return baggage
        entry = self._behind(baggage)
        if entry is None:
            return NO_PROOF
        credentials = tuple([certificate_to_bytes(signed) for signed in entry.right.used])
        if isinstance(entry, Subscription):
            own, holder = with_filter(entry.frame, entry.own, entry.filter), self.links.get(entry.link)
            if holder is not None and holder.identity is not None and asks_about_holder(entry.right):
                # A border that is told what the holder's provider says need not believe us.
                credentials = (*credentials, identity_to_bytes(holder.identity.signed))
            return Proof(entry.frame, own, credentials, view=seen_behind(baggage))
        if isinstance(baggage, ProjectedOffer):
            credentials = (*baggage.definitions, *credentials)
        return new_proof(entry.proof, credentials)

    def right_behind(self, baggage: object) -> Authorisation | None:
        """Return the right behind a local entry; None if there is none."""
        entry = self._behind(baggage)
        return None if entry is None else entry.right

    def _behind(self, baggage: object) -> Subscription | Advertisement | None:
        match baggage:
            case Advertisement():
                return baggage
            case ProjectedOffer(entry=entry):
                return entry
            case SubscriberGroup(members=members) if members:
                link, refs = next(iter(members.items()))
                holder = self.recording.link if self.recording is not None and link < 0 else self.links[link]
                return holder.subscriptions[refs[0]]
            case _:
                return None

    # ------------------------------------------------------------ sealed

    def _sealed_claim(self, key: TypeId, baggage: object) -> SealedClaim:
        """Return what travels sealed: as it came, or with the proof of a client here, sealed now."""
        type_id = type_of_book_key(key)
        match baggage:
            case SealedClaim():
                return baggage
            case LocalInterest(filter_, view_class):
                return SealedClaim(filter_, self._sealed_proof(filter_, view_class))
            case Advertisement() | ProjectedOffer():
                epoch = self.sealed.in_use.get(type_id, 0)
                offer = SealedOffer(type_id, epoch, self.own.random(FILTER_ID_BYTES))
                return SealedClaim(offer, self._sealed_proof(offer, baggage))
            case _:
                # A replica that says no more than "everything" has nothing that could be sealed.
                return SealedClaim(SealedFilter(type_id, 0, bytes(FILTER_ID_BYTES), ()), _NOBODY)

    def _sealed_proof(self, sealed: SealedFilter | SealedOffer, baggage: object) -> SealedProof:
        ring, entry = self.sealed.ring_of(sealed.type_id), self._behind(baggage)
        if ring is None or entry is None:
            return _NOBODY
        proof = self.proof_of(baggage)
        shown = (*proof.definitions, *proof.certificates)  # what is sealed crosses borders as it is
        opened = None if proof.request is None else OpenedProof(proof.request, shown)
        uids = self.speaks_of(sealed.type_id, entry.right)
        if isinstance(baggage, ProjectedOffer) and _speaks_of_sub_type(sealed.type_id, entry):
            uids |= {_OF_SUB_TYPE}
        return seal_proof(sealed, opened, uids=uids, keys=ring, random=self.own.random) or _NOBODY

    def speaks_of(self, type_id: bytes, right: Authorisation) -> frozenset[AttributeUid]:
        """Return the attributes of which a request and its certificates hold values."""
        return self.restricted_in(type_id, right.used) | self._of_type(type_id, right.filter)

    def restricted_in(
        self, type_id: bytes, certificates: Iterable[SignedCertificate]
    ) -> frozenset[AttributeUid]:
        """Return the attributes of a sealed type of which certificates hold values."""
        rights = [signed.certificate for signed in certificates]
        said = [one.authority.restriction for one in rights if isinstance(one, AuthorisationCertificate)]
        return self._of_type(type_id, AllOf(tuple(said)))

    def _of_type(self, type_id: bytes, said: Predicate) -> frozenset[AttributeUid]:
        sealing = self.types.sealing(type_id)
        if sealing is None or sealing.level is SealingLevel.EVENT:
            return parts_read(self.seals, type_id)  # at event level all content has one key
        return readers_of(self.seals, type_id, attributes_of(said) & self.types.kinds(type_id).keys())


def asks_about_holder(right: Authorisation) -> bool:
    """Return whether a right depends on what an identity statement says of its holder."""
    said = (signed.certificate for signed in right.used)
    asked = (about_the_world(one.authority) for one in said if isinstance(one, AuthorisationCertificate))
    return any(uid.startswith(SUBSCRIBER_PREFIX) for each in asked for uid in attributes_of(each))


def _shown(proof: Proof) -> tuple[bytes | None, list[bytes]]:
    return proof.request, list(proof.credentials[:_CREDENTIALS_MAX])


def _speaks_of_sub_type(type_id: bytes, entry: Subscription | Advertisement) -> bool:
    """Return whether a request or its certificates hold values of attributes that a super-type lacks."""
    event_type = entry.right.event_type
    above = next((one for one in event_type.super_types if one.type_id == type_id), event_type)
    rights = [signed.certificate for signed in entry.right.used]
    said = [one.authority.restriction for one in rights if isinstance(one, AuthorisationCertificate)]
    return not attributes_of(AllOf((*said, entry.right.filter))) <= above.kinds.keys()


def seen_behind(baggage: object) -> bytes:
    """Return what those see, whatever they select, for whom an entry is, as it travels with it."""
    if isinstance(baggage, Proof):
        return baggage.view
    return baggage.seen if isinstance(baggage, SubscriberGroup) else EVERYTHING
