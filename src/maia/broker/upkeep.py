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
from dataclasses import dataclass, replace

from maia.broker.interests.aggregation import Announcer
from maia.broker.interests.impairment import Impairments
from maia.broker.interests.interests import Interests
from maia.broker.interests.received import ReceivedInterests
from maia.broker.interests.route_sync import RouteSyncs
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.keys.blinded import BlindedIds, CoverSlots
from maia.broker.keys.keys import KeyRequests
from maia.broker.links.challenges import Challenges
from maia.broker.links.links import (
    Link,
    Role,
    Stage,
    ask_to_look_at_link,
    begin_rounds,
    next_look_at_right_to_connect,
)
from maia.broker.own import Own, shown_to_every_peer
from maia.broker.persistence import Persistence
from maia.broker.refusals import HandshakeTooSlow, PeerSilent
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.validity import ValidityTracker
from maia.broker.sessions.close import Closing
from maia.broker.sessions.entries import Entries
from maia.broker.sessions.identities import PeerIdentities
from maia.broker.sessions.key_events import KeyEvents
from maia.broker.sessions.one_time_answers import Continuing
from maia.broker.sessions.revocation import Revocation
from maia.broker.streams import catch_up as logs
from maia.broker.streams.durable import DurableSubscriptions
from maia.broker.streams.log_requests import LogRequests
from maia.broker.streams.records import DeliveryRecords
from maia.broker.streams.state_query import StateAnswers
from maia.broker.streams.streams import Streams
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
    TimerWheel,
    Upkeep,
    WithdrawEnded,
)
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate, StaleConstitution, VerifiedConstitution
from maia.events import Instant, just_after, seconds_after
from maia.policy import PolicyRefusal
from maia.routing.table.hops import LOCAL, book_key_of_sealed
from maia.types import Cover
from maia.wire.effects import LinkId


@dataclass(slots=True, eq=False, repr=False)
class Maintenance:
    """What a broker does by itself."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    routes: Routes
    keys: KeyRequests
    blinded: BlindedIds
    cover: CoverSlots
    statements: ValidityTracker
    router: Router
    streams: Streams
    links: dict[LinkId, Link]
    durable: DurableSubscriptions | None
    catch_up: logs.CatchUp | None
    log_requests: LogRequests
    syncs: RouteSyncs
    impairments: Impairments
    timers: TimerWheel
    received: ReceivedInterests
    announcer: Announcer
    records: DeliveryRecords
    interests: Interests
    challenges: Challenges
    entries: Entries
    state_answers: StateAnswers
    closing: Closing
    revocation: Revocation
    continuing: Continuing
    peer_identities: PeerIdentities
    key_events: KeyEvents
    persistence: Persistence
    keep_at: Instant | None = None

    def send_due_slots(self, turn: Turn) -> None:
        """Fill the slots that have come."""
        for type_id, cover in list(self._published_here(turn.now)):
            slot = turn.now // _length(cover)
            last, self.cover.last[type_id] = self.cover.last.get(type_id), slot
            if last is not None and last < slot:
                self._fill(type_id, turn)

    def next_slot(self, now: Instant) -> Instant | None:
        """Return when the next slot comes."""
        lengths = [_length(cover) for _, cover in self._published_here(now)]
        return min((Instant((now // length + 1) * length) for length in lengths), default=None)

    def _published_here(self, now: Instant) -> Iterator[tuple[bytes, Cover]]:
        """Yield the covered types of which this broker has a publisher."""
        for type_id, cover in self.blinded.covered():
            name = self.blinded.publishing_id(type_id, now)
            if name is not None and self.routes.book.offers(LOCAL, book_key_of_sealed(name)):
                yield type_id, cover

    def _fill(self, type_id: bytes, turn: Turn) -> None:
        sealing, slots = self.types.sealing(type_id), self.cover
        assert sealing is not None  # noqa: S101 - it is covered
        slots.taking, slots.is_filled = type_id, False
        try:
            # A frame may turn out to be refused, or a repetition: then the next one has the slot.
            while not slots.is_filled and (waiting := slots.next_frame(type_id)) is not None:
                self.key_events.answer_waiting(*waiting, turn)
        finally:
            slots.taking = None
        if not slots.is_filled:
            self.streams.send_cover(type_id, sealing, turn)

    def run_expired_timers(self, turn: Turn) -> None:
        """End or recheck every lease, right and link whose timer has expired."""
        if late_us := self.timers.lateness(turn.now):
            self._forgive_if_late(late_us, turn.now)
        for timer in self.timers.expired(turn.now):
            self._run(timer, turn)

    def _run(self, timer: Timer, turn: Turn) -> None:  # noqa: PLR0912 - a case for each
        match timer:
            case Upkeep():
                self._do_upkeep(turn)
            case KeepAlive():
                self._keep_alive(turn)
            case Statements():
                self.revocation.recheck_statements(turn)
                self.received.verify_doubted(turn)
                self.state_answers.overdue(turn)
            case SyncOverdue():
                self.syncs.end_overdue(turn)
            case FetchMissed():
                self.log_requests.forget_overdue(turn)
                if self.catch_up is not None:
                    self.catch_up.begin_due(turn)
            case AnnounceWaiting():
                self.announcer.announce_waiting(turn)
            case MergeAnnounced():
                self.interests.withdraw_ended(turn)
                self.announcer.merge_announced(timer.type_id, turn)
            case WithdrawEnded():
                self.interests.withdraw_ended(turn)
            case OneTimeAnswers():
                self.continuing.look_at_unanswered(turn)
            case ClosePeriods():
                self.records.close_periods(timer.type_id, turn)
            case _:
                link = self.links.get(timer.link)
                if link is not None and link.stage is not Stage.CLOSING:
                    self._run_for_link(link, timer, turn)

    def _run_for_link(
        self,
        link: Link,
        timer: StateQueries | CatchUp | RecheckEntries | CheckLink | IdentityExpires,
        turn: Turn,
    ) -> None:
        match timer:
            case StateQueries():
                self.state_answers.overdue(turn)
            case CatchUp() if self.durable is not None:
                self.durable.advance_link(link.id, turn)
            case RecheckEntries():
                self.entries.recheck_entries(link, turn)
            case CheckLink():
                self._check_link(link, turn)
            case IdentityExpires():
                self.peer_identities.expire_identity(link, turn)

    def _do_upkeep(self, turn: Turn) -> None:
        self.router.maintain(turn)
        self.key_events.maintain_keys(turn)
        self.send_due_slots(turn)
        self.interests.recheck_own_interests(turn)
        # What is to be kept soon goes along, so that a broker wakes once for both.
        if self.keep_at is not None and self.keep_at <= seconds_after(
            turn.now, self.own.settings.lease_s / 4
        ):
            self.keep_at = None
            self.persistence.keep_what_changed(turn)
            self.revocation.unsubscribe_from_issuers(turn)

    def recheck_everything(self, turn: Turn) -> None:
        """Decide every right again: evidence for or against any of them may have changed."""
        self.authoriser.evidence_changed()
        self.keys.evidence_changed()
        self.impairments.changed.update(self.types.sealed())
        for type_id in self.types.sealed():
            self.keys.look_for(type_id, turn)
        self.interests.recheck_own_interests(turn)
        for link in list(self.links.values()):
            if link.is_ready:
                self._recheck_connection(link, turn)
            for entry in link.entries:
                self.entries.recheck_entry(link, entry, turn)

    # ------------------------------------------------------------ the broker

    def schedule_upkeep(self, now: Instant) -> None:
        """Set the timer for the next thing that the broker has to do by itself, if that is due sooner.

        Only what may have changed is asked: all the rest was asked when the timer was set.
        """
        routes = self.routes
        if routes.is_changed:
            if self.keep_at is None:
                self.keep_at = seconds_after(now, self.own.settings.lease_s)
            slot = self.next_slot(now)
            moments = [self.router.next_due(now), self.key_events.next_key_moment(now), slot, self.keep_at]
        else:
            moments = [
                routes.replicate_at,
                routes.sealed_at,
                routes.book.next_due() if routes.is_sent else None,
            ]
        routes.is_changed = routes.is_sooner = routes.is_sent = False
        due = [max(moment, just_after(now)) for moment in moments if moment is not None]
        known = self.timers.moment_of(Upkeep())
        if due and (known is None or min(due) < known or known <= now):
            self.timers.reset(Upkeep(), min(due))

    # ------------------------------------------------------------ links

    def _keep_alive(self, turn: Turn) -> None:
        """Ping silent peers, close the links of those that did not answer, and end a period of aggregation.

        Rounds are counted: moments do not tell a silent peer from a broker that slept.
        """
        for link in list(self.links.values()):
            if not link.is_ready:
                continue
            try:
                turn.add(*link.ping())
            except PeerSilent as problem:
                self.closing.close_link(link, problem, turn)
        if self.links:
            begin_rounds(self.timers, self.own.settings.lease_s, turn.now)
        self.interests.withdraw_ended(turn)
        self.announcer.tune_aggregates(turn)

    def _check_link(self, link: Link, turn: Turn) -> None:
        if not link.is_ready:
            self.closing.close_link(link, HandshakeTooSlow("the handshake took too long"), turn)
        elif self._recheck_connection(link, turn):
            ask_to_look_at_link(self.timers, link, next_look_at_right_to_connect(link, turn.now))
            self.challenges.challenge_connection(link, turn)

    def _recheck_connection(self, link: Link, turn: Turn) -> bool:
        """Part from a peer whose right to connect has ended; say whether it has not."""
        assert link.connect is not None  # noqa: S101 - a link is ready only after its right was decided
        try:
            link.connect = self.authoriser.still(link.connect, turn.now)
        except PolicyRefusal as problem:
            self.closing.close_link(link, problem, turn)
            return False
        self.statements.dependencies.note(link.id, link.connect.watched)
        return True

    def _forgive_if_late(self, late_us: int, now: Instant) -> None:
        """End no lease for a while after this broker has slept: renewals are waiting to be read.

        A broker that is late all the time forgives once in a lease and no more. Rights
        are not forgiven: they end by the clock.
        """
        third = self.own.settings.lease_s / 3
        if late_us < third * 500_000 or now < seconds_after(self.timers.forgives_until, 2 * third):
            return
        self.timers.forgives_until = seconds_after(now, third)
        self.router.forgive(self.timers.forgives_until)
        for link in self.links.values():
            link.silent_rounds = 0

    def hold_certificates(self, certificates: tuple[SignedCertificate, ...], turn: Turn) -> None:
        """Put these certificates in the place of the broker's own."""
        before = {one.id for one in self.own.settings.credentials}
        changed = before ^ {one.id for one in certificates}
        if not changed:
            return
        self.own.settings = replace(self.own.settings, credentials=certificates)
        self.own.shown[:] = shown_to_every_peer(certificates)
        self.keys.hold(certificates, turn)
        self.revocation.meet_own_certificates()
        self.interests.redecide_own_interests(changed, turn)
        turn.note("own-certificates", new=len(changed - before), held=len(certificates))
        turn.count("maia_own_certificates_changed_total")

    def adopt_constitutions(self, constitutions: tuple[VerifiedConstitution, ...], turn: Turn) -> None:
        """Ask these constitutions from now on: what rested on a member that was replaced ends at once."""
        known = {one.quorum: one for one in self.own.settings.constitutions}
        for one in constitutions:
            before = known.get(one.quorum, one)
            if one != before and one.sequence <= before.sequence:
                raise StaleConstitution(
                    f"constitution number {one.sequence} of `{one.quorum}` was shown, "
                    f"and number {before.sequence} is in force here"
                )
            known[one.quorum] = one
        in_force = tuple(known.values())
        if in_force == self.own.settings.constitutions:
            return
        self.own.settings = replace(self.own.settings, constitutions=in_force)
        self.authoriser.adopt(in_force)
        self.types.adopt(in_force)
        self.keys.adopt(in_force)
        named = ", ".join(f"{one.quorum} number {one.sequence}" for one in in_force)
        turn.note("constitutions", in_force=named)
        self.recheck_everything(turn)
        for link in list(self.links.values()):
            if link.role is Role.BROKER and self.routes.is_current(link.id):
                # Its entries are proved again in a moment: its own edge may not have got the constitution.
                relied_on = tuple(self.statements.dependencies.certificates_on(link.id))
                self.router.doubt(link, relied_on, turn)


def _length(cover: Cover) -> int:
    return cover.every_ms * 1000
