"""What falls when a certificate counts no more, and what rises when it counts again?

Exactly what was decided from it: subscriptions, advertisements, rights to
connect, what a neighbour wants and offers on behalf of its clients, plaintext
for neighbours, this broker's own interests and keys, and what publishers said
last. Each is decided again from what is left. Whoever loses something is told
at once, with the code; nobody else is looked at (P7, A35).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from maia.broker.access.authoriser import refusal_effects
from maia.broker.durable.log_writer import OWN_LINK
from maia.broker.publication.projection import certificates_behind
from maia.broker.publication.retained import forget_last_said
from maia.broker.routing.interests import look_at_told_again
from maia.broker.routing.own_interests import look_at_own_interests_again
from maia.broker.sessions.close import close_link
from maia.broker.sessions.links import Advertisement, Entry, Link, Right, Role, Stage, Subscription
from maia.broker.state import BrokerState, Rest
from maia.broker.subscriptions.recheck import stand_on, why_lost
from maia.broker.subscriptions.registry import end_advertisement, project_again
from maia.broker.subscriptions.removal import let_subscriptions_fall
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.wire.effects import Count, Effect, Note

__all__ = ["look_at_touched"]


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
    for entry in list(link.advertisements.values()):
        event_type = entry.right.event_type
        if event_type.super_type is not None and not certificates_behind(event_type).isdisjoint(certificates):
            effects += project_again(state, link, entry, now)
    link.shares.clear()
    if link.role is Role.BROKER and state.routes.is_current(link.id):
        effects += look_at_told_again(state, link, certificates, now)
    return effects


def _decide_again(state: BrokerState, link: Link, entries: Iterable[Entry], now: Instant) -> list[Effect]:
    """Let fall what is refused now, all of it together; the others stand on what is left."""
    standing: list[tuple[Entry, Right]] = []
    fallen: dict[MaiaError, list[Entry]] = {}
    refused: dict[int, MaiaError] = {}  # by the identity of grounds, which the entries keep alive
    for entry in entries:
        grounds = id(entry.right.grounds)
        if grounds in refused:
            fallen[refused[grounds]].append(entry)
            continue
        try:
            standing.append((entry, state.authoriser.decide_again(entry.right, now)))
        except PolicyRefusal as problem:
            why = why_lost(state, entry, entry.right.pool, problem, now)
            fallen.setdefault(why, []).append(entry)
            if why is state.authoriser.refusal_of_all(entry.right, now):
                refused[grounds] = why
    effects: list[Effect] = []
    for reason, some in fallen.items():
        effects += _fall(state, link, some, reason, now)
    for entry, right in standing:
        effects += stand_on(state, link, entry, right, now)
    return effects


def _fall(
    state: BrokerState, link: Link, entries: list[Entry], problem: MaiaError, now: Instant
) -> list[Effect]:
    subscriptions = [entry for entry in entries if isinstance(entry, Subscription)]
    effects = let_subscriptions_fall(state, link, subscriptions, now, problem)
    for entry in entries:
        if isinstance(entry, Advertisement):
            effects += end_advertisement(state, link, entry, now, problem)
    # Nobody waits for what is written down of it, and somebody does for what is sent.
    state.rest.append(Rest(link.id, lambda: _written_down(link, entries, problem)))
    return effects


def _written_down(link: Link, entries: Iterable[Entry], problem: MaiaError) -> list[Effect]:
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
