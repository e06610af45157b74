"""What has a durable subscriber had, and does it want any more?

An acknowledgement is on disk before the broker says anything else, so that
what was acknowledged never comes again. To forget a durable subscription ends
it and its cursor; to end it alone leaves the cursor for the next time.
"""

from __future__ import annotations

from maia.broker.durable.cursors import forgotten, kept
from maia.broker.durable.delivery import advance
from maia.broker.refusals import UnknownRef
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.broker.subscriptions.removal import end_subscription
from maia.events import Instant
from maia.wire.codec import encode
from maia.wire.effects import Effect, Send
from maia.wire.messages import Accepted, ForgetDurable, Seen

__all__ = ["forget_durable", "hear_seen"]


def hear_seen(state: BrokerState, link: Link, message: Seen, now: Instant) -> list[Effect]:
    """Move a cursor up to what its owner has had, and deliver what there is room for now."""
    entry = link.subscriptions.get(message.ref)
    if entry is None or entry.cursor is None:
        return []  # it has ended meanwhile, or has none to move
    if entry.cursor.acknowledge(message.position):
        state.to_keep.append(kept(entry.cursor))
    return advance(state, entry.cursor, now)


def forget_durable(state: BrokerState, link: Link, message: ForgetDurable, now: Instant) -> list[Effect]:
    """End a durable subscription and forget its cursor."""
    state.one_time.drop(link.id, message.ref)
    entry = link.subscription(message.ref)
    cursor, log = entry.cursor, state.recording
    if cursor is None or log is None:
        raise UnknownRef(f"nothing durable is subscribed to under `{message.ref}` on this link")
    ended = end_subscription(state, link, entry, now)
    del log.cursors[cursor.owner, cursor.name]
    state.to_keep.append(forgotten(cursor))
    return [*ended, Send(link.id, encode(Accepted(message.id, None)))]
