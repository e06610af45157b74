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
"""

from __future__ import annotations

from typing import Final

from maia.events import Instant
from maia.sealing.groups.group_id import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.secrets import Secret

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

    @property
    def epochs(self) -> tuple[int, ...]:
        """Return the epochs from the id's own on."""
        return tuple(one - self._base for one in self.ring.epochs if one >= self._base)

    def sealing_epoch(self, now: Instant) -> int | None:
        """Return the newest epoch that has begun, if it is not older than the id."""
        epoch = self.ring.sealing_epoch(now)
        return None if epoch is None or epoch < self._base else epoch - self._base

    def key(self, group: GroupId, epoch: int) -> Secret | None:
        """Return the content key of a group, which is named by this id, in an epoch."""
        return None if epoch < 0 else self.ring.key(self._named(group), self._base + epoch)

    def secret(self, group: GroupId, epoch: int) -> Secret | None:
        """Return nothing: what keys grow from is handed on under the type's own name."""
        return None

    def knows_epoch(self, epoch: int) -> bool:
        """Say whether an epoch was announced, and is not older than the id."""
        return epoch >= 0 and self.ring.knows_epoch(self._base + epoch)

    def period(self, epoch: int) -> tuple[Instant, Instant | None] | None:
        """Return when an epoch began and when the next one does."""
        return None if epoch < 0 else self.ring.period(self._base + epoch)

    def opens(self, epoch: int, published_at: Instant, now: Instant) -> bool:
        """Say whether something published at this moment may have been sealed in this epoch."""
        return epoch >= 0 and self.ring.opens(self._base + epoch, published_at, now)

    def groups(self, epoch: int) -> frozenset[GroupId]:
        """Return the groups whose key is held in an epoch, named by this id."""
        held = self.ring.groups(self._base + epoch) if epoch >= 0 else frozenset[GroupId]()
        return frozenset(GroupId(self.type_id, group.uid) for group in held)

    def _named(self, group: GroupId) -> GroupId:
        return GroupId(self.ring.type_id, group.uid) if group.type_id == self.type_id else group
