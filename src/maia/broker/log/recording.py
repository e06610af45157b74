"""What has this broker recorded, what is on its way to the disk, and what waits for that?

The publication path hands over every frame of a recorded type, once and as it
travels: plaintext types as `Carried`, sealed ones as `Sealed`, so that recording
needs no keys. A blinded type is recorded by members of its key group alone, as
`Unblinded`: under the type, and without cover. Its number is its position in the
event log. Answers that promise safety wait here until the disk has promised it.
The newest frames stay in memory, so that durable subscriptions that have caught
up cost no reading.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from maia.broker.audiences.local_subscribers import routed_filter
from maia.broker.links.links import OWN_LINK, Link, Stage
from maia.broker.links.runs import KEPT_RUNS, RUN_BYTES, LogRuns
from maia.broker.links.transit import from_carried
from maia.broker.log.progress import (
    FETCHED_MAX,
    KEPT_PROGRESS,
    LATE_MAX,
    LOG_ID_BYTES,
    Progress,
    identity_of,
    progress_from_bytes,
    progress_to_bytes,
)
from maia.broker.rights.known_types import KnownTypes
from maia.broker.settings import BrokerSettings, RecordingSettings
from maia.broker.turn import Turn
from maia.credentials import Principal
from maia.errors import BadInput, ProtocolViolation
from maia.events import INSTANT_MIN, Instant, seconds_after
from maia.predicates import ALWAYS
from maia.routing.duplicates import ALL_ROWS, DuplicateMemory, row_set, rows_in
from maia.types import is_validity_stream
from maia.types.verified import is_certificate_stream
from maia.wire.codec import decode_recorded, encode_known
from maia.wire.effects import Effect, Keep, LinkId, LogAtStart, Logged, Record
from maia.wire.messages import Carried, FetchLog, LogPlace, Recorded, RecordedRun, Unblinded, signer_of

KEPT_POSITION: Final = "log-position"
KEPT_REACHED: Final = "log-reached"
"""A position that the log has come to: one that ends before it is another one."""
NO_LOG: Final = LogAtStart()
_TAIL_FRAMES: Final = 4096
_TAIL_BYTES: Final = 8 << 20
_UNSAFE_BYTES: Final = 16 << 20
"""How much waits for a disk that takes nothing, before what other brokers can send again is left to them."""


@dataclass(slots=True)
class Recording:
    """The event log of one broker, as far as the broker knows it."""

    settings: RecordingSettings
    types: KnownTypes
    link: Link
    """In place of a client: this broker's own subscriptions to what it records."""
    next_position: int = 1
    upto: int = 0
    """Everything up to here is safe."""
    unsafe: dict[int, tuple[bytes, Logged]] = field(default_factory=dict, repr=False)
    """What is on its way to the disk, with its type, by position."""
    waiting: deque[tuple[int, Effect]] = field(default_factory=deque, repr=False)
    """What may be done once everything up to a position is safe."""
    tail: deque[tuple[bytes, Logged]] = field(default_factory=deque, repr=False)
    """The newest safe frames with their types, without gaps."""
    tail_bytes: int = 0
    unsafe_bytes: int = 0
    last_read: int = 0
    id: bytes = b""
    """What tells this log from one that was here before it."""
    fetched: list[tuple[int, int]] = field(default_factory=list, repr=False)
    """First and last positions of what was fetched from other brokers, the newest last."""
    late: list[tuple[int, int]] = field(default_factory=list, repr=False)
    """First and last positions of what was recorded behind later publications of its stream, in order."""
    progress: dict[bytes, Progress] = field(default_factory=dict, repr=False)
    """By type: what is recorded, and up to where that was compared with the logs of others."""
    fresh: set[bytes] = field(default_factory=set)
    """Types that are to be compared with the logs of others."""
    asked: set[tuple[bytes, LinkId]] = field(default_factory=set)
    """The neighbours that were sent an interest in a type."""
    problem: str = ""
    """Why the disk takes nothing at this moment, if that is so."""
    runs: LogRuns = field(default_factory=LogRuns, repr=False)
    """In which run of this broker which positions were recorded."""
    has_reached: bool = False
    """Whether it is kept that this run has recorded something."""
    is_replaced: bool = False
    """Whether this log is not the one whose positions were kept: that one is lost, or newer."""
    left_out: set[bytes] = field(default_factory=set)
    """Types of which something was not recorded meanwhile: other brokers have it, and are asked later."""
    is_changed: bool = False
    """Whether a type is to be compared, or a durable subscription has a new gap notice to be sent."""

    def records(self, type_id: bytes) -> bool:
        """Return whether frames of a type are recorded here.

        Of a type without a known definition nothing is recorded unless its id was chosen: other
        ids can be made up, and would fill the disk (A90). So are those of blinded types: what
        travels under them is recorded under its type, once it is opened.
        """
        chosen, versions = self.settings.types, self.types.versions(type_id)
        if chosen is None:
            # What issuers state has to go on when the disk is full, and is worth nothing afterwards.
            is_stated = versions and (is_validity_stream(versions[-1]) or is_certificate_stream(versions[-1]))
            return bool(versions) and not is_stated
        return type_id.hex() in chosen or any(version.name.name in chosen for version in versions)

    def record_own(self, frame: Recorded, turn: Turn) -> None:
        """Record a frame that is published here as it travels."""
        if self.record(frame, turn):
            self.progress_of(frame.type_id, turn.now).note_own(*identity_of(frame)[:2])

    def begin_streams(self, type_ids: Iterable[bytes], publisher: bytes) -> None:
        """Take note that a publisher is here from now on: what it numbered before, others may have."""
        for known in [self.progress[one] for one in type_ids if one in self.progress]:
            known.own = {stream: last for stream, last in known.own.items() if stream[0] != publisher}

    def missing(self) -> dict[bytes, list[RecordedRun]]:
        """Return the numbers that are known to be missing, by type."""
        found = {one: list(known.missing()) for one, known in self.progress.items() if self.takes_all(one)}
        return {type_id: runs for type_id, runs in found.items() if runs}

    def record(self, frame: Recorded, turn: Turn, unjudged: bytes = b"") -> bool:
        """Record a frame as it travels, without rows that are recorded already; say whether anything is left.

        Nothing is recorded of a type that this broker does not record. `unjudged` is who signed the frame,
        unless it is known that this one may.
        """
        if not self.records(frame.type_id):
            return False
        progress = self.progress_of(frame.type_id, turn.now)
        new = progress.note(frame, unjudged)
        is_news = progress.note_signer(frame, unjudged)
        if isinstance(frame, Carried) and not signer_of(frame) and new not in (0, identity_of(frame)[2]):
            whole = frame.kept or range(frame.rows)
            fresh = set(rows_in(new, among=whole))
            part = from_carried(frame, {}).cut([at for at, row in enumerate(whole) if row in fresh])
            frame, new = part.as_carried(), len(fresh)
        if not new:
            turn.count("maia_duplicates_total")  # it was fetched before it came
            return False
        if progress.comes_late(frame):
            self._note_late(self.next_position)
        data = encode_known(frame)
        turn.add(Record(self.number(frame.type_id, data, turn.now), data))
        if is_news:
            self.keep_progress(turn)  # once the frame is safe: its number is known there
        turn.count("maia_recorded_total")
        return True

    def progress_of(self, type_id: bytes, now: Instant) -> Progress:
        """Return what is recorded of a type; nothing before its first frame."""
        known = self.progress.get(type_id)
        if known is None:
            known = self.progress[type_id] = Progress(now)
        return known

    def note_fetched(self, first: int) -> None:
        """Take note that everything from a position on was fetched, up to what was recorded last."""
        if first < self.next_position:
            self.fetched = [*self.fetched, (first, self.next_position - 1)][-FETCHED_MAX:]

    def was_fetched(self, position: int) -> bool:
        """Return whether a frame was fetched, so that it was recorded here later than it was published."""
        return any(first <= position <= last for first, last in self.fetched)

    def _note_late(self, position: int) -> None:
        if self.late and self.late[-1][1] + 1 == position:
            self.late[-1] = self.late[-1][0], position
        else:
            self.late = [*self.late, (position, position)][-LATE_MAX:]

    def is_late(self, position: int) -> bool:
        """Return whether a frame was recorded behind a later one of its stream, whoever reads both."""
        at = bisect_left(self.late, (position + 1, 0)) - 1
        return at >= 0 and position <= self.late[at][1]

    def next_read(self) -> int:
        """Return the number of a new reading of the log."""
        self.last_read += 1
        return self.last_read

    def number(self, type_id: bytes, data: bytes, now: Instant) -> int:
        """Give a frame that goes to the disk the next position."""
        position = self.next_position
        self.unsafe[position] = (type_id, Logged(position, now, data))
        self.unsafe_bytes += len(data)
        self.next_position = position + 1
        return position

    def replace(self, frame: Logged) -> None:
        """Put in the bytes of a frame that was numbered before it was signed."""
        type_id, _ = self.unsafe[frame.position]
        self.unsafe[frame.position] = (type_id, frame)
        self.unsafe_bytes += len(frame.data)

    def made_safe(self, upto: int, turn: Turn) -> None:
        """Move what is safe now to the tail, and have done what waited for that."""
        for position in range(self.upto + 1, min(upto, self.next_position - 1) + 1):
            type_id, frame = self.unsafe.pop(position)
            self.unsafe_bytes -= len(frame.data)
            self.tail.append((type_id, frame))
            self.tail_bytes += len(frame.data)
            while len(self.tail) > _TAIL_FRAMES or (self.tail_bytes > _TAIL_BYTES and len(self.tail) > 1):
                self.tail_bytes -= len(self.tail.popleft()[1].data)
        self.upto = max(self.upto, upto)
        if not self.has_reached:
            # The position itself is kept with the next lease: a log that is lost before that is lost, too.
            self.has_reached = True
            turn.keep(_kept_reached(self.upto + 1))
        while self.waiting and self.waiting[0][0] <= self.upto:
            turn.add(self.waiting.popleft()[1])

    def has_room_for(self, type_id: bytes) -> bool:
        """Return whether what a neighbour sends can be recorded; take note of its type if it cannot."""
        if not self.problem or self.unsafe_bytes < _UNSAFE_BYTES:
            return True
        self.left_out.add(type_id)
        return False

    def note_problem(self, problem: str) -> None:
        """Take note that the disk takes nothing, or does again: then what was left out is fetched."""
        self.problem = problem
        if not problem:
            for type_id in self.left_out:
                if type_id in self.progress:
                    self.progress[type_id].is_cut = True
                self.look_for(type_id)
            self.left_out.clear()

    @property
    def is_safe(self) -> bool:
        """Return whether all that was numbered so far is safe."""
        return self.upto + 1 == self.next_position

    def once_safe(self, effect: Effect, turn: Turn) -> None:
        """Have something done once all that was numbered so far is safe, now if it is."""
        if self.is_safe:
            turn.add(effect)
        else:
            self.waiting.append((self.next_position - 1, effect))

    def once_recorded(self, type_id: bytes, answer: Effect, turn: Turn) -> None:
        """Answer a publisher; if the broker promises that, once all before it is safe."""
        if self.settings.durable and self.records(type_id):
            self.once_safe(answer, turn)
        else:
            turn.add(answer)

    def in_memory(self, type_id: bytes, first: int) -> Iterator[Logged] | None:
        """Return the safe frames of a type from a position on; None if not all of these are in memory."""
        tail = self.tail
        if not tail or first < tail[0][1].position:
            return None
        known = (tail[at] for at in range(first - tail[0][1].position, len(tail)))
        return (logged for found, logged in known if found == type_id)

    def place_at(self, position: int) -> LogPlace:
        """Return the place in this log that others name by a position: it is of the run that recorded it.

        Where the log is put back from a backup, positions are given a second time.
        """
        run = self.runs.of(position)
        return LogPlace(self.link.peer.key, self.id[: LOG_ID_BYTES - len(run)] + run, position)

    def has_place(self, place: LogPlace) -> bool:
        """Return whether a place is one that this log has reached, and still has."""
        return place.position < self.next_position and place == self.place_at(place.position)

    def was_put_back(self, asked: FetchLog) -> bool:
        """Return whether an asker knows a place in a log of this broker that is not there any more."""
        ours = (one for one in (*asked.places, *asked.reached) if one.broker == self.link.peer.key)
        return not all(self.has_place(one) for one in ours)

    def own_types(self) -> set[bytes]:
        """Return the types that this broker subscribes to itself."""
        return {one.right.event_type.type_id for one in self.link.subscriptions.values()}

    def takes_all(self, type_id: bytes) -> bool:
        """Return whether this broker is sent every event of a type: a restricted right leaves numbers out."""
        own = (one.right for one in self.link.subscriptions.values())
        return any(one.event_type.type_id == type_id and routed_filter(one.view) == ALWAYS for one in own)

    def interest_sent(self, type_id: bytes, link: LinkId) -> None:
        """Take note that a neighbour was sent an interest."""
        if (type_id, link) not in self.asked:
            self.asked.add((type_id, link))
            self.look_for(type_id)

    def look_for(self, type_id: bytes) -> None:
        """Have what is recorded of a type compared with the logs of others."""
        self.fresh.add(type_id)
        self.is_changed = True

    def link_gone(self, link: LinkId) -> None:
        """Take note that something may be missed of the types that a neighbour was sent an interest in."""
        for type_id, asked in [one for one in self.asked if one[1] == link]:
            self.asked.discard((type_id, asked))
            if type_id in self.progress:
                self.progress[type_id].is_cut = True
        for progress in self.progress.values():
            progress.newcomers.discard(link)

    def status(self) -> dict[str, object]:
        """Return what an operator asks for."""
        return {
            "missing_events": sum(
                one.last - one.first + 1 for runs in self.missing().values() for one in runs
            ),
            "position": self.upto,
            "unsafe": self.next_position - 1 - self.upto,
            "unsafe_bytes": self.unsafe_bytes,
            "types": len(self.link.subscriptions),
        }

    # ------------------------------------------------------------ across restarts

    def keep_once_safe(self, memory: Keep, turn: Turn) -> None:
        """Keep the memory of publications when all frames that it knows of are safe.

        Otherwise a frame that a crash took could be taken for one that was recorded.
        """
        # The memory goes first: with the position alone, what lies between would be forgotten.
        for one in (memory, self.kept_progress(), self._kept_position()):
            self.once_safe(one, turn)

    def keep_progress(self, turn: Turn) -> None:
        """Keep how far each type has come before anything is said, or once all that it knows of is safe."""
        if self.is_safe:
            turn.keep(self.kept_progress())
        else:
            self.once_safe(self.kept_progress(), turn)

    def kept_progress(self) -> Keep:
        """Return what has to survive a restart once everything that it knows of is safe."""
        return Keep(KEPT_PROGRESS, progress_to_bytes(self.id, self.progress, self.fetched, self.late))

    def _kept_position(self) -> Keep:
        return Keep(KEPT_POSITION, msgspec.msgpack.encode(self.next_position))

    def reload(
        self,
        kept_before: Mapping[str, bytes],
        log: LogAtStart,
        seen: DuplicateMemory,
        turn: Turn,
        *,
        random: Callable[[int], bytes],
    ) -> None:
        """Go on behind what the log holds, and recognise what it holds when it is published again."""
        self.next_position, self.upto = log.next_position, log.next_position - 1
        self._reload_progress(kept_before, random, turn)
        self._begin_run(kept_before, random(RUN_BYTES), turn)
        for logged in log.recent:
            if _recognise(logged, seen, self.progress, own_key=self.link.peer.key):
                self._note_late(logged.position)

    def _begin_run(self, kept_before: Mapping[str, bytes], run: bytes, turn: Turn) -> None:
        try:
            if KEPT_RUNS in kept_before:
                self.runs.reload(kept_before[KEPT_RUNS])
        except BadInput as problem:
            turn.note("kept-dropped", name=KEPT_RUNS, code=problem.code)
        self.runs.begin(self.next_position, run)
        turn.add(self.runs.kept())

    def _reload_progress(
        self, kept_before: Mapping[str, bytes], random: Callable[[int], bytes], turn: Turn
    ) -> None:
        try:
            kept_progress = kept_before.get(KEPT_PROGRESS, b"")
            self.id, self.progress, self.fetched, self.late = progress_from_bytes(kept_progress)
        except BadInput as problem:
            if KEPT_PROGRESS in kept_before:
                turn.note("kept-dropped", name=KEPT_PROGRESS, code=problem.code)
        reached = _position_from_bytes(kept_before.get(KEPT_REACHED, b""))
        if not self.id or self.next_position < max(reached, first_to_reread(kept_before)):
            # Another log, or one that was restored from a copy: its positions mean something else.
            self.is_replaced = bool(self.id)
            before, self.id, self.progress = self.progress, random(LOG_ID_BYTES), {}
            self.fetched, self.late = [], []
            for type_id, known in before.items():
                self.progress[type_id] = known.in_another_log(turn.now)
            turn.add(self.kept_progress())
            # Or it would be taken for another one at the next start.
            turn.add(self._kept_position(), _kept_reached(self.next_position))

    def begin_at(self, type_id: bytes, seen_at: Instant, now: Instant, *, skew_s: float) -> None:
        """Fetch of a type what others have recorded since a reader had it: this log has lost it.

        The clocks of others may be behind by `skew_s`.
        """
        progress = self.progress_of(type_id, now)
        # What a reader had last may be newer than what this log was still to fetch.
        known_at = min(seen_at, progress.whole_at or seen_at)
        progress.since = min(progress.since, seconds_after(known_at, -skew_s))
        progress.is_cut = True
        self.look_for(type_id)


def new_recording(principal: Principal, settings: BrokerSettings, types: KnownTypes) -> Recording | None:
    """Return an empty log, for a broker that records."""
    if settings.recording is None:
        return None
    long_ago = Instant(INSTANT_MIN)
    own = Link(OWN_LINK, principal, None, Stage.READY, opened_at=long_ago, heard_at=long_ago)
    return Recording(settings.recording, types, own)


def first_to_reread(kept_before: Mapping[str, bytes]) -> int:
    """Return from which position on the log has to be read again at the start."""
    return _position_from_bytes(kept_before.get(KEPT_POSITION, b""))


def _position_from_bytes(kept: bytes) -> int:
    try:
        return max(1, msgspec.msgpack.decode(kept, type=int))
    except msgspec.MsgspecError:
        return 1


def _kept_reached(position: int) -> Keep:
    return Keep(KEPT_REACHED, msgspec.msgpack.encode(position))


def _recognise(
    logged: Logged, seen: DuplicateMemory, progress: dict[bytes, Progress], *, own_key: bytes
) -> bool:
    """Take note of a frame of the log; say whether a later one of its stream is before it."""
    try:
        frame = decode_recorded(logged.data)
    except ProtocolViolation:
        return False  # of another version: no publisher sends the same today
    known = progress.get(frame.type_id)
    if known is None:
        known = progress[frame.type_id] = Progress(logged.recorded_at, is_cut=True)
    rows = row_set(frame.kept) if frame.kept else ALL_ROWS
    unjudged, is_late = known.unjudged_in_log(frame, own_key), known.comes_late(frame)
    is_new = bool(known.note(frame, unjudged))
    if isinstance(frame, Unblinded):
        seen.new_rows(frame.inner_publisher, frame.inner_stream, frame.inner_sequence, rows)
        unjudged = frame.signer if frame.signer != own_key else b""  # whose envelope it is
    seen.new_rows(frame.publisher, frame.stream, frame.sequence, rows, unjudged)
    return is_new and is_late  # what is known already was judged when it was recorded
