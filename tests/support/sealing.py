"""Publishers' brokers, readers and frames to try sealing with; every key and number can be had again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import cycle, islice

from hypothesis import strategies as st

from maia.credentials import Principal, SigningKey
from maia.events import AttributeUid, Column, Frame, Instant, Kind, Value
from maia.policy.answers import PART_PREFIX
from maia.sealing import (
    Draft,
    EpochKeys,
    Publication,
    Sealer,
    Secret,
    SignatureChecks,
    VerifiedRun,
    open_run,
    read_run,
    verify,
)
from maia.types import SealingLevel
from maia.wire.columns import columns_to_frame, frame_to_columns
from maia.wire.messages import Sealed, SealMark
from support.wire import values_of

BROKER = SigningKey.from_seed(b"publisher's broker".ljust(32, b"."))
ANOTHER_BROKER = SigningKey.from_seed(b"another broker".ljust(32, b"."))
PUBLISHER = SigningKey.from_seed(b"camera".ljust(32, b".")).principal
TYPE_ID = sha256(b"numberplate").digest()
STREAM = b"stream of events"
NOON = Instant.parse("2026-11-15T12:00:00Z")
PLATE, PLACE, SEEN = AttributeUid("plate"), AttributeUid("place"), AttributeUid("seen")
KINDS = {PLATE: Kind.STRING, PLACE: Kind.STRING, SEEN: Kind.TIMESTAMP}
LEVELS = tuple(SealingLevel)


def numbered(seed: bytes) -> Callable[[int], bytes]:
    """Return "random" bytes that can be had again, and that differ at every call."""
    calls = iter(range(1 << 30))
    return lambda count: sha256(seed + b"%d" % next(calls)).digest()[:count]


def secret(*of: object) -> Secret:
    """Return the secret that belongs to these words."""
    return Secret.from_bytes(sha256(repr(of).encode()).digest())


def keys(
    epoch: int = 1,
    *,
    type_id: bytes = TYPE_ID,
    only: Iterable[AttributeUid | None] | None = None,
) -> EpochKeys:
    """Return a member's keys: of every group, or of `only` some."""
    held = None if only is None else frozenset(only)
    return EpochKeys(
        type_id,
        epoch,
        lambda uid: secret(type_id, uid, epoch) if held is None or uid in held else None,
    )


def sealer(key: SigningKey = BROKER, seed: bytes = b"process", *, process: int = 1) -> Sealer:
    """Return a process that seals."""
    return Sealer(key, random=numbered(seed), process_id=lambda: process)


def plates(rows: int, first: int = 0) -> Frame:
    """Return sightings that differ in every row, with a null here and there, counted from `first`."""
    numbers = range(first, first + rows)
    return Frame(
        rows,
        {
            PLATE: Column(Kind.STRING, tuple(f"AE{row:05d}" + "x" * (row % 40) for row in numbers)),
            PLACE: Column(Kind.STRING, tuple(None if row % 7 == 3 else f"Victoria {row}" for row in numbers)),
            SEEN: Column(Kind.TIMESTAMP, tuple(Instant(NOON + row) for row in numbers)),
        },
    )


PART = AttributeUid(PART_PREFIX + "0123456789abcdef" * 2)


def with_part(event: Frame, *, shown: bool = True) -> Frame:
    """Return a frame with a part for those who may see places and what plates begin with, of some rows."""
    rows = range(event.rows)
    marks = tuple([True if shown and row % 2 == 0 else None for row in rows])

    def made(values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple([one if mark else None for one, mark in zip(values, marks, strict=True)])

    begins = [str(plate)[:4] for plate in event.columns[PLATE].values]
    columns = {
        PART: Column(Kind.BOOL, marks),
        AttributeUid(f"{PART}-0"): Column(Kind.STRING, made(event.columns[PLACE].values)),
        AttributeUid(f"{PART}-1"): Column(Kind.STRING, made(begins)),
    }
    return Frame(event.rows, {**event.columns, **columns})


@dataclass(slots=True)
class Publishing:
    """A publisher's broker that seals frames with numbers of their own."""

    by: Sealer = field(default_factory=sealer)
    keys: EpochKeys = field(default_factory=keys)
    level: SealingLevel = SealingLevel.ATTRIBUTE
    sequence: int = 0

    def about(self, rows: int, kept: Iterable[int] = (), *, is_shared: bool = False) -> Publication:
        """Return what is said in the clear about the next frame."""
        self.sequence += 1
        return Publication(PUBLISHER, STREAM, self.sequence, NOON, rows, tuple(kept), is_shared)

    def draft(self, frame: Frame, kept: Iterable[int] = (), *, is_shared: bool = False) -> Draft:
        """Return a frame sealed and not signed; with `is_shared`, also of a single event the content is."""
        about = self.about(frame.rows, kept, is_shared=is_shared)
        return self.by.seal([frame_to_columns(frame)], [about], keys=self.keys, level=self.level)[0]

    def seal(self, frame: Frame, kept: Iterable[int] = (), *, is_shared: bool = False) -> Sealed:
        """Return a frame sealed and signed."""
        return self.by.sign([self.draft(frame, kept, is_shared=is_shared)])[0]


class Believing(SignatureChecks):
    """Believes every signature, so that it can be seen what a seal holds by itself."""

    def check(self, frames: Sequence[Sealed], _roots: Sequence[bytes]) -> Principal:
        """Return who is said to have signed."""
        return Principal(frames[0].signer)


def seal_one(by: Sealer, about: Publication, frame: Frame, keys: EpochKeys, level: SealingLevel) -> Sealed:
    """Return a frame sealed and signed by itself."""
    return by.sign(by.seal([frame_to_columns(frame)], [about], keys=keys, level=level))[0]


def next_mark(by: Sealer) -> SealMark:
    """Return the mark of one seal."""
    return by.next_marks(1)[0]


def read(frame: Sealed, reader: EpochKeys | None = None) -> VerifiedRun:
    """Verify and open a frame, as an edge does that delivers it."""
    return open_run(verify(read_run([frame]), SignatureChecks()), reader or keys(frame.epoch))


def opened(frame: Sealed, reader: EpochKeys, *, only: Collection[str] | None = None) -> VerifiedRun:
    """Open a frame whoever signed it: what is refused now is refused by the seal or the commitment."""
    return open_run(verify(read_run([frame]), Believing()), reader, only=only)


def content(run: VerifiedRun) -> Frame:
    """Return what was opened of a frame, every value checked."""
    return columns_to_frame(run.columns[0], run.frame.rows)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Return frames of all kinds; long ones repeat a few values."""
    rows = draw(st.sampled_from([1, 2, 3, 16, 511, 512, 513, 768, 4100]) | st.integers(1, 1200))
    uids = draw(st.lists(st.sampled_from("abcdefgh"), max_size=4, unique=True))
    columns = {}
    for uid in uids:
        kind = draw(st.sampled_from(list(Kind)))
        few = draw(st.lists(st.none() | values_of(kind), min_size=1, max_size=5))
        columns[AttributeUid(uid)] = Column(kind, tuple(islice(cycle(few), rows)))
    return Frame(rows, columns)
