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
from maia.broker.persistence import keep_what_changed
from maia.broker.publication.delivery import close_periods
from maia.broker.publication.state_query import overdue
from maia.broker.refusals import HandshakeTooSlow, PeerSilent
from maia.broker.revocation.streams import meet_own_certificates, recheck_statements, unsubscribe_from_issuers
from maia.broker.routing.aggregation import announce_waiting, merge_announced, tune_aggregates
from maia.broker.routing.interests import (
    recheck_own_interests,
    redecide_own_interests,
    withdraw_ended,
)
from maia.broker.routing.received import verify_doubted
from maia.broker.sealed.key_events import answer_waiting, maintain_keys, next_key_moment
from maia.broker.sessions.close import close_link
from maia.broker.sessions.identities import expire_identity
from maia.broker.sessions.links import Link, Role, Stage, ask_to_look_at_link, next_look_at_right_to_connect
from maia.broker.state import BrokerState, just_after, seconds_after, shown_to_every_peer
from maia.broker.subscriptions.registry import recheck_entries, recheck_entry
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
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate, StaleConstitution, VerifiedConstitution
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.routing.table.hops import LOCAL, book_key_of_sealed
from maia.sessions.session import ROUNDS_IN_A_LEASE
from maia.types import Cover


def send_due_slots(state: BrokerState, turn: Turn) -> None:
    """Fill the slots that have come."""
    for type_id, cover in list(_published_here(state, turn.now)):
        slot = turn.now // _length(cover)
        last, state.cover.last[type_id] = state.cover.last.get(type_id), slot
        if last is not None and last < slot:
            _fill(state, type_id, turn)


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


def _fill(state: BrokerState, type_id: bytes, turn: Turn) -> None:
    sealing, slots = state.types.sealing(type_id), state.cover
    assert sealing is not None  # noqa: S101 - it is covered
    slots.taking, slots.is_filled = type_id, False
    try:
        # A frame may turn out to be refused, or a repetition: then the next one has the slot.
        while not slots.is_filled and (waiting := slots.next_frame(type_id)) is not None:
            answer_waiting(state, *waiting, turn)
    finally:
        slots.taking = None
    if not slots.is_filled:
        state.streams.send_cover(type_id, sealing, turn)


def run_expired_timers(state: BrokerState, turn: Turn) -> None:
    """End or recheck every lease, right and link whose timer has expired."""
    if late_us := state.timers.lateness(turn.now):
        _forgive_if_late(state, late_us, turn.now)
    for timer in state.timers.expired(turn.now):
        _run(state, timer, turn)


def _run(state: BrokerState, timer: Timer, turn: Turn) -> None:  # noqa: PLR0912 - a case for each
    match timer:
        case Upkeep():
            _do_upkeep(state, turn)
        case KeepAlive():
            _keep_alive(state, turn)
        case Statements():
            recheck_statements(state, turn)
            verify_doubted(state, turn)
            overdue(state, turn)
        case SyncOverdue():
            state.syncs.end_overdue(turn)
        case FetchMissed():
            state.log_requests.forget_overdue(turn)
            if state.catch_up is not None:
                state.catch_up.begin_due(turn)
        case AnnounceWaiting():
            announce_waiting(state, turn)
        case MergeAnnounced():
            withdraw_ended(state, turn)
            merge_announced(state, timer.type_id, turn)
        case WithdrawEnded():
            withdraw_ended(state, turn)
        case OneTimeAnswers():
            look_at_unanswered(state, turn)
        case ClosePeriods():
            close_periods(state, timer.type_id, turn)
        case _:
            link = state.links.get(timer.link)
            if link is not None and link.stage is not Stage.CLOSING:
                _run_for_link(state, link, timer, turn)


def _run_for_link(
    state: BrokerState,
    link: Link,
    timer: StateQueries | CatchUp | RecheckEntries | CheckLink | IdentityExpires,
    turn: Turn,
) -> None:
    match timer:
        case StateQueries():
            overdue(state, turn)
        case CatchUp() if state.durable is not None:
            state.durable.advance_link(link.id, turn)
        case RecheckEntries():
            recheck_entries(state, link, turn)
        case CheckLink():
            _check_link(state, link, turn)
        case IdentityExpires():
            expire_identity(state, link, turn)


def _do_upkeep(state: BrokerState, turn: Turn) -> None:
    state.router.maintain(turn)
    maintain_keys(state, turn)
    send_due_slots(state, turn)
    recheck_own_interests(state, turn)
    # What is to be kept soon goes along, so that a broker wakes once for both.
    if state.keep_at is not None and state.keep_at <= seconds_after(turn.now, state.settings.lease_s / 4):
        state.keep_at = None
        keep_what_changed(state, turn)
        unsubscribe_from_issuers(state, turn)


def recheck_everything(state: BrokerState, turn: Turn) -> None:
    """Decide every right again: evidence for or against any of them may have changed."""
    state.authoriser.evidence_changed()
    state.keys.evidence_changed()
    state.impairments.changed.update(state.types.sealed())
    for type_id in state.types.sealed():
        state.keys.look_for(type_id, turn)
    recheck_own_interests(state, turn)
    for link in list(state.links.values()):
        if link.is_ready:
            _recheck_connection(state, link, turn)
        for entry in link.entries:
            recheck_entry(state, link, entry, turn)


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


def _keep_alive(state: BrokerState, turn: Turn) -> None:
    """Ping the silent peers, close the links of those that did not answer, and end a period of aggregation.

    Rounds are counted: moments do not tell a silent peer from a broker that slept.
    """
    for link in list(state.links.values()):
        if not link.is_ready:
            continue
        try:
            turn.add(*link.ping())
        except PeerSilent as problem:
            close_link(state, link, problem, turn)
    if state.links:
        begin_rounds(state, turn.now)
    withdraw_ended(state, turn)
    tune_aggregates(state, turn)


def _check_link(state: BrokerState, link: Link, turn: Turn) -> None:
    if not link.is_ready:
        close_link(state, link, HandshakeTooSlow("the handshake took too long"), turn)
    elif _recheck_connection(state, link, turn):
        ask_to_look_at_link(state, link, next_look_at_right_to_connect(link, turn.now))
        challenge_connection(state, link, turn)


def _recheck_connection(state: BrokerState, link: Link, turn: Turn) -> bool:
    """Part from a peer whose right to connect has ended; say whether it has not."""
    assert link.connect is not None  # noqa: S101 - a link is ready only after its right was decided
    try:
        link.connect = state.authoriser.still(link.connect, turn.now)
    except PolicyRefusal as problem:
        close_link(state, link, problem, turn)
        return False
    state.statements.dependencies.note(link.id, link.connect.watched)
    return True


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


def hold_certificates(state: BrokerState, certificates: tuple[SignedCertificate, ...], turn: Turn) -> None:
    """Put these certificates in the place of the broker's own."""
    before = {one.id for one in state.settings.credentials}
    changed = before ^ {one.id for one in certificates}
    if not changed:
        return
    state.settings = replace(state.settings, credentials=certificates)
    state.own_credentials[:] = shown_to_every_peer(certificates)
    state.keys.hold(certificates, turn)
    meet_own_certificates(state)
    redecide_own_interests(state, changed, turn)
    turn.note("own-certificates", new=len(changed - before), held=len(certificates))
    turn.count("maia_own_certificates_changed_total")


def adopt_constitutions(
    state: BrokerState, constitutions: tuple[VerifiedConstitution, ...], turn: Turn
) -> None:
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
        return
    state.settings = replace(state.settings, constitutions=in_force)
    state.authoriser.adopt(in_force)
    state.types.adopt(in_force)
    state.keys.adopt(in_force)
    named = ", ".join(f"{one.quorum} number {one.sequence}" for one in in_force)
    turn.note("constitutions", in_force=named)
    recheck_everything(state, turn)
    for link in list(state.links.values()):
        if link.role is Role.BROKER and state.routes.is_current(link.id):
            # Its entries are proved again in a moment: its own edge may not have got the constitution.
            relied_on = tuple(state.statements.dependencies.certificates_on(link.id))
            state.router.doubt(link, relied_on, turn)
