"""How does one secret of a key tree lead to another, and how is one carried under another?

Key trees build on these few functions, on the manager's side and on
the members', and on nothing else: what a coalition can work out from messages
is what these functions let it work out, and the tests watch exactly them.
Keyed BLAKE2b leads from secret to secret, AES-256-CCM carries: every key wraps
one secret, and CCM is the cipher whose keys take the least to set up. Callers
go through the module, `node_secrets.wrap(...)`, so that a test can listen.

Members sit in numbered slots. A node of level k is above 2^k slots, so
its name is its level and a number, and never changes while the tree grows
above it. The group's own secret belongs to a node of its own, `ROOT`, which
is above all members whatever the height of the tree.
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


LEVELS_MAX: Final = 16
MEMBERS_MAX: Final = 1 << LEVELS_MAX
"""Members of one group."""

_LEVEL_SHIFT: Final = 24
_INDEX_BITS: Final = (1 << _LEVEL_SHIFT) - 1

ROOT: Final = 0xFF << _LEVEL_SHIFT
"""The node whose secret the whole group shares."""


def ancestor(slot: int, level: int) -> int:
    """Return the node of `level` above `slot`; level 0 is the slot's own leaf."""
    return level << _LEVEL_SHIFT | slot >> level


def level_of(node: int) -> int:
    """Return how many levels above the slots `node` is."""
    return node >> _LEVEL_SHIFT


def named(node: int) -> bool:
    level, index = node >> _LEVEL_SHIFT, node & _INDEX_BITS
    return node == ROOT or (level <= LEVELS_MAX and index < MEMBERS_MAX >> level)


def stands_above(node: int, below: int) -> bool:
    """Return whether all members under `below` are under `node` as well; a node is above itself."""
    if node == ROOT:
        return True
    rise = (node >> _LEVEL_SHIFT) - (below >> _LEVEL_SHIFT)
    return rise >= 0 and (below & _INDEX_BITS) >> rise == node & _INDEX_BITS
