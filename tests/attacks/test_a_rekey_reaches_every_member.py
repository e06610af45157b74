"""Attack A54: joins and leaves at once, and messages that are lost, doubled, late or out of order.

No peer is stuck, no peer forks off: a peer that is in the group ends with the
group's secret, and a peer that is not learns none.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.sealing.tree import node_secrets
from maia.sealing.tree.rekey import PathNeeded, read_rekey
from reference.tree_store import Scheme, new_tree, tree_from_bytes, tree_to_bytes
from support.key_trees import CHANGES, GROUP, PEOPLE, SCHEMES, Group, counted_bytes, member_of, tree_of

ANN, BOB, CEM, DEE = PEOPLE[:4]


@pytest.mark.laws
@given(SCHEMES, CHANGES, st.randoms(use_true_random=False))
def test_a_bad_network_costs_questions_and_never_the_secret(scheme, changes, chance):
    """A54: every message may be lost, doubled, held back or delivered again long after, to each its own."""
    group = Group(tree_of(scheme=scheme))
    late: list[bytes] = []
    for people in changes:
        late.append(group.toggle(people).broadcast)
        for member in sorted(group.inside):
            for message in chance.sample(late, chance.randint(0, min(3, len(late)))):
                group.deliver(message, member)
                if chance.random() < 0.2:
                    group.deliver(message, member)
    group.announce()
    assert group.inside.keys() == group.tree.members
    assert all(held.secret == group.tree.secret for held in group.inside.values())
    for held in group.outside.values():
        for message in chance.sample(group.sent, len(group.sent)):
            try_to_follow(held, message)
        assert held.secret != group.tree.secret


def try_to_follow(held, message) -> None:
    """Let a peer who left try everything it receives."""
    try:
        held.apply(message)
    except PathNeeded:
        return


@pytest.mark.parametrize("scheme", Scheme)
def test_a_lost_message_is_noticed_with_the_next(scheme):
    """A54: a gap is never stepped over with the wrong secret."""
    tree = tree_of(ANN, BOB, CEM, scheme=scheme)
    member = member_of(tree, ANN)
    tree.join(DEE)
    held = member.to_bytes()
    with pytest.raises(PathNeeded, match="change 3 of a key group does not follow on change 1"):
        member.apply(tree.refresh().broadcast)
    assert member.to_bytes() == held
    assert member_of(tree, ANN).secret == tree.secret


@pytest.mark.parametrize("scheme", Scheme)
def test_old_and_doubled_messages_change_nothing(scheme):
    """A54: old news is no news, and never a step back."""
    tree = tree_of(ANN, BOB, CEM, scheme=scheme)
    member = member_of(tree, ANN)
    first, second = tree.join(DEE).broadcast, tree.leave(BOB).broadcast
    assert member.apply(first) is not None
    assert member.apply(second) == tree.secret
    held = member.to_bytes()
    assert member.apply(second) is None
    assert member.apply(first) is None
    assert member.to_bytes() == held


@pytest.mark.parametrize("scheme", Scheme)
def test_messages_that_overtake_each_other_are_sorted_out_by_one_question(scheme):
    """A54: the later message says that one is missing; the path covers both; the earlier one is then old."""
    tree = tree_of(ANN, BOB, CEM, scheme=scheme)
    member = member_of(tree, ANN)
    first, second = tree.join(DEE).broadcast, tree.leave(BOB).broadcast
    with pytest.raises(PathNeeded):
        member.apply(second)
    member = member_of(tree, ANN)
    assert member.apply(first) is None
    assert member.apply(second) is None
    assert member.secret == tree.secret


@pytest.mark.parametrize("scheme", Scheme)
def test_a_path_that_overtakes_a_message_is_good_in_either_order(scheme):
    """A54: a path of an earlier moment is behind, and the next message says so."""
    tree = tree_of(ANN, BOB, CEM, scheme=scheme)
    old_path = tree.path(ANN)
    tree.join(DEE)
    member = type(member_of(tree, ANN))(group=GROUP, path=old_path)
    with pytest.raises(PathNeeded):
        member.apply(tree.leave(DEE).broadcast)


@pytest.mark.parametrize("scheme", Scheme)
def test_a_manager_that_forgot_a_change_forks_no_peer(scheme):
    """A54, A82: a restored manager gives a number twice; whoever heard the first change asks, and is well."""
    tree = tree_of(ANN, BOB, CEM, scheme=scheme)
    heard_both, heard_one = member_of(tree, ANN), member_of(tree, BOB)
    restored = tree_from_bytes(tree_to_bytes(tree), group=GROUP, random=counted_bytes(b"another"))
    heard_both.apply(tree.join(DEE).broadcast)
    again = restored.leave(CEM).broadcast
    with pytest.raises(PathNeeded):
        heard_both.apply(again)
    assert heard_one.apply(again) == restored.secret != tree.secret
    following = restored.refresh().broadcast
    with pytest.raises(PathNeeded):
        heard_both.apply(following)
    assert heard_one.apply(following) == member_of(restored, ANN).secret == restored.secret


@pytest.mark.parametrize("scheme", Scheme)
def test_a_group_that_was_founded_anew_leaves_no_peer_with_the_old_secret(scheme):
    """A54, A82: a manager without its tree counts anew, and no member takes that for old news."""
    tree = tree_of(ANN, BOB, CEM, scheme=scheme)
    tree.refresh()
    member = member_of(tree, ANN)
    anew = new_tree(group=GROUP, random=counted_bytes(b"anew"), scheme=scheme)
    for message in (
        anew.rekey(joins=[ANN, BOB]).broadcast,
        anew.refresh().broadcast,
        anew.refresh().broadcast,
    ):
        with pytest.raises(PathNeeded, match="founded anew"):
            member.apply(message)


@pytest.mark.parametrize("scheme", Scheme)
def test_entries_of_one_change_do_not_open_in_another(scheme):
    """A46, A53: a member that sends an old change again, under the next number, moves no peer back."""
    tree = tree_of(ANN, BOB, CEM, scheme=scheme)
    member = member_of(tree, BOB)
    change = tree.join(DEE)
    member.apply(change.broadcast)
    number = tree.version + 1
    mark = node_secrets.confirmation(change.secret.reveal(), GROUP, number)
    again = (
        change.broadcast[:10] + number.to_bytes(8, "big") + tree.confirmation + mark + change.broadcast[50:]
    )
    assert read_rekey(again).version == number
    with pytest.raises(PathNeeded, match="cannot be opened"):
        member.apply(again)


@pytest.mark.parametrize("scheme", Scheme)
def test_a_nonce_is_never_used_again_after_a_manager_was_restored(scheme):
    """A45, A82: two changes under one number, from one state, wrap with different nonces."""
    tree = tree_of(ANN, BOB, CEM, scheme=scheme)
    one, other = (
        tree_from_bytes(tree_to_bytes(tree), group=GROUP, random=counted_bytes(seed)) for seed in (b"1", b"2")
    )
    first, second = one.refresh().broadcast, other.refresh().broadcast
    assert read_rekey(first).nonce != read_rekey(second).nonce


@pytest.mark.parametrize("scheme", Scheme)
def test_a_message_of_another_group_opens_nothing(scheme):
    """A46: the same tree with the same secrets under another name."""
    tree = tree_of(ANN, BOB, CEM, scheme=scheme)
    other = tree_from_bytes(tree_to_bytes(tree), group=b"another group", random=counted_bytes(b"x"))
    member = member_of(tree, ANN)
    other.confirmation = tree.confirmation  # so that nothing but the binding can notice
    with pytest.raises(PathNeeded, match="cannot be opened"):
        member.apply(other.leave(CEM).broadcast)


def test_joining_and_leaving_in_one_change_begins_anew():
    """A54: a broker that dials again while it is put out has a new place, and its old one opens nothing."""
    tree = tree_of(ANN, BOB, CEM)
    before = member_of(tree, BOB)
    rekeyed = tree.rekey(joins=[BOB], leaves=[BOB])
    with pytest.raises(PathNeeded):
        before.apply(rekeyed.broadcast)
    assert member_of(tree, BOB).secret == rekeyed.secret
    assert dict(tree.path(BOB).secrets).keys() == dict(rekeyed.welcomes[BOB].secrets).keys()
