"""Whatever happens to a group, its members share the secret, and no other member does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.errors import ProtocolViolation
from maia.sealing.tree.rekey import PathNeeded, read_path, read_rekey
from maia.testing.refusals import raises
from reference.coalitions import WatchedGroup, breaches, left_in_the_dark, read_alone
from reference.deferral import DeferringGroup
from reference.tree_store import Scheme, member_from_bytes, tree_from_bytes, tree_to_bytes
from support.key_trees import CHANGES, GROUP, PEOPLE, SCHEMES, Group, counted_bytes, member_of, tree_of

pytestmark = pytest.mark.laws

ONE_BY_ONE_MAX = 24


@given(SCHEMES, CHANGES)
def test_members_share_the_secret_and_no_other_member_follows(scheme, changes):
    """The slow reference is a set of names; after every change it says who must know the secret."""
    group, members = Group(tree_of(scheme=scheme)), set()
    for people in changes:
        before = {member: held.secret for member, held in group.outside.items()}
        rekeyed = group.toggle(people)
        members ^= people
        assert group.tree.members == members == group.inside.keys()
        for held in group.inside.values():
            held.apply(rekeyed.broadcast)
            assert held.secret == rekeyed.secret == group.tree.secret
            assert (held.version, held.confirmation) == (group.tree.version, group.tree.confirmation)
        for member, held in group.outside.items():
            with pytest.raises(PathNeeded):
                held.apply(rekeyed.broadcast)
            assert held.secret == before.get(member, held.secret) != rekeyed.secret
    assert group.asked == 0


@given(SCHEMES, CHANGES)
def test_a_member_that_follows_holds_what_the_manager_would_hand_it(scheme, changes):
    """So recovering teaches nothing new, and forgets what is gone."""
    group = Group(tree_of(scheme=scheme))
    for people in changes:
        broadcast = group.toggle(people).broadcast
        for member, held in group.inside.items():
            held.apply(broadcast)
            assert held.to_bytes() == group.tree.path(member).to_bytes()


@given(SCHEMES, CHANGES, CHANGES)
def test_a_tree_that_was_kept_goes_on_as_if_nothing_had_happened(scheme, before, after):
    kept, straight = Group(tree_of(scheme=scheme)), Group(tree_of(scheme=scheme))
    for people in before:
        kept.toggle(people)
        straight.toggle(people)
    state = tree_to_bytes(kept.tree)
    kept.tree = tree_from_bytes(state, group=GROUP, random=counted_bytes())
    kept.tree._random, straight.tree._random = counted_bytes(b"same"), counted_bytes(b"same")
    assert tree_to_bytes(kept.tree) == state
    for people in after:
        assert kept.toggle(people).broadcast == straight.toggle(people).broadcast
    assert tree_to_bytes(kept.tree) == tree_to_bytes(straight.tree)


@given(CHANGES)
def test_no_coalition_learns_anything_over_a_long_history(changes):
    """A53 with changes of many at once, beyond the sizes that can be tried exhaustively."""
    group = WatchedGroup.new(Scheme.LKH)
    for people in changes:
        here = group.tree.members
        group.change(joins=sorted(people - here), leaves=sorted(people & here))
    assert not breaches(group)
    assert not left_in_the_dark(group)


@given(CHANGES)
def test_no_single_stay_learns_anything_from_the_papers_tree(changes):
    """As in the papers, one member joins or leaves at a time."""
    group = WatchedGroup.new(Scheme.OFT)
    for person in [person for people in changes for person in sorted(people)][:ONE_BY_ONE_MAX]:
        is_leaving = person in group.tree.members
        group.change(joins=() if is_leaving else (person,), leaves=(person,) if is_leaving else ())
    assert not read_alone(group)
    assert not left_in_the_dark(group)


def test_the_papers_tree_shows_two_that_come_back_at_once_what_they_missed():
    """A53: beyond one change at a time it fails even without a coalition; ours does not."""
    first, *others = PEOPLE[:5]
    for scheme, is_safe in ((Scheme.OFT, False), (Scheme.LKH, True)):
        group = WatchedGroup.new(scheme)
        group.change(joins=[first], leaves=())
        group.change(joins=others, leaves=())
        group.change(joins=(), leaves=[first, others[0]])
        group.change(joins=[first, others[0]], leaves=())
        assert (read_alone(group) == []) is is_safe


MOMENTS = 12
RIGHTS = st.fixed_dictionaries(
    {
        person: st.tuples(st.integers(0, MOMENTS), st.integers(0, MOMENTS)).map(
            lambda ends: range(*sorted(ends))
        )
        for person in PEOPLE[:6]
    }
)
VISITS = st.lists(
    st.tuples(st.integers(0, MOMENTS - 1), st.sampled_from(PEOPLE[:6]), st.booleans()), max_size=30
)


@given(RIGHTS, VISITS)
def test_with_deferred_refreshes_people_know_what_their_rights_cover(rights, visits):
    """A53, A54 with MAIA 7.6.2: what any member can know follows from validity, for every coalition."""
    group = DeferringGroup.new(Scheme.LKH, rights)
    for now in range(MOMENTS + 1):
        group.tick(now)
        for _, person, joins in [visit for visit in visits if visit[0] == now]:
            group.join(person, now) if joins else group.leave(person)
        assert not group.in_the_dark()
    assert not group.breaches()


@given(SCHEMES, st.data())
def test_a_rekey_with_any_byte_changed_is_noticed(scheme, data):
    tree = tree_of(*PEOPLE[:5], scheme=scheme)
    member = member_of(tree, PEOPLE[1])
    broadcast = bytearray(tree.leave(PEOPLE[3]).broadcast)
    at = data.draw(st.integers(0, len(broadcast) - 1))
    broadcast[at] ^= data.draw(st.integers(1, 255))
    before = member.to_bytes()
    try:
        secret = member.apply(bytes(broadcast))
    except (ProtocolViolation, PathNeeded):
        secret = None
    # A change to what others read passes unseen here, and what it leads to is right all the same.
    assert secret == tree.secret or member.to_bytes() == before


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data):
    for read in (read_rekey, read_path, lambda d: member_from_bytes(d, group=GROUP)):
        with raises("PROTOCOL-REKEY", "PROTOCOL-TREE-PATH"):
            read(data)
