"""A recorded type of ten attributes, sealed by attribute or plain, for the benchmarks of governed tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from live_network import ATTRIBUTES, KINDS, events
from maia.credentials import (
    ALL_ATTRIBUTES,
    FIRST_VERSION,
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    Authority,
    SignedCertificate,
    SigningKey,
    TypeName,
    TypePattern,
    issue,
    parse_name_pattern,
)
from maia.events import SECOND, AttributeUid, Column, Frame, Instant
from maia.log.disk.place_log import PlaceLog
from maia.log.format.manifest import Change, Segment
from maia.log.format.names import SegmentName, day_of
from maia.log.format.segments import digest_of, parquet_bytes, row_of, table_of
from maia.places import Place
from maia.predicates import ALWAYS, Predicate
from maia.sealing import EpochKeys, Publication, Sealer, Secret
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.spark.governed.plan import Access, Keys
from maia.spark.governed.reader import Reader
from maia.spark.keys.content_keys import RingKeys
from maia.spark.keys.key_server import JobDesk
from maia.types import Sealing, SealingLevel, TypeDefinition, VerifiedType, sign_definition, verify_definition
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from maia.wire.messages import Carried, Sealed
from maia.wire.messages import Column as WireColumn

NOON = Instant.parse("2026-11-15T12:00:00Z")
NAME = "uk.gov.Numberplate"
STREAM = b"stream of events"
FILES = 4
CONTENTS = 16
SEGMENT_FRAMES = 1024


def key_of(name: str) -> SigningKey:
    """Return somebody's key, the same in every run."""
    return SigningKey.from_seed(sha256(b"governed bench " + name.encode()).digest())


OWNER, BROKER, CAMERA, READER = (key_of(name) for name in ("owner", "broker", "camera", "reader"))


def grant(
    who: SigningKey,
    action: Action,
    attributes: Iterable[AttributeUid] | None = None,
    restriction: Predicate = ALWAYS,
) -> SignedCertificate:
    """Let somebody read or write some attributes, or all."""
    pattern = TypePattern(OWNER.principal, parse_name_pattern(NAME), None)
    shown = ALL_ATTRIBUTES if attributes is None else frozenset(attributes)
    authority = Authority(pattern, frozenset({action}), shown, restriction)
    said = AuthorisationCertificate(OWNER.principal, who.principal, False, authority, UNBOUNDED)
    return issue(said, OWNER)


@dataclass(frozen=True, slots=True)
class RecordedLog:
    """Where the log lies, its type, and the keys of its one epoch."""

    folder: Path
    event_type: VerifiedType
    ring: KeyRing

    def known(self, desk: JobDesk | None, *rights: SignedCertificate) -> dict[str, Any]:
        """Return what `governed` wants to know; without rights, those of a reader of everything."""
        writes = {BROKER.principal: (grant(BROKER, Action.PUBLISH),)}
        reader = Reader(READER.principal, rights or (grant(READER, Action.SUBSCRIBE),))
        keys = None if desk is None else Keys(RingKeys(self.ring), desk, writes)
        return {"log": str(self.folder), "access": Access(reader, (self.event_type,), keys)}


def record(folder: Path, *, rows: int, frame_rows: int, level: SealingLevel | None) -> RecordedLog:
    """Write a log of so many events in frames of so many rows."""
    log = log_of(folder, level)
    type_id, sealed = log.event_type.type_id, _Sealing(log)
    messages: list[Carried | Sealed] = []
    for number, start in enumerate(range(0, rows, frame_rows)):
        frame = _frame(events(min(frame_rows, rows - start), start))
        columns = frame_to_columns(frame)
        if level is None:
            about = (type_id, CAMERA.principal.key, STREAM, number, int(NOON), frame.rows)
            messages.append(Carried(*about, [], columns))
        else:
            messages += sealed.frames(columns, frame.rows, number, int(NOON), level)
    _write(folder, type_id, messages)
    return log


def record_many(folder: Path, rows: int, frame_rows: int) -> RecordedLog:
    """Write a sealed log of any size, with the manifest that a broker writes.

    The contents of a few frames come again and again. Each is sealed and signed as a publication of its own,
    a second after the one before, so that its bytes are its own. At most one segment is in memory.
    """
    log = log_of(folder, SealingLevel.ATTRIBUTE)
    type_id, sealed = log.event_type.type_id, _Sealing(log)
    contents = [frame_to_columns(_frame(events(frame_rows, start * frame_rows))) for start in range(CONTENTS)]
    there, segments, frames = PlaceLog(Place(str(folder))), [], rows // frame_rows
    for start in range(0, frames, SEGMENT_FRAMES):
        numbers = range(start, min(start + SEGMENT_FRAMES, frames))
        moments = [int(NOON) + number * SECOND for number in numbers]
        records = [
            row_of(encode(one), position=number + 1, recorded_at=moment)
            for number, moment in zip(numbers, moments, strict=True)
            for one in sealed.frames(
                contents[number % CONTENTS], frame_rows, number, moment, SealingLevel.ATTRIBUTE
            )
        ]
        data = parquet_bytes(table_of(records), type_id)
        about = type_id, day_of(NOON), numbers[0] + 1, numbers[-1] + 1, digest_of(data), len(numbers)
        ends = moments[0], moments[-1]
        segments.append(Segment(*about, len(numbers) * frame_rows, len(data), *ends, *ends))
        there.put(segments[-1].path, data)
    there.commit(Change(moments[-1], segments[-1].last, bytes(16), segments, [], []))
    return log


def log_of(folder: Path, level: SealingLevel | None) -> RecordedLog:
    """Return what is known of a log, whichever process writes it: keys are the same in every run."""
    sealing = None if level is None else Sealing(level, OWNER.principal, ("127.0.0.1:7500",))
    definition = TypeDefinition(
        TypeName(OWNER.principal, NAME, FIRST_VERSION), None, ATTRIBUTES, sealing=sealing
    )
    event_type = verify_definition(sign_definition(definition, OWNER), at=NOON)
    ring = KeyRing(event_type.type_id)
    ring.learn(1, since=NOON)
    for uid in (None, *KINDS):
        secret = Secret.from_bytes(sha256(repr(uid).encode()).digest())
        ring.hold(GroupId(event_type.type_id, uid), 1, secret)
    return RecordedLog(folder, event_type, ring)


class _Sealing:
    """Seals frames with the keys of a log."""

    def __init__(self, log: RecordedLog) -> None:
        type_id = log.event_type.type_id
        self._keys = EpochKeys(type_id, 1, lambda uid: log.ring.key(GroupId(type_id, uid), 1))
        self._sealer = Sealer(BROKER, random=os.urandom, process_id=os.getpid)

    def frames(
        self, columns: Sequence[WireColumn], rows: int, number: int, moment: int, level: SealingLevel
    ) -> list[Sealed]:
        """Return a frame, sealed and signed."""
        about = Publication(CAMERA.principal, STREAM, number, moment, rows)
        return self._sealer.sign(self._sealer.seal([columns], [about], keys=self._keys, level=level))


def _frame(found: list[dict[AttributeUid, Any]]) -> Frame:
    columns = {uid: Column(kind, tuple(event[uid] for event in found)) for uid, kind in KINDS.items()}
    return Frame(len(found), columns)


def _write(folder: Path, type_id: bytes, messages: list[Carried | Sealed]) -> None:
    rows = [row_of(encode(one), position=n + 1, recorded_at=int(NOON)) for n, one in enumerate(messages)]
    each = -(-len(rows) // FILES)
    for start in range(0, len(rows), each):
        part = rows[start : start + each]
        data = parquet_bytes(table_of(part), type_id)
        name = SegmentName(type_id, day_of(NOON), part[0].position, part[-1].position, digest_of(data))
        path = folder / name.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
