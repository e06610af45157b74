"""What did this broker fail to record while it, or a link of it, was down, and who has it?

A recording broker compares its log with those of the others of a type: after a start, when
an interest goes to a neighbour for the first time, when a stream goes on behind a gap in its
numbers, and once in a while. `FetchLog` goes where interests go, from broker to broker. Each
one that records the type answers with frames of its log as they travelled, as far as the
asker's interest in them is registered on the link: what a right of today does not open is not
sent (A109). Answers come back as frames come: from expected sources, proved, and each once.

While a round is under way, what arrives by itself is recorded behind what was missed, so
that a publisher's events keep their order. What is delivered to live subscriptions is not changed:
a round is for the log alone. What no broker has is reported at the durable subscriptions of the type.
See `docs/decisions/catching-up.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from maia.broker.durable.cursors import kept
from maia.broker.durable.progress import PLACES_MAX, FetchRequest, Progress, Round, StreamKey, identity_of
from maia.broker.durable.recording import FetchKey, Recording
from maia.broker.publication.authors import check_signature
from maia.broker.publication.retained import book_keys
from maia.broker.publication.transit import from_carried
from maia.broker.refusals import FrameUnasked, LogGap, LogNotFetched, PlainOfSealed, SealedTooWeakly
from maia.broker.routing.outbox import Proof
from maia.broker.routing.proofs import proved_filter
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.broker.subscriptions.local_subscribers import routed_filter
from maia.broker.timers import FetchMissed
from maia.broker.turn import Turn
from maia.credentials.chains.reduction import BYTES_PER_STEP
from maia.errors import BrokenCredential, MaiaError, ProtocolViolation
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant, seconds_after
from maia.predicates import ALWAYS, Predicate, verdict
from maia.routing.duplicates import ALL_ROWS
from maia.sealing import LEVEL_NUMBERS, read_run, verify
from maia.types import TransitKindMismatch
from maia.wire.codec import decode, decode_recorded, encode, encode_known
from maia.wire.effects import LinkId, Logged, LogRead, ReadLog
from maia.wire.messages import (
    Carried,
    FetchLog,
    LogAnswered,
    LogFetched,
    LogPlace,
    Recorded,
    RecordedRun,
    Sealed,
    Unblinded,
)

ANSWERED_WITHIN_S: Final = 5.0
EVERY_S: Final = 60.0
"""How often a broker compares its log with others without a reason."""
PAGE_BYTES: Final = 1 << 20
"""How many bytes of frames one broker sends in answer to one request, unless the first frame has more."""
_ANSWER_BYTES_MAX: Final = 32 << 20
"""How many bytes the answers to one request may have, all brokers together."""
_READ_FRAMES: Final = 4096
_READ_BYTES: Final = 4 << 20
HELD_BYTES_MAX: Final = 16 << 20
_REQUESTS_OF_A_LINK: Final = 1024
_GAP_EVERY_S: Final = 2.0
_RETRY_S: Final = 2.0
_INTERESTS_MAX: Final = 256
HOLD_S: Final = 30.0
"""How long what arrives waits for what is missing before it, when no broker answers."""


class NotFetched(ProtocolViolation):
    """A peer answered a request for recorded frames with something else, or with more than it may send."""

    code = "PROTOCOL-CATCH-UP"


# ------------------------------------------------------------ what arrives by itself


def record_arrived(state: BrokerState, frame: Recorded, turn: Turn) -> None:
    """Record a frame that came from another broker, behind what was missed before it."""
    log = state.recording
    if log is None or not log.records(frame.type_id):
        return
    progress = log.progress_of(frame.type_id, turn.now)
    if progress.round is None and not progress.held and _waits(log, progress, frame):
        _begin_for_gap(state, frame, progress, turn)
    if log.progress[frame.type_id].round is not None or progress.held:
        _hold(progress, frame, turn)
    else:
        log.record(frame, turn)


def _hold(progress: Progress, frame: Recorded, turn: Turn) -> None:
    size = _size_of(frame)
    if progress.is_over or progress.held_bytes + size > HELD_BYTES_MAX:
        progress.is_over = True
        turn.count("maia_catch_up_overflows_total")
        return
    progress.held.append(frame)
    progress.held_bytes += size
    progress.held_since = progress.held_since or turn.now


def _begin_for_gap(state: BrokerState, frame: Recorded, progress: Progress, turn: Turn) -> None:
    """Look for what is missing before a frame, unless that was in vain a moment ago."""
    again_at = None if progress.gap_at is None else seconds_after(progress.gap_at, _GAP_EVERY_S)
    if again_at is None or again_at <= turn.now:
        progress.gap_at = turn.now
        begin_round(state, frame.type_id, turn)
    else:
        _due(state, progress, again_at)
    if progress.round is None and progress.follows_gap(frame):
        progress.has_hole = progress.has_hole or progress.knows_stream(frame)


def _waits(log: Recording, progress: Progress, frame: Recorded) -> bool:
    """Say whether a frame is recorded behind another one; or whole, in place of the part that came.

    A broker that was cut off carries for others before it is sent all that it wants itself.
    """
    if isinstance(frame, Sealed) and progress.lacks_rest_of(frame):
        return progress.is_cut or _takes_all(log, frame.type_id)
    return _follows_gap(log, progress, frame)


def _follows_gap(log: Recording, progress: Progress, frame: Recorded) -> bool:
    """Say whether a frame is missing before this one, where all frames should come."""
    return progress.follows_gap(frame) and _takes_all(log, frame.type_id)


def _takes_all(log: Recording, type_id: bytes) -> bool:
    """Say whether this broker is sent every event of a type: a restricted right leaves numbers out."""
    own = (one.right for one in log.link.subscriptions.values())
    return any(one.event_type.type_id == type_id and routed_filter(one.view) == ALWAYS for one in own)


# ------------------------------------------------------------ rounds


def begin_due_rounds(state: BrokerState, turn: Turn) -> None:
    """Follow each interest that went to a neighbour for the first time."""
    fresh, state.catch_up.fresh = state.catch_up.fresh, set()
    log = state.recording
    for type_id in [] if log is None else sorted(fresh & _of_interest(log)):
        begin_round(state, type_id, turn, is_fresh=True)


def ask_again_behind(state: BrokerState, link: LinkId) -> None:
    """Take note of a neighbour to which interests spread without being sent one by one."""
    if state.recording is not None:
        for type_id in _of_interest(state.recording):
            state.catch_up.interest_sent(type_id, link)


def _of_interest(log: Recording) -> set[bytes]:
    own = {one.right.event_type.type_id for one in log.link.subscriptions.values()}
    return own | {cursor.type_id for cursor in log.cursors.values()}


def begin_round(state: BrokerState, type_id: bytes, turn: Turn, *, is_fresh: bool = False) -> None:
    """Compare what is recorded of a type with the logs of the brokers that it comes from."""
    log, now = state.recording, turn.now
    if log is None or not log.records(type_id):
        return
    is_new = type_id not in log.progress
    progress = log.progress_of(type_id, now)
    if is_new:
        # After a restart it is known since when something may have been missed.
        log.keep_progress(turn)
    if progress.round is not None:
        progress.round.is_repeated = True
        return
    progress.next_at = None
    if state.blinded.is_blinded(type_id):
        # What travels in an envelope is not handed out again.
        was_cut, progress.is_cut = progress.is_cut, False
        if was_cut:
            report_missed(state, type_id, LogNotFetched(_BLINDED), turn)
        return
    if not _targets(state, type_id):
        _record_behind(state, log, type_id, progress, turn, is_patient=True)
        _due(state, progress, seconds_after(now, _RETRY_S if progress.held else EVERY_S))
        return
    progress.round = Round(seconds_after(now, ANSWERED_WITHIN_S))
    if is_fresh and (wait_s := state.router.question_wait_s):
        # Where interests take a while to spread, those that do not know of it yet are asked again.
        progress.round.again_at = seconds_after(now, wait_s)
    _ask(state, log, type_id, progress.round, turn)


def _ask(state: BrokerState, log: Recording, type_id: bytes, under_way: Round, turn: Turn) -> None:
    progress, links = log.progress[type_id], _targets(state, type_id)
    under_way.request = state.random(16)
    under_way.frames, under_way.places = [], {}
    under_way.until = seconds_after(turn.now, ANSWERED_WITHIN_S)
    places = list(progress.places.values())[-PLACES_MAX:]
    message = FetchLog(under_way.request, type_id, int(progress.since), places, progress.runs())
    request = FetchRequest(message, set(links), under_way.until)
    state.catch_up.requests[message.id, None] = request
    state.catch_up.passed_on[message.id] = None
    state.timers.add(FetchMissed(), under_way.until)
    data = encode(message)
    for link in links:
        turn.send_bytes(link, data)
    if not links:
        _answer_if_all_have(state, (message.id, None), request, turn)


def _targets(state: BrokerState, type_id: bytes, besides: LinkId | None = None) -> list[LinkId]:
    return sorted({one for one in state.router.towards_publishers(book_keys(type_id)) if one != besides})


def go_on_with_rounds(state: BrokerState, turn: Turn) -> None:
    """Ask for more once what was fetched is safe: the disk says how fast a broker catches up."""
    log = state.recording
    if log is None:
        return
    for type_id, progress in log.progress.items():
        under_way = progress.round
        if under_way is not None and under_way.resumes_at and under_way.resumes_at <= log.upto:
            under_way.resumes_at = 0
            _ask(state, log, type_id, under_way, turn)


def _end_page(state: BrokerState, log: Recording, type_id: bytes, request: FetchRequest, turn: Turn) -> None:
    """Record what came in answer to one request, and ask for more if there is more."""
    progress = log.progress[type_id]
    under_way = progress.round
    if under_way is None or under_way.request != request.message.id:
        return
    if _lacks_rest(progress, under_way, under_way.frames, turn.now):
        _end_round(state, log, type_id, progress, turn, is_answered=False)
        return
    under_way.request, first = b"", log.next_position
    for frame in _in_order(under_way.frames):
        is_less = _is_part(frame, progress, under_way)
        is_behind = progress.follows_gap(frame) and progress.knows_stream(frame)
        if (is_less or is_behind) and _takes_all(log, type_id):
            progress.has_hole = True
        if log.record(frame, turn):
            turn.count("maia_catch_up_frames_total")
    log.note_fetched(first)
    under_way.is_whole = under_way.is_whole and request.is_whole
    is_more = False
    for broker, (place, end) in under_way.places.items():
        before = progress.places.get(broker)
        is_on = before is None or before.log != place.log or place.position > before.position
        if not under_way.is_refused:
            progress.places.pop(broker, None)
            progress.places[broker] = place
            is_more = is_more or (is_on and place.position < end)
    while len(progress.places) > PLACES_MAX:
        del progress.places[next(iter(progress.places))]
    if not is_more:
        _end_round(state, log, type_id, progress, turn, is_answered=True)
        return
    under_way.until = Instant(INSTANT_MAX)  # the disk takes as long as it takes
    under_way.resumes_at = log.next_position - 1
    go_on_with_rounds(state, turn)


def _lacks_rest(progress: Progress, under_way: Round, frames: Iterable[Recorded], now: Instant) -> bool:
    """Say whether frames came in part, and brokers that have all of them have not answered.

    Brokers record what they were sent, for readers of their own and those behind them.
    """
    found = {identity_of(frame)[:2] for frame in under_way.frames if identity_of(frame)[2] == ALL_ROWS}
    if not any(_is_part(one, progress, under_way) and identity_of(one)[:2] not in found for one in frames):
        return False
    progress.held_since = progress.held_since or now
    return now < seconds_after(progress.held_since, HOLD_S)


def _is_part(frame: Recorded, progress: Progress, under_way: Round) -> bool:
    """Say whether a broker with more of a frame has not answered: all of a sealed one is at its signer."""
    is_awaited = frame.signer not in under_way.places if isinstance(frame, Sealed) else under_way.is_refused
    return is_awaited and progress.lacks_rest_of(frame)


def _in_order(frames: list[Recorded]) -> list[Recorded]:
    """Return frames with those of each stream in the order of their numbers, whichever broker sent them.

    Of several copies, one that is whole comes first: then nothing of the others is new.
    """
    streams: dict[StreamKey, list[Recorded]] = {}
    for frame in frames:
        streams.setdefault(identity_of(frame)[0], []).append(frame)

    def place(frame: Recorded) -> tuple[int, bool]:
        return frame.sequence, identity_of(frame)[2] != ALL_ROWS

    sorted_ = {key: iter(sorted(found, key=place)) for key, found in streams.items()}
    return [next(sorted_[identity_of(frame)[0]]) for frame in frames]


def _end_round(
    state: BrokerState,
    log: Recording,
    type_id: bytes,
    progress: Progress,
    turn: Turn,
    *,
    is_answered: bool,
) -> None:
    """Record what waited for a round, and report what no broker has; or let it wait for the next round."""
    under_way, progress.round, now = progress.round, None, turn.now
    if under_way is None:
        return
    is_answered = is_answered and not under_way.is_refused
    # A recorder that was there before, or any, has to answer before a gap counts as one.
    is_silent = bool(progress.places.keys() - under_way.places.keys()) or not under_way.places
    if is_answered:
        if progress.is_cut and not under_way.is_whole and not progress.has_hole:
            report_missed(state, type_id, LogNotFetched(_UNRECORDED), turn)
        progress.is_cut = is_silent and bool(progress.places)
    is_patient = (
        not is_answered
        or (is_silent and _takes_all(log, type_id) and progress.holds_gap())
        or _lacks_rest(progress, under_way, progress.held, now)
    )
    _record_behind(state, log, type_id, progress, turn, is_patient=is_patient)
    if under_way.is_repeated or (progress.is_over and is_answered):
        progress.is_over = False
        begin_round(state, type_id, turn)
        return
    is_done = is_answered and not progress.is_cut and not progress.held
    progress.pause_s = 0.0 if is_done else min(EVERY_S, max(_RETRY_S, 2 * progress.pause_s))
    pause_s = min(progress.pause_s, _RETRY_S) if progress.held else progress.pause_s
    _due(state, progress, seconds_after(now, pause_s or EVERY_S))
    if under_way.again_at is not None:
        _due(state, progress, under_way.again_at)


def _record_behind(
    state: BrokerState,
    log: Recording,
    type_id: bytes,
    progress: Progress,
    turn: Turn,
    *,
    is_patient: bool,
) -> None:
    """Record what is held, unless something that is missing before it may still come."""
    since = progress.held_since
    if is_patient and since is not None and turn.now < seconds_after(since, HOLD_S):
        return
    for frame in progress.held:
        is_less = is_patient and isinstance(frame, Sealed) and progress.lacks_rest_of(frame)
        is_behind = progress.follows_gap(frame) and progress.knows_stream(frame)
        if (is_less or is_behind) and _takes_all(log, type_id):
            progress.has_hole = True
        log.record(frame, turn)
    progress.held.clear()
    progress.held_bytes, progress.held_since = 0, None
    if progress.has_hole:
        progress.has_hole = False
        report_missed(state, type_id, LogGap(_HOLE), turn)


def _due(state: BrokerState, progress: Progress, at: Instant) -> None:
    if progress.next_at is None or progress.next_at > at:
        progress.next_at = at
        state.timers.add(FetchMissed(), at)


def look_at_rounds(state: BrokerState, turn: Turn) -> None:
    """Give up what was not answered in time, ask what had to wait, and begin the rounds that are due."""
    now = turn.now
    for key, request in list(state.catch_up.requests.items()):
        if request.until <= now and key[1] is not None:
            _forget_request(state, key)  # the asker gives up, too, and asks again
    log = state.recording
    if log is None:
        return
    of_interest = _of_interest(log)
    for type_id, progress in list(log.progress.items()):
        under_way = progress.round
        if under_way is None:
            if progress.next_at is not None and progress.next_at <= now and type_id in of_interest:
                begin_round(state, type_id, turn)
        elif under_way.until <= now:
            _forget_request(state, (under_way.request, None))
            _give_up(state, log, type_id, turn)


def forget_fetches_of(state: BrokerState, link: LinkId, turn: Turn) -> None:
    """Expect no answer from a link that is gone, and answer nothing to it."""
    catch_up, log = state.catch_up, state.recording
    for type_id, asked in [one for one in catch_up.asked if one[1] == link]:
        catch_up.asked.discard((type_id, asked))
        if log is not None and type_id in log.progress:
            log.progress[type_id].is_cut = True
    for key, request in list(catch_up.requests.items()):
        if key[1] == link or link in request.waits_for:
            _forget_request(state, key)
            if key[1] is None and log is not None:
                _give_up(state, log, request.message.type_id, turn)


def _give_up(state: BrokerState, log: Recording, type_id: bytes, turn: Turn) -> None:
    """End a round without an answer: there will be another one."""
    progress = log.progress[type_id]
    progress.is_cut = True
    _end_round(state, log, type_id, progress, turn, is_answered=False)


# ------------------------------------------------------------ what no broker has


_UNRECORDED: Final = (
    "while this broker was cut off, something may have been published that no broker recorded"
)
_BLINDED: Final = "this broker was cut off, and events of a blinded type are not fetched from others"
_HOLE: Final = "a publisher's numbers leave something out: its broker refused it, or it was lost on the way"


def report_missed(state: BrokerState, type_id: bytes, problem: MaiaError, turn: Turn) -> None:
    """Have every durable subscription of a type get a gap notice where the log is now."""
    log = state.recording
    for cursor in () if log is None else log.cursors.values():
        if cursor.type_id == type_id and log is not None:
            cursor.note_gap(log.next_position - 1, problem.code, problem.message)
            turn.keep(kept(cursor))
            state.catch_up.is_changed = True
    turn.note("events-missed", type=type_id.hex(), code=problem.code)
    turn.count("maia_catch_up_missed_total", code=problem.code)


# ------------------------------------------------------------ requests of other brokers


def receive_fetch_log(state: BrokerState, link: Link, message: FetchLog, turn: Turn) -> None:
    """Answer a neighbour with what is recorded here and behind this broker, as far as it may have it."""
    catch_up, key = state.catch_up, (message.id, link.id)
    of_link = sum(one == link.id for _, one in catch_up.requests)
    if key in catch_up.requests or (message.id, None) in catch_up.requests:
        turn.send(link.id, LogAnswered(message.id, is_whole=True))  # it came round in a circle
        return
    if of_link >= _REQUESTS_OF_A_LINK:
        turn.count("maia_catch_up_dropped_total")  # it asks again in a while
        return
    if state.blinded.is_blinded(message.type_id):
        turn.send(link.id, LogAnswered(message.id, is_whole=False))
        return
    is_first = message.id not in catch_up.known
    links = _targets(state, message.type_id, besides=link.id) if is_first else []
    request = catch_up.requests[key] = FetchRequest(
        message, set(links), seconds_after(turn.now, ANSWERED_WITHIN_S)
    )
    if is_first:
        catch_up.passed_on[message.id] = link.id
        catch_up.known.put(message.id, False)
    state.timers.add(FetchMissed(), request.until)
    for one in links:
        turn.send(one, message)
    log, type_id = state.recording, message.type_id
    if log is None or not log.records(type_id):
        request.is_whole = type_id not in catch_up.published
    elif not catch_up.known.get(message.id) and _interests_behind(state, link.id, type_id, turn.now):
        catch_up.known.put(message.id, True)
        _read_for(state, log, key, request, turn)
    _answer_if_all_have(state, key, request, turn)


def _read_for(state: BrokerState, log: Recording, key: FetchKey, request: FetchRequest, turn: Turn) -> None:
    own = (one for one in request.message.places if one.broker == state.principal.key)
    place = next((one for one in own if one.log == log.id), None)
    oldest = seconds_after(turn.now, -state.settings.limits.catch_up_s)
    request.is_read, request.has_place = True, place is not None
    request.first = 1 if place is None else place.position + 1
    request.since = oldest if place is not None else max(oldest, request.message.since)
    number, since = log.next_read(), INSTANT_MIN if place is not None else request.since
    log.fetches[number] = key
    # What was published before the asker's interest came may be on its way to the disk.
    about = request.message.type_id, request.first, log.next_position - 1
    log.once_safe(ReadLog(number, *about, _READ_FRAMES, _READ_BYTES, int(since)), turn)


def serve_fetch(state: BrokerState, found: LogRead, turn: Turn) -> None:
    """Send a neighbour what was read for it, if it was: frames as they travelled, at most a page of them."""
    log = state.recording
    key = None if log is None else log.fetches.pop(found.read, None)
    request = None if key is None else state.catch_up.requests.get(key)
    if log is None or key is None or request is None or not request.is_read:
        return
    request.is_read = False
    interests = _interests_behind(state, key[1], request.message.type_id, turn.now)
    if interests is None:
        _answer_if_all_have(state, key, request, turn)  # not any more
        return
    work = sum(len(one.data) for one in found.frames) // BYTES_PER_STEP
    state.broker_quota.owe(state.links[key[1]].peer, turn.now, work)
    had = {(run.publisher, run.stream, run.signer): run for run in request.message.recorded}
    frames: list[bytes] = []
    size, upto, is_cut = 0, found.upto, False
    type_id = request.message.type_id
    # What a publisher's broker, or one that is sent everything, has no more of does not exist.
    has_parts = type_id not in state.catch_up.published and not _takes_all(log, type_id)
    is_whole = found.problem is None and not (request.has_place and found.removed_upto >= request.first)
    for logged in found.frames:
        if logged.recorded_at < request.since:
            is_whole = is_whole and not request.has_place
            continue
        frame = _lacked(logged, had)
        if frame is None:
            continue
        data, is_less = _permitted(state, frame, interests)
        is_cut = is_cut or is_less or (has_parts and not isinstance(frame, Sealed) and bool(frame.kept))
        if data is None:
            continue
        if frames and size + len(data) > PAGE_BYTES:
            upto = logged.position - 1
            break
        frames.append(data)
        size += len(data)
    end = upto if found.problem is not None else log.upto
    place = LogPlace(state.principal.key, log.id, upto)
    turn.send(key[1], LogFetched(key[0], place, max(upto, end), is_whole, is_cut, frames))
    turn.count("maia_catch_up_served_total", len(frames))
    _answer_if_all_have(state, key, request, turn)


def _lacked(logged: Logged, had: dict[StreamKey, RecordedRun]) -> Recorded | None:
    """Return a recorded frame; None for what the asker has."""
    try:
        frame = decode_recorded(logged.data)
        stream, number, _ = identity_of(frame)
    except ProtocolViolation:
        return None  # of another version
    run = had.get(stream)
    return None if run is not None and run.first <= number <= run.last else frame


def _permitted(
    state: BrokerState, frame: Recorded, interests: Sequence[Predicate]
) -> tuple[bytes | None, bool]:
    """Return what interests admit of a frame, as it travels, None for nothing; and whether it is less."""
    if isinstance(frame, Sealed):
        return (None, True) if isinstance(frame, Unblinded) else (encode_known(frame), False)
    if state.types.sealing(frame.type_id) is not None:
        return None, True
    if ALWAYS in interests:
        return encode_known(frame), False
    transit = from_carried(frame, {})
    events = enumerate(transit.matched.events())
    rows = [row for row, event in events if any(verdict(one, event) is True for one in interests)]
    data = encode_known(transit.cut(rows).as_carried()) if rows else None
    return data, len(rows) < transit.frame.rows


def _interests_behind(
    state: BrokerState, link: LinkId, type_id: bytes, now: Instant
) -> list[Predicate] | None:
    """Return what is wanted of a type behind a link, as far as it is proved at this moment; None for nothing.

    Sealed frames are for whoever has their keys, so an interest in these is not limited.
    """
    routes = state.routes
    plain, sealed = book_keys(type_id)
    found: list[Predicate] = []
    entries = [
        entry
        for hop in routes.book.hops(plain)
        if routes.link_to(hop) == link
        for entry in routes.book.entries(hop, plain)
    ]
    for entry in sorted(entries, key=lambda one: one.predicate != ALWAYS)[:_INTERESTS_MAX]:
        wanted = entry.predicate
        if isinstance(entry.baggage, Proof):
            try:
                wanted = proved_filter(state, type_id, entry.baggage, wanted, now).filter
            except MaiaError:
                continue  # its right has ended, and the neighbour has not taken it back yet (A109)
        found.append(wanted)
        if wanted == ALWAYS:
            break
    if any(
        routes.book.wanted(hop, sealed) for hop in routes.book.hops(sealed) if routes.link_to(hop) == link
    ):
        found.append(ALWAYS)
    return found or None


# ------------------------------------------------------------ answers


def receive_log_fetched(state: BrokerState, link: Link, message: LogFetched, turn: Turn) -> None:
    """Take in what another broker has recorded, or pass it on to the neighbour that asked for it."""
    catch_up = state.catch_up
    asker = catch_up.passed_on.get(message.id)
    request = catch_up.requests.get((message.id, asker))
    if request is None or link.id not in request.waits_for:
        return  # it was given up
    request.size += sum(map(len, message.frames))
    if request.size > _ANSWER_BYTES_MAX:
        raise NotFetched("the answers to one request for recorded frames are too long")
    request.until = seconds_after(turn.now, ANSWERED_WITHIN_S)
    state.timers.add(FetchMissed(), request.until)
    request.is_whole = request.is_whole and message.is_whole
    message_type, said = request.message.type_id, turn.mark()
    checked, is_refused, is_expected = _checked(state, link, message_type, message.frames, turn)
    if asker is not None:
        if is_refused:
            request.is_whole = False
        interests = _interests_behind(state, asker, message_type, turn.now)
        if not is_expected or interests is None:
            return
        permitted = [_permitted(state, frame, interests) for frame in checked]
        data = [one for one, _ in permitted if one is not None]
        is_cut = message.is_cut or any(is_less for _, is_less in permitted)
        turn.send(asker, LogFetched(message.id, message.place, message.end, message.is_whole, is_cut, data))
        return
    progress = None if state.recording is None else state.recording.progress.get(message_type)
    under_way = None if progress is None else progress.round
    if under_way is None or under_way.request != message.id:
        turn.drop(said)
        return
    under_way.until = request.until
    under_way.is_whole = under_way.is_whole and message.is_whole and not (is_refused and is_expected)
    is_less = message.is_cut and state.recording is not None and _takes_all(state.recording, message_type)
    under_way.is_refused = under_way.is_refused or not is_expected or is_less
    under_way.frames += checked
    under_way.places[message.place.broker] = (message.place, message.end)


def _checked(
    state: BrokerState, link: Link, type_id: bytes, frames: Iterable[bytes], turn: Turn
) -> tuple[list[Carried | Sealed], bool, bool]:
    """Return what may be recorded or passed on, whether any was refused, and whether it was expected at all.

    The checks are those of frames that come by themselves.
    """
    checked: list[Carried | Sealed] = []
    is_refused, is_expected = False, True
    plain, sealed = book_keys(type_id)
    for data in frames:
        frame = decode(data)
        if not isinstance(frame, Carried | Sealed) or frame.type_id != type_id:
            raise NotFetched("a request for recorded frames was answered with something else")
        if not state.router.expects(link, sealed if isinstance(frame, Sealed) else plain, turn.now):
            is_expected = False
            continue
        try:
            _check(state, frame)
        except (BrokenCredential, PlainOfSealed, SealedTooWeakly, TransitKindMismatch) as problem:
            is_refused = True
            turn.count("maia_frames_refused_total", code=problem.code)
        else:
            checked.append(frame)
    if not is_expected:
        turn.count("maia_frames_refused_total", code=FrameUnasked.code)
        return [], True, False
    return checked, is_refused, True


def _check(state: BrokerState, frame: Carried | Sealed) -> None:
    sealing = state.types.sealing(frame.type_id)
    if isinstance(frame, Sealed):
        run = read_run([frame])  # one that contradicts itself ends the link
        if sealing is not None and frame.level < LEVEL_NUMBERS[sealing.level]:
            raise SealedTooWeakly("a frame is sealed less than its type asks for")
        verify(run, state.seals.checks)
        return
    if sealing is not None:
        raise PlainOfSealed("the owner of this type wants it sealed")
    check_signature(from_carried(frame, state.types.kinds(frame.type_id)))


def receive_log_answered(state: BrokerState, link: Link, message: LogAnswered, turn: Turn) -> None:
    """Take note that a neighbour, and those behind it, have sent all they have."""
    key = (message.id, state.catch_up.passed_on.get(message.id))
    request = state.catch_up.requests.get(key)
    if request is None or link.id not in request.waits_for:
        return
    request.waits_for.discard(link.id)
    request.is_whole = request.is_whole and message.is_whole
    _answer_if_all_have(state, key, request, turn)


def _answer_if_all_have(
    state: BrokerState, key: tuple[bytes, LinkId | None], request: FetchRequest, turn: Turn
) -> None:
    if request.waits_for or request.is_read:
        return
    number, asker = key
    _forget_request(state, key)
    if asker is not None:
        turn.send(asker, LogAnswered(number, request.is_whole))
    elif state.recording is not None:
        _end_page(state, state.recording, request.message.type_id, request, turn)


def _forget_request(state: BrokerState, key: tuple[bytes, LinkId | None]) -> None:
    catch_up = state.catch_up
    catch_up.requests.pop(key, None)
    if key[0] in catch_up.passed_on and catch_up.passed_on[key[0]] == key[1]:
        del catch_up.passed_on[key[0]]


def _size_of(frame: Recorded) -> int:
    if isinstance(frame, Sealed):
        return 256 + sum(len(one.sealed) for one in frame.columns)
    return 256 + sum(len(one.data) for one in frame.columns)
