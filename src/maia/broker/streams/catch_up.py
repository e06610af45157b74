"""What did this broker fail to record while it, or a link of it, was down, and who has it?

A recording broker compares its log with those of the others of a type: after a start, when
an interest goes to a neighbour for the first time, when a stream goes on behind a gap in its
numbers, when many numbers were left out, and once in a while. What it asks, and what others answer:
`log_requests.py`.

While a round is under way, what arrives by itself is recorded behind what was missed, so
that a publisher's events keep their order. What is delivered to live subscriptions is not changed:
a round is for the log alone. What no broker has is reported at the durable subscriptions of the type.
See `docs/decisions/catching-up.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from maia.broker.audiences.local_subscribers import Audiences
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.keys.blinded import BlindedIds
from maia.broker.links.transit import class_of_frame
from maia.broker.log.progress import (
    MISSING_SENT,
    PLACES_MAX,
    FetchRequest,
    Progress,
    Round,
    StreamId,
    identity_of,
)
from maia.broker.log.recording import Recording
from maia.broker.own import Own
from maia.broker.streams.durable import NUMBERS, DurableSubscriptions
from maia.broker.streams.log_requests import LogRequests
from maia.broker.streams.neighbour import Signers
from maia.broker.timers import FetchMissed, TimerWheel
from maia.broker.turn import Turn
from maia.errors import MaiaError, Unavailable
from maia.events import Instant, seconds_after
from maia.routing.duplicates import ALL_ROWS
from maia.routing.overlay.table import node_id_of_key
from maia.wire.effects import LinkId
from maia.wire.messages import Carried, FetchLog, Recorded, RecordedRun, signer_of

EVERY_S: Final = 60.0
"""How often a broker compares its log with others without a reason."""
HELD_BYTES_MAX: Final = 16 << 20
_GAP_EVERY_S: Final = 2.0
_RETRY_S: Final = 2.0

_UNRECORDED: Final = (
    "while this broker was cut off, something may have been published that no broker recorded"
)
_BLINDED: Final = "this broker was cut off, and events of a blinded type are not fetched from others"
_PUT_BACK: Final = (
    "the event log of another broker was lost or put back: what it alone had of this type is gone"
)
_HOLE: Final = "a publisher's numbers leave something out: its broker refused it, or it was lost on the way"
_NAMED_MAX: Final = 8


@dataclass(slots=True, eq=False, kw_only=True)
class CatchUp:
    """The rounds in which a recording broker compares its log with those of others."""

    own: Own
    recording: Recording
    durable: DurableSubscriptions
    log_requests: LogRequests
    router: Router
    routes: Routes
    blinded: BlindedIds
    timers: TimerWheel
    audiences: Audiences
    signers: Signers

    @property
    def is_changed(self) -> bool:
        """Return whether a round is to begin, or a durable subscription has a new gap notice to be sent."""
        return self.recording.is_changed

    # ------------------------------------------------------------ what arrives by itself

    def records(self, type_id: bytes) -> bool:
        """Return whether what arrives of a type is recorded."""
        return self.recording.records(type_id)

    def record_arrived(self, frame: Recorded, turn: Turn) -> None:
        """Record a frame that came from another broker, behind what was missed before it."""
        log, type_id = self.recording, frame.type_id
        if not log.records(type_id):
            return
        if self._is_needless(frame):
            return
        progress = log.progress_of(type_id, turn.now)
        progress.has_news = True
        if progress.round is None and not progress.held:
            if not self._waits(progress, frame):
                log.record(frame, turn, self.signers.unjudged(frame, turn.now))
                if progress.is_filling:
                    self._begin(type_id, turn)
                return
            self._look_for_gap(type_id, progress, turn)
        if log.progress[type_id].round is None and not progress.held:
            self._record(progress, frame, turn)
            return
        was_over = progress.is_over
        if not progress.hold(frame, turn.now, HELD_BYTES_MAX):
            if not was_over:
                log.keep_progress(turn)  # that there is more is known after a restart, too
            turn.count("maia_catch_up_overflows_total")

    def _waits(self, progress: Progress, frame: Recorded) -> bool:
        """Return whether a frame is recorded behind another one; or whole, in place of the part that came.

        A broker that was cut off carries for others before it is sent all that it wants itself.
        """
        if signer_of(frame) and progress.lacks_rest_of(frame):
            return progress.is_cut or self.recording.takes_all(frame.type_id)
        return progress.follows_gap(frame) and self.recording.takes_all(frame.type_id)

    def _look_for_gap(self, type_id: bytes, progress: Progress, turn: Turn) -> None:
        """Look for what is missing before a frame, unless that was in vain a moment ago."""
        again_at = None if progress.gap_at is None else seconds_after(progress.gap_at, _GAP_EVERY_S)
        if again_at is None or again_at <= turn.now:
            progress.gap_at = turn.now
            self._begin(type_id, turn)
        else:
            self._due(progress, again_at)

    def _record(self, progress: Progress, frame: Recorded, turn: Turn, *, is_less: bool = False) -> bool:
        """Record a frame, and take note of what is missing before it or, if so, in it."""
        if self._is_needless(frame):
            return False
        is_behind_gap = is_less or progress.leaves_hole(frame)
        if not self.recording.record(frame, turn, self.signers.unjudged(frame, turn.now)):
            return False
        progress.has_hole |= is_behind_gap and self.recording.takes_all(frame.type_id)
        return True

    def _is_needless(self, frame: Recorded) -> bool:
        """Return whether a frame was released of what is recorded, or for a class that serves nobody here."""
        view = class_of_frame(frame)[0] if isinstance(frame, Carried) else None
        if view is None:
            return False
        progress = self.recording.progress.get(frame.type_id)
        if progress is not None and progress.has_original_of(frame):
            return True
        audience = self.audiences.get(frame.type_id)
        return audience is None or not audience.is_served_from(view)

    # ------------------------------------------------------------ rounds

    def follow(self, turn: Turn) -> None:
        """Begin the rounds that there is a new reason for, and send new gap notices."""
        log = self.recording
        fresh, log.fresh = log.fresh, set()
        for type_id in sorted(fresh & self._of_interest()):
            self._begin(type_id, turn, is_fresh=True)
        log.is_changed = False
        self.durable.tell_gaps(turn)

    def neighbour_up(self, link: LinkId) -> None:
        """Take note of a neighbour: it may have recorded what was missed, whether it publishes now or not.

        In a mesh interests spread to it without being sent one by one.
        """
        log = self.recording
        for type_id in self._of_interest():
            if self.router.flooding is not None:
                log.interest_sent(type_id, link)
            elif (progress := log.progress.get(type_id)) is not None:
                if link in self.log_requests.everybody(type_id):
                    progress.newcomers.add(link)
                if progress.newcomers or progress.is_cut:
                    log.look_for(type_id)

    def begin_due(self, turn: Turn) -> None:
        """Begin the rounds that are due."""
        of_interest = self._of_interest()
        for type_id, progress in list(self.recording.progress.items()):
            at = progress.next_at
            if progress.round is None and at is not None and at <= turn.now and type_id in of_interest:
                self._begin(type_id, turn)

    def go_on(self, turn: Turn) -> None:
        """Ask for more once what was fetched is safe: the disk says how fast a broker catches up."""
        for type_id, progress in self.recording.progress.items():
            under_way = progress.round
            at = None if under_way is None else under_way.resumes_at
            if under_way is not None and at is not None and at <= self.recording.upto:
                before, under_way.resumes_at = under_way.request, None
                under_way.request = again = self._ask(type_id, progress, turn)
                again.is_whole, again.is_refused = before.is_whole, before.is_refused
                again.settled, again.is_doubted = before.settled, before.is_doubted
                again.is_awaited, again.is_short = before.is_awaited, before.is_short
                self.log_requests.answer_if_all_have(again, turn)

    def _of_interest(self) -> set[bytes]:
        return self.recording.own_types() | self.durable.types()

    def _begin(self, type_id: bytes, turn: Turn, *, is_fresh: bool = False) -> None:
        """Compare what is recorded of a type with the logs of the brokers that it comes from."""
        log, now = self.recording, turn.now
        if not log.records(type_id):
            return
        is_new = type_id not in log.progress
        progress = log.progress_of(type_id, now)
        if is_new:
            # After a restart it is known since when something may have been missed.
            log.keep_progress(turn)
        if progress.round is not None:
            progress.round.is_repeated = True
            return
        progress.next_at, progress.compared = None, progress.recorded.scattered
        if self.blinded.is_blinded(type_id):
            # What travels in an envelope is not handed out again.
            was_cut, progress.is_cut = progress.is_cut, False
            if was_cut:
                self._report_missed(type_id, Unavailable("UNAVAILABLE-LOG-NOT-FETCHED", _BLINDED), turn)
        elif not self._targets(type_id, progress):
            self._record_held(type_id, progress, turn, is_patient=True)
            self._due(progress, seconds_after(now, _RETRY_S if progress.held else EVERY_S))
        else:
            is_missing = self.recording.takes_all(type_id) and any(progress.missing())
            if not (is_missing and progress.is_interrupted):
                progress.asked = dict(progress.whole if is_missing else progress.places)
            progress.round = Round(self._ask(type_id, progress, turn), now)
            progress.has_news = False
            if is_fresh and (flooding := self.router.flooding) is not None:
                # Where interests take a while to spread, those that do not know of it yet are asked again.
                progress.round.again_at = seconds_after(now, flooding.question_wait_s)

    def _ask(self, type_id: bytes, progress: Progress, turn: Turn) -> FetchRequest:
        places = list(progress.asked.values())[-PLACES_MAX:]
        reached = [place for one, place in progress.places.items() if progress.asked.get(one) != place]
        about = self.own.random(16), type_id, int(progress.since), places, progress.runs()
        missing = self._missing(type_id, progress)
        classes = self.log_requests.classes_here(type_id)
        message = FetchLog(*about, classes, missing, reached[-PLACES_MAX:])
        return self.log_requests.ask(message, self, self._targets(type_id, progress), turn)

    def _missing(self, type_id: bytes, progress: Progress) -> list[RecordedRun]:
        """Return what is missing in the log, and before what is held."""
        if not self.recording.takes_all(type_id):
            return []
        return list(islice(progress.missing(), MISSING_SENT))

    def _targets(self, type_id: bytes, progress: Progress) -> list[LinkId]:
        """Return whom to ask: those from whom a type comes, in doubt whoever may have recorded some of it.

        Whoever still works on an earlier answer is not asked again.
        """
        requests, link_to = self.log_requests, self.routes.link_to
        found = {*requests.targets(type_id), *progress.newcomers}
        is_missing = self.recording.takes_all(type_id) and any(progress.missing())
        if progress.is_cut or is_missing or (progress.has_news and not found):
            recorders = (
                link_to(node_id_of_key(broker)) for broker in (*progress.places, *progress.recorders)
            )
            found.update(link for link in recorders if link is not None)
            found.update(requests.everybody(type_id))
        return sorted(found - requests.awaited(type_id))

    def receive_answers(self, request: FetchRequest, turn: Turn) -> None:
        """Record what came in answer to one request, and ask for more if there is more."""
        log, type_id = self.recording, request.message.type_id
        progress = log.progress[type_id]
        under_way = progress.round
        assert under_way is not None  # noqa: S101 - it ends with its last request
        if _lacks_rest(progress, under_way, request.frames, turn.now):
            self._end_round(type_id, progress, under_way, turn, is_answered=False)
            return
        first = log.next_position
        for frame in _in_order(request.frames):
            if self._record(progress, frame, turn, is_less=under_way.lacks_rest_of(frame, progress)):
                turn.count("maia_catch_up_frames_total")
        log.note_fetched(first)
        if not self._follow(type_id, progress, request, turn):
            self._end_round(type_id, progress, under_way, turn, is_answered=not request.is_refused)
        else:
            under_way.resumes_at = log.next_position - 1  # the disk takes as long as it takes
            self.go_on(turn)

    def _follow(self, type_id: bytes, progress: Progress, request: FetchRequest, turn: Turn) -> bool:
        """Take note of up to where brokers have looked, and of what they have lost; say if one has more.

        Once for each: the next request names the new place.
        """
        before = dict(progress.places)
        is_more = progress.follow(request.places)
        if any(one in before and before[one] != progress.places[one] for one in request.put_back):
            self._report_missed(type_id, Unavailable("UNAVAILABLE-LOG-LOST", _PUT_BACK), turn)
            self.recording.keep_progress(turn)
        return is_more

    def receive_late(self, request: FetchRequest, turn: Turn) -> None:
        """Record what came from one that took longer than a round waits, and ask on behind it."""
        log, type_id = self.recording, request.message.type_id
        progress, first = log.progress[type_id], log.next_position
        for frame in _in_order(request.frames):
            if self._record(progress, frame, turn):
                turn.count("maia_catch_up_frames_total")
        log.note_fetched(first)
        self._follow(type_id, progress, request, turn)
        request.frames, request.places, request.put_back = [], {}, set()
        self._due(progress, seconds_after(turn.now, _RETRY_S))

    def _end_round(
        self, type_id: bytes, progress: Progress, under_way: Round, turn: Turn, *, is_answered: bool
    ) -> None:
        """Record what waited for a round, and report what no broker has; or let it wait for the next."""
        progress.round, now, places = None, turn.now, under_way.request.places
        # A recorder that was there before, or any, has to answer before a gap counts as one.
        is_awaited = under_way.request.is_awaited
        recorders = progress.places.keys() | progress.recorders
        is_silent = bool(recorders - places.keys()) or not places or is_awaited
        is_short = under_way.request.is_short
        self._settle(type_id, progress, under_way.request, turn, is_answered=is_answered)
        # A right that pauses for some seconds again and again would never see the end of a long log.
        progress.is_interrupted = not is_answered and not under_way.request.is_doubted
        if is_answered:
            is_unrecorded = not under_way.request.is_whole and not is_short
            if progress.is_cut and is_unrecorded and not progress.has_hole:
                self._report_missed(type_id, Unavailable("UNAVAILABLE-LOG-NOT-FETCHED", _UNRECORDED), turn)
            progress.is_cut = is_short or (is_silent and (bool(recorders) or is_awaited))
            progress.newcomers -= under_way.request.asked
        is_patient = (
            not is_answered
            or (is_silent and self.recording.takes_all(type_id) and progress.holds_gap())
            or _lacks_rest(progress, under_way, progress.held, now)
        )
        asked = under_way.request.message.missing if is_answered else None
        self._record_held(type_id, progress, turn, is_patient=is_patient, asked=asked)
        if under_way.is_repeated or (progress.is_over and is_answered):
            progress.is_over = False
            self._begin(type_id, turn)
            return
        is_missing = self.recording.takes_all(type_id) and any(progress.missing())
        if is_answered and not is_missing:
            progress.whole = dict(progress.places)
            if not progress.is_cut:
                progress.whole_at = under_way.began_at
            progress.heard.clear()
        is_done = is_answered and not progress.is_cut and not progress.held and not is_missing
        progress.pause_s = 0.0 if is_done else min(EVERY_S, max(_RETRY_S, 2 * progress.pause_s))
        pause_s = min(progress.pause_s, _RETRY_S) if progress.held else progress.pause_s
        self._due(progress, seconds_after(now, pause_s or EVERY_S))
        if under_way.again_at is not None:
            self._due(progress, under_way.again_at)

    def _record_held(
        self,
        type_id: bytes,
        progress: Progress,
        turn: Turn,
        *,
        is_patient: bool,
        asked: Collection[RecordedRun] | None = None,
    ) -> None:
        """Record what is held, unless something that is missing before it may still come."""
        if is_patient and progress.is_patient(turn.now):
            return
        for frame in _in_order(progress.take_held()):
            is_less = is_patient and bool(signer_of(frame)) and progress.lacks_rest_of(frame)
            self._record(progress, frame, turn, is_less=is_less)
        self._report_missing(type_id, progress, turn, asked)

    def _settle(
        self, type_id: bytes, progress: Progress, request: FetchRequest, turn: Turn, *, is_answered: bool
    ) -> None:
        """Give up what will never come; what is not in a log any more is reported before.

        A signer speaks for its streams, whatever others have not answered, or have in part alone.
        """
        if request.is_doubted or request.is_awaited:
            return
        is_whole_round = is_answered and not request.is_short
        answers = {broker: runs for broker, runs in request.settled.items() if broker in request.places}
        if not request.is_whole and (is_whole_round or answers):
            self._report_missing(type_id, progress, turn)
        progress.settle(answers, signers_only=not is_whole_round)
        if is_whole_round and not progress.places:
            # Nobody records it beside this broker: where streams began before, nobody can say.
            for one in self._missing(type_id, progress):
                if not one.first:
                    progress.settled.remember_span(one.publisher, one.stream, 0, one.last)

    def _report_missing(
        self, type_id: bytes, progress: Progress, turn: Turn, asked: Collection[RecordedRun] | None = None
    ) -> None:
        """Report what is missing; of streams that begin with a hole, what others were `asked` about.

        Most often those have begun before this broker recorded them, which their brokers say.
        """
        numbers: list[RecordedRun] = []
        if self.recording.takes_all(type_id):
            numbers = progress.newly_missing(None if progress.has_hole else asked)
        if progress.has_hole or numbers:
            progress.has_hole = False
            problem = Unavailable("UNAVAILABLE-LOG-GAP", _hole(numbers))
            self._report_missed(type_id, problem, turn, count=_count(numbers))
            self.recording.keep_progress(turn)

    def _due(self, progress: Progress, at: Instant) -> None:
        if progress.next_at is None or progress.next_at > at:
            progress.next_at = at
            self.timers.add(FetchMissed(), at)

    def _report_missed(self, type_id: bytes, problem: MaiaError, turn: Turn, *, count: int = 0) -> None:
        """Report at every durable subscription of a type what no broker has."""
        self.durable.note_gap(type_id, problem, turn)
        turn.note("events-missed", type=type_id.hex(), code=problem.code, missing=count)
        turn.count("maia_catch_up_missed_total", code=problem.code)


def _count(missing: Iterable[RecordedRun]) -> int:
    return sum(one.last - one.first + 1 for one in missing)


def _hole(missing: Collection[RecordedRun]) -> str:
    """Return what to say of numbers that are missing."""
    if not missing:
        return _HOLE
    runs = [f"{one.first} to {one.last} of stream {one.stream.hex()[:8]}" for one in missing]
    more = f" and {len(runs) - _NAMED_MAX} runs more" if len(runs) > _NAMED_MAX else ""
    named = ", ".join(runs[:_NAMED_MAX])
    return f"{_HOLE}{NUMBERS}{_count(missing)} publications, {named}{more}; asked for again"


def _lacks_rest(progress: Progress, under_way: Round, frames: Iterable[Recorded], now: Instant) -> bool:
    """Return whether frames came in part, and brokers that have all of them have not answered.

    Brokers record what they were sent, for readers of their own and those behind them.
    """
    found = {key[:2] for key in map(identity_of, under_way.request.frames) if key[2] == ALL_ROWS}
    if all(identity_of(one)[:2] in found or not under_way.lacks_rest_of(one, progress) for one in frames):
        return False
    progress.held_since = progress.held_since or now
    return progress.is_patient(now)


def _in_order(frames: Collection[Recorded]) -> list[Recorded]:
    """Return frames with those of each stream in the order of their numbers, whichever broker sent them.

    Of several copies, one that is whole comes first: then nothing of the others is new.
    """
    streams: dict[StreamId, deque[Recorded]] = {}
    for frame in sorted(frames, key=lambda one: (one.sequence, identity_of(one)[2] != ALL_ROWS)):
        streams.setdefault(identity_of(frame)[0], deque()).append(frame)
    return [streams[identity_of(frame)[0]].popleft() for frame in frames]
