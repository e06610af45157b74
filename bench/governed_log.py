"""A recorded type of ten attributes, sealed by attribute or plain, for the benchmarks of governed tables."""

from __future__ import annotations

import os
from collections.abc import Iterable
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
from maia.events import AttributeUid, Column, Frame, Instant
from maia.log.format.names import SegmentName, day_of
from maia.log.format.segments import digest_of, parquet_bytes, row_of, table_of
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

NOON = Instant.parse("2026-11-15T12:00:00Z")
NAME = "uk.gov.Numberplate"
STREAM = b"stream of events"
FILES = 4


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
    log = RecordedLog(folder, event_type, ring)
    keys = EpochKeys(event_type.type_id, 1, lambda uid: ring.key(GroupId(event_type.type_id, uid), 1))
    sealer = Sealer(BROKER, random=os.urandom, process_id=os.getpid)
    messages: list[Carried | Sealed] = []
    for number, start in enumerate(range(0, rows, frame_rows)):
        frame = _frame(events(min(frame_rows, rows - start), start))
        if level is None:
            columns = frame_to_columns(frame)
            messages.append(
                Carried(
                    event_type.type_id,
                    CAMERA.principal.key,
                    STREAM,
                    number,
                    int(NOON),
                    frame.rows,
                    [],
                    columns,
                )
            )
        else:
            about = Publication(CAMERA.principal, STREAM, number, int(NOON), frame.rows)
            messages += sealer.sign(sealer.seal([frame_to_columns(frame)], [about], keys=keys, level=level))
    _write(folder, event_type.type_id, messages)
    return log


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
