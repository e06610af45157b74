"""With which cipher does this process seal or open one attribute in one epoch?

Sealers and openers ask for every column. Each process that seals has a random
`instance`, and its keys grow from the content key and that instance: two
processes never seal under one key, so that a counter is all a nonce needs
(A45; attack on the dissertation's clock, section 7.5). Derived keys live as
long as the content key they came from, and no longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import repeat
from operator import add
from struct import Struct
from typing import Final, NoReturn, cast

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from maia.errors import BadInput
from maia.events import AttributeUid
from maia.sealing.frames.proof import event_head
from maia.sealing.groups.key_group import TYPE_ID_BYTES
from maia.sealing.keys.secrets import Secret
from maia.wire.messages import Sealed, SealedWithAuthor, SealMark

INSTANCE_BYTES: Final = 16
INSTANCES_MAX: Final = 1024
"""Processes whose derived keys are remembered for one type and epoch; the oldest go first."""

_SEALING: Final = b"maia/1/sealing-key"
_SALT: Final = b"maia/1/commitment-salt"
_KEY_NAME: Final = b"maia/1/key-name\x00"


class BadEpochKeys(BadInput):
    """Keys are asked for something that is no type or no epoch."""

    code = "SEALING-EPOCH-KEYS"


class Cipher:
    """What one process seals one attribute with, in one epoch; and the salt of what it says about it.

    `name` tells its key from all others, and nothing about it: signed beside a ciphertext, it leaves one key
    that opens it, and so one content. AES-GCM alone does not: a ciphertext can be made that two keys open.
    """

    __slots__ = ("decrypt", "encrypt", "name", "salt", "source")

    def __init__(self, source: Secret, context: tuple[bytes, ...]) -> None:
        """Derive both keys from the content key."""
        self.source = source
        aead = AESGCM(source.derive(_SEALING, *context).reveal())
        # Bound once: looking the methods up costs a tenth of sealing a short value.
        self.encrypt: Callable[[bytes, bytes, bytes], bytes] = aead.encrypt
        self.decrypt: Callable[[bytes, bytes, bytes], bytes] = aead.decrypt
        self.salt = source.derive(_SALT, *context).reveal()
        self.name = sha256(_KEY_NAME + self.salt).digest()

    def __repr__(self) -> str:
        """Say what it is, and nothing of its keys."""
        return "Cipher(…)"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied."""
        raise TypeError("a cipher cannot be pickled or copied")


class HeldCiphers:
    """The ciphers of all columns of a frame, and how the hash begins that is signed of a single event."""

    __slots__ = ("ciphers", "head", "instance", "key_names", "names", "uids")

    def __init__(self, uids: tuple[str, ...], instance: bytes, ciphers: list[Cipher]) -> None:
        """Work out once what all frames with these columns have in common that one process seals."""
        self.uids, self.instance = uids, instance
        self.ciphers, self.names = ciphers, [uid.encode() for uid in uids]
        self.key_names = [one.name for one in ciphers]
        self.head = event_head(uids, self.key_names)


class EpochKeys:
    """What one member can seal and open of one type in one epoch.

    `lookup` says which content key a group has, by attribute uid or None for
    the type's own group; it is asked again until it knows one.
    """

    __slots__ = ("_ciphers", "_lookup", "_several", "_through", "epoch", "type_id")

    def __init__(
        self, type_id: bytes, epoch: int, lookup: Callable[[AttributeUid | None], Secret | None]
    ) -> None:
        """Begin without derived keys."""
        if len(type_id) != TYPE_ID_BYTES or epoch < 0:
            raise BadEpochKeys("keys belong to the id of a type and the number of an epoch")
        self.type_id = type_id
        self.epoch = epoch
        self._lookup = lookup
        self._ciphers: dict[bytes, dict[AttributeUid | None, Cipher]] = {}
        self._several: dict[tuple[bytes, tuple[str, ...]], HeldCiphers] = {}
        self._through: dict[tuple[bytes, int], EpochKeys] = {}

    def cipher(self, uid: AttributeUid | None, instance: bytes) -> Cipher | None:
        """Return the cipher of one attribute (None: of whole events) for one process, if its key is held."""
        of_instance = self._ciphers.get(instance)
        known = None if of_instance is None else of_instance.get(uid)
        if known is None or known.source.wiped:
            return self._derived(uid, instance)
        return known

    def ciphers(self, uids: tuple[str, ...], instance: bytes) -> Sequence[Cipher | None]:
        """Return the ciphers of several attributes (empty: of whole events), None where no key is held."""
        held = self.held(uids, instance)
        if held is not None:
            return held.ciphers
        # Uids from a message: whether they are any was checked, or is about to be.
        return [self.cipher(cast("AttributeUid", uid) or None, instance) for uid in uids]

    def held(self, uids: tuple[str, ...], instance: bytes) -> HeldCiphers | None:
        """Return the same with what they have in common, if all keys are held.

        Frames of one type have the same columns, most of the time: they are looked up together.
        """
        known = self._several.get((instance, uids))
        if known is not None:
            for cipher in known.ciphers:
                if cipher.source.wiped:
                    break
            else:
                return known
        found = [self.cipher(cast("AttributeUid", uid) or None, instance) for uid in uids]
        held = [one for one in found if one is not None]
        if len(held) != len(found):
            return None
        if len(self._several) >= INSTANCES_MAX:
            self._several.clear()
        known = self._several[instance, uids] = HeldCiphers(uids, instance, held)
        return known

    def _derived(self, uid: AttributeUid | None, instance: bytes) -> Cipher | None:
        self._ciphers.get(instance, {}).pop(uid, None)
        secret = self._lookup(uid)
        if secret is None or secret.wiped:
            return None
        group = b"type" if uid is None else b"attribute/" + uid.encode()
        made = Cipher(secret, (self.type_id, group, b"%d" % self.epoch, instance))
        self._ciphers.setdefault(instance, {})[uid] = made
        while len(self._ciphers) > INSTANCES_MAX:
            del self._ciphers[next(iter(self._ciphers))]
            self._several.clear()
        return made

    def through(self, blinded_id: bytes, id_epoch: int) -> EpochKeys:
        """Return these keys as they open what travelled under the blinded id of an epoch, this or earlier."""
        known = self._through.get((blinded_id, id_epoch))
        if known is None:
            known = EpochKeys(blinded_id, self.epoch - id_epoch, self._lookup)
            if len(self._through) >= INSTANCES_MAX:
                self._through.clear()
            self._through[blinded_id, id_epoch] = known
        return known

    def forget(self) -> None:
        """Let go of every derived key."""
        self._ciphers.clear()
        self._several.clear()
        for seen in self._through.values():
            seen.forget()
        self._through.clear()

    def __repr__(self) -> str:
        """Say for what the keys are, never what they are."""
        return f"EpochKeys(type={self.type_id.hex()[:12]}, epoch={self.epoch})"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied."""
        raise TypeError("keys cannot be pickled or copied")


# What is a sealed column bound to?


NONCE_BYTES: Final = 12

_DOMAIN: Final = b"maia/1/sealed-frame\x00"
_DOMAIN_WITH_AUTHOR: Final = b"maia/1/sealed-frame-author\x00"
_FIXED: Final = Struct(">B32s32s32s16sQqQII16sQI")
_MARK: Final = Struct(">16sQB")


def description(frame: Sealed) -> bytes:
    """Return what the signer says about a frame apart from its content."""
    kept = frame.kept
    fixed = _FIXED.pack(
        frame.level,
        frame.type_id,
        frame.publisher,
        frame.signer,
        frame.stream,
        frame.sequence,
        frame.published_at,
        frame.epoch,
        frame.rows,
        frame.block_rows,
        frame.origin.instance,
        frame.origin.counter,
        len(kept),
    )
    said = fixed + Struct(f">{len(kept)}H").pack(*kept) if kept else fixed
    if isinstance(frame, SealedWithAuthor):
        about = frame.author
        hashes = [sha256(part).digest() for part in (about.statement, about.proof, about.requires)]
        return _DOMAIN_WITH_AUTHOR + b"".join(hashes) + said
    return _DOMAIN + said


_BEFORE: Final = Struct(">B32s32s32s16s")
_BEHIND: Final = Struct(">QqQII16sQI")


def event_described(
    level: int, label: tuple[bytes, bytes, bytes, bytes, int, int], epoch: int, mark: SealMark
) -> bytes:
    """Return the same for a single event of this type, publisher, signer, stream, number and moment."""
    return _DOMAIN + _FIXED.pack(level, *label, epoch, 1, 0, mark.instance, mark.counter, 0)


def events_described(
    level: int,
    *whose: bytes,
    epoch: int,
    numbers: Sequence[int],
    moments: Sequence[int],
    instance: bytes,
    counters: Sequence[int],
) -> tuple[list[bytes], list[bytes]]:
    """Return what `description` says about single events of one stream, and what binds each.

    `whose` are type, publisher, signer and stream. The events have these numbers, moments and counters.
    """
    before = _DOMAIN + _BEFORE.pack(level, *whose)
    alike = repeat(epoch), repeat(1), repeat(0), repeat(instance)
    behind = map(_BEHIND.pack, numbers, moments, *alike, counters, repeat(0))
    described = list(map(add, repeat(before), behind))
    return described, list(map(add, described, map(_MARK.pack, repeat(instance), counters, repeat(0))))


def frame_binding(described: bytes, sealed_by: SealMark, blocks: list[int]) -> bytes:
    """Return what all columns of a frame are bound to: its description, who sealed it, and what is left.

    Each column is bound to this and to its own uid, which comes behind it, and nothing can follow that.
    """
    return described + _MARK.pack(sealed_by.instance, sealed_by.counter, len(blocks)) + bytes(blocks)


nonce_of_counter: Final = Struct(f">{NONCE_BYTES - 8}xQ").pack


def nonce(mark: SealMark) -> bytes:
    """Return the nonce of everything sealed under one mark: its counter, under the keys of its instance."""
    return nonce_of_counter(mark.counter)
