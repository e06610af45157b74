"""Miklós's screening as the network does it: by the View that a decision under a strict bound ends in."""

from __future__ import annotations

from maia.credentials import Action, TopicName
from maia.events import AttributeUid, Event, PresentValue
from maia.policy import Bound, BoundRule, see
from maia.predicates import Predicate
from support.policy import ask, chain, granted, key, permit, topic_pattern

__all__ = ["screened"]

OWNER, HOLDER = key(60), key(61)
TOPIC = TopicName(OWNER.principal, "/news")
EVERYTHING = chain(
    granted(OWNER, HOLDER, "subscribe", topic_pattern("/news", OWNER.principal)), subject=HOLDER, root=OWNER
)


def screened(
    notification: Event,
    *,
    filter: Predicate,  # noqa: A002 - the word of the papers
) -> dict[AttributeUid, PresentValue] | None:
    """Return what a subscriber with `filter` under a strict bound is shown; None for nothing.

    A topic, because its attributes are of any kind, as Miklós's notifications are.
    """
    rule = BoundRule(HOLDER.principal, Action.SUBSCRIBE, Bound.STRICT_UPPER, filter)
    decision = ask(HOLDER, "subscribe", TOPIC, chains=[EVERYTHING], bounds=[rule], filter=filter)
    return see(permit(decision).view, notification)
