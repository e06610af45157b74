"""The publication path: from a publisher's frame to the frames that leave this broker.

Read it from top to bottom: the right, the type, the View, the seal if the type
has one, then all that may have a part of it; and the same for each
super-type of its type. What comes from another broker joins half way, where
only identifiers and interests are left.

An event that comes by itself takes a shorter way (`publish_single`, `carry_single`). The path says what
becomes of any frame, in more than a hundred calls. Most of them find nothing to do for one
event: no topic, no statement, no second row; and of a neighbour's, no seal. There are the
others, in one place. What leaves is what leaves on the path, byte by byte and in the same order. Whatever
is out of the ordinary is left to the path, before anything has changed: None says so.

Subscribers and neighbours come first. What they do not wait for is done when their bytes have left: the
answer to the publisher, and the memory of its last event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from maia.broker.access.authorisation import Authorisation
from maia.broker.access.impairment import dial_or_lack
from maia.broker.durable.catch_up import record_arrived
from maia.broker.publication.authors import attached, check_signature
from maia.broker.publication.delivery import deliver
from maia.broker.publication.expected_sources import is_known_type, refuse_unasked
from maia.broker.publication.projection import consents_hold, project
from maia.broker.publication.publisher_view import Shaped, SingleEvents
from maia.broker.publication.retained import RetainedFrame, remember_own, remember_passing
from maia.broker.publication.transit import Transit, from_carried, written_as
from maia.broker.refusals import FrameTooLarge, PlainOfSealed, PublishedTooFast, PublishedTooLongAgo
from maia.broker.revocation.streams import receive_frame
from maia.broker.routing.aggregation import note_arrival
from maia.broker.routing.interests import forward, forward_single
from maia.broker.routing.routes import unseen_part
from maia.broker.sealed.batches import forward_sealed_event, keys_for_event
from maia.broker.sealed.publication import SEALED_BYTES_MAX, hold_until_sealed, send_sealed
from maia.broker.sessions.links import Advertisement, Link, Projection
from maia.broker.state import BrokerState, Rest
from maia.broker.subscriptions.local_subscribers import Seen, SubscriberGroup, deliveries
from maia.broker.subscriptions.registry import project_again, recheck_entry
from maia.credentials import principal_from_bytes
from maia.errors import BrokenCredential, MaiaError
from maia.events import AttributeUid, Frame, Instant, Value
from maia.routing.table.hops import LOCAL
from maia.types import TransitKindMismatch
from maia.wire.codec import encode_known
from maia.wire.columns import columns_to_frame, frame_label, layout_key, layout_of, single_event, stream_label
from maia.wire.effects import Count, Effect, LinkId, Send
from maia.wire.messages import Carried, Deliver, Publish, Published


def publish(state: BrokerState, link: Link, message: Publish, now: Instant) -> list[Effect]:
    """Take a publisher's frame on, as far as its right goes at this moment."""
    advertisement = link.advertisement(message.ref)
    if not state.authoriser.holds(advertisement.right, now):
        return _publish_on_another_right(state, link, message, now)
    type_id = advertisement.right.event_type.type_id
    sealing = state.types.sealing(type_id)
    if sealing is not None and hold_until_sealed(state, link, message, type_id, now):
        return []
    frame = _read(state, message, advertisement)
    if _note_sequence(advertisement, message):
        return _published(state, link, message, refused=0)
    shaped = advertisement.shaper.shape(frame)
    if not shaped.frame.rows:
        return _published(state, link, message, refused=shaped.refused)
    if advertisement.right.terms.is_rated and not state.authoriser.spend_rate(
        advertisement.right, shaped.frame.rows, now
    ):
        fast = Count("maia_frames_refused_total", labels={"code": PublishedTooFast.code})
        return [fast, *_published(state, link, message, refused=message.rows)]
    transit = _as_transit(link, message, advertisement, frame, shaped)

    def taken_on() -> list[Effect]:
        remember_own(state, transit, advertisement, now)
        counted = Count("maia_rows_published_total", shaped.frame.rows)
        seen_above = _publish_as_super_types(state, link, advertisement, transit, now)
        return [*seen_above, *_published(state, link, message, refused=shaped.refused), counted]

    if sealing is None:
        return _sent(state, link, transit, now, then=taken_on)
    try:
        return [*send_sealed(state, transit, sealing, now), *taken_on()]
    except PublishedTooLongAgo as problem:
        late = Count("maia_frames_refused_total", labels={"code": problem.code})
        return [late, *_published(state, link, message, refused=message.rows)]


# ------------------------------------------------------------ super-types


def _publish_as_super_types(
    state: BrokerState, link: Link, entry: Advertisement, transit: Transit, now: Instant
) -> list[Effect]:
    """Publish a frame of a sub-type as each of its super-types, as far as there is consent at this moment.

    What goes wrong here is nothing to the publisher, who has published its own type.
    """
    if not entry.projections:
        return []
    effects: list[Effect] = []
    if not consents_hold(state, entry, now):
        effects = project_again(state, link, entry, now)
        entry = link.advertisement(entry.ref)
    for projection in entry.projections:
        effects += _publish_projected(state, link, entry, projection, project(transit, projection), now)
    return effects


def _publish_projected(
    state: BrokerState, link: Link, entry: Advertisement, projection: Projection, seen: Transit, now: Instant
) -> list[Effect]:
    remember_own(state, seen, entry, now, projection.consents)
    sealing = state.types.sealing(seen.type_id)
    if sealing is None:
        return _sent(state, link, seen, now)
    waiting, stream = state.seals.projecting, (link.id, entry.ref)
    if not state.seals.has_begun(seen.type_id, now) or waiting.holds(seen.type_id, stream):
        effects, lack = dial_or_lack(state, seen.type_id, now)
        size = 256 + sum(len(column.data) for column in seen.columns())
        until, waits = waiting.until(now), (link.id, entry.ref, seen)
        if lack is None and waiting.put(seen.type_id, stream, waits, size=size, until=until):
            state.routes.is_changed = True
            return effects
        return [*effects, Count("maia_projections_lost_total")]
    return _seal_projected(state, seen, now)


def publish_waiting(state: BrokerState, type_id: bytes, now: Instant) -> list[Effect]:
    """Publish as a super-type what waited for its keys, if its publisher still may."""
    effects: list[Effect] = []
    if not state.seals.has_begun(type_id, now):
        return effects
    for number, ref, seen in state.seals.projecting.take(type_id):
        link = state.links.get(number)
        entry = None if link is None else link.advertisements.get(ref)
        if entry is None or not state.authoriser.holds(entry.right, now):
            continue
        is_projected = any(one.stream == seen.stream for one in entry.projections)
        if is_projected and consents_hold(state, entry, now):
            effects += _seal_projected(state, seen, now)
    return effects


def give_up_projected(state: BrokerState, now: Instant) -> list[Effect]:
    """Let go of what waited in vain for the keys of a super-type."""
    return [Count("maia_projections_lost_total") for _ in state.seals.projecting.take_overdue(now)]


def _seal_projected(state: BrokerState, seen: Transit, now: Instant) -> list[Effect]:
    sealing = state.types.sealing(seen.type_id)
    if sealing is None:
        return []
    try:
        return send_sealed(state, seen, sealing, now)
    except MaiaError as problem:  # a key that this broker has no right to, or a moment whose keys are gone
        lost = Count("maia_projections_lost_total")
        return [lost, Count("maia_frames_refused_total", labels={"code": problem.code})]


# ------------------------------------------------------------ other brokers


def carry(state: BrokerState, link: Link, message: Carried, now: Instant) -> list[Effect]:
    """Take a frame from another broker to all others that may have a part of it."""
    if state.types.sealing(message.type_id) is not None:
        # Its sender may not know that the owner wants it sealed; no subscriber here gets it so (A29).
        return [Count("maia_frames_refused_total", labels={"code": PlainOfSealed.code})]
    try:
        transit = from_carried(message, state.types.kinds(message.type_id))
    except TransitKindMismatch as problem:
        # Its sender may not know the type, so the frame ends here and the link does not.
        return [Count("maia_frames_refused_total", labels={"code": problem.code})]
    if not is_known_type(state, message.type_id):
        return [Count("maia_frames_unwanted_total")]
    if not state.router.expects(link, message.type_id, now):
        # Before it is remembered: an unexpected source must not use up another's numbers (A66).
        return refuse_unasked(state, link, now)
    if _is_read_here(state, transit.type_id):
        try:
            # Before it is remembered, like its source: a frame without its requirement is no frame (A98).
            check_signature(transit)
        except BrokenCredential as problem:
            return [Count("maia_frames_refused_total", labels={"code": problem.code})]
    remember_passing(state, message, link.id, now)
    return _sent(state, link, transit, now, message=message)


def _is_read_here(state: BrokerState, type_id: bytes) -> bool:
    return type_id in state.audiences or (state.recording is not None and state.recording.records(type_id))


def _sent(
    state: BrokerState,
    link: Link,
    transit: Transit,
    now: Instant,
    *,
    message: Carried | None = None,
    then: Callable[[], list[Effect]] = list,
) -> list[Effect]:
    """Give a frame to local subscribers and to other brokers; one that was seen before goes nowhere.

    `message` is how it came from another broker, if it did.
    """
    source = None if message is None else link.id
    unseen = unseen_part(state.routes, transit)
    is_again = source is not None and state.router.carries_again(
        transit.publisher.key, transit.stream, transit.sequence
    )
    onward = transit if is_again else unseen
    # What a neighbour sends for nothing is counted; of what is published here there is nothing to count.
    taken: set[int] | None = None if message is None else set()
    further = [] if onward is None else forward(state, onward, source=source, taken=taken)
    if unseen is None:
        return [Count("maia_duplicates_total"), *further, *then()]
    if unseen.type_id not in state.statements.streams:
        effects = [*_given_here(state, unseen, now, taken, source), *further]
        if message is not None and taken is not None and unseen is transit:
            effects += note_arrival(state, link, message, rows=transit.frame.rows, taken=len(taken))
        return [*effects, *then()]

    # The others first, who have the same to do: what a statement takes away here is gone before
    # a subscriber here gets it, and before its publisher is answered (A35).
    def given_here() -> list[Effect]:
        is_needed = unseen.type_id in state.statements.streams
        ended = receive_frame(state, unseen, now) if is_needed else []
        # Those whose rights it ends do not wait for the disk; subscribers and the publisher do.
        kept, state.to_keep = state.to_keep, []

        def given_on() -> list[Effect]:
            state.to_keep += kept
            return [*_given_here(state, unseen, now, source=source), *then()]

        state.rest.append(Rest(link.id, given_on))
        return ended

    state.rest.append(Rest(link.id, given_here))
    return further


def _given_here(
    state: BrokerState,
    transit: Transit,
    now: Instant,
    taken: set[int] | None = None,
    source: LinkId | None = None,
) -> list[Effect]:
    """Record and deliver a frame, and add the rows that went to a subscriber to those that were taken."""
    log, recorded = state.recording, list[Effect]()
    if log is not None and log.records(transit.type_id):
        frame = transit.as_carried()
        recorded = log.record(frame, now) if source is None else record_arrived(state, frame, now)
        if taken is not None:
            taken.update(range(transit.frame.rows))
    return [*recorded, *deliver(state, transit, now, taken=taken)]


def _publish_on_another_right(state: BrokerState, link: Link, message: Publish, now: Instant) -> list[Effect]:
    """Look at the publisher's right first; what is left of it, if anything, decides about the frame."""
    looked = recheck_entry(state, link, link.advertisement(message.ref), now)
    stands = message.ref in link.advertisements
    return [*looked, *publish(state, link, message, now)] if stands else looked


def _read(state: BrokerState, message: Publish, advertisement: Advertisement) -> Frame:
    """Return the frame, every value checked against the version of the type that the publisher writes."""
    most = state.settings.limits.rows_per_frame
    if message.rows > most:
        raise FrameTooLarge(f"a frame of {message.rows} rows is larger than the {most} taken on here")
    return columns_to_frame(message.columns, message.rows, advertisement.writes.kinds)


def _note_sequence(advertisement: Advertisement, message: Publish) -> bool:
    """Take note of a frame's number; say whether it was published before and its answer was lost."""
    last = advertisement.last_sequence
    if last is not None and message.sequence <= last:
        return True
    advertisement.last_sequence = message.sequence
    return False


def _as_transit(
    link: Link, message: Publish, advertisement: Advertisement, given: Frame, shaped: Shaped
) -> Transit:
    # Columns that were not changed travel in the bytes in which they came.
    forced = advertisement.shaper.forced
    is_changed = shaped.refused or advertisement.shaper.transform is not None
    untouched = [] if is_changed else message.columns
    if forced:
        untouched = [column for column in untouched if column.uid not in forced]
    type_id, kept = advertisement.right.event_type.type_id, list(shaped.rows) if shaped.refused else ()
    return Transit(
        type_id,
        link.peer,
        advertisement.stream,
        message.sequence,
        message.published_at,
        shaped.frame,
        kept,
        written_as(untouched),
        attached(link, message, advertisement, given, shaped),
    )


def _published(state: BrokerState, link: Link, message: Publish, *, refused: int) -> list[Effect]:
    """Answer for a frame and all before it, once they are safe if this broker promises that."""
    answer = Send(link.id, encode_known(Published(message.ref, message.sequence, refused)))
    if state.recording is None:
        return [answer]
    types = link.advertisement(message.ref).type_ids
    recorded = next((one for one in types if state.recording.records(one)), types[0])
    return state.recording.once_recorded(recorded, answer)


def _prepared(state: BrokerState, entry: Advertisement) -> SingleEvents | None:
    """Work out what stays the same; None for what is never taken on here."""
    if state.recording is not None or not state.router.asks_filters_alone:
        return None
    shaper, right = entry.shaper, entry.right
    is_special = entry.requires or entry.written is not None or right.terms.is_rated
    if is_special or shaper.transform is not None or shaper.root is not None:
        return None
    entry.single = SingleEvents(right, right.event_type, shaper)
    return entry.single


def publish_single(
    state: BrokerState, link: Link, message: Publish, size: int, now: Instant
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
    if type_id in state.statements.streams or (last is not None and sequence <= last):
        return None
    event = plan.read(columns)
    if event is None:
        return None
    keys, signer = None, b""
    if not state.types.is_plain(type_id):
        keys, signer = keys_for_event(state, link, message, type_id, tuple(event), now), state.principal.key
        if keys is None or size > SEALED_BYTES_MAX or entry.projections:
            return None
    audience, publisher, stream = state.audiences.get(type_id), link.peer.key, entry.stream
    readers = [] if audience is None else audience.readers_of(event)
    above = _seen_above(state, link, entry, message, event, now) if entry.projections else ()
    if readers is None or above is None or not state.routes.seen.take_next(publisher, stream, sequence):
        return None
    # From here on nothing is left to the path any more.
    entry.last_sequence = sequence
    effects: list[Effect] = []
    if audience is not None and not state.routes.order.admit(publisher, stream, sequence, signer):
        effects.append(Count("maia_late_frames_total"))
    elif readers:
        effects = _deliveries_of_one(state, readers, message, event, (publisher, stream), now)
    carried = Carried(type_id, publisher, stream, sequence, message.published_at, 1, [], columns)
    if keys is not None:
        effects += forward_sealed_event(state, carried, event, keys)
        return [*effects, *_answered(state, link, message, carried, (), right, now)]
    if state.routes.book.is_wanted(type_id):
        effects += forward_single(state, carried, event, source=None)
    effects += _sent_above(state, above, now)
    state.rest.append(Rest(link.id, partial(_answered, state, link, message, carried, above, right, now)))
    return effects


class _SeenAbove(NamedTuple):
    """An event of a sub-type as one of its super-types shows it, and which subscribers here get it."""

    consents: tuple[Authorisation, ...]
    carried: Carried
    event: dict[AttributeUid, Value]
    readers: Sequence[SubscriberGroup] | None
    """None if no client here subscribes to the super-type."""


def _seen_above(
    state: BrokerState,
    link: Link,
    entry: Advertisement,
    message: Publish,
    event: Mapping[AttributeUid, Value],
    now: Instant,
) -> Sequence[_SeenAbove] | None:
    """Return what super-types show of an event; None if one of them is left to the path."""
    if not consents_hold(state, entry, now):
        return None
    found: list[_SeenAbove] = []
    publisher, sequence = link.peer.key, message.sequence
    for projection in entry.projections:
        type_id, stream, kinds = projection.type_id, projection.stream, projection.super_type.kinds
        is_plain = state.types.is_plain(type_id) and type_id not in state.statements.streams
        if not is_plain or not state.routes.seen.is_next(publisher, stream, sequence):
            return None
        seen = {uid: value for uid, value in event.items() if uid in kinds}
        audience = state.audiences.get(type_id)
        readers = None if audience is None else audience.readers_of(seen)
        if not seen or (audience is not None and readers is None):
            return None
        columns = [column for column in message.columns if column.uid in kinds]
        carried = Carried(type_id, publisher, stream, sequence, message.published_at, 1, [], columns)
        found.append(_SeenAbove(projection.consents, carried, seen, readers))
    return found


def _sent_above(state: BrokerState, above: Sequence[_SeenAbove], now: Instant) -> list[Effect]:
    effects: list[Effect] = []
    for _, carried, event, readers in above:
        publisher, stream, sequence = carried.publisher, carried.stream, carried.sequence
        state.routes.seen.take_next(publisher, stream, sequence)
        if readers is not None and not state.routes.order.admit(publisher, stream, sequence):
            effects.append(Count("maia_late_frames_total"))
        elif readers:
            effects += _deliveries_of_one(state, readers, carried, event, (publisher, stream), now)
        if state.routes.book.is_wanted(carried.type_id):
            effects += forward_single(state, carried, event, source=None)
    return effects


def _deliveries_of_one(
    state: BrokerState,
    readers: Sequence[SubscriberGroup],
    message: Publish | Carried,
    event: Mapping[AttributeUid, Value],
    stream: tuple[bytes, bytes],
    now: Instant,
) -> list[Effect]:
    """Return what classes of subscribers get of an event, each the columns that it is shown."""
    effects: list[Effect] = []
    ledger, sequence = state.disclosures, message.sequence
    labels = stream[0], stream_label(*stream), frame_label(*stream, sequence), message.published_at
    for group in readers:
        shown, uids = message.columns, group.sort.shown
        if ledger is not None and ledger.is_of_all_types and uids is not None:
            ledger.record_events(state.links, [group.members], stream, (sequence,), uids, now)
        if uids is not None and not event.keys() <= uids:
            shown = [column for column in shown if column.uid in uids]
        if group.others is None and group.link is not None:
            effects.append(Send(group.link, encode_known(Deliver([group.ref], *labels, 1, shown))))
            state.delivered.add(1, message.published_at, now)
        else:
            state.delivered.add(group.subscribers, message.published_at, now)
            effects += deliveries(labels, Seen(1, shown, {}), [group.members])
    return effects


def carry_single(state: BrokerState, link: Link, message: Carried, now: Instant) -> list[Effect] | None:
    """Take a frame of one event from another broker on as `carry` does; None if that has to."""
    type_id, columns, types = message.type_id, message.columns, state.types
    if message.kept or not columns or not types.is_plain(type_id) or type_id in state.statements.streams:
        return None
    if state.recording is not None or not state.router.asks_filters_alone:
        return None
    layout = layout_of(layout_key(columns))
    if layout is None or not layout.kinds.items() <= types.kinds(type_id).items():
        return None  # an attribute of another kind, or one of a version that is not known here
    event, publisher, stream = single_event(columns, layout), message.publisher, message.stream
    if event is None or not types.knows(type_id) or not state.routes.is_current(link.id):
        return None
    principal_from_bytes(publisher)  # raises for what is no key
    audience = state.audiences.get(type_id)
    readers = [] if audience is None else audience.readers_of(event)
    if readers is None or not state.router.expects(link, type_id, now):
        return None
    if not state.routes.seen.take_next(publisher, stream, message.sequence):
        return None
    # From here on nothing is left to the path any more.
    remember_passing(state, message, link.id, now)
    effects: list[Effect] = []
    if audience is not None and not state.routes.order.admit(publisher, stream, message.sequence):
        effects.append(Count("maia_late_frames_total"))
        readers = []
    elif readers:
        effects = _deliveries_of_one(state, readers, message, event, (publisher, stream), now)
    is_wanted = state.routes.book.is_wanted(type_id)
    further = forward_single(state, message, event, source=link.id) if is_wanted else []
    taken = int(bool(readers or further))
    return [*effects, *further, *note_arrival(state, link, message, rows=1, taken=taken)]


_ONE_PUBLISHED: Final = Count("maia_rows_published_total", 1)


def _answered(
    state: BrokerState,
    link: Link,
    message: Publish,
    carried: Carried,
    above: Sequence[_SeenAbove],
    right: Authorisation,
    now: Instant,
) -> list[Effect]:
    """Remember an event that was taken on, and answer its publisher."""
    state.retained.remember(RetainedFrame(carried, now, LOCAL, right))
    for seen in above:
        state.retained.remember(RetainedFrame(seen.carried, now, LOCAL, right, seen.consents))
    published = Published(message.ref, message.sequence, 0)
    return [Send(link.id, encode_known(published)), _ONE_PUBLISHED]
