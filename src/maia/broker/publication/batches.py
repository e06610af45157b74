"""Which single events of one read are taken on together, and what is done once for all of them?

A busy publisher's events arrive many at a time, each a frame of its own. What they go through is the
same for all of them, because nothing else happens in between: the right, the type, the router. This
is looked at once (`plan_of`), and their values are checked, shaped and matched as one frame. What leaves is
what leaves if they are taken on one after the other (`path.py`), byte by byte and in the same order;
only where an index is asked may deliveries of one event to different classes change places.

Everything is looked at before anything is changed. Whatever is out of the ordinary, a number that was
here before, a value that is refused, a sealed type, a ledger, is left to the path: None says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from maia.broker.publication.expected_sources import is_known_type
from maia.broker.publication.retained import remember_passing
from maia.broker.publication.retained_cache import REMEMBERED, RetainedFrame
from maia.broker.publication.transit import Transit, check_kinds
from maia.broker.routing.aggregation import note_arrival
from maia.broker.sessions.links import Advertisement, Link, Role
from maia.broker.state import BrokerState
from maia.broker.subscriptions.local_subscribers import Seen, SubscriberGroup, deliveries
from maia.credentials import Principal, principal_from_bytes
from maia.errors import MaiaError
from maia.events import AttributeUid, Frame, Instant, Kinds
from maia.routing.table.hops import LOCAL
from maia.wire.codec import decode, encode_known
from maia.wire.columns import encode_column, events_to_frame, kind_to_number
from maia.wire.effects import Count, Effect, LinkId, Send
from maia.wire.messages import Carried, Column, Message, Publish, Published

__all__ = ["Plan", "may_go_together", "plan_of", "run_of", "take_together"]

_BEGINNINGS: Final = {Role.CLIENT: b"\x96\x14", Role.BROKER: b"\x99\x1e"}
"""How the messages begin that may be taken on together: `Publish` of clients, `Carried` of brokers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What single events of one stream go through at this moment."""

    link: Link
    type_id: bytes
    publisher: Principal
    stream: bytes
    kinds: Kinds | None = field(repr=False)
    """The kinds that a publisher's version has; None for what other brokers send, in any version."""
    entry: Advertisement | None = None
    """The advertisement of a publisher of this broker."""

    def is_for(self, message: Message) -> bool:
        """Say whether a message is one event of the same stream."""
        if self.entry is not None:
            return type(message) is Publish and message.ref == self.entry.ref and message.rows == 1
        return (
            type(message) is Carried
            and message.rows == 1
            and not message.kept
            and message.stream == self.stream
            and message.type_id == self.type_id
            and message.publisher == self.publisher.key
        )


def may_go_together(link: Link, data: bytes) -> bool:
    """Say whether a message of a peer begins as one that may be taken on together with others."""
    beginning = _BEGINNINGS.get(link.role)
    return beginning is not None and data.startswith(beginning)


def plan_of(state: BrokerState, link: Link, data: bytes, now: Instant) -> Plan | None:
    """Return what the first message of a read goes through, if what follows it may go along; it is read."""
    plan = None
    try:
        first = decode(data)
        if type(first) is Publish:
            plan = _plan_of_publisher(state, link, first, now)
        elif type(first) is Carried:
            plan = _plan_of_neighbour(state, link, first, now)
    except MaiaError:
        return None  # the path says what is wrong with it
    return plan if plan is not None and plan.is_for(first) and _is_plain(state, plan.type_id) else None


def _plan_of_publisher(state: BrokerState, link: Link, first: Publish, now: Instant) -> Plan | None:
    entry = link.advertisements.get(first.ref)
    if entry is None or entry.projections or entry.requires or link.statement:
        return None
    right = entry.right
    if not state.authoriser.holds(right, now) or right.basis.is_rated or entry.shaper.transform is not None:
        return None
    return Plan(link, right.event_type.type_id, link.peer, entry.stream, entry.writes.kinds, entry)


def _plan_of_neighbour(state: BrokerState, link: Link, first: Carried, now: Instant) -> Plan | None:
    type_id = first.type_id
    if not state.routes.is_current(link.id) or not is_known_type(state, type_id):
        return None
    if not state.router.expects(link, type_id, now):
        return None
    return Plan(link, type_id, principal_from_bytes(first.publisher), first.stream, None)


def _is_plain(state: BrokerState, type_id: bytes) -> bool:
    """Say whether nothing but filters and Views decides what becomes of a type's events."""
    types = state.types
    is_recorded = state.recording is not None or state.disclosures is not None
    is_special = types.sealing(type_id) is not None or types.holds_topics(type_id)
    is_special = is_special or types.requires_ledger(type_id) or type_id in state.statements.streams
    return not is_recorded and not is_special and state.router.asks_filters_alone


def run_of(plan: Plan, data: Sequence[bytes]) -> list[Publish | Carried]:
    """Return the messages at the beginning of a read that are of the stream of the plan, in their order."""
    run: list[Publish | Carried] = []
    for one in data:
        if not may_go_together(plan.link, one):
            break
        try:
            message = decode(one)
        except MaiaError:
            break  # the path says what is wrong with it
        if not plan.is_for(message) or not isinstance(message, Publish | Carried):
            break
        if run and message.sequence <= run[-1].sequence:
            break
        run.append(message)
    return run


def take_together(
    state: BrokerState, plan: Plan, run: Sequence[Publish | Carried], now: Instant
) -> list[Effect] | None:
    """Take events of one stream on, as the path would one by one; None if it has to."""
    publisher, stream = plan.publisher.key, plan.stream
    frame, seen, numbers = _read(state, plan, run), state.routes.seen, [one.sequence for one in run]
    if frame is None or not seen.are_new(publisher, stream, numbers):
        return None
    readers: list[list[SubscriberGroup]] = [[] for _ in run]
    audience = state.audiences.get(plan.type_id)
    if audience is not None:
        for key, rows in audience.matched(frame).items():
            group = audience.classes[key]
            if group.shown is None or group.summaries is not None:
                return None
            for row in rows:
                readers[row].append(group)
        if not state.routes.order.admit(publisher, stream, numbers[0]):
            return None
        state.routes.order.admit(publisher, stream, numbers[-1])
    # From here on nothing is refused any more.
    seen.remember_all(publisher, stream, numbers)
    if plan.entry is not None:
        plan.entry.last_sequence = numbers[-1]
    hops: list[list[LinkId]] = [[] for _ in run]
    source = plan.link.id if plan.entry is None else None
    whole = Transit(plan.type_id, plan.publisher, stream, numbers[0], run[0].published_at, frame)
    for link, rows in state.router.targets(plan.type_id, whole, source=source).items():
        for row in rows:
            hops[row].append(link)
    return _left(state, plan, run, whole, readers, hops, now)


def _read(state: BrokerState, plan: Plan, run: Sequence[Publish | Carried]) -> Frame | None:
    """Return the events as rows of one frame, as they will travel; None if one of them may not."""
    frame, entry = events_to_frame([one.columns for one in run], plan.kinds), plan.entry
    if frame is None:
        return None
    if entry is None:
        try:
            check_kinds(frame, state.types.kinds(plan.type_id))
        except MaiaError:
            return None
        return frame
    shaped = entry.shaper.shape(frame)
    is_repeated = entry.last_sequence is not None and run[0].sequence <= entry.last_sequence
    return None if shaped.refused or is_repeated else shaped.frame


def _left(
    state: BrokerState,
    plan: Plan,
    run: Sequence[Publish | Carried],
    whole: Transit,
    readers: Sequence[Sequence[SubscriberGroup]],
    hops: Sequence[Sequence[LinkId]],
    now: Instant,
) -> list[Effect]:
    """Return what leaves for each event: to subscribers, to neighbours, to its publisher."""
    effects: list[Effect] = []
    forced = {} if plan.entry is None else _forced(whole, plan.entry)
    retained_from = len(run) - REMEMBERED
    for row, message in enumerate(run):
        columns = message.columns
        if forced or len(columns) != len(whole.frame.columns):
            by_uid = {column.uid: column for column in columns}
            columns = [forced.get(uid) or by_uid[uid] for uid in whole.frame.columns]
        if readers[row]:
            labels = whole.labels_of(message.sequence, message.published_at)
            for group in readers[row]:
                assert group.shown is not None  # noqa: S101 - asked before
                shown = [column for column in columns if column.uid in group.shown]
                effects += deliveries(labels, Seen(1, shown, {}), [group.members])
        carried = message if isinstance(message, Carried) else None
        if hops[row] or row >= retained_from:
            carried = carried or Carried(
                plan.type_id,
                plan.publisher.key,
                plan.stream,
                message.sequence,
                message.published_at,
                1,
                [],
                columns,
            )
            if row >= retained_from:
                _retain(state, plan, carried, now)
        if carried is not None and hops[row]:
            data = encode_known(carried)
            for link in hops[row]:
                effects.append(Send(link, data))
                state.routes.spill.of(link).sent_bytes += len(data)
        if plan.entry is not None:
            effects.append(Send(plan.link.id, encode_known(Published(plan.entry.ref, message.sequence, 0))))
            effects.append(Count("maia_rows_published_total", 1))
        elif carried is not None:
            taken = 1 if readers[row] or hops[row] else 0
            effects += note_arrival(state, plan.link, carried, rows=1, taken=taken)
    return effects


def _forced(whole: Transit, entry: Advertisement) -> dict[AttributeUid, Column]:
    """Return the columns that are the same in every event, as they travel."""
    return {
        uid: Column(uid, kind_to_number(one.kind), encode_column(one.kind, one.values))
        for uid, one in entry.shaper.forced.items()
        if uid in whole.frame.columns
    }


def _retain(state: BrokerState, plan: Plan, carried: Carried, now: Instant) -> None:
    if plan.entry is None:
        remember_passing(state, carried, plan.link.id, now)
    else:
        state.retained.remember(RetainedFrame(carried, now, LOCAL, plan.entry.right))
