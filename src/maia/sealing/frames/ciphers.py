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
from struct import Struct
from typing import Final, NoReturn, cast

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from maia.errors import BadInput
from maia.events import AttributeUid
from maia.sealing.groups.key_group import TYPE_ID_BYTES
from maia.sealing.keys.secrets import Secret
from maia.wire.messages import Sealed, SealedWithAuthor, SealMark

INSTANCE_BYTES: Final = 16
INSTANCES_MAX: Final = 1024
"""Processes, and sets of columns, whose derived keys are remembered for one type and epoch."""

_SEALING: Final = b"maia/1/sealing-key"
_SALT: Final = b"maia/1/commitment-salt"
_KEY_NAME: Final = b"maia/1/key-name\x00"


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
    """The ciphers of all columns of a frame, None where no key is held, and what they have in common."""

    __slots__ = ("ciphers", "held", "key_names", "missing", "names", "salts")

    def __init__(self, uids: tuple[str, ...], ciphers: list[Cipher | None]) -> None:
        """Work out once what all frames with these columns have in common that one process seals."""
        self.ciphers, self.names = ciphers, [uid.encode() for uid in uids]
        self.held = [one for one in ciphers if one is not None]
        self.missing = [uid for uid, one in zip(uids, ciphers, strict=True) if one is None]
        self.key_names = tuple([one.name for one in self.held])
        self.salts = [one.salt for one in self.held]


class EpochKeys:
    """What one member can seal and open of one type in one epoch.

    `lookup` says which content key a group has, by attribute uid or None for
    the type's own group; it is asked again until it knows one.
    """

    __slots__ = ("_ciphers", "_lookup", "_through", "epoch", "type_id")

    def __init__(
        self, type_id: bytes, epoch: int, lookup: Callable[[AttributeUid | None], Secret | None]
    ) -> None:
        """Begin without derived keys."""
        if len(type_id) != TYPE_ID_BYTES or epoch < 0:
            raise BadInput("SEALING-EPOCH-KEYS", "keys belong to the id of a type and the number of an epoch")
        self.type_id = type_id
        self.epoch = epoch
        self._lookup = lookup
        self._ciphers: dict[tuple[bytes, tuple[str, ...]], HeldCiphers] = {}
        self._through: dict[tuple[bytes, int], EpochKeys] = {}

    @property
    def holds_type(self) -> bool:
        """Return whether the key of the type's own group is among them."""
        return self._secret("") is not None

    def ciphers(self, uids: tuple[str, ...], instance: bytes) -> Sequence[Cipher | None]:
        """Return the ciphers of attributes (empty: of whole events) for one process, None without a key."""
        return self.looked_up(uids, instance).ciphers

    def looked_up(self, uids: tuple[str, ...], instance: bytes) -> HeldCiphers:
        """Return the same with what they have in common.

        Frames of one type have the same columns, most of the time: they are looked up together.
        """
        known = self._ciphers.get((instance, uids))
        if known is not None:
            for cipher in known.held:
                if cipher.source.wiped:
                    break
            else:
                if not known.missing or not any(map(self._secret, known.missing)):
                    return known
        if len(self._ciphers) >= INSTANCES_MAX:
            del self._ciphers[next(iter(self._ciphers))]  # the oldest go first
        made = HeldCiphers(uids, [self._derived(uid, instance) for uid in uids])
        self._ciphers[instance, uids] = made
        return made

    def _secret(self, uid: str) -> Secret | None:
        # Uids from a message: whether they are any was checked, or is about to be.
        secret = self._lookup(cast("AttributeUid", uid) or None)
        return None if secret is None or secret.wiped else secret

    def _derived(self, uid: str, instance: bytes) -> Cipher | None:
        secret = self._secret(uid)
        if secret is None:
            return None
        group = b"attribute/" + uid.encode() if uid else b"type"
        return Cipher(secret, (self.type_id, group, b"%d" % self.epoch, instance))

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
        for seen in self._through.values():
            seen.forget()
        self._through.clear()

    def __repr__(self) -> str:
        """Say for what the keys are, never what they are."""
        return f"EpochKeys(type={self.type_id.hex()[:12]}, epoch={self.epoch})"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied."""
        raise TypeError("keys cannot be pickled or copied")


# What a sealed column is bound to.


NONCE_BYTES: Final = 12

_DOMAIN: Final = b"maia/2/sealed-frame\x00"
_DOMAIN_WITH_AUTHOR: Final = b"maia/2/sealed-frame-author\x00"
_FIXED: Final = Struct(">B32s32s32s16sQqQIB16sQI")
_NONCE: Final = Struct(f">{NONCE_BYTES - 8}xQ")


def description(frame: Sealed) -> bytes:
    """Return what the signer says about a frame apart from its content.

    All columns of the frame are bound to it, each with its own uid behind it, which nothing can follow.
    """
    kept, mark = frame.kept, frame.mark
    said = _FIXED.pack(
        frame.level,
        frame.type_id,
        frame.publisher,
        frame.signer,
        frame.stream,
        frame.sequence,
        frame.published_at,
        frame.epoch,
        frame.rows,
        frame.is_committed,
        mark.instance,
        mark.counter,
        len(kept),
    )
    if kept:
        said += Struct(f">{len(kept)}H").pack(*kept)
    if isinstance(frame, SealedWithAuthor):
        about = frame.author
        hashes = [sha256(part).digest() for part in (about.statement, about.proof, about.requires)]
        return _DOMAIN_WITH_AUTHOR + b"".join(hashes) + said
    return _DOMAIN + said


def nonce(mark: SealMark) -> bytes:
    """Return the nonce of everything sealed under one mark: its counter, under the keys of its instance."""
    return _NONCE.pack(mark.counter)
