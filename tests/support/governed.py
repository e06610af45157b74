"""A recorded type and its readers: who published, what lies in the log, which keys there are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from hashlib import sha256
from pathlib import Path

from maia.credentials import (
    ALL_ATTRIBUTES,
    UNBOUNDED,
    Action,
    SignedCertificate,
    SigningKey,
    Transformation,
    TypeName,
    TypePattern,
    Validity,
    parse_name_pattern,
)
from maia.events import Attribute, AttributeUid, Column, Event, Frame, Instant, Kind
from maia.expressions import parse_rule
from maia.log.format.names import SegmentName, day_of
from maia.log.format.segments import digest_of, parquet_bytes, row_of, table_of
from maia.policy import Request
from maia.predicates import ALWAYS, Predicate, parse_predicate
from maia.sealing import EpochKeys, Publication, Sealer, Secret
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.spark.governed import table
from maia.spark.governed.plan import Access, Keys, TableQuery, governed_read
from maia.spark.governed.reader import Reader
from maia.spark.governed.table import Streaming
from maia.spark.keys.content_keys import RingKeys
from maia.spark.keys.key_server import JobDesk
from maia.testing import grant as granted
from maia.types import Sealing, SealingLevel, TypeDefinition, VerifiedType, sign_definition, verify_definition
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from maia.wire.messages import Carried, Sealed
from support.sealing import seal_one

NOON = Instant.parse("2026-11-15T12:00:00Z")
HOUR = 3_600_000_000
PLATE, PLACE, SPEED, SEEN = (AttributeUid(uid) for uid in ("3265", "3467", "speed", "9058"))
ATTRIBUTES = (
    Attribute("numberplate", PLATE, Kind.STRING),
    Attribute("location", PLACE, Kind.STRING),
    Attribute("speed", SPEED, Kind.INT),
    Attribute("seen", SEEN, Kind.TIMESTAMP),
)
STREAM = b"stream of events"


def key_of(name: str) -> SigningKey:
    return SigningKey.from_seed(sha256(b"governed " + name.encode()).digest())


OWNER, BROKER, CAMERA, MANAGER, READER = (
    key_of(name) for name in ("owner", "broker", "camera", "manager", "reader")
)


def at(hours: float) -> Instant:
    return Instant(NOON + int(hours * HOUR))


def between(since: float | None, until: float | None) -> Validity:
    return Validity(None if since is None else at(since), None if until is None else at(until))


def sightings(rows: int, first: int = 0) -> list[dict[AttributeUid, object]]:
    """Return sightings that differ; every tenth has no plate, and speeds run from 0 to 99."""
    return [
        {
            PLATE: None if n % 10 == 3 else f"AE{n:05d}",
            PLACE: ("Victoria", "Madingley", "Trumpington")[n % 3],
            SPEED: n % 100,
            SEEN: Instant(NOON + n),
        }
        for n in range(first, first + rows)
    ]


def frame_of(events: Sequence[Event], kinds: Mapping[AttributeUid, Kind]) -> Frame:
    columns = {
        uid: Column(kind, tuple(event.get(uid) for event in events))
        for uid, kind in kinds.items()
        if any(uid in event for event in events)
    }
    return Frame(len(events), columns)


def typed(
    level: SealingLevel | None = None,
    attributes: tuple[Attribute, ...] = ATTRIBUTES,
    *,
    version: str = "0",
    previous: VerifiedType | None = None,
) -> VerifiedType:
    sealing = None if level is None else Sealing(level, MANAGER.principal, ("127.0.0.1:7500",))
    before = None if previous is None else previous.name.version
    name = TypeName(OWNER.principal, "uk.gov.Numberplate", version)
    definition = TypeDefinition(name, before, attributes, sealing=sealing)
    return verify_definition(sign_definition(definition, OWNER), at=NOON, previous=previous)


def grant(
    who: SigningKey = READER,
    attributes: Iterable[AttributeUid] | None = None,
    restriction: str | Predicate = ALWAYS,
    *,
    validity: Validity = UNBOUNDED,
    action: Action = Action.SUBSCRIBE,
    condition: Predicate = ALWAYS,
    rule: str | None = None,
) -> SignedCertificate:
    vocabulary = {one.name: one for one in ATTRIBUTES}
    said = parse_predicate(restriction, vocabulary) if isinstance(restriction, str) else restriction
    shown = ALL_ATTRIBUTES if attributes is None else frozenset(attributes)
    steps = () if rule is None else (Transformation(OWNER.principal, (parse_rule(rule, vocabulary),)),)
    return granted(
        OWNER,
        who,
        TypePattern(OWNER.principal, parse_name_pattern("uk.gov.Numberplate"), None),
        action,
        attributes=shown,
        restriction=said,
        transformations=steps,
        condition=condition,
        validity=validity,
    )


@dataclass
class Recorded:
    """A log of one type in a folder, and the keys with which its frames were sealed."""

    folder: Path
    level: SealingLevel | None = None
    event_type: VerifiedType | None = None
    signer: SigningKey = BROKER
    ring: KeyRing = field(init=False)
    frames: list[Carried | Sealed] = field(default_factory=list)
    written: int = 0

    def __post_init__(self) -> None:
        self.event_type = self.event_type or typed(self.level)
        self.ring = KeyRing(self.event_type.type_id)
        self.ring.learn(1, since=at(-24))
        self.ring.learn(2, since=at(24))
        for epoch in (1, 2):
            for uid in (None, *self.event_type.kinds):
                self.ring.hold(self.group(uid), epoch, secret_of(epoch, uid))
        self.sealer = self.sealing_as(self.signer)

    def sealing_as(self, key: SigningKey) -> Sealer:
        return Sealer(key, random=os.urandom, process_id=os.getpid)

    def group(self, uid: AttributeUid | None) -> GroupId:
        return GroupId(self.event_type.type_id, uid)

    def epoch_keys(self, epoch: int) -> EpochKeys:
        return EpochKeys(self.event_type.type_id, epoch, lambda uid: self.ring.key(self.group(uid), epoch))

    def publish(
        self,
        events: Sequence[Event],
        *,
        published_at: Instant = NOON,
        level: SealingLevel | str | None = "of the type",
        epoch: int | None = None,
        sealer: Sealer | None = None,
        kinds: Mapping[AttributeUid, Kind] | None = None,
    ) -> Carried | Sealed:
        """Add a frame to the log, sealed as the type says unless told otherwise."""
        level = self.level if level == "of the type" else level
        frame = frame_of(events, kinds or self.event_type.kinds)
        number, moment = len(self.frames) + 1, int(published_at)
        if level is None:
            made = Carried(
                self.event_type.type_id, CAMERA.principal.key, STREAM, number, moment, frame.rows, [],
                frame_to_columns(frame),
            )  # fmt: skip
        else:
            about = Publication(CAMERA.principal, STREAM, number, moment, frame.rows)
            epoch = epoch or (1 if published_at < at(24) else 2)
            made = seal_one(sealer or self.sealer, about, frame, self.epoch_keys(epoch), level)
        self.frames.append(made)
        return made

    def write(self, frames: Sequence[Carried | Sealed] | None = None) -> Path:
        """Write frames, all that are new unless told, into a segment."""
        frames = self.frames[self.written :] if frames is None else frames
        first = self.written + 1
        rows = [
            row_of(encode(frame), position=first + n, recorded_at=frame.published_at)
            for n, frame in enumerate(frames)
        ]
        self.written += len(frames)
        return self.write_table(table_of(rows), first, self.written)

    def write_table(self, table, first: int, last: int) -> Path:
        data = parquet_bytes(table, self.event_type.type_id)
        name = SegmentName(self.event_type.type_id, day_of(NOON), first, last, digest_of(data))
        path = self.folder / name.path
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_bytes(data)
        unfinished.rename(path)  # whoever lists the folder meanwhile finds it whole
        return path

    def keys(self, desk: JobDesk, *, only: Iterable[AttributeUid | None] | None = None) -> Keys:
        """Return the keys of a reader, of some groups alone if told; the broker's frames count."""
        held = KeyRing(self.event_type.type_id)
        for epoch in (1, 2):
            held.learn(epoch, since=at(-24 if epoch == 1 else 24))
            for uid in (None, *self.event_type.kinds) if only is None else only:
                held.hold(self.group(uid), epoch, secret_of(epoch, uid))
        writes = grant(BROKER, action=Action.PUBLISH)
        return Keys(RingKeys(held), desk, {BROKER.principal: (writes,)})


def secret_of(epoch: int, uid: AttributeUid | None) -> Secret:
    return Secret.from_bytes(sha256(repr(("governed", epoch, uid)).encode()).digest())


def reader(*credentials: SignedCertificate, who: SigningKey = READER, **more: object) -> Reader:
    return Reader(who.principal, credentials or (grant(who),), **more)


def asked(who: Reader, event_type: VerifiedType, interest: str = "true") -> Request:
    """Return the request behind a governed table."""
    wanted = ALWAYS if interest == "true" else parse_predicate(interest, event_type.vocabulary)
    return Request(who.principal, Action.SUBSCRIBE, event_type.name, event_type, wanted)


def rows_of(table) -> list[dict[str, object]]:
    """Return the rows of a table by name, sorted; moments as the kernel has them."""
    moments = {one.name for one in table.schema.fields if one.dataType.typeName() == "timestamp"}
    found = []
    for row in table.collect():
        values = {name: row[name] for name in table.columns}
        for name in moments.intersection(n for n, v in values.items() if v is not None):
            values[name] = Instant.from_datetime(values[name].astimezone(UTC))
        found.append({n: bytes(v) if isinstance(v, bytearray) else v for n, v in values.items()})
    return sorted(found, key=repr)


def governed(
    spark,
    *,
    log,
    event_type,
    reader,
    keys=None,
    versions=(),
    watch=None,
    transformation_keys=None,
    is_stream=False,
    fails_on_loss=True,
    batch_bytes=None,
    ledger=None,
    **asked,
):
    """Return the governed table of a reader, by what of it a test is about."""
    terms = Streaming(fails_on_loss, *([] if batch_bytes is None else [batch_bytes])) if is_stream else None
    access = Access(reader, (*versions, event_type), keys, watch, transformation_keys)
    logs = log if isinstance(log, list) else str(log)
    return table.governed(spark, logs, access, TableQuery(**asked), stream=terms, ledger=ledger)


def decided(*, event_type, reader, keys=None, versions=(), watch=None, **asked):
    """Return what a reader sees, without Spark."""
    return governed_read(Access(reader, (*versions, event_type), keys, watch), TableQuery(**asked))
