"""Under which id does a blinded type travel, and with which keys is what travels under it opened?

The id of an epoch is a keyed hash that the members of the type's own group
can make and no other node can (MAIA 8.2). Brokers route by it as by the id of
any type. A member sees its key ring through such an id: epoch 0 is the id's
own, and 1 the next. So neither the type nor the number of its epoch travels.

A new epoch's keys are used at once, and its id a little later: readers hold
interests under the ids of all epochs that their ring knows, and a publisher's
broker goes over to the newest one when every reader has had time to ask.

    ids = blinded_ids(ring)                         by epoch
    ring_seen = BlindedRing(ring, base=7)           what opens what travels under ids[7]
    ids[publishing_epoch(ring, now)]

A blinded frame also hides who published its events, as which number of which stream, and when. On the outside
stands the publisher's broker with a stream of its own, so that neither a
publisher nor a number leads from one blinded id to the next. All of it is in
one more column, the envelope, sealed with the others; an envelope without a
publication makes a cover frame. The same column fills a frame up to the size
that the owner chose, so that cover and content are of one form (A55, A100).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from maia.credentials import Principal, principal_from_bytes
from maia.errors import BrokenCredential
from maia.events import Column, Instant, Kind
from maia.sealing.frames.content import event_content
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing, RingEpoch
from maia.sealing.keys.secrets import Secret
from maia.types.definition import ENVELOPE_UID
from maia.wire.columns import encode_column, kind_to_number
from maia.wire.messages import Column as WireColumn

IDS_MAX: Final = 16
"""Under so many ids of one type a member asks and offers: those of the newest epochs."""
OVERLAP_S: Final = 10
"""For how long after an epoch began its events travel under the id of the one before."""

_PURPOSE: Final = b"maia/1/blinded-type-id"
_SECOND: Final = 1_000_000


def blinded_id(content_key: Secret) -> bytes:
    """Return the id of a type in an epoch; `content_key` is that of the type's own group in that epoch.

    The content key grows from the group's secret, the type's id and the epoch's number,
    so no two types or epochs share an id.
    """
    return content_key.derive(_PURPOSE).reveal()


def blinded_ids(ring: KeyRing) -> dict[int, bytes]:
    """Return the ids under which a member asks and offers, by epoch, the oldest first."""
    return {epoch: blinded_id(key) for epoch, key in _keys_by_epoch(ring).items()}


def blinded_epochs(ring: KeyRing) -> list[int]:
    """Return the epochs that have such an id, the oldest first."""
    return list(_keys_by_epoch(ring))


def _keys_by_epoch(ring: KeyRing) -> dict[int, Secret]:
    group = GroupId(ring.type_id)
    keys = {number: ring.key(group, number) for number in ring.epochs[-IDS_MAX:]}
    return {number: key for number, key in keys.items() if key is not None}


def publishing_epoch(ring: KeyRing, now: Instant) -> int | None:
    """Return the epoch under whose id events leave at this moment; None for whoever is no member."""
    epochs = blinded_epochs(ring)
    # Readers let go of an id when they forget its key, and that is a drift after the epoch ended.
    overlap = min(OVERLAP_S, ring.terms.drift_s // 2) * _SECOND
    settled = [one for one in epochs if (found := ring.period(one)) and found[0] + overlap <= now]
    return max(settled, default=min(epochs, default=None))


class BlindedRing(KeyRing):
    """A key ring seen through the blinded id of one epoch. It shows what the ring holds, and learns nothing.

    An epoch is counted from the id's own, which is the newest as far as interests and offers
    under the id are concerned: those of the next epoch have another id.
    """

    __slots__ = ("_base", "ring")

    def __init__(self, ring: KeyRing, *, base: int) -> None:
        """Look at `ring` through the id of epoch `base`, whose key is held."""
        key = ring.key(GroupId(ring.type_id), base)
        assert key is not None  # noqa: S101 - `blinded_ids` named the epoch
        super().__init__(blinded_id(key), ring.terms)
        self.ring, self._base = ring, base

    @property
    def newest(self) -> int | None:
        """Return 0: what is asked or offered under this id is of its own epoch."""
        return 0

    def _numbered(self) -> dict[int, RingEpoch]:
        """Return the epochs from the id's own on."""
        known = self.ring._numbered().items()
        return {number - self._base: one for number, one in known if number >= self._base}

    def key(self, group: GroupId, epoch: int) -> Secret | None:
        """Return the content key of a group, which is named by this id, in an epoch."""
        if group.type_id == self.type_id:
            group = GroupId(self.ring.type_id, group.uid)
        return None if epoch < 0 else self.ring.key(group, self._base + epoch)

    def secret(self, group: GroupId, epoch: int) -> Secret | None:
        """Return nothing: what keys grow from is handed on under the type's own name."""
        return None

    def sealing_until(self, epoch: int) -> Instant | None:
        """Return None: the ring behind this one changes, and this one does not say so."""
        return None

    def groups(self, epoch: int) -> frozenset[GroupId]:
        """Return the groups whose key is held in an epoch, named by this id."""
        return frozenset(GroupId(self.type_id, group.uid) for group in super().groups(epoch))


_COVER: Final = b"\x00"
_EVENTS: Final = b"\x01"
_FIELDS: Final = Struct(">32s16sqq")
ENVELOPE_BYTES: Final = 1 + _FIELDS.size
_SLACK: Final = 16
"""Lengths in front of longer values take some bytes more; content is padded to 64 anyway."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What the envelope of a frame says: the identity of a publication, and its moment."""

    publisher: Principal = field(repr=False)
    stream: bytes = field(repr=False)
    sequence: int
    published_at: Instant


def envelope(inside: Inside | None, *, rows: int, fill: int = 0) -> Column:
    """Return the column of a publication, or of cover, with so many bytes to fill the frame."""
    if inside is None:
        said = _COVER + bytes(_FIELDS.size)
    else:
        moment = +inside.published_at
        said = _EVENTS + _FIELDS.pack(inside.publisher.key, inside.stream, inside.sequence, moment)
    return Column(Kind.BYTES, (said + bytes(fill), *[None] * (rows - 1)))


def fill_bytes(columns: Sequence[WireColumn], *, rows: int, size: int) -> int | None:
    """Return by how much the envelope of these columns is filled up to a size; None if they are longer."""
    bare = envelope(None, rows=rows)
    data = encode_column(bare.kind, bare.values)
    written = [*columns, WireColumn(ENVELOPE_UID, kind_to_number(bare.kind), data)]
    room = size - _SLACK - len(event_content(written))
    return room if room >= 0 else None


def read_envelope(column: Column | None) -> Inside | None:
    """Read what an envelope says, None if it is that of a cover frame; refuse what no sealer writes."""
    said = None if column is None or column.kind is not Kind.BYTES or not column.values else column.values[0]
    if not isinstance(said, bytes) or len(said) < ENVELOPE_BYTES or any(said[ENVELOPE_BYTES:]):
        raise BrokenCredential("SEALING-CONTENT", "a blinded frame has no envelope")
    kind, fields = said[:1], said[1:ENVELOPE_BYTES]
    if kind == _COVER and not any(fields):
        return None
    if kind != _EVENTS:
        raise BrokenCredential(
            "SEALING-CONTENT", "the envelope of a blinded frame is neither a publication's nor cover"
        )
    publisher, stream, sequence, moment = _FIELDS.unpack(fields)
    if sequence < 0:
        raise BrokenCredential("SEALING-CONTENT", "the envelope of a blinded frame has no number")
    return Inside(principal_from_bytes(publisher), stream, sequence, Instant(moment))
