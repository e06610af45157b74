"""What does the broker do when a timer expires, or when its own certificates change?

Timers run before every input, so that no frame passes on a right that has
ended, however late the clock's own tick arrives (A35).

A domain renews what it issued to its brokers and puts it where they read it
(dissertation 6.5.2: pushed, for it is the domain's interest that its brokers
can work). The new certificates take the place of the old ones at once: for
the next greeting, for keys, for the broker's own interests. Links stay open;
a neighbour that stops accepting an old certificate is met again.

When does a frame of a covered type leave, and what fills the slots without an event?

The owner of a type chooses a rate and a size. A broker with a publisher of the
type sends one frame in every slot, all of that size, whether there is an event
or not: an event waits for its slot, and a slot without one carries cover. What
an observer sees depends on the owner's choice and on nothing that is published.
Slots are counted from one moment for everybody, so that types with the same
rate leave together. A broker that slept skips what it missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from maia.broker.access.challenges import challenge_connection
from maia.broker.access.one_time_answers import look_at_unanswered
from maia.broker.durable.catch_up import look_at_rounds
from maia.broker.durable.delivery import advance_link
from maia.broker.persistence import keep_what_changed
from maia.broker.publication.delivery import close_periods
from maia.broker.publication.state_query import overdue
from maia.broker.refusals import HandshakeTooSlow, PeerSilent
from maia.broker.revocation.streams import meet_own_certificates, recheck_statements, unsubscribe_from_issuers
from maia.broker.routing.aggregation import announce_waiting, merge_announced, tune_aggregates
from maia.broker.routing.interests import (
    recheck_own_interests,
    redecide_own_interests,
    verify_doubted,
    withdraw_ended,
)
from maia.broker.sealed.key_events import answer_waiting, maintain_keys, next_key_moment
from maia.broker.sessions.close import close_link
from maia.broker.sessions.identities import expire_identity
from maia.broker.sessions.links import Link, Role, Stage, ask_to_look_at_link, next_look_at_right_to_connect
from maia.broker.state import BrokerState, just_after, seconds_after, shown_to_every_peer
from maia.broker.subscriptions.registry import recheck_entries, recheck_entry
from maia.broker.subscriptions.route_sync import end_overdue_syncs
from maia.broker.timers import (
    AnnounceWaiting,
    CatchUp,
    CheckLink,
    ClosePeriods,
    FetchMissed,
    IdentityExpires,
    KeepAlive,
    MergeAnnounced,
    OneTimeAnswers,
    RecheckEntries,
    Statements,
    StateQueries,
    SyncOverdue,
    Timer,
    Upkeep,
    WithdrawEnded,
)
from maia.credentials import SignedCertificate, StaleConstitution, VerifiedConstitution
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.routing.table.hops import LOCAL, book_key_of_sealed
from maia.sessions.session import ROUNDS_IN_A_LEASE
from maia.types import Cover
from maia.wire.effects import Count, Effect, Note


def send_due_slots(state: BrokerState, now: Instant) -> list[Effect]:
    """Fill the slots that have come."""
    effects: list[Effect] = []
    for type_id, cover in list(_published_here(state, now)):
        slot = now // _length(cover)
        last, state.cover.last[type_id] = state.cover.last.get(type_id), slot
        if last is not None and last < slot:
            effects += _filled(state, type_id, now)
    return effects


def next_slot(state: BrokerState, now: Instant) -> Instant | None:
    """Return when the next slot comes."""
    lengths = [_length(cover) for _, cover in _published_here(state, now)]
    return min((Instant((now // length + 1) * length) for length in lengths), default=None)


def _published_here(state: BrokerState, now: Instant) -> Iterator[tuple[bytes, Cover]]:
    """Yield the covered types of which this broker has a publisher."""
    for type_id, cover in state.blinded.covered():
        name = state.blinded.publishing_id(type_id, now)
        if name is not None and state.routes.book.offers(LOCAL, book_key_of_sealed(name)):
            yield type_id, cover


def _length(cover: Cover) -> int:
    return cover.every_ms * 1000


def _filled(state: BrokerState, type_id: bytes, now: Instant) -> list[Effect]:
    sealing, slots = state.types.sealing(type_id), state.cover
    assert sealing is not None  # noqa: S101 - it is covered
    effects: list[Effect] = []
    slots.taking, slots.is_filled = type_id, False
    try:
        # A frame may turn out to be refused, or a repetition: then the next one has the slot.
        while not slots.is_filled and (waiting := slots.next_frame(type_id)) is not None:
            effects += answer_waiting(state, *waiting, now)
    finally:
        slots.taking = None
    if not slots.is_filled:
        turn = state.streams.turn(now)
        state.streams.send_cover(type_id, sealing, turn)
        effects += turn.effects
    return effects


def run_expired_timers(state: BrokerState, now: Instant) -> list[Effect]:
    """End or recheck every lease, right and link whose timer has expired."""
    effects: list[Effect] = []
    if late_us := state.timers.lateness(now):
        _forgive_if_late(state, late_us, now)
    for timer in state.timers.expired(now):
        effects += _run(state, timer, now)
    return effects


def _run(  # noqa: PLR0912 - a case for each timer
    state: BrokerState, timer: Timer, now: Instant
) -> list[Effect]:
    match timer:
        case Upkeep():
            effects = [*state.router.maintain(now), *maintain_keys(state, now), *send_due_slots(state, now)]
            effects += recheck_own_interests(state, now)
            # What is to be kept soon goes along, so that a broker wakes once for both.
            if state.keep_at is not None and state.keep_at <= seconds_after(now, state.settings.lease_s / 4):
                state.keep_at = None
                effects += [*keep_what_changed(state), *unsubscribe_from_issuers(state, now)]
            return effects
        case KeepAlive():
            return _keep_alive(state, now)
        case Statements():
            return [*recheck_statements(state, now), *verify_doubted(state, now), *overdue(state, now)]
        case SyncOverdue():
            return end_overdue_syncs(state, now)
        case FetchMissed():
            return look_at_rounds(state, now)
        case AnnounceWaiting():
            return announce_waiting(state, now)
        case MergeAnnounced():
            return [*withdraw_ended(state, now), *merge_announced(state, timer.type_id, now)]
        case WithdrawEnded():
            return withdraw_ended(state, now)
        case OneTimeAnswers():
            return look_at_unanswered(state, now)
        case ClosePeriods():
            return close_periods(state, timer.type_id, now)
        case _:
            link = state.links.get(timer.link)
            if link is None or link.stage is Stage.CLOSING:
                return []
    match timer:
        case StateQueries():
            return overdue(state, now)
        case CatchUp():
            return advance_link(state, link.id, now)
        case RecheckEntries():
            return recheck_entries(state, link, now)
        case CheckLink():
            return _check_link(state, link, now)
        case IdentityExpires():
            return expire_identity(state, link, now)


def recheck_everything(state: BrokerState, now: Instant) -> list[Effect]:
    """Decide every right again: evidence for or against any of them may have changed."""
    state.authoriser.evidence_changed()
    state.keys.evidence_changed()
    state.impairments.changed.update(state.types.sealed())
    effects = [effect for type_id in state.types.sealed() for effect in state.keys.look_for(type_id, now)]
    effects += recheck_own_interests(state, now)
    for link in list(state.links.values()):
        if link.is_ready:
            effects += _recheck_connection(state, link, now)
        for entry in link.entries:
            effects += recheck_entry(state, link, entry, now)
    return effects


# ------------------------------------------------------------ the broker


def schedule_upkeep(state: BrokerState, now: Instant) -> None:
    """Set the timer for the next thing that the broker has to do by itself, if what changed is due sooner.

    Only what may have changed is asked: all the rest was asked when the timer was set.
    """
    routes = state.routes
    if routes.is_changed:
        if state.keep_at is None:
            state.keep_at = seconds_after(now, state.settings.lease_s)
        slot = next_slot(state, now)
        moments = [state.router.next_due(now), next_key_moment(state, now), slot, state.keep_at]
    else:
        moments = [routes.replicate_at, routes.sealed_at, routes.book.next_due() if routes.is_sent else None]
    routes.is_changed = routes.is_sooner = routes.is_sent = False
    due = [max(moment, just_after(now)) for moment in moments if moment is not None]
    known = state.timers.moment_of(Upkeep())
    if due and (known is None or min(due) < known or known <= now):
        state.timers.reset(Upkeep(), min(due))


# ------------------------------------------------------------ links


def begin_rounds(state: BrokerState, now: Instant) -> None:
    """Look for silent peers three times in a lease, for as long as there are links."""
    if KeepAlive() not in state.timers:
        state.timers.add(KeepAlive(), seconds_after(now, state.settings.lease_s / ROUNDS_IN_A_LEASE))


def _keep_alive(state: BrokerState, now: Instant) -> list[Effect]:
    """Ping the silent peers, close the links of those that did not answer, and end a period of aggregation.

    Rounds are counted: moments do not tell a silent peer from a broker that slept.
    """
    effects: list[Effect] = []
    for link in list(state.links.values()):
        if not link.is_ready:
            continue
        try:
            effects += link.ping()
        except PeerSilent as problem:
            effects += close_link(state, link, problem, now)
    if state.links:
        begin_rounds(state, now)
    return [*effects, *withdraw_ended(state, now), *tune_aggregates(state, now)]


def _check_link(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    if not link.is_ready:
        return close_link(state, link, HandshakeTooSlow("the handshake took too long"), now)
    effects = _recheck_connection(state, link, now)
    if effects:
        return effects
    ask_to_look_at_link(state, link, next_look_at_right_to_connect(link, now))
    return challenge_connection(state, link, now)


def _recheck_connection(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    assert link.connect is not None  # noqa: S101 - a link is ready only after its right was decided
    try:
        link.connect = state.authoriser.still(link.connect, now)
    except PolicyRefusal as problem:
        return close_link(state, link, problem, now)
    state.statements.dependencies.note(link.id, link.connect.watched)
    return []


def _forgive_if_late(state: BrokerState, late_us: int, now: Instant) -> None:
    """End no lease for a while after this broker has slept: renewals are waiting to be read.

    A broker that is late all the time forgives once in a lease and no more. Rights
    are not forgiven: they end by the clock.
    """
    third = state.settings.lease_s / 3
    if late_us < third * 500_000 or now < seconds_after(state.forgives_until, 2 * third):
        return
    state.forgives_until = seconds_after(now, third)
    state.router.forgive(state.forgives_until)
    for link in state.links.values():
        link.silent_rounds = 0


def hold_certificates(
    state: BrokerState, certificates: tuple[SignedCertificate, ...], now: Instant
) -> list[Effect]:
    """Put these certificates in the place of the broker's own."""
    before = {one.id for one in state.settings.credentials}
    changed = before ^ {one.id for one in certificates}
    if not changed:
        return []
    state.settings = replace(state.settings, credentials=certificates)
    state.own_credentials[:] = shown_to_every_peer(certificates)
    asked = state.keys.hold(certificates, now)
    meet_own_certificates(state)
    noted = Note("own-certificates", {"new": len(changed - before), "held": len(certificates)})
    counted = Count("maia_own_certificates_changed_total")
    return [*asked, *redecide_own_interests(state, changed, now), noted, counted]


def adopt_constitutions(
    state: BrokerState, constitutions: tuple[VerifiedConstitution, ...], now: Instant
) -> list[Effect]:
    """Ask these constitutions from now on: what rested on a member that was replaced ends at once."""
    known = {one.quorum: one for one in state.settings.constitutions}
    for one in constitutions:
        before = known.get(one.quorum, one)
        if one != before and one.sequence <= before.sequence:
            raise StaleConstitution(
                f"constitution number {one.sequence} of `{one.quorum}` was shown, "
                f"and number {before.sequence} is in force here"
            )
        known[one.quorum] = one
    in_force = tuple(known.values())
    if in_force == state.settings.constitutions:
        return []
    state.settings = replace(state.settings, constitutions=in_force)
    state.authoriser.adopt(in_force)
    state.types.adopt(in_force)
    state.keys.adopt(in_force)
    named = ", ".join(f"{one.quorum} number {one.sequence}" for one in in_force)
    effects = [Note("constitutions", {"in_force": named}), *recheck_everything(state, now)]
    for link in list(state.links.values()):
        if link.role is Role.BROKER and state.routes.is_current(link.id):
            # Its entries are proved again in a moment: its own edge may not have got the constitution.
            relied_on = tuple(state.statements.dependencies.certificates_on(link.id))
            effects += state.router.doubt(link, relied_on, now)
    return effects
