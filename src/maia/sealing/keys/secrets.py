"""How is a secret key held, and how does one secret grow from another?

All code that seals, opens or hands out keys asks here. A secret shows itself
nowhere by accident: no text, pickle, copy or error holds its bytes, and
`reveal` is the one way out. Whatever is derived for different purposes or
contexts differs, so that no two types, attributes or epochs share a key (A48).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final, NoReturn, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from maia.credentials import same_secret
from maia.errors import BadInput, BrokenCredential, Unavailable

SECRET_BYTES: Final = 32

# Of 32 random bytes, fewer than eight differ with a chance below 2^-120. A key from a default, a counter
# that never moved or an empty file has one or two.
_DIFFERENT_BYTES_MIN: Final = 8
_EXTRACT_SALT: Final = b"maia/1/sealing"
_LENGTH_BYTES: Final = 4


class BadSecret(BadInput):
    """Bytes cannot be a secret key: they have another length, or were not chosen by chance."""

    code = "SEALING-SECRET"


class Secret:
    """Thirty-two secret bytes that keep quiet. Equality takes the same time wherever they differ."""

    __slots__ = ("_bytes", "wiped")

    _bytes: bytearray
    wiped: bool
    """Whether the bytes are gone. Only `wipe` sets it."""

    def __init__(self) -> None:
        """Refuse: a secret is made by `from_bytes`, `fresh` or `derive`."""
        raise TypeError("a secret is made by `from_bytes`, `fresh` or `derive`")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Hold `data`, refused unless it has the one length and looks as if chosen by chance."""
        if len(data) != SECRET_BYTES:
            raise BadSecret(f"a secret has {SECRET_BYTES} bytes, and {len(data)} were given")
        if len(set(data)) < _DIFFERENT_BYTES_MIN:
            raise BadSecret("a secret of a few repeated bytes is a default and is refused")
        return cls._holding(data)

    @classmethod
    def fresh(cls, random: Callable[[int], bytes]) -> Self:
        """Return a new secret of bytes from `random`."""
        return cls.from_bytes(random(SECRET_BYTES))

    @classmethod
    def _holding(cls, data: bytes) -> Self:
        made = cls.__new__(cls)
        made._bytes = bytearray(data)
        made.wiped = False
        return made

    def derive(self, purpose: bytes, *context: bytes) -> Secret:
        """Return the secret for this purpose and context (HKDF-SHA256); every part is length-prefixed."""
        info = b"".join([len(part).to_bytes(_LENGTH_BYTES, "big") + part for part in (purpose, *context)])
        extracted = hmac.digest(_EXTRACT_SALT, self.reveal(), "sha256")
        return Secret._holding(hmac.digest(extracted, info + b"\x01", "sha256"))

    def reveal(self) -> bytes:
        """Return the bytes. Only ciphers, key delivery and key stores have a reason to ask."""
        if self.wiped:
            raise Unavailable("SEALING-SECRET-FORGOTTEN", "this key was forgotten when its time was over")
        return bytes(self._bytes)

    def wipe(self) -> None:
        """Overwrite the bytes, as far as Python lets us: copies made by `reveal` live on until collected."""
        self.wiped = True
        self._bytes[:] = bytes(SECRET_BYTES)

    def __eq__(self, other: object) -> bool:
        """Compare in constant time; a wiped secret equals itself alone."""
        if not isinstance(other, Secret):
            return NotImplemented
        if self.wiped or other.wiped:
            return self is other
        return same_secret(self.reveal(), other.reveal())

    # A hash would be a place where the bytes show, and a reason to compare them in another way.
    __hash__ = None  # type: ignore[assignment]  # the way to say "unhashable", which object's type forbids

    def __repr__(self) -> str:
        """Say that there is a secret, and nothing about it."""
        return "Secret(wiped)" if self.wiped else "Secret(…)"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied: a secret leaves memory sealed, or through a key store."""
        raise TypeError("a secret cannot be pickled or copied")


# Secrets on a disk.


_NONCE_BYTES: Final = 12


class AtRest:
    """Seals what is kept, and opens it again."""

    __slots__ = ("_cipher", "_random")

    def __init__(self, key: Secret, random: Callable[[int], bytes]) -> None:
        """Seal under a key that grows from `key`."""
        self._cipher = AESGCM(key.derive(b"maia/1/at-rest").reveal())
        self._random = random

    def seal(self, name: str, data: bytes) -> bytes:
        """Return `data` as it may lie on a disk under `name`."""
        nonce = self._random(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, name.encode())

    def open(self, name: str, sealed: bytes) -> bytes:
        """Return what was sealed for this name."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError):
            raise BrokenCredential(
                "CREDENTIAL-KEPT-SECRET", f"what is kept under `{name}` was not sealed by this node"
            ) from None

    def __repr__(self) -> str:
        """Say nothing of the key."""
        return "AtRest(…)"
