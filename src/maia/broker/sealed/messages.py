"""Which message is a sealed interest or offer, and the other way round?

What is read here is well formed and nothing more: who made it, and whether it
opens, is for `sealed/interests.py` to find out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from maia.broker.sealed.state import HeardOffer, HeardSealed
from maia.events import AttributeUid
from maia.sealing.filters import proofs as filter_proofs
from maia.sealing.filters import sealed_filters as filters
from maia.wire.messages import SealedInterest, SealedOffer, SealedPart, SealedProof, SealedWanted

__all__ = [
    "interests_of",
    "offer_from_wire",
    "offer_to_wire",
    "proof_from_wire",
    "proof_to_wire",
    "wanted_from_wire",
    "wanted_to_wire",
]

_INTEREST_BYTES: Final = 1 << 17
"""From this size on, an interest is told in several messages; each stays far below what a peer reads."""


def wanted_to_wire(
    entry_id: bytes, sealed: filters.SealedFilter, proof: filter_proofs.SealedProof
) -> SealedWanted:
    """Return a sealed filter and its proof as they travel."""
    parts = [SealedPart(list(part.uids), part.mark, part.box) for part in sealed.parts]
    return SealedWanted(entry_id, sealed.epoch, sealed.id, parts, proof_to_wire(proof))


def wanted_from_wire(type_id: bytes, wanted: SealedWanted) -> HeardSealed:
    """Return what a peer wants; refuse what no sealer writes."""
    parts = [filters.SealedPart(_uids(part.uids), part.mark, part.box) for part in wanted.parts]
    sealed = filters.SealedFilter(type_id, wanted.epoch, wanted.seal, tuple(parts))
    return HeardSealed(sealed, proof_from_wire(wanted.proof))


def offer_to_wire(heard: HeardOffer, *, stands: bool) -> SealedOffer:
    """Return an offer as it travels; one that does not stand says nothing but that."""
    offer = heard.offer
    if not stands:
        return SealedOffer(offer.type_id, 0, bytes(filters.FILTER_ID_BYTES), None)
    return SealedOffer(offer.type_id, offer.epoch, offer.id, proof_to_wire(heard.proof))


def offer_from_wire(message: SealedOffer) -> HeardOffer | None:
    """Return what a peer offers; None if it does not."""
    if message.proof is None:
        return None
    offer = filter_proofs.SealedOffer(message.type_id, message.epoch, message.seal)
    return HeardOffer(offer, proof_from_wire(message.proof))


def interests_of(type_id: bytes, add: list[SealedWanted], remove: list[bytes]) -> Iterator[SealedInterest]:
    """Yield the messages that add and remove so much, in the order in which it counts."""
    # What is added goes first: between two messages the peer wants too much, and never too little.
    some: list[SealedWanted] = []
    size = 0
    for wanted in add:
        more = len(wanted.proof.box) + sum(len(part.box) for part in wanted.parts)
        if some and size + more > _INTEREST_BYTES:
            yield SealedInterest(type_id, some, [])
            some, size = [], 0
        some.append(wanted)
        size += more
    yield SealedInterest(type_id, some, remove)


def proof_to_wire(proof: filter_proofs.SealedProof) -> SealedProof:
    """Return a sealed proof as it travels."""
    return SealedProof(list(proof.uids), proof.box, proof.tag)


def proof_from_wire(proof: SealedProof) -> filter_proofs.SealedProof:
    """Return a sealed proof; refuse what no sealer writes."""
    return filter_proofs.SealedProof(_uids(proof.uids), proof.box, proof.tag)


def _uids(texts: list[str]) -> tuple[AttributeUid, ...]:
    # Not yet checked: the sealed part or proof that is made of them looks at every one.
    return tuple(AttributeUid(text) for text in texts)
