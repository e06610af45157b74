"""Is this a key, and did that key sign these bytes?

Every reader of a certificate or a signed definition asks here. A public
key is accepted in exactly one form, and never one of the few keys for which
every signature can be forged. A signature is accepted for exactly one kind of object, so
that what was signed as a certificate is never taken for a type definition.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NoReturn, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from maia.canonical import SExpression
from maia.errors import BrokenCredential

# Who is who? A principal is a public key and nothing else.


@dataclass(frozen=True, slots=True, order=True)
class Principal:
    """A public Ed25519 key: 32 bytes, canonical and of large order (`principal_from_bytes` checks it)."""

    key: bytes

    def __str__(self) -> str:
        """Return `ed25519:` and the key in hexadecimal, the one text form of a principal."""
        return f"ed25519:{self.key.hex()}"


@dataclass(frozen=True, slots=True, order=True)
class QuorumId:
    """The identity of a threshold owner: SHA-256 of its founding constitution."""

    digest: bytes

    def __str__(self) -> str:
        """Return `quorum:` and the digest in hexadecimal."""
        return f"quorum:{self.digest.hex()}"


Owner: TypeAlias = Principal | QuorumId
"""Whose name is it? The root of every chain for a resource."""


@dataclass(frozen=True, slots=True)
class LocalName:
    """A name in a principal's namespace, such as Met's `Met Brokers`; more than one word links names."""

    space: Principal
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Threshold:
    """At least `needed` of `members` must agree; members may be thresholds themselves."""

    needed: int
    members: tuple[Subject, ...]


Subject: TypeAlias = Principal | LocalName | Threshold
"""The subject of a certificate."""


KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_FIELD: Final = 2**255 - 19
_GROUP_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_Y_BITS: Final = 2**255 - 1

# The y of the eight points of small order. For such a "key" a signature can be made without any secret.
_SMALL_ORDER_Y: Final = frozenset(
    {
        0,
        1,
        _FIELD - 1,
        int.from_bytes(
            bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
        ),
        int.from_bytes(
            bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
        ),
    }
)

_TEXT: Final = re.compile(r"ed25519:([0-9a-f]{64})", re.ASCII)
_REMEMBERED_KEYS: Final = 4096


class BadKey(BrokenCredential):
    """Bytes or a text are not a public key that Maia accepts."""

    code = "CREDENTIAL-KEY"


class BadSignature(BrokenCredential):
    """A signature was not made by this key, for this kind of object, over these bytes."""

    code = "CREDENTIAL-SIGNATURE"


class SignedKind(Enum):
    """What a signature is for. Each kind signs different bytes, whatever the object says."""

    CERTIFICATE = b"certificate"
    NAME_CERTIFICATE = b"name-certificate"
    TYPE_DEFINITION = b"type-definition"
    QUORUM_CHANGE = b"quorum-change"
    REQUEST = b"request"
    EPOCH = b"epoch"
    MEMBER_KEY = b"member-key"
    FRAME = b"frame"
    APPOINTMENT = b"appointment"
    API_REQUEST = b"api-request"
    VALIDITY_STATEMENT = b"validity-statement"
    ONE_TIME_ANSWER = b"one-time-answer"
    IDENTITY = b"identity"
    LINK_REQUEST = b"link-request"
    LINK_RESPONSE = b"link-response"
    AUTHORSHIP = b"authorship"
    AGGREGATE = b"aggregate"
    ANSWER_NAME = b"answer-name"
    X509_PROOF = b"x509-proof"
    PATH = b"path"
    LOG_PLACE = b"log-place"

    def __init__(self, word: bytes) -> None:
        """Write the prefix out once; looking it up by the member costs more than the rest of a check."""
        self.prefix = b"maia/1/" + word + b"\x00"


class SigningKey:
    """A secret key. It signs, and it keeps quiet: no text, pickle or error shows its seed."""

    __slots__ = ("_principal", "_secret")

    def __init__(self, secret: Ed25519PrivateKey) -> None:
        """Take the key as the cryptographic library holds it."""
        self._secret = secret
        self._principal = Principal(secret.public_key().public_bytes_raw())

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """Return the key that grows from 32 secret random bytes."""
        if len(seed) != KEY_BYTES:
            raise BadKey(f"the seed of a key has {KEY_BYTES} bytes, and {len(seed)} were given")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def principal(self) -> Principal:
        """Return the public half."""
        return self._principal

    def x509_request(self, name: str) -> bytes:
        """Return the request (PKCS#10, PEM) for an X.509 certificate of this key, for a name of RFC 4514."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding

        try:
            subject = x509.Name.from_rfc4514_string(name)
        except ValueError:
            raise BadKey(f"`{name[:64]}` is no X.509 name: write one like `CN=anna,O=Norway`") from None
        made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(self._secret, None)
        return made.public_bytes(Encoding.PEM)

    def sign(self, kind: SignedKind, body: bytes) -> bytes:
        """Sign `body` as an object of `kind`."""
        return self._secret.sign(kind.prefix + body)

    def reveal_seed(self) -> bytes:
        """Return the secret seed. Only key files and TLS have a reason to ask."""
        return self._secret.private_bytes_raw()

    def __repr__(self) -> str:
        """Say which key it is, never what it is."""
        return f"SigningKey(principal={self._principal})"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied: a secret leaves memory through a key file only."""
        raise TypeError("a signing key cannot be pickled")


@lru_cache(maxsize=_REMEMBERED_KEYS)
def principal_from_bytes(key: bytes) -> Principal:
    """Return the principal with this public key, refused unless it is canonical and of large order.

    A key that lies on no point of the curve is not detected here, which would
    cost as much as a verification; nothing verifies under it.
    """
    if len(key) != KEY_BYTES:
        raise BadKey(f"a public key has {KEY_BYTES} bytes, and {len(key)} were given")
    y = int.from_bytes(key, "little") & _Y_BITS
    if y >= _FIELD:
        raise BadKey("a public key is not in its canonical form")
    # The only points with x = 0, whose sign bit would be a second way to write them, are in here too.
    if y in _SMALL_ORDER_Y:
        raise BadKey("a public key of small order has no secret and is refused")
    return Principal(bytes(key))


def principal_from_text(text: str) -> Principal:
    """Read `ed25519:` and 64 lower-case hexadecimal digits, the one text form of a principal."""
    found = _TEXT.fullmatch(text)
    if not found:
        shown = text[:80].encode("unicode_escape").decode()
        raise BadKey(f"`{shown}` is not a key: write `ed25519:` and 64 lower-case hexadecimal digits")
    return principal_from_bytes(bytes.fromhex(found.group(1)))


def verify_signature(principal: Principal, kind: SignedKind, body: bytes, signature: bytes) -> None:
    """Return if `principal` signed `body` as an object of `kind`; raise `BadSignature` if not."""
    if len(signature) != SIGNATURE_BYTES:
        raise BadSignature(f"a signature has {SIGNATURE_BYTES} bytes, and {len(signature)} were given")
    # With S and S + L both accepted, one signature would have two forms. Most S are below 2^252, which the
    # last byte tells, and need no large number.
    if signature[-1] >= 0x10 and int.from_bytes(signature[KEY_BYTES:], "little") >= _GROUP_ORDER:
        raise BadSignature("a signature is not in its canonical form")
    try:
        _verifier(principal.key).verify(signature, kind.prefix + body)
    except InvalidSignature:
        raise BadSignature(
            f"the signature is not one by `{principal}` over this {kind.value.decode().replace('-', ' ')}"
        ) from None


def same_secret(one: bytes, other: bytes) -> bool:
    """Compare two secrets in a time that does not tell where they differ. The only such function."""
    return hmac.compare_digest(one, other)


@lru_cache(maxsize=_REMEMBERED_KEYS)
def _verifier(key: bytes) -> Ed25519PublicKey:
    principal_from_bytes(key)
    return Ed25519PublicKey.from_public_bytes(key)


class BadCertificate(BrokenCredential):
    """A certificate is not written in the one form that Maia understands in full."""

    code = "CREDENTIAL-FORMAT"


def principal_to_expression(principal: Principal) -> SExpression:
    """Return `(ed25519 KEY)`."""
    return (b"ed25519", principal.key)


def principal_from_expression(expression: SExpression) -> Principal:
    """Read `(ed25519 KEY)`, strictly."""
    match expression:
        case (b"ed25519", bytes(key)):
            return principal_from_bytes(key)
    raise BadCertificate("a principal must be written `(ed25519 KEY)`")
