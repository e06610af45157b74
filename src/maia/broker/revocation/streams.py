"""How does this broker come to hear those whose word it needs?

It wants the validity stream of everybody whom a certificate in use here names
as its tester, asks what was said last, and gives the stream up some time
after the last such certificate (dissertation 6.3). What comes by as a frame
of such a stream is heard before the frame goes anywhere, and so before its
publisher is answered: who was told that a revocation is out can rely on it.
One deadline for each of them says when its last word ends (A39).
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import Final

from maia.broker.durable.log_writer import OWN_LINK
from maia.broker.publication.state_query import ask_for_own, hear_state_frame
from maia.broker.publication.transit import Transit, from_carried
from maia.broker.revocation.apply import look_at_touched
from maia.broker.revocation.validity import StatementIssuer
from maia.broker.routing.messages import new_proof
from maia.broker.routing.outbox import route_messages
from maia.broker.sessions.links import Link
from maia.broker.state import STATEMENTS, BrokerState, Due, just_after, seconds_after
from maia.credentials import Action, Heard, Principal, SignedStatement, statement_from_bytes
from maia.errors import MaiaError
from maia.events import Instant
from maia.predicates import ALWAYS
from maia.sessions.session import Session
from maia.sessions.statements import refused_statement
from maia.types import validity_type_name
from maia.types.validity_stream import STATEMENT
from maia.wire.codec import decode
from maia.wire.effects import Effect, Note
from maia.wire.messages import Carried, StateFrame
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

__all__ = [
    "give_up_vouchers",
    "hear_frame",
    "hear_held",
    "hear_statement",
    "hear_told_state",
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
            effects += _wanted(state, voucher, now)
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
    again = seconds_after(now, every_s)
    state.deadlines.ask(again, Due(STATEMENTS, None, again))
    effects: list[Effect] = []
    for _, _, said in state.last_said.of_type(voucher.type_id):
        effects += hear_frame(state, said.frame, now) if isinstance(said.frame, Transit) else []
    return [*effects, *ask_for_own(state, voucher.type_id, now)]


def _wanted(state: BrokerState, voucher: StatementIssuer, now: Instant) -> list[Effect]:
    name, entry_id = validity_type_name(voucher.by), _entry_id(voucher)
    network, random = state.settings.network, state.random
    asked = EdgeRequest(Action.SUBSCRIBE, network, name, ALWAYS, random(16), now, random(16))
    # Whoever may connect may hear this; certificates for other types are nobody's business on the way.
    proof = new_proof(request_to_bytes(sign_request(asked, state.key)))
    state.routes.stir(now)
    return route_messages(state, state.routes.book.local_subscribe(voucher.type_id, entry_id, ALWAYS, proof))


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
        if isinstance(data, bytes):
            effects += _heard_bytes(state, data, by, now)
    return effects


def _heard_bytes(state: BrokerState, data: bytes, by: Principal, now: Instant) -> list[Effect]:
    try:
        signed = statement_from_bytes(data)
    except MaiaError as problem:
        return [refused_statement(problem)]
    # Somebody else's statement proves itself too, but whoever sent it here had no business to.
    return hear_statement(state, signed, now) if signed.statement.by == by else []


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
            voucher.promised = None
            _ask_to_look(state, voucher)
            effects += look_at_touched(state, touched, now) if touched else []
        effects += _asked(state, voucher, now) if voucher.is_missed else []
    return effects


def _ask_to_look(state: BrokerState, voucher: StatementIssuer) -> None:
    """Have somebody's word looked at when it ends, if nobody has asked for that yet."""
    at = None if voucher.look_at is None else just_after(voucher.look_at)
    if at is not None and at != voucher.promised:
        voucher.promised = at
        state.deadlines.ask(at, Due(STATEMENTS, None, at))
