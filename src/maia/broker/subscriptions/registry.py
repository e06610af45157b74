"""What changes when something begins to stand at a broker, and what when it ends?

A subscription or advertisement is placed when it was permitted, and again
when it rests on another right. Whatever that caused, here and elsewhere, is
taken back when it ends. Its lease and its right each have a moment at which
they are looked at (`subscriptions/recheck.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from maia.broker.durable.cursors import Cursor
from maia.broker.publication.projection import certificates_behind, projections_of
from maia.broker.publication.retained import forget_stream, publisher_lost_its_right, say_under
from maia.broker.refusals import NotVouchedFor
from maia.broker.routing.interests import (
    advertised,
    class_gone,
    class_joined,
    standing_changed,
    unadvertised,
    unadvertised_as,
)
from maia.broker.routing.own_interests import kept_class
from maia.broker.sessions.links import Advertisement, Entry, Link, Right, Subscription
from maia.broker.state import ENTRIES, BrokerState, Due, just_after, seconds_after
from maia.broker.subscriptions.local_subscribers import class_key
from maia.broker.subscriptions.removal import end_subscription, told_of_end
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.wire.effects import Effect, Note

__all__ = [
    "ask_to_look",
    "ask_to_look_at_entries",
    "end_advertisement",
    "end_entry",
    "lease_end",
    "place_advertisement",
    "place_subscription",
    "project_again",
    "view_class_of",
]

_SECOND: Final = 1_000_000
_MOMENTS_IN_A_LEASE: Final = 64


def view_class_of(right: Right, cursor: Cursor | None) -> bytes:
    """Return with whom a subscription shares what it sees."""
    seen = class_key(right.view, right.event_type)
    return seen if cursor is None else kept_class(seen)


def place_subscription(
    state: BrokerState, link: Link, entry: Subscription, before: Subscription | None, now: Instant
) -> list[Effect]:
    """Let a subscription stand, in place of another one under its reference if there was one."""
    type_id = entry.right.event_type.type_id
    link.subscriptions[entry.ref] = entry
    _note_standing(state, link, entry, now)
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


def place_advertisement(
    state: BrokerState, link: Link, entry: Advertisement, before: Advertisement | None, now: Instant
) -> list[Effect]:
    """Let an advertisement stand, in place of another one under its reference if there was one."""
    standing = link.advertisements.get(entry.ref)
    link.advertisements[entry.ref] = entry
    entry.projections = projections_of(state, entry.right.event_type, entry.stream, now)
    if entry.right.vouched is not None:
        say_under(state, entry)
    _note_standing(state, link, entry, now)
    lost = [] if standing is None else _projections_lost(state, entry, standing, now)
    return [*lost, *advertised(state, entry, now)]


def project_again(state: BrokerState, link: Link, entry: Advertisement, now: Instant) -> list[Effect]:
    """Publish an advertisement as those super-types alone to which there is consent now."""
    return place_advertisement(state, link, replace(entry), None, now)


def _projections_lost(
    state: BrokerState, entry: Advertisement, before: Advertisement, now: Instant
) -> list[Effect]:
    """Take back what an advertisement was published as before and is not any more, and what was said so."""
    staying = {(one.type_id, one.stream) for one in entry.projections}
    effects: list[Effect] = []
    for one in before.projections:
        if (one.type_id, one.stream) in staying:
            continue
        effects += forget_stream(state, one.type_id, entry.right.principal.key, one.stream)
        if one.type_id not in entry.type_ids:
            effects += unadvertised_as(state, one.type_id, before, now)
            effects.append(Note("not-published-as-super-type", {"type": one.type_id.hex(), "ref": entry.ref}))
    return effects


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
    link.warned.pop(entry.ref, None)
    state.one_time.drop(link.id, entry.ref)
    # Taken back first: whoever hears that the type is not published here any more forgets the way.
    has_lost = isinstance(problem, PolicyRefusal | NotVouchedFor)
    gone = publisher_lost_its_right(state, entry) if has_lost else []
    return [*told_of_end(link, entry.ref, problem), *gone, *unadvertised(state, entry, now)]


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


def ask_to_look(state: BrokerState, link: Link, entry: Entry) -> None:
    """Have an entry looked at when its lease or its right ends, whichever comes first."""
    right_ends = entry.right.stable.not_after
    at = entry.lease_ends if right_ends is None else min(entry.lease_ends, just_after(right_ends))
    ask_to_look_at_entries(state, link, at)


def _note_standing(state: BrokerState, link: Link, entry: Entry, now: Instant) -> None:
    """Have an entry looked at in time, which begins to stand or stands on another right."""
    state.statements.reliance.note(link.id, entry.right.watched)
    ask_to_look(state, link, entry)
    if isinstance(entry, Advertisement) and entry.right.event_type.super_type is not None:
        state.statements.reliance.note(link.id, certificates_behind(entry.right.event_type))
        for consent in entry.projections[-1].consents if entry.projections else ():
            if consent.stable.not_after is not None:
                ask_to_look_at_entries(state, link, just_after(consent.stable.not_after))
    vouched = entry.right.vouched
    if vouched is not None and now < vouched.ask_at:
        ask_to_look_at_entries(state, link, vouched.ask_at)


def ask_to_look_at_entries(state: BrokerState, link: Link, at: Instant) -> None:
    """Have all entries of a link looked at when a moment has come; entries share their moments."""
    if at not in link.looks:
        link.looks.add(at)
        state.deadlines.ask(at, Due(link.id, ENTRIES, at))
