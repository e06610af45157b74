"""What does a broker believe of what the rendezvous before it says that others want and offer?

A broker that takes over goes on by the replicas that it was given, until the
brokers in them have told it everything themselves. Whoever may connect may
act as a broker and send replicas, so these count for no more than what they
prove: an interest without a proof asks for nothing (A67), and one with a
proof falls with its certificates (A35). An offer in a replica has no proof.
It tells whom to ask, and frames from there are believed for a lease and no
longer, unless that broker proves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from maia.broker.publication.expected_sources import offer_ended
from maia.broker.routing.messages import NO_PROOF, Proof
from maia.broker.routing.outbox import route_messages
from maia.broker.routing.proofs import is_to_be_verified, proved_filter
from maia.broker.state import BrokerState, seconds_after
from maia.errors import MaiaError
from maia.events import Instant
from maia.routing.overlay.ids import NodeId
from maia.routing.table.hops import RouteEntry, is_of_sealed
from maia.routing.table.replicas import Replica
from maia.wire.effects import Count, Effect, LinkId

__all__ = ["adopt"]


def adopt(state: BrokerState, node: NodeId, replicas: Iterable[Replica], now: Instant) -> list[Effect]:
    """Use what a former rendezvous said of a neighbour, as far as it is proved."""
    neighbour, book = state.routes.neighbours[node], state.routes.book
    effects: list[Effect] = []
    for replica in replicas:
        entries, type_id = replica.entries, replica.type_id
        if not is_of_sealed(type_id):  # as far as those can be read, they were when they came
            entries = tuple(_proved(state, neighbour.link, replica, now))
            effects += _not_proved(len(replica.entries) - len(entries))
        if replica.offers:
            offer_ended(neighbour, type_id, seconds_after(now, state.settings.lease_s))
        # Another broker said it, so it is not on this one's account.
        entries = tuple(replace(entry, size=0) for entry in entries)
        effects += route_messages(state, book.adopt(node, type_id, entries, offers=replica.offers, now=now))
    return effects


def _proved(state: BrokerState, link: LinkId, replica: Replica, now: Instant) -> Iterator[RouteEntry]:
    for entry in replica.entries:
        if not is_to_be_verified(state):
            yield entry
            continue
        proof = entry.baggage if isinstance(entry.baggage, Proof) else NO_PROOF
        try:
            proved = proved_filter(state, replica.type_id, proof, entry.predicate, now)
        except MaiaError:
            continue  # who wants it will say so, and is then answered
        state.statements.reliance.note(link, proved.watched)
        yield replace(entry, predicate=proved.filter, baggage=replace(proof, watched=proved.watched))


def _not_proved(some: int) -> list[Effect]:
    return [Count("maia_replicas_not_proved_total", some)] if some else []
