"""What does a durable subscription get next, and from where?

There is one order: the positions of the event log. A subscription that is far
behind is served from the disk, one that has caught up from memory, and both
read the same numbers, so that nothing is left out or doubled where one turns
into the other. What is delivered is what the View decided now shows of it. At
most so much is under way that was not acknowledged; the rest waits in the log.
"""

from __future__ import annotations

from typing import Final

from maia.broker.durable.cursors import Cursor
from maia.broker.durable.log_state import Recording
from maia.broker.durable.recorded_frames import KeysAwaited, Readable, SignerAwaited, read_logged
from maia.broker.refusals import LogKeysGone, LogRemoved, LogUnreadable
from maia.broker.routing.routes import unseen_by
from maia.broker.sessions.links import Subscription
from maia.broker.state import BrokerState, seconds_after
from maia.broker.timers import CatchUp
from maia.errors import MaiaError
from maia.events import Instant
from maia.wire.codec import encode, encode_known, sendable_text
from maia.wire.effects import Count, Effect, LinkId, Logged, LogRead, ReadLog, Send
from maia.wire.messages import DeliverLogged, Missed

__all__ = ["advance", "advance_link", "hear_log_read", "hear_recorded"]

_READ_BYTES: Final = 4 << 20
_LOOK_AGAIN_S: Final = 0.5


# ------------------------------------------------------------ what happens


def hear_recorded(state: BrokerState, upto: int, now: Instant) -> list[Effect]:
    """Answer whoever waited for frames to be safe, and let durable subscriptions have them."""
    log = state.recording
    if log is None:
        return []
    effects = log.made_safe(upto)
    for cursor in log.cursors.values():
        if cursor.is_attached:
            effects += advance(state, cursor, now)
    return effects


def hear_log_read(state: BrokerState, found: LogRead, now: Instant) -> list[Effect]:
    """Deliver what was read, as far as there is room; the rest is read again."""
    log = state.recording
    cursor = None if log is None else log.reads.pop(found.read, None)
    entry = None if cursor is None else _holder(state, cursor)
    if cursor is None or entry is None or cursor.reading != found.read:
        return []
    cursor.reading = None
    effects = [*_removed(cursor, entry, found), *_taken_from_disk(state, cursor, entry, found, now)]
    if found.problem is None:
        # What waits is looked at again in a while; to read it again at once would never end.
        return effects if cursor.waits_since is not None else [*effects, *advance(state, cursor, now)]
    cursor.is_stuck = True
    damaged = LogUnreadable(f"the event log cannot be read from here on [{found.problem}]")
    return [*effects, _missed(entry, cursor.next, cursor.next, damaged)]


def advance_link(state: BrokerState, link: LinkId, now: Instant) -> list[Effect]:
    """Let the durable subscriptions of a link go on that waited for somebody's certificates."""
    cursors = [] if state.recording is None else list(state.recording.cursors.values())
    held = [cursor for cursor in cursors if cursor.holder is not None and cursor.holder[0] == link]
    return [effect for cursor in held for effect in advance(state, cursor, now)]


def advance(state: BrokerState, cursor: Cursor, now: Instant) -> list[Effect]:
    """Deliver what is safe and not delivered yet, as far as there is room; ask the disk for what is older."""
    log, entry = state.recording, _holder(state, cursor)
    if log is None or entry is None or cursor.reading is not None or cursor.is_stuck:
        return []
    if cursor.next > log.upto:
        _let_go_of_old_keys(state, log, cursor.type_id)
        return []
    if not _has_room(state, cursor):
        return []
    if not log.in_tail(cursor.next):
        return [_asked(state, log, cursor)]
    return _taken_from_memory(state, log, cursor, entry, now)


# ------------------------------------------------------------ one after the other


def _taken_from_disk(
    state: BrokerState, cursor: Cursor, entry: Subscription, found: LogRead, now: Instant
) -> list[Effect]:
    effects: list[Effect] = []
    for logged in found.frames:
        if logged.position < cursor.next:
            continue
        if not _has_room(state, cursor):
            break
        effects += _taken(state, cursor, entry, logged, now)
        if cursor.next <= logged.position:
            break  # it waits
    else:
        cursor.next = max(cursor.next, found.upto + 1)
    cursor.passed()
    return effects


def _taken_from_memory(
    state: BrokerState, log: Recording, cursor: Cursor, entry: Subscription, now: Instant
) -> list[Effect]:
    effects: list[Effect] = []
    oldest = log.tail[0][1].position
    for position in range(cursor.next, log.upto + 1):
        type_id, logged = log.tail[position - oldest]
        if type_id != cursor.type_id:
            cursor.next = position + 1
            continue
        if not _has_room(state, cursor):
            break
        effects += _taken(state, cursor, entry, logged, now)
        if cursor.next <= position:
            break  # it waits
    cursor.passed()
    return effects


def _taken(
    state: BrokerState, cursor: Cursor, entry: Subscription, logged: Logged, now: Instant
) -> list[Effect]:
    """Deliver one frame, if there is something in it for its reader, or let it wait where it is."""
    found = read_logged(state, logged)
    if isinstance(found, SignerAwaited):
        if not _note_waiting(state, cursor, now):
            asked = state.keys.ask_for_writer(cursor.type_id, found.signer, now)
            return [*asked, *_look_again(state, entry, now)]
        found = LogUnreadable("nobody has told who signed it, so it was not delivered")
    if isinstance(found, KeysAwaited):
        if not _note_waiting(state, cursor, now):
            asked = state.keys.ask_for_past(cursor.type_id, found.epoch, now)
            return [*asked, *_look_again(state, entry, now)]
        found = LogKeysGone("its keys are not held any more, and their manager does not answer")
    cursor.next, cursor.waits_since = logged.position + 1, None
    if isinstance(found, MaiaError):
        refused = Count("maia_frames_refused_total", labels={"code": found.code})
        return [refused, _missed(entry, logged.position, logged.position, found)]
    transit = found.transit
    if not cursor.order.admit(transit.publisher.key, transit.stream, transit.sequence, found.signer):
        return [Count("maia_late_frames_total")]
    unseen = unseen_by(cursor.rows, transit)
    data = None if unseen is None else _shown(state, entry, logged, Readable(unseen, found.missing))
    if data is None:
        return []
    cursor.delivered(logged.position, len(data))
    return [Send(entry.link, data)]


def _shown(state: BrokerState, entry: Subscription, logged: Logged, found: Readable) -> bytes | None:
    """Return what its reader sees of a frame; None for nothing."""
    view_class = state.audiences[entry.right.event_type.type_id].classes[entry.view_class]
    transit, seen = found.transit, view_class.seen_of(found.transit, found.missing)
    if seen is None:
        return None
    return encode_known(
        DeliverLogged(
            entry.ref,
            logged.position,
            transit.publisher.key,
            transit.stream,
            transit.sequence,
            transit.published_at,
            seen.rows,
            seen.columns,
        )
    )


# ------------------------------------------------------------ small change


def _let_go_of_old_keys(state: BrokerState, log: Recording, type_id: bytes) -> None:
    """Destroy keys of the past, if nobody who is here is behind any more."""
    here = (one for one in log.cursors.values() if one.is_attached and one.type_id == type_id)
    if all(one.next > log.upto for one in here):
        state.keys.member.past.forget(type_id)


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


def _asked(state: BrokerState, log: Recording, cursor: Cursor) -> Effect:
    log.last_read += 1
    cursor.reading = log.last_read
    log.reads[log.last_read] = cursor
    room = state.settings.limits.durable_frames_under_way - len(cursor.under_way)
    return ReadLog(log.last_read, cursor.type_id, cursor.next, log.upto, room, _READ_BYTES)


def _removed(cursor: Cursor, entry: Subscription, found: LogRead) -> list[Effect]:
    """Say what retention has taken meanwhile; what was read just before is still delivered."""
    last = min([found.removed_upto, *(frame.position - 1 for frame in found.frames[:1])])
    if last < cursor.next:
        return []
    first, cursor.next = cursor.next, last + 1
    return [_missed(entry, first, last, LogRemoved("it was longer ago than the event log goes back"))]


def _missed(entry: Subscription, first: int, last: int, problem: MaiaError) -> Effect:
    text = sendable_text(problem.message)
    return Send(entry.link, encode(Missed(entry.ref, first, last, problem.code, text)))


def _note_waiting(state: BrokerState, cursor: Cursor, now: Instant) -> bool:
    if cursor.waits_since is None:
        cursor.waits_since = now
    return seconds_after(cursor.waits_since, state.settings.limits.wait_for_keys_s) < now


def _look_again(state: BrokerState, entry: Subscription, now: Instant) -> list[Effect]:
    state.timers.add(CatchUp(entry.link), seconds_after(now, _LOOK_AGAIN_S))
    return []
