"""Attack A53: people who left a group and people who joined it later put together what they hold.

What they can work out is computed from the messages of the real trees, by
`tests/reference/coalitions.py`. The tree that key groups use withstands every
coalition of every history; the papers' tree does not, and the tests show how.
"""

from __future__ import annotations

import os
import sys
from itertools import combinations, permutations

import pytest

from maia.sealing.tree.node_secrets import ancestor
from reference import oft
from reference.coalitions import (
    GROUP,
    MEMBERS,
    WatchedGroup,
    breaches,
    counted_bytes,
    histories,
    left_in_the_dark,
    read_alone,
    smallest,
    told,
)
from reference.deferral import DeferringGroup
from reference.tree_store import Scheme, new_tree

LONG = bool(os.environ.get("MAIA_LAWS"))
ANN, BOB, CEM, DEE, EVA = MEMBERS
OPERATIONS = 6

# From no peer: every history of five members and six operations. From a founding: as many operations again,
# all six of them where that takes seconds, and for all foundings under `make laws`.
STARTS = [(0, 6), (1, 6), (2, 6), (3, 6), (4, 6 if LONG else 5), (5, 6 if LONG else 5)]
pytestmark = pytest.mark.laws


@pytest.mark.parametrize(("founders", "operations"), STARTS)
def test_no_coalition_reads_what_none_of_it_was_in_the_group_for(founders, operations):
    """A53, exhaustively: LKH leaks to no peer, a peer that left, joined later or came again, all together."""
    whole = 0
    for history, group in histories(Scheme.LKH, founders=founders, operations=operations):
        found = breaches(group)
        assert not found, told(founders, history, smallest(found[0], group), group)
        whole += 1
    assert whole >= 5 ** (operations - 3)


def test_the_papers_tree_leaks_to_one_who_left_and_one_who_came_later(capsys):
    """A53, exhaustively: six operations from no peer are enough for two people to read what neither may."""
    stories = []
    for history, group in histories(Scheme.OFT, founders=0, operations=OPERATIONS):
        for breach in breaches(group):
            pair = smallest(breach, group)
            people = {stay.member for stay in pair.stays}
            if people & inside(group, breach.version):
                continue  # a peer who came again and was in the group then: no news to that person
            assert len(pair.stays) == 2
            if len(people) == 2:
                stories.append(told(0, history, pair, group))
    assert stories
    with capsys.disabled():
        sys.stdout.write(f"\nOFT, {len(stories)} histories of six operations, such as: {stories[0]}\n")


def inside(group: WatchedGroup, version: int) -> set[bytes]:
    return {stay.member for stay in group.stays() if version in stay.versions}


def test_the_leak_of_the_papers_tree_is_real():
    """A53: Ann leaves, Dee and later Eva join; Ann and Eva compute what Bob, Cem and Dee shared before."""
    tree = new_tree(group=GROUP, random=counted_bytes(), scheme=Scheme.OFT)
    ann = dict(tree.rekey(joins=[ANN, BOB, CEM]).welcomes[ANN].secrets)
    tree.leave(ANN)
    shared = tree.join(DEE).secret
    eva = dict(tree.join(EVA).welcomes[EVA].secrets)
    top = ancestor(0, 2)
    stolen = oft.group_secret(oft.mixed(left=eva[top], right=ann[top]))
    assert stolen == shared.reveal()


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("founders", range(6))
def test_one_stay_alone_reads_its_own_time_and_nothing_else(scheme, founders):
    """A54: forward and backward secrecy of both trees, as long as no peer puts two stays together."""
    for history, group in histories(scheme, founders=founders, operations=6 if founders < 2 else 4):
        assert not left_in_the_dark(group), history
        assert not read_alone(group), history


@pytest.mark.parametrize("scheme", Scheme)
def test_in_the_papers_tree_one_person_with_two_stays_is_a_coalition(scheme):
    """A53: a peer who left and came again needs no accomplice against OFT; LKH gives nothing away."""
    alone = 0
    for _, group in histories(scheme, founders=4, operations=4):
        for breach in breaches(group):
            people = {stay.member for stay in smallest(breach, group).stays}
            alone += len(people) == 1 and not people & inside(group, breach.version)
    assert (alone > 0) == (scheme is Scheme.OFT)


@pytest.mark.parametrize("colluders", [2, 3, 4])
def test_any_number_of_colluders_in_any_order(colluders):
    """A53: k people who leave or join, and one more who joins, in every order: OFT leaks, LKH never."""
    founders, newcomers = [b"f%d" % i for i in range(6)], [b"n%d" % i for i in range(4)]
    leaks = dict.fromkeys(Scheme, 0)
    for leaving in range(1, colluders):
        for leavers in combinations(founders, leaving):
            orders = list(permutations([*leavers, *newcomers[: colluders - leaving + 1]]))
            for order in orders[:: 1 if LONG or colluders == 2 else 11]:
                for scheme in Scheme:
                    leaks[scheme] += bool(breaches(told_story(scheme, founders, order)))
    assert leaks[Scheme.LKH] == 0
    assert leaks[Scheme.OFT] > 0


def told_story(scheme, founders, order) -> WatchedGroup:
    group = WatchedGroup.new(scheme)
    group.change(joins=founders)
    for person in order:
        group.toggle(person)
    return group


@pytest.mark.parametrize("scheme", Scheme)
def test_one_change_of_many_leaks_no_more_than_many_changes(scheme):
    """A53: joins and leaves together in one change, every pair of sets; LKH leaks to no peer."""
    leaks = 0
    for first, second in permutations([set(c) for n in range(6) for c in combinations(MEMBERS, n)], 2):
        group = WatchedGroup.new(scheme)
        for wanted in (set(MEMBERS[:3]), first, second):
            here = group.tree.members
            group.change(joins=sorted(wanted - here), leaves=sorted(here - wanted))
        leaks += bool(breaches(group))
        assert not left_in_the_dark(group)
    assert leaks == 0 or scheme is Scheme.OFT


@pytest.mark.parametrize("scheme", Scheme)
def test_deferred_refreshes_widen_what_the_papers_tree_leaks(scheme):
    """A53 with MAIA 7.6.2: Ann's right ends, Dee's begins a moment later, and Eva's much later.

    Nothing is refreshed when Gus joins, for his right is older than the secret, nor when he
    leaves, for it lasts. The secret that Ann and Eva compute is in use all that time.
    """
    gus = b"Gus"
    rights = {ANN: range(3), BOB: range(2, 99), CEM: range(99), gus: range(99)}
    rights |= {DEE: range(4, 99), EVA: range(8, 99)}
    joining = {1: [ANN, CEM], 2: [BOB], 4: [DEE], 5: [gus], 8: [EVA]}
    leaving = {6: [gus]}
    group = DeferringGroup.new(scheme, rights)
    for now in range(12):
        group.tick(now)
        for person in leaving.get(now, ()):
            group.leave(person)
        for person in joining.get(now, ()):
            group.join(person, now)
    assert group.began_at == [0, 2, 3, 4, 8]  # nothing between Dee's beginning and Eva's
    assert not group.in_the_dark()
    leaked = {4} if scheme is Scheme.OFT else set()
    assert {group.began_at[version - 1] for version, _ in group.breaches()} == leaked
