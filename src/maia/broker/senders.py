"""From which neighbours is a plain frame of a type believed?

The publication path asks. A plain frame names its publisher and proves
nothing, so it counts by the way on which it came: from the next broker
towards the type's rendezvous, which brings what is published elsewhere, and
from a neighbour whose offer of the type stands. Nobody else is ever asked for
the type, so no honest neighbour sends any of it unasked (A66, A67).

While a tree changes, an honest neighbour may be out of step with this broker.
Nothing of that is lost:

- for a lease after the way to the rendezvous has changed, everybody is
  believed: a broker that takes over sends what a replica told it to;
- a neighbour that takes its offer back is believed for two seconds more, and
  one whose lease has ended for a lease, for it may not have heard yet that
  nothing is wanted there any more;
- the two brokers that would follow the next one are always believed, and
  while the next one is silent everybody who is nearer to the rendezvous: they
  may have found out first that it is gone, and have taken over.

An offer that is refused, or falls with a certificate, leaves no such time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maia.broker.edge import refusal_effects
from maia.broker.refusals import FrameUnasked
from maia.broker.routes import REPLICAS, Neighbour
from maia.broker.sessions import Link
from maia.broker.state import BrokerState, seconds_after
from maia.broker.telling import told
from maia.events import Instant
from maia.routing.hops import Hop
from maia.routing.ids import NodeId, is_closer, node_id_of_type
from maia.wire.effects import Count, Effect

__all__ = [
    "PARTING_MAX",
    "PARTING_S",
    "is_believed",
    "offer_ended",
    "offers_lapsed",
    "refuse_unasked",
    "tree_moved",
]

PARTING_S: Final = 2.0
"""How long frames may be on the way from a neighbour that has taken its offer back."""
PARTING_MAX: Final = 4096
"""Of how many types of one neighbour that is remembered; the oldest go first."""
_ROUNDS_QUIET: Final = 2
"""A peer that is alive may be silent for two rounds of a third of a lease; then it is asked."""


def is_believed(state: BrokerState, link: Link, type_id: bytes, now: Instant) -> bool:
    """Say whether a frame of a type may come from a neighbour at this moment."""
    routes = state.routes
    node = routes.node_of[link.id]
    if routes.book.may_come_from(node, type_id):
        return True
    until = routes.neighbours[node].parting.get(type_id)
    moving = routes.moving.get(type_id)
    if (until is not None and now < until) or (moving is not None and now < moving):
        return True
    return _may_lead(state, node, node_id_of_type(type_id))


def _may_lead(state: BrokerState, node: NodeId, rendezvous: NodeId) -> bool:
    """Say whether a neighbour leads to a rendezvous, or would if the one that does were gone."""
    routes, own = state.routes, state.routes.membership.own.node
    nearest = routes.overlay.closest(rendezvous, 1 + REPLICAS)
    if own in nearest:
        return node in nearest[: nearest.index(own)]
    return node in nearest or (_is_quiet(state, nearest[0]) and is_closer(node, than=own, target=rendezvous))


def _is_quiet(state: BrokerState, node: NodeId) -> bool:
    link = state.routes.link_to(node)
    return link is None or state.links[link].silent_rounds >= _ROUNDS_QUIET


def refuse_unasked(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """Let a frame go nowhere; once in a lease, say so in the log, and to the neighbour what it was asked for.

    An honest one that is mistaken finds out by that.
    """
    counted = Count("maia_frames_refused_total", labels={"code": FrameUnasked.code})
    neighbour = state.routes.neighbours[state.routes.node_of[link.id]]
    noted = neighbour.unasked_noted_at
    if noted is not None and noted <= now < seconds_after(noted, state.settings.lease_s):
        return [counted]
    neighbour.unasked_noted_at = now
    problem = FrameUnasked("a frame came from a broker that was not asked for its type")
    renewed = told(state, [state.routes.book.renewal(neighbour.node, now)])
    return [counted, *refusal_effects(problem, link.peer, link=link.id, asked="Carried"), *renewed]


# ------------------------------------------------------------ while things change


def offer_ended(neighbour: Neighbour, type_id: bytes, until: Instant) -> None:
    """Let frames that are on the way arrive from a neighbour whose offer does not stand any more."""
    parting = neighbour.parting
    parting.pop(type_id, None)
    if len(parting) >= PARTING_MAX:
        del parting[next(iter(parting))]
    parting[type_id] = until


def offers_lapsed(state: BrokerState, lapsed: Iterable[tuple[Hop, bytes]], now: Instant) -> None:
    """Take note of neighbours who did not renew what they offered: they may sleep, and wake up."""
    until = seconds_after(now, state.settings.lease_s)
    for hop, type_id in lapsed:
        neighbour = state.routes.neighbours.get(hop) if isinstance(hop, int) else None  # type: ignore[call-overload]  # NodeId is an int
        if neighbour is not None:
            offer_ended(neighbour, type_id, until)


def tree_moved(state: BrokerState, types: Iterable[bytes], now: Instant) -> None:
    """Take note that the ways to the rendezvous of some types have changed."""
    until, routes = seconds_after(now, state.settings.lease_s), state.routes
    standing = {type_id: end for type_id, end in routes.moving.items() if now < end}
    routes.moving = standing | dict.fromkeys(types, until)
