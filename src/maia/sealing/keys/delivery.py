"""How does a key reach one member alone?

A member makes an encryption key for one session with one manager and signs
it. The manager seals what is meant for this member to that key (HPKE, RFC
9180: X25519, HKDF-SHA256, AES-256-GCM). The secret half never leaves the
member's memory and goes with the session, so a recording of the link opens
nothing later, even with stolen signing keys.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha512
from typing import Final, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from maia.canonical import write_canonical
from maia.credentials import Principal, SignedKind, SigningKey, verify_signature
from maia.credentials.keys import principal_to_expression
from maia.errors import BrokenCredential, ProtocolViolation

ENCRYPTION_KEY_BYTES: Final = 32
_FIELD: Final = 2**255 - 19

_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_KEM_ID: Final = b"KEM\x00\x20"
_HPKE_ID: Final = b"HPKE\x00\x20\x00\x01\x00\x02"
_BASE_MODE: Final = b"\x00"
_PROBE: Final = X25519PrivateKey.from_private_bytes(b"has this point a small order? ..")
"""Any secret will do to find that out; nothing is ever sealed with this one."""


class BadEncryptionKey(BrokenCredential):
    """A member's encryption key is invalid, or cannot keep a secret."""

    code = "CREDENTIAL-ENCRYPTION-KEY"


class BadDelivery(ProtocolViolation):
    """What was delivered was not sealed to this member in this session."""

    code = "PROTOCOL-KEY-DELIVERY"


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """The public half for one session, and its owner's signature over it."""

    key: bytes
    signature: bytes = field(repr=False)


class SessionKey:
    """The secret half: it opens what was sealed to this session, and keeps quiet."""

    __slots__ = ("_secret", "public")

    def __init__(self, random: Callable[[int], bytes]) -> None:
        """Make a new one."""
        self._secret = X25519PrivateKey.from_private_bytes(random(ENCRYPTION_KEY_BYTES))
        self.public = self._secret.public_key().public_bytes_raw()

    def signed(self, key: SigningKey, *, manager: Principal, session: bytes) -> EncryptionKey:
        """Return the public half, signed for one session with one manager."""
        body = _body(self.public, manager, session)
        return EncryptionKey(self.public, key.sign(SignedKind.MEMBER_KEY, body))

    def open(self, sealed: bytes, info: bytes) -> bytes:
        """Return what was sealed to this key for this purpose."""
        try:
            return _SUITE.decrypt(sealed, self._secret, info)
        except (InvalidTag, ValueError):
            raise BadDelivery("what was delivered was not sealed to this session") from None

    def __repr__(self) -> str:
        """Say which key it is, never what it is."""
        return f"SessionKey(public={self.public.hex()[:12]})"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied."""
        raise TypeError("a session key cannot be pickled")


class SubjectKey(SessionKey):
    """The secret half for what is sealed to a principal, which has no session: made from its signing key.

    The two uses of one key are proved safe together for exactly these algorithms (Thormarker 2021); HPKE
    and the prefixes of signatures keep them apart.
    """

    __slots__ = ()

    def __init__(self, key: SigningKey) -> None:
        """Make it from the seed, as Ed25519 makes the scalar that it signs with (RFC 8032, 5.1.5)."""
        self._secret = X25519PrivateKey.from_private_bytes(sha512(key.reveal_seed()).digest()[:32])
        self.public = self._secret.public_key().public_bytes_raw()


def encryption_key_of(principal: Principal) -> bytes:
    """Return the public half that belongs to a principal: the same point on the other form of the curve."""
    y = int.from_bytes(principal.key, "little") & ((1 << 255) - 1)
    return ((1 + y) * pow(1 - y, -1, _FIELD) % _FIELD).to_bytes(ENCRYPTION_KEY_BYTES, "little")


def check_encryption_key(
    shown: EncryptionKey, *, member: Principal, manager: Principal, session: bytes
) -> bytes:
    """Return the key if `member` signed it for this session, and if a secret can be kept with it."""
    verify_signature(member, SignedKind.MEMBER_KEY, _body(shown.key, manager, session), shown.signature)
    _agreed(_PROBE, shown.key)
    return shown.key


def seal_to(key: bytes, plaintext: bytes, info: bytes, random: Callable[[int], bytes]) -> bytes:
    """Seal to a public key; `info` binds the purpose. The random bytes are handed in, like all chance.

    This is the sending half of HPKE's base mode. The library at hand draws its own
    random bytes there, and a simulation could not be repeated from its seed. The
    receiving half is the library's, and the tests hold both halves to it.
    """
    ephemeral = X25519PrivateKey.from_private_bytes(random(ENCRYPTION_KEY_BYTES))
    sent = ephemeral.public_key().public_bytes_raw()
    shared = _agreed(ephemeral, key)
    agreed = _expand(_extract(_KEM_ID, b"", b"eae_prk", shared), _KEM_ID, b"shared_secret", sent + key, 32)
    context = (
        _BASE_MODE
        + _extract(_HPKE_ID, b"", b"psk_id_hash", b"")
        + _extract(_HPKE_ID, b"", b"info_hash", info)
    )
    secret = _extract(_HPKE_ID, agreed, b"secret", b"")
    cipher = AESGCM(_expand(secret, _HPKE_ID, b"key", context, 32))
    return sent + cipher.encrypt(_expand(secret, _HPKE_ID, b"base_nonce", context, 12), plaintext, None)


def _agreed(secret: X25519PrivateKey, key: bytes) -> bytes:
    try:
        return secret.exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:  # a point of small order: the result would be public
        raise BadEncryptionKey("this encryption key cannot keep a secret") from None


def _extract(suite: bytes, salt: bytes, label: bytes, given: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + given, "sha256")


def _expand(secret: bytes, suite: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """Return up to 32 bytes: one block of HKDF is enough here."""
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(secret, labelled + b"\x01", "sha256")[:length]


def _body(key: bytes, manager: Principal, session: bytes) -> bytes:
    return write_canonical(
        (
            b"member-key",
            (b"version", b"1"),
            (b"manager", principal_to_expression(manager)),
            (b"session", session),
            (b"key", key),
        )
    )
