"""Has this signature been checked before, and what did this chain amount to?

An Ed25519 check costs a hundred times what everything else about a
certificate costs, and its answer never changes; so brokers remember it
(dissertation 5.3.3). What does change with time, validity and revocation, is
never remembered here: a cached certificate still expires. Memory is bounded,
the least recently used goes first.

A signature is remembered under the id, the signature bytes and the content
that was checked. None of the three alone is enough: a second signature, or a
certificate object altered beside its signed bytes, is a new question.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Generic, TypeVar

from maia.credentials.broken_chains import shown_id
from maia.credentials.certificate import SignedCertificate
from maia.credentials.encoding import certificate_body, signed_kind
from maia.credentials.keys import BadSignature, verify_signature
from maia.credentials.reduction import FiveTuple, Reducible, reduce_chain
from maia.errors import BrokenCredential

__all__ = ["CERTIFICATES_MAX", "REDUCTIONS_MAX", "VerificationCache", "check_signature"]

CERTIFICATES_MAX: Final = 65_536
REDUCTIONS_MAX: Final = 8_192

_Key = TypeVar("_Key", bound=Hashable)
_Kept = TypeVar("_Kept")


class _Recent(Generic[_Key, _Kept]):
    """A dictionary that forgets what was not asked for longest."""

    __slots__ = ("_entries", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._entries: OrderedDict[_Key, _Kept] = OrderedDict()

    def get(self, key: _Key) -> _Kept | None:
        kept = self._entries.get(key)
        if kept is not None:
            self._entries.move_to_end(key)
        return kept

    def put(self, key: _Key, kept: _Kept) -> None:
        self._entries[key] = kept
        self._entries.move_to_end(key)
        if len(self._entries) > self.size_max:
            self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> tuple[_Kept, ...]:
        return tuple(self._entries.values())


@dataclass(frozen=True, slots=True)
class _Reduction:
    """A chain that was reduced, kept alive so that its identity is not given to another object."""

    links: tuple[Reducible, ...]
    result: FiveTuple


class VerificationCache:
    """Signatures that were found good, and reductions that were worked out. Never validity."""

    __slots__ = ("_certificates", "_chains", "_reductions")

    def __init__(
        self, *, certificates_max: int = CERTIFICATES_MAX, reductions_max: int = REDUCTIONS_MAX
    ) -> None:
        """Make an empty cache of bounded size."""
        self._certificates: _Recent[tuple[bytes, bytes], SignedCertificate] = _Recent(certificates_max)
        self._reductions: _Recent[int, _Reduction] = _Recent(reductions_max)
        self._chains: _Recent[int, tuple[tuple[SignedCertificate, ...], object]] = _Recent(reductions_max)

    def __len__(self) -> int:
        """Return how many signatures are remembered."""
        return len(self._certificates)

    def knows(self, signed: SignedCertificate) -> bool:
        """Say whether the signature of exactly this certificate was found good before."""
        kept = self._certificates.get((signed.id, signed.signature))
        if kept is None:
            return False
        return kept is signed or (kept.body == signed.body and kept.certificate == signed.certificate)

    def check(self, signed: SignedCertificate) -> None:
        """Check a signature, or remember that it was checked."""
        if not self.knows(signed):
            check_signature(signed)
            self._certificates.put((signed.id, signed.signature), signed)

    def reduce(self, links: tuple[Reducible, ...]) -> FiveTuple:
        """Return what `links` amount to, at once if the same tuple was reduced before."""
        # The identity of a tuple is a key only while the tuple lives, which the entry sees to.
        known = self._reductions.get(id(links))
        if known is None or known.links is not links:
            known = _Reduction(links, reduce_chain(links))
            self._reductions.put(id(links), known)
        return known.result

    def chain_of(self, certificates: tuple[SignedCertificate, ...]) -> object | None:
        """Return what the verifier remembered for exactly this tuple of certificates."""
        known = self._chains.get(id(certificates))
        return known[1] if known is not None and known[0] is certificates else None

    def remember_chain(self, certificates: tuple[SignedCertificate, ...], chain: object) -> None:
        """Keep what the verifier found; the verifier checks roots, subjects and time again."""
        self._chains.put(id(certificates), (certificates, chain))

    def exported(self) -> tuple[SignedCertificate, ...]:
        """Return the remembered certificates, the least recently used first, to be written to disk."""
        return self._certificates.items()

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


def _says_what_was_signed(signed: SignedCertificate) -> bool:
    return sha256(signed.body).digest() == signed.id and certificate_body(signed.certificate) == signed.body
