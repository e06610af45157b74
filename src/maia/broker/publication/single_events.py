"""What does an event go through that its publisher sends by itself, on the shortest way?

The path (`path.py`) says what becomes of any frame, in more than a hundred calls. Most of them find nothing
to do for one plain event: no seal, no topic, no super-type, no statement, no second row. Here are the others,
in one place. What leaves is what leaves on the path, byte by byte and in the same order. Whatever is out of
the ordinary is left to the path, before anything has changed: None says so.

Subscribers and neighbours come first. What they do not wait for is done when their bytes have left: the
answer to the publisher, and the memory of its last event.
"""

from __future__ import annotations

from functools import partial

from maia.broker.publication.publisher_view import SingleEvents
from maia.broker.publication.retained_cache import RetainedFrame
from maia.broker.publication.transit import Transit, written_as
from maia.broker.routing.interests import forward
from maia.broker.sessions.links import Advertisement, Link
from maia.broker.state import BrokerState, Rest
from maia.broker.subscriptions.local_subscribers import Seen, deliveries
from maia.events import Instant
from maia.routing.table.hops import LOCAL
from maia.wire.codec import encode_known
from maia.wire.columns import layout_key, single_event
from maia.wire.effects import Count, Effect, Send
from maia.wire.messages import Carried, Deliver, Publish, Published
from maia.wire.stream_numbers import frame_label, stream_label


def _prepared(state: BrokerState, entry: Advertisement) -> SingleEvents | None:
    """Work out what stays the same; None for what is never taken on here."""
    if state.recording is not None or state.disclosures is not None or not state.router.asks_filters_alone:
        return None
    shaper, right = entry.shaper, entry.right
    is_special = entry.projections or entry.requires or entry.written is not None or right.basis.is_rated
    if is_special or shaper.transform is not None or shaper.root is not None:
        return None
    entry.single = SingleEvents(right, right.event_type, shaper)
    return entry.single


def publish_single(  # noqa: PLR0912 - one call in the place of many
    state: BrokerState, link: Link, message: Publish, now: Instant
) -> list[Effect] | None:
    """Take a frame of one event on as `publish` does; None if that has to."""
    entry = link.advertisements.get(message.ref)
    if entry is None or link.statement:
        return None
    plan, right, last = entry.single, entry.right, entry.last_sequence
    if plan is None or plan.right is not right:
        plan = _prepared(state, entry)
    if plan is None or not state.authoriser.holds(right, now):
        return None
    type_id, sequence, columns = plan.event_type.type_id, message.sequence, message.columns
    is_plain = state.types.is_plain(type_id) and type_id not in state.statements.streams
    if not is_plain or (last is not None and sequence <= last):
        return None
    key = layout_key(columns)
    prepared = plan.layouts.get(key) or plan.new_layout(key)
    if prepared is None:
        return None
    layout, forced = prepared
    for at, only in forced:
        if columns[at].data != only:
            return None
    event, test = single_event(columns, layout), plan.shaper.test
    if event is None or (test is not None and not test(event)):
        return None
    audience, publisher, stream = state.audiences.get(type_id), link.peer.key, entry.stream
    readers = [] if audience is None else audience.readers_of(event)
    if readers is None or not state.routes.seen.take_next(publisher, stream, sequence):
        return None
    # From here on nothing is left to the path any more.
    entry.last_sequence = sequence
    effects: list[Effect] = []
    if audience is not None and not state.routes.order.admit(publisher, stream, sequence):
        effects.append(Count("maia_late_frames_total"))
    elif readers:
        label = frame_label(publisher, stream, sequence)
        labels = publisher, stream_label(publisher, stream), label, message.published_at
        for group in readers:
            shown, uids = columns, group.shown
            if uids is not None and not event.keys() <= uids:
                shown = [column for column in columns if column.uid in uids]
            if group.others is None and group.link is not None:
                effects.append(Send(group.link, encode_known(Deliver([group.ref], *labels, 1, shown))))
            else:
                effects += deliveries(labels, Seen(1, shown, {}), [group.members])
    if state.routes.book.is_wanted(type_id):
        frame, written = layout.frame_of_one(event), written_as(columns)
        whole = Transit(type_id, link.peer, stream, sequence, message.published_at, frame, written=written)
        effects += forward(state, whole, source=None)
    state.rest.append(Rest(link.id, partial(_answered, state, link, message, entry, plan, now)))
    return effects


def _answered(
    state: BrokerState, link: Link, message: Publish, entry: Advertisement, plan: SingleEvents, now: Instant
) -> list[Effect]:
    """Remember an event that was taken on, and answer its publisher."""
    type_id, number, moment = plan.event_type.type_id, message.sequence, message.published_at
    carried = Carried(type_id, link.peer.key, entry.stream, number, moment, 1, [], message.columns)
    state.retained.remember(RetainedFrame(carried, now, LOCAL, plan.right))
    published = Published(message.ref, number, 0)
    return [Send(link.id, encode_known(published)), Count("maia_rows_published_total", 1)]
