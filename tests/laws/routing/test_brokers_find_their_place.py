"""However brokers join, crash, leave and are cut off, every broker ends up with the right neighbours."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maia.routing.overlay.membership import Ask, Connect, Spread
from maia.routing.overlay.table import NodeId
from support.overlay import Ring

pytestmark = pytest.mark.laws

seeds = st.integers(0, 2**32)
LEAF_SIZE = 8
# One example is a whole network; the profile's many examples would take minutes.
few = settings(max_examples=20)
fewer = settings(max_examples=12)


def network(seed: int, brokers: int, *, at_once: bool) -> Ring:
    """Return brokers that all joined through number 0, one after the other or all at once."""
    ring = Ring(seed, leaf_size=LEAF_SIZE)
    ring.add(0)
    for number in range(1, brokers):
        ring.add(number, seeds=[0])
        if not at_once:
            ring.settle()
    ring.settle()
    return ring


def assert_routes_end_well(ring: Ring, targets: list[NodeId]) -> None:
    for target in targets:
        closest = ring.closest(target)
        assert all(ring.route(start, target)[-1] == closest for start in ring.nodes)


points = st.lists(st.integers(0, 2**128 - 1).map(NodeId), min_size=1, max_size=3)


@few
@given(seeds, st.integers(1, 30), st.booleans(), points)
def test_joining_through_one_seed_yields_right_leaf_sets(seed, brokers, at_once, targets):
    ring = network(seed, brokers, at_once=at_once)
    assert ring.wrong_leaf_sets() == {}
    assert all(node.is_joined for node in ring.nodes.values())
    assert_routes_end_well(ring, targets)


@few
@given(seeds, st.integers(2, 30), st.integers(1, LEAF_SIZE // 2), st.integers(0, 100), points)
@example(1, 30, LEAF_SIZE // 2, 7, [NodeId(0)])
def test_neighbours_that_crash_together_are_repaired_at_once(seed, brokers, crashes, first, targets):
    """As many in a row as one side of a leaf set holds; no clock is needed for the repair."""
    ring = network(seed, brokers, at_once=False)
    order = sorted(ring.nodes)
    for place in range(min(crashes, brokers - 1)):
        ring.crash(order[(first + place) % brokers])
    ring.settle()
    assert ring.wrong_leaf_sets() == {}
    assert_routes_end_well(ring, targets)


@fewer
@given(seeds, st.integers(3, 15), st.data())
def test_brokers_may_come_leave_and_crash_in_any_order(seed, brokers, data):
    ring = network(seed, brokers, at_once=False)
    for step in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["join", "leave", "crash", "wait"])):
            case "join":
                ring.add(100 + step, seeds=[0, 1, 2])
            case "leave" if len(ring.nodes) > 4:
                ring.settle()
                ring.leave(data.draw(st.sampled_from(sorted(ring.nodes))))
            case "crash" if len(ring.nodes) > 4:
                ring.crash(data.draw(st.sampled_from(sorted(ring.nodes))))
            case _:
                ring.settle()
    ring.pass_time(200)
    alone = [own for own, node in ring.nodes.items() if not node.is_joined]
    for own in alone:  # its seeds were gone before it came: no broker can know of it
        ring.crash(own)
    ring.settle()
    assert ring.wrong_leaf_sets() == {}


@fewer
@given(seeds, st.integers(2, 14), st.data())
def test_a_network_that_was_cut_in_two_grows_together_again(seed, brokers, data):
    ring = network(seed, brokers, at_once=False)
    ring.split({node: data.draw(st.integers(0, 1)) for node in ring.nodes})
    ring.pass_time(data.draw(st.sampled_from([1, 60, 200])))
    ring.heal()
    ring.pass_time(200)
    assert ring.wrong_leaf_sets() == {}


def test_a_join_costs_a_bounded_number_of_messages():
    """Counted in a settled network of 60: the newcomer asks its leaves and a few on the way to them."""
    ring = network(7, 60, at_once=False)
    ring.sent.clear()
    ring.add(60, seeds=[0])
    ring.settle()
    kept = len(next(reversed(ring.nodes.values())).overlay)
    assert sum(isinstance(step, Connect) for step in ring.sent) <= 3 * kept
    assert sum(isinstance(step, Ask) for step in ring.sent) <= 6 * LEAF_SIZE
    assert sum(isinstance(step, Spread) for step in ring.sent) <= 4 * kept * LEAF_SIZE


def test_a_settled_network_says_little():
    ring = network(7, 30, at_once=False)
    ring.pass_time(60)
    ring.sent.clear()
    ring.pass_time(300)  # ten refreshes of thirty brokers
    assert sum(isinstance(step, Ask) for step in ring.sent) <= 30 * 10 * 3
    assert not any(isinstance(step, Spread) for step in ring.sent)
    assert sum(isinstance(step, Connect) for step in ring.sent) <= 30
