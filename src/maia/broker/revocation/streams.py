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
own interests and keys, and retained events. Holders that lose something are told at
once, with the code (P7, A35).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from hashlib import sha256
from typing import Final

from maia.broker.access.authorisation import Authorisation
from maia.broker.access.authoriser import refusal_effects
from maia.broker.durable.recording import OWN_LINK
from maia.broker.publication.retained import forget_last_said
from maia.broker.publication.state_query import ask_for_own, hear_state_frame
from maia.broker.publication.transit import Transit, from_carried
from maia.broker.revocation.validity import StatementIssuer
from maia.broker.routing.interests import look_at_told_again
from maia.broker.routing.outbox import new_proof, route_messages
from maia.broker.routing.own_interests import look_at_own_interests_again
from maia.broker.sessions.close import close_link
from maia.broker.sessions.links import Advertisement, Entry, Link, Role, Stage, Subscription
from maia.broker.state import BrokerState, Rest, just_after, seconds_after
from maia.broker.subscriptions.recheck import stand_on, why_lost
from maia.broker.subscriptions.registry import end_advertisement, let_subscriptions_fall
from maia.broker.timers import Statements
from maia.credentials import Action, Heard, SignedCertificate, SignedStatement, statement_from_bytes
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.predicates import ALWAYS
from maia.sessions.session import Session
from maia.sessions.statements import refused_statement
from maia.types import validity_type_name
from maia.types.validity_stream import STATEMENT
from maia.wire.codec import decode
from maia.wire.effects import Count, Effect, Note
from maia.wire.messages import Carried, StateFrame
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

__all__ = [
    "certificates_not_vouched_for",
    "give_up_vouchers",
    "hear_fetched",
    "hear_frame",
    "hear_held",
    "hear_statement",
    "hear_told_state",
    "look_at_touched",
    "look_at_vouchers",
    "meet_own_certificates",
    "want_vouchers",
]


_ID_BYTES: Final = 16
_ASK_AGAIN_S: Final = 4.0
_LEASES_KEPT: Final = 2
"""For how many leases a stream is wanted for which there is no use at the moment."""


# ------------------------------------------------------------ streams that are wanted


def meet_own_certificates(state: BrokerState) -> None:
    """Take note of whose word this broker's own certificates demand."""
    own = frozenset(signed.id for signed in state.settings.credentials)
    state.statements.met(state.settings.credentials, own)
    state.statements.reliance.note(OWN_LINK, own)


def want_vouchers(state: BrokerState, now: Instant) -> list[Effect]:
    """Want the streams of those whose word was found to be needed, and ask what they said last."""
    desk, effects = state.statements, list[Effect]()
    new, desk.new = desk.new, {}
    evicted, desk.evicted = desk.evicted, []
    for voucher in evicted:
        effects += _given_up(state, voucher, now)
    for voucher in new.values():
        desk.refresh(voucher, now)
        _ask_to_look(state, voucher)
        is_first = not voucher.is_wanted
        if is_first:
            voucher.is_wanted = True
            name, random = validity_type_name(voucher.by), state.random
            asked = EdgeRequest(
                Action.SUBSCRIBE, state.settings.network, name, ALWAYS, random(16), now, random(16)
            )
            # Every peer that may connect may receive this; certificates for types are not shown on the way.
            proof = new_proof(request_to_bytes(sign_request(asked, state.key)))
            state.routes.stir(now)
            book, entry_id = state.routes.book, _entry_id(voucher)
            effects += route_messages(state, book.local_subscribe(voucher.type_id, entry_id, ALWAYS, proof))
        # What is at hand was shown by whoever has use for it, and need not be the newest.
        effects += _asked(state, voucher, now) if voucher.is_missed or is_first else []
    return effects


def _asked(state: BrokerState, voucher: StatementIssuer, now: Instant) -> list[Effect]:
    """Ask what somebody said last, here and elsewhere, unless that was asked a moment ago."""
    asked_at, lease_s = voucher.asked_at, state.settings.lease_s
    is_new = voucher.met_at is None or now < seconds_after(voucher.met_at, lease_s)
    every_s = _ASK_AGAIN_S if is_new else max(_ASK_AGAIN_S, lease_s)
    if asked_at is not None and now < seconds_after(asked_at, every_s):
        return []
    voucher.asked_at = now
    state.timers.add(Statements(), seconds_after(now, every_s))
    effects: list[Effect] = []
    for _, _, said in state.last_said.of_type(voucher.type_id):
        effects += hear_frame(state, said.frame, now) if isinstance(said.frame, Transit) else []
    return [*effects, *ask_for_own(state, voucher.type_id, now)]


def give_up_vouchers(state: BrokerState, now: Instant) -> list[Effect]:
    """Give up streams for which there was no use for a while."""
    effects: list[Effect] = []
    after_us = _LEASES_KEPT * state.settings.lease_s * 1_000_000
    for voucher in state.statements.given_up(now, after_us=after_us):
        effects += _given_up(state, voucher, now)
    return effects


def _given_up(state: BrokerState, voucher: StatementIssuer, now: Instant) -> list[Effect]:
    if not voucher.is_wanted:
        return []
    state.routes.stir(now)
    return route_messages(state, state.routes.book.local_unsubscribe(voucher.type_id, _entry_id(voucher)))


def _entry_id(voucher: StatementIssuer) -> bytes:
    return sha256(b"maia/1/voucher" + voucher.type_id).digest()[:_ID_BYTES]


# ------------------------------------------------------------ what is heard


def hear_frame(state: BrokerState, transit: Transit, now: Instant) -> list[Effect]:
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
        effects += hear_statement(state, signed, now) if signed.statement.by == by else []
    return effects


def hear_statement(state: BrokerState, signed: SignedStatement, now: Instant) -> list[Effect]:
    """Take a statement in, and recheck what depends on the certificates that it concerns."""
    return state.statements.intake.take([signed], now, partial(_changed, state))


def hear_held(state: BrokerState, session: Session, now: Instant) -> None:
    """Take in the statements of a peer by issuers whose statements this broker has a reason to want."""
    if session.statements:
        desk = state.statements
        desk.intake.take_shown(session, desk.wants, now, partial(_changed, state))


def _changed(state: BrokerState, heard: Heard, now: Instant) -> list[Effect]:
    desk, by, effects = state.statements, heard.by, list[Effect]()
    touched = desk.touched_by(heard, now)
    state.to_keep.append(desk.intake.kept(by))
    if heard.problem is not None:
        odd = heard.problem
        effects.append(Note("statement", {"by": str(by), "code": odd.code, "why": odd.message}))
    effects += state.keys.statement_heard(by, now)
    voucher = desk.vouchers.get(by)
    if voucher is not None:
        _ask_to_look(state, voucher)
    return [*effects, *look_at_touched(state, touched, now)] if touched else effects


def hear_told_state(state: BrokerState, link: Link, message: StateFrame, now: Instant) -> list[Effect]:
    """Hear the statements in an answer to a question about the state, and pass it on."""
    is_awaited = message.question in state.questions
    effects = hear_state_frame(state, link, message, now)
    frame = decode(message.frame) if is_awaited else None
    if not isinstance(frame, Carried) or frame.type_id not in state.statements.streams:
        return effects
    return [*hear_frame(state, from_carried(frame, {}), now), *effects]


def look_at_vouchers(state: BrokerState, now: Instant) -> list[Effect]:
    """Let fall what rests on words that have ended by now, and ask again for those that are missed."""
    effects: list[Effect] = []
    for voucher in list(state.statements.vouchers.values()):
        if voucher.look_at is not None and voucher.look_at < now:
            touched = state.statements.look_at(voucher, now)
            _ask_to_look(state, voucher)
            effects += look_at_touched(state, touched, now) if touched else []
        effects += _asked(state, voucher, now) if voucher.is_missed else []
    return effects


def _ask_to_look(state: BrokerState, voucher: StatementIssuer) -> None:
    """Have somebody's word looked at when it ends, if nobody has asked for that yet."""
    if voucher.look_at is not None:
        state.timers.add(Statements(), just_after(voucher.look_at))


_CERTIFICATES_MAX: Final = 256
"""Certificates that are named at a time: for each tester, one is enough to know where it may be."""


def certificates_not_vouched_for(state: BrokerState) -> tuple[SignedCertificate, ...]:
    """Return certificates in use that demand a word which is not at hand."""
    desk = state.statements
    missed = (voucher for voucher in desk.vouchers.values() if voucher.is_missed)
    found = {one: None for voucher in missed for one in sorted(voucher.certificates)[:_CERTIFICATES_MAX]}
    known = (desk.certificates.get(one) for one in found)
    return tuple(one for one in known if one is not None)[:_CERTIFICATES_MAX]


def hear_fetched(state: BrokerState, statements: Iterable[SignedStatement], now: Instant) -> list[Effect]:
    """Hear statements that were fetched, as far as somebody's word is needed here."""
    effects: list[Effect] = []
    for signed in statements:
        if signed.statement.by in state.statements.vouchers:
            effects += hear_statement(state, signed, now)
    return effects


def look_at_touched(state: BrokerState, certificates: Collection[bytes], now: Instant) -> list[Effect]:
    """Decide again whatever rests on one of these certificates, or would if it counted."""
    links = state.statements.reliance.links_on(certificates)
    state.authoriser.forget(certificates)
    state.writers.forget(certificates)
    effects: list[Effect] = []
    for number in links:
        link = state.links.get(number)
        if link is not None and link.stage is not Stage.CLOSING:
            effects += _look_at_link(state, link, certificates, now)
    effects += forget_last_said(state, certificates, now)
    if OWN_LINK in links:
        effects += _look_at_own(state, certificates, now)
    return effects


def _look_at_link(
    state: BrokerState, link: Link, certificates: Collection[bytes], now: Instant
) -> list[Effect]:
    connect = link.connect
    if connect is not None and not connect.watched.isdisjoint(certificates):
        try:
            link.connect = state.authoriser.decide_again(connect, now)
        except PolicyRefusal as problem:
            refused = refusal_effects(problem, link.peer, link=link.id, asked="Connect")
            return [*close_link(state, link, problem, now), *refused]
        state.statements.reliance.note(link.id, link.connect.watched)
    touched = [entry for entry in link.entries if not entry.right.watched.isdisjoint(certificates)]
    effects = _decide_again(state, link, touched, now)
    link.shares.clear()
    if link.role is Role.BROKER and state.routes.is_current(link.id):
        effects += look_at_told_again(state, link, certificates, now)
    return effects


def _decide_again(state: BrokerState, link: Link, entries: Iterable[Entry], now: Instant) -> list[Effect]:
    """Let fall what is refused now, all of it together; the others stand on what is left."""
    standing: list[tuple[Entry, Authorisation]] = []
    fallen: dict[MaiaError, list[Entry]] = {}
    refused: dict[int, MaiaError] = {}  # by the identity of the basis, which the entries keep alive
    for entry in entries:
        basis = id(entry.right.basis)
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
        effects += let_subscriptions_fall(state, link, subscriptions, now, reason)
        for entry in some:
            if isinstance(entry, Advertisement):
                effects += end_advertisement(state, link, entry, now, reason)
        # What is sent goes first; log lines and metrics can wait.
        state.rest.append(Rest(link.id, partial(_refusals, link, some, reason)))
    for entry, right in standing:
        effects += stand_on(state, link, entry, right, now)
    return effects


def _refusals(link: Link, entries: Iterable[Entry], problem: MaiaError) -> list[Effect]:
    return [effect for entry in entries for effect in refusal_effects(problem, link.peer, ref=entry.ref)]


def _look_at_own(state: BrokerState, certificates: Collection[bytes], now: Instant) -> list[Effect]:
    """Do without what this broker may not do any more."""
    own = {signed.id for signed in state.settings.credentials}
    effects = look_at_own_interests_again(state, certificates, now)
    if own.isdisjoint(certificates):
        return effects
    state.keys.is_touched = True  # the keys go at the end of the turn
    lost = len(state.statements.doubted(state.settings.credentials, now))
    noted = Note("own-certificates", {"lost": lost, "held": len(state.settings.credentials)})
    return [*effects, noted, Count("maia_own_certificates_changed_total")]
