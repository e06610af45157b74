"""What routers sign of a path, byte for byte."""

from __future__ import annotations

from maia.credentials import SigningKey
from maia.credentials.paths import Stream, add_hop
from maia.events import Instant

FIRST, SECOND, THIRD = (SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
SIGNED = (
    "47ede140a82ddc9771bf4b9f5fede745cd0fb447cb481c037e673ce325920cdd"
    "706e76cf697f8d92780630892829777dfe4929c568aebdccaa671a0399b60d07",
    "4eb1198864fe465cc662e7ae0cde56be5b821db7b508a3a832e4ca5b9c0e8cef"
    "4e86d4118fc3efcf2ae24349f46b1b7239455c424afecefdea5c831b55466204",
)


def test_two_hops_are_signed_as_they_always_were() -> None:
    stream, now = Stream(b"P" * 32, b"s" * 16), Instant.parse("2026-11-18T09:00:00Z")
    hops = add_hop((), stream, FIRST, SECOND.principal, b"", now=now)
    hops = add_hop(hops, stream, SECOND, THIRD.principal, b"", now=now)
    assert tuple(one.signature.hex() for one in hops) == SIGNED
