"""Do a client and its broker agree on what stands on their link?

A client renews all of it with one message, which says how many requests stand
and the digest of them. Both sides work it out from the requests themselves:
what a client was refused, or has asked for in another way since, makes the
digests differ. Between the two of them it is no secret and no proof; it finds
mistakes, and a client that lies about it renews nothing but its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

__all__ = ["digest_of_request", "digest_of_standing"]


def digest_of_request(request: bytes) -> bytes:
    """Return the hash of a signed request, as it travels."""
    return sha256(request).digest()


def digest_of_standing(requests: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the digest of references, each with the digest of the last request under it, in any order."""
    standing = b"".join(ref.to_bytes(8, "big") + digest for ref, digest in sorted(requests))
    return sha256(b"maia/1/standing\x00" + standing).digest()
