"""How do validity statements reach this broker, and what ends when a certificate is revoked?

The broker subscribes to the validity stream of every issuer that a certificate in use
here names as its tester, asks for its last statement, and unsubscribes some time after
the last such certificate (dissertation 6.3). A statement is accepted before the
frame that carries it goes anywhere, and so before its publisher is answered: an
issuer that was answered can rely on the revocation. Where an issuer has no stream,
the broker's process may fetch statements at addresses that its operator named
(`api/testers.py`).

When a certificate counts no more, or counts again, exactly what was decided from it
is decided again: subscriptions, advertisements, rights to connect, interests and offers
of neighbours on behalf of their clients, plaintext for neighbours, this broker's
own interests and keys, and retained events. Holders that lose something receive
an answer at once, with the code (P7, A35).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Final

from maia.broker.interests.entries import Proof, new_proof
from maia.broker.interests.interests import Interests
from maia.broker.interests.named_rights import NamedRights
from maia.broker.interests.outbox import Outbox
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.keys.keys import KeyRequests
from maia.broker.keys.publisher_rights import PublisherRights
from maia.broker.links.links import (
    OWN_LINK,
    Advertisement,
    Entry,
    Link,
    Role,
    Stage,
    Subscription,
    end_of_entry,
)
from maia.broker.links.projection import certificates_behind
from maia.broker.links.transit import Transit, from_carried
from maia.broker.log.retained import RetainedFrames
from maia.broker.own import Own
from maia.broker.refusals import BrokerNoMore
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.validity import StatementIssuer, ValidityTracker
from maia.broker.sessions.close import Connections
from maia.broker.sessions.entries import Entries
from maia.broker.streams.state_query import Retention, StateAnswers
from maia.broker.timers import Statements, TimerWheel
from maia.broker.turn import Turn
from maia.credentials import (
    Action,
    Principal,
    SignedCertificate,
    SignedStatement,
    TestKind,
    statement_from_bytes,
)
from maia.credentials.brokers import made_by
from maia.errors import MaiaError
from maia.events import SECOND, Instant, seconds_after
from maia.policy import PolicyRefusal
from maia.predicates import ALWAYS
from maia.routing.table.hops import LOCAL
from maia.sessions.session import Session
from maia.sessions.statements import refused_statement
from maia.types import validity_type_name
from maia.types.verified import STATEMENT
from maia.validity import Changed
from maia.wire.codec import decode
from maia.wire.effects import Effect, LinkId
from maia.wire.messages import Carried, StateFrame
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

_ID_BYTES: Final = 16
_ASK_AGAIN_S: Final = 2.0
_ASK_AHEAD_S: Final = 5.0
"""How long before a statement ends others are asked for the next one, if it has not come by itself.

It may have been published while a broker on its way was down, and what it vouches for would end.
"""
_LEASES_KEPT: Final = 2
"""For how many leases a stream is wanted for which there is no use at the moment."""


@dataclass(slots=True, eq=False, repr=False)
class Revocation:
    """Statements that arrive, and what falls with a certificate."""

    own: Own
    authoriser: Authoriser
    routes: Routes
    keys: KeyRequests
    writers: PublisherRights
    named_rights: NamedRights
    statements: ValidityTracker
    router: Router
    links: dict[LinkId, Link]
    retained: RetainedFrames
    timers: TimerWheel
    outbox: Outbox
    retention: Retention
    interests: Interests
    entries: Entries
    state_answers: StateAnswers
    connections: Connections

    # ------------------------------------------------------------ streams that are wanted

    def begin_validity(self, now: Instant) -> None:
        """Go on from the statements that were kept, as of now: what ends from here on is told."""
        self.statements.monitor.advance(now)
        self._look_at_next_change()
        self.meet_own_certificates()

    def meet_own_certificates(self) -> None:
        """Take note of the testers that this broker's own certificates name."""
        own = frozenset(signed.id for signed in self.own.settings.credentials)
        self.statements.met(self.own.settings.credentials, own)
        self.statements.dependencies.note(OWN_LINK, own)

    def subscribe_to_issuers(self, turn: Turn) -> None:
        """Subscribe to the streams of issuers whose statements are needed, and ask for their last ones."""
        tracker, now = self.statements, turn.now
        new, tracker.new = tracker.new, {}
        evicted, tracker.evicted = tracker.evicted, []
        self._forget_decisions()
        for issuer in evicted:
            self._give_up(issuer, turn)
        for issuer in new.values():
            issuer.met_at = now
            is_first = not issuer.is_wanted
            if is_first:
                issuer.is_wanted = True
                self._subscribe(issuer, turn)
            # What is at hand was shown by a peer that has use for it, and need not be the newest.
            if is_first or tracker.is_missed(issuer, now):
                self._ask(issuer, turn)

    def _subscribe(self, issuer: StatementIssuer, turn: Turn) -> None:
        """Subscribe to an issuer's stream, or sign that again for the brokers that were shown it."""
        name, random, now = validity_type_name(issuer.by), self.own.random, turn.now
        asked = EdgeRequest(
            Action.SUBSCRIBE, self.own.settings.network, name, ALWAYS, random(16), now, random(16)
        )
        # Every peer that may connect may receive this; certificates for types are not shown.
        proof = new_proof(request_to_bytes(sign_request(asked, self.own.key)))
        self.routes.mark_changed(now)
        book, kind, entry_id = self.routes.book, issuer.type_id, _entry_id(issuer)
        is_again = book.entry(LOCAL, kind, entry_id) is not None
        updates = book.local_subscribe(kind, entry_id, ALWAYS, proof)
        if is_again:
            updates += book.send_one_again(LOCAL, kind, entry_id)
        self.outbox.route_messages(updates, turn)

    def sign_subscriptions_again(self, turn: Turn) -> None:
        """Sign again what was signed for streams of issuers, so that it counts at other brokers (C15)."""
        for issuer in self.statements.issuers.values():
            entry = self.routes.book.entry(LOCAL, issuer.type_id, _entry_id(issuer))
            signed_at = entry.baggage.signed_at if entry and isinstance(entry.baggage, Proof) else None
            if signed_at is not None and self.own.settings.is_to_be_signed_again(signed_at, turn.now):
                self._subscribe(issuer, turn)

    def _ask(self, issuer: StatementIssuer, turn: Turn) -> None:
        """Ask for an issuer's last statements, here and elsewhere, unless that was done a moment ago."""
        asked_at, lease_s, now = issuer.asked_at, self.own.settings.lease_s, turn.now
        issuer.sought_at = issuer.sought_at or now
        begun = (issuer.met_at or now, issuer.sought_at)
        is_hopeful = now < seconds_after(max(begun), lease_s)
        every_s = _ASK_AGAIN_S if is_hopeful else max(_ASK_AGAIN_S, lease_s)
        if asked_at is not None and now < (again_at := seconds_after(asked_at, every_s)):
            self.timers.add(Statements(), again_at)
            return
        issuer.asked_at = now
        self.timers.add(Statements(), seconds_after(now, every_s))
        for _, _, said in self.retained.of_type(issuer.type_id):
            if isinstance(said.frame, Transit):
                self.receive_frame(said.frame, turn)
        self.state_answers.ask_for_own(issuer.type_id, turn)

    def unsubscribe_from_issuers(self, turn: Turn) -> None:
        """Give up streams for which there was no use for a while."""
        after_us = _LEASES_KEPT * self.own.settings.lease_s * 1_000_000
        for issuer in self.statements.given_up(turn.now, after_us=after_us):
            self._give_up(issuer, turn)
        self._forget_decisions()

    def _forget_decisions(self) -> None:
        """Forget what was decided from certificates whose statements are not looked for any more.

        A request that was refused for want of a statement would be refused when it has come.
        """
        forgotten, self.statements.forgotten = self.statements.forgotten, set()
        if forgotten:
            self.authoriser.forget(forgotten)
            self.writers.forget(forgotten)
            self.named_rights.forget(forgotten)

    def _give_up(self, issuer: StatementIssuer, turn: Turn) -> None:
        if issuer.is_wanted:
            self.routes.mark_changed(turn.now)
            gone = self.routes.book.local_unsubscribe(issuer.type_id, _entry_id(issuer))
            self.outbox.route_messages(gone, turn)

    # ------------------------------------------------------------ statements that arrive

    def receive_frame(self, transit: Transit, turn: Turn) -> None:
        """Hear the statements in a frame of a validity stream that is listened to."""
        by = self.statements.streams[transit.type_id]
        column = transit.frame.columns.get(STATEMENT.uid)
        for data in () if column is None else column.values:
            if not isinstance(data, bytes):
                continue
            try:
                signed = statement_from_bytes(data)
            except MaiaError as problem:
                turn.add(refused_statement(problem))
                continue
            # Another issuer's statement proves itself too, but does not belong into this stream.
            if signed.statement.by == by:
                self.receive_statement(signed, turn)

    def receive_statement(self, signed: SignedStatement, turn: Turn) -> None:
        """Take a statement in, and recheck what depends on the certificates that it concerns."""
        turn.add(*self.statements.intake.take([signed], turn.now, partial(self._changed, turn)))

    def receive_held(self, session: Session, turn: Turn) -> None:
        """Take in the statements of a peer by issuers whose statements this broker has a reason to want.

        What follows is acted upon even if the peer's own request is refused.
        """
        if session.statements:
            tracker = self.statements
            shown = session.take_statements(tracker.wants)
            turn.say_first(*tracker.intake.take(shown, turn.now, partial(self._changed, turn)))

    def _changed(self, turn: Turn, changed: Changed, now: Instant) -> list[Effect]:
        """Return what follows from a new statement, or from the end of one."""
        tracker, by, part = self.statements, changed.by, turn.beside()
        touched = tracker.touched_by(changed)
        turn.keep(tracker.intake.kept(by))
        if changed.problem is not None:
            part.note("statement", by=str(by), code=changed.problem.code, why=changed.problem.message)
        if changed.is_news and self.keys.has_managers:
            self.keys.statement_heard(by, part)
        self._look_at_next_change()
        self._look_before_the_end(by, now)
        if touched:
            self.recheck_dependents(touched, part)
        return part.effects

    def receive_state_frame(self, link: Link, message: StateFrame, turn: Turn) -> None:
        """Hear the statements in an answer to a question about the state, and pass it on."""
        is_awaited, passed_on = message.question in self.state_answers.questions, turn.beside()
        self.state_answers.pass_on_state_frame(link, message, passed_on)
        frame = decode(message.frame) if is_awaited else None
        if isinstance(frame, Carried) and frame.type_id in self.statements.streams:
            self.receive_frame(from_carried(frame, {}), turn)
        turn.add(*passed_on.effects)

    def recheck_statements(self, turn: Turn) -> None:
        """End what depends on statements that have ended by now, and ask again for those that are missing."""
        tracker = self.statements
        turn.add(*tracker.intake.advance(turn.now, partial(self._changed, turn)))
        self._look_at_next_change()
        ahead = seconds_after(turn.now, _ASK_AHEAD_S)
        for issuer in list(tracker.issuers.values()):
            if tracker.is_missed(issuer, ahead):
                self._ask(issuer, turn)
            else:
                issuer.sought_at = None

    def _look_at_next_change(self) -> None:
        """Set the timer for the moment at which a statement ends, or one that came early begins."""
        if (moment := self.statements.monitor.next_change()) is not None:
            self.timers.add(Statements(), moment)

    def _look_before_the_end(self, by: Principal, now: Instant) -> None:
        """Set the timer for some seconds before what an issuer has stated ends, on a whole second."""
        ends = (self.statements.monitor.fresh_until(by, now, kind) for kind in _WITH_A_PERIOD)
        for end in ends:
            at = None if end is None else seconds_after(end, -_ASK_AHEAD_S)
            if at is not None and at > now:
                self.timers.add(Statements(), Instant(at - at % SECOND + SECOND))

    def certificates_without_statement(self, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return certificates in use that demand a statement which is not at hand."""
        tracker = self.statements
        missed = (issuer for issuer in tracker.issuers.values() if tracker.is_missed(issuer, now))
        found = {one: None for issuer in missed for one in sorted(issuer.certificates)[:_CERTIFICATES_MAX]}
        known = (tracker.certificates.get(one) for one in found)
        return tuple(one for one in known if one is not None)[:_CERTIFICATES_MAX]

    def receive_fetched(self, statements: Iterable[SignedStatement], turn: Turn) -> None:
        """Accept statements that were fetched, by issuers whose statements are needed here."""
        for signed in statements:
            if signed.statement.by in self.statements.issuers:
                self.receive_statement(signed, turn)

    def recheck_dependents(self, certificates: Collection[bytes], turn: Turn) -> None:
        """Decide again whatever depends on one of these certificates, or would if it counted."""
        changed = frozenset(certificates)
        links = self.statements.dependencies.links_on(changed)
        self.authoriser.forget(certificates)
        self.writers.forget(certificates)
        self.named_rights.forget(certificates)
        for number in links:
            link = self.links.get(number)
            if link is not None and link.stage is not Stage.CLOSING:
                self._recheck_link(link, changed, turn)
        self.router.recheck(certificates, turn)
        self.retention.forget_retained(certificates, turn)
        if OWN_LINK not in links:
            return
        self.interests.redecide_own_interests(certificates, turn)
        own = self.own.settings.credentials
        if any(signed.id in certificates for signed in own):
            self.keys.is_touched = True  # the keys go at the end of the turn
            check = self.statements.monitor.check
            lost = sum(check(signed, turn.now) is not None for signed in own)
            turn.note("own-certificates", lost=lost, held=len(own))
            self._let_clients_go(turn)
            turn.count("maia_own_certificates_changed_total")

    def _let_clients_go(self, turn: Turn) -> None:
        """Part from clients once this broker is none any more; whoever made it one goes on speaking to it."""
        own = self.own.settings.credentials
        if not self.statements.is_broker_no_more(self.own.principal, own, turn.now):
            return
        stays = {self.own.principal, *made_by(self.own.principal, own)}
        for link in list(self.links.values()):
            if link.is_ready and link.role is Role.CLIENT and link.peer not in stays:
                self.connections.closing.close_link(link, BrokerNoMore(), turn)

    def _recheck_link(self, link: Link, certificates: frozenset[bytes], turn: Turn) -> None:
        if not self.connections.evidence_changed(link, certificates, turn):
            return
        touched = [entry for entry in link.entries if entry.basis.depends_on(certificates)]
        self._decide_again(link, touched, turn)
        for entry in list(link.advertisements.values()):
            event_type = entry.right.event_type
            if event_type.super_type is not None and not certificates_behind(event_type).isdisjoint(
                certificates
            ):
                self.entries.project_again(link, entry, turn)
        link.shares.clear()
        if link.role is Role.BROKER and self.routes.is_current(link.id):
            self.router.doubt(link, certificates, turn)

    def _decide_again(self, link: Link, entries: Iterable[Entry], turn: Turn) -> None:
        """End what is refused now, all of it together; the others keep what is left."""
        now = turn.now
        standing: list[tuple[Entry, Authorisation]] = []
        fallen: dict[MaiaError, list[Entry]] = {}
        refused: dict[int, MaiaError] = {}  # by the identity of the basis, which the entries keep alive
        for entry in entries:
            basis = id(entry.basis)
            if basis in refused:
                fallen[refused[basis]].append(entry)
                continue
            try:
                standing.append((entry, self.authoriser.decide_again(entry.right, now)))
            except PolicyRefusal as problem:
                why = self.entries.why_lost(entry, entry.right.pool, problem, now)
                fallen.setdefault(why, []).append(entry)
                if why is self.authoriser.refusal_of_all(entry.right, now):
                    refused[basis] = why
        for reason, some in fallen.items():
            subscriptions = [entry for entry in some if isinstance(entry, Subscription)]
            self.entries.end_revoked_subscriptions(link, subscriptions, turn, reason)
            for entry in some:
                if isinstance(entry, Advertisement):
                    self.entries.end_advertisement(link, entry, turn, reason)
            # What is sent goes first; log lines and metrics can wait.
            turn.after(link.id, partial(_note_refusals, link, some, reason))
        for entry, right in standing:
            self.entries.register_again(link, entry, right, turn)


def _entry_id(issuer: StatementIssuer) -> bytes:
    return sha256(b"maia/1/voucher" + issuer.type_id).digest()[:_ID_BYTES]


_WITH_A_PERIOD: Final = (TestKind.TIMED_CRL, TestKind.REVALIDATION)
_CERTIFICATES_MAX: Final = 256
"""Certificates that are named at a time: for each tester, one is enough to know where it may be."""


def _note_refusals(link: Link, entries: Collection[Entry], problem: MaiaError, turn: Turn) -> None:
    code, principal = problem.code, str(link.peer)
    for one in entries:
        turn.note("refused", **end_of_entry(one, code, principal))
    turn.count("maia_refused_total", len(entries), code=code)
