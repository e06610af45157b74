"""Whatever happens in whatever order: at rest, the network routes as if every broker knew everything.

Each step changes a small network of routing books and lets some tells arrive,
from any queue. At the end `SimulatedNetwork.check` compares it with global
knowledge: publications come to every broker with a matching client, once, and
nowhere else; both ends of each link agree; nothing is told that covering
makes needless.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.events import AttributeUid, Event, Kind
from maia.predicates import Predicate
from maia.predicates.covering.sides import RecentBoxes, proved_to_cover
from maia.routing.table.interests import Group, breaks_tie
from support.predicates import conjunctions, events, predicates
from support.routing import SimulatedNetwork
from support.routing_steps import Step, perform, run, steps

pytestmark = pytest.mark.laws

KINDS = {AttributeUid("speed"): Kind.INT, AttributeUid("plate"): Kind.STRING}
WHAT = (
    *("subscribe",) * 5,
    *("unsubscribe",) * 3,
    *("advertise",) * 3,
    *("unadvertise", "crash", "start", "choose parents", "reconnect"),
)


@given(
    st.integers(1, 6),
    steps(WHAT, conjunctions(KINDS, max_size=3)),
    st.lists(events(KINDS), min_size=3),
    st.randoms(),
)
def test_at_rest_every_publication_comes_to_those_who_want_it_once(
    brokers: int, happens: list[Step], published: list[Event], random: Random
) -> None:
    run(SimulatedNetwork, brokers, happens, random).check(published[:6])


@given(
    st.integers(2, 5),
    steps(WHAT, predicates(KINDS, max_leaves=4)),
    st.lists(events(KINDS), min_size=3),
    st.randoms(),
)
def test_filters_of_any_shape_are_routed_without_loss(
    brokers: int, happens: list[Step], published: list[Event], random: Random
) -> None:
    network = run(SimulatedNetwork, brokers, happens, random)
    network.deliver()
    for event in published[:6]:
        for (broker, type_id), advertisements in network.publishers.items():
            if advertisements:
                network.check_publication(broker, type_id, event)


@given(
    st.integers(2, 5),
    steps(WHAT, conjunctions(KINDS, max_size=2)),
    st.lists(events(KINDS), min_size=3),
    st.randoms(),
)
def test_what_a_link_lost_is_found_and_sent_again(
    brokers: int, happens: list[Step], published: list[Event], random: Random
) -> None:
    network = SimulatedNetwork(brokers, random)
    for step in happens:
        perform(network, brokers, step)
        network.lose_one_tell()
        network.deliver(step[-1])
    for _ in range(6):
        network.deliver()
        network.tick(seconds=21)
    network.check(published[:4])


@given(st.integers(2, 5), steps(WHAT, conjunctions(KINDS, max_size=2)), st.randoms())
def test_a_network_in_which_every_broker_leaves_forgets_everything(
    brokers: int, happens: list[Step], random: Random
) -> None:
    network = run(SimulatedNetwork, brokers, happens, random)
    for broker, type_id, entry in list(network.subscriptions):
        network.unsubscribe(broker, type_id, int.from_bytes(entry, "big"))
    for (broker, type_id), advertisements in network.publishers.items():
        for number in list(advertisements):
            network.unadvertise(broker, type_id, number)
    network.deliver()
    for book in network.books.values():
        assert book.types() == ()
        for hop in book.neighbours():
            link = book.link(hop)
            assert (link.sent.count, link.sent.total, link.received.count, link.received.total) == (
                0,
                0,
                0,
                0,
            )


@given(
    st.integers(2, 5),
    st.sets(st.integers(0, 4)),
    steps(WHAT, conjunctions(KINDS, max_size=2)),
    st.lists(events(KINDS), min_size=3),
    st.randoms(),
)
def test_each_side_of_a_partition_routes_for_itself_and_both_come_together(
    brokers: int, side: set[int], happens: list[Step], published: list[Event], random: Random
) -> None:
    """A83: no side loses its own subscriptions, and healing leaves no second way to any broker."""
    network = run(SimulatedNetwork, brokers, happens, random)
    network.partition(side)
    network.check(published[:3])
    for step in happens[:5]:
        if step[0] in ("subscribe", "unsubscribe", "advertise"):
            perform(network, brokers, step)
    network.deliver(5)
    network.heal()
    network.check(published[:3])


@given(st.lists(predicates(KINDS, max_leaves=4), min_size=2, max_size=5), st.permutations(range(5)))
def test_outranking_never_goes_round_in_a_circle(filters: list[Predicate], ages: list[int]) -> None:
    """A circle of filters, each hidden by the next, would hide them all."""
    groups = [
        Group(id=ages[hop], filter=one, hop=hop, boxes=RecentBoxes()) for hop, one in enumerate(filters)
    ]
    above = {
        low.hop: {high.hop for high in groups if high is not low and outranks(wide=high, narrow=low)}
        for low in groups
        if not low.box.is_empty
    }
    while above:
        tops = {hop for hop, higher in above.items() if not higher & above.keys()}
        assert tops
        above = {hop: higher for hop, higher in above.items() if hop not in tops}


def outranks(*, wide: Group, narrow: Group) -> bool:
    covered = not wide.box.is_empty and proved_to_cover(wide=wide.box, narrow=narrow.box)
    return covered and breaks_tie(wide=wide, narrow=narrow)
