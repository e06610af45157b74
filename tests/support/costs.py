"""What does it cost to look at certificates? Counted, so that a busy machine changes nothing.

`counted()` counts Ed25519 checks, certificates that are read in full, and the
steps of every search. `stranger_pools` are what somebody without any right
can show: dense graphs of its own keys behind forgeries in the owner's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pytest

from maia.credentials import (
    Authority,
    Budget,
    Principal,
    SignedCertificate,
    SigningKey,
    certificate_from_bytes,
    certificate_to_bytes,
    keys,
)
from maia.credentials.documents import Document
from maia.events import AttributeUid
from maia.predicates import AllOf, Comparison, Operator
from maia.testing import grant

OWN_KEYS = tuple(SigningKey.from_seed((9_000 + number).to_bytes(32, "big")) for number in range(16))
STRANGER = SigningKey.from_seed(b"\x77" * 32)


@dataclass
class Costs:
    """How much was done since the counting began."""

    checks: int = 0
    read: int = 0
    steps: int = 0


@contextmanager
def counted() -> Iterator[Costs]:
    """Count what is done with certificates while the body runs, in every thread."""
    costs = Costs()
    verifier, reader, spend = keys._verifier, Document.from_known_parts, Budget._count

    class Checked:
        def __init__(self, key: bytes) -> None:
            self._key = verifier(key)

        def verify(self, signature: bytes, data: bytes) -> None:
            costs.checks += 1
            self._key.verify(signature, data)

    def read(kind: Document[Any, Any], data: bytes) -> Any:
        costs.read += 1
        return reader(kind, data)

    def count(self: Budget, price: int) -> None:
        costs.steps += price
        spend(self, price)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "_verifier", Checked)
        patch.setattr(Document, "from_known_parts", read)
        patch.setattr(Budget, "_count", count)
        yield costs


def forged(issuer: Principal, subject: Principal, authority: Authority) -> SignedCertificate:
    """Return a certificate in somebody else's name: everything is in order but the signature."""
    honest = certificate_to_bytes(grant(STRANGER, subject, authority, may_delegate=True))
    return certificate_from_bytes(honest.replace(STRANGER.principal.key, issuer.key, 1))


def own(issuer: SigningKey, subject: Principal, authority: Authority, number: int) -> SignedCertificate:
    """Return a certificate that anybody can make: by a key of one's own, under terms of its own."""
    terms = AllOf(
        tuple(Comparison(AttributeUid(f"a{number}-{part}"), Operator.EQ, "x") for part in range(12))
    )
    return grant(issuer, subject, replace(authority, condition=terms), may_delegate=True)


@lru_cache
def of_ones_own(authority: Authority, subject: Principal, size: int) -> tuple[SignedCertificate, ...]:
    """Return certificates between one's own keys, as dense as can be, the first of which end at `subject`."""
    last = [own(one, subject, authority, number) for number, one in enumerate(OWN_KEYS)]
    pairs = [(one, other) for one in OWN_KEYS for other in OWN_KEYS if one is not other]
    between = [
        own(one, other.principal, authority, 100 + number)
        for number, (one, other) in enumerate(pairs[: size - len(last)])
    ]
    return (*last, *between)


def stranger_pools(
    owner: Principal, authority: Authority, known: SignedCertificate | None = None, *, size: int = 254
) -> dict[str, Callable[[], tuple[SignedCertificate, ...]]]:
    """Return what a stranger can show, by name; `known` is a genuine certificate that it has seen."""
    me = STRANGER.principal
    mine = of_ones_own(authority, me, size)

    def one_forgery() -> tuple[SignedCertificate, ...]:
        return (forged(owner, OWN_KEYS[0].principal, authority), *mine)

    def only_forgeries() -> tuple[SignedCertificate, ...]:
        made = [
            own(STRANGER, me, replace(authority), 1_000 + number) for number in range(size)
        ]  # all different, and then in the owner's name
        return tuple(
            certificate_from_bytes(certificate_to_bytes(one).replace(me.key, owner.key, 1)) for one in made
        )

    def behind_a_genuine_one() -> tuple[SignedCertificate, ...]:
        assert known is not None
        holder: Any = known.certificate.subject
        return (known, forged(holder, OWN_KEYS[0].principal, authority), *mine)

    pools = {"one forgery": one_forgery, "only forgeries": only_forgeries}
    return pools if known is None else {**pools, "behind a genuine one": behind_a_genuine_one}
