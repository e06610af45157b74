"""How are frames sealed so that only readers open them, and only their signer can have made them?

The publisher's broker asks, for one frame or for many of one stream. Each seal takes the next number of a
counter that never goes back, under keys of this process alone: no nonce comes from a clock, and a restart,
a fork or a second broker of one identity counts under other keys (A45).

    sealer = Sealer(broker_key, random=os.urandom, process_id=os.getpid)
    drafts = sealer.seal([columns], [about], keys=keys, level=level)
    frames = sealer.sign(drafts)

Frames of one turn share a signature. Sealed together or one by one, frames are the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter, call
from typing import Final, NoReturn

import msgspec
from msgspec.structs import replace

from maia.credentials import Principal, SignedKind, SigningKey
from maia.errors import BadInput, Unavailable
from maia.sealing.frames.ciphers import INSTANCE_BYTES, EpochKeys, description, nonce
from maia.sealing.frames.content import LEVEL_NUMBERS, commitments, parts_of_event, plaintexts_of
from maia.sealing.frames.proof import BATCH_MAX, batch_of, roots_of
from maia.types import SealingLevel
from maia.wire.messages import (
    Author,
    CarriedSigned,
    Column,
    FrameSignature,
    Sealed,
    SealedColumn,
    SealedWithAuthor,
    SealMark,
)

COUNTER_MAX: Final = (1 << 48) - 1
"""Seals of one instance: far fewer than AES-GCM bears under one key."""

NOT_SIGNED: Final = bytes(64)
_uid: Final = attrgetter("uid")


class Publication(msgspec.Struct, frozen=True):
    """What is said in the clear about a frame that is to be sealed.

    `kept` numbers the rows in the publisher's frame, and is empty for all. What is in a frame of several rows
    is committed to, so that one column of it is proved by itself; of a single event the ciphertext is
    signed, unless it `is_shared`: then plaintext that goes along is compared with the commitment.
    """

    publisher: Principal
    stream: bytes
    sequence: int
    published_at: int
    rows: int
    kept: Sequence[int] = ()
    is_shared: bool = False
    author: Author | None = None
    """What the signer attaches about the publisher."""


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A frame without its signature, the hash that is to be signed, and what is in it."""

    frame: Sealed | CarriedSigned
    root: bytes
    columns: Sequence[Column]

    def __repr__(self) -> str:
        """Say which frame it is, and nothing of what is in it."""
        return f"Draft(sequence={self.frame.sequence}, rows={self.frame.rows})"


class Sealer:
    """What one process seals and signs with. It is never copied: two counters would be one nonce twice."""

    __slots__ = ("_counter", "_instance", "_key", "_process", "_process_id", "_random")

    def __init__(
        self, key: SigningKey, *, random: Callable[[int], bytes], process_id: Callable[[], int]
    ) -> None:
        """Begin a new instance. `process_id` tells a fork from its parent."""
        self._key = key
        self._random = random
        self._process_id = process_id
        self._begin()

    def _begin(self) -> None:
        self._instance = self._random(INSTANCE_BYTES)
        self._process = self._process_id()
        self._counter = 0

    @property
    def instance(self) -> bytes:
        """Return under whose keys this process seals, unless it was forked meanwhile."""
        return self._instance

    @property
    def principal(self) -> Principal:
        """Return who signs."""
        return self._key.principal

    def next_marks(self, count: int) -> list[SealMark]:
        """Return marks that no seal has had: the counter's next numbers, under this process's instance."""
        if self._process != self._process_id():
            # A child of the process that counted so far. It goes on under keys of its own.
            self._begin()
        first = self._counter + 1
        if self._counter + count > COUNTER_MAX:
            raise Unavailable("SEALING-WORN-OUT", "this process has sealed as much as its keys bear")
        self._counter += count
        return [SealMark(self._instance, number) for number in range(first, first + count)]

    def seal(
        self,
        columns: Sequence[Sequence[Column]],
        about: Sequence[Publication],
        *,
        keys: EpochKeys,
        level: SealingLevel,
    ) -> list[Draft]:
        """Return frames with the same attributes sealed, to be signed; `columns` are those of each."""
        uids = tuple(map(_uid, columns[0]))
        for own in columns:
            if len(columns) > 1 and tuple([one.uid for one in own]) != uids:
                raise BadInput("SEALING-BATCH", "frames that are sealed together have the same columns")
        if level is SealingLevel.EVENT:
            uids = parts_of_event(uids)
        count = len(about)
        marks = self.next_marks(count)
        held = keys.looked_up(uids, marks[0].instance)
        if held.missing:
            lacking = held.missing[0] or "*"
            raise Unavailable(
                "SEALING-KEY-MISSING", f"the key of attribute `{lacking}` is not held in epoch `{keys.epoch}`"
            )
        frames = self._skeletons(about, keys, level, marks)
        described = list(map(description, frames))
        # By column, and of each column frame after frame, one step for all and then the next: code that has
        # just run runs twice as fast.
        plaintexts = plaintexts_of(columns, level)
        encrypt = [one.encrypt for one in held.held for _ in marks]
        numbers = [nonce(mark) for mark in marks] * len(uids)
        bound = [one + name for name in held.names for one in described]
        sealed = list(map(call, encrypt, numbers, plaintexts, bound))
        said: list[Sequence[bytes]] = []
        signed: list[Sequence[bytes]] = []
        for at, frame in enumerate(frames):
            of_columns: Sequence[bytes] = held.key_names
            ciphertexts = sealed[at::count]
            if frame.is_committed:
                counter = repeat(frame.mark.counter)
                of_columns = commitments(held.salts, counter, held.names, plaintexts[at::count])
            frame.columns.extend(map(SealedColumn, uids, ciphertexts, of_columns))
            said.append(of_columns)
            signed.append(() if frame.is_committed else ciphertexts)
        return list(map(Draft, frames, roots_of(uids, described, said, signed), columns))

    def _skeletons(
        self, about: Sequence[Publication], keys: EpochKeys, level: SealingLevel, marks: Sequence[SealMark]
    ) -> list[Sealed]:
        """Return frames without columns and signature."""
        type_id, epoch, signer, number = (
            keys.type_id,
            keys.epoch,
            self._key.principal.key,
            LEVEL_NUMBERS[level],
        )
        frames: list[Sealed] = []
        for one, mark in zip(about, marks, strict=True):
            # An Instant becomes the int that travels.
            label = type_id, one.publisher.key, signer, one.stream, one.sequence, +one.published_at
            fields = *label, number, epoch, one.rows, one.rows > 1 or one.is_shared, list(one.kept), mark
            if one.author is None:
                frames.append(Sealed(*fields, [], NOT_SIGNED, 0, []))
            else:
                frames.append(SealedWithAuthor(*fields, [], NOT_SIGNED, 0, [], one.author))
        return frames

    def sign(self, drafts: Sequence[Draft]) -> list[Sealed | CarriedSigned]:
        """Return drafts with one signature over all of them; each one alone is provable."""
        if not 1 <= len(drafts) <= BATCH_MAX:
            raise BadInput(
                "SEALING-BATCH", f"one signature covers 1 to {BATCH_MAX} frames, and {len(drafts)} were given"
            )
        root, paths = batch_of([draft.root for draft in drafts])
        signature = self._key.sign(SignedKind.FRAME, root)
        return [
            _with_signature(draft.frame, signature, place, path)
            for place, (draft, path) in enumerate(zip(drafts, paths, strict=True))
        ]

    def __repr__(self) -> str:
        """Say who seals, and nothing of its keys."""
        return f"Sealer(principal={self.principal})"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied."""
        raise TypeError("a sealer cannot be pickled or copied")


def _with_signature(
    frame: Sealed | CarriedSigned, signature: bytes, place: int, path: list[bytes]
) -> Sealed | CarriedSigned:
    if not isinstance(frame, CarriedSigned):
        return replace(frame, signature=signature, place=place, path=path)
    said = frame.signed  # written out: it is done for every event, and `replace` takes three times as long
    label = frame.type_id, frame.publisher, frame.stream, frame.sequence, frame.published_at, frame.rows
    proof = FrameSignature(said.signer, said.right, said.signed_at, signature, place, path)
    return CarriedSigned(*label, frame.kept, frame.columns, frame.author, frame.view, frame.origin, proof)
