"""A key ring: which key for which moment, and none after its time."""

from __future__ import annotations

import pytest

from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing, KeyTerms
from maia.sealing.keys.secrets import Secret
from support.key_groups import PLATE, at, random_from

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


def test_a_group_that_is_lost_takes_all_its_keys_with_it(ring):
    held = [ring.secret(PLATES, 3), ring.key(PLATES, 3), ring.secret(PLATES, 1)]
    ring.drop(PLATES)
    assert all(one.wiped for one in held)
    assert ring.key(PLATES, 3) is None
    assert ring.key(GROUP, 2) is not None
    ring.wipe()
    assert ring.newest is None
