"""Brokers know different parts of the same filters, and learn and forget keys: no broker misses anything.

Each broker of a small network opens what its keys open, matches by that, and
lets an interest stand for another only where that is proved. At rest every
publication comes to every broker with a matching client, once, and both ends of
each link agree on what was told, whatever each of them knows.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.events import AttributeUid, Event, Kind
from maia.predicates import ALWAYS, Predicate, admits
from maia.routing.table.hops import InterestUpdate, RouteEntry, RouteUpdate, SealedEntry
from maia.routing.table.routing_table import RoutingTable
from maia.sealing.filters.sealed_filters import SealedFilter, open_filter
from support.predicates import conjunctions, events, predicates
from support.routing import TYPES, SimulatedNetwork, entry_id
from support.routing_steps import run, steps
from support.sealed_filters import EPOCH, every_subset, random_from, ring, sealed

pytestmark = pytest.mark.laws

SPEED, PLATE = AttributeUid("speed"), AttributeUid("plate")
KINDS = {SPEED: Kind.INT, PLATE: Kind.STRING}
RINGS = [ring(*groups) for groups in every_subset((None, SPEED, PLATE))]
ALL_KEYS = ring(None, SPEED, PLATE)
WHAT = (
    *("subscribe",) * 5,
    *("unsubscribe",) * 3,
    *("advertise",) * 3,
    *("keys",) * 3,
    *("unadvertise", "crash", "start", "choose parents"),
)


class SealedNetwork(SimulatedNetwork):
    """Brokers with some of the keys each."""

    def __init__(self, brokers: int, random: Random) -> None:
        self.rings = {broker: random.choice(RINGS) for broker in range(brokers)}
        self._chance = random_from("network")
        super().__init__(brokers, random)

    def subscribe(self, broker: int, type_id: bytes, number: int, predicate: Predicate) -> None:
        """Let a client subscribe at a broker that seals what it passes on."""
        self.subscriptions[(broker, type_id, entry_id(number))] = predicate
        filter_ = sealed(predicate, ALL_KEYS, random=self._chance)
        entry = SealedEntry(entry_id(number), predicate, filter_, frozenset(), filter_.digest)
        self._send(broker, self.books[broker].local_entry(type_id, entry))

    def change_keys(self, broker: int) -> None:
        """Let a broker learn some keys and forget others, and understand everything anew."""
        self.rings[broker] = self.random.choice(RINGS)
        book = self.books[broker]
        for type_id in TYPES:
            for hop in book.hops(type_id):
                if isinstance(hop, int):
                    anew = [self.understood(broker, entry) for entry in book.entries(hop, type_id)]
                    self._send(broker, book.understood_anew(hop, type_id, anew, ()))

    def understood(self, broker: int, entry: RouteEntry) -> SealedEntry:
        """Return an entry as far as a broker's keys go."""
        filter_ = entry.baggage
        assert isinstance(filter_, SealedFilter)
        if not self.rings[broker].groups(EPOCH):
            return SealedEntry(entry.id, ALWAYS, filter_, frozenset({filter_.digest}), filter_.digest)
        opened = open_filter(filter_, self.rings[broker])
        return SealedEntry(entry.id, opened.opened, filter_, opened.unopened, filter_.digest)

    def hear(self, book: RoutingTable, sender: int, tell: RouteUpdate) -> list[RouteUpdate]:
        if not isinstance(tell, InterestUpdate):
            return super().hear(book, sender, tell)
        (receiver,) = [broker for broker, one in self.books.items() if one is book]
        add = [self.understood(receiver, entry) for entry in tell.add]
        return book.receive_interest(sender, tell.type_id, add, tell.remove, self.now)

    def check_all(self, published: list[Event]) -> None:
        """Claim what the docstring of this file claims."""
        self.deliver()
        for event in published:
            for (origin, type_id), advertisements in self.publishers.items():
                if advertisements:
                    reached, _ = self.spread(origin, type_id, event)
                    assert reached == self.wanting(origin, type_id, event)
        for sender, receiver in self.queues:
            told = self.books[sender].link(receiver).sent
            heard = self.books[receiver].link(sender).received
            assert (told.count, told.digest) == (heard.count, heard.digest)

    def wanting(self, origin: int, type_id: bytes, event: Event) -> set[int]:
        """Return the brokers with a client who wants an event."""
        return {
            broker
            for (broker, wanted, _), predicate in self.subscriptions.items()
            if wanted == type_id and admits(predicate, event) and self.can_reach(origin, broker)
        }


@given(
    st.integers(2, 6),
    steps(WHAT, st.one_of(conjunctions(KINDS, max_size=3), predicates(KINDS, max_leaves=4))),
    st.lists(events(KINDS), min_size=3),
    st.randoms(),
)
def test_at_rest_every_publication_comes_to_those_who_want_it_whatever_each_broker_knows(
    brokers, happens, published, random
):
    run(SealedNetwork, brokers, happens, random).check_all(published[:6])


@given(st.lists(conjunctions(KINDS, max_size=3), min_size=2, max_size=8), st.randoms())
def test_a_broker_with_keys_passes_on_no_more_than_one_that_reads_plain_filters(filters, random):
    """Opened filters cover as plain ones do."""
    told = []
    for keys in (RINGS[-1], None):
        network = SimulatedNetwork(2, random) if keys is None else SealedNetwork(2, random)
        if isinstance(network, SealedNetwork):
            network.rings = dict.fromkeys(network.rings, RINGS[-1])
        top = 0 if network.parents[(0, TYPES[0])] is None else 1
        for number, predicate in enumerate(filters):
            network.subscribe(1 - top, TYPES[0], number, predicate)
        network.deliver()
        told.append(len(network.books[top].entries(1 - top, TYPES[0])))
    assert told[0] == told[1]
