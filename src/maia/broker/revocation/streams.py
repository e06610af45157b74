"""How do validity statements reach this broker, and what ends when a certificate is revoked?

The broker subscribes to the validity stream of every issuer that a certificate in use
here names as its tester, asks for its last statement, and unsubscribes some time after
the last such certificate (dissertation 6.3). A statement is accepted before the
frame that carries it goes anywhere, and so before its publisher is answered: an
issuer that was answered can rely on the revocation. Where an issuer has no stream,
the broker's process may fetch statements at addresses that its operator named
(`validity/allowed_locations.py`).

When a certificate counts no more, or counts again, exactly what was decided from it
is decided again: subscriptions, advertisements, rights to connect, interests and offers
of neighbours on behalf of their clients, plaintext for neighbours, this broker's
own interests and keys, and retained events. Holders that lose something receive
an answer at once, with the code (P7, A35).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from hashlib import sha256
from typing import Final

from maia.broker.access.authorisation import Authorisation
from maia.broker.access.authoriser import refusal_effects
from maia.broker.durable.recording import OWN_LINK
from maia.broker.publication.projection import certificates_behind
from maia.broker.publication.retained import forget_retained
from maia.broker.publication.state_query import ask_for_own, pass_on_state_frame
from maia.broker.publication.transit import Transit, from_carried
from maia.broker.revocation.validity import StatementIssuer
from maia.broker.routing.interests import redecide_own_interests
from maia.broker.routing.outbox import new_proof, route_messages
from maia.broker.sessions.close import close_link
from maia.broker.sessions.links import (
    Advertisement,
    Entry,
    Link,
    Role,
    Stage,
    Subscription,
    end_of_entry,
)
from maia.broker.state import BrokerState, seconds_after
from maia.broker.streams.run import Rest
from maia.broker.subscriptions.registry import (
    end_advertisement,
    end_revoked_subscriptions,
    project_again,
    register_again,
    why_lost,
)
from maia.broker.timers import Statements
from maia.credentials import Action, SignedCertificate, SignedStatement, statement_from_bytes
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.predicates import ALWAYS
from maia.sessions.session import Session
from maia.sessions.statements import refused_statement
from maia.types import validity_type_name
from maia.types.verified import STATEMENT
from maia.validity import Changed
from maia.wire.codec import decode
from maia.wire.effects import Count, Effect, Note
from maia.wire.messages import Carried, StateFrame
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

_ID_BYTES: Final = 16
_ASK_AGAIN_S: Final = 4.0
_LEASES_KEPT: Final = 2
"""For how many leases a stream is wanted for which there is no use at the moment."""


# ------------------------------------------------------------ streams that are wanted


def begin_validity(state: BrokerState, now: Instant) -> None:
    """Go on from the statements that were kept, as of now: what ends from here on is told."""
    state.statements.monitor.advance(now)
    _look_at_next_change(state)
    meet_own_certificates(state)


def meet_own_certificates(state: BrokerState) -> None:
    """Take note of the testers that this broker's own certificates name."""
    own = frozenset(signed.id for signed in state.settings.credentials)
    state.statements.met(state.settings.credentials, own)
    state.statements.dependencies.note(OWN_LINK, own)


def subscribe_to_issuers(state: BrokerState, now: Instant) -> list[Effect]:
    """Subscribe to the streams of issuers whose statements are needed, and ask for their last ones."""
    tracker, effects = state.statements, list[Effect]()
    new, tracker.new = tracker.new, {}
    evicted, tracker.evicted = tracker.evicted, []
    for issuer in evicted:
        effects += _given_up(state, issuer, now)
    for issuer in new.values():
        issuer.met_at = now
        is_first = not issuer.is_wanted
        if is_first:
            issuer.is_wanted = True
            name, random = validity_type_name(issuer.by), state.random
            asked = EdgeRequest(
                Action.SUBSCRIBE, state.settings.network, name, ALWAYS, random(16), now, random(16)
            )
            # Every peer that may connect may receive this; certificates for types are not shown on the way.
            proof = new_proof(request_to_bytes(sign_request(asked, state.key)))
            state.routes.mark_changed(now)
            book, entry_id = state.routes.book, _entry_id(issuer)
            effects += route_messages(state, book.local_subscribe(issuer.type_id, entry_id, ALWAYS, proof))
        # What is at hand was shown by a peer that has use for it, and need not be the newest.
        effects += _asked(state, issuer, now) if is_first or tracker.is_missed(issuer, now) else []
    return effects


def _asked(state: BrokerState, issuer: StatementIssuer, now: Instant) -> list[Effect]:
    """Ask for an issuer's last statements, here and elsewhere, unless that was done a moment ago."""
    asked_at, lease_s = issuer.asked_at, state.settings.lease_s
    is_new = issuer.met_at is None or now < seconds_after(issuer.met_at, lease_s)
    every_s = _ASK_AGAIN_S if is_new else max(_ASK_AGAIN_S, lease_s)
    if asked_at is not None and now < seconds_after(asked_at, every_s):
        return []
    issuer.asked_at = now
    state.timers.add(Statements(), seconds_after(now, every_s))
    effects: list[Effect] = []
    for _, _, said in state.retained.of_type(issuer.type_id):
        effects += receive_frame(state, said.frame, now) if isinstance(said.frame, Transit) else []
    return [*effects, *ask_for_own(state, issuer.type_id, now)]


def unsubscribe_from_issuers(state: BrokerState, now: Instant) -> list[Effect]:
    """Give up streams for which there was no use for a while."""
    effects: list[Effect] = []
    after_us = _LEASES_KEPT * state.settings.lease_s * 1_000_000
    for issuer in state.statements.given_up(now, after_us=after_us):
        effects += _given_up(state, issuer, now)
    return effects


def _given_up(state: BrokerState, issuer: StatementIssuer, now: Instant) -> list[Effect]:
    if not issuer.is_wanted:
        return []
    state.routes.mark_changed(now)
    return route_messages(state, state.routes.book.local_unsubscribe(issuer.type_id, _entry_id(issuer)))


def _entry_id(issuer: StatementIssuer) -> bytes:
    return sha256(b"maia/1/voucher" + issuer.type_id).digest()[:_ID_BYTES]


# ------------------------------------------------------------ statements that arrive


def receive_frame(state: BrokerState, transit: Transit, now: Instant) -> list[Effect]:
    """Hear the statements in a frame of a validity stream that is listened to."""
    by = state.statements.streams[transit.type_id]
    column = transit.frame.columns.get(STATEMENT.uid)
    effects: list[Effect] = []
    for data in () if column is None else column.values:
        if not isinstance(data, bytes):
            continue
        try:
            signed = statement_from_bytes(data)
        except MaiaError as problem:
            effects.append(refused_statement(problem))
            continue
        # Another issuer's statement proves itself too, but does not belong into this stream.
        effects += receive_statement(state, signed, now) if signed.statement.by == by else []
    return effects


def receive_statement(state: BrokerState, signed: SignedStatement, now: Instant) -> list[Effect]:
    """Take a statement in, and recheck what depends on the certificates that it concerns."""
    return state.statements.intake.take([signed], now, partial(_changed, state))


def receive_held(state: BrokerState, session: Session, now: Instant) -> None:
    """Take in the statements of a peer by issuers whose statements this broker has a reason to want."""
    if session.statements:
        tracker = state.statements
        tracker.intake.take_shown(session, tracker.wants, now, partial(_changed, state))


def _changed(state: BrokerState, changed: Changed, now: Instant) -> list[Effect]:
    tracker, by, effects = state.statements, changed.by, list[Effect]()
    touched = tracker.touched_by(changed)
    state.to_keep.append(tracker.intake.kept(by))
    if changed.problem is not None:
        odd = changed.problem
        effects.append(Note("statement", {"by": str(by), "code": odd.code, "why": odd.message}))
    if changed.is_news and state.keys.has_managers:
        effects += state.keys.statement_heard(by, now)
    _look_at_next_change(state)
    return [*effects, *recheck_dependents(state, touched, now)] if touched else effects


def receive_state_frame(state: BrokerState, link: Link, message: StateFrame, now: Instant) -> list[Effect]:
    """Hear the statements in an answer to a question about the state, and pass it on."""
    is_awaited = message.question in state.questions
    effects = pass_on_state_frame(state, link, message, now)
    frame = decode(message.frame) if is_awaited else None
    if not isinstance(frame, Carried) or frame.type_id not in state.statements.streams:
        return effects
    return [*receive_frame(state, from_carried(frame, {}), now), *effects]


def recheck_statements(state: BrokerState, now: Instant) -> list[Effect]:
    """End what depends on statements that have ended by now, and ask again for those that are missing."""
    tracker = state.statements
    effects = tracker.intake.advance(now, partial(_changed, state))
    _look_at_next_change(state)
    for issuer in list(tracker.issuers.values()):
        effects += _asked(state, issuer, now) if tracker.is_missed(issuer, now) else []
    return effects


def _look_at_next_change(state: BrokerState) -> None:
    """Set the timer for the moment at which a statement ends, or one that came early begins."""
    if (moment := state.statements.monitor.next_change()) is not None:
        state.timers.add(Statements(), moment)


_CERTIFICATES_MAX: Final = 256
"""Certificates that are named at a time: for each tester, one is enough to know where it may be."""


def certificates_without_statement(state: BrokerState, now: Instant) -> tuple[SignedCertificate, ...]:
    """Return certificates in use that demand a statement which is not at hand."""
    tracker = state.statements
    missed = (issuer for issuer in tracker.issuers.values() if tracker.is_missed(issuer, now))
    found = {one: None for issuer in missed for one in sorted(issuer.certificates)[:_CERTIFICATES_MAX]}
    known = (tracker.certificates.get(one) for one in found)
    return tuple(one for one in known if one is not None)[:_CERTIFICATES_MAX]


def receive_fetched(state: BrokerState, statements: Iterable[SignedStatement], now: Instant) -> list[Effect]:
    """Accept statements that were fetched, by issuers whose statements are needed here."""
    effects: list[Effect] = []
    for signed in statements:
        if signed.statement.by in state.statements.issuers:
            effects += receive_statement(state, signed, now)
    return effects


def recheck_dependents(state: BrokerState, certificates: Collection[bytes], now: Instant) -> list[Effect]:
    """Decide again whatever depends on one of these certificates, or would if it counted."""
    changed = frozenset(certificates)
    links = state.statements.dependencies.links_on(changed)
    state.authoriser.forget(certificates)
    state.writers.forget(certificates)
    effects: list[Effect] = []
    for number in links:
        link = state.links.get(number)
        if link is not None and link.stage is not Stage.CLOSING:
            effects += _recheck_link(state, link, changed, now)
    effects += state.router.recheck(certificates, now)
    effects += forget_retained(state, certificates, now)
    if OWN_LINK not in links:
        return effects
    effects += redecide_own_interests(state, certificates, now)
    own = state.settings.credentials
    if not any(signed.id in certificates for signed in own):
        return effects
    state.keys.is_touched = True  # the keys go at the end of the turn
    check = state.statements.monitor.check
    fields = {"lost": sum(check(signed, now) is not None for signed in own), "held": len(own)}
    return [*effects, Note("own-certificates", fields), Count("maia_own_certificates_changed_total")]


def _recheck_link(
    state: BrokerState, link: Link, certificates: frozenset[bytes], now: Instant
) -> list[Effect]:
    connect = link.connect
    if connect is not None and connect.depends_on(certificates):
        try:
            link.connect = state.authoriser.decide_again(connect, now)
        except PolicyRefusal as problem:
            refused = refusal_effects(problem, link.peer, link=link.id, asked="Connect")
            return [*close_link(state, link, problem, now), *refused]
        state.statements.dependencies.note(link.id, link.connect.watched)
    touched = [entry for entry in link.entries if entry.basis.depends_on(certificates)]
    effects = _decide_again(state, link, touched, now)
    for entry in list(link.advertisements.values()):
        event_type = entry.right.event_type
        if event_type.super_type is not None and not certificates_behind(event_type).isdisjoint(certificates):
            effects += project_again(state, link, entry, now)
    link.shares.clear()
    if link.role is Role.BROKER and state.routes.is_current(link.id):
        effects += state.router.doubt(link, certificates, now)
    return effects


def _decide_again(state: BrokerState, link: Link, entries: Iterable[Entry], now: Instant) -> list[Effect]:
    """End what is refused now, all of it together; the others keep what is left."""
    standing: list[tuple[Entry, Authorisation]] = []
    fallen: dict[MaiaError, list[Entry]] = {}
    refused: dict[int, MaiaError] = {}  # by the identity of the basis, which the entries keep alive
    for entry in entries:
        basis = id(entry.basis)
        if basis in refused:
            fallen[refused[basis]].append(entry)
            continue
        try:
            standing.append((entry, state.authoriser.decide_again(entry.right, now)))
        except PolicyRefusal as problem:
            why = why_lost(state, entry, entry.right.pool, problem, now)
            fallen.setdefault(why, []).append(entry)
            if why is state.authoriser.refusal_of_all(entry.right, now):
                refused[basis] = why
    effects: list[Effect] = []
    for reason, some in fallen.items():
        subscriptions = [entry for entry in some if isinstance(entry, Subscription)]
        effects += end_revoked_subscriptions(state, link, subscriptions, now, reason)
        for entry in some:
            if isinstance(entry, Advertisement):
                effects += end_advertisement(state, link, entry, now, reason)
        # What is sent goes first; log lines and metrics can wait.
        state.rest.append(Rest(link.id, partial(_refusals, link, some, reason)))
    for entry, right in standing:
        effects += register_again(state, link, entry, right, now)
    return effects


def _refusals(link: Link, entries: Collection[Entry], problem: MaiaError) -> list[Effect]:
    code, principal = problem.code, str(link.peer)
    lines = [Note("refused", end_of_entry(one, code, principal)) for one in entries]
    return [*lines, Count("maia_refused_total", len(entries), labels={"code": code})]
