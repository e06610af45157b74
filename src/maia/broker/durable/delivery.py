"""How are durable subscriptions served from the event log?

A durable subscription is named by its owner. The name means nothing without the
key that the link has proved: no principal can use, move or even find another's
cursor (A69). Cursors are bounded in number, for all and for each.

There is one order: the positions of the event log. A subscription that is far
behind is served from the disk, one that has caught up from memory, and both
read the same numbers, so that nothing is left out or doubled where one turns
into the other. What is delivered is what the View decided now shows of it. At
most so much is under way that was not acknowledged; the rest waits in the log.
An acknowledgement is on disk before the broker sends anything else, so that
what was acknowledged never comes again.

Plaintext frames were checked when they were published. A sealed frame is opened
with the keys that are still held, or that the type's key manager hands out again
for an epoch that is over; its proof is checked as if it arrived now. Whether its
signer was entitled is decided for the moment at which it was recorded, because a
right that ended later does not take back what was published under it (A37).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from maia.broker.durable.cursors import CURSOR_KEY_BYTES, Cursor, forgotten, kept
from maia.broker.durable.recording import Recording
from maia.broker.publication.authors import vouched_for
from maia.broker.publication.delivery import put_on_record
from maia.broker.publication.transit import Transit, from_carried
from maia.broker.refusals import (
    CursorAhead,
    CursorOfAnotherType,
    LedgerRequired,
    LogGap,
    LogKeysGone,
    LogRemoved,
    LogUnreadable,
    NotRecorded,
    SignerNotEntitled,
    TooManyCursors,
    UnknownRef,
)
from maia.broker.sealed.answers import spoken_of
from maia.broker.sealed.blinded import reveal
from maia.broker.sealed.publisher_rights import learn_what_is_at_hand
from maia.broker.sessions.links import Link, Subscription
from maia.broker.state import BrokerState, seconds_after
from maia.broker.streams.neighbour import opened_part
from maia.broker.streams.run import unseen_by
from maia.broker.subscriptions.registry import end_subscription
from maia.broker.timers import CatchUp
from maia.broker.turn import Turn
from maia.credentials import Principal
from maia.errors import MaiaError
from maia.events import AttributeUid, Instant
from maia.sealing import EpochKeys, open_run, read_run, verify
from maia.wire.codec import decode_recorded, encode_known, sendable_text
from maia.wire.columns import FrameReader
from maia.wire.effects import LinkId, Logged, LogRead, ReadLog
from maia.wire.messages import (
    Carried,
    DeliverLogged,
    Missed,
    Sealed,
    Seen,
    Unblinded,
    Withdraw,
)


def cursor_for(
    state: BrokerState, link: Link, name: str, seen: bytes | None, type_id: bytes, turn: Turn
) -> Cursor:
    """Return the cursor that a permitted request names, a new one at the end of the log if there is none."""
    log = state.recording
    if log is None or not log.records(type_id):
        raise NotRecorded("this broker does not record the type, so nothing of it could be delivered later")
    owner = link.peer.key
    known = log.cursors.get((owner, name))
    position = None if known is None or seen is None else known.opened(seen)
    if seen is not None and (position is None or position > log.upto):
        raise CursorAhead("you were served from another event log, or from this one before it was put back")
    if known is None:
        limits = state.settings.limits
        most = limits.durable_names_per_principal
        if sum(one == owner for one, _ in log.cursors) >= most:
            raise TooManyCursors(f"a principal has at most {most} durable subscriptions: forget one")
        if len(log.cursors) >= limits.durable_names:
            raise TooManyCursors(f"this broker remembers no more than {limits.durable_names} of these")
        # Up to what is safe, and no further: a crash may give the positions behind it to other frames.
        key = state.random(CURSOR_KEY_BYTES)
        known = log.cursors[owner, name] = Cursor(owner, name, type_id, key, log.upto)
        turn.keep(kept(known))
        state.catch_up.look_for(type_id)
    elif known.type_id != type_id:
        raise CursorOfAnotherType(f"`{name}` is the name of your subscription to another type")
    return known


_READ_BYTES: Final = 4 << 20
_LOOK_AGAIN_S: Final = 0.5


# ------------------------------------------------------------ what happens


def receive_recorded(state: BrokerState, upto: int, turn: Turn) -> None:
    """Answer publishers whose frames are safe now, and let durable subscriptions have these."""
    log = state.recording
    if log is None:
        return
    log.made_safe(upto, turn)
    for cursor in log.cursors.values():
        if cursor.is_attached:
            advance(state, cursor, turn)


def receive_log_read(state: BrokerState, found: LogRead, turn: Turn) -> None:
    """Deliver what was read, as far as there is room; the rest is read again."""
    log = state.recording
    cursor = None if log is None else log.reads.pop(found.read, None)
    entry = None if cursor is None else _holder(state, cursor)
    if cursor is None or entry is None or cursor.reading != found.read:
        return
    cursor.reading = None
    # Retention has taken what is before; what was read just before that is still delivered.
    last = min([found.removed_upto, *(frame.position - 1 for frame in found.frames[:1])])
    if last >= cursor.next:
        cursor.next = last + 1
        removed = LogRemoved("it was longer ago than the event log goes back")
        _tell_missed(entry, cursor, last, removed, turn)
    _take_from_disk(state, cursor, entry, found, turn)
    if found.problem is not None:
        cursor.is_stuck = True
        damaged = LogUnreadable(f"the event log cannot be read from here on [{found.problem}]")
        _tell_missed(entry, cursor, cursor.next, damaged, turn)
    elif cursor.waits_since is None:
        # What waits is tried again in a while; to read it again at once would never end.
        advance(state, cursor, turn)


def advance_link(state: BrokerState, link: LinkId, turn: Turn) -> None:
    """Let the durable subscriptions of a link go on that waited for keys or certificates."""
    cursors = [] if state.recording is None else list(state.recording.cursors.values())
    for cursor in [one for one in cursors if one.holder is not None and one.holder[0] == link]:
        advance(state, cursor, turn)


def advance(state: BrokerState, cursor: Cursor, turn: Turn) -> None:
    """Deliver what is safe and not delivered yet, as far as there is room; ask the disk for what is older."""
    log, entry = state.recording, _holder(state, cursor)
    if log is None or entry is None or cursor.reading is not None or cursor.is_stuck:
        return
    _take_next(state, log, cursor, entry, turn)
    _tell_gaps_before(entry, cursor, cursor.next, turn)


def tell_gaps(state: BrokerState, turn: Turn) -> None:
    """Send gap notices that were added to durable subscriptions to those that have come so far."""
    state.catch_up.is_changed = False
    for cursor in [] if state.recording is None else list(state.recording.cursors.values()):
        if cursor.gaps:
            advance(state, cursor, turn)


def _tell_gaps_before(entry: Subscription, cursor: Cursor, position: int, turn: Turn) -> None:
    """Send the gap notices of a durable subscription that belong before a position."""
    for at, code, text in cursor.take_gaps(position):
        _tell_missed(entry, cursor, at, LogGap(text), turn, code)


def _take_next(state: BrokerState, log: Recording, cursor: Cursor, entry: Subscription, turn: Turn) -> None:
    if cursor.next > log.upto:
        # Keys of the past are destroyed once no cursor that is attached here is behind.
        here = (one for one in log.cursors.values() if one.is_attached and one.type_id == cursor.type_id)
        if all(one.next > log.upto for one in here):
            state.keys.member.past.forget(cursor.type_id)
    elif not _has_room(state, cursor):
        return
    elif log.in_tail(cursor.next):
        _take_from_memory(state, log, cursor, entry, turn)
    else:
        cursor.reading = log.next_read()
        log.reads[cursor.reading] = cursor
        room = state.settings.limits.durable_frames_under_way - len(cursor.under_way)
        turn.add(ReadLog(cursor.reading, cursor.type_id, cursor.next, log.upto, room, _READ_BYTES))


# ------------------------------------------------------------ one after the other


def _take_from_disk(
    state: BrokerState, cursor: Cursor, entry: Subscription, found: LogRead, turn: Turn
) -> None:
    for logged in found.frames:
        if logged.position < cursor.next:
            continue
        if not _has_room(state, cursor):
            break
        _take(state, cursor, entry, logged, turn)
        if cursor.next <= logged.position:
            break  # it waits
    else:
        cursor.next = max(cursor.next, found.upto + 1)
    cursor.passed()


def _take_from_memory(
    state: BrokerState, log: Recording, cursor: Cursor, entry: Subscription, turn: Turn
) -> None:
    oldest = log.tail[0][1].position
    for position in range(cursor.next, log.upto + 1):
        type_id, logged = log.tail[position - oldest]
        if type_id != cursor.type_id:
            cursor.next = position + 1
            continue
        if not _has_room(state, cursor):
            break
        _take(state, cursor, entry, logged, turn)
        if cursor.next <= position:
            break  # it waits
    cursor.passed()


def _take(state: BrokerState, cursor: Cursor, entry: Subscription, logged: Logged, turn: Turn) -> None:
    """Deliver one frame, if there is something in it for its reader, or let it wait where it is."""
    found = read_logged(state, logged)
    if isinstance(found, SignerAwaited):
        if not _note_waiting(state, cursor, turn.now):
            state.keys.ask_for_writer(cursor.type_id, found.signer, turn)
            _look_again(state, entry, turn.now)
            return
        found = LogUnreadable("its signer is not known, so it was not delivered")
    if isinstance(found, KeysAwaited):
        if not _note_waiting(state, cursor, turn.now):
            state.keys.ask_for_past(cursor.type_id, found.epoch, turn)
            _look_again(state, entry, turn.now)
            return
        found = LogKeysGone("its keys are not held any more, and their manager does not answer")
    _tell_gaps_before(entry, cursor, logged.position, turn)
    cursor.next, cursor.waits_since = logged.position + 1, None
    _deliver(state, cursor, entry, logged, found, turn)


def _deliver(
    state: BrokerState,
    cursor: Cursor,
    entry: Subscription,
    logged: Logged,
    found: Readable | MaiaError,
    turn: Turn,
) -> None:
    if isinstance(found, MaiaError):
        turn.count("maia_frames_refused_total", code=found.code)
        _tell_missed(entry, cursor, logged.position, found, turn)
        return
    transit = found.transit
    unseen = unseen_by(cursor.rows, transit)
    is_late = not cursor.order.admit(transit.publisher.key, transit.stream, transit.sequence, found.signer)
    if is_late:
        turn.count("maia_late_frames_total")
    if not state.identities.admits(transit.requires, entry.link, turn.now):
        turn.count("maia_requirements_unmet_total")  # by the statement of this moment
        return
    if unseen is None:
        return
    view_class = state.audiences[entry.right.event_type.type_id].classes[entry.view_class]
    # What its publisher's provider said when it was recorded: the statement has expired since.
    transit = vouched_for(state.attached, unseen, logged.recorded_at)
    seen = view_class.seen_of(transit, found.missing)
    if seen is None:
        return
    if is_late:
        problem = LogGap("an event came behind a later one of its publisher, and was left out")
        _tell_missed(entry, cursor, logged.position, problem, turn)
        return
    try:
        put_on_record(state, entry, transit, seen, turn.now)
    except LedgerRequired as refused:
        _tell_missed(entry, cursor, logged.position, refused, turn)
        return
    about = entry.ref, cursor.sealed(logged.position), *transit.labels, seen.rows, seen.columns
    data = encode_known(DeliverLogged(*about, seen.author))
    cursor.delivered(logged.position, len(data))
    state.delivered.rows += seen.rows
    turn.send_bytes(entry.link, data)


# ------------------------------------------------------------ small change


def _holder(state: BrokerState, cursor: Cursor) -> Subscription | None:
    if cursor.holder is None:
        return None
    number, ref = cursor.holder
    link = state.links.get(number)
    return None if link is None else link.subscriptions.get(ref)


def _has_room(state: BrokerState, cursor: Cursor) -> bool:
    limits = state.settings.limits
    is_short = len(cursor.under_way) < limits.durable_frames_under_way
    # One frame may always be under way, however long it is.
    return is_short and (not cursor.under_way or cursor.bytes_under_way < limits.durable_bytes_under_way)


def _tell_missed(
    entry: Subscription, cursor: Cursor, upto: int, problem: MaiaError, turn: Turn, code: str | None = None
) -> None:
    text = sendable_text(problem.message)
    turn.send(entry.link, Missed(entry.ref, cursor.sealed(upto), code or problem.code, text))


def _note_waiting(state: BrokerState, cursor: Cursor, now: Instant) -> bool:
    if cursor.waits_since is None:
        cursor.waits_since = now
    return seconds_after(cursor.waits_since, state.settings.limits.wait_for_keys_s) < now


def _look_again(state: BrokerState, entry: Subscription, now: Instant) -> None:
    state.timers.add(CatchUp(entry.link), seconds_after(now, _LOOK_AGAIN_S))


def receive_seen(state: BrokerState, link: Link, message: Seen, turn: Turn) -> None:
    """Move a cursor up to what its owner has had, and deliver what there is room for now."""
    entry = link.subscriptions.get(message.ref)
    if entry is None or entry.cursor is None:
        return  # it has ended meanwhile, or has none to move
    position = entry.cursor.opened(message.position)
    if position is not None and entry.cursor.acknowledge(position):
        turn.keep(kept(entry.cursor))
    advance(state, entry.cursor, turn)


def forget_durable(state: BrokerState, link: Link, message: Withdraw, turn: Turn) -> None:
    """End a durable subscription and forget its cursor."""
    entry = link.subscription(message.ref)
    cursor, log = entry.cursor, state.recording
    if cursor is None or log is None:
        raise UnknownRef(f"nothing durable is subscribed to under `{message.ref}` on this link")
    end_subscription(state, link, entry, turn)
    del log.cursors[cursor.owner, cursor.name]
    turn.keep(forgotten(cursor))


@dataclass(frozen=True, slots=True)
class Readable:
    """A recorded frame as far as it can be read here."""

    transit: Transit
    missing: frozenset[AttributeUid] = frozenset()
    signer: bytes = b""
    """Who signed it, entitled to; empty for a plain frame."""


@dataclass(frozen=True, slots=True)
class SignerAwaited:
    """Nothing can be said of a frame before this signer's certificates are known."""

    signer: Principal


@dataclass(frozen=True, slots=True)
class KeysAwaited:
    """Nothing can be said of a frame before its manager says whether we may have its epoch's keys."""

    epoch: int


Outcome: TypeAlias = Readable | SignerAwaited | KeysAwaited | MaiaError


def read_logged(state: BrokerState, logged: Logged) -> Outcome:
    """Return what can be read of a recorded frame, or why nothing can."""
    try:
        message = decode_recorded(logged.data)
        if isinstance(message, Carried):
            return Readable(from_carried(message, state.types.kinds(message.type_id)))
        return _opened(state, message, logged)
    except MaiaError as problem:
        return problem


def _opened(state: BrokerState, frame: Sealed, logged: Logged) -> Outcome:
    keys = state.seals.keys(frame.type_id, frame.epoch)
    found = None if keys is None else _read(state, frame, keys, logged)
    if found is not None:
        return found
    if state.keys.awaits_past(frame.type_id, frame.epoch):
        return KeysAwaited(frame.epoch)
    past = state.keys.member.past.opening(frame.type_id, frame.epoch)
    log, recorded_at = state.recording, int(logged.recorded_at)
    if log is not None and log.was_fetched(logged.position):
        # Recorded elsewhere in its time. Its signer must have been entitled when it was fetched (A50).
        recorded_at = min(recorded_at, frame.published_at)
    if past is not None and past.is_of_its_time(published_at=frame.published_at, recorded_at=recorded_at):
        found = _read(state, frame, past.keys, logged)
    return found or LogKeysGone("the keys of the time at which it was published are not to be had any more")


def _read(state: BrokerState, frame: Sealed, keys: EpochKeys, logged: Logged) -> Outcome | None:
    """Open a frame and prove it; None if these keys open nothing of it."""
    type_id, travelled = frame.type_id, frame
    if isinstance(frame, Unblinded):
        travelled, keys = frame.travelled(), keys.through(frame.blinded_id, frame.id_epoch)
    opened = open_run(verify(read_run([travelled]), state.seals.checks), keys)
    if opened.is_closed:
        return None
    kinds = state.types.kinds(type_id)
    part, missing = opened_part(opened, kinds, FrameReader(None, kinds))
    signer = opened.signer
    if not state.writers.knows(type_id, signer):
        learn_what_is_at_hand(state, type_id, signer)
    uids = spoken_of(state.seals, type_id, missing.union(part.frame.columns))
    may = state.writers.might_write(signer, state.types.versions(type_id), uids, logged.recorded_at)
    if may is None:
        return SignerAwaited(signer)
    if not may:
        return SignerNotEntitled("a frame was signed by a principal that could not publish what is in it")
    said = reveal(part, type_id) if isinstance(frame, Unblinded) else part
    return LogUnreadable("cover was recorded") if said is None else Readable(said, missing, signer.key)
