"""How does a link end, and what goes with it?

Everything that hung on the link: advertisements, subscriptions, what a
neighbouring broker had told. The rest of the network hears of it at once. A
broker that stops tells nobody what went with each of its links: its
neighbours forget all that it told when theirs ends.
"""

from __future__ import annotations

from maia.broker.access.impairment import seed_refused
from maia.broker.durable.catch_up import forget_fetches_of
from maia.broker.publication.state_query import link_gone
from maia.broker.sessions.links import Link, Stage
from maia.broker.state import BrokerState
from maia.broker.subscriptions.registry import end_advertisement, end_subscriptions, let_go
from maia.broker.subscriptions.route_sync import forget_syncs_of
from maia.broker.timers import IdentityExpires
from maia.errors import MaiaError
from maia.events import Instant
from maia.sessions.session import goodbye
from maia.wire.effects import Effect, Note


def close_link(state: BrokerState, link: Link, problem: MaiaError, now: Instant) -> list[Effect]:
    """End a link from this side, and say why."""
    if link.stage is Stage.CLOSING:
        return []
    return [
        *_said_goodbye(link, problem),
        *forget_link(state, link, now, f"{problem.message} [{problem.code}]"),
    ]


def part_from(state: BrokerState, link: Link, problem: MaiaError) -> list[Effect]:
    """End a link of a broker that stops: all links go, so what went with this one is told to nobody."""
    if link.stage is Stage.CLOSING:
        return []
    link.stage = Stage.CLOSING
    for subscription in link.subscriptions.values():
        if subscription.cursor is not None:
            let_go(state, subscription.cursor)
    return _said_goodbye(link, problem)


def _said_goodbye(link: Link, problem: MaiaError) -> list[Effect]:
    fields = {"link": link.id, "peer": str(link.peer), "role": link.role.value, "code": problem.code}
    return [*goodbye(link.id, problem), Note("closing", fields)]


def forget_link(state: BrokerState, link: Link, now: Instant, why: str = "") -> list[Effect]:
    """Take back whatever hung on a link that is gone or going, for a reason that one side has given."""
    was_ready = link.is_ready
    link.stage = Stage.CLOSING
    state.waiting.leave(link.id)
    if not was_ready and link.dialled is None:
        # It never was anybody: its place is free at once, however long its peer takes to hang up (A88).
        state.links.pop(link.id, None)
    effects = [*link_gone(state, link.id, now), *forget_syncs_of(state, link.id, now)]
    effects += forget_fetches_of(state, link.id, now)
    state.statements.dependencies.forget(link.id)
    state.timers.reset(IdentityExpires(link.id), None)
    state.identities.hold(link.id, None)
    state.routes.spill.forget(link.id)
    state.one_time.forget_link(link.id)
    effects += end_subscriptions(state, link, list(link.subscriptions.values()), now)
    for advertisement in list(link.advertisements.values()):
        effects += end_advertisement(state, link, advertisement, now)
    if was_ready:
        return [*effects, *state.router.neighbour_gone(link, now)]
    if link.dialled is not None:
        effects += state.router.dial_failed(link.dialled, now)
        seed_refused(state, link.dialled, why)
    return effects
