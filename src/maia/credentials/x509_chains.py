"""Does an X.509 certificate lead to an authority that is trusted here, and what does it say of its subject?

An identity provider registers subjects by the certificates of a public-key
infrastructure (Gismo 4, figure 4: "validate cert"). The path is built and
verified by the library `cryptography` (RFC 5280: signatures, periods, constraints
of alternative names). Constraints of distinguished names (`x509_constraints.py`)
and revocation lists (`x509_lists.py`) are asked beside it. What is proved is
the subject's name, its key, and when the first certificate of the path ends.
Authorities have RSA or elliptic-curve keys, as the library asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from hashlib import sha256
from typing import Final, final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID

from maia.credentials.keys import Principal, principal_from_bytes
from maia.credentials.proof import Proof
from maia.credentials.x509_constraints import check_name_constraints
from maia.credentials.x509_lists import check_not_revoked
from maia.errors import BrokenCredential, MaiaError
from maia.events import Instant

X509_BYTES_MAX: Final = 1 << 14
X509_INTERMEDIATES_MAX: Final = 8
_PEM: Final = b"-----BEGIN"
_SEAL: Final = object()
_USAGES: Final = frozenset(
    {
        ExtendedKeyUsageOID.CLIENT_AUTH,
        ExtendedKeyUsageOID.EMAIL_PROTECTION,
        ExtendedKeyUsageOID.SMARTCARD_LOGON,
        ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    }
)
"""Uses by which a key proves a subject; a certificate that names none is for all."""
_UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion)


@final
@dataclass(frozen=True, slots=True)
class VerifiedX509(Proof):
    """A certificate that leads to a trusted authority, in force and not revoked when it was verified."""

    name: str
    """The subject as RFC 4514 writes it: `CN=anna,O=Norway`."""
    principal: Principal | None
    """The subject's key, if it is of the kind that principals have (Ed25519)."""
    fingerprint: bytes
    """SHA-256 of the certificate."""
    not_after: Instant
    """When the first certificate of the path ends."""
    # Not a field: `dataclasses.replace` therefore cannot carry it over to an altered copy.
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every maker but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_x509_chain makes a VerifiedX509")


def x509_from_file(data: bytes) -> list[bytes]:
    """Return the certificates in a file, in DER: one, or several in PEM with the subject's first."""
    if not data.lstrip().startswith(_PEM):
        return [data]
    try:
        return [one.public_bytes(Encoding.DER) for one in x509.load_pem_x509_certificates(data)]
    except _UNREADABLE:
        raise _broken("the certificates cannot be read: they are given in PEM or DER") from None


def key_of_x509(certificate: bytes) -> Principal:
    """Return the key of a certificate (DER), which nothing was verified of; refuse one of another kind."""
    try:
        key = _certificate(certificate).public_key()
    except _UNREADABLE:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise _broken(
            "the certificate's key is not Ed25519, which a principal's is: `maia key request` asks for one"
        )
    return principal_from_bytes(key.public_bytes_raw())


def verify_x509_chain(
    certificate: bytes,
    intermediates: Sequence[bytes],
    roots: Sequence[bytes],
    *,
    now: Instant,
    revocation_lists: Sequence[bytes] = (),
) -> VerifiedX509:
    """Return what a certificate (DER) proves that leads to one of the roots, over some of the others."""
    if len(intermediates) > X509_INTERMEDIATES_MAX:
        raise _broken(f"at most {X509_INTERMEDIATES_MAX} certificates lead to an authority")
    if not roots:
        raise _broken("no authority is trusted here")
    found = _certificate(certificate)
    policy = (
        verification.PolicyBuilder()
        .store(verification.Store([_certificate(one) for one in roots]))
        .time(now.to_datetime())
        .max_chain_depth(X509_INTERMEDIATES_MAX)
        .extension_policies(
            ca_policy=verification.ExtensionPolicy.webpki_defaults_ca(),
            ee_policy=verification.ExtensionPolicy.permit_all(),
        )
    )
    try:
        others = [_certificate(one) for one in intermediates]
        path = policy.build_client_verifier().verify(found, others).chain
        _check_subject(found)
        check_name_constraints(path)
        check_not_revoked(path, [_revocation_list(one) for one in revocation_lists], now)
        ends = min(Instant.from_datetime(one.not_valid_after_utc) for one in path)
        name, key = found.subject.rfc4514_string(), found.public_key()
    except verification.VerificationError as problem:
        raise _broken(f"the certificate leads to no authority that is trusted here: {problem}") from None
    except (*_UNREADABLE, x509.DuplicateExtension):
        raise _broken("the certificate says something that is not understood here") from None
    raw = key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else None
    try:
        principal = None if raw is None else principal_from_bytes(raw)
    except MaiaError as problem:
        raise _broken(problem.message) from problem
    if not name:
        raise _broken("the certificate names no subject")
    return VerifiedX509(name, principal, sha256(certificate).digest(), ends, _SEAL)


def _check_subject(certificate: x509.Certificate) -> None:
    """Refuse the certificate of an authority, and one whose key is not for signatures."""
    for extension in certificate.extensions:
        match extension.value:
            case x509.BasicConstraints(ca=True):
                raise _broken("the certificate is of an authority, and not of a subject")
            case x509.KeyUsage(digital_signature=False):
                raise _broken("the certificate's key is not for signatures")
            case x509.ExtendedKeyUsage() as usage if _USAGES.isdisjoint(usage):
                raise _broken("the certificate is for another use than to prove who its subject is")
            case x509.UnrecognizedExtension() if extension.critical:
                raise _broken("the certificate has a critical extension that is not understood here")
            case _:
                pass


def _certificate(data: bytes) -> x509.Certificate:
    if len(data) > X509_BYTES_MAX:
        raise _broken(f"a certificate has at most {X509_BYTES_MAX} bytes here")
    try:
        return x509.load_der_x509_certificate(data)
    except _UNREADABLE:
        raise _broken("a certificate cannot be read") from None


def _revocation_list(data: bytes) -> x509.CertificateRevocationList:
    try:
        is_pem = data.lstrip().startswith(_PEM)
        return x509.load_pem_x509_crl(data) if is_pem else x509.load_der_x509_crl(data)
    except _UNREADABLE:
        raise _broken("a revocation list cannot be read") from None


def _broken(sentence: str) -> BrokenCredential:
    return BrokenCredential("CREDENTIAL-X509", sentence)
