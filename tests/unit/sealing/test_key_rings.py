"""A key ring: which key for which moment, and none after its time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.events import Instant
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing, KeyTerms, content_key
from maia.sealing.keys.secrets import Secret
from maia.testing.refusals import raises
from support.key_groups import PLACE, PLATE, at, random_from

TYPE = bytes(range(32))
GROUP, PLATES = GroupId(TYPE), GroupId(TYPE, PLATE)
TERMS = KeyTerms(refresh_s=100, overdue_s=20, drift_s=30, back_dating_s=10)


def fresh(seed: str) -> Secret:
    return Secret.fresh(random_from(seed.encode()))


@pytest.fixture
def ring():
    """Three epochs: both groups in the first, one refreshed in the second, the other in the third."""
    found = KeyRing(TYPE, TERMS)
    one, other = fresh("one"), fresh("other")
    for number, since in ((1, 0), (2, 50), (3, 80)):
        found.learn(number, since=at(since))
    found.hold(GROUP, 1, one)
    found.hold(PLATES, 1, other)
    found.hold(GROUP, 2, fresh("new"))
    found.hold(PLATES, 2, other)
    found.hold(PLATES, 3, fresh("last"))
    return found


@pytest.mark.parametrize(
    ("seconds", "epoch"),
    [(-0.001, None), (0, 1), (49.9, 1), (50, 2), (80, 3), (200, 3), (200.001, None)],
)
def test_publishers_seal_with_the_newest_epoch_begun_unless_the_next_is_overdue(ring, seconds, epoch):
    assert ring.sealing_epoch(at(seconds)) == epoch


def test_every_group_and_epoch_has_a_key_of_its_own_even_with_one_secret(ring):
    keys = [ring.key(group, number) for group, number in ((GROUP, 1), (GROUP, 2), (PLATES, 1), (PLATES, 2))]
    assert len({key.reveal() for key in keys}) == 4
    shared = fresh("shared")
    made = {
        content_key(shared, group, number).reveal()
        for group in (GROUP, PLATES, GroupId(TYPE, PLACE), GroupId(bytes(32)), GroupId(bytes(32), PLATE))
        for number in (1, 2, 12)
    }
    assert len(made) == 15


def test_a_key_that_is_not_held_is_not_there(ring):
    assert ring.key(GROUP, 3) is None
    assert ring.key(PLATES, 9) is None
    assert ring.groups(1) == {GROUP, PLATES}
    assert ring.groups(3) == {PLATES}
    assert ring.groups(9) == frozenset()
    assert ring.knows_epoch(3)
    assert not ring.knows_epoch(4)


@pytest.mark.parametrize(
    ("epoch", "published", "now", "opens"),
    [
        (1, 10, 20, True),
        (1, -10, 20, True),
        (1, -10.001, 20, False),
        (1, 60, 60, True),
        (1, 60.001, 61, False),
        (1, 45, 80, True),
        (1, 45, 80.001, False),
        (2, 40, 60, True),
        (2, 39, 60, False),
        (3, 95, 85, True),
        (3, 95.001, 85, False),
        (3, 85, 100_000, True),
        (4, 85, 85, False),
    ],
)
def test_the_moment_of_publication_must_fit_the_epoch(ring, epoch, published, now, opens):
    assert ring.opens(epoch, at(published), at(now)) is opens


def test_keys_are_destroyed_when_the_drift_is_over_unless_a_later_epoch_shares_them(ring):
    first, shared = ring.secret(GROUP, 1), ring.secret(PLATES, 1)
    sealing = ring.key(PLATES, 1)
    assert ring.next_forget() == Instant(at(80) + 1)
    ring.forget_before(at(80))
    assert ring.knows_epoch(1)
    ring.forget_before(ring.next_forget())
    assert not ring.knows_epoch(1)
    assert first.wiped
    assert sealing.wiped
    assert not shared.wiped
    ring.forget_before(at(111))
    assert shared.wiped
    assert ring.next_forget() is None


def test_a_group_that_is_lost_takes_all_its_keys_with_it(ring):
    held = [ring.secret(PLATES, 3), ring.key(PLATES, 3), ring.secret(PLATES, 1)]
    ring.drop(PLATES)
    assert all(one.wiped for one in held)
    assert ring.key(PLATES, 3) is None
    assert ring.key(GROUP, 2) is not None
    ring.wipe()
    assert ring.newest is None


def test_epochs_begin_in_their_order(ring):
    ring.learn(3, since=at(80))
    with raises("PROTOCOL-EPOCH-ORDER"):
        ring.learn(3, since=at(81))
    with raises("PROTOCOL-EPOCH-ORDER"):
        ring.learn(4, since=at(79))
    with raises("PROTOCOL-EPOCH-ORDER"):
        ring.hold(GROUP, 9, fresh("x"))
    with raises("PROTOCOL-EPOCH-ORDER"):
        ring.hold(GroupId(bytes(32)), 1, fresh("x"))


@given(st.permutations(range(1, 8)))
def test_the_order_in_which_epochs_are_accepted_of_does_not_matter(order):
    ring = KeyRing(TYPE, TERMS)
    for number in order:
        ring.learn(number, since=at(number * 10))
    for number in range(1, 7):
        assert ring.opens(number, at(number * 10 + 20), at(number * 10 + 20))
        assert not ring.opens(number, at(number * 10 + 20.1), at(number * 10 + 21))
    assert ring.sealing_epoch(at(35)) == 3
