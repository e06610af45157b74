"""Which single events of one read are taken on together, and what is done once for all of them?

A busy publisher's events arrive many at a time, each a frame of its own. What they go through is the
same for all of them, because nothing else happens in between: the right, the type, the router. This
is looked at once (`plan_of`), and their values are checked, shaped and matched as one frame. What leaves is
what leaves if they are taken on one after the other (`path.py`), byte by byte and in the same order;
only where an index is asked may deliveries of one event to different classes change places. Events of
a sealed type are sealed, or proved and opened, one after the other all the same (`sealed/batches.py`).

Everything is looked at before anything is changed. Whatever is out of the ordinary, a number that was
here before, a value that is refused, a recorded type, is left to the path: None says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from typing import Final, NamedTuple, TypeAlias, TypeGuard

from maia.broker.publication.delivery import ledger_for
from maia.broker.publication.expected_sources import is_known_type
from maia.broker.publication.retained import REMEMBERED, RetainedFrame, remember_passing
from maia.broker.publication.transit import Transit, check_kinds
from maia.broker.routing.aggregation import note_single_arrivals
from maia.broker.sealed.batches import is_ordinary, keys_for_events, opened_events
from maia.broker.sealed.forwarding import send_once_signed
from maia.broker.sessions.links import Advertisement, Link, Role
from maia.broker.state import BrokerState
from maia.broker.subscriptions.local_subscribers import Seen, SubscriberGroup, deliveries
from maia.credentials import Principal, principal_from_bytes
from maia.errors import MaiaError
from maia.events import AttributeUid, Frame, Instant, Kinds
from maia.routing.table.hops import LOCAL, TypeId, book_key_of_sealed
from maia.sealing import Draft, EpochKeys, Publication
from maia.sealing.frames.content import LEVEL_NUMBERS
from maia.sealing.frames.runs import seal_run
from maia.types import Sealing
from maia.wire.codec import beginning_of, decode, encode_known
from maia.wire.columns import (
    EventsColumn,
    by_column,
    by_event,
    encode_column,
    events_to_frame,
    kind_to_number,
)
from maia.wire.effects import Count, Effect, LinkId, Send
from maia.wire.messages import Carried, Column, Message, Publish, Published, Sealed

Event: TypeAlias = Publish | Carried | Sealed
_BEGINNINGS: Final = {
    Role.CLIENT: (beginning_of(Publish),),
    Role.BROKER: (beginning_of(Carried), beginning_of(Sealed)),
}
"""How messages begin that may be taken on together."""


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
    sealing: Sealing | None = None
    """How the type is sealed, as far as that is known here."""
    signer: bytes = b""
    """Who signs, or has signed, what is sealed; empty for what is not."""
    epoch: int = 0

    def is_for(self, message: Message) -> TypeGuard[Event]:
        """Say whether a message is one event of the same stream."""
        if self.entry is not None:
            return type(message) is Publish and message.ref == self.entry.ref and message.rows == 1
        if type(message) is Carried:
            return not self.signer and self._is_single(message)
        if type(message) is not Sealed or message.signer != self.signer or message.epoch != self.epoch:
            return False
        return self._is_single(message)

    def _is_single(self, message: Carried | Sealed) -> bool:
        return (
            message.rows == 1
            and not message.kept
            and message.stream == self.stream
            and message.type_id == self.type_id
            and message.publisher == self.publisher.key
        )

    @property
    def key(self) -> TypeId:
        """Return the type as the routing table names it."""
        return book_key_of_sealed(self.type_id) if self.signer else self.type_id


def may_go_together(link: Link, data: bytes) -> bool:
    """Say whether a message of a peer begins as one that may be taken on together with others."""
    beginnings = _BEGINNINGS.get(link.role)
    return beginnings is not None and data.startswith(beginnings)


def plan_of(state: BrokerState, link: Link, data: bytes, now: Instant) -> tuple[Plan, Event] | None:
    """Return the first event of a read and what it goes through, if what follows it may go along."""
    plan = None
    try:
        first = decode(data)
        if type(first) is Publish:
            plan = _plan_of_publisher(state, link, first, now)
        elif type(first) is Carried or type(first) is Sealed:
            plan = _plan_of_neighbour(state, link, first, now)
    except MaiaError:
        return None  # the path says what is wrong with it
    if plan is None or not plan.is_for(first) or not _is_usual(state, plan):
        return None
    return plan, first


def _plan_of_publisher(state: BrokerState, link: Link, first: Publish, now: Instant) -> Plan | None:
    entry = link.advertisements.get(first.ref)
    if entry is None or entry.projections or entry.requires or link.statement:
        return None
    right = entry.right
    if not state.authoriser.holds(right, now) or right.terms.is_rated or entry.shaper.transform is not None:
        return None
    type_id = right.event_type.type_id
    sealing, waiting, signer = state.types.sealing(type_id), state.seals.publishing, b""
    if sealing is not None:
        if not state.seals.has_begun(type_id, now) or waiting.holds(type_id, (link.id, first.ref)):
            return None
        signer = state.principal.key
    return Plan(link, type_id, link.peer, entry.stream, entry.writes.kinds, entry, sealing, signer)


def _plan_of_neighbour(state: BrokerState, link: Link, first: Carried | Sealed, now: Instant) -> Plan | None:
    type_id, publisher = first.type_id, first.publisher
    sealing = state.types.sealing(type_id)
    if isinstance(first, Carried):
        if sealing is not None:
            return None
        plan = Plan(link, type_id, principal_from_bytes(publisher), first.stream, None)
    else:
        stream = (publisher, first.stream, first.signer)
        if state.blinded.is_id(type_id) or state.seals.carrying.holds(type_id, stream):
            return None
        if sealing is not None and first.level < LEVEL_NUMBERS[sealing.level]:
            return None
        whose = link, type_id, principal_from_bytes(publisher), first.stream
        plan = Plan(*whose, None, None, sealing, first.signer, first.epoch)
    if not state.routes.is_current(link.id) or not is_known_type(state, type_id):
        return None
    return plan if state.router.expects(link, plan.key, now) else None


def _is_usual(state: BrokerState, plan: Plan) -> bool:
    """Say whether nothing but filters, Views and seals decides what becomes of a type's events."""
    type_id, types = plan.type_id, state.types
    if state.recording is not None or types.holds_topics(type_id) or type_id in state.statements.streams:
        return False
    _, refused = ledger_for(state, type_id)
    is_sealed_as_usual = not plan.signer or is_ordinary(state, plan.sealing)
    return refused is None and is_sealed_as_usual and state.router.asks_filters_alone


def run_of(plan: Plan, first: Event, data: Sequence[bytes]) -> list[Event]:
    """Return the messages at the beginning of a read that are of the stream of the first, in their order."""
    run = [first]
    for one in islice(data, 1, None):
        if not may_go_together(plan.link, one):
            break
        try:
            message = decode(one)
        except MaiaError:
            break  # the path says what is wrong with it
        if not plan.is_for(message):
            break
        if message.sequence <= run[-1].sequence:
            break
        run.append(message)
    return run


def take_together(
    state: BrokerState, plan: Plan, run: Sequence[Event], data: Sequence[bytes], now: Instant
) -> list[Effect] | None:
    """Take events of one stream on, as the path would one by one; None if it has to.

    `data` are the bytes in which they came, and more perhaps.
    """
    publisher, stream, signer = plan.publisher.key, plan.stream, plan.signer
    seen, numbers = state.routes.seen, [one.sequence for one in run]
    read = _read(state, plan, run, now)
    if read is None or not seen.are_new(publisher, stream, numbers):
        return None
    whole, missing, unjudged = read.whole, read.missing, b""
    if plan.entry is None and signer:
        # Frames of a signer that is not judged here use up its own numbers alone (A85).
        unjudged = b"" if plan.type_id in state.audiences and not read.is_unread else signer
        if not seen.are_new(publisher, stream, numbers, signer):
            return None
    readers: list[list[SubscriberGroup]] = [[] for _ in run]
    given: list[tuple[SubscriberGroup, Sequence[int]]] = []
    audience = state.audiences.get(plan.type_id)
    if audience is not None and not read.is_unread:
        for key, rows in audience.matched(whole.frame).items():
            group = audience.classes[key]
            if missing and not missing.isdisjoint(group.asks):
                continue
            if group.shown is None or group.summaries is not None:
                return None
            given.append((group, rows))
            for row in rows:
                readers[row].append(group)
        if not state.routes.order.admit(publisher, stream, numbers[0], signer):
            return None
        state.routes.order.admit(publisher, stream, numbers[-1], signer)
    # From here on nothing is refused any more.
    seen.remember_all(publisher, stream, numbers, unjudged)
    _put_on_record(state, plan, given, numbers, now)
    if plan.entry is not None:
        plan.entry.last_sequence = numbers[-1]
    hops: list[list[LinkId]] = [[] for _ in run]
    source = plan.link.id if plan.entry is None else None
    targets = state.router.targets(plan.key, whole, source=source, missing=missing, signer=signer)
    for link, rows in targets.items():
        for row in rows:
            hops[row].append(link)
    leaving = list(zip(run, data, read.columns, readers, hops))  # noqa: B905 - there may be more data
    return _left(state, plan, read, leaving, now)


def _put_on_record(
    state: BrokerState,
    plan: Plan,
    given: Sequence[tuple[SubscriberGroup, Sequence[int]]],
    numbers: Sequence[int],
    now: Instant,
) -> None:
    """Put what groups are given of these events on record, group by group in the order of their first."""
    ledger, _ = ledger_for(state, plan.type_id)
    if ledger is None:
        return
    stream = plan.publisher.key, plan.stream
    for group, rows in sorted(given, key=lambda one: one[1][0]):
        assert group.shown is not None  # noqa: S101 - asked before
        of_group = [numbers[row] for row in rows]
        ledger.record_events(state.links, [group.members], stream, of_group, group.shown, now)


class _Events(NamedTuple):
    """Events that were read and may travel."""

    whole: Transit
    """All of them as the rows of one frame, with what was opened of them."""
    columns: Sequence[Sequence[Column]]
    """The columns of each in the clear, as they travel."""
    missing: frozenset[AttributeUid] = frozenset()
    """Attributes that were not opened."""
    keys: EpochKeys | None = None
    """With which a publisher's events are sealed."""
    by_column: Sequence[EventsColumn] = ()
    """What is sealed of them then."""
    is_unread: bool = False
    """Whether they are for others alone: this broker has no keys of their type."""


def _read(state: BrokerState, plan: Plan, run: Sequence[Event], now: Instant) -> _Events | None:
    """Return the events as they will travel; None if one of them may not."""
    entry, sealing, first = plan.entry, plan.sealing, run[0]
    about = plan.type_id, plan.publisher, plan.stream, first.sequence, first.published_at
    if plan.signer and entry is None:
        opened = opened_events(state, [one for one in run if isinstance(one, Sealed)], now)
        if opened is None:
            return None
        whole = Transit(*about, opened.frame)
        return _Events(whole, opened.columns, opened.missing, is_unread=opened.is_unread)
    columns: Sequence[Sequence[Column]] = [one.columns for one in run if not isinstance(one, Sealed)]
    same = by_column(columns)
    frame = None if same is None else events_to_frame(same, plan.kinds)
    if same is None or frame is None:
        return None
    if entry is None:
        try:
            check_kinds(frame, state.types.kinds(plan.type_id))
        except MaiaError:
            return None
        return _Events(Transit(*about, frame), columns)
    shaped = entry.shaper.shape(frame)
    is_repeated = entry.last_sequence is not None and first.sequence <= entry.last_sequence
    if shaped.refused or is_repeated:
        return None
    forced = _forced(shaped.frame, entry)
    if forced or len(columns[0]) != len(shaped.frame.columns):
        given = {one.uid: one for one in same}
        same = [forced.get(uid) or given[uid] for uid in shaped.frame.columns]
        columns = by_event(same)
    whole, keys = Transit(*about, shaped.frame), None
    if sealing is not None:
        moments = [one.published_at for one in run]
        keys = keys_for_events(state, whole, same, moments, now)
        if keys is None:
            return None
    return _Events(whole, columns, keys=keys, by_column=same)


_Leaving: TypeAlias = tuple[Event, bytes, Sequence[Column], Sequence[SubscriberGroup], Sequence[LinkId]]
"""An event, its bytes as it came, its columns in the clear, and who gets it: subscribers, neighbours."""


def _left(
    state: BrokerState, plan: Plan, read: _Events, leaving: Sequence[_Leaving], now: Instant
) -> list[Effect]:
    """Return what leaves for each event: to subscribers, to neighbours, to its publisher."""
    effects: list[Effect] = []
    publisher, stream, _ = read.whole.identity
    drafts = _drafts(state, plan, read, leaving)
    retained_from = len(leaving) - REMEMBERED
    for row, (message, data, columns, readers, hops) in enumerate(leaving):
        if readers:
            labels = read.whole.labels_of(message.sequence, message.published_at)
            for group in readers:
                shown = group.sort.shown
                assert shown is not None  # noqa: S101 - asked before
                seen = Seen(1, [column for column in columns if column.uid in shown], {})
                state.delivered.add(group.subscribers, message.published_at, now)
                effects += deliveries(labels, seen, [group.members])
        if isinstance(message, Publish):
            carried = None
            if row >= retained_from or (hops and not plan.signer):
                whose, label = (publisher, stream), (message.sequence, message.published_at)
                carried = Carried(plan.type_id, *whose, *label, 1, [], list(columns))
            if row >= retained_from and carried is not None and plan.entry is not None:
                state.retained.remember(RetainedFrame(carried, now, LOCAL, plan.entry.right))
            form = next(drafts) if hops and plan.signer else carried
            effects += _published(state, plan, message, form, hops)
        else:
            if row >= retained_from:
                remember_passing(state, message, plan.link.id, now)
            if read.is_unread:
                effects.append(Count("maia_frames_unread_total"))
            for link in hops:  # in the bytes in which it came, which are its one form
                effects.append(Send(link, data))
            if type(message) is Carried:
                effects += _note_passing(state, hops, len(data), bool(readers or hops))
    arrived = [(one, bool(readers or hops)) for one, _, _, readers, hops in leaving if type(one) is Carried]
    note_single_arrivals(state, plan.link, arrived)
    return effects


def _note_passing(state: BrokerState, hops: Sequence[LinkId], size: int, is_taken: bool) -> list[Effect]:
    for link in hops:
        state.routes.spill.of(link).sent_bytes += size
    return [] if is_taken else [Count("maia_spilled_rows_total")]


def _published(
    state: BrokerState, plan: Plan, message: Publish, form: Draft | Carried | None, hops: Sequence[LinkId]
) -> list[Effect]:
    """Return how an event of a publisher of this broker leaves for neighbours, and its answer."""
    effects: list[Effect] = []
    if isinstance(form, Draft):
        effects += [send_once_signed(state, link, form.frame, form) for link in hops]
    elif hops and form is not None:
        data = encode_known(form)
        for link in hops:
            effects.append(Send(link, data))
            state.routes.spill.of(link).sent_bytes += len(data)
    effects.append(Send(plan.link.id, encode_known(Published(message.ref, message.sequence, 0))))
    effects.append(Count("maia_rows_published_total", 1))
    return effects


def _drafts(state: BrokerState, plan: Plan, read: _Events, leaving: Sequence[_Leaving]) -> Iterator[Draft]:
    """Return the events of a publisher sealed that go to a neighbour; what goes nowhere is not sealed."""
    if read.keys is None or plan.sealing is None:
        return iter(())
    leaves = [hops for *_, hops in leaving]
    sealed, columns = [one for one, _, _, _, hops in leaving if hops], read.by_column
    if not sealed:
        return iter(())
    if len(sealed) < len(leaving):
        columns = [EventsColumn(uid, kind, list(compress(data, leaves))) for uid, kind, data in columns]
    labels = [one.sequence for one in sealed], [one.published_at for one in sealed]
    about, keys, level = Publication(plan.publisher, plan.stream, 0, 0, 1), read.keys, plan.sealing.level
    return iter(seal_run(state.seals.sealer, labels, columns, about, keys=keys, level=level))


def _forced(frame: Frame, entry: Advertisement) -> dict[AttributeUid, EventsColumn]:
    """Return the columns that are the same in every event, as they travel."""
    return {
        uid: EventsColumn(uid, kind_to_number(one.kind), [encode_column(one.kind, one.values)] * frame.rows)
        for uid, one in entry.shaper.forced.items()
        if uid in frame.columns
    }
