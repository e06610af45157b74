"""Which frames go to the event log, and who waits for that?

The publication path asks for every frame that it takes on. A frame is
recorded once, as it travels: plaintext types as `Carried`, sealed ones as
`Sealed`, so that recording needs no keys. A publisher of a recorded type is
answered when its frame is safe, if the broker is configured so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from maia.broker.durable.cursors import KEPT_CURSOR, BadCursor, cursor_from_bytes
from maia.broker.durable.cursors import kept as kept_cursor
from maia.broker.durable.log_state import LogAtStart, Recording
from maia.broker.publication.transit import Transit
from maia.broker.sessions.links import Link, Stage
from maia.broker.settings import BrokerSettings
from maia.broker.state import BrokerState
from maia.credentials import Principal
from maia.errors import ProtocolViolation
from maia.events import INSTANT_MIN, Instant
from maia.routing.row_sets import ALL_ROWS, row_set
from maia.sealing import closed_frame
from maia.wire.codec import decode, encode_known
from maia.wire.effects import Count, Effect, Keep, LinkId, Logged, Note, Record
from maia.wire.messages import Carried, Sealed

__all__ = [
    "KEPT_POSITION",
    "OWN_LINK",
    "first_to_reread",
    "is_recorded",
    "keep_once_safe",
    "new_recording",
    "once_recorded",
    "record_frame",
    "record_plain",
    "reload_recording",
]

KEPT_POSITION: Final = "log-position"
OWN_LINK: Final = LinkId(-2)
"""In place of a client's link: this broker's own interest in what it records."""


def new_recording(principal: Principal, settings: BrokerSettings) -> Recording | None:
    """Return an empty log, for a broker that records."""
    if settings.recording is None:
        return None
    long_ago = Instant(INSTANT_MIN)
    own = Link(OWN_LINK, principal, None, Stage.READY, opened_at=long_ago, heard_at=long_ago)
    return Recording(settings.recording, own)


# ------------------------------------------------------------ what is recorded


def is_recorded(state: BrokerState, type_id: bytes) -> bool:
    """Say whether frames of a type are recorded here. A blinded type is not: no log keeps its cover."""
    log = state.recording
    if log is None or state.blinded.is_blinded(type_id):
        return False
    return log.records(type_id, state.types.versions(type_id))


def record_plain(state: BrokerState, transit: Transit, now: Instant) -> list[Effect]:
    """Record a frame of a plaintext type, if its type is recorded."""
    if not is_recorded(state, transit.type_id):
        return []
    return record_frame(state, transit.as_carried(), now)


def record_frame(state: BrokerState, frame: Carried | Sealed, now: Instant) -> list[Effect]:
    """Record a frame as it travels; whoever calls has found that its type is recorded."""
    return [numbered(state, frame.type_id, encode_known(frame), now), Count("maia_recorded_total")]


def numbered(state: BrokerState, type_id: bytes, data: bytes, now: Instant) -> Record:
    """Give a frame its place in the log."""
    log = state.recording
    assert log is not None  # noqa: S101 - asked before
    position = log.next_position
    log.number(type_id, Logged(position, now, data))
    return Record(position, data)


def once_recorded(state: BrokerState, type_id: bytes, answer: Effect) -> list[Effect]:
    """Return an answer to a publisher, or let it wait until all that was taken on before it is safe."""
    log = state.recording
    if log is None or not log.settings.durable or not is_recorded(state, type_id):
        return [answer]
    return log.once_safe(answer)


# ------------------------------------------------------------ across restarts


def keep_once_safe(state: BrokerState, memory: Keep) -> list[Effect]:
    """Keep the memory of publications when all frames that it knows of are safe.

    Otherwise a frame that a crash took could be taken for one that was recorded.
    """
    log = state.recording
    if log is None:
        return [memory]
    # The memory goes first: with the position alone, what lies between would be forgotten.
    position = Keep(KEPT_POSITION, msgspec.msgpack.encode(log.next_position))
    return [effect for one in (memory, position) for effect in log.once_safe(one)]


def first_to_reread(kept: Mapping[str, bytes]) -> int:
    """Return from which position on the log has to be read again at the start."""
    try:
        return max(1, msgspec.msgpack.decode(kept[KEPT_POSITION], type=int))
    except (KeyError, msgspec.MsgspecError):
        return 1


def reload_recording(state: BrokerState, kept: Mapping[str, bytes], log: LogAtStart) -> list[Effect]:
    """Go on behind what the log holds, and recognise what it holds when it is published again."""
    recording = state.recording
    if recording is None:
        return []
    recording.next_position, recording.upto = log.next_position, log.next_position - 1
    for frame in log.recent:
        _recognise(state, frame)
    return [effect for name, data in kept.items() if name.startswith(KEPT_CURSOR)
            for effect in _reload_cursor(recording, name, data)]  # fmt: skip


def _recognise(state: BrokerState, logged: Logged) -> None:
    try:
        frame = decode(logged.data)
        if isinstance(frame, Carried):
            numbers = frame.kept
        elif isinstance(frame, Sealed):
            numbers = list(closed_frame(frame).row_numbers)
        else:
            return
    except ProtocolViolation:
        return  # of another version: nobody will send the same today
    rows = row_set(numbers) if numbers else ALL_ROWS
    # Whether another signer was entitled is not in the log: its frame is recognised if it signs it again.
    unjudged = frame.signer if isinstance(frame, Sealed) and frame.signer != state.principal.key else b""
    state.routes.seen.new_rows(frame.publisher, frame.stream, frame.sequence, rows, unjudged)


def _reload_cursor(recording: Recording, name: str, data: bytes) -> list[Effect]:
    try:
        cursor = cursor_from_bytes(data)
    except BadCursor as problem:
        return [Note("kept-dropped", {"name": name, "code": problem.code}), Keep(name, None)]
    recording.cursors[cursor.owner, cursor.name] = cursor
    if cursor.seen <= recording.upto:
        return []
    # The log is another one, or was put back from a copy: what came after it is not there any more.
    fields = {"cursor": cursor.name, "seen": cursor.seen, "position": recording.upto}
    cursor.seen = recording.upto
    return [Note("cursor-ahead-of-log", fields), kept_cursor(cursor)]
