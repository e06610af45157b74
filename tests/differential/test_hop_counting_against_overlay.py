"""The arrays that count hops for benchmark 8 choose every next hop as the overlay does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from maia.routing.overlay.table import NodeId, Overlay, slot_of
from support.random_cases import usually

BENCH = Path(__file__).resolve().parents[2] / "bench"
BROKERS = 150


@pytest.fixture(scope="module")
def counting() -> Iterator[ModuleType]:
    sys.path.insert(0, str(BENCH))
    import hop_counting

    yield hop_counting
    sys.path.remove(str(BENCH))


def wide(short: int) -> NodeId:
    """Return the point of the ring whose upper half these 64 bits are."""
    return NodeId(int(short) << 64)


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(usually(2, laws=4)))
def test_the_arrays_keep_and_choose_what_the_overlay_keeps_and_chooses(counting, seed):
    random = np.random.default_rng(seed)
    network = counting.OurNetwork(counting.random_ids(BROKERS, random), random)
    targets = random.integers(0, 2**64, size=40, dtype=np.uint64)
    for place in range(BROKERS):
        own = wide(network.ids[place])
        overlay = Overlay(own)
        # A peer that comes first holds a place of the table; here the holders came before the leaves.
        near = set(counting.leaves(BROKERS)[place])
        for other in sorted(network.kept[place], key=lambda other: other in near):
            overlay.learn(wide(network.ids[other]))
        assert len(overlay) == counting.kept_sizes(network.kept)[place]
        everybody = {slot_of(wide(other), own=own) for other in network.ids if wide(other) != own}
        assert everybody == set(overlay.table)
        chosen = network.next_hops(np.full(len(targets), place), targets)
        for target, hop in zip(targets, chosen, strict=True):
            expected = overlay.next_hop(wide(target))
            assert (own if expected is None else expected) == wide(network.ids[hop])


def test_a_tree_counts_each_link_once(counting):
    paths = np.array([[1, 2, 9], [3, 2, 9], [9, 9, 9], [2, 9, 9]])
    assert counting._links_of_growing_tree(paths).tolist() == [2, 3, 3, 3]
