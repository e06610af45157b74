"""Which frames of a type are in this broker's event log, and how far was it with the logs of others?

The broker asks before it records a frame, and when it catches up with what it missed
(`catch_up.py`). The numbers of the streams say what is in the log; a place in the log of
another broker says up to where that was compared with it. Both survive a restart, together
and once the frames are safe: what is known here is on the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from maia.bounded_map import BoundedMap
from maia.errors import BadInput
from maia.events import INSTANT_MIN, Instant
from maia.routing.duplicates import ALL_ROWS, DuplicateMemory, MemoryLimits, RowSet, row_set
from maia.wire.effects import LinkId
from maia.wire.messages import FetchLog, LogPlace, Recorded, RecordedRun, Sealed, Unblinded

KEPT_PROGRESS: Final = "catch-up"
LOG_ID_BYTES: Final = 16
RUNS_SENT: Final = 512
PLACES_MAX: Final = 256
FETCHED_MAX: Final = 1024
_KNOWN_MAX: Final = 4096
_PUBLISHED_REMEMBERED: Final = 4096

_LIMITS: Final = MemoryLimits(streams_max=4096, numbers_per_stream_max=64, bytes_max=4 << 20)

StreamKey: TypeAlias = tuple[bytes, bytes, bytes]
"""A publisher, one of its streams, and who signed its frames; empty for plain ones."""


class BadProgress(BadInput):
    """What was kept of a broker's progress with the logs of others cannot be read."""

    code = "INPUT-KEPT-CATCH-UP"


@dataclass(slots=True)
class Round:
    """One comparison with the logs of other brokers, which may take several requests."""

    until: Instant
    """When it is given up, unless an answer comes."""
    again_at: Instant | None = None
    """When there is reason for another round, if no other is due before."""
    request: bytes = b""
    """The request that is not answered yet; empty while the disk is waited for."""
    frames: list[Recorded] = field(default_factory=list, repr=False)
    """What came in answer to it."""
    places: dict[bytes, tuple[LogPlace, int]] = field(default_factory=dict)
    """Up to where each broker has looked, and where its log ends."""
    resumes_at: int = 0
    """The position up to which the own log has to be safe before more is asked for."""
    is_whole: bool = True
    is_refused: bool = False
    """Whether something came from a broker that may not send it now: its place stays where it was."""
    is_repeated: bool = False
    """Whether there is reason for another round as soon as this one ends."""


@dataclass(slots=True)
class Progress:
    """What a broker has recorded of one type, and how far it was with the logs of others."""

    since: Instant
    """When it began to record the type."""
    recorded: DuplicateMemory = field(default_factory=lambda: DuplicateMemory(_LIMITS), repr=False)
    places: dict[bytes, LogPlace] = field(default_factory=dict, repr=False)
    """By broker."""
    is_cut: bool = False
    """Whether it was down, or a link of the type was, since the last round that was answered."""
    has_hole: bool = False
    """Whether a stream went on behind numbers that are missing."""
    round: Round | None = None
    held: deque[Recorded] = field(default_factory=deque, repr=False)
    """What arrived by itself and is recorded behind what was missed."""
    held_bytes: int = 0
    held_since: Instant | None = None
    is_over: bool = False
    """Whether something arrived for which there was no room: it is fetched with the next round."""
    next_at: Instant | None = None
    pause_s: float = 0.0
    gap_at: Instant | None = None
    """When a gap was last a reason for a round."""

    def note(self, frame: Recorded) -> RowSet:
        """Take note of a frame that is recorded; return the rows that are new.

        A sealed frame is recorded once: what it has in common with another copy cannot be cut out of it.
        """
        (publisher, stream, signer), number, rows = identity_of(frame)
        noted = ALL_ROWS if isinstance(frame, Sealed) else rows
        return self.recorded.new_rows(publisher, stream, number, noted, signer)

    def note_numbers(self, key: StreamKey, number: int, rows: RowSet = ALL_ROWS) -> bool:
        """Take note of some rows of a frame; say whether any of them is new."""
        publisher, stream, signer = key
        return self.recorded.new_rows(publisher, stream, number, rows, signer) != 0

    def follows_gap(self, frame: Recorded) -> bool:
        """Say whether the number before a frame is missing."""
        (publisher, stream, signer), number, _ = identity_of(frame)
        return number > 0 and self.recorded.unseen_rows(publisher, stream, number - 1, 1, signer) != 0

    def lacks_rest_of(self, frame: Recorded) -> bool:
        """Say whether a frame is a part, as it was sent to some reader, of one that is not recorded whole."""
        (publisher, stream, signer), number, rows = identity_of(frame)
        if rows == ALL_ROWS:
            return False
        return self.recorded.unseen_rows(publisher, stream, number, ALL_ROWS, signer) != 0

    def knows_stream(self, frame: Recorded) -> bool:
        """Say whether anything of the stream of a frame is recorded."""
        publisher, stream, signer = identity_of(frame)[0]
        return self.recorded.knows(publisher, stream, signer)

    def holds_gap(self) -> bool:
        """Say whether something is missing before what is held."""
        numbers = {identity_of(frame)[:2] for frame in self.held}
        return any(
            self.follows_gap(frame) and ((found := identity_of(frame))[0], found[1] - 1) not in numbers
            for frame in self.held
        )

    def runs(self) -> list[RecordedRun]:
        """Return what other brokers need not send."""
        return [RecordedRun(*one) for one in self.recorded.newest_runs(RUNS_SENT)]


def identity_of(frame: Recorded) -> tuple[StreamKey, int, RowSet]:
    """Return by what a recorded frame is known: its stream, number and rows."""
    if isinstance(frame, Unblinded):
        return (frame.inner_publisher, frame.inner_stream, b""), frame.inner_sequence, ALL_ROWS
    rows = row_set(frame.kept) if frame.kept else ALL_ROWS
    signer = frame.signer if isinstance(frame, Sealed) else b""
    return (frame.publisher, frame.stream, signer), frame.sequence, rows


# ------------------------------------------------------------ requests under way


@dataclass(slots=True)
class FetchRequest:
    """One `FetchLog` that is not answered yet: this broker's own, or that of a neighbour."""

    message: FetchLog
    waits_for: set[LinkId]
    until: Instant
    is_read: bool = False
    """Whether this broker's own log is being read for it."""
    is_whole: bool = True
    size: int = 0
    first: int = 1
    since: int = INSTANT_MIN
    has_place: bool = False


@dataclass(slots=True)
class CatchUps:
    """What is under way between this broker and others, whether it records or not."""

    fresh: set[bytes] = field(default_factory=set)
    """Types that a round is to begin for."""
    asked: set[tuple[bytes, LinkId]] = field(default_factory=set)
    requests: dict[tuple[bytes, LinkId | None], FetchRequest] = field(default_factory=dict)
    """By number and asker; None for this broker itself."""
    passed_on: dict[bytes, LinkId | None] = field(default_factory=dict)
    """Which asker the answers to a request that was passed on are for."""
    known: BoundedMap[bytes, bool] = field(default_factory=lambda: BoundedMap(_KNOWN_MAX))
    """Requests that were passed on, and whether this broker has read its log for them."""
    published: BoundedMap[bytes, None] = field(default_factory=lambda: BoundedMap(_PUBLISHED_REMEMBERED))
    """Types that were advertised here."""
    is_changed: bool = False
    """Whether a round is to begin, or a durable subscription has a new gap notice to be sent."""

    def interest_sent(self, type_id: bytes, link: LinkId) -> None:
        """Take note that a neighbour was sent an interest."""
        if (type_id, link) not in self.asked:
            self.asked.add((type_id, link))
            self.look_for(type_id)

    def look_for(self, type_id: bytes) -> None:
        """Have a round begun for a type."""
        self.fresh.add(type_id)
        self.is_changed = True


# ------------------------------------------------------------ across restarts


class _KeptType(msgspec.Struct, array_like=True, frozen=True):
    type_id: bytes
    since: int
    places: list[LogPlace]
    recorded: bytes


class _Kept(msgspec.Struct, array_like=True, frozen=True):
    log: bytes
    types: list[_KeptType]
    fetched: list[tuple[int, int]] = []


def progress_to_bytes(
    log_id: bytes, progress: Mapping[bytes, Progress], fetched: list[tuple[int, int]]
) -> bytes:
    """Return what must survive a restart."""
    types = [
        _KeptType(type_id, int(one.since), list(one.places.values()), one.recorded.exported())
        for type_id, one in progress.items()
    ]
    return msgspec.msgpack.encode(_Kept(log_id, types, fetched))


def progress_from_bytes(data: bytes) -> tuple[bytes, dict[bytes, Progress], list[tuple[int, int]]]:
    """Read what `progress_to_bytes` wrote: the broker was down since, so it may have missed something."""
    try:
        kept = msgspec.msgpack.decode(data, type=_Kept)
    except msgspec.MsgspecError as problem:
        raise BadProgress("what was kept of catching up cannot be read") from problem
    if len(kept.log) != LOG_ID_BYTES:
        raise BadProgress("what was kept of catching up names no log")
    found = {
        one.type_id: Progress(
            Instant(one.since),
            DuplicateMemory.imported(one.recorded, _LIMITS),
            {place.broker: place for place in one.places},
            is_cut=True,
        )
        for one in kept.types
    }
    return kept.log, found, kept.fetched
