"""What has ended by itself, and who has gone silent?

Looked at before every input, so that no frame passes on a right that has
ended, however late the clock's own tick arrives (A35).
"""

from __future__ import annotations

from typing import Final

from maia.broker.access.challenges import challenge_connection
from maia.broker.access.one_time_answers import look_at_unanswered
from maia.broker.durable.delivery import CATCHING_UP, advance_link
from maia.broker.persistence import keep_what_changed
from maia.broker.publication.state_query import ASKED_STATE, overdue
from maia.broker.refusals import HandshakeTooSlow, PeerSilent
from maia.broker.revocation.streams import give_up_vouchers, look_at_vouchers
from maia.broker.routing.interests import look_at_doubtful
from maia.broker.routing.own_interests import look_at_own_interests
from maia.broker.routing.replication import look_at_routing
from maia.broker.sealed.cover import look_at_cover, next_look_at_cover
from maia.broker.sealed.key_events import look_at_keys, next_look_at_keys
from maia.broker.sessions.close import close_link
from maia.broker.sessions.link_checks import ask_to_look_at_link, next_look_at_right_to_connect
from maia.broker.sessions.links import Link, Stage
from maia.broker.state import (
    ENTRIES,
    EVERY_LINK,
    ONE_TIME,
    STATEMENTS,
    BrokerState,
    Due,
    just_after,
    seconds_after,
)
from maia.broker.subscriptions.recheck import look_at_entries, look_at_entry
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.wire.codec import encode
from maia.wire.effects import Effect, Send
from maia.wire.messages import Ping

__all__ = [
    "ask_to_look_at_broker",
    "begin_rounds",
    "look_at_everything",
    "look_at_what_is_due",
]

_ROUNDS_UNASKED: Final = 2
_ROUNDS_SILENT: Final = 4
"""A peer is asked in the third round without a word, again in the fourth, and given up in the fifth."""


def look_at_what_is_due(state: BrokerState, now: Instant) -> list[Effect]:
    """Look at every lease, right and link whose moment has come."""
    effects: list[Effect] = []
    found = state.deadlines.due(now)
    if found and found[0].at is not None:
        _forgive_if_late(state, now - found[0].at, now)
    for due in found:
        effects += _look_at(state, due, now)
    return effects


def look_at_everything(state: BrokerState, now: Instant) -> list[Effect]:
    """Ask again about every right that stands: what speaks for or against somebody has changed."""
    state.authoriser.evidence_changed()
    state.keys.evidence_changed()
    state.impairments.stirred.update(state.types.sealed())
    effects = [effect for type_id in state.types.sealed() for effect in state.keys.look_for(type_id, now)]
    effects += look_at_own_interests(state, now)
    for link in list(state.links.values()):
        if link.is_ready:
            effects += _look_at_right_to_connect(state, link, now)
        for entry in link.entries:
            effects += look_at_entry(state, link, entry, now)
    return effects


def begin_rounds(state: BrokerState, now: Instant) -> None:
    """Have all links looked at three times in a lease, for as long as there are any."""
    if state.round_at is None:
        state.round_at = seconds_after(now, state.settings.lease_s / 3)
        state.deadlines.ask(state.round_at, Due(EVERY_LINK, None, state.round_at))


def ask_to_look_at_broker(state: BrokerState, now: Instant) -> None:
    """Have the broker looked at when it next has something to do by itself."""
    routes = state.routes
    routes.is_stirred = False
    if state.keep_at is None:
        state.keep_at = seconds_after(now, state.settings.lease_s)
    slots = next_look_at_cover(state, now)
    wishes = (routes.next_look(now), next_look_at_keys(state, now), slots, state.keep_at)
    at = max(min(wish for wish in wishes if wish is not None), just_after(now))
    asked = routes.look_at
    if asked is None or at < asked or asked <= now:
        routes.look_at = at
        state.deadlines.ask(at, Due(None, None, at))


def _look_at(state: BrokerState, due: Due, now: Instant) -> list[Effect]:
    if due.link is None:
        return _look_at_broker(state, now) if state.routes.look_at == due.at else []
    if due.link == EVERY_LINK:
        return _look_at_every_link(state, now)
    if due.link == STATEMENTS:
        return [*look_at_vouchers(state, now), *look_at_doubtful(state, now), *overdue(state, now)]
    if due.link == ONE_TIME:
        return look_at_unanswered(state, now)
    link = state.links.get(due.link)
    if link is None or link.stage is Stage.CLOSING:
        return []
    if due.ref == ASKED_STATE:
        return overdue(state, now)
    if due.ref == CATCHING_UP:
        return advance_link(state, due.link, now)
    if due.ref == ENTRIES and due.at is not None:
        return look_at_entries(state, link, due.at, now)
    return _look_at_link(state, link, now) if link.look_at == due.at else []


def _look_at_broker(state: BrokerState, now: Instant) -> list[Effect]:
    effects = [*look_at_routing(state, now), *look_at_keys(state, now), *look_at_cover(state, now)]
    effects += look_at_own_interests(state, now)
    if state.keep_at is not None and state.keep_at <= now:
        state.keep_at = None
        effects += [*keep_what_changed(state), *give_up_vouchers(state, now)]
    return effects


def _look_at_link(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    if not link.is_ready:
        return close_link(state, link, HandshakeTooSlow("the handshake took too long"), now)
    effects = _look_at_right_to_connect(state, link, now)
    if effects:
        return effects
    ask_to_look_at_link(state, link, next_look_at_right_to_connect(link, now))
    return challenge_connection(state, link, now)


def _look_at_every_link(state: BrokerState, now: Instant) -> list[Effect]:
    """Ask the silent whether they are there, and give up those who did not answer."""
    state.round_at = None
    effects: list[Effect] = []
    for link in list(state.links.values()):
        if link.is_ready:
            effects += _look_for_signs_of_life(state, link, now)
    if state.links:
        begin_rounds(state, now)
    return effects


def _look_for_signs_of_life(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """Count the rounds without a word: moments do not tell a silent peer from a broker that slept."""
    link.silent_rounds += 1
    if link.silent_rounds <= _ROUNDS_UNASKED:
        return []
    if link.silent_rounds > _ROUNDS_SILENT:
        return close_link(state, link, PeerSilent("nothing was heard for a whole lease"), now)
    state.pings += 1
    return [Send(link.id, encode(Ping(state.pings)))]


# ------------------------------------------------------------ a broker that slept


def _forgive_if_late(state: BrokerState, late_us: int, now: Instant) -> None:
    """Judge nobody for a while after having slept: what they said meanwhile is waiting to be read.

    Whoever is late all the time forgives once in a lease and no more. Rights
    are not forgiven: they end by the clock.
    """
    third = state.settings.lease_s / 3
    if late_us < third * 500_000 or now < seconds_after(state.forgives_until, 2 * third):
        return
    state.forgives_until = seconds_after(now, third)
    state.routes.book.forgive(state.forgives_until)
    state.routes.store.forgive(state.forgives_until)
    for link in state.links.values():
        link.silent_rounds = 0


def _look_at_right_to_connect(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    assert link.connect is not None  # noqa: S101 - a link is ready only after its right was decided
    try:
        link.connect = state.authoriser.still(link.connect, now)
    except PolicyRefusal as problem:
        return close_link(state, link, problem, now)
    state.statements.reliance.note(link.id, link.connect.watched)
    return []
