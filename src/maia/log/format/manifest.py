"""Which segments make up the log, and which positions are in them?

A manifest is a file of records like a journal; each record is one change that
happened as a whole. Rolling adds segments and says up to where the journals
are in them, compaction replaces some by one, retention removes some. A reader that
reads the records in order knows the log. Names are made anew from what a
record says, never taken from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from maia.errors import BadInput
from maia.events import INSTANT_MAX, INSTANT_MIN
from maia.log.format.errors import LogDamaged
from maia.log.format.journal import (
    ByteSource,
    FileKind,
    FileOpening,
    JournalEntry,
    JournalReader,
    opening_bytes,
)
from maia.log.format.names import SegmentName, manifest_number
from maia.log.format.records import CHECK_BYTES, NO_CHECK, batch_bytes

_Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Moment: TypeAlias = Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
_TypeId: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Digest: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
_Check: TypeAlias = Annotated[bytes, Meta(min_length=CHECK_BYTES, max_length=CHECK_BYTES)]


class _ManifestPart(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What all parts of a change share."""


class Segment(_ManifestPart, frozen=True):
    """One Parquet file: where it lies and what is in it. Times are microseconds; `until` is inclusive."""

    type_id: _TypeId
    day: Annotated[str, Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")]
    first: _Number
    last: _Number
    digest: _Digest
    frames: _Number
    events: _Number
    size: _Number
    recorded_from: _Moment
    recorded_until: _Moment
    published_from: _Moment
    published_until: _Moment

    @property
    def name(self) -> SegmentName:
        """Return where the segment lies; refuse what is no name."""
        return SegmentName(self.type_id, self.day, self.first, self.last, self.digest)

    @property
    def path(self) -> str:
        """Return the path inside the log's folder."""
        return self.name.path


class RemovedSegment(_ManifestPart, frozen=True):
    """A segment that is no longer part of the log; its file goes when `delete_at` has come."""

    segment: Segment
    delete_at: _Moment


class MissingRun(_ManifestPart, frozen=True):
    """Publications of one stream that the log lacks, by their first and last number."""

    type_id: _TypeId
    publisher: Annotated[bytes, Meta(min_length=32, max_length=32)]
    stream: Annotated[bytes, Meta(min_length=16, max_length=16)]
    first: _Number
    last: _Number

    @property
    def count(self) -> int:
        """Return how many they are."""
        return self.last - self.first + 1


class Change(_ManifestPart, frozen=True):
    """What changed as a whole. `rolled_upto` and `check` are of the last record that is in segments.

    `forgotten` says up to which position retention has removed records of a type, and `missing` what its
    broker knows to be missing in the log; None if it knows nothing else than before.
    """

    at: _Moment
    rolled_upto: _Number
    check: _Check
    added: list[Segment]
    removed: list[RemovedSegment]
    forgotten: list[tuple[_TypeId, _Number]]
    missing: list[MissingRun] | None = None


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Change)


def change_bytes(change: Change) -> bytes:
    """Return a change as a manifest holds it."""
    parts = msgspec.structs.astuple(change)
    return _ENCODER.encode(parts[:-1] if change.missing is None else parts)


@dataclass(slots=True)
class Manifest:
    """The log after all changes that were read. `apply` is the only thing that alters it."""

    rolled_upto: int = 0
    check: bytes = NO_CHECK
    segments: dict[str, Segment] = field(default_factory=dict)
    waiting: dict[str, RemovedSegment] = field(default_factory=dict)
    """Files that are no longer part of the log and may still be read by those who found them earlier."""
    forgotten: dict[bytes, int] = field(default_factory=dict)
    changes: int = 0
    missing: list[MissingRun] = field(default_factory=list)
    """What its broker has found to be missing, and asks others for."""

    def apply(self, change: Change) -> None:
        """Make a change, or refuse one that contradicts what was before; then nothing is changed."""
        paths = [one.path for one in change.added]
        gone = [one.segment.path for one in change.removed]
        if change.rolled_upto < self.rolled_upto or any(path in self.segments for path in paths):
            raise BadInput("LOG-MANIFEST", "a change of the manifest repeats what was changed before")
        if any(one.last > change.rolled_upto for one in change.added):
            raise BadInput("LOG-MANIFEST", "a change of the manifest adds what was not rolled yet")
        self.rolled_upto, self.check = change.rolled_upto, change.check
        for path, removed in zip(gone, change.removed, strict=True):
            self.segments.pop(path, None)
            self.waiting[path] = removed
        for path, segment in zip(paths, change.added, strict=True):
            self.segments[path] = segment
            self.waiting.pop(path, None)
        for type_id, position in change.forgotten:
            self.forgotten[type_id] = max(self.forgotten.get(type_id, 0), position)
        self.missing = self.missing if change.missing is None else change.missing
        self.changes += 1

    def lacks(self, type_id: bytes) -> int:
        """Return how many publications of a type are known to be missing."""
        return sum(one.count for one in self.missing if one.type_id == type_id)

    def copied(self) -> Manifest:
        """Return the same state, which changes on its own from now on."""
        parts = dict(self.segments), dict(self.waiting), dict(self.forgotten)
        return Manifest(self.rolled_upto, self.check, *parts, self.changes, self.missing)

    def of_type(self, type_id: bytes) -> list[Segment]:
        """Return the segments of a type in the order of their positions."""
        return in_order(one for one in self.segments.values() if one.type_id == type_id)

    def due(self, now: int) -> list[RemovedSegment]:
        """Return what is no longer part of the log and may be deleted now."""
        return [one for one in self.waiting.values() if one.delete_at <= now]

    def deleted(self, paths: Iterable[str]) -> None:
        """Forget files that are deleted."""
        for path in paths:
            self.waiting.pop(path, None)


def in_order(segments: Iterable[Segment]) -> list[Segment]:
    """Return segments in the order of their positions."""
    return sorted(segments, key=lambda one: (one.first, one.last))


def whole_state(manifest: Manifest, at: int) -> list[Change]:
    """Return few changes that lead from nothing to this state, for a manifest that is written anew."""
    segments = in_order(manifest.segments.values())
    waiting = list(manifest.waiting.values())
    forgotten = list(manifest.forgotten.items())
    chunks = [segments[start : start + _AT_ONCE] for start in range(0, len(segments), _AT_ONCE)] or [[]]
    upto, check = manifest.rolled_upto, manifest.check
    first = Change(at, upto, check, chunks[0], waiting, forgotten, manifest.missing or None)
    return [first, *(Change(at, upto, check, chunk, [], []) for chunk in chunks[1:])]


_AT_ONCE: Final = 10_000
_BEGINNING: Final = 256


def snapshot_bytes(manifest: Manifest, *, number: int, marker: bytes, at: int) -> bytes:
    """Return a manifest that is written once: it says which number it has, and what all of it amounts to."""
    changes = [change_bytes(one) for one in whole_state(manifest, at)]
    opening = FileOpening(marker, number, _digest(changes))
    data, check = opening_bytes(FileKind.SNAPSHOT, opening, at=at)
    records, _ = batch_bytes(changes, marker=marker, first=number, recorded_at=at, before=check)
    return data + records


def _digest(changes: Iterable[bytes]) -> bytes:
    hashed = blake2b(digest_size=CHECK_BYTES)
    for one in changes:
        hashed.update(one)
    return hashed.digest()


def read_manifest(source: ByteSource, name: str) -> tuple[Manifest, JournalReader]:
    """Read a manifest as far as it goes; the reader's `tail` says how it ends.

    One that is written once is whole and has the number in its name, or is damaged.
    """
    is_once = FileKind.SNAPSHOT.value in source.read(0, min(_BEGINNING, source.size))
    reader = JournalReader(source, name, FileKind.SNAPSHOT if is_once else FileKind.MANIFEST)
    manifest, changes = Manifest(), []
    for entry in reader.entries():
        try:
            manifest.apply(_change(entry))
        except BadInput as problem:
            raise LogDamaged(name, entry.offset, problem.message) from problem
        changes += [entry.payload] if is_once else []
    if is_once and reader.opening.first != manifest_number(name):
        raise LogDamaged(name, 0, f"it is the manifest of number {reader.opening.first}")
    if is_once and (reader.opening.before != _digest(changes) or reader.last.end != source.size):
        raise LogDamaged(name, reader.last.end, "it is not whole")
    return manifest, reader


def _change(entry: JournalEntry) -> Change:
    try:
        return _DECODER.decode(entry.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadInput("LOG-MANIFEST", "it is no change of a manifest") from problem
