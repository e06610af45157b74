"""What does a router of a mesh say of all its clients together, and what is asked and answered about it?

An aggregate is everything that the clients of one router, its origin, want:
parts, which nothing here looks into, under one signed head. Heads are flooded;
parts are asked for, from the neighbour that announced the head first, and only
if they are not at hand (docs/decisions/mesh-routing.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, TypeAlias

from maia.errors import MaiaError
from maia.routing.table.hops import Hop

_PARTS: Final = b"maia/1/aggregate-parts\x00"


@dataclass(frozen=True, slots=True)
class Head:
    """What an origin signs: who it is, which of its aggregates this is, of when, and what is in it."""

    origin: bytes
    """The origin's public key."""
    number: int
    """Grows with each aggregate of an origin, over its restarts too."""
    dated: int
    """When it was signed, in microseconds, by the origin's clock."""
    parts: int
    digest: bytes
    signature: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class MeshLimits:
    """How long an aggregate lasts, how often it is renewed, and how much one origin may say."""

    lease_us: int = 60_000_000
    skew_us: int = 30_000_000
    """How far clocks may differ."""
    pace_us: int = 100_000
    """Aggregates of one origin are accepted no faster than this."""
    answer_us: int = 5_000_000
    """How long a neighbour has to send the parts that it was asked for."""
    origins_max: int = 1024
    parts_max: int = 100_000
    bytes_max: int = 16 << 20
    message_bytes: int = 1 << 17
    """More parts than fit into this are sent in several messages."""

    @property
    def renew_every_us(self) -> int:
        """Return how often a router renews its aggregate: one renewal may go missing within a lease."""
        return self.lease_us * 5 // 12


def digest_of_part(part: bytes) -> bytes:
    """Return the name of one part."""
    return sha256(part).digest()


def digest_of_parts(digests: Collection[bytes]) -> bytes:
    """Return what a head says of its parts: the same for the same parts in any order."""
    return sha256(_PARTS + len(digests).to_bytes(8, "big") + b"".join(sorted(digests))).digest()


# ------------------------------------------------------------ what is to be done


@dataclass(frozen=True, slots=True)
class Announce:
    """Send a neighbour a head: there is a way to its origin from here, and not through that neighbour."""

    hop: Hop
    head: Head


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Inform a neighbour that what was announced is so no more: the way is lost, or leads through it."""

    hop: Hop
    origin: bytes
    number: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a neighbour for the parts that it announced; `have` is the digest of those at hand."""

    hop: Hop
    origin: bytes
    have: bytes


@dataclass(frozen=True, slots=True)
class Content:
    """Send a neighbour parts that it asked for; `base` is the digest of those that they are added to."""

    hop: Hop
    origin: bytes
    base: bytes
    add: tuple[bytes, ...] = field(repr=False)
    remove: tuple[bytes, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Learned:
    """An origin wants something else than before: parts by their digests, and digests of those that went."""

    origin: bytes
    added: Mapping[bytes, bytes] = field(repr=False)
    removed: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Renewed:
    """An origin wants what it wanted before."""

    origin: bytes


@dataclass(frozen=True, slots=True)
class Routed:
    """The way to an origin leads through these neighbours from now on; none if there is no way."""

    origin: bytes
    hops: tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class Gone:
    """An origin has not renewed its aggregate within the lease."""

    origin: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that a neighbour said is not accepted; the link lives on."""

    hop: Hop
    origin: bytes
    problem: MaiaError


Step: TypeAlias = Announce | Withdraw | Ask | Content | Learned | Renewed | Routed | Gone | Refused
