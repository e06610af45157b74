"""Whom does an X.509 name mean in Maia, and how does its holder prove it?

The name becomes one in the namespace of the grantor (dissertation 2.6.2), made of the authority that
the grantor names and the whole distinguished name: `x509.` and a digest. So it is equal to no name that
people choose, and a name that only looks alike is another one. Rights are granted to it as to any local
name. Its holder makes a proof: the chain of certificates, and a signature with the key of its
certificate that binds the chain to the key that it has in Maia, for this grantor. The grantor
verifies it and issues an ordinary name certificate, which is all that brokers ever see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from hashlib import sha256
from typing import Final, TypeAlias, final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from maia.canonical import Limits, write_canonical
from maia.canonical.fields import each, many, octets, one, record
from maia.credentials.certificate import NameCertificate, Validity
from maia.credentials.documents import KEY, Document, dates
from maia.credentials.keys import (
    LocalName,
    Principal,
    SignedKind,
    SigningKey,
    principal_to_expression,
    verify_signature,
)
from maia.credentials.proof import Proof
from maia.credentials.x509_chains import (
    X509_BYTES_MAX,
    X509_INTERMEDIATES_MAX,
    VerifiedX509,
    verify_x509_chain,
)
from maia.errors import BadInput, BrokenCredential
from maia.events import SECOND, Instant

PREFIX: Final = "x509."
"""How local names of X.509 subjects begin; no other does."""
PROOF_S: Final = 7 * 24 * 3600
"""How long a proof can be shown."""
_SKEW_S: Final = 300
_SIGNATURE_MAX: Final = 1024
_NAME_MAX: Final = 1024
_BOUND: Final = b"maia/1 x509 key binding\x00"
_SEAL: Final = object()

X509Key: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | Ed25519PrivateKey


class BadX509Proof(BrokenCredential):
    """A proof of an X.509 name cannot be read, is for another, or does not hold."""

    code = "CREDENTIAL-X509-PROOF"


# ---------------------------------------------------------------- names


def x509_subject(text: str, authority: bytes, *, space: Principal) -> LocalName:
    """Return the local name, in the grantor's namespace, of a subject that an authority (DER) certifies."""
    return local_name(distinguished_name(text), authority, space=space)


def distinguished_name(text: str) -> str:
    """Return a distinguished name as RFC 4514 writes it.

    What people type has ASCII letters only: no other letter that looks like one of them.
    """
    if not text.isascii() or not text.isprintable():
        shown = text[:64].encode("unicode_escape").decode()
        raise BadInput(
            "INPUT-X509-NAME",
            f"`{shown}` has letters beyond ASCII, which may look like others: name the subject by its proof",
        )
    try:
        return x509.Name.from_rfc4514_string(text).rfc4514_string()
    except ValueError:
        raise BadInput(
            "INPUT-X509-NAME", f"`{text[:64]}` is not a distinguished name such as `CN=Anna,O=Norway`"
        ) from None


def local_name(name: str, authority: bytes, *, space: Principal) -> LocalName:
    """Return the local name of a distinguished name, in its RFC 4514 form."""
    if not 0 < len(name) <= _NAME_MAX:
        raise BadInput("INPUT-X509-NAME", f"a distinguished name has 1 to {_NAME_MAX} characters here")
    digest = sha256(b"maia/1 x509 name\x00" + sha256(authority).digest() + name.encode()).hexdigest()
    return LocalName(space, (PREFIX + digest,))


def checked_local_name(name: str) -> str:
    """Return a name that people choose; refuse one that could be taken for a proved X.509 name."""
    if name.lower().startswith(PREFIX):
        raise BadInput(
            "INPUT-X509-NAME", f"names that begin with `{PREFIX}` are of X.509 subjects: show their proof"
        )
    return name


# ---------------------------------------------------------------- proofs


@dataclass(frozen=True, slots=True)
class X509Proof:
    """`principal` is the key in Maia of the subject of the first certificate, says its X.509 key."""

    principal: Principal
    grantor: Principal
    at: Instant
    certificates: tuple[bytes, ...] = field(repr=False)
    binding: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SignedX509Proof:
    """A proof, signed with the subject's key in Maia."""

    proof: X509Proof
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)


@final
@dataclass(frozen=True, slots=True)
class VerifiedX509Subject(Proof):
    """A principal that has proved an X.509 name to a grantor."""

    name: str
    """The distinguished name, as RFC 4514 writes it."""
    local: LocalName
    principal: Principal
    not_after: Instant
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every maker but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_x509_proof makes a VerifiedX509Subject")

    def name_certificate(self, validity: Validity) -> NameCertificate:
        """Return the certificate, unsigned, by which the grantor says so; it ends with the chain."""
        ends = Instant(self.not_after - self.not_after % SECOND)
        until = validity.intersection(Validity(None, ends))
        if until.is_empty:
            raise BadInput("INPUT-X509-NAME", "the X.509 certificate ends before the period begins")
        (name,) = self.local.names
        comment = self.name.encode("unicode_escape").decode()[:128]
        return NameCertificate(self.local.space, name, self.principal, until, comment)


def make_x509_proof(
    certificates: Sequence[bytes], x509_key: X509Key, key: SigningKey, *, grantor: Principal, at: Instant
) -> SignedX509Proof:
    """Bind the chain of a subject (DER, its own first) to its key in Maia, for one grantor."""
    at, given = Instant(at - at % SECOND), tuple(certificates)
    bound = _bound(key.principal, grantor, at, given)
    match x509_key:
        case rsa.RSAPrivateKey():
            signature = x509_key.sign(bound, _PSS, SHA256())
        case ec.EllipticCurvePrivateKey():
            signature = x509_key.sign(bound, ec.ECDSA(SHA256()))
        case _:
            signature = x509_key.sign(bound)
    return _PROOF.sign(X509Proof(key.principal, grantor, at, given, signature), key, by=key.principal)


def verify_x509_proof(
    signed: SignedX509Proof,
    *,
    authority: bytes,
    grantor: Principal,
    now: Instant,
    revocation_lists: Sequence[bytes] = (),
) -> VerifiedX509Subject:
    """Return whom a proof proves, by an authority (DER) that the grantor has named, or raise why not."""
    said = _PROOF.read_again(signed).proof
    verify_signature(said.principal, SignedKind.X509_PROOF, signed.body, signed.signature)
    if said.grantor != grantor:
        raise BadX509Proof(f"the proof is for `{said.grantor}`, and not for you")
    if not now - PROOF_S * SECOND <= said.at <= now + _SKEW_S * SECOND:
        raise BadX509Proof(f"the proof was made at {said.at}: it holds for seven days; ask for a new one")
    first, *others = said.certificates
    found: VerifiedX509 = verify_x509_chain(
        first, others, [authority], now=now, revocation_lists=revocation_lists
    )
    _check_binding(first, _bound(said.principal, said.grantor, said.at, said.certificates), said.binding)
    local = local_name(found.name, authority, space=grantor)
    return VerifiedX509Subject(found.name, local, said.principal, found.not_after, _SEAL)


def _check_binding(certificate: bytes, bound: bytes, signature: bytes) -> None:
    """Raise unless the key of a certificate has signed."""
    key = x509.load_der_x509_certificate(certificate).public_key()
    try:
        match key:
            case rsa.RSAPublicKey():
                key.verify(signature, bound, _PSS, SHA256())
            case ec.EllipticCurvePublicKey():
                key.verify(signature, bound, ec.ECDSA(SHA256()))
            case Ed25519PublicKey():
                key.verify(signature, bound)
            case _:
                raise BadX509Proof("the certificate has a key of a kind that is not used here")
    except InvalidSignature:
        raise BadX509Proof("the key of the certificate did not sign this proof") from None


_PSS: Final = padding.PSS(padding.MGF1(SHA256()), SHA256.digest_size)


def _bound(principal: Principal, grantor: Principal, at: Instant, certificates: Sequence[bytes]) -> bytes:
    """Return what the X.509 key signs."""
    keys = (principal_to_expression(principal), principal_to_expression(grantor))
    return _BOUND + write_canonical((b"binding", *keys, str(int(at)).encode(), *certificates))


_WRONG: Final = (BadX509Proof, "a field of the proof is missing, unknown, repeated or out of order")
_CERTIFICATES_MAX: Final = X509_INTERMEDIATES_MAX + 1
_PROOF: Final = Document[X509Proof, SignedX509Proof](
    record(
        b"x509-proof",
        X509Proof,
        _WRONG,
        version_of="proof format",
        principal=one(KEY),
        grantor=one(KEY),
        at=one(dates(BadX509Proof, "a proof has the moment at which it was made")),
        certificates=many(
            each(
                octets(
                    1, X509_BYTES_MAX, (BadX509Proof, f"a certificate has at most {X509_BYTES_MAX} bytes")
                ),
                _CERTIFICATES_MAX,
                (BadX509Proof, f"a proof has 1 to {_CERTIFICATES_MAX} certificates, and {{}} were given"),
                least=1,
            )
        ),
        binding=one(octets(1, _SIGNATURE_MAX, (BadX509Proof, "a proof has the signature of the X.509 key"))),
    ),
    "proof",
    BadX509Proof,
    Limits(size_max=1 << 18, depth_max=6, atom_max=X509_BYTES_MAX),
    lambda _: SignedKind.X509_PROOF,
    SignedX509Proof,
)

x509_proof_to_text = _PROOF.to_text
x509_proof_from_text = _PROOF.from_text
x509_proof_to_bytes = _PROOF.to_bytes
x509_proof_from_bytes = _PROOF.from_bytes
