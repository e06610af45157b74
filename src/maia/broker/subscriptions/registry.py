"""How are subscriptions and advertisements registered, renewed and removed?

An entry is registered when it was permitted, and again when it depends on another
right. Whatever that caused, here and elsewhere, is taken back when it ends. Its lease
and its right set timers (`subscriptions/recheck.py`). Subscriptions that end together
are taken back at one moment: no broker is sent one in the place of another that
ends as well.

A client renews all entries of its link with one message in half a lease, as neighbouring
brokers do among each other. The link has proved who sends it, it concerns
nothing but this link, and nothing that has ended comes back by it, so there is
nothing to sign and nothing to replay (A65). Rights are not decided again for it: each
is rechecked when it ends, renewed or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from maia.broker.access.authorisation import Authorisation
from maia.broker.durable.cursors import Cursor, kept
from maia.broker.publication.delivery import schedule_closing
from maia.broker.publication.projection import certificates_behind, projections_of
from maia.broker.publication.retained import forget_stream, move_retained, publisher_lost_its_right
from maia.broker.refusals import EntriesDiffer, NotVouchedFor
from maia.broker.routing.interests import (
    advertised,
    class_gone,
    class_joined,
    kept_class,
    send_proof_again,
    unadvertised,
    unadvertised_as,
    withdraw_ended,
)
from maia.broker.sessions.links import Advertisement, Entry, Link, Subscription
from maia.broker.state import BrokerState, just_after, seconds_after
from maia.broker.subscriptions.local_subscribers import class_key
from maia.broker.timers import RecheckEntries, WithdrawEnded
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.policy import PolicyRefusal
from maia.predicates import Predicate
from maia.wire.codec import decode, encode, encode_known
from maia.wire.effects import Count, Effect, Note, Send
from maia.wire.messages import Accepted, Ended, RenewAll
from maia.wire.requests import digest_of_request, digest_of_standing

_MOMENTS_IN_A_LEASE: Final = 64
_WITHDRAWN_AFTER_US: Final = 20_000
"""How long other brokers go on sending what revoked subscriptions wanted, which nobody here is given."""


def view_class_of(right: Authorisation, cursor: Cursor | None, requires: Predicate) -> bytes:
    """Return with whom a subscription shares what it sees."""
    seen = class_key(right.view, right.event_type, requires)
    return seen if cursor is None else kept_class(seen)


def place_subscription(
    state: BrokerState, link: Link, entry: Subscription, before: Subscription | None, now: Instant
) -> list[Effect]:
    """Register a subscription, in place of another one under its reference if there was one."""
    type_id = entry.right.event_type.type_id
    link.subscriptions[entry.ref], link.standing = entry, None
    _set_timers(state, link, entry, now)
    if before is not None and before.view_class == entry.view_class:
        return []
    audience = state.audience(type_id)
    # In before out: a renewal that changes the filter leaves no moment without either.
    member, effects = (link.id, entry.ref), list[Effect]()
    is_kept = entry.cursor is not None
    if audience.join(
        entry.view_class,
        entry.right.view,
        entry.right.event_type,
        member,
        is_kept=is_kept,
        requires=entry.requires,
        now=now,
        basis=entry.right.basis.view,
    ):
        effects += class_joined(state, type_id, audience.classes[entry.view_class], now)
    if audience.summarising:
        schedule_closing(state, type_id, now)
    if before is None:
        return effects
    stood = audience.represents(before.view_class, member)
    if audience.leave(before.view_class, member):
        effects += class_gone(state, type_id, before.view_class, now)
    elif stood:
        effects += send_proof_again(state, type_id, before.view_class, now)
    return effects


def place_advertisement(
    state: BrokerState, link: Link, entry: Advertisement, before: Advertisement | None, now: Instant
) -> list[Effect]:
    """Register an advertisement, in place of another one under its reference if there was one."""
    standing = link.advertisements.get(entry.ref)
    link.advertisements[entry.ref], link.standing = entry, None
    entry.projections = projections_of(state, entry.right.event_type, entry.stream, now)
    if entry.right.vouched is not None:
        move_retained(state, entry)
    _set_timers(state, link, entry, now)
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
    """Remove the entry under a reference, whichever it is."""
    if isinstance(entry, Subscription):
        return end_subscription(state, link, entry, now, problem)
    return end_advertisement(state, link, entry, now, problem)


def end_advertisement(
    state: BrokerState, link: Link, entry: Advertisement, now: Instant, problem: MaiaError | None = None
) -> list[Effect]:
    """Take an advertisement back, here and elsewhere; tell its holder if it did not ask for that."""
    del link.advertisements[entry.ref]
    link.standing = None
    link.warned.pop(entry.ref, None)
    state.one_time.drop(link.id, entry.ref)
    # Removed first: a broker that receives that the type is not published here any more forgets the way.
    has_lost = isinstance(problem, PolicyRefusal | NotVouchedFor)
    gone = publisher_lost_its_right(state, entry) if has_lost else []
    return [*ended_message(link, entry.ref, problem), *gone, *unadvertised(state, entry, now)]


def lease_end(state: BrokerState, link: Link, now: Instant) -> Instant:
    """Return when a lease that begins now ends.

    It is rounded down a little, so that what a client asks for within a second
    ends at the same moment and is rechecked together.
    """
    lease_us = state.settings.lease_s * SECOND
    ends = seconds_after(now, state.settings.lease_s)
    ends = Instant(ends - ends % max(1, lease_us // _MOMENTS_IN_A_LEASE))
    if link.lease_ends != ends:
        link.lease_ends = ends
    return link.lease_ends


def schedule_recheck_of(state: BrokerState, link: Link, entry: Entry) -> None:
    """Set the timer for the end of an entry's lease or right, whichever comes first."""
    right_ends = entry.right.stable.not_after
    at = entry.lease_ends if right_ends is None else min(entry.lease_ends, just_after(right_ends))
    schedule_recheck(state, link, at)


def _set_timers(state: BrokerState, link: Link, entry: Entry, now: Instant) -> None:
    """Note what an entry depends on, and set its timers."""
    state.statements.dependencies.note(link.id, entry.right.watched)
    schedule_recheck_of(state, link, entry)
    if isinstance(entry, Advertisement) and entry.right.event_type.super_type is not None:
        state.statements.dependencies.note(link.id, certificates_behind(entry.right.event_type))
        for consent in entry.projections[-1].consents if entry.projections else ():
            if consent.stable.not_after is not None:
                schedule_recheck(state, link, just_after(consent.stable.not_after))
    vouched = entry.right.vouched
    if vouched is not None and now < vouched.ask_at:
        schedule_recheck(state, link, vouched.ask_at)


def schedule_recheck(state: BrokerState, link: Link, at: Instant) -> None:
    """Have all entries of a link rechecked at a moment; entries share their moments."""
    state.timers.add(RecheckEntries(link.id), at)


def end_subscription(
    state: BrokerState, link: Link, entry: Subscription, now: Instant, problem: MaiaError | None = None
) -> list[Effect]:
    """Take a subscription back, here and elsewhere; tell its holder if it did not ask for that."""
    return [*ended_message(link, entry.ref, problem), *end_subscriptions(state, link, (entry,), now)]


def end_subscriptions(
    state: BrokerState, link: Link, entries: Iterable[Subscription], now: Instant
) -> list[Effect]:
    """Take subscriptions of one link back, here and elsewhere; their holder asked for that, or is gone."""
    _take_out(state, link, entries)
    return withdraw_ended(state, now)


def end_revoked_subscriptions(
    state: BrokerState, link: Link, entries: Sequence[Subscription], now: Instant, problem: MaiaError
) -> list[Effect]:
    """End subscriptions of one link for one reason, and notify their holder.

    Other brokers are sent that in a moment, with all else that falls by then: until the last
    holder knows, here and at neighbours, nothing else is done. What arrives meanwhile is for nobody.
    """
    _take_out(state, link, entries)
    if state.routes.ended and WithdrawEnded() not in state.timers:
        state.timers.add(WithdrawEnded(), Instant(now + _WITHDRAWN_AFTER_US))
    return ended_messages(link, [entry.ref for entry in entries], problem)


def _take_out(state: BrokerState, link: Link, entries: Iterable[Subscription]) -> None:
    """Take subscriptions out of their classes: nothing is delivered to them from here on."""
    link.standing, ended = None, state.routes.ended
    for entry in entries:
        del link.subscriptions[entry.ref]
        link.warned.pop(entry.ref, None)
        state.one_time.drop(link.id, entry.ref)
        if entry.cursor is not None:
            let_go(state, entry.cursor)
        type_id, view_class, member = entry.right.event_type.type_id, entry.view_class, (link.id, entry.ref)
        audience = state.audiences[type_id]
        stood = audience.represents(view_class, member)
        if audience.leave(view_class, member):
            ended[type_id, view_class] = True
            if not audience.classes:
                del state.audiences[type_id]
        elif stood:
            ended[type_id, view_class] = False


def let_go(state: BrokerState, cursor: Cursor) -> None:
    """Keep how far a durable subscription has come, also past what was nothing for its owner."""
    cursor.detach()
    if cursor.seen > cursor.kept_seen:
        state.to_keep.append(kept(cursor))


def ended_message(link: Link, ref: int, problem: MaiaError | None) -> list[Effect]:
    """Tell the holder of a reference why it ended, unless it asked for that."""
    return [] if problem is None else ended_messages(link, [ref], problem)


def ended_messages(link: Link, refs: Sequence[int], problem: MaiaError) -> list[Effect]:
    """Tell the holder of references why they ended, all for one reason."""
    if not refs:
        return []
    # The first message is checked, and the others are made from it: a client waits for the last of them.
    first = encode(Ended(refs[0], problem.code, problem.message))
    said = decode(first)
    assert isinstance(said, Ended)  # noqa: S101 - made a line above
    others = [encode_known(structs.replace(said, ref=ref)) for ref in refs[1:]]
    sent = [Send(link.id, data) for data in (first, *others)]
    return [*sent, Count("maia_ended_total", len(refs), labels={"code": problem.code})]


_ENTRIES_FOR_A_REQUEST: Final = 64
"""Renewing so many entries costs about as much as one request; the client's quota pays for them so."""


def price_of_renewal(link: Link) -> int:
    """Return how many requests it counts for that a client renews all entries of a link."""
    return 1 + (len(link.subscriptions) + len(link.advertisements)) // _ENTRIES_FOR_A_REQUEST


def renew_all(state: BrokerState, link: Link, message: RenewAll, now: Instant) -> list[Effect]:
    """Begin every lease on a link anew, if client and broker agree on what is registered there."""
    entries = link.entries
    if link.standing is None:
        link.standing = digest_of_standing((one.ref, digest_of_request(one.proof)) for one in entries)
    if len(entries) != message.entries or link.standing != message.digest:
        raise EntriesDiffer("other entries are registered on this link: ask for each of them again")
    # A definition may have ended meanwhile, and then entries of its type are not renewed.
    for name in {entry.right.event_type.name for entry in entries}:
        state.types.resolve(name, (), now)
    ends = lease_end(state, link, now)
    for entry in entries:
        entry.lease_ends = ends
    # A right may end within the lease that begins now, and then it is rechecked before the lease ends (A35).
    for right_ends in {entry.right.stable.not_after for entry in entries}:
        at = ends if right_ends is None else min(ends, just_after(right_ends))
        schedule_recheck(state, link, at)
    return [Send(link.id, encode(Accepted(message.id, None)))]
