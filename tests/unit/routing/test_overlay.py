"""Which nodes are kept, and which of them is next."""

from __future__ import annotations

import pytest

from maia.routing.overlay.table import RING, NodeId, Overlay, slot_of

OWN = NodeId(0x8000 << 112)


def at(offset: int) -> NodeId:
    return NodeId((OWN + offset) % RING)


def overlay_with(*offsets: int, leaf_size: int = 4) -> Overlay:
    overlay = Overlay(OWN, leaf_size)
    for offset in offsets:
        overlay.learn(at(offset))
    return overlay


def test_a_broker_that_holds_a_place_of_the_table_keeps_it():
    far, later = at(5 << 100), at((5 << 100) + 1)
    overlay = overlay_with(-2, -1, 1, 2)
    assert slot_of(far, own=OWN) == slot_of(later, own=OWN)
    assert overlay.would_keep(far)
    assert overlay.learn(far)
    assert not overlay.would_keep(later)
    assert not overlay.learn(later)
    assert later not in overlay
    assert far in overlay


def test_a_place_that_became_free_can_be_taken():
    far, later = at(5 << 100), at((5 << 100) + 1)
    overlay = overlay_with(-2, -1, 1, 2)
    overlay.learn(far)
    assert overlay.forget(far)
    assert not overlay.forget(far)
    assert overlay.learn(later)
    assert overlay.next_hop(far) == later


def test_a_leaf_that_is_pushed_out_stays_if_it_holds_a_place_of_the_table():
    overlay = overlay_with(-0x20, -0x10, 0x10, 0x20, 0x300)
    overlay.learn(at(1))
    assert at(0x20) not in overlay.leaf_set
    assert at(0x20) in overlay


def test_a_leaf_that_is_pushed_out_of_a_taken_place_is_dropped():
    overlay = overlay_with(-2, -1, 0x21, 0x22, 0x20)
    assert at(0x22) not in overlay
    assert overlay.successors() == (at(0x20), at(0x21))


def test_a_leaf_takes_the_place_of_a_lost_holder():
    overlay = overlay_with(-2, -1, 0x21, 0x22)
    overlay.forget(at(0x21))
    assert at(0x22) in overlay.table.values()


def test_a_node_never_learns_itself():
    overlay = Overlay(OWN)
    assert not overlay.learn(OWN)
    assert not overlay.would_keep(OWN)
    assert not overlay.forget(OWN)
    assert len(overlay) == 0


@pytest.mark.parametrize("leaf_size", [-2, 0, 1, 3])
def test_a_leaf_set_has_two_equal_sides(leaf_size):
    with pytest.raises(ValueError, match="either side"):
        Overlay(OWN, leaf_size)
