"""Has this signature been checked before, and what did this chain amount to?

An Ed25519 check costs a hundred times what everything else about a
certificate costs, and its answer never changes; so brokers remember it
(dissertation 5.3.3). What does change with time, validity and revocation, is
never remembered here: a cached certificate still expires. Memory is bounded
by number and by bytes, for any peer can sign certificates and make them long:
of the signatures, the least recently used is forgotten first.

A signature is remembered with the id, the signature bytes and the content
that was checked. None of the three alone is enough: a second signature, or a
certificate object altered beside its signed bytes, is a new question. Of two
good signatures of one text, which no honest issuer makes, the later is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final

from maia.bounded_map import BoundedMap
from maia.credentials.certificate import SignedCertificate
from maia.credentials.chains.errors import Budget, shown_id
from maia.credentials.chains.reduction import FiveTuple, Reducible, reduce_chain
from maia.credentials.encoding.certificates import (
    certificate_body,
    certificate_from_bytes,
    signed_kind,
    signed_part,
)
from maia.credentials.keys import BadSignature, principal_from_bytes, verify_signature
from maia.errors import BrokenCredential

CERTIFICATES_MAX: Final = 65_536
REDUCTIONS_MAX: Final = 2_048
CERTIFICATE_BYTES_MAX: Final = 32 << 20
"""How many bytes the remembered certificates have together, and again those of remembered chains."""
_FORGED_MAX: Final = 1024
"""Bad signatures that are remembered, so that showing one again costs no check: 96 bytes each."""


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """A chain to be reduced again and again: equal to itself alone, so no memo looks inside."""

    certificates: tuple[Reducible, ...]


def _reduced_links(links: Links) -> FiveTuple:
    return reduce_chain(links.certificates)


class VerificationCache:
    """Signatures that were found good, and reductions that were worked out. Never validity.

    `cache.reduce(links)` returns what a chain amounts to, at once if the same
    `Links` were reduced before.
    """

    __slots__ = (
        "_bytes_max",
        "_certificates",
        "_chain_bytes",
        "_chains",
        "_forged",
        "_forget_reductions",
        "_read",
        "_reductions_max",
        "reduce",
    )

    def __init__(
        self,
        *,
        certificates_max: int = CERTIFICATES_MAX,
        reductions_max: int = REDUCTIONS_MAX,
        bytes_max: int = CERTIFICATE_BYTES_MAX,
    ) -> None:
        """Make an empty cache of bounded size."""
        self._reductions_max, self._bytes_max = reductions_max, bytes_max
        self._chain_bytes = 0
        self._certificates: BoundedMap[bytes, SignedCertificate] = BoundedMap(
            certificates_max, bytes_max=bytes_max, size_of=lambda _, signed: len(signed.body)
        )
        # A method of ours would cost more than the lookup, so the memo itself is what is called.
        reduce = lru_cache(reductions_max)(_reduced_links)
        self.reduce: Callable[[Links], FiveTuple] = reduce
        self._forget_reductions = reduce.cache_clear
        # By the identity of a tuple, which is a key only while the tuple lives; so the tuple is kept too.
        self._chains: dict[int, tuple[tuple[SignedCertificate, ...], object]] = {}
        self._read: BoundedMap[bytes, SignedCertificate] = BoundedMap(
            reductions_max, bytes_max=bytes_max, size_of=lambda data, _: len(data)
        )
        self._forged: BoundedMap[tuple[bytes, bytes], None] = BoundedMap(_FORGED_MAX)

    def __len__(self) -> int:
        """Return how many signatures are remembered."""
        return len(self._certificates)

    def read(self, data: bytes) -> SignedCertificate:
        """Read a certificate as strictly as ever, at once if the same bytes were read before.

        Nothing is said about its signature: that is asked with `check`.
        """
        known = self._read.get(data)
        if known is None:
            known = certificate_from_bytes(data)
            self._read.put(data, known)
        return known

    def knows(self, signed: SignedCertificate) -> bool:
        """Say whether the signature of exactly this certificate was found good before."""
        kept = self._certificates.get(signed.id)
        if kept is None or not (kept is signed or _is_same(kept, signed)):
            return False
        self._certificates.use(signed.id)
        return True

    def check(self, signed: SignedCertificate) -> None:
        """Check a signature, or remember that it was checked."""
        if not self.knows(signed):
            check_signature(signed)
            self._remember(signed)

    def read_checked(self, data: bytes, budget: Budget) -> SignedCertificate:
        """Read a certificate whose signature holds; it is checked over the bytes as they are, before.

        A forged certificate costs one check, and is not parsed.
        """
        part = signed_part(data)
        key = (sha256(part.body).digest(), part.signature)
        known = self._certificates.get(key[0])
        if known is not None and (known.body, known.signature) == (part.body, part.signature):
            return known
        if key in self._forged:
            raise BadSignature("the signature was found bad before")
        budget.spend_check()
        try:
            verify_signature(principal_from_bytes(part.issuer), part.kind, part.body, part.signature)
        except BadSignature:
            self._forged.put(key, None)
            raise
        budget.spend_reading(len(data))
        signed = certificate_from_bytes(data)
        self._remember(signed)
        return signed

    def _remember(self, signed: SignedCertificate) -> None:
        self._certificates.put(signed.id, signed)

    def chain_of(self, certificates: tuple[SignedCertificate, ...]) -> object | None:
        """Return what the verifier remembered for exactly this tuple of certificates."""
        known = self._chains.get(id(certificates))
        return known[1] if known is not None and known[0] is certificates else None

    def remember_chain(self, certificates: tuple[SignedCertificate, ...], chain: object) -> None:
        """Keep what the verifier found; the verifier checks root, subject and time again."""
        size = sum(len(signed.body) for signed in certificates)
        self._chain_bytes += size
        if len(self._chains) >= self._reductions_max or self._chain_bytes > self._bytes_max:
            self._chains.clear()  # it fills again at once with what is in use
            self._forget_reductions()
            self._chain_bytes = size
        self._chains[id(certificates)] = (certificates, chain)

    def exported(self) -> tuple[SignedCertificate, ...]:
        """Return the remembered certificates, the least recently used first, to be written to disk."""
        return tuple(self._certificates.values())

    @classmethod
    def reloaded(
        cls, certificates: Iterable[SignedCertificate], *, certificates_max: int = CERTIFICATES_MAX
    ) -> VerificationCache:
        """Return a cache of what holds among certificates read back from disk.

        A file on disk is a hint on what to check early, never a proof: each
        signature is checked again, and what fails is left out.
        """
        cache = cls(certificates_max=certificates_max)
        for signed in certificates:
            try:
                cache.check(signed)
            except BrokenCredential:
                continue
        return cache


def check_signature(signed: SignedCertificate) -> None:
    """Return if the issuer signed the very bytes that say what `certificate` says.

    The decision is made on `certificate` and the signature is over `body`; an
    object whose parts were not read together has them compared here first.
    """
    certificate = signed.certificate
    if not signed.is_as_signed and not _says_what_was_signed(signed):
        raise BadSignature(f"certificate {shown_id(signed.id)} does not say what was signed")
    try:
        verify_signature(certificate.issuer, signed_kind(certificate), signed.body, signed.signature)
    except BadSignature as problem:
        raise BadSignature(f"certificate {shown_id(signed.id)}: {problem.message}") from problem


def _is_same(kept: SignedCertificate, signed: SignedCertificate) -> bool:
    """Compare what was checked with what is shown: bytes with bytes, and content with content."""
    if kept.body != signed.body or kept.signature != signed.signature:
        return False
    # What was read from equal bytes is equal; anything else is compared field by field.
    return (kept.is_as_signed and signed.is_as_signed) or kept.certificate == signed.certificate


def _says_what_was_signed(signed: SignedCertificate) -> bool:
    return sha256(signed.body).digest() == signed.id and certificate_body(signed.certificate) == signed.body
