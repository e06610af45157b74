"""Over which routers has a frame come, and how far are they trusted together?

Each router on the way signs to whom it passes a publisher's stream on, behind
what the router before it has signed, and shows its identity statement (Gismo 5:
the more routers, the higher the probability that one of them fails). The last
router verifies all of it for the providers that it trusts itself, adds its own
level, and gives subscribers attributes that they can require:

    path-level      the lowest proved level (`tpm-integrity`) on the way, 0 for none
    path-trust      the product of 1 - 10^-level over the routers
    path-routers    how many routers there are
    path-providers  how many providers vouch for them

A level that a router claims for another is not looked at: only the provider's
statement about the other's key is (A112). A router that is left out leaves a gap,
because what is signed names the next one. What is signed holds for minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import prod
from typing import Final

from maia.credentials.identity import TPM_ATTRIBUTE, Identity, IdentityTrust
from maia.credentials.keys import Principal, SignedKind, SigningKey, principal_from_bytes, verify_signature
from maia.credentials.requirements import (
    PATH_LEVEL,
    PATH_PROVIDERS,
    PATH_ROUTERS,
    PATH_TRUST,
    Attributes,
)
from maia.errors import BrokenCredential, MaiaError
from maia.events import SECOND, Instant

HOPS_MAX: Final = 64
HOP_S: Final = 300
"""For how many seconds a router says that it passes a stream on to another."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A router passes a stream on; to whom is the router of the next hop, or the one that was handed this."""

    router: Principal
    until: Instant
    signature: bytes = field(repr=False)
    statement: bytes = field(default=b"", repr=False)
    """The short form of the router's identity statement, if it has one."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Whose stream it is: the publisher's key, and what it calls the stream."""

    publisher: bytes
    label: bytes


@dataclass(frozen=True, slots=True)
class VerifiedPath:
    """Hops that lead to this router, and what providers that are trusted here say of each of them."""

    hops: tuple[Hop, ...]
    stated: tuple[Identity | None, ...]
    until: Instant


def add_hop(
    before: Sequence[Hop], stream: Stream, key: SigningKey, to: Principal, statement: bytes, *, now: Instant
) -> tuple[Hop, ...]:
    """Return the path of a stream as this router hands it to the next one."""
    until = Instant(now + HOP_S * SECOND)
    body = _body(before, stream, key.principal, to, until)
    return (*before, Hop(key.principal, until, key.sign(SignedKind.PATH, body), statement))


def verify_path(
    hops: Sequence[Hop],
    stream: Stream,
    *,
    sender: Principal,
    to: Principal,
    trust: IdentityTrust | None,
    now: Instant,
) -> VerifiedPath:
    """Return a path that leads over its routers to `to`, handed over by `sender`; raise if it does not."""
    if not 1 <= len(hops) <= HOPS_MAX or hops[-1].router != sender:
        raise _broken("the path does not end with the router that shows it")
    if len({one.router for one in hops}) < len(hops) or to in {one.router for one in hops}:
        raise _broken("a router is on the path twice")
    for place, one in enumerate(hops):
        if not now < one.until <= now + 2 * HOP_S * SECOND:
            raise _broken("a router said this at another time")
        then = to if place + 1 == len(hops) else hops[place + 1].router
        body = _body(hops[:place], stream, one.router, then, one.until)
        verify_signature(one.router, SignedKind.PATH, body, one.signature)
    stated = tuple(
        None if trust is None else stated_of(one.router, one.statement, trust, now) for one in hops
    )
    ends = [one.not_after for one in stated if one is not None]
    return VerifiedPath(tuple(hops), stated, min([one.until for one in hops] + ends))


def stated_of(router: Principal, statement: bytes, trust: IdentityTrust, now: Instant) -> Identity | None:
    """Return what a trusted provider says of a router now; None for nothing."""
    try:
        return trust.verified(statement, router, now).statement if statement else None
    except MaiaError:
        return None


def path_attributes(stated: Sequence[Identity | None]) -> Attributes:
    """Return what subscribers may require of a path, by what is said of each router on it."""
    found = [0 if one is None else one.attributes.get(TPM_ATTRIBUTE, 0) for one in stated]
    levels = [one if isinstance(one, int) and not isinstance(one, bool) else 0 for one in found]
    providers = {one.home for one in stated if one is not None}
    return {
        PATH_LEVEL: min(levels),
        PATH_TRUST: float(prod(1 - 10.0 ** -max(0, one) for one in levels)),
        PATH_ROUTERS: len(stated),
        PATH_PROVIDERS: len(providers) + sum(one is None for one in stated),
    }


def _body(before: Sequence[Hop], stream: Stream, router: Principal, to: Principal, until: Instant) -> bytes:
    behind = sha256(before[-1].signature).digest() if before else bytes(32)
    moment = int(until).to_bytes(8, "big", signed=True)
    return b"".join((stream.publisher, stream.label, router.key, to.key, behind, moment))


def _broken(sentence: str) -> BrokenCredential:
    return BrokenCredential("CREDENTIAL-PATH", sentence)


def hop_from_wire(router: bytes, until: int, signature: bytes, statement: bytes) -> Hop:
    """Return a hop as it came, which nothing was verified of."""
    return Hop(principal_from_bytes(router), Instant(until), signature, statement)
