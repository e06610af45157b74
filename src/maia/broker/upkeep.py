"""What does the broker do when a timer expires?

Timers run before every input, so that no frame passes on a right that has
ended, however late the clock's own tick arrives (A35).
"""

from __future__ import annotations

from dataclasses import dataclass

from maia.broker.interests.aggregation import Announcer
from maia.broker.interests.interests import Interests
from maia.broker.interests.received import ReceivedInterests
from maia.broker.interests.route_sync import RouteSyncs
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.links.links import (
    Link,
    Stage,
    begin_rounds,
)
from maia.broker.links.pending import Pending
from maia.broker.own import Own
from maia.broker.persistence import Persistence
from maia.broker.refusals import PeerSilent
from maia.broker.sessions.close import Closing, Connections
from maia.broker.sessions.covering import Covering
from maia.broker.sessions.entries import Entries
from maia.broker.sessions.identities import PeerIdentities
from maia.broker.sessions.key_events import KeyEvents
from maia.broker.sessions.revocation import Revocation
from maia.broker.sessions.type_queries import TypeQueries
from maia.broker.streams import catch_up as logs
from maia.broker.streams.borders import Borders
from maia.broker.streams.disclosures import DeliveryRecords
from maia.broker.streams.durable import DurableSubscriptions
from maia.broker.streams.log_requests import LogRequests
from maia.broker.streams.state_query import StateAnswers
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
    TypesOverdue,
    Upkeep,
    WithdrawEnded,
)
from maia.broker.turn import Turn
from maia.events import Instant, just_after, seconds_after
from maia.wire.effects import LinkId


@dataclass(slots=True, eq=False, repr=False)
class Maintenance:
    """What a broker does by itself."""

    own: Own
    routes: Routes
    router: Router
    links: dict[LinkId, Link]
    durable: DurableSubscriptions | None
    catch_up: logs.CatchUp | None
    log_requests: LogRequests
    syncs: RouteSyncs
    type_queries: TypeQueries
    timers: TimerWheel
    received: ReceivedInterests
    announcer: Announcer
    records: DeliveryRecords
    borders: Borders
    interests: Interests
    pending: Pending
    entries: Entries
    state_answers: StateAnswers
    closing: Closing
    revocation: Revocation
    connections: Connections
    peer_identities: PeerIdentities
    key_events: KeyEvents
    persistence: Persistence
    covering: Covering
    keep_at: Instant | None = None

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
            case TypesOverdue():
                self.type_queries.end_overdue(turn)
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
                self.pending.give_up(turn)
            case ClosePeriods():
                self.records.close_periods(timer.type_id, turn)
                self.borders.close_periods(timer.type_id, turn)
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
                self.connections.look(link, turn)
            case IdentityExpires():
                self.peer_identities.expire_identity(link, turn)

    def _do_upkeep(self, turn: Turn) -> None:
        self.router.maintain(turn)
        self.key_events.maintain_keys(turn)
        self.covering.send_due_slots(turn)
        self.interests.recheck_own_interests(turn)
        self.revocation.sign_subscriptions_again(turn)
        # What is to be kept soon goes along, so that a broker wakes once for both.
        if self.keep_at is not None and self.keep_at <= seconds_after(
            turn.now, self.own.settings.lease_s / 4
        ):
            self.keep_at = None
            self.persistence.keep_what_changed(turn)
            self.revocation.unsubscribe_from_issuers(turn)

    def schedule_upkeep(self, now: Instant) -> None:
        """Set the timer for the next thing that the broker has to do by itself, if that is due sooner.

        Only what may have changed is asked: all the rest was asked when the timer was set.
        """
        routes = self.routes
        if routes.is_changed:
            if self.keep_at is None:
                self.keep_at = seconds_after(now, self.own.settings.lease_s)
            slot = self.covering.next_slot(now)
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
