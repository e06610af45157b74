"""With which keys does this broker seal and open, and which frames wait for one?

The publication path asks for every frame of a sealed type. Keys come from the
rings that the broker's key member fills, and go when the rings let go of
them. What is derived from a key lives no longer than the key. The sealer
belongs to this start of this process alone (A45).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from maia.broker.publication.transit import Transit
from maia.broker.sealed.waiting_frames import WaitingFrames, WaitingLimits
from maia.broker.settings import BrokerLimits
from maia.credentials import SigningKey
from maia.events import AttributeUid, Instant
from maia.sealing import Draft, EpochKeys, OpenedFrame, Sealer, Secret, SignatureChecks, VerifiedFrame
from maia.sealing.groups.group_id import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.wire.effects import LinkId
from maia.wire.messages import OpenContent, Publish, Sealed

__all__ = ["Arrived", "SealingKeys"]

_EPOCHS_MAX: Final = 4096
"""Epochs, of all types, whose derived keys are remembered; the oldest go first."""


class Arrived:
    """A sealed frame from a neighbour, with what came along, where it came from, and how long it may wait."""

    __slots__ = ("contents", "source", "until", "verified")

    def __init__(self, verified: VerifiedFrame, contents: list[OpenContent], source: LinkId) -> None:
        """Take note of a frame as it arrived, once its signature is verified."""
        self.verified, self.contents, self.source = verified, contents, source
        self.until: Instant | None = None
        """When it gives up, if it has begun to wait."""

    @property
    def closed(self) -> OpenedFrame:
        """Return the frame with nothing of it opened."""
        return self.verified.opened

    @property
    def frame(self) -> Sealed:
        """Return the frame as it travels."""
        return self.closed.frame

    @property
    def size(self) -> int:
        """Return roughly how much memory the frame holds on to."""
        sealed = sum(len(column.sealed) + len(column.commitment) for column in self.frame.columns)
        return 512 + 2 * len(self.frame.kept) + sealed + sum(len(one.content) for one in self.contents)

    @property
    def stream(self) -> tuple[bytes, bytes, bytes]:
        """Return which stream the frame is of: another signer's frames do not wait behind it (A85)."""
        return self.frame.publisher, self.frame.stream, self.frame.signer


class SealingKeys:
    """What one broker seals, opens and checks with."""

    __slots__ = (
        "_epochs",
        "carrying",
        "checks",
        "projecting",
        "publishing",
        "ring_of",
        "sealer",
        "unsigned",
    )

    def __init__(
        self,
        key: SigningKey,
        *,
        random: Callable[[int], bytes],
        process_id: Callable[[], int],
        limits: BrokerLimits,
        ring_of: Callable[[bytes], KeyRing | None],
    ) -> None:
        """Begin with a sealer that never sealed; `ring_of` finds the keys of a type."""
        waiting = WaitingLimits(
            frames=limits.frames_waiting_per_type,
            size_bytes=limits.bytes_waiting_per_type,
            types=limits.types,
            wait_s=limits.wait_for_keys_s,
        )
        self.ring_of: Callable[[bytes], KeyRing | None] = ring_of
        self.sealer = Sealer(key, random=random, process_id=process_id)
        self.checks = SignatureChecks()
        self.carrying: WaitingFrames[Arrived] = WaitingFrames(waiting)
        """Frames from neighbours, of epochs or signers that are not known yet."""
        self.publishing: WaitingFrames[tuple[LinkId, Publish]] = WaitingFrames(waiting)
        """Frames of this broker's publishers, for which there is no key yet."""
        self.projecting: WaitingFrames[tuple[LinkId, int, Transit]] = WaitingFrames(waiting)
        """The same of frames that are published as a super-type, with their link and reference."""
        self.unsigned: list[Draft] = []
        """What was sealed in this turn and is to be signed at its end."""
        self._epochs: dict[tuple[bytes, int], EpochKeys] = {}

    def keys(self, type_id: bytes, epoch: int) -> EpochKeys | None:
        """Return what is held of a type in an epoch; None if the epoch is not known."""
        ring = self.ring_of(type_id)
        if ring is None or not ring.knows_epoch(epoch):
            self._forget(type_id, epoch)
            return None
        known = self._epochs.get((type_id, epoch))
        return self._new_keys(type_id, epoch) if known is None else known

    def _new_keys(self, type_id: bytes, epoch: int) -> EpochKeys:
        def lookup(uid: AttributeUid | None) -> Secret | None:
            # The ring of this moment, not of the first question: it may have been replaced since.
            ring = self.ring_of(type_id)
            return None if ring is None else ring.key(GroupId(type_id, uid), epoch)

        made = self._epochs[type_id, epoch] = EpochKeys(type_id, epoch, lookup)
        if len(self._epochs) > _EPOCHS_MAX:
            self._forget(*next(iter(self._epochs)))
        return made

    def _forget(self, type_id: bytes, epoch: int) -> None:
        """Let go of an epoch, and of everything that was derived from its keys."""
        dropped = self._epochs.pop((type_id, epoch), None)
        if dropped is not None:
            dropped.forget()

    def forget_dropped(self) -> None:
        """Let go of what was derived from keys of epochs that no ring knows any more."""
        for type_id, epoch in list(self._epochs):
            ring = self.ring_of(type_id)
            if ring is None or not ring.knows_epoch(epoch):
                self._forget(type_id, epoch)

    def sealing_keys(self, type_id: bytes, published_at: Instant, now: Instant) -> EpochKeys | None:
        """Return the newest keys that readers accept for something published at this moment; None if none."""
        ring = self.ring_of(type_id)
        epoch = None if ring is None else ring.sealing_epoch(now)
        while ring is not None and epoch is not None and ring.knows_epoch(epoch):
            if ring.opens(epoch, published_at, now):
                return self.keys(type_id, epoch)
            epoch -= 1
        return None

    def has_key(self, type_id: bytes, uid: AttributeUid | None, epoch: int) -> bool:
        """Say whether the key of an attribute (None: of the type's own group) is held in an epoch."""
        ring = self.ring_of(type_id)
        return ring is not None and ring.key(GroupId(type_id, uid), epoch) is not None

    def has_begun(self, type_id: bytes, now: Instant) -> bool:
        """Say whether there is an epoch to seal in at all."""
        ring = self.ring_of(type_id)
        return ring is not None and ring.sealing_epoch(now) is not None

    def holds(self, type_id: bytes, uid: AttributeUid | None, now: Instant) -> bool:
        """Say whether an attribute (None: the type's own group) can be read in the present epoch."""
        ring = self.ring_of(type_id)
        epoch = None if ring is None else ring.sealing_epoch(now)
        return epoch is not None and self.has_key(type_id, uid, epoch)

    def next_due(self) -> Instant | None:
        """Return when the first waiting frame gives up."""
        moments = (self.carrying.next_due(), self.publishing.next_due(), self.projecting.next_due())
        return min((moment for moment in moments if moment is not None), default=None)
