"""What follows when a client has had its certificates vouched for, or has not?

What waited is decided with the answers that count: those to this broker's own
open questions, put to this client, about this request, each once (A30). With
less than was asked for it stands on what is permitted without, if anything
is; else the request is refused, and what stood ends. Nothing else is touched.
"""

from __future__ import annotations

from maia.broker.access.challenges import CONNECTING, challenge_entry, is_to_be_asked_again
from maia.broker.sessions.close import close_link
from maia.broker.sessions.links import (
    Held,
    HeldEntry,
    HeldRequest,
    Link,
    ask_to_look_at_link,
    next_look_at_right_to_connect,
)
from maia.broker.state import BrokerState
from maia.broker.subscriptions.registry import authorise_again
from maia.broker.subscriptions.requests import decide_held
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate
from maia.errors import MaiaError, ProtocolViolation
from maia.policy import PolicyRefusal
from maia.sessions.challenges import Checked
from maia.validity import VouchedFor
from maia.wire.messages import Failed, Hello, Vouched


def hear_vouched(state: BrokerState, link: Link, message: Vouched, turn: Turn) -> None:
    """Go on with what waited for these answers; what waits no longer is passed over."""
    checked = state.one_time.redeem(link.id, message, turn.now)
    if checked is None:
        turn.count("maia_late_answers_total")
        return
    turn.add(*checked.effects())
    _go_on(state, link, checked, turn)


def look_at_unanswered(state: BrokerState, turn: Turn) -> None:
    """Go on without the answers that did not come in time."""
    for checked in state.one_time.overdue(turn.now):
        link = state.links.get(checked.asked.link)
        if link is not None and link.is_ready:
            _go_on(state, link, checked, turn)


def _go_on(state: BrokerState, link: Link, checked: Checked[Held], turn: Turn) -> None:
    vouched, missing, ref = checked.vouched, checked.missing, checked.asked.ref
    match checked.asked.waits:
        case Hello():
            return  # the handshake has a deadline of its own, and goes on in `sessions/handshake.py`
        case HeldEntry(pool=pool) if checked.asked.about is CONNECTING:
            _connect_again(state, link, pool, vouched, missing, turn)
        case HeldEntry(pool=pool):
            entry = link.subscriptions.get(ref) or link.advertisements[ref]
            authorise_again(state, link, entry, pool, vouched, missing, turn)
        case HeldRequest(message=message, asked=asked):
            said = turn.mark()
            try:
                decide_held(state, link, message, asked, vouched, missing, turn)
            except ProtocolViolation:
                raise
            except MaiaError as problem:
                turn.drop(said)
                turn.send(link.id, Failed(ref, problem.code, problem.message))
                turn.refused(problem, link.peer, link=link.id, asked=type(message).__name__)
                _ask_about(state, link, ref, turn)


def _connect_again(
    state: BrokerState,
    link: Link,
    pool: tuple[SignedCertificate, ...],
    vouched: VouchedFor | None,
    missing: MaiaError | None,
    turn: Turn,
) -> None:
    """Decide a client's right to connect with fresh answers; without them the link ends."""
    try:
        link.connect = state.authoriser.decide_connect(link.peer, pool, turn.now, link.remote, vouched)
    except PolicyRefusal as problem:
        why = missing or problem
        close_link(state, link, why, turn)
        turn.refused(why, link.peer, link=link.id, asked="Connect")
        return
    state.statements.dependencies.note(link.id, link.connect.watched)
    ask_to_look_at_link(state, link, next_look_at_right_to_connect(link, turn.now))


def _ask_about(state: BrokerState, link: Link, ref: int, turn: Turn) -> None:
    """Ask about what stands under the reference of a request that failed, and was not asked about for it."""
    entry = link.subscriptions.get(ref) or link.advertisements.get(ref)
    if entry is not None and is_to_be_asked_again(state, link, entry, turn.now):
        challenge_entry(state, link, entry, turn)
