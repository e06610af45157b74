"""Which key seals something about several attributes, and how are bytes sealed under it?

Sealed filters and the proofs behind them ask. The key grows from the content
keys of all groups that are named, so that exactly the members of all of them
have it. Lengths are rounded up before sealing, so that operands of about the
same length look alike.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from maia.events import AttributeUid
from maia.sealing.groups.group_id import GroupId
from maia.sealing.keys.secrets import Secret

__all__ = [
    "MARK_BYTES",
    "SEALED_OVERHEAD",
    "GroupKeys",
    "framed",
    "joint_key",
    "keyed_mark",
    "open_box",
    "seal_box",
]

MARK_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_LENGTH_BYTES: Final = 4
SEALED_OVERHEAD: Final = _NONCE_BYTES + _TAG_BYTES + _LENGTH_BYTES

_SHARE: Final = b"maia/1/filter-share"
_JOINT: Final = b"maia/1/filter-joint\x00"
_BOX: Final = b"maia/1/filter-box"
_MARK: Final = b"maia/1/filter-mark"
_TYPE: Final = b"*"
"""Stands for the type's own group; no attribute has this uid."""


class GroupKeys(Protocol):
    """What is needed of a key ring."""

    def key(self, group: GroupId, epoch: int) -> Secret | None:
        """Return the content key of a group in an epoch, if it is held."""
        ...


def joint_key(
    keys: GroupKeys, type_id: bytes, uids: Sequence[AttributeUid | None], epoch: int
) -> Secret | None:
    """Return the key that exactly the members of all these groups have; None if one is missing here."""
    names = [_TYPE if uid is None else uid.encode() for uid in uids]
    shares: list[bytes] = []
    for uid in uids:
        content = keys.key(GroupId(type_id, uid), epoch)
        if content is None:
            return None
        # Every share names the whole set: the share for `x` alone says nothing about `x` and `y`.
        shares.append(content.derive(_SHARE, *names).reveal())
    return Secret.from_bytes(sha256(_JOINT + b"".join(shares)).digest())


def keyed_mark(key: Secret, *parts: bytes) -> bytes:
    """Return what is equal for equal parts under one key, and reveals nothing else without it."""
    return hmac.digest(key.derive(_MARK).reveal(), framed(parts), "sha256")[:MARK_BYTES]


def seal_box(
    key: Secret, data: bytes, *, bound_to: bytes, context: bytes, block: int, random: Callable[[int], bytes]
) -> bytes:
    """Return sealed bytes, rounded up to whole blocks, that open only beside what they are bound to.

    `context` is new for whatever is sealed, and the key grows from it. So a
    nonce would have to repeat within one context to be of any use;
    it is random, and neither clocks, restarts nor a second process matter (A45).
    """
    padded = len(data).to_bytes(_LENGTH_BYTES, "big") + data
    padded += bytes(-len(padded) % block)
    nonce = random(_NONCE_BYTES)
    return nonce + AESGCM(key.derive(_BOX, context).reveal()).encrypt(nonce, padded, bound_to)


def open_box(key: Secret, sealed: bytes, *, bound_to: bytes, context: bytes) -> bytes | None:
    """Return what was sealed; None if it does not open: another key, other surroundings, other bytes."""
    if len(sealed) < SEALED_OVERHEAD:
        return None
    cipher = AESGCM(key.derive(_BOX, context).reveal())
    try:
        padded = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to)
    except InvalidTag:
        return None
    size = int.from_bytes(padded[:_LENGTH_BYTES], "big")
    data, rest = padded[_LENGTH_BYTES : _LENGTH_BYTES + size], padded[_LENGTH_BYTES + size :]
    return data if len(data) == size and not any(rest) else None


def framed(parts: Iterable[bytes]) -> bytes:
    """Return parts one after the other, each behind its length, so that no two lists run together."""
    return b"".join([len(part).to_bytes(_LENGTH_BYTES, "big") + part for part in parts])
