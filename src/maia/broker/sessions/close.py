"""How does a link end, and what goes with it?

Everything that hung on the link: advertisements, subscriptions, what a
neighbouring broker had told. The rest of the network hears of it at once. A
broker that stops tells nobody what went with each of its links: its
neighbours forget all that it told when theirs ends.
"""

from __future__ import annotations

from maia.broker.publication.state_query import link_gone
from maia.broker.sessions.links import Link, Stage
from maia.broker.state import BrokerState
from maia.broker.subscriptions.registry import end_advertisement, end_subscriptions, let_go
from maia.broker.timers import IdentityExpires
from maia.broker.turn import Turn
from maia.errors import MaiaError
from maia.sessions.session import goodbye


def close_link(state: BrokerState, link: Link, problem: MaiaError, turn: Turn) -> None:
    """End a link from this side, and say why."""
    if link.stage is not Stage.CLOSING:
        _say_goodbye(link, problem, turn)
        forget_link(state, link, turn, f"{problem.message} [{problem.code}]")


def part_from(state: BrokerState, link: Link, problem: MaiaError, turn: Turn) -> None:
    """End a link of a broker that stops: all links go, so what went with this one is told to nobody."""
    if link.stage is Stage.CLOSING:
        return
    link.stage = Stage.CLOSING
    for subscription in link.subscriptions.values():
        if subscription.cursor is not None:
            let_go(subscription.cursor, turn)
    _say_goodbye(link, problem, turn)


def _say_goodbye(link: Link, problem: MaiaError, turn: Turn) -> None:
    turn.add(*goodbye(link.id, problem))
    turn.note("closing", link=link.id, peer=str(link.peer), role=link.role.value, code=problem.code)


def forget_link(state: BrokerState, link: Link, turn: Turn, why: str = "") -> None:
    """Take back whatever hung on a link that is gone or going, for a reason that one side has given."""
    was_ready = link.is_ready
    link.stage = Stage.CLOSING
    state.waiting.leave(link.id)
    if not was_ready and link.dialled is None:
        # It never was anybody: its place is free at once, however long its peer takes to hang up (A88).
        state.links.pop(link.id, None)
    link_gone(state, link.id, turn)
    state.syncs.forget(link.id, turn)
    if state.recording is not None:
        state.recording.link_gone(link.id)
    state.log_requests.link_gone(link.id, turn)
    state.statements.dependencies.forget(link.id)
    state.timers.reset(IdentityExpires(link.id), None)
    state.identities.hold(link.id, None)
    state.routes.spill.forget(link.id)
    state.one_time.forget_link(link.id)
    end_subscriptions(state, link, list(link.subscriptions.values()), turn)
    for advertisement in list(link.advertisements.values()):
        end_advertisement(state, link, advertisement, turn)
    if was_ready:
        state.router.neighbour_gone(link, turn)
    elif link.dialled is not None:
        state.router.dial_failed(link.dialled, turn)
        state.impairments.seed_refused(link.dialled, why)
