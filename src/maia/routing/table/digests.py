"""Do two neighbours agree on what the one has sent the other?

Each side keeps a tally of the entries and offers on its side of the link. The
tally is a count and a sum of hashes, so that a change costs one addition
however many entries there are. Two sides that agree on it hold the same
entries unless they set out not to, and then only the liar's own entries differ.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from maia.canonical import write_canonical
from maia.predicates import Predicate, predicate_to_expression

__all__ = ["Tally", "digest_of_filter", "mark_of_interest", "mark_of_offer"]

_MODULUS: Final = 1 << 256


@dataclass(slots=True)
class Tally:
    """How many entries there are, and the sum of their marks."""

    count: int = 0
    total: int = 0

    def add(self, mark: int) -> None:
        """Count one entry more."""
        self.count += 1
        self.total = (self.total + mark) % _MODULUS

    def subtract(self, mark: int) -> None:
        """Count one entry less."""
        self.count -= 1
        self.total = (self.total - mark) % _MODULUS

    def clear(self) -> None:
        """Count nothing."""
        self.count = self.total = 0

    @property
    def digest(self) -> bytes:
        """Return the sum as 32 bytes."""
        return self.total.to_bytes(32, "big")

    def agrees(self, *, entries: int, digest: bytes) -> bool:
        """Say whether a neighbour's count and digest are these."""
        return self.count == entries and self.digest == digest


def digest_of_filter(predicate: Predicate) -> bytes:
    """Return the hash of a filter's canonical form: equal for equal filters, kinds included."""
    return hashlib.sha256(write_canonical(predicate_to_expression(predicate))).digest()


def mark_of_interest(type_id: bytes, entry_id: bytes, filter_digest: bytes) -> int:
    """Return what an entry adds to a tally."""
    return _mark(b"interest", type_id, entry_id, filter_digest)


def mark_of_offer(type_id: bytes) -> int:
    """Return what a standing offer adds to a tally."""
    return _mark(b"offer", type_id)


def _mark(*parts: bytes) -> int:
    # Each part is preceded by its length, so that no two lists of parts run into the same bytes.
    framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return int.from_bytes(hashlib.sha256(b"maia/1/routing-mark\x00" + framed).digest(), "big")
