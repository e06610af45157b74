"""What are sealed interests and offers, in memory and on the wire?

What travels with a sealed entry of the routing table, under which epoch this
broker's own are sealed, and what still has to be sealed or opened anew. The
keys themselves are elsewhere; `ring_of` finds them. What is read from the wire here
is well formed and nothing more: who made it, and whether it opens, is for
`sealed/interests.py` to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maia.broker.subscriptions.local_subscribers import SubscriberGroup
from maia.events import AttributeUid, Instant
from maia.predicates import Predicate
from maia.routing.table.hops import Hop
from maia.sealing.filters.proofs import SealedOffer, SealedProof
from maia.sealing.filters.sealed_filters import FILTER_ID_BYTES, SealedFilter, SealedPart
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.wire import messages as wire
from maia.wire.effects import LinkId

_ENTRY_BYTES: Final = 512
_PART_BYTES: Final = 256
_UID_BYTES: Final = 128


def size_of_proof(proof: SealedProof | wire.SealedProof) -> int:
    """Return about how many bytes something takes to keep that has a sealed proof."""
    return _ENTRY_BYTES + len(proof.box) + _UID_BYTES * len(proof.uids)


@dataclass(frozen=True, slots=True)
class LocalInterest:
    """What travels with a class of this broker's subscribers; the proof is sealed when it is sent."""

    filter: SealedFilter
    view_class: SubscriberGroup = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReceivedInterest:
    """A sealed interest as it came, to be passed on as it is."""

    filter: SealedFilter
    proof: SealedProof
    watched: frozenset[bytes] = field(default=frozenset(), repr=False, compare=False)
    """The certificates that it was found to depend on here, if its proof was opened and verified here."""

    @property
    def size(self) -> int:
        """Return about how many bytes it takes to keep."""
        parts = sum(_PART_BYTES + len(part.box) + _UID_BYTES * len(part.uids) for part in self.filter.parts)
        return parts + size_of_proof(self.proof)


@dataclass(frozen=True, slots=True)
class ReceivedOffer:
    """A sealed offer as it came, to be passed on as it is."""

    offer: SealedOffer
    proof: SealedProof
    watched: frozenset[bytes] = field(default=frozenset(), repr=False, compare=False)
    """The certificates that it was found to depend on here, if its proof was opened and verified here."""

    @property
    def size(self) -> int:
        """Return about how many bytes it takes to keep."""
        return size_of_proof(self.proof)


@dataclass(frozen=True, slots=True)
class Placed:
    """Under which id a class of subscribers is in the book, what was sealed, and with which keys."""

    entry_id: bytes
    epoch: int
    groups: frozenset[GroupId]
    filter: Predicate = field(repr=False)


Task: TypeAlias = tuple[bytes, Hop, bytes]
"""The id under which a type travels, a hop, and the id of an entry; for `LOCAL`, the key of a class."""


@dataclass(slots=True)
class SealedInterests:
    """The sealed side of a broker's interests and offers."""

    ring_of: Callable[[bytes], KeyRing | None] = lambda type_id: None
    in_use: dict[bytes, int] = field(default_factory=dict)
    """By type, the epoch under which this broker's own interests are sealed."""
    changed_at: dict[bytes, Instant] = field(default_factory=dict)
    """When that epoch came into use here."""
    looked_at: Instant | None = None
    """When it was last checked whether others have sealed anew."""
    placed: dict[tuple[bytes, bytes], Placed] = field(default_factory=dict)
    """By the id under which a type travels, and class."""
    offered: dict[tuple[LinkId, int, bytes], int] = field(default_factory=dict)
    """By link, reference and id of a type: the epoch under which an advertisement is in the book."""
    doubted: dict[bytes, None] = field(default_factory=dict)
    """Digests of sealed filters that a broker refused which could read more of them; the oldest go first."""
    to_do: dict[Task, None] = field(default_factory=dict)
    """What is to be sealed or opened anew, in the order in which it was found."""


_INTEREST_BYTES: Final = 1 << 17
"""From this size on, an interest is sent in several messages; each stays far below what a peer reads."""


def wanted_to_wire(entry_id: bytes, sealed: SealedFilter, proof: SealedProof) -> wire.SealedWanted:
    """Return a sealed filter and its proof as they travel."""
    parts = [wire.SealedPart(list(part.uids), part.mark, part.box) for part in sealed.parts]
    return wire.SealedWanted(entry_id, sealed.epoch, sealed.id, parts, proof_to_wire(proof))


def wanted_from_wire(type_id: bytes, wanted: wire.SealedWanted) -> ReceivedInterest:
    """Return what a peer wants; refuse what no sealer writes."""
    parts = [SealedPart(_uids(part.uids), part.mark, part.box) for part in wanted.parts]
    sealed = SealedFilter(type_id, wanted.epoch, wanted.seal, tuple(parts))
    return ReceivedInterest(sealed, proof_from_wire(wanted.proof))


def offer_to_wire(received: ReceivedOffer, *, stands: bool) -> wire.SealedOffer:
    """Return an offer as it travels; one that does not stand says nothing but that."""
    offer = received.offer
    if not stands:
        return wire.SealedOffer(offer.type_id, 0, bytes(FILTER_ID_BYTES), None)
    return wire.SealedOffer(offer.type_id, offer.epoch, offer.id, proof_to_wire(received.proof))


def offer_from_wire(message: wire.SealedOffer) -> ReceivedOffer | None:
    """Return what a peer offers; None if it does not."""
    if message.proof is None:
        return None
    offer = SealedOffer(message.type_id, message.epoch, message.seal)
    return ReceivedOffer(offer, proof_from_wire(message.proof))


def interests_of(
    type_id: bytes, add: list[wire.SealedWanted], remove: list[bytes]
) -> Iterator[wire.SealedInterest]:
    """Yield the messages that add and remove so much, in the order in which it counts."""
    # What is added goes first: between two messages the peer wants too much, and never too little.
    some: list[wire.SealedWanted] = []
    size = 0
    for wanted in add:
        more = len(wanted.proof.box) + sum(len(part.box) for part in wanted.parts)
        if some and size + more > _INTEREST_BYTES:
            yield wire.SealedInterest(type_id, some, [])
            some, size = [], 0
        some.append(wanted)
        size += more
    yield wire.SealedInterest(type_id, some, remove)


def proof_to_wire(proof: SealedProof) -> wire.SealedProof:
    """Return a sealed proof as it travels."""
    return wire.SealedProof(list(proof.uids), proof.box, proof.tag)


def proof_from_wire(proof: wire.SealedProof) -> SealedProof:
    """Return a sealed proof; refuse what no sealer writes."""
    return SealedProof(_uids(proof.uids), proof.box, proof.tag)


def _uids(texts: list[str]) -> tuple[AttributeUid, ...]:
    # Not yet checked: the sealed part or proof that is made of them checks every one.
    return tuple(AttributeUid(text) for text in texts)
