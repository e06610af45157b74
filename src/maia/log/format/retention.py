"""What is to be done with a log now: what becomes a segment, what is joined, and what has had its time?

The event log asks, and does it. Plans are made of what the manifest says and
of the moment that is handed in; no file is touched here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from maia.errors import BadInput
from maia.events import INSTANT_MAX, INSTANT_MIN
from maia.log.format.manifest import Change, Manifest, RemovedSegment, Segment, in_order
from maia.log.format.names import day_of
from maia.log.format.records import LogRecord, type_id_of
from maia.log.format.segments import SEGMENT_COLUMNS_MAX, SegmentRow, row_of

_MICROSECONDS: Final = 1_000_000
_ROW_BYTES: Final = 256
"""About what a row takes beside its message."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How long, and how many bytes of segments, to keep; None for without limit."""

    age_s: float | None = None
    bytes_max: int | None = None

    def __post_init__(self) -> None:
        """Refuse what keeps less than nothing."""
        if (self.age_s is not None and not self.age_s >= 0) or (
            self.bytes_max is not None and self.bytes_max < 0
        ):
            raise BadInput(
                "LOG-RETENTION", "a log keeps segments for a time of at least 0, and bytes of at least 0"
            )


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept of each type: as is said for it, or else as for all."""

    otherwise: Keep = Keep()
    by_type: Mapping[bytes, Keep] = field(default_factory=dict)

    def of(self, type_id: bytes) -> Keep:
        """Return what holds for a type."""
        return self.by_type.get(type_id, self.otherwise)


# ------------------------------------------------------------ rolling


@dataclass(slots=True)
class Piece:
    """Frames of one type and day that become one segment."""

    type_id: bytes
    day: str
    rows: list[SegmentRow] = field(default_factory=list)
    columns: set[str] = field(default_factory=set)
    size: int = 0

    def add(self, row: SegmentRow, size: int) -> int:
        """Take one frame more, and return how much more is held."""
        self.rows.append(row)
        self.columns.update(row.parts)
        self.size += size + _ROW_BYTES
        return size + _ROW_BYTES

    def has_room_for(self, row: SegmentRow, size: int, bytes_max: int) -> bool:
        """Return whether a frame may still come in."""
        columns = len(self.columns.union(row.parts))
        return self.size + size <= bytes_max and columns <= SEGMENT_COLUMNS_MAX


def pieces(records: Iterable[LogRecord], *, bytes_max: int, held_max: int) -> Iterator[Piece]:
    """Yield records as the segments they become: by type and day of publication, in the order of positions.

    A piece is yielded when it is full. When more than `held_max` bytes are held, the largest piece goes.
    """
    open_pieces: dict[tuple[bytes, str], Piece] = {}
    held = 0
    for record in records:
        row = row_of(record.message, position=record.position, recorded_at=+record.recorded_at)
        type_id, size = type_id_of(record.message) or b"", len(record.message)
        key = type_id, day_of(row.published_at)
        piece = open_pieces.setdefault(key, Piece(*key))
        if piece.rows and not piece.has_room_for(row, size, bytes_max):
            held -= piece.size
            yield piece
            piece = open_pieces[key] = Piece(*key)
        held += piece.add(row, size)
        if held > held_max:
            largest = max(open_pieces, key=lambda key: open_pieces[key].size)
            held -= open_pieces[largest].size
            yield open_pieces.pop(largest)
    yield from open_pieces.values()


# ------------------------------------------------------------ compaction and retention


GROWTH: Final = 4
"""How many times as many frames a segment has for being joined while a broker records."""


def to_join(
    manifest: Manifest, *, bytes_max: int, growth: int = 1, upto: int | None = None
) -> list[list[Segment]]:
    """Return groups of neighbours of one type and day that together make a segment of good size.

    It has at least `growth` times as many frames as each of them: what becomes segments a little at a time
    is written again only as often as the logarithm of its frames says. With `upto`, only of segments that
    end there or before.
    """
    by_folder: defaultdict[str, list[Segment]] = defaultdict(list)
    for segment in in_order(manifest.segments.values()):
        if upto is None or segment.last <= upto:
            by_folder[segment.name.folder].append(segment)
    return [group for folder in by_folder.values() for group in _neighbours(folder, bytes_max, growth)]


def _neighbours(segments: Sequence[Segment], bytes_max: int, growth: int) -> Iterator[list[Segment]]:
    """Yield the longest groups, beginning with the oldest segment that has one."""
    first = 0
    while first < len(segments):
        until, size, frames, most = first + 1, 0, 0, 0
        for at in range(first, len(segments)):
            size, frames = size + segments[at].size, frames + segments[at].frames
            most = max(most, segments[at].frames)
            if size > bytes_max:
                break
            if frames >= growth * most:
                until = at + 1
        if until - first > 1:
            yield list(segments[first:until])
        first = until


def forgetting(state: Manifest, gone: Iterable[Segment], *, now: int, grace_s: float) -> Change:
    """Return the change that removes segments, and says up to where each type was forgotten."""
    upto: dict[bytes, int] = {}
    for one in gone:
        upto[one.type_id] = max(upto.get(one.type_id, 0), one.last)
    removed = removal(gone, now=now, grace_s=grace_s)
    return Change(now, state.rolled_upto, state.check, [], removed, list(upto.items()))


def removal(segments: Iterable[Segment], *, now: int, grace_s: float) -> list[RemovedSegment]:
    """Return that these are no longer part of the log, with the moment from which their files may go."""
    delete_at = min(now + int(grace_s * _MICROSECONDS), INSTANT_MAX)
    return [RemovedSegment(one, delete_at) for one in segments]


def to_forget(manifest: Manifest, policy: Retention, now: int, *, upto: int | None = None) -> list[Segment]:
    """Return the segments that are older or more than is kept: the oldest of each type, without gaps.

    Age is counted from when a frame was recorded; what its publisher claims does not matter.
    With `upto`, nothing behind it is forgotten.
    """
    by_type: defaultdict[bytes, list[Segment]] = defaultdict(list)
    for segment in in_order(manifest.segments.values()):
        by_type[segment.type_id].append(segment)
    gone = (one for type_id, found in by_type.items() for one in _outlived(found, policy.of(type_id), now))
    return [one for one in gone if upto is None or one.last <= upto]


def _outlived(segments: Sequence[Segment], keep: Keep, now: int) -> list[Segment]:
    oldest = INSTANT_MIN if keep.age_s is None else now - int(keep.age_s * _MICROSECONDS)
    too_many = 0 if keep.bytes_max is None else sum(one.size for one in segments) - keep.bytes_max
    gone: list[Segment] = []
    for segment in segments:
        if segment.recorded_until >= oldest and too_many <= 0:
            break
        gone.append(segment)
        too_many -= segment.size
    return gone
