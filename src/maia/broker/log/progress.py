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
from typing import Final, Protocol, TypeAlias

import msgspec

from maia.broker.turn import Turn
from maia.errors import BadInput
from maia.events import Instant, seconds_after
from maia.routing.duplicates import ALL_ROWS, DuplicateMemory, MemoryLimits, RowSet, row_set
from maia.wire.effects import LinkId
from maia.wire.messages import FetchLog, LogPlace, Recorded, RecordedRun, Sealed, SealedColumn, Unblinded

KEPT_PROGRESS: Final = "catch-up"
LOG_ID_BYTES: Final = 16
RUNS_SENT: Final = 512
PLACES_MAX: Final = 256
FETCHED_MAX: Final = 1024
HOLD_S: Final = 30.0
"""How long what arrives waits for what is missing before it, when no broker answers."""

_LIMITS: Final = MemoryLimits(streams_max=4096, numbers_per_stream_max=64, bytes_max=4 << 20)

StreamKey: TypeAlias = tuple[bytes, bytes, bytes]
"""A publisher, one of its streams, and who signed its frames; empty for plain ones."""


class Asker(Protocol):
    """Who hears of it when a request of this broker is answered."""

    def receive_answers(self, request: FetchRequest, turn: Turn) -> None:
        """Take note that all brokers have answered."""

    def give_up(self, request: FetchRequest, turn: Turn) -> None:
        """Take note that one of them never will."""


@dataclass(slots=True)
class FetchRequest:
    """One `FetchLog` that is not answered yet: this broker's own, or that of a neighbour."""

    message: FetchLog
    asker: LinkId
    """The neighbour, or `OWN_LINK`."""
    waits_for: set[LinkId]
    """The neighbours that have not answered; `OWN_LINK` while this broker's own log is read for it."""
    until: Instant
    """When it is given up, unless an answer comes."""
    own: Asker | None = None
    is_whole: bool = True
    is_refused: bool = False
    """Whether something came from a broker that may not send it now: its place stays where it was."""
    is_cut: bool = False
    """Whether a broker has not sent all of what it has."""
    size: int = 0
    frames: list[Recorded] = field(default_factory=list, repr=False)
    """What came in answer to this broker's own."""
    places: dict[bytes, tuple[LogPlace, int]] = field(default_factory=dict)
    """Up to where each broker has looked, and where its log ends."""

    @property
    def key(self) -> tuple[bytes, LinkId]:
        """Return its number, and who asks."""
        return self.message.id, self.asker


@dataclass(slots=True)
class Round:
    """One comparison with the logs of other brokers, which may take several requests."""

    request: FetchRequest
    """The one that was sent last."""
    again_at: Instant | None = None
    """When there is reason for another round, if no other is due before."""
    resumes_at: int | None = None
    """The position up to which the own log has to be safe before more is asked for."""
    is_repeated: bool = False
    """Whether there is reason for another round as soon as this one ends."""

    def lacks_rest_of(self, frame: Recorded, progress: Progress) -> bool:
        """Whether a broker with more of a frame has not answered: a sealed one is whole at its signer."""
        asked = self.request
        is_answered = frame.signer in asked.places if isinstance(frame, Sealed) else not asked.is_refused
        return not is_answered and progress.lacks_rest_of(frame)


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

    def note_numbers(self, key: StreamKey, number: int) -> None:
        """Take note of a frame."""
        publisher, stream, signer = key
        self.recorded.new_rows(publisher, stream, number, ALL_ROWS, signer)

    def _lacks(self, key: StreamKey, number: int, rows: RowSet) -> bool:
        publisher, stream, signer = key
        return self.recorded.unseen_rows(publisher, stream, number, rows, signer) != 0

    def follows_gap(self, frame: Recorded) -> bool:
        """Return whether the number before a frame is missing."""
        key, number, _ = identity_of(frame)
        return number > 0 and self._lacks(key, number - 1, 1)

    def lacks_rest_of(self, frame: Recorded) -> bool:
        """Whether a frame is a part, as it was sent to some reader, of one that is not recorded whole."""
        key, number, rows = identity_of(frame)
        return rows != ALL_ROWS and self._lacks(key, number, ALL_ROWS)

    def leaves_hole(self, frame: Recorded) -> bool:
        """Return whether a stream of which something is recorded goes on behind a gap."""
        publisher, stream, signer = identity_of(frame)[0]
        return self.follows_gap(frame) and self.recorded.knows(publisher, stream, signer)

    def holds_gap(self) -> bool:
        """Return whether something is missing before what is held."""
        numbers = {identity_of(frame)[:2] for frame in self.held}
        return any(
            self.follows_gap(frame) and ((found := identity_of(frame))[0], found[1] - 1) not in numbers
            for frame in self.held
        )

    def hold(self, frame: Recorded, now: Instant, bytes_max: int) -> bool:
        """Hold a frame, if there is room."""
        size = 256 + sum(
            len(one.sealed if isinstance(one, SealedColumn) else one.data) for one in frame.columns
        )
        self.is_over = self.is_over or self.held_bytes + size > bytes_max
        if not self.is_over:
            self.held.append(frame)
            self.held_bytes += size
            self.held_since = self.held_since or now
        return not self.is_over

    def is_patient(self, now: Instant) -> bool:
        """Return whether what is held may wait for longer."""
        return self.held_since is not None and now < seconds_after(self.held_since, HOLD_S)

    def follow(self, places: Mapping[bytes, tuple[LogPlace, int]]) -> bool:
        """Take note of up to where brokers have looked; say whether any of them has more."""
        is_more = False
        for broker, (place, end) in places.items():
            before = self.places.pop(broker, None)
            is_on = before is None or before.log != place.log or place.position > before.position
            is_more = is_more or (is_on and place.position < end)
            self.places[broker] = place
        while len(self.places) > PLACES_MAX:
            del self.places[next(iter(self.places))]
        return is_more

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


# ------------------------------------------------------------ across restarts


class _KeptType(msgspec.Struct, array_like=True, frozen=True):
    type_id: bytes
    since: int
    places: list[LogPlace]
    recorded: bytes


class _KeptProgress(msgspec.Struct, array_like=True, frozen=True):
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
    return msgspec.msgpack.encode(_KeptProgress(log_id, types, fetched))


def progress_from_bytes(data: bytes) -> tuple[bytes, dict[bytes, Progress], list[tuple[int, int]]]:
    """Read what `progress_to_bytes` wrote: the broker was down since, so it may have missed something."""
    try:
        kept = msgspec.msgpack.decode(data, type=_KeptProgress)
    except msgspec.MsgspecError as problem:
        raise BadInput("INPUT-KEPT-CATCH-UP", "what was kept of catching up cannot be read") from problem
    if len(kept.log) != LOG_ID_BYTES:
        raise BadInput("INPUT-KEPT-CATCH-UP", "what was kept of catching up names no log")
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
