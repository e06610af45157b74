"""How does one secret of a key tree lead to another, and how is one carried under another?

Key trees build on these few functions, on the manager's side and on
the members', and on nothing else: what a coalition can work out from messages
is what these functions let it work out, and the tests watch exactly them.
Keyed BLAKE2b leads from secret to secret, AES-256-CCM carries: every key wraps
one secret, and CCM is the cipher whose keys take the least to set up. Callers
go through the module, `node_secrets.wrap(...)`, so that a test can listen.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESCCM

NODE_SECRET_BYTES: Final = 32
NONCE_BYTES: Final = 12
WRAPPED_BYTES: Final = NODE_SECRET_BYTES + 16
CONFIRMATION_BYTES: Final = 16

_STEP: Final = b"maia/1/path-step"
_CONFIRM: Final = b"maia/1/confirm"


def step(path_secret: bytes) -> tuple[bytes, bytes]:
    """Return the key of a node, and the path secret of the next node above it.

    The key says nothing about the path secret, so a member that receives the key
    later on learns nothing about the nodes above as they were then.
    """
    both = blake2b(_STEP, key=path_secret).digest()
    return both[:NODE_SECRET_BYTES], both[NODE_SECRET_BYTES:]


def confirmation(root: bytes, group: bytes, version: int) -> bytes:
    """Return what tells members publicly that they found the same group secret as the manager."""
    said = _CONFIRM + version.to_bytes(8, "big") + group
    return blake2b(said, key=root, digest_size=CONFIRMATION_BYTES).digest()


def wrap(key: bytes, nonce: bytes, content: bytes, bound_to: bytes) -> bytes:
    """Return `content` for those who know `key`. A nonce serves one key once."""
    return AESCCM(key).encrypt(nonce, content, bound_to)


def unwrap(key: bytes, nonce: bytes, wrapped: bytes, bound_to: bytes) -> bytes | None:
    """Return what `wrap` was given, or None where key, nonce or binding are others."""
    try:
        return AESCCM(key).decrypt(nonce, wrapped, bound_to)
    except InvalidTag:
        return None
