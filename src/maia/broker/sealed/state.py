"""What does a broker remember of sealed interests, beside what is in the routing book?

Under which epoch its own are sealed, what still has to be sealed or opened
anew, and what travels with an entry of the book. The keys themselves are
elsewhere; `ring_of` finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maia.broker.subscriptions.local_subscribers import SubscriberGroup
from maia.events import Instant
from maia.routing.table.hops import Hop
from maia.sealing.filters.proofs import SealedOffer, SealedProof
from maia.sealing.filters.sealed_filters import SealedFilter
from maia.sealing.groups.group_id import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.wire.effects import LinkId
from maia.wire.messages import SealedProof as SealedProofOnTheWire

__all__ = ["HeardOffer", "HeardSealed", "LocalSealed", "Placed", "SealedInterests", "Task", "size_of_proof"]

_ENTRY_BYTES: Final = 512
_PART_BYTES: Final = 256
_UID_BYTES: Final = 128


def size_of_proof(proof: SealedProof | SealedProofOnTheWire) -> int:
    """Return about how many bytes something takes to keep that has a sealed proof."""
    return _ENTRY_BYTES + len(proof.box) + _UID_BYTES * len(proof.uids)


@dataclass(frozen=True, slots=True)
class LocalSealed:
    """What travels with a class of this broker's subscribers; the proof is sealed when it is sent."""

    filter: SealedFilter
    view_class: SubscriberGroup = field(repr=False)


@dataclass(frozen=True, slots=True)
class HeardSealed:
    """A sealed interest as it came, to be passed on as it is."""

    filter: SealedFilter
    proof: SealedProof
    watched: frozenset[bytes] = field(default=frozenset(), repr=False, compare=False)
    """The certificates that it was found to rest on here, if its proof was opened and verified here."""

    @property
    def size(self) -> int:
        """Return about how many bytes it takes to keep."""
        parts = sum(_PART_BYTES + len(part.box) + _UID_BYTES * len(part.uids) for part in self.filter.parts)
        return parts + size_of_proof(self.proof)


@dataclass(frozen=True, slots=True)
class HeardOffer:
    """A sealed offer as it came, to be passed on as it is."""

    offer: SealedOffer
    proof: SealedProof
    watched: frozenset[bytes] = field(default=frozenset(), repr=False, compare=False)
    """The certificates that it was found to rest on here, if its proof was opened and verified here."""

    @property
    def size(self) -> int:
        """Return about how many bytes it takes to keep."""
        return size_of_proof(self.proof)


@dataclass(frozen=True, slots=True)
class Placed:
    """Under which id a class of subscribers is in the book, and with which keys it was sealed."""

    entry_id: bytes
    epoch: int
    groups: frozenset[GroupId]


Task: TypeAlias = tuple[bytes, Hop, bytes]
"""The id of a type, a hop, and the id of one of its entries; for `LOCAL`, the key of a class."""


@dataclass(slots=True)
class SealedInterests:
    """The sealed side of a broker's interests and offers."""

    ring_of: Callable[[bytes], KeyRing | None] = lambda type_id: None
    in_use: dict[bytes, int] = field(default_factory=dict)
    """By the id under which a type travels, the epoch in which this broker's own interests are sealed."""
    changed_at: dict[bytes, Instant] = field(default_factory=dict)
    """When that epoch came into use here."""
    looked_at: Instant | None = None
    """When it was last looked at whether others have sealed anew."""
    placed: dict[tuple[bytes, bytes], Placed] = field(default_factory=dict)
    """By the id under which a type travels, and class."""
    offered: dict[tuple[LinkId, int], dict[bytes, int]] = field(default_factory=dict)
    """The ids, and the epoch of each, under which an advertisement is in the book."""
    doubted: dict[bytes, None] = field(default_factory=dict)
    """Digests of sealed filters that somebody refused who could read more of them; the oldest go first."""
    to_do: dict[Task, None] = field(default_factory=dict)
    """What is to be sealed or opened anew, in the order in which it was found."""
