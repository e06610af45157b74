"""What does a frame cost from its publisher to its subscriber, in the clear and sealed?

The setting of the dissertation's figure 7.7: a publisher, its broker, the
subscriber's broker, the subscriber, no filter. All four take their turns in
one process, as in the paper's simulator, so that what is measured is the work
of all. The brokers are real (`broker_row.py`), and everything that crosses a
link does so as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count

from broker_row import REF, Row, world_of
from maia.broker.sealed import publication as sealed_publication
from maia.credentials import Principal
from maia.events import Column, Frame, Kind
from maia.predicates import ALWAYS, Predicate
from maia.sealing import Draft, EpochKeys, OpenedFrame, Sealer, SignatureChecks
from maia.sealing.frames.blocks import Division
from maia.sealing.frames.ciphers import Cipher
from maia.sealing.frames.content import OpenPart
from maia.types import SealingLevel
from maia.wire.codec import decode, encode
from maia.wire.columns import columns_to_frame, frame_to_columns
from maia.wire.messages import Deliver, Publish, Sealed, SealMark

CHARACTERS = 30


class Proof(Enum):
    """What is proved about a sealed frame."""

    NONE = "not signed"
    EACH = "a signature for each frame"
    TOGETHER = "a signature for the frames that arrive together"


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of figure 7.8; with no level, events travel in the clear."""

    attributes: int
    rows: int
    level: SealingLevel | None = None
    proof: Proof = Proof.TOGETHER
    together: int = 1
    """Frames that arrive with one read of a socket."""
    characters: int = CHARACTERS
    brokers: int = 2
    share_plaintext: bool = False
    filter: Predicate = ALWAYS


class Unproved(Sealer):
    """Seals and says nothing about it: what signing costs is the difference. No reader would accept it."""

    __slots__ = ()

    def _said(
        self, parts: Sequence[OpenPart], ciphers: Sequence[Cipher], mark: SealMark, divided: Division
    ) -> list[list[bytes]]:
        return [[bytes(32)]] * len(parts)

    def sign(self, drafts: Sequence[Draft]) -> list[Sealed]:
        """Leave the signature out."""
        return [draft.frame for draft in drafts]


@dataclass(frozen=True, slots=True)
class _Believed:
    opened: OpenedFrame
    signer: Principal


def _believe(opened: OpenedFrame, _keys: EpochKeys | None, _checks: SignatureChecks) -> _Believed:
    return _Believed(opened, Principal(opened.frame.signer))


def _believe_further(believed: _Believed, _opened: OpenedFrame, _keys: EpochKeys) -> _Believed:
    return believed


class Line:
    """A publisher, its broker and the subscriber's, a subscriber. `carry` takes some frames all the way."""

    def __init__(self, setting: Setting) -> None:
        """Make up the events and let everybody meet."""
        self.setting = setting
        world = world_of(setting.attributes, setting.level)
        self.kinds = world.event_type.kinds
        columns = {uid: _column(setting, at) for at, uid in enumerate(self.kinds)}
        self.frame = Frame(setting.rows, columns)
        self.row = Row(
            world,
            brokers=setting.brokers,
            filter=setting.filter,
            share_plaintext=setting.share_plaintext,
        )
        self.published_at = int(self.row.now)
        self.sequence = count(0)
        if setting.proof is Proof.NONE and setting.level is not None:
            first = self.row.brokers[0]._state
            first.seals.sealer = Unproved(first.key, random=first.random, process_id=lambda: 0)

    def carry(self) -> Sequence[Frame]:
        """Take the frames of one read from the publisher to the subscriber."""
        setting = self.setting
        published = [self.publish() for _ in range(setting.together)]
        sent = self.row.at_first(published, together=setting.proof is not Proof.EACH)
        for number in range(1, setting.brokers - 1):
            sent = self.row.at_hop(number, sent)
        return [self.receive(data) for data in self.row.at_last(sent)]

    def carry_unproved(self) -> Sequence[Frame]:
        """Do the same where the last broker believes whatever it is told."""
        proving = sealed_publication.verify_frame, sealed_publication.verify_further
        # What proving costs is measured.
        sealed_publication.verify_frame = _believe  # type: ignore[assignment]
        sealed_publication.verify_further = _believe_further  # type: ignore[assignment]
        try:
            return self.carry()
        finally:
            sealed_publication.verify_frame, sealed_publication.verify_further = proving

    def publish(self) -> bytes:
        """The publisher."""
        columns = frame_to_columns(self.frame)
        return encode(Publish(REF, next(self.sequence), self.published_at, self.frame.rows, columns))

    def receive(self, data: bytes) -> Frame:
        """The subscriber."""
        message = decode(data)
        assert isinstance(message, Deliver)
        return columns_to_frame(message.columns, message.rows, self.kinds)


def _column(setting: Setting, at: int) -> Column:
    # Texts of one length, as in the paper, of which no two are equal.
    width = setting.characters
    return Column(Kind.STRING, tuple(f"{at * setting.rows + row:0{width}d}" for row in range(setting.rows)))


def side(setting: Setting) -> Callable[[], object]:
    """Return one turn of a line that was seen to deliver what was published."""
    line = Line(setting)
    run = line.carry_unproved if setting.proof is Proof.NONE and setting.level else line.carry
    delivered = run()
    assert len(delivered) == setting.together
    if setting.filter is ALWAYS:
        assert all(frame == line.frame for frame in delivered)
    return run
