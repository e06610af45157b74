"""Which content keys open a table's frames, and how do they reach executors?

The driver holds a `KeySource`: keys of past epochs from the type's key
manager, or a ring of this process. Executors hold a `KeyPass`, which says
where to ask and is worth nothing once the driver is gone. Keys travel from
the driver's memory to a worker's memory, sealed to that worker, and are in no
plan, broadcast, closure, checkpoint, log or sentence
(docs/decisions/governed-tables.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Protocol, TypeAlias

import msgspec
from msgspec import Meta

from maia.errors import ProtocolViolation
from maia.events import INSTANT_MAX, INSTANT_MIN, SECOND, AttributeUid, Instant
from maia.sealing import BadSecret, Secret
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing, KeyTerms
from maia.sealing.keys.parcels import PastEpoch

EPOCHS_PER_REQUEST: Final = 4096
"""Epochs that a worker may ask for at once."""


Wanted: TypeAlias = frozenset[AttributeUid | None]
"""Attributes whose keys are needed; None means the type's own group."""


@dataclass(frozen=True, slots=True)
class HeldEpoch:
    """The content keys of one epoch, by attribute, and the moments at which they may have sealed anything."""

    first: int
    last: int
    keys: Mapping[AttributeUid | None, Secret] = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeysBegin:
    """Keys of these attributes are held for an epoch that began at a moment."""

    since: Instant
    uids: Wanted


class KeySource(Protocol):
    """A source of keys on the driver."""

    def held(self, epoch: int, wanted: Wanted) -> HeldEpoch | None:
        """Return what is held of an epoch; None if nothing is."""


# ------------------------------------------------------------ sources


@dataclass(frozen=True, slots=True)
class RingKeys:
    """The keys on a ring of this process, as a member of the type's key groups holds them."""

    ring: KeyRing

    def held(self, epoch: int, wanted: Wanted) -> HeldEpoch | None:
        """Return what the ring holds of an epoch at this moment."""
        period = self.ring.period(epoch)
        if period is None:
            return None
        keys = {uid: self.ring.key(GroupId(self.ring.type_id, uid), epoch) for uid in wanted}
        held = {uid: key for uid, key in keys.items() if key is not None}
        return _held(*period, self.ring.terms, held)


class HeldKeys:
    """Keys that stay, whatever becomes of where they came from."""

    __slots__ = ("_epochs",)

    def __init__(self, epochs: Mapping[int, HeldEpoch]) -> None:
        self._epochs = dict(epochs)

    @classmethod
    def of_ring(cls, ring: KeyRing, wanted: Wanted) -> HeldKeys:
        """Copy what a ring holds of some attributes, in every epoch that it knows."""
        found: dict[int, HeldEpoch] = {}
        number, source = ring.newest, RingKeys(ring)
        while number and (one := source.held(number, wanted)) is not None:
            keys = {uid: Secret.from_bytes(key.reveal()) for uid, key in one.keys.items()}
            found[number] = HeldEpoch(one.first, one.last, keys)
            number -= 1
        return cls(found)

    @classmethod
    def of_past(cls, epochs: Iterable[PastEpoch], terms: KeyTerms) -> HeldKeys:
        """Hold keys as the type's key manager handed them out of epochs that are over.

        `terms` say how far a moment may lie outside its epoch.
        """
        return cls({one.number: _held(one.since, one.ends, terms, one.keys) for one in epochs})

    def held(self, epoch: int, wanted: Wanted) -> HeldEpoch | None:
        """Return what is held of an epoch; None if nothing is."""
        found = self._epochs.get(epoch)
        if found is None:
            return None
        chosen = {uid: key for uid, key in found.keys.items() if uid in wanted}
        return HeldEpoch(found.first, found.last, chosen)

    def __repr__(self) -> str:
        return f"HeldKeys(epochs={sorted(self._epochs)})"


def _held(
    since: int, ends: int | None, terms: KeyTerms, keys: Mapping[AttributeUid | None, Secret]
) -> HeldEpoch:
    slack = terms.back_dating_s * SECOND
    last = INSTANT_MAX if ends is None else min(INSTANT_MAX, ends + slack)
    return HeldEpoch(max(INSTANT_MIN, since - slack), last, keys)


@dataclass(frozen=True, slots=True)
class SeveralSources:
    """Keys from several places: of the past from one, of this hour from another."""

    sources: tuple[KeySource, ...]

    def held(self, epoch: int, wanted: Wanted) -> HeldEpoch | None:
        """Return what all of them hold together; a key comes from the first that has it."""
        found = [one for source in self.sources if (one := source.held(epoch, wanted)) is not None]
        if not found:
            return None
        keys = {uid: key for one in reversed(found) for uid, key in one.keys.items()}
        return HeldEpoch(max(one.first for one in found), min(one.last for one in found), keys)


# ------------------------------------------------------------ from the desk to a worker


class _Key(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    uid: Annotated[str, Meta(max_length=64)] | None
    key: Annotated[bytes, Meta(min_length=32, max_length=32)]


class _Epoch(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    number: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    first: Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
    last: Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
    keys: Annotated[list[_Key], Meta(max_length=1025)]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Annotated[list[_Epoch], Meta(max_length=EPOCHS_PER_REQUEST)])


def write_handout(source: KeySource, epochs: Iterable[int], wanted: Wanted) -> bytes:
    """Write what a source holds of some epochs, keys and all. The caller seals it."""
    found = {number: source.held(number, wanted) for number in epochs}
    return _ENCODER.encode(
        [
            _Epoch(
                number,
                one.first,
                one.last,
                [_Key(uid, key.reveal()) for uid, key in one.keys.items() if not key.wiped],
            )
            for number, one in found.items()
            if one is not None
        ]
    )


def read_handout(data: bytes) -> dict[int, HeldEpoch]:
    """Read what a desk handed out."""
    try:
        return {
            one.number: HeldEpoch(
                one.first,
                one.last,
                {each.uid and AttributeUid(each.uid): Secret.from_bytes(each.key) for each in one.keys},
            )
            for one in _DECODER.decode(data)
        }
    except (msgspec.MsgspecError, UnicodeDecodeError, BadSecret):
        # What was wrong is not said: the sentence would be about keys.
        raise ProtocolViolation(
            "PROTOCOL-KEY-HANDOUT", "what the driver's desk handed out cannot be read"
        ) from None
