"""How does a link end, and what goes with it?

Everything that hung on the link: advertisements, subscriptions, what a
neighbouring broker had told. The rest of the network hears of it at once.
"""

from __future__ import annotations

from maia.broker.current_state import link_gone
from maia.broker.peers import broker_gone, dial_failed
from maia.broker.sessions import Link, Stage
from maia.broker.state import BrokerState
from maia.broker.subscription import end_advertisement, end_subscription
from maia.errors import MaiaError
from maia.events import Instant
from maia.wire.codec import encode
from maia.wire.effects import Close, Effect, Note, Send
from maia.wire.messages import Bye

__all__ = ["close_link", "forget_link"]


def close_link(state: BrokerState, link: Link, problem: MaiaError, now: Instant) -> list[Effect]:
    """End a link from this side, and say why."""
    if link.stage is Stage.CLOSING:
        return []
    fields = {"link": link.id, "peer": str(link.peer), "role": link.role.value, "code": problem.code}
    return [
        Send(link.id, encode(Bye(problem.code, problem.message))),
        Close(link.id, problem.code),
        Note("closing", fields),
        *forget_link(state, link, now),
    ]


def forget_link(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """Take back whatever hung on a link that is gone or going."""
    was_ready = link.is_ready
    link.stage = Stage.CLOSING
    effects = link_gone(state, link.id, now)
    state.statements.reliance.forget(link.id)
    for subscription in list(link.subscriptions.values()):
        effects += end_subscription(state, link, subscription, now)
    for advertisement in list(link.advertisements.values()):
        effects += end_advertisement(state, link, advertisement, now)
    if was_ready:
        return [*effects, *broker_gone(state, link, now)]
    return effects if link.dialled is None else [*effects, *dial_failed(state, link.dialled, now)]
