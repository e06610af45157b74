"""How does a certificate travel to its subject, so that no broker on the way reads it?

As an event of the issuer's stream of certificates (dissertation 6.5.2). It names the subject, by which it is
routed, and holds the certificate behind those that lead to it, sealed to the subject's key. Nobody need
believe the event: what is inside are certificates, which prove themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from maia.canonical import Limits, read_canonical, write_canonical
from maia.credentials import (
    Principal,
    SignedCertificate,
    SigningKey,
    certificate_from_bytes,
    certificate_to_bytes,
)
from maia.credentials.chains.chain import VerificationCache
from maia.errors import BrokenCredential
from maia.sealing.keys.delivery import SubjectKey, encryption_key_of, seal_to
from maia.types.verified import CERTIFICATES, SUBJECT

PUSHED_MAX: Final = 32
"""How many certificates are in one event."""
PUSHED_BYTES_MAX: Final = 1 << 20
_LIMITS: Final = Limits(size_max=PUSHED_BYTES_MAX, depth_max=2, atom_max=PUSHED_BYTES_MAX)
_INFO: Final = b"maia/1 pushed certificates\x00"


def event_of(
    certificates: Sequence[SignedCertificate],
    *,
    issuer: Principal,
    subject: Principal,
    random: Callable[[int], bytes],
) -> dict[str, object]:
    """Return the event that brings a certificate, the last of these, to its subject."""
    content = write_canonical((b"certificates", *(certificate_to_bytes(one) for one in certificates)))
    sealed = seal_to(encryption_key_of(subject), content, _purpose(issuer, subject), random)
    return {SUBJECT.name: str(subject), CERTIFICATES.name: sealed}


def pushed_in(event: object, *, issuer: Principal, key: SigningKey) -> tuple[SignedCertificate, ...]:
    """Open what was sent to the holder of `key`: certificates whose signatures hold, the new one last.

    The last one is of the stream's issuer, to the holder.
    """
    if not isinstance(event, bytes) or len(event) > PUSHED_BYTES_MAX:
        raise BrokenCredential("CREDENTIAL-PUSHED", "an event of a stream of certificates has none")
    content = SubjectKey(key).open(event, _purpose(issuer, key.principal))
    found = read_canonical(content, _LIMITS)
    if (
        not isinstance(found, tuple)
        or found[:1] != (b"certificates",)
        or not 1 < len(found) <= PUSHED_MAX + 1
    ):
        raise BrokenCredential("CREDENTIAL-PUSHED", "what was pushed is no list of certificates")
    cache = VerificationCache()
    certificates = tuple(certificate_from_bytes(one) for one in found[1:] if isinstance(one, bytes))
    for one in certificates:
        cache.check(one)
    last = certificates[-1].certificate
    if (last.issuer, last.subject) != (issuer, key.principal):
        raise BrokenCredential("CREDENTIAL-PUSHED", "what was pushed is of another issuer, or for another")
    return certificates


def _purpose(issuer: Principal, subject: Principal) -> bytes:
    return _INFO + issuer.key + subject.key
