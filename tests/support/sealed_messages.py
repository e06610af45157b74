"""Interests and offers of sealed types, as brokers write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from maia.routing.table.hops import book_key_of_sealed, is_of_sealed
from maia.wire.messages import Interest, Offer, Replica, SealedPart, SealedProof, Wanted

Routed = TypeVar("Routed", Interest, Offer, Replica)


def made_up_proof(*, epoch: int = 1, seal: bytes = b"s" * 16, size: int = 0) -> SealedProof:
    """Return a proof that no sealer made."""
    return SealedProof(epoch, seal, [], bytes(size), b"t" * 16)


def sealed_wanted(entry_id: bytes, proof: SealedProof, parts: Sequence[SealedPart] = ()) -> Wanted:
    """Return one sealed filter."""
    return Wanted(entry_id, list(parts), proof, [])


def sealed_interest(type_id: bytes, add: Sequence[Wanted], remove: Sequence[bytes] = ()) -> Interest:
    """Return changes to what is wanted of a sealed type."""
    return Interest(book_key_of_sealed(type_id), list(add), list(remove))


def sealed_offer(type_id: bytes, proof: SealedProof | None) -> Offer:
    """Return that a sealed type is published; without a proof, that it is not."""
    return Offer(book_key_of_sealed(type_id), proof is not None, proof, [])


def is_sealed(message: object, *kinds: type) -> bool:
    """Return whether a message is of one of these kinds, and about sealed publications."""
    return (
        isinstance(message, Interest | Offer | Replica)
        and type(message) in kinds
        and is_of_sealed(message.key)
    )


def sealed_of(messages: Iterable[Routed]) -> list[Routed]:
    """Return the messages that are about sealed publications."""
    return [message for message in messages if is_of_sealed(message.key)]
