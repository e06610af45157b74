"""Who is who? A principal is a public key and nothing else.

A quorum is the other kind of owner and subject: k of n principals acting
together. Its identity is the digest of its founding constitution, so that
members can be replaced later without changing any name it owns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["LocalName", "Owner", "Principal", "QuorumId", "Subject", "Threshold"]


@dataclass(frozen=True, slots=True, order=True)
class Principal:
    """A public Ed25519 key: 32 bytes, canonical and of large order (checked in `keys.py`)."""

    key: bytes

    def __str__(self) -> str:
        """Return `ed25519:` and the key in hexadecimal, the one text form of a principal."""
        return f"ed25519:{self.key.hex()}"


@dataclass(frozen=True, slots=True, order=True)
class QuorumId:
    """The identity of a threshold owner: SHA-256 of its founding constitution."""

    digest: bytes

    def __str__(self) -> str:
        """Return `quorum:` and the digest in hexadecimal."""
        return f"quorum:{self.digest.hex()}"


Owner: TypeAlias = Principal | QuorumId
"""Whose name is it? The root of every chain for a resource."""


@dataclass(frozen=True, slots=True)
class LocalName:
    """A name in a principal's namespace, such as Met's `Met Brokers`; more than one word links names."""

    space: Principal
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Threshold:
    """At least `needed` of `members` must agree; members may be thresholds themselves."""

    needed: int
    members: tuple[Subject, ...]


Subject: TypeAlias = Principal | LocalName | Threshold
"""The subject of a certificate."""
