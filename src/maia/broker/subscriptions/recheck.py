"""Does an entry still hold, and on which right?

Asked when a lease or a right ends, when a client publishes on a right that
may have ended, and when certificates count no more, count again, or are
shown in addition. Its holder receives what became of it.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from maia.broker.access.authorisation import Authorisation
from maia.broker.access.authoriser import limit_effects, refusal_effects
from maia.broker.access.challenges import challenge_entry, is_to_be_asked_again
from maia.broker.publication.projection import consents_hold
from maia.broker.publication.publisher_view import shaper_of
from maia.broker.refusals import LeaseEnded, NotVouchedForInTime, RightChanged, SummaryNotKept
from maia.broker.routing.interests import send_proof_again
from maia.broker.sessions.links import Advertisement, Entry, Link
from maia.broker.state import BrokerState
from maia.broker.subscriptions.registry import (
    end_entry,
    place_advertisement,
    place_subscription,
    project_again,
    schedule_recheck_of,
    view_class_of,
)
from maia.credentials import SignedCertificate
from maia.credentials.validity.one_time import VouchedFor
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.policy.view import is_summarised, written_type
from maia.types.definition import tree_root
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, Send
from maia.wire.messages import Changed


def recheck_entry(state: BrokerState, link: Link, entry: Entry, now: Instant) -> list[Effect]:
    """Check whether an entry still holds: its lease, then its right, which may have become another one."""
    if entry.lease_ends <= now < state.forgives_until:
        entry.lease_ends = state.forgives_until
    if entry.lease_ends <= now:
        return end_entry(state, link, entry, now, LeaseEnded("it was not renewed within its lease"))
    try:
        held = entry.right
        right = state.authoriser.still(held, now)
    except PolicyRefusal as problem:
        return _ended(state, link, entry, why_lost(state, entry, held.pool, problem, now), now)
    if right is not held:
        if (unfit := _unfit(entry, right)) is not None:
            return _ended(state, link, entry, unfit, now)
        placed = _place_again(state, link, entry, right, now)
        return placed if entry.right.vouched is None else [*placed, *_asked_again(state, link, entry, now)]
    asked = _asked_again(state, link, entry, now) if is_to_be_asked_again(state, link, entry, now) else []
    schedule_recheck_of(state, link, entry)
    if isinstance(entry, Advertisement) and entry.projections and not consents_hold(state, entry, now):
        return [*asked, *project_again(state, link, entry, now)]
    return asked


def decide_again(
    state: BrokerState, link: Link, entry: Entry, pool: tuple[SignedCertificate, ...], now: Instant
) -> list[Effect]:
    """Decide an entry from other evidence than before: it keeps what is left, or ends at once.

    Its holder receives what became of it. What needs a one-time answer to hold, or to hold on more, is
    asked about anew.
    """
    try:
        right = state.authoriser.left_of(entry.right, pool, now)
    except PolicyRefusal as problem:
        return _ended(state, link, entry, why_lost(state, entry, pool, problem, now), now)
    return register_again(state, link, entry, right, now)


def register_again(
    state: BrokerState, link: Link, entry: Entry, right: Authorisation, now: Instant
) -> list[Effect]:
    """Register an entry with what is left of its right, and ask for one-time answers if it needs them."""
    if (unfit := _unfit(entry, right)) is not None:
        return _ended(state, link, entry, unfit, now)
    registered = _registered_with(state, link, entry, right, now)
    return (
        [*registered, *_asked_again(state, link, entry, now)]
        if state.authoriser.may_ask(right, right.pool)
        else registered
    )


def authorise_again(
    state: BrokerState,
    link: Link,
    entry: Entry,
    pool: tuple[SignedCertificate, ...],
    vouched: VouchedFor | None,
    missing: MaiaError | None,
    now: Instant,
) -> list[Effect]:
    """Decide an entry with one-time answers that were asked for to do so.

    If some are `missing`, it keeps what is permitted without them, or ends with an answer.
    """
    before = entry.right
    try:
        right = state.authoriser.decide(before.request, pool, now, before.terms.remote, vouched)
    except PolicyRefusal as problem:
        return _ended(state, link, entry, missing or problem, now)
    if (unfit := _unfit(entry, right)) is not None:
        return _ended(state, link, entry, unfit, now)
    return _registered_with(state, link, entry, right, now)


def _unfit(entry: Entry, right: Authorisation) -> MaiaError | None:
    """Say why an entry cannot go on with what is left of its right, although there is something left."""
    if isinstance(entry, Advertisement):
        if written_type(right.view) == written_type(entry.right.view):
            return None
        return RightChanged("what is left of your right is to write events of another type: advertise again")
    if entry.cursor is None or not is_summarised(right.view):
        return None
    return SummaryNotKept("what is left of your right shows summaries, of which nothing is kept")


def why_lost(
    state: BrokerState,
    entry: Entry,
    pool: tuple[SignedCertificate, ...],
    problem: PolicyRefusal,
    now: Instant,
) -> PolicyRefusal | NotVouchedForInTime:
    """Return why an entry ends: if it could hold by one-time answers, its holder may ask and have them."""
    right, edge = entry.right, state.authoriser
    if not edge.may_ask(right, pool) or not edge.demanded(right.request, pool, now, right.terms.remote):
        return problem
    return NotVouchedForInTime("it has to be vouched for anew: ask for it again")


def _ended(state: BrokerState, link: Link, entry: Entry, problem: MaiaError, now: Instant) -> list[Effect]:
    ended = end_entry(state, link, entry, now, problem)
    return [*ended, *refusal_effects(problem, link.peer, ref=entry.ref)]


def _asked_again(state: BrokerState, link: Link, entry: Entry, now: Instant) -> list[Effect]:
    """Have the entry that is registered under a reference by now vouched for anew."""
    standing = link.subscriptions.get(entry.ref) or link.advertisements[entry.ref]
    return challenge_entry(state, link, standing, now)


def _registered_with(
    state: BrokerState, link: Link, entry: Entry, right: Authorisation, now: Instant
) -> list[Effect]:
    """Register an entry with another right, and notify its holder if that shows something else."""
    placed = _place_again(state, link, entry, right, now)
    cut = limit_effects(link.id, entry.ref, right, entry.right)
    if right.view == entry.right.view:
        if isinstance(entry, Advertisement) or right.used == entry.right.used:
            return [*placed, *cut]
        # Others are sent by which certificates the same is wanted now, if this entry represents it.
        type_id, member = right.event_type.type_id, (link.id, entry.ref)
        if state.audiences[type_id].represents(entry.view_class, member):
            placed += send_proof_again(state, type_id, entry.view_class, now)
        return [*placed, *cut]
    until = right.view.until
    why = "it rests on other certificates than before, and may show something else"
    changed = Changed(entry.ref, None if until is None else int(until), RightChanged.code, why)
    return [*placed, Send(link.id, encode(changed)), Count("maia_rights_changed_total"), *cut]


def _place_again(
    state: BrokerState, link: Link, entry: Entry, right: Authorisation, now: Instant
) -> list[Effect]:
    """Register an entry with another right than before: what remains of several, for instance."""
    if isinstance(entry, Advertisement):
        tree, secrets = tree_root(right.event_type.name.name), state.settings.transformation_keys
        renewed = replace(entry, right=right, shaper=shaper_of(right.view, tree, secrets))
        return place_advertisement(state, link, renewed, None, now)
    seen = view_class_of(right, entry.cursor, entry.requires)
    renewed_entry = structs.replace(entry, basis=right.basis, filter=right.filter, view_class=seen)
    return place_subscription(state, link, renewed_entry, entry, now)


def recheck_entries(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """Look at the entries of a link whose lease or right has ended by now, or that are to be vouched for."""
    effects: list[Effect] = []
    for entry in link.entries:
        right_ends = entry.right.stable.not_after
        has_ended = entry.lease_ends <= now or (right_ends is not None and right_ends < now)
        is_projected = isinstance(entry, Advertisement) and bool(entry.projections)
        if has_ended or is_projected or is_to_be_asked_again(state, link, entry, now):
            effects += recheck_entry(state, link, entry, now)
    return effects
