"""What goes when subscriptions end: at their holder's wish, with their right, their lease or their link?

Their references, their places among those who see the same, and whatever
other brokers were told on their behalf. Subscriptions that end together are
taken back at one moment: no broker is told of one in the place of another
that goes as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from maia.broker.cursors import Cursor, kept
from maia.broker.routing_glue import classes_gone, standing_changed
from maia.broker.sessions import Link, Subscription
from maia.broker.state import BrokerState
from maia.errors import MaiaError
from maia.events import Instant
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, Send
from maia.wire.messages import Ended

__all__ = ["end_subscription", "end_subscriptions", "let_go", "told_of_end"]


def end_subscription(
    state: BrokerState, link: Link, entry: Subscription, now: Instant, problem: MaiaError | None = None
) -> list[Effect]:
    """Take a subscription back, here and elsewhere; tell its holder if it did not ask for that."""
    return end_subscriptions(state, link, (entry,), now, problem)


def end_subscriptions(
    state: BrokerState,
    link: Link,
    entries: Iterable[Subscription],
    now: Instant,
    problem: MaiaError | None = None,
) -> list[Effect]:
    """Take subscriptions of one link back, all for one reason."""
    effects: list[Effect] = []
    gone: dict[bytes, list[bytes]] = {}
    stood: dict[tuple[bytes, bytes], None] = {}
    for entry in entries:
        _leave(state, link, entry, gone, stood)
        effects += told_of_end(link, entry.ref, problem)
    for type_id, classes in gone.items():
        if not state.audiences[type_id].classes:
            del state.audiences[type_id]
        effects += classes_gone(state, type_id, classes, now)
    for type_id, view_class in stood:
        audience = state.audiences.get(type_id)
        if audience is not None and view_class in audience.classes:
            effects += standing_changed(state, type_id, view_class, now)
    return effects


def _leave(
    state: BrokerState,
    link: Link,
    entry: Subscription,
    gone: dict[bytes, list[bytes]],
    stood: dict[tuple[bytes, bytes], None],
) -> None:
    """Take a subscription out of its class; note the classes that are gone, and those it stood for."""
    del link.subscriptions[entry.ref]
    state.one_time.drop(link.id, entry.ref)
    if entry.cursor is not None:
        let_go(state, entry.cursor)
    type_id, member = entry.right.event_type.type_id, (link.id, entry.ref)
    audience = state.audiences[type_id]
    stands = audience.stands_for(entry.view_class, member)
    if audience.leave(entry.view_class, member):
        gone.setdefault(type_id, []).append(entry.view_class)
    elif stands:
        stood[type_id, entry.view_class] = None


def let_go(state: BrokerState, cursor: Cursor) -> None:
    """Keep how far a durable subscription has come, also past what was nothing for its owner."""
    cursor.detach()
    if cursor.seen > cursor.kept_seen:
        state.to_keep.append(kept(cursor))


def told_of_end(link: Link, ref: int, problem: MaiaError | None) -> list[Effect]:
    """Tell the holder of a reference why it ended, unless it asked for that."""
    if problem is None:
        return []
    return [
        Send(link.id, encode(Ended(ref, problem.code, problem.message))),
        Count("maia_ended_total", labels={"code": problem.code}),
    ]
