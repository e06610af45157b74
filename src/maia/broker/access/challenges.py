"""When does a broker ask a client to have its certificates vouched for, and what waits for that?

A certificate may demand a one-time test. If it leads to a permit, and to more
than was permitted without it, the client is challenged: it has the testers
answer, and what was asked for is decided with their answers
(`access/one_time_answers.py`). An answer serves one authorisation, and that stands
for one lease at most; half way through, the client is challenged again. Why
so: docs/decisions/one-time-tests.md.
"""

from __future__ import annotations

from typing import Final

from maia.broker.access.one_time_pending import CONNECTING, Held, HeldEntry, HeldHello, HeldRequest
from maia.broker.refusals import TooManyQuestions
from maia.broker.sessions.link_checks import ask_to_look_at_link
from maia.broker.sessions.links import Entry, Link
from maia.broker.state import ONE_TIME, BrokerState, Due, seconds_after
from maia.broker.subscriptions.registry import ask_to_look_at_entries
from maia.credentials import Action, SignedCertificate
from maia.credentials.validity.one_time_answers import VouchedFor
from maia.credentials.validity.validity_state import Once
from maia.events import Instant
from maia.policy import PolicyRefusal, Request, View, request_digest
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, Send
from maia.wire.messages import Hello
from maia.wire.one_time_pending import Asked

__all__ = [
    "challenge_connection",
    "challenge_entry",
    "challenge_hello",
    "challenge_request",
    "is_to_be_asked_again",
    "vouched_for",
]

_SAID_OF_CONNECTION: Final = 0
"""How the connection is called on the wire; our clients begin to count at 1."""
_NO_ROOM_S: Final = 1.0
"""After so many seconds a standing entry is asked about for which there was no room."""


def challenge_request(
    state: BrokerState,
    link: Link,
    request: Request,
    pool: tuple[SignedCertificate, ...],
    held: HeldRequest,
    now: Instant,
) -> list[Effect]:
    """Ask a client to have its certificates vouched for, if a request needs that; else return nothing."""
    if not state.authoriser.may_be_vouched_for(request, pool, now):
        return []
    beyond = _permitted(state, link, request, pool, now)
    wanted = state.authoriser.demanded(request, pool, now, link.known, beyond=beyond)
    if not wanted:
        return []
    # Each answer costs a signature check: the quota pays for them before they are asked for.
    state.quota.spend(link.peer, now, requests=len(wanted))
    asked = Asked(link.peer, link.id, held.message.id, request_digest(request), held)
    return _challenged(state, link, asked, wanted, now)


def challenge_entry(state: BrokerState, link: Link, entry: Entry, now: Instant) -> list[Effect]:
    """Ask a client to have vouched anew for what stands, or for what it could stand on besides."""
    right = entry.right
    beyond = None if right.vouched is not None else right.view
    wanted = state.authoriser.demanded(right.request, right.pool, now, right.known, beyond=beyond)
    if not wanted:
        return []
    asked = Asked(link.peer, link.id, entry.ref, request_digest(right.request), HeldEntry(right.pool))
    try:
        return _challenged(state, link, asked, wanted, now)
    except TooManyQuestions as problem:
        ask_to_look_at_entries(state, link, seconds_after(now, _NO_ROOM_S))
        return [Count("maia_refused_total", labels={"code": problem.code})]


def challenge_hello(
    state: BrokerState, link: Link, hello: Hello, pool: tuple[SignedCertificate, ...], now: Instant
) -> list[Effect]:
    """Ask a client that says hello to have its right to connect vouched for, if that would do."""
    request = Request(link.peer, Action.CONNECT, state.settings.network)
    wanted = state.authoriser.demanded(request, pool, now, link.known)
    if not wanted:
        return []
    state.quota.spend(link.peer, now, requests=len(wanted))
    asked = Asked(link.peer, link.id, CONNECTING, request_digest(request), HeldHello(hello))
    return _challenged(state, link, asked, wanted, now)


def challenge_connection(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """Ask a client to have its right to connect vouched for anew, if it rests on an answer."""
    right = link.connect
    is_asked = state.one_time.is_asked(link.id, CONNECTING)
    if right is None or right.vouched is None or now < right.vouched.ask_at or is_asked:
        return []
    wanted = state.authoriser.demanded(right.request, right.pool, now, right.known)
    asked = Asked(link.peer, link.id, CONNECTING, request_digest(right.request), HeldEntry(right.pool))
    if not wanted:
        return []
    try:
        return _challenged(state, link, asked, wanted, now)
    except TooManyQuestions as problem:
        ask_to_look_at_link(state, link, seconds_after(now, _NO_ROOM_S))
        return [Count("maia_refused_total", labels={"code": problem.code})]


def is_to_be_asked_again(state: BrokerState, link: Link, entry: Entry, now: Instant) -> bool:
    """Say whether what stands has to be vouched for anew, and nobody was asked yet."""
    vouched = entry.right.vouched
    return vouched is not None and vouched.ask_at <= now and not state.one_time.is_asked(link.id, entry.ref)


def vouched_for(state: BrokerState, once: frozenset[Once], now: Instant) -> VouchedFor | None:
    """Return what may rest on answers that came now: something for one lease, or nothing."""
    return VouchedFor.for_a_lease(once, now, state.settings.lease_s)


def _permitted(
    state: BrokerState, link: Link, request: Request, pool: tuple[SignedCertificate, ...], now: Instant
) -> View | None:
    """Return what is to be seen without anybody's answers."""
    try:
        return state.authoriser.decide(request, pool, now, link.known).view
    except PolicyRefusal:
        return None


def _challenged(
    state: BrokerState, link: Link, asked: Asked[Held], wanted: frozenset[Once], now: Instant
) -> list[Effect]:
    limits = state.settings.limits
    seconds = min(limits.one_time_s, max(1, state.settings.lease_s // 2))
    if isinstance(asked.waits, HeldHello):
        seconds = min(seconds, limits.handshake_s)
    until = seconds_after(now, seconds)
    challenged = state.one_time.ask(asked, wanted, until=until, now=now, random=state.random)
    state.deadlines.ask(until, Due(ONE_TIME, None, until))
    ref = _SAID_OF_CONNECTION if asked.ref == CONNECTING else asked.ref
    said = encode(challenged.message(ref, seconds))
    return [Send(link.id, said), Count("maia_challenges_total")]
