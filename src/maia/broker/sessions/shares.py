"""How much may a peer make this broker keep, and what follows if it is more?

An account in bytes for each link, beside all limits on numbers (A89):

- before its welcome a peer has proved nothing: what it sends, all messages
  together, is as much as a handshake takes and no more (`maia.sessions`);
- a neighbouring broker tells what others want and offer, and most of it
  cannot be verified here. What is kept on its behalf counts together:
  interests, offers, replicas, rights that no key opens yet, and what has to be
  remembered of what was refused. It is free again when it is taken back.

A peer beyond its share is parted from, and all that it left goes with it.
"""

from __future__ import annotations

from typing import Final

from maia.broker.refusals import BeyondShare
from maia.broker.routing.outbox import Proof
from maia.broker.routing.routes import Neighbour
from maia.broker.sealed.entries import ReceivedInterest, ReceivedOffer
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.wire.messages import (
    Interest,
    Offer,
    Replica,
    SealedInterest,
    SealedOffer,
    SealedReplica,
    SealedRights,
)

KEPT: Final = frozenset({Interest, Offer, Replica, SealedInterest, SealedOffer, SealedReplica, SealedRights})
"""What neighbours say that is kept."""

_CHANGE: Final = 384
"""What it takes to remember that an entry was refused, or narrowed."""
_REFUSED: Final = 128
"""What it takes to remember that a certificate was no proof, beside the certificate."""
_RELIED_ON: Final = 256
"""What it takes to remember that something rests on a certificate."""


def check_share(state: BrokerState, link: Link, size: int) -> None:
    """Part from a peer that would have more than its share with a message of this size that is kept."""
    if _kept_for(state, link) + size > state.settings.limits.bytes_per_peer:
        raise BeyondShare("this broker keeps as many bytes on your behalf as it may")


def _kept_for(state: BrokerState, link: Link) -> int:
    routes = state.routes
    node = routes.node_of.get(link.id)
    if node is None:
        return 0  # a second link to the same broker, on which nothing is heard
    neighbour = routes.neighbours[node]
    refused = _CHANGE * len(neighbour.changed) + _REFUSED * len(neighbour.refused_on)
    told = routes.book.link(node).bytes + routes.store.bytes_from(node)
    relied_on = _RELIED_ON * _relied_on(state, link, neighbour)
    return told + refused + neighbour.refused_bytes + link.rights_bytes + relied_on


def _relied_on(state: BrokerState, link: Link, neighbour: Neighbour) -> int:
    """Return on how many certificates something of a neighbour rests; those of what is gone are forgotten."""
    dependencies, book = state.statements.dependencies, state.routes.book
    if len(dependencies.certificates_on(link.id)) > link.reliance_max:
        needed = {*neighbour.refused_on, *(link.connect.watched if link.connect else ())}
        for key in book.types():
            told = [entry.baggage for entry in book.entries(neighbour.node, key)]
            for baggage in (*told, book.offer(neighbour.node, key)):
                if isinstance(baggage, Proof | ReceivedInterest | ReceivedOffer):
                    needed |= baggage.watched
        dependencies.keep_only(link.id, needed)
        link.reliance_max = 4096 + 2 * len(dependencies.certificates_on(link.id))
    return len(dependencies.certificates_on(link.id))
