"""What can this broker read of a frame that was recorded, or kept as the present state?

Plaintext frames were checked when they were published. A sealed frame is opened with the keys
that are still held, or that the type's key manager hands out again for an epoch that is over;
its proof is checked as if it arrived now. Whether its signer was entitled is decided for the
moment at which it was recorded, because a right that ended later does not take back what was
published under it (A37).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from maia.broker.interests.named_rights import NamedRights
from maia.broker.keys.blinded import reveal
from maia.broker.keys.keys import KeyRequests, SealingKeys, spoken_of
from maia.broker.keys.publisher_rights import PublisherRights
from maia.broker.links.transit import Transit, from_carried
from maia.broker.log.recording import Recording
from maia.broker.refusals import PlainOfSealed, SealedTooWeakly
from maia.broker.rights.known_types import KnownTypes
from maia.broker.streams.borders import Borders
from maia.broker.streams.neighbour import Signers, opened_part, said_in
from maia.broker.turn import Turn
from maia.errors import MaiaError, Refusal, Unavailable
from maia.events import AttributeUid
from maia.sealing import LEVEL_NUMBERS, EpochKeys, open_run, read_run, verify
from maia.sealing.frames.signed import signer_of_run
from maia.wire.codec import decode_recorded
from maia.wire.columns import FrameReader
from maia.wire.effects import LinkId, Logged
from maia.wire.messages import Carried, CarriedSigned, Sealed, Unblinded, signer_of


@dataclass(frozen=True, slots=True)
class Readable:
    """A recorded frame as far as it can be read here."""

    transit: Transit
    missing: frozenset[AttributeUid] = frozenset()
    signer: bytes = b""
    """Who signed it, entitled to; empty for a plain frame."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """Nothing can be said of a frame before its signer's certificates, or its epoch's keys, are known."""

    ask: Callable[[Turn], None]
    """Ask the type's key manager for these."""
    may_come: Callable[[], bool]
    """Whether the manager has not been able to answer yet: however long that takes, it is waited for."""
    in_vain: MaiaError
    """What became of the frame if they do not come within some seconds of its answer."""


Outcome: TypeAlias = Readable | Awaited | MaiaError


@dataclass(slots=True, eq=False)
class RecordedFrames:
    """The reader of frames that were recorded."""

    types: KnownTypes
    seals: SealingKeys
    keys: KeyRequests
    writers: PublisherRights
    signers: Signers
    named_rights: NamedRights
    borders: Borders
    recording: Recording | None

    def read(self, logged: Logged) -> Outcome:
        """Return what can be read of a frame, or why nothing can."""
        try:
            message = decode_recorded(logged.data)
            if isinstance(message, Carried):
                transit = from_carried(message, self.types.kinds(message.type_id))
                return Readable(transit, signer=signer_of(message))
            return self._opened(message, logged)
        except MaiaError as problem:
            return problem

    def forget_past(self, type_id: bytes) -> None:
        """Destroy the keys of epochs of a type that are over."""
        self.keys.member.past.forget(type_id)

    def check(self, link: LinkId, frame: Carried | Sealed, turn: Turn) -> Transit | Sealed:
        """Return a frame that another broker has kept, if it is proved, and protected as its type asks."""
        sealing = self.types.sealing(frame.type_id)
        if isinstance(frame, Sealed):
            run = read_run([frame])  # one that contradicts itself ends the link
            if sealing is not None and frame.level < LEVEL_NUMBERS[sealing.level]:
                raise SealedTooWeakly("a frame is sealed less than its type asks for")
            verify(run, self.seals.checks)  # before it is remembered or passed on (A90)
            return frame
        if sealing is not None:
            raise PlainOfSealed("the owner of this type wants it sealed")
        found = from_carried(frame, self.types.kinds(frame.type_id))
        if isinstance(frame, CarriedSigned):
            self.named_rights.check(link, frame, found.frame, self.borders.made_for(found), turn)
            signer_of_run([frame], self.seals.checks)
        elif self.types.is_signed(frame.type_id):
            raise PlainOfSealed("REFUSED-UNSIGNED", "the owner of this type wants its frames signed")
        return found

    def _opened(self, frame: Sealed, logged: Logged) -> Outcome:
        type_id, epoch = frame.type_id, frame.epoch
        keys = self.seals.keys(type_id, epoch)
        found = None if keys is None else self._read(frame, keys, logged)
        if found is not None:
            return found
        if self.keys.awaits_past(type_id, epoch):
            gone = Unavailable("UNAVAILABLE-LOG-KEYS-GONE", "its keys are not held any more")
            may_come = partial(self.keys.awaits_past, type_id, epoch)
            return Awaited(partial(self.keys.ask_for_past, type_id, epoch), may_come, gone)
        past, recorded_at = self.keys.member.past.opening(type_id, epoch), int(logged.recorded_at)
        if self.recording is not None and self.recording.was_fetched(logged.position):
            # Recorded elsewhere in its time. Its signer must have been entitled when it was fetched (A50).
            recorded_at = min(recorded_at, frame.published_at)
        if past is not None and past.is_of_its_time(published_at=frame.published_at, recorded_at=recorded_at):
            found = self._read(frame, past.keys, logged)
        return found or Unavailable(
            "UNAVAILABLE-LOG-KEYS-GONE",
            "the keys of the time at which it was published are not to be had any more",
        )

    def _read(self, frame: Sealed, keys: EpochKeys, logged: Logged) -> Outcome | None:
        """Open a frame and prove it; None if these keys open nothing of it."""
        type_id, travelled = frame.type_id, frame
        if isinstance(frame, Unblinded):
            travelled, keys = frame.travelled(), keys.through(frame.blinded_id, frame.id_epoch)
        opened = open_run(verify(read_run([travelled]), self.seals.checks), keys)
        if opened.is_closed:
            return None
        kinds, signer = self.types.kinds(type_id), opened.signer
        part, missing = opened_part(opened, kinds, FrameReader(None, kinds))
        if not self.writers.knows(type_id, signer):
            self.signers.learn_what_is_at_hand(type_id, signer)
        uids = spoken_of(self.seals, type_id, said_in(part, opened))
        versions, read = self.types.versions(type_id), (part.frame, missing)
        may = self.writers.might_write(signer, versions, uids, logged.recorded_at, read)
        if may is None:
            unknown = Unavailable(
                "UNAVAILABLE-LOG-UNREADABLE", "its signer is not known, so it was not delivered"
            )
            may_come = partial(self.keys.member.awaits_writer, type_id, signer)
            return Awaited(partial(self.keys.ask_for_writer, type_id, signer), may_come, unknown)
        if not may:
            return Refusal(
                "SEALING-SIGNER-NOT-ENTITLED",
                "a frame was signed by a principal that could not publish what is in it",
            )
        said = reveal(part, type_id) if isinstance(frame, Unblinded) else part
        return (
            Unavailable("UNAVAILABLE-LOG-UNREADABLE", "cover was recorded")
            if said is None
            else Readable(said, missing, signer.key)
        )
