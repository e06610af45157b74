"""Which frames of a type are in this broker's event log, and how far was it with the logs of others?

The broker asks before it records a frame, and when it catches up with what it missed
(`catch_up.py`). The numbers of the streams say what is in the log; a place in the log of
another broker says up to where that was compared with it. Both survive a restart, together
and once the frames are safe: what is known here is on the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import msgspec

from maia.broker.links.transit import class_of_frame
from maia.broker.turn import Turn
from maia.errors import BadInput
from maia.events import Instant, seconds_after
from maia.policy.view_bytes import EVERYTHING
from maia.routing.duplicates import ALL_ROWS, DuplicateMemory, MemoryLimits, RowSet, gaps, row_set
from maia.wire.effects import LinkId
from maia.wire.messages import (
    Carried,
    FetchLog,
    LogPlace,
    Recorded,
    RecordedRun,
    Sealed,
    SealedColumn,
    Unblinded,
    signer_of,
)

KEPT_PROGRESS: Final = "catch-up"
LOG_ID_BYTES: Final = 16
RUNS_SENT: Final = 512
MISSING_SENT: Final = 512
PLACES_MAX: Final = 256
FETCHED_MAX: Final = 1024
LATE_MAX: Final = 1024
SIGNERS_MAX: Final = 256
HOLD_S: Final = 30.0
"""How long what arrives waits for what is missing before it, when no broker answers."""

_REFUSED: Final = b"refused"
"""Under which signer numbers are kept that this broker has refused its own publishers."""
_LIMITS: Final = MemoryLimits(streams_max=4096, numbers_per_stream_max=16_384, bytes_max=4 << 20)

StreamId: TypeAlias = tuple[bytes, bytes]
"""A publisher, and one of its streams."""


class Asker(Protocol):
    """Who hears of it when a request of this broker is answered."""

    def receive_answers(self, request: FetchRequest, turn: Turn) -> None:
        """Take note that all brokers have answered."""

    def receive_late(self, request: FetchRequest, turn: Turn) -> None:
        """Take in what came from one that took longer than the others: its request goes on."""


@dataclass(slots=True)
class FetchRequest:
    """One `FetchLog` that is not answered yet: this broker's own, or that of a neighbour."""

    message: FetchLog
    asker: LinkId
    """The neighbour, or `OWN_LINK`."""
    waits_for: set[LinkId]
    """The neighbours that have not answered; `OWN_LINK` while this broker's own log is read for it."""
    until: Instant
    """When it is not waited for any more, unless an answer comes."""
    asked: frozenset[LinkId] = frozenset()
    """The neighbours to which it was sent, and that have what is wanted here for as long."""
    own: Asker | None = None
    is_whole: bool = True
    is_refused: bool = False
    """Whether a broker may not send all of it now, or does not know yet for whom: its place stays."""
    is_short: bool = False
    """Whether a neighbour that was asked, or one behind it, has not answered."""
    is_late: bool = False
    """Whether it is this broker's own, and the round goes on without those that it still waits for."""
    is_awaited: bool = False
    """Whether a frame came whose publisher is to be confirmed by a statement: it is asked for again."""
    size: int = 0
    frames: list[Recorded] = field(default_factory=list, repr=False)
    """What came in answer to this broker's own."""
    places: dict[bytes, tuple[LogPlace, int]] = field(default_factory=dict)
    """Up to where each broker has looked, and where its log ends."""
    settled: dict[bytes, list[RecordedRun]] = field(default_factory=dict)
    """What each broker says that it never will send."""
    put_back: set[bytes] = field(default_factory=set)
    """Which of the brokers whose places are known have lost what they had recorded up to the one before."""
    is_doubted: bool = False
    """Whether something came that cannot be recorded: then nothing counts as settled."""

    @property
    def key(self) -> tuple[bytes, LinkId]:
        """Return its number, and who asks."""
        return self.message.id, self.asker


@dataclass(slots=True)
class Round:
    """One comparison with the logs of other brokers, which may take several requests."""

    request: FetchRequest
    """The one that was sent last."""
    began_at: Instant
    again_at: Instant | None = None
    """When there is reason for another round, if no other is due before."""
    resumes_at: int | None = None
    """The position up to which the own log has to be safe before more is asked for."""
    is_repeated: bool = False
    """Whether there is reason for another round as soon as this one ends."""

    def lacks_rest_of(self, frame: Recorded, progress: Progress) -> bool:
        """Whether a broker with more of a frame has not answered: a sealed one is whole at its signer."""
        asked = self.request
        signer = signer_of(frame)
        is_answered = signer in asked.places if signer else not asked.is_refused
        return not is_answered and progress.lacks_rest_of(frame)


@dataclass(slots=True)
class Progress:
    """What a broker has recorded of one type, and how far it was with the logs of others."""

    since: Instant
    """When it began to record the type."""
    recorded: DuplicateMemory = field(default_factory=lambda: DuplicateMemory(_LIMITS), repr=False)
    """By signer only where that one was not judged: a publication that two brokers signed is one (X10)."""
    judged: dict[bytes, bool] = field(default_factory=dict, repr=False)
    """By signer of sealed frames that was judged: whether it was so for all of them since."""
    places: dict[bytes, LogPlace] = field(default_factory=dict, repr=False)
    """By broker."""
    whole: dict[bytes, LogPlace] = field(default_factory=dict, repr=False)
    """The places when nothing was missing: from there on others are asked while something is."""
    whole_at: Instant | None = None
    """When that was: if this log is lost, others are asked for what they recorded since."""
    asked: dict[bytes, LogPlace] = field(default_factory=dict, repr=False)
    """The places of the round that is under way."""
    recorders: set[bytes] = field(default_factory=set, repr=False)
    """Whose places were known before this log was lost, and who have not answered since."""
    newcomers: set[LinkId] = field(default_factory=set, repr=False)
    """Neighbours that have come since the last round: nobody knows what was recorded there meanwhile."""
    is_interrupted: bool = False
    """Whether the last round for what is missing came to no end: the next one goes on at its places."""
    settled: DuplicateMemory = field(default_factory=lambda: DuplicateMemory(_LIMITS), repr=False)
    """Numbers that are not recorded and not missing: `_REFUSED` here, or given up by their broker's word."""
    told: DuplicateMemory = field(default_factory=lambda: DuplicateMemory(_LIMITS), repr=False)
    """Numbers that were reported as missing."""
    waiting: DuplicateMemory = field(default_factory=lambda: DuplicateMemory(_LIMITS), repr=False)
    """The numbers of what is held."""
    heard: dict[tuple[bytes, bytes, bytes], int] = field(default_factory=dict, repr=False)
    """By publisher, stream and signer, the highest number of what arrived and could not be held."""
    sources: dict[StreamId, bytes] = field(default_factory=dict, repr=False)
    """Who has signed the newest frame of a stream."""
    own: dict[StreamId, int] = field(default_factory=dict, repr=False)
    """The last number that was recorded of each stream that is published here."""
    is_cut: bool = False
    """Whether it was down, or a link of the type was, since the last round that all have answered."""
    has_news: bool = False
    """Whether something arrived since then: others may have been sent more."""
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
    compared: int = 0
    """What `recorded` had taken in when a round last began."""

    @property
    def is_filling(self) -> bool:
        """Whether a round is due before anything is forgotten that another log would be asked for again.

        A restricted right leaves numbers out, so that each one that comes takes room.
        """
        return self.recorded.scattered - self.compared > _LIMITS.numbers_per_stream_max // 4

    def in_another_log(self, now: Instant) -> Progress:
        """Return what is known where the log was replaced: what was recorded is neither there nor missing.

        Its readers have had most of it. The rest is fetched by when it was recorded, not by its numbers. What
        was missing still is.
        """
        fresh = Progress(now, is_cut=True, sources=dict(self.sources), judged=dict(self.judged))
        fresh.recorders = {*self.places, *self.recorders}
        fresh.whole_at = self.since if self.whole_at is None else self.whole_at
        for one in self.missing():
            stream = one.publisher, one.stream
            fresh.heard[*stream, self.sources.get(stream, b"")] = one.last
        for numbers in (self.recorded, self.settled):
            for stream, parts in numbers.by_stream().items():
                for signer, spans in parts.items():
                    kept_as = signer if numbers is self.settled else b""
                    for first, end in spans:
                        fresh.settled.remember_span(*stream, first, end - 1, kept_as)
        return fresh

    def note(self, frame: Recorded, unjudged: bytes = b"") -> RowSet:
        """Take note of a frame that is recorded; return the rows that are new.

        `unjudged` is its signer, if it is not known here that this one may publish: it uses up its own
        numbers (A85). A signed frame is recorded once: what it has in common with another copy cannot be
        cut out of it.
        """
        stream, number, rows = identity_of(frame)
        signer = signer_of(frame)
        if not unjudged and self.sources.get(stream, b"") != signer:
            self.sources[stream] = signer
            if len(self.sources) > _LIMITS.streams_max:
                del self.sources[next(iter(self.sources))]
        new = self._missing(frame, number, ALL_ROWS if signer else rows)
        return self.recorded.new_rows(*stream, number, new, unjudged) if new else 0

    def note_signer(self, frame: Recorded, unjudged: bytes) -> bool:
        """Take note of whether the signer of a sealed frame was judged; say whether that is news."""
        if not isinstance(frame, Sealed):
            return False
        before, is_judged = self.judged.get(frame.signer), not unjudged
        is_first = before is None and is_judged and len(self.judged) < SIGNERS_MAX
        if is_first or (before and not is_judged):  # once for each: what is kept is kept as a whole
            self.judged[frame.signer] = is_judged
            return True
        return False

    def unjudged_in_log(self, frame: Recorded, own_key: bytes) -> bytes:
        """Return the signer of a frame of the log if it is not known that it was judged.

        One in the clear was recorded because its right was proved, and one out of an envelope was judged.
        """
        if not isinstance(frame, Sealed) or isinstance(frame, Unblinded):
            return b""
        return b"" if self.judged.get(frame.signer) or frame.signer == own_key else frame.signer

    def note_own(self, stream: StreamId, number: int) -> bool:
        """Take note of a frame that is published here; say whether it is new.

        What its publisher has numbered before, since it came here, was refused.
        """
        last = self.own.get(stream)
        if last is not None and last + 1 < number:
            self.settled.remember_span(*stream, last + 1, number - 1, _REFUSED)
        self.own[stream] = number
        return self.recorded.remember(*stream, number)

    # ------------------------------------------------------------ what is missing

    def missing(self) -> Iterator[RecordedRun]:
        """Yield numbers that are neither recorded nor held though later ones came: a stream begins at 0.

        What somebody has signed who was not judged stands for nothing where others were: it neither makes
        a hole by a number of its own choice nor fills one. Of which a part was here is not missing.
        """
        settled, heard = self.settled.by_stream(), dict[StreamId, dict[bytes, int]]()
        for (publisher, label, signer), number in self.heard.items():
            heard.setdefault((publisher, label), {})[signer] = number + 1
        recorded, waiting = self.recorded.by_stream(), self.waiting.by_stream()
        for stream in dict.fromkeys((*recorded, *waiting, *heard)):
            known = {b"", self.sources.get(stream, b"")}
            parts = recorded.get(stream, {}), waiting.get(stream, {})
            signers = {*parts[0], *parts[1], *heard.get(stream, {})}
            believed = signers & known or signers
            spans = [span for one in parts for signer in believed for span in one.get(signer, ())]
            ends = [end for _, end in spans]
            ends += [end for signer, end in heard.get(stream, {}).items() if signer in believed]
            if len(spans) == 1 == len(ends) and not spans[0][0]:
                continue
            beside = [span for one in settled.get(stream, {}).values() for span in one]
            for first, last in gaps([*spans, *beside], max(ends)):
                yield RecordedRun(*stream, b"", first, last)

    def newly_missing(self, asked: Collection[RecordedRun] | None = None) -> list[RecordedRun]:
        """Return the numbers that were not reported as missing before; they count as reported from now on.

        None but those that others were asked about, if these are given.
        """
        starts = None if asked is None else {(one.publisher, one.stream, one.first) for one in asked}
        found = [
            one
            for one in self.missing()
            if self.told.unseen_rows(one.publisher, one.stream, one.first)
            and (starts is None or (one.publisher, one.stream, one.first) in starts)
        ]
        for one in found:
            self.told.remember_span(one.publisher, one.stream, one.first, one.last)
        return found

    def settled_here(
        self, missing: Iterable[RecordedRun], origins: Mapping[StreamId, StreamId]
    ) -> list[RecordedRun]:
        """Return for which of some numbers others need not wait: they are recorded, or were refused.

        `origins` says of which stream one was made here: its frames keep their numbers.
        """
        recorded, settled = self.recorded.by_stream(), self.settled.by_stream()
        found: list[RecordedRun] = []
        for one in missing:
            asked = one.publisher, one.stream
            stream = origins.get(asked, asked)
            spans = [span for some in recorded.get(stream, {}).values() for span in some]
            for first, end in (*spans, *settled.get(stream, {}).get(_REFUSED, ())):
                if first <= one.last and one.first < end:
                    found.append(RecordedRun(*asked, b"", max(first, one.first), min(one.last, end - 1)))
        return found[:MISSING_SENT]

    def settle(self, answers: Mapping[bytes, list[RecordedRun]], *, signers_only: bool = False) -> None:
        """Give up what those say will never come who answer for its stream: its signer, if there is one."""
        held = {identity_of(one)[0]: signer_of(one) for one in self.held}
        for broker, runs in answers.items():
            for one in runs:
                stream = one.publisher, one.stream
                signer = self.sources.get(stream) or held.get(stream) or b""
                if signer == broker or not (signer or signers_only):
                    self.settled.remember_span(*stream, one.first, one.last)

    def streams_of(self, publishers: Collection[bytes]) -> list[StreamId]:
        """Return the streams of some publishers of which anything is recorded or settled."""
        known = dict.fromkeys((*self.recorded.by_stream(), *self.settled.by_stream()))
        return [one for one in known if one[0] in publishers]

    def has_original_of(self, frame: Recorded) -> bool:
        """Return whether a frame was released, for whomever, of rows that are recorded as published."""
        _, number, rows = identity_of(frame)
        origin = origin_of(frame)
        return bool(origin) and not self.recorded.unseen_rows(frame.publisher, origin, number, rows)

    def _missing(self, frame: Recorded, number: int, rows: RowSet) -> RowSet:
        """Return those rows of a number that are not recorded, by this signer or one that may publish."""
        stream = identity_of(frame)[0]
        for signer in _known_by(frame):
            rows = self.recorded.unseen_rows(*stream, number, rows, signer)
        return rows

    def comes_late(self, frame: Recorded) -> bool:
        """Return whether a later publication of its stream is recorded already."""
        stream, number, _ = identity_of(frame)
        return any(self.recorded.has_later(*stream, number, one) for one in _known_by(frame))

    def follows_gap(self, frame: Recorded) -> bool:
        """Return whether the number before a frame is missing."""
        number = identity_of(frame)[1]
        return number > 0 and self._missing(frame, number - 1, 1) != 0

    def lacks_rest_of(self, frame: Recorded) -> bool:
        """Whether a frame is a part, as it was sent to some reader, of one that is not recorded whole."""
        _, number, rows = identity_of(frame)
        return rows != ALL_ROWS and self._missing(frame, number, ALL_ROWS) != 0

    def leaves_hole(self, frame: Recorded) -> bool:
        """Return whether a stream of which something is recorded goes on behind a gap."""
        stream = identity_of(frame)[0]
        return self.follows_gap(frame) and any(self.recorded.knows(*stream, one) for one in _known_by(frame))

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
        stream, number, _ = identity_of(frame)
        if self.is_over:
            about = (*stream, signer_of(frame))
            self.heard[about] = max(number, self.heard.pop(about, 0))
            if len(self.heard) > _LIMITS.streams_max:
                del self.heard[next(iter(self.heard))]
            return False
        self.held.append(frame)
        self.waiting.new_rows(*stream, number, signer=signer_of(frame))
        self.held_bytes += size
        self.held_since = self.held_since or now
        return True

    def take_held(self) -> list[Recorded]:
        """Return what was held, and hold nothing any more."""
        found = list(self.held)
        self.held.clear()
        self.waiting = DuplicateMemory(_LIMITS)
        self.held_bytes, self.held_since = 0, None
        return found

    def is_patient(self, now: Instant) -> bool:
        """Return whether what is held may wait for longer."""
        return self.held_since is not None and now < seconds_after(self.held_since, HOLD_S)

    def follow(self, places: Mapping[bytes, tuple[LogPlace, int]]) -> bool:
        """Take note of up to where brokers have looked; say whether any of them has more."""
        is_more = False
        for broker, (place, end) in places.items():
            before = self.asked.get(broker)
            is_on = before is None or before.log != place.log or place.position > before.position
            is_more = is_more or (is_on and place.position < end)
            self.places.pop(broker, None)
            self.recorders.discard(broker)
            self.places[broker] = self.asked[broker] = place
        while len(self.places) > PLACES_MAX:
            del self.places[next(iter(self.places))]
        return is_more

    def runs(self) -> list[RecordedRun]:
        """Return what other brokers need not send."""
        found = (*self.recorded.older_runs(RUNS_SENT), *self.recorded.newest_runs(RUNS_SENT))
        return [RecordedRun(*one) for one in found]


def identity_of(frame: Recorded) -> tuple[StreamId, int, RowSet]:
    """Return by what a recorded frame is known: its stream, number and rows.

    What was released for those who see everything is what was published, whichever way it came.
    """
    if isinstance(frame, Unblinded):
        return (frame.inner_publisher, frame.inner_stream), frame.inner_sequence, ALL_ROWS
    rows = row_set(frame.kept) if frame.kept else ALL_ROWS
    view, origin = class_of_frame(frame) if isinstance(frame, Carried) else (None, b"")
    return (frame.publisher, origin if view == EVERYTHING else frame.stream), frame.sequence, rows


def origin_of(frame: Recorded) -> bytes:
    """Return the publisher's stream of which a frame was released; nothing for one as it was published."""
    view, origin = class_of_frame(frame) if isinstance(frame, Carried) else (None, b"")
    return b"" if view is None else origin


def _known_by(frame: Recorded) -> set[bytes]:
    """Return under which signers a frame may be known: any that may publish, which is empty, and its own."""
    return {b"", b"" if isinstance(frame, Unblinded) else signer_of(frame)}


def runs_by_stream(runs: Iterable[RecordedRun]) -> dict[tuple[bytes, bytes, bytes], list[RecordedRun]]:
    """Return runs by publisher, stream and signer."""
    found: dict[tuple[bytes, bytes, bytes], list[RecordedRun]] = {}
    for run in runs:
        found.setdefault((run.publisher, run.stream, run.signer), []).append(run)
    return found


def is_among(runs: Mapping[tuple[bytes, bytes, bytes], Collection[RecordedRun]], frame: Recorded) -> bool:
    """Return whether a broker that has these runs, by publisher, stream and signer, has a frame."""
    stream, number, _ = identity_of(frame)
    original = frame.publisher, origin_of(frame), b""
    found = [runs.get(original, ()), *(runs.get((*stream, signer), ()) for signer in _known_by(frame))]
    return any(run.first <= number <= run.last for some in found for run in some)


# ------------------------------------------------------------ across restarts


class _KeptType(msgspec.Struct, array_like=True, frozen=True):
    type_id: bytes
    since: int
    places: list[LogPlace]
    recorded: bytes
    judged: list[bytes] = []
    settled: bytes = b""
    told: bytes = b""
    heard: list[tuple[bytes, bytes, bytes, int]] = []
    recorders: list[bytes] = []
    whole_at: int | None = None


class _KeptProgress(msgspec.Struct, array_like=True, frozen=True):
    log: bytes
    types: list[_KeptType]
    fetched: list[tuple[int, int]] = []
    late: list[tuple[int, int]] = []


def progress_to_bytes(
    log_id: bytes,
    progress: Mapping[bytes, Progress],
    fetched: list[tuple[int, int]],
    late: list[tuple[int, int]],
) -> bytes:
    """Return what must survive a restart."""
    types = [
        _KeptType(
            type_id,
            int(one.since),
            list((one.whole if any(one.missing()) else one.places).values()),
            one.recorded.exported(),
            [signer for signer, is_judged in one.judged.items() if is_judged],
            one.settled.exported(),
            one.told.exported(),
            [(*about, number) for about, number in one.heard.items()],
            sorted(one.recorders),
            None if one.whole_at is None else int(one.whole_at),
        )
        for type_id, one in progress.items()
    ]
    return msgspec.msgpack.encode(_KeptProgress(log_id, types, fetched, late))


def progress_from_bytes(
    data: bytes,
) -> tuple[bytes, dict[bytes, Progress], list[tuple[int, int]], list[tuple[int, int]]]:
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
            dict.fromkeys(one.judged, True),
            {place.broker: place for place in one.places},
            {place.broker: place for place in one.places},
            settled=_memory_from_bytes(one.settled),
            told=_memory_from_bytes(one.told),
            heard={(publisher, stream, signer): number for publisher, stream, signer, number in one.heard},
            recorders=set(one.recorders),
            whole_at=None if one.whole_at is None else Instant(one.whole_at),
            is_cut=True,
        )
        for one in kept.types
    }
    return kept.log, found, kept.fetched, kept.late


def _memory_from_bytes(data: bytes) -> DuplicateMemory:
    return DuplicateMemory.imported(data, _LIMITS) if data else DuplicateMemory(_LIMITS)
