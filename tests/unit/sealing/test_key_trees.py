"""A manager and its members: what they promise, what they refuse, and what they keep to themselves."""

from __future__ import annotations

import pytest

from maia.sealing.tree.key_tree import GROUP_BYTES_MAX, MEMBER_BYTES_MAX, Slots
from maia.sealing.tree.node_secrets import MEMBERS_MAX, ROOT, ancestor, level_of, named, stands_above
from maia.sealing.tree.rekey import read_rekey
from maia.testing.refusals import raises
from reference.tree_store import (
    Scheme,
    new_tree,
    seated,
    tree_to_bytes,
)
from support.key_trees import GROUP, counted_bytes, tree_of

ANN, BOB, CEM, DEE = b"Ann", b"Bob", b"Cem", b"Dee"


def entries(broadcast: bytes) -> int:
    return len(read_rekey(broadcast).entries)


def crowd(count: int) -> list[bytes]:
    return [b"member %d" % number for number in range(count)]


# ---------------------------------------------------------------- what a change costs


@pytest.mark.parametrize("height", [1, 4, 8, 12])
def test_one_leave_or_join_costs_one_wrapped_secret_for_each_level(height):
    tree = tree_of(*crowd(1 << height))
    assert entries(tree.leave(b"member 1").broadcast) == height
    assert entries(tree.join(b"member 1").broadcast) == height


@pytest.mark.parametrize("height", [2, 4, 8])
def test_the_papers_tree_costs_as_much(height):
    tree = tree_of(*crowd(1 << height), scheme=Scheme.OFT)
    assert entries(tree.leave(b"member 1").broadcast) == height
    assert entries(tree.join(b"member 1").broadcast) == height + 1


def test_a_refresh_costs_one_wrapped_secret_whatever_the_size():
    assert entries(tree_of(*crowd(1000)).refresh().broadcast) == 1


def test_a_founding_of_many_wraps_nothing_for_all_are_handed_paths():
    for scheme in Scheme:
        tree = new_tree(group=GROUP, random=counted_bytes(), scheme=scheme)
        rekeyed = tree.rekey(joins=crowd(100))
        assert entries(rekeyed.broadcast) == 0
        assert len(rekeyed.welcomes) == 100


def test_many_leaves_at_once_cost_less_than_one_by_one():
    together, single = tree_of(*crowd(256)), tree_of(*crowd(256))
    leaving = crowd(256)[100:120]
    apart = sum(entries(single.leave(member).broadcast) for member in leaving)
    assert entries(together.rekey(leaves=leaving).broadcast) < apart / 3


def test_a_tree_that_lost_its_members_costs_what_a_small_one_costs():
    everybody = crowd(1024)
    tree = tree_of(*everybody)
    staying = [everybody[pow(7, power, 1021)] for power in range(16)]  # scattered as if by chance
    tree.rekey(leaves=[member for member in everybody if member not in staying])
    costs = []
    for member in staying:
        costs.append(entries(tree.leave(member).broadcast))
        tree.join(member)
    assert max(costs) <= 10
    assert sum(costs) / len(costs) <= 6


# ---------------------------------------------------------------- where members sit


def test_a_joiner_takes_the_lowest_free_slot():
    tree = tree_of(ANN, BOB, CEM)
    tree.leave(BOB)
    assert tree.join(DEE).welcomes[DEE].slot == 1


def test_slots_double_and_halve_with_the_members():
    slots = Slots()
    for member in crowd(33):
        slots.place(member)
    assert (slots.capacity, slots.height) == (64, 6)
    for member in reversed(crowd(33)[8:]):
        slots.vacate(member)
        slots.shrink()
    assert slots.capacity == 16
    for member in reversed(crowd(8)[1:]):
        slots.vacate(member)
        slots.shrink()
    assert (slots.capacity, len(slots)) == (2, 1)
    assert [slots.place(member) for member in crowd(5)[1:]] == [1, 2, 3, 4]


def test_a_tree_gives_back_the_room_of_those_who_left():
    tree = tree_of(*crowd(64))
    tree.rekey(leaves=crowd(64)[4:])
    assert tree._slots.capacity == 8


def test_a_slot_above_an_empty_half_keeps_the_tree_high():
    slots = seated({0: ANN, 9: BOB})
    slots.shrink()
    assert slots.capacity == 16
    assert [slots.nodes_above(slot) for slot in (0, 9)] == [[ancestor(0, 4)], [ancestor(0, 4)]]


def test_nodes_stand_above_the_slots_below_them():
    node = ancestor(5, 2)
    assert level_of(node) == 2
    assert [slot for slot in range(16) if stands_above(node, slot)] == [4, 5, 6, 7]
    assert stands_above(node, node)
    assert not stands_above(5, node)
    assert stands_above(ROOT, node)
    assert not stands_above(node, ROOT)
    assert named(ancestor(MEMBERS_MAX - 1, 0))
    assert not named(ancestor(MEMBERS_MAX, 0))
    assert not named(17 << 24)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("joins", "leaves", "sentence"),
    [
        ([ANN], [], "is in it already"),
        ([], [DEE], "without being in it"),
        ([DEE, DEE], [], "twice"),
        ([], [ANN, ANN], "twice"),
        ([b""], [], "1 to 255 bytes"),
        ([b"x" * (MEMBER_BYTES_MAX + 1)], [], "1 to 255 bytes"),
        ([DEE], [BOB, b"stranger"], "without being in it"),
    ],
)
@pytest.mark.parametrize("scheme", Scheme)
def test_a_change_that_makes_no_sense_changes_nothing(scheme, joins, leaves, sentence):
    tree = tree_of(ANN, BOB, CEM, scheme=scheme)
    before = tree_to_bytes(tree)
    with raises("SEALING-MEMBER", match=sentence):
        tree.rekey(joins=joins, leaves=leaves)
    assert tree_to_bytes(tree) == before


def test_a_group_has_a_largest_size(monkeypatch):
    monkeypatch.setattr("maia.sealing.tree.key_tree.MEMBERS_MAX", 4)
    tree = tree_of(ANN, BOB, CEM, DEE)
    with raises("SEALING-GROUP-FULL", match="at most 4 members"):
        tree.join(b"Eva")
    tree.rekey(joins=[b"Eva"], leaves=[ANN])


def test_a_group_has_a_name_of_bounded_length():
    new_tree(group=b"g" * GROUP_BYTES_MAX, random=counted_bytes())
    with raises("SEALING-MEMBER"):
        new_tree(group=b"g" * (GROUP_BYTES_MAX + 1), random=counted_bytes())


# ---------------------------------------------------------------- what is kept


# ---------------------------------------------------------------- what stays quiet
