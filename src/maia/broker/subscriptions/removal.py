"""What goes when subscriptions end: at their holder's wish, with their right, their lease or their link?

Their references, their places among those who see the same, and whatever
other brokers were told on their behalf. Subscriptions that end together are
taken back at one moment: no broker is told of one in the place of another
that goes as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from maia.broker.durable.cursors import Cursor, kept
from maia.broker.routing.interests import classes_gone, standing_changed
from maia.broker.sessions.links import Link, Subscription
from maia.broker.state import BrokerState, Rest
from maia.errors import MaiaError
from maia.events import Instant
from maia.wire.codec import decode, encode, encode_known
from maia.wire.effects import Count, Effect, Send
from maia.wire.messages import Ended

__all__ = ["end_subscription", "end_subscriptions", "let_go", "let_subscriptions_fall", "told_of_end"]


def end_subscription(
    state: BrokerState, link: Link, entry: Subscription, now: Instant, problem: MaiaError | None = None
) -> list[Effect]:
    """Take a subscription back, here and elsewhere; tell its holder if it did not ask for that."""
    return [*told_of_end(link, entry.ref, problem), *end_subscriptions(state, link, (entry,), now)]


def end_subscriptions(
    state: BrokerState, link: Link, entries: Iterable[Subscription], now: Instant
) -> list[Effect]:
    """Take subscriptions of one link back, here and elsewhere; their holder asked for that, or is gone."""
    return _told_elsewhere(state, _taken_out(state, link, entries), now)


def let_subscriptions_fall(
    state: BrokerState, link: Link, entries: Sequence[Subscription], now: Instant, problem: MaiaError
) -> list[Effect]:
    """Take subscriptions of one link back for one reason, and tell their holder; others hear of it next."""
    left = _taken_out(state, link, entries)
    state.rest.append(Rest(link.id, lambda: _told_elsewhere(state, left, now)))
    return told_of_ends(link, [entry.ref for entry in entries], problem)


@dataclass(frozen=True, slots=True)
class _Left:
    """What subscriptions that ended have left behind."""

    gone: dict[bytes, list[bytes]] = field(default_factory=dict)
    """Classes without members, by type."""
    stood_for: dict[tuple[bytes, bytes], None] = field(default_factory=dict)
    """Types and classes of which others were told on behalf of one of them, and that have other members."""


def _taken_out(state: BrokerState, link: Link, entries: Iterable[Subscription]) -> _Left:
    """Take subscriptions out of their classes: nothing is delivered to them from here on."""
    left = _Left()
    for entry in entries:
        del link.subscriptions[entry.ref]
        link.warned.pop(entry.ref, None)
        state.one_time.drop(link.id, entry.ref)
        if entry.cursor is not None:
            let_go(state, entry.cursor)
        type_id, member = entry.right.event_type.type_id, (link.id, entry.ref)
        audience = state.audiences[type_id]
        stood = audience.stands_for(entry.view_class, member)
        if audience.leave(entry.view_class, member):
            left.gone.setdefault(type_id, []).append(entry.view_class)
        elif stood:
            left.stood_for[type_id, entry.view_class] = None
    for type_id in left.gone:
        if not state.audiences[type_id].classes:
            del state.audiences[type_id]
    return left


def _told_elsewhere(state: BrokerState, left: _Left, now: Instant) -> list[Effect]:
    """Tell other brokers what is not wanted any more, and what is wanted on behalf of somebody else."""
    effects: list[Effect] = []
    restated = list(left.stood_for)
    for type_id, classes in left.gone.items():
        # One that was left may have been joined again meanwhile, by somebody whose right is another now.
        gone = [one for one in classes if not _is_here(state, type_id, one)]
        restated += [(type_id, one) for one in classes if _is_here(state, type_id, one)]
        effects += classes_gone(state, type_id, gone, now)
    for type_id, view_class in restated:
        if _is_here(state, type_id, view_class):
            effects += standing_changed(state, type_id, view_class, now)
    return effects


def _is_here(state: BrokerState, type_id: bytes, view_class: bytes) -> bool:
    audience = state.audiences.get(type_id)
    return audience is not None and view_class in audience.classes


def let_go(state: BrokerState, cursor: Cursor) -> None:
    """Keep how far a durable subscription has come, also past what was nothing for its owner."""
    cursor.detach()
    if cursor.seen > cursor.kept_seen:
        state.to_keep.append(kept(cursor))


def told_of_end(link: Link, ref: int, problem: MaiaError | None) -> list[Effect]:
    """Tell the holder of a reference why it ended, unless it asked for that."""
    return [] if problem is None else told_of_ends(link, [ref], problem)


def told_of_ends(link: Link, refs: Sequence[int], problem: MaiaError) -> list[Effect]:
    """Tell the holder of references why they ended, all for one reason."""
    if not refs:
        return []
    # What is said of the first is checked, and then said of the others: somebody waits for the last of them.
    first = encode(Ended(refs[0], problem.code, problem.message))
    said = decode(first)
    assert isinstance(said, Ended)  # noqa: S101 - made a line above
    others = [encode_known(replace(said, ref=ref)) for ref in refs[1:]]
    told = [Send(link.id, data) for data in (first, *others)]
    return [*told, Count("maia_ended_total", len(refs), labels={"code": problem.code})]
