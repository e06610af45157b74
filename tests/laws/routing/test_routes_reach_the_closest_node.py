"""Routes end, they end at the right node, and they are short, whatever the tables hold."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.routing.overlay.table import RING, NodeId, Overlay, closeness, is_closer
from support.random_cases import usually

pytestmark = pytest.mark.laws

points = st.one_of(
    st.integers(0, RING - 1),
    st.integers(0, 300),
    st.integers(RING - 300, RING - 1),
    # Around the boundaries of digits, where a shared prefix and a short distance disagree.
    st.builds(
        lambda first, level, near: (first * (1 << (4 * level)) + near) % RING,
        st.integers(0, 16),
        st.integers(0, 31),
        st.integers(-3, 3),
    ),
).map(NodeId)
memberships = st.lists(points, min_size=1, max_size=40, unique=True)
leaf_sizes = st.sampled_from([2, 4, 16])


def overlay_of(own: NodeId, known: list[NodeId], leaf_size: int) -> Overlay:
    overlay = Overlay(own, leaf_size)
    for node in known:
        overlay.learn(node)
    return overlay


@given(memberships, leaf_sizes, points, st.data())
def test_every_hop_is_strictly_closer_however_little_the_nodes_know(members, leaf_size, target, data):
    """So no route visits a node twice: distances to the target only shrink, and there are finitely many."""
    known = {own: data.draw(st.lists(st.sampled_from(members))) for own in members}
    overlays = {own: overlay_of(own, nodes, leaf_size) for own, nodes in known.items()}
    for start in members:
        path = [start]
        while (hop := overlays[path[-1]].next_hop(target)) is not None:
            assert is_closer(hop, than=path[-1], target=target)
            path.append(hop)
        assert len(path) == len(set(path))


@given(memberships, leaf_sizes, points, st.randoms(use_true_random=False))
@example([NodeId(0x7FFF), NodeId(0x8000), NodeId(0x8FFF)], 2, NodeId(0x8001), Random(0))  # noqa: S311 - a test case
def test_with_right_leaf_sets_every_route_ends_at_the_closest_node(members, leaf_size, target, random):
    closest = min(members, key=lambda node: closeness(node, target))
    for start in members:
        at = start
        while True:
            order = random.sample(members, len(members))
            hop = overlay_of(at, order, leaf_size).next_hop(target)
            if hop is None:
                break
            at = hop
        assert at == closest


@given(points, memberships, leaf_sizes, st.data())
def test_what_is_kept_is_the_leaf_set_and_the_holders_after_any_history(own, members, leaf_size, data):
    overlay = Overlay(own, leaf_size)
    present: set[NodeId] = set()
    for node in data.draw(st.lists(st.sampled_from(members), max_size=60)):
        if node in present and data.draw(st.booleans()):
            overlay.forget(node)
            present.discard(node)
        else:
            predicted = node in overlay or overlay.would_keep(node)
            assert overlay.learn(node) == predicted
            present.add(node)
    assert set(overlay.nodes) == overlay.leaf_set | set(overlay.table.values())
    assert set(overlay.nodes) <= present - {own}


@given(points, memberships, leaf_sizes)
def test_the_leaf_set_is_the_nearest_of_all_that_were_learned(own, members, leaf_size):
    overlay = overlay_of(own, members, leaf_size)
    others = [node for node in members if node != own]
    after = sorted(others, key=lambda node: (node - own) % RING)[: leaf_size // 2]
    before = sorted(others, key=lambda node: (own - node) % RING)[: leaf_size // 2]
    assert overlay.successors() == tuple(after)
    assert overlay.predecessors() == tuple(before)


@given(points, memberships, leaf_sizes, points, st.integers(0, 50))
def test_the_closest_are_those_that_sorting_everything_gives(own, members, leaf_size, target, count):
    overlay = overlay_of(own, members, leaf_size)
    ordered = sorted({own, *overlay.nodes}, key=lambda node: closeness(node, target))
    assert overlay.closest(target, count) == tuple(ordered[:count])
    assert overlay.next_hop(target) == (None if ordered[0] == own else ordered[0])


@pytest.mark.parametrize("seed", range(1, usually(2, laws=3)))
def test_routes_are_logarithmic_and_tables_stay_small(seed):
    """400 brokers that have met every broker: counts, no clocks."""
    random = Random(seed)  # noqa: S311 - test cases, not secrets
    members = [NodeId(random.getrandbits(128)) for _ in range(400)]
    overlays = {own: overlay_of(own, random.sample(members, len(members)), 16) for own in members}
    hops = []
    for _ in range(1000):
        at, target, count = random.choice(members), NodeId(random.getrandbits(128)), 0
        while (hop := overlays[at].next_hop(target)) is not None:
            at, count = hop, count + 1
        hops.append(count)
    logarithm = math.log(len(members), 16)
    assert sum(hops) / len(hops) <= logarithm + 0.5
    assert max(hops) <= math.ceil(logarithm) + 2
    assert sum(len(overlay) for overlay in overlays.values()) / len(members) <= 16 + 30 * logarithm


@pytest.mark.parametrize("own", [0, RING - 1, 0x7FFF << 112, 0x8000 << 112])
def test_one_node_keeps_a_bounded_part_of_very_many(own):
    random = Random(5)  # noqa: S311 - test cases, not secrets
    overlay = Overlay(NodeId(own))
    for _ in range(20_000):
        overlay.learn(NodeId(random.getrandbits(128)))
    assert len(overlay) <= 16 + 32 * 4
