"""What follows when a client has had its certificates vouched for, or has not?

What waited is decided with the answers that count: those to this broker's own
open questions, put to this client, about this request, each once (A30). With
less than was asked for it stands on what is permitted without, if anything
is; else the request is refused, and what stood ends. Nothing else is touched.
"""

from __future__ import annotations

from maia.broker.access.authoriser import refusal_effects
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
from maia.credentials import SignedCertificate
from maia.errors import MaiaError, ProtocolViolation
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.sessions.challenges import Checked
from maia.validity import VouchedFor
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, Send
from maia.wire.messages import Failed, Hello, Vouched


def hear_vouched(state: BrokerState, link: Link, message: Vouched, now: Instant) -> list[Effect]:
    """Go on with what waited for these answers; what waits no longer is passed over."""
    checked = state.one_time.redeem(link.id, message, now)
    if checked is None:
        return [Count("maia_late_answers_total")]
    return [*checked.effects(), *_gone_on(state, link, checked, now)]


def look_at_unanswered(state: BrokerState, now: Instant) -> list[Effect]:
    """Go on without the answers that did not come in time."""
    effects: list[Effect] = []
    for checked in state.one_time.overdue(now):
        link = state.links.get(checked.asked.link)
        if link is not None and link.is_ready:
            effects += _gone_on(state, link, checked, now)
    return effects


def _gone_on(state: BrokerState, link: Link, checked: Checked[Held], now: Instant) -> list[Effect]:
    vouched, missing, ref = checked.vouched, checked.missing, checked.asked.ref
    match checked.asked.waits:
        case Hello():
            return []  # the handshake has a deadline of its own, and goes on in `sessions/handshake.py`
        case HeldEntry(pool=pool) if checked.asked.about is CONNECTING:
            return _connected_again(state, link, pool, vouched, missing, now)
        case HeldEntry(pool=pool):
            entry = link.subscriptions.get(ref) or link.advertisements[ref]
            return authorise_again(state, link, entry, pool, vouched, missing, now)
        case HeldRequest(message=message, asked=asked):
            try:
                return decide_held(state, link, message, asked, vouched, missing, now)
            except ProtocolViolation:
                raise
            except MaiaError as problem:
                told = Send(link.id, encode(Failed(ref, problem.code, problem.message)))
                refusal = refusal_effects(problem, link.peer, link=link.id, asked=type(message).__name__)
                return [told, *refusal, *_asked_about(state, link, ref, now)]


def _connected_again(
    state: BrokerState,
    link: Link,
    pool: tuple[SignedCertificate, ...],
    vouched: VouchedFor | None,
    missing: MaiaError | None,
    now: Instant,
) -> list[Effect]:
    """Decide a client's right to connect with fresh answers; without them the link ends."""
    try:
        link.connect = state.authoriser.decide_connect(link.peer, pool, now, link.remote, vouched)
    except PolicyRefusal as problem:
        why = missing or problem
        refusal = refusal_effects(why, link.peer, link=link.id, asked="Connect")
        return [*close_link(state, link, why, now), *refusal]
    state.statements.dependencies.note(link.id, link.connect.watched)
    ask_to_look_at_link(state, link, next_look_at_right_to_connect(link, now))
    return []


def _asked_about(state: BrokerState, link: Link, ref: int, now: Instant) -> list[Effect]:
    """Ask about what stands under the reference of a request that failed, and was not asked about for it."""
    entry = link.subscriptions.get(ref) or link.advertisements.get(ref)
    is_due = entry is not None and is_to_be_asked_again(state, link, entry, now)
    return challenge_entry(state, link, entry, now) if entry is not None and is_due else []
