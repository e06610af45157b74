"""Whose cursor is this, and may there be another one?

A durable subscription is named by its owner. The name means nothing without
the key that the link has proved: nobody can use, move or even find another
principal's cursor (A69). Cursors are bounded in number, for all and for each.
"""

from __future__ import annotations

from maia.broker.durable.cursors import Cursor, kept
from maia.broker.durable.log_state import Recording
from maia.broker.durable.log_writer import is_recorded
from maia.broker.refusals import CursorAhead, CursorOfAnotherType, NotRecorded, TooManyCursors
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.wire.messages import SubscribeDurable

__all__ = ["cursor_for"]


def cursor_for(state: BrokerState, link: Link, message: SubscribeDurable, type_id: bytes) -> Cursor:
    """Return the cursor that a permitted request names, a new one at the end of the log if there is none."""
    log = state.recording
    if log is None or not is_recorded(state, type_id):
        raise NotRecorded("this broker does not record the type, so nothing of it could be delivered later")
    owner = link.peer.key
    known = log.cursors.get((owner, message.name))
    if known is None:
        _check_room(state, log, owner)
        # Up to what is safe, and no further: a crash may give the positions behind it to other frames.
        known = log.cursors[owner, message.name] = Cursor(owner, message.name, type_id, log.upto)
        state.to_keep.append(kept(known))
    elif known.type_id != type_id:
        raise CursorOfAnotherType(f"`{message.name}` is the name of your subscription to another type")
    if message.seen is not None and message.seen > log.upto:
        raise CursorAhead(f"you have had {message.seen} frames, and the event log here has {log.upto}")
    return known


def _check_room(state: BrokerState, log: Recording, owner: bytes) -> None:
    limits = state.settings.limits
    if sum(one == owner for one, _ in log.cursors) >= limits.durable_names_per_principal:
        raise TooManyCursors(
            f"a principal has at most {limits.durable_names_per_principal} durable subscriptions: forget one"
        )
    if len(log.cursors) >= limits.durable_names:
        raise TooManyCursors(f"this broker remembers no more than {limits.durable_names} of these")
