"""What does a frame cost from its publisher to its subscriber, in the clear and sealed?

The setting of the dissertation's figure 7.7: a publisher, its broker, the
subscriber's broker, the subscriber, no filter. All four take their turns in
one process, as in the paper's simulator, so that what is measured is the work
of all. Both ways read, check, shape, match and screen a frame with the
functions that brokers and clients use. The sealed way also seals it at the
first broker, and opens and verifies it at the second.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count

from maia.broker.transit import Transit, from_carried, written_as
from maia.credentials import SigningKey
from maia.events import AttributeUid, Column, Frame, Kind, Kinds
from maia.predicates import ALWAYS
from maia.predicates.admitted_rows import admitted_rows
from maia.sealing import (
    EpochKeys,
    Publication,
    Sealer,
    Secret,
    SignatureChecks,
    open_frame,
    verify_frame,
)
from maia.sealing.ciphers import Cipher
from maia.sealing.content import OpenPart
from maia.types import SealingLevel
from maia.wire.codec import decode, encode
from maia.wire.columns import columns_to_frame, frame_to_columns
from maia.wire.messages import Carried, Deliver, Publish, Sealed, SealMark

PUBLISHED_AT = 1_800_000_000_000_000
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
    proof: Proof = Proof.EACH
    together: int = 1
    """Frames that arrive with one read of a socket."""
    characters: int = CHARACTERS


class Unproved(Sealer):
    """Seals and says nothing about it: what signing costs is the difference. No reader would accept it."""

    __slots__ = ()

    def _said(
        self, parts: Sequence[OpenPart], ciphers: Sequence[Cipher], mark: SealMark, *, rows: int
    ) -> list[bytes]:
        return [bytes(32)] * len(parts)


class Line:
    """A publisher, two brokers and a subscriber. `carry` takes some frames from one end to the other."""

    def __init__(self, setting: Setting) -> None:
        """Make up the events, the keys, and everybody's state."""
        self.setting = setting
        uids = [AttributeUid(f"attribute-{number}") for number in range(setting.attributes)]
        self.kinds: Kinds = dict.fromkeys(uids, Kind.STRING)
        self.frame = Frame(setting.rows, {uid: _column(setting, at) for at, uid in enumerate(uids)})
        self.broker_key = SigningKey.from_seed(os.urandom(32))
        self.publisher = SigningKey.from_seed(os.urandom(32)).principal
        self.type_id, self.stream = os.urandom(32), os.urandom(16)
        kind = Unproved if setting.proof is Proof.NONE else Sealer
        self.sealer = kind(self.broker_key, random=os.urandom, process_id=os.getpid)
        secrets: dict[AttributeUid | None, Secret] = {uid: Secret.fresh(os.urandom) for uid in (None, *uids)}
        # Each broker has derived keys of its own.
        self.sealing_keys = EpochKeys(self.type_id, 1, secrets.get)
        self.opening_keys = EpochKeys(self.type_id, 1, secrets.get)
        self.checks = SignatureChecks()
        self.sequence = count(1)

    def carry(self) -> Sequence[Frame]:
        """Take the frames of one read from the publisher to the subscriber."""
        published = [self.publish() for _ in range(self.setting.together)]
        return [self.receive(self.deliver(sent)) for sent in self.take_on(published)]

    # ------------------------------------------------------------ the four stations

    def publish(self) -> bytes:
        """The publisher."""
        columns = frame_to_columns(self.frame)
        return encode(Publish(1, next(self.sequence), PUBLISHED_AT, self.frame.rows, columns))

    def take_on(self, published: Sequence[bytes]) -> list[bytes]:
        """The publisher's broker."""
        transits = [self._read(data) for data in published]
        if self.setting.level is None:
            return [encode(transit.as_carried()) for transit in transits]
        return [encode(frame) for frame in self._sealed(transits, self.setting.level)]

    def deliver(self, data: bytes) -> bytes:
        """The subscriber's broker."""
        message = decode(data)
        transit = self._opened(message) if isinstance(message, Sealed) else self._carried(message)
        seen = transit.cut(admitted_rows(ALWAYS, transit.frame))
        return encode(
            Deliver(
                [1],
                transit.publisher.key,
                transit.stream,
                transit.sequence,
                transit.published_at,
                seen.frame.rows,
                seen.columns(self.kinds.keys()),
            )
        )

    def receive(self, data: bytes) -> Frame:
        """The subscriber."""
        message = decode(data)
        assert isinstance(message, Deliver)
        return columns_to_frame(message.columns, message.rows, self.kinds)

    # ------------------------------------------------------------ steps

    def _read(self, data: bytes) -> Transit:
        message = decode(data)
        assert isinstance(message, Publish)
        frame = columns_to_frame(message.columns, message.rows, self.kinds)
        return Transit(
            self.type_id,
            self.publisher,
            self.stream,
            message.sequence,
            message.published_at,
            frame,
            (),
            written_as(message.columns),
        )

    def _sealed(self, transits: Sequence[Transit], level: SealingLevel) -> list[Sealed]:
        drafts = [
            self.sealer.draft(
                one.columns(),
                Publication(one.publisher, one.stream, one.sequence, one.published_at, one.frame.rows),
                keys=self.sealing_keys,
                level=level,
                values=one.frame.columns,
            )
            for one in transits
        ]
        if self.setting.proof is Proof.TOGETHER:
            return self.sealer.sign(drafts)
        if self.setting.proof is Proof.EACH:
            return [self.sealer.sign([draft])[0] for draft in drafts]
        return [draft.frame for draft in drafts]

    def _opened(self, frame: Sealed) -> Transit:
        opened = open_frame(frame, self.opening_keys)
        if self.setting.proof is not Proof.NONE:
            opened = verify_frame(opened, self.opening_keys, self.checks).opened
        columns = opened.columns
        return Transit(
            frame.type_id,
            self.publisher,
            frame.stream,
            frame.sequence,
            frame.published_at,
            columns_to_frame(columns, opened.rows, self.kinds),
            opened.row_numbers,
            written_as(columns),
        )

    def _carried(self, message: object) -> Transit:
        assert isinstance(message, Carried)
        return from_carried(message, self.kinds)


def _column(setting: Setting, at: int) -> Column:
    # Texts of one length, as in the paper, of which no two are equal.
    width = setting.characters
    return Column(Kind.STRING, tuple(f"{at * setting.rows + row:0{width}d}" for row in range(setting.rows)))


def side(setting: Setting) -> Callable[[], object]:
    """Return one turn of a line that was seen to deliver what was published."""
    line = Line(setting)
    assert all(frame == line.frame for frame in line.carry())
    return line.carry
