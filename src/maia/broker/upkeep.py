"""What has ended by itself, and who has gone silent?

Looked at before every input, so that no frame passes on a right that has
ended, however late the clock's own tick arrives (A35).
"""

from __future__ import annotations

from maia.broker.closing import close_link
from maia.broker.keeping import keep_what_changed
from maia.broker.refusals import HandshakeTooSlow, PeerSilent
from maia.broker.replicating import look_at_routing
from maia.broker.sessions import Link, Stage
from maia.broker.state import BrokerState, Due, just_after, seconds_after
from maia.broker.subscription import look_at_entry
from maia.events import INSTANT_MAX, Instant
from maia.policy import PolicyRefusal
from maia.wire.codec import encode
from maia.wire.effects import Effect, Send
from maia.wire.messages import Ping

__all__ = [
    "ask_to_look_at_link",
    "ask_to_look_at_broker",
    "look_at_everything",
    "look_at_what_is_due",
    "next_look_at_link",
]


def look_at_what_is_due(state: BrokerState, now: Instant) -> list[Effect]:
    """Look at every lease, right and link whose moment has come."""
    effects: list[Effect] = []
    for due in state.deadlines.due(now):
        effects += _look_at(state, due, now)
    return effects


def look_at_everything(state: BrokerState, now: Instant) -> list[Effect]:
    """Ask again about every right that stands: what speaks for or against somebody has changed."""
    state.edge.evidence_changed()
    effects: list[Effect] = []
    for link in list(state.links.values()):
        if link.is_ready:
            effects += _look_at_right_to_connect(state, link, now)
        for entry in link.entries:
            effects += look_at_entry(state, link, entry, now)
    return effects


def ask_to_look_at_link(state: BrokerState, link: Link, at: Instant) -> None:
    """Have a link looked at; an earlier wish is forgotten."""
    link.look_at = at
    state.deadlines.ask(at, Due(link.id, None, at))


def ask_to_look_at_broker(state: BrokerState, now: Instant) -> None:
    """Have the broker looked at when it next has something to do by itself."""
    routes = state.routes
    routes.is_stirred = False
    if state.keep_at is None:
        state.keep_at = seconds_after(now, state.settings.lease_s)
    wanted = routes.next_look(now)
    at = max(state.keep_at if wanted is None else min(wanted, state.keep_at), just_after(now))
    asked = routes.look_at
    if asked is None or at < asked or asked <= now:
        routes.look_at = at
        state.deadlines.ask(at, Due(None, None, at))


def next_look_at_link(state: BrokerState, link: Link, now: Instant) -> Instant:
    """Return when to ask whether the peer is there, or when its right to connect ends."""
    next_look = _next_round(now, state.settings.lease_s / 3)
    ends = link.connect.stable.not_after if link.connect is not None else None
    return next_look if ends is None else min(next_look, just_after(ends))


def _next_round(now: Instant, seconds: float) -> Instant:
    """Return a moment so many seconds later, or up to a quarter more: links then share the moments."""
    step = max(1, int(seconds * 1_000_000) // 4)
    at = now + 4 * step + (-now) % step
    return Instant(at if at < INSTANT_MAX else INSTANT_MAX)


def _look_at(state: BrokerState, due: Due, now: Instant) -> list[Effect]:
    if due.link is None:
        return _look_at_broker(state, now) if state.routes.look_at == due.at else []
    link = state.links.get(due.link)
    if link is None or link.stage is Stage.CLOSING:
        return []
    if due.ref is not None:
        entry = link.subscriptions.get(due.ref) or link.advertisements.get(due.ref)
        return look_at_entry(state, link, entry, now) if entry is not None and entry.look_at == due.at else []
    return _look_at_link(state, link, now) if link.look_at == due.at else []


def _look_at_broker(state: BrokerState, now: Instant) -> list[Effect]:
    effects = look_at_routing(state, now)
    if state.keep_at is not None and state.keep_at <= now:
        state.keep_at = None
        effects += keep_what_changed(state)
    return effects


def _look_at_link(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    if not link.is_ready:
        return close_link(state, link, HandshakeTooSlow("the handshake took too long"), now)
    effects = _look_at_right_to_connect(state, link, now)
    if effects:
        return effects
    third = state.settings.lease_s / 3
    # Silence counts from the ping on: who was not asked, because this broker slept, is not to blame.
    if link.asked_at is not None and seconds_after(link.asked_at, 2 * third) <= now:
        return close_link(state, link, PeerSilent("nothing was heard for a whole lease"), now)
    ask_to_look_at_link(state, link, next_look_at_link(state, link, now))
    if link.asked_at is not None or now - link.heard_at < int(third * 1_000_000):
        return []
    link.asked_at = now
    state.pings += 1
    return [Send(link.id, encode(Ping(state.pings)))]


def _look_at_right_to_connect(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    assert link.connect is not None  # noqa: S101 - a link is ready only after its right was decided
    try:
        link.connect = state.edge.still(link.connect, now)
    except PolicyRefusal as problem:
        return close_link(state, link, problem, now)
    return []
