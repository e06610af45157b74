"""How does a secret lie on a disk?

Sealed under a key that is not on that disk: it grows from the node's signing
key, which has a file, and perhaps a passphrase, of its own. An attacker that copies the
data folder alone has nothing. What is sealed is bound to the name it is kept
under, so that no two records can be exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from maia.errors import BrokenCredential
from maia.sealing.keys.secrets import Secret

__all__ = ["AtRest", "NotOurs"]

_NONCE_BYTES: Final = 12


class NotOurs(BrokenCredential):
    """A kept secret was sealed under another key, or is damaged."""

    code = "CREDENTIAL-KEPT-SECRET"


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
            raise NotOurs(f"what is kept under `{name}` was not sealed by this node") from None

    def __repr__(self) -> str:
        """Say nothing of the key."""
        return "AtRest(…)"
