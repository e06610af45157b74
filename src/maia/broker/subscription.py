"""The subscription path: from a client's signed request to an entry that routes events to it.

Read it from top to bottom: who asks, what for, may they, and only then what
changes here and elsewhere. An advertisement takes the same way with another
last step. What was accepted ends by request, with its lease, with its right
or with its link, and each of these takes back whatever it had caused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from maia.broker.audience import class_key
from maia.broker.catching_up import advance
from maia.broker.cursors import Cursor
from maia.broker.durable import cursor_for
from maia.broker.edge import refusal_effects
from maia.broker.ending import end_subscription, told_of_end
from maia.broker.keys_wanted import note_missing_keys, type_met
from maia.broker.last_said import publisher_lost_its_right
from maia.broker.own_interests import kept_class, want_to_record
from maia.broker.refusals import CursorTaken, LeaseEnded, RefTaken, RightChanged, StatementAwaited
from maia.broker.routing_glue import (
    advertised,
    class_gone,
    class_joined,
    standing_changed,
    unadvertised,
)
from maia.broker.sessions import Advertisement, Entry, Link, Right, Subscription
from maia.broker.shaping import shaper_of
from maia.broker.state import ENTRIES, BrokerState, Due, just_after, seconds_after
from maia.credentials import Action, SignedCertificate
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import GrantStale, PolicyRefusal, Request
from maia.types import VerifiedType
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, Send
from maia.wire.messages import (
    Accepted,
    Advertise,
    Changed,
    Subscribe,
    SubscribeDurable,
    Unadvertise,
    Unsubscribe,
)
from maia.wire.requests import BadRequestEncoding, EdgeRequest, request_from_bytes, verify_request

__all__ = [
    "advertise",
    "ask_to_look",
    "ask_to_look_at_entries",
    "decide_again",
    "end_advertisement",
    "end_entry",
    "lease_end",
    "look_at_entries",
    "look_at_entry",
    "stand_on",
    "subscribe",
    "unadvertise",
    "unsubscribe",
]

_SECOND: Final = 1_000_000
_MOMENTS_IN_A_LEASE: Final = 64
_FILTER: Final = b"(6:filter"
_Entry = TypeVar("_Entry", Advertisement, Subscription)


def subscribe(
    state: BrokerState, link: Link, message: Subscribe | SubscribeDurable, now: Instant
) -> list[Effect]:
    """Accept a subscription, or renew the one that stands under the same reference."""
    link.check_room_to_subscribe(message.id, state.settings.limits)
    asked = _verified_request(state, link, message, Action.SUBSCRIBE, now)
    event_type, handed_over = _event_type(state, asked, message, now)
    before = _renewed(link.subscriptions.get(message.id), event_type)
    right = _decided(state, link, asked, event_type, message, now)
    met = _met(state, event_type, handed_over, now)
    cursor = _cursor(state, link, message, before, event_type)
    entry = Subscription(
        ref=message.id,
        link=link.id,
        right=right,
        view_class=_view_class(right, cursor),
        lease_ends=lease_end(state, link, now),
        proof_head=(head := _shared_head(link, message.request)),
        proof_rest=message.request[len(head) :],
        cursor=cursor,
    )
    lacking = note_missing_keys(state, right, now) if before is None else []
    placed = _place_subscription(state, link, entry, before, now)
    accepted = [*met, *placed, *lacking, _accepted(link, message.id, right)]
    if cursor is None or not isinstance(message, SubscribeDurable):
        return accepted
    return [*accepted, *_caught_up(state, link, entry, cursor, message.seen, now)]


def advertise(state: BrokerState, link: Link, message: Advertise, now: Instant) -> list[Effect]:
    """Accept an advertisement, or renew the one that stands under the same reference."""
    link.check_room_to_advertise(message.id, state.settings.limits)
    asked = _verified_request(state, link, message, Action.PUBLISH, now)
    event_type, handed_over = _event_type(state, asked, message, now)
    before = _renewed(link.advertisements.get(message.id), event_type)
    right = _decided(state, link, asked, event_type, message, now)
    met = _met(state, event_type, handed_over, now)
    entry = Advertisement(
        ref=message.id,
        link=link.id,
        right=right,
        shaper=shaper_of(right.view),
        stream=asked.stream,
        lease_ends=lease_end(state, link, now),
        proof=message.request,
        last_sequence=before.last_sequence if before is not None and before.stream == asked.stream else None,
    )
    placed = _place_advertisement(state, link, entry, before, now)
    return [*met, *placed, _accepted(link, message.id, right)]


def unsubscribe(state: BrokerState, link: Link, message: Unsubscribe, now: Instant) -> list[Effect]:
    """End a subscription at its holder's wish."""
    entry = link.subscription(message.ref)
    return [*end_subscription(state, link, entry, now), Send(link.id, encode(Accepted(message.id, None)))]


def unadvertise(state: BrokerState, link: Link, message: Unadvertise, now: Instant) -> list[Effect]:
    """End an advertisement at its holder's wish."""
    entry = link.advertisement(message.ref)
    return [*end_advertisement(state, link, entry, now), Send(link.id, encode(Accepted(message.id, None)))]


# ------------------------------------------------------------ the stages


def _verified_request(
    state: BrokerState,
    link: Link,
    message: Subscribe | SubscribeDurable | Advertise,
    action: Action,
    now: Instant,
) -> EdgeRequest:
    """Return what was signed, by the principal of this link (A14), for this network, not before (A65)."""
    settings = state.settings
    signed = request_from_bytes(message.request)
    if signed.request.action is not action:
        raise BadRequestEncoding(f"a request to `{signed.request.action.value}` came as another message")
    verified = verify_request(
        signed,
        at=now,
        skew_s=settings.skew_s,
        memory=state.requests.memory,
        network=settings.network,
        peer=link.peer,
    )
    # Kept whatever is decided: a request that was refused is not to be heard again either.
    state.to_keep += state.requests.write(link.peer, signed, seconds_after(now, -settings.skew_s))
    return verified.request


def _event_type(
    state: BrokerState, asked: EdgeRequest, message: Subscribe | SubscribeDurable | Advertise, now: Instant
) -> tuple[VerifiedType, tuple[VerifiedType, ...]]:
    """Return the type version that the request names, and the ones handed over; nothing is remembered yet."""
    event_type, handed_over = state.types.resolve(asked.event_type, message.definitions, now)
    state.types.check(handed_over)
    return event_type, handed_over


def _decided(
    state: BrokerState,
    link: Link,
    asked: EdgeRequest,
    event_type: VerifiedType,
    message: Subscribe | SubscribeDurable | Advertise,
    now: Instant,
) -> Right:
    """Ask the kernel, for the principal of this link alone, with what it has shown."""
    request = Request(link.peer, asked.action, event_type.name, event_type, asked.filter)
    pool = state.edge.pool(message.credentials, link.shown)
    try:
        return state.edge.decide(request, pool, now, link.known)
    except GrantStale as problem:
        if not state.statements.awaits(pool, now):
            raise
        # The word that is missing was asked for and may come at any moment: the client asks again.
        raise StatementAwaited(problem.message) from problem


def _met(
    state: BrokerState, event_type: VerifiedType, handed_over: tuple[VerifiedType, ...], now: Instant
) -> list[Effect]:
    """Remember the versions behind a request that was permitted, and look for the keys that they need."""
    new = state.types.remember(handed_over)
    state.to_keep += new
    met = type_met(state, event_type.type_id, new, now)
    return met if state.recording is None else [*met, *want_to_record(state, event_type.type_id, now)]


def _accepted(link: Link, ref: int, right: Right) -> Effect:
    until = right.view.until
    return Send(link.id, encode(Accepted(ref, None if until is None else int(until))))


# ------------------------------------------------------------ durable


def _cursor(
    state: BrokerState,
    link: Link,
    message: Subscribe | SubscribeDurable,
    before: Subscription | None,
    event_type: VerifiedType,
) -> Cursor | None:
    """Return the cursor of a durable subscription, which a renewal does not change."""
    cursor = None
    if isinstance(message, SubscribeDurable):
        cursor = cursor_for(state, link, message, event_type.type_id)
    if before is not None and before.cursor is not cursor:
        raise RefTaken(f"`{before.ref}` stands for something of another name on this link")
    return cursor


def _view_class(right: Right, cursor: Cursor | None) -> bytes:
    seen = class_key(right.view, right.event_type)
    return seen if cursor is None else kept_class(seen)


def _caught_up(
    state: BrokerState, link: Link, entry: Subscription, cursor: Cursor, arrived: int | None, now: Instant
) -> list[Effect]:
    """Let the owner go on where it was, here and nowhere else."""
    holder, effects = (link.id, entry.ref), list[Effect]()
    if cursor.holder != holder:
        if cursor.holder is not None:
            effects += _taken_over(state, cursor, now)
        cursor.attach(holder, arrived=arrived)
    return [*effects, *advance(state, cursor, now)]


def _taken_over(state: BrokerState, cursor: Cursor, now: Instant) -> list[Effect]:
    assert cursor.holder is not None  # noqa: S101 - asked before
    number, ref = cursor.holder
    link = state.links[number]
    problem = CursorTaken(f"`{cursor.name}` was subscribed to again, over another connection of yours")
    return end_subscription(state, link, link.subscriptions[ref], now, problem)


# ------------------------------------------------------------ what changes


def _renewed(before: _Entry | None, event_type: VerifiedType) -> _Entry | None:
    """Return the entry that a request renews, which is about the same type."""
    if before is not None and before.right.event_type.type_id != event_type.type_id:
        raise RefTaken(f"`{before.ref}` stands for another type on this link")
    return before


def _place_subscription(
    state: BrokerState, link: Link, entry: Subscription, before: Subscription | None, now: Instant
) -> list[Effect]:
    type_id = entry.right.event_type.type_id
    link.subscriptions[entry.ref] = entry
    state.statements.reliance.note(link.id, entry.right.watched)
    ask_to_look(state, link, entry)
    if before is not None and before.view_class == entry.view_class:
        return []
    audience = state.audience(type_id)
    # In before out: a renewal that changes the filter leaves no moment without either.
    member, effects = (link.id, entry.ref), list[Effect]()
    is_kept = entry.cursor is not None
    if audience.join(entry.view_class, entry.right.view, entry.right.event_type, member, is_kept=is_kept):
        effects += class_joined(state, type_id, audience.classes[entry.view_class], now)
    if before is None:
        return effects
    stood = audience.stands_for(before.view_class, member)
    if audience.leave(before.view_class, member):
        effects += class_gone(state, type_id, before.view_class, now)
    elif stood:
        effects += standing_changed(state, type_id, before.view_class, now)
    return effects


def _place_advertisement(
    state: BrokerState, link: Link, entry: Advertisement, before: Advertisement | None, now: Instant
) -> list[Effect]:
    link.advertisements[entry.ref] = entry
    state.statements.reliance.note(link.id, entry.right.watched)
    ask_to_look(state, link, entry)
    return advertised(state, entry, now)


def end_entry(
    state: BrokerState, link: Link, entry: Entry, now: Instant, problem: MaiaError | None = None
) -> list[Effect]:
    """Take back what stands under a reference, whichever it is."""
    if isinstance(entry, Subscription):
        return end_subscription(state, link, entry, now, problem)
    return end_advertisement(state, link, entry, now, problem)


def end_advertisement(
    state: BrokerState, link: Link, entry: Advertisement, now: Instant, problem: MaiaError | None = None
) -> list[Effect]:
    """Take an advertisement back, here and elsewhere; tell its holder if it did not ask for that."""
    del link.advertisements[entry.ref]
    # Taken back first: whoever hears that the type is not published here any more forgets the way.
    gone = publisher_lost_its_right(state, entry) if isinstance(problem, PolicyRefusal) else []
    return [*told_of_end(link, entry.ref, problem), *gone, *unadvertised(state, entry, now)]


def look_at_entry(state: BrokerState, link: Link, entry: Entry, now: Instant) -> list[Effect]:
    """Ask whether an entry still stands: its lease, then its right, which may have become another one."""
    if entry.lease_ends <= now < state.forgives_until:
        entry.lease_ends = state.forgives_until
    if entry.lease_ends <= now:
        return end_entry(state, link, entry, now, LeaseEnded("it was not renewed within its lease"))
    try:
        right = state.edge.still(entry.right, now)
    except PolicyRefusal as problem:
        return [
            *end_entry(state, link, entry, now, problem),
            *refusal_effects(problem, link.peer, ref=entry.ref),
        ]
    if right is entry.right:
        ask_to_look(state, link, entry)
        return []
    return _place_again(state, link, entry, right, now)


def decide_again(
    state: BrokerState, link: Link, entry: Entry, pool: tuple[SignedCertificate, ...], now: Instant
) -> list[Effect]:
    """Decide an entry from other evidence than before: it stands on what is left, or ends at once.

    Its holder is told what became of it.
    """
    before = entry.right
    try:
        right = state.edge.decide(before.request, pool, now, before.known)
    except PolicyRefusal as problem:
        ended = end_entry(state, link, entry, now, problem)
        return [*ended, *refusal_effects(problem, link.peer, ref=entry.ref)]
    return stand_on(state, link, entry, right, now)


def stand_on(state: BrokerState, link: Link, entry: Entry, right: Right, now: Instant) -> list[Effect]:
    """Let an entry stand on a right that was decided from other evidence, and tell its holder of a change."""
    before = entry.right
    placed = _place_again(state, link, entry, right, now)
    if right.view == before.view:
        return [*placed, *_proved_otherwise(state, link, entry, right, now)]
    until = right.view.until
    why = "it rests on other certificates than before, and may show something else"
    changed = Changed(entry.ref, None if until is None else int(until), RightChanged.code, why)
    return [*placed, Send(link.id, encode(changed)), Count("maia_rights_changed_total")]


def _proved_otherwise(
    state: BrokerState, link: Link, entry: Entry, right: Right, now: Instant
) -> list[Effect]:
    """Tell others by which certificates the same is wanted now, if somebody wants it on this behalf."""
    if isinstance(entry, Advertisement) or right.used == entry.right.used:
        return []
    type_id, audience = right.event_type.type_id, state.audiences[right.event_type.type_id]
    stands = audience.stands_for(entry.view_class, (link.id, entry.ref))
    return standing_changed(state, type_id, entry.view_class, now) if stands else []


def _place_again(state: BrokerState, link: Link, entry: Entry, right: Right, now: Instant) -> list[Effect]:
    """Let an entry stand on another right than before: what remains of several, for instance."""
    if isinstance(entry, Advertisement):
        renewed = replace(entry, right=right, shaper=shaper_of(right.view))
        return _place_advertisement(state, link, renewed, None, now)
    seen = _view_class(right, entry.cursor)
    return _place_subscription(state, link, replace(entry, right=right, view_class=seen), entry, now)


def lease_end(state: BrokerState, link: Link, now: Instant) -> Instant:
    """Return when a lease that begins now ends.

    It is rounded down a little, so that what a client asks for within a second
    ends at the same moment and is looked at together.
    """
    lease_us = state.settings.lease_s * _SECOND
    ends = seconds_after(now, state.settings.lease_s)
    ends = Instant(ends - ends % max(1, lease_us // _MOMENTS_IN_A_LEASE))
    if link.lease_ends != ends:
        link.lease_ends = ends
    return link.lease_ends


def _shared_head(link: Link, request: bytes) -> bytes:
    """Return how a request begins, as the same object for all requests of a link that begin so."""
    if not link.request_head or not request.startswith(link.request_head):
        link.request_head = request[: max(0, request.find(_FILTER))]
    return link.request_head


def ask_to_look(state: BrokerState, link: Link, entry: Entry) -> None:
    """Have an entry looked at when its lease or its right ends, whichever comes first."""
    right_ends = entry.right.stable.not_after
    at = entry.lease_ends if right_ends is None else min(entry.lease_ends, just_after(right_ends))
    ask_to_look_at_entries(state, link, at)


def ask_to_look_at_entries(state: BrokerState, link: Link, at: Instant) -> None:
    """Have all entries of a link looked at when a moment has come; entries share their moments."""
    if at not in link.looks:
        link.looks.add(at)
        state.deadlines.ask(at, Due(link.id, ENTRIES, at))


def look_at_entries(state: BrokerState, link: Link, at: Instant, now: Instant) -> list[Effect]:
    """Look at the entries of a link whose lease or right has ended by now."""
    link.looks.discard(at)
    effects: list[Effect] = []
    for entry in link.entries:
        right_ends = entry.right.stable.not_after
        if entry.lease_ends <= now or (right_ends is not None and right_ends < now):
            effects += look_at_entry(state, link, entry, now)
    return effects
