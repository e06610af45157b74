"""What one member makes of its manager's messages: only secrets that the signed epochs commit to count."""

from __future__ import annotations

import pytest

from maia.sealing.groups.key_group import GroupId, group_name
from maia.sealing.keys.epochs import EpochStatement, commitment, epoch_to_bytes, sign_epoch
from maia.sealing.keys.parcels import GroupWelcome, Handed, HeldPath
from maia.sealing.keys.secrets import Secret
from maia.sealing.keys.type_keys import KeysMissed, TypeKeys
from maia.sealing.tree.key_tree import KeyTree
from maia.testing.refusals import raises
from maia.wire.messages import GroupKeys, KeyTermsRecord, Rekey, RekeyPart
from support.key_groups import MANAGER, NOON, at, random_from

TYPE = bytes(range(32))
GROUP = GroupId(TYPE)
OTHER = Secret.fresh(random_from(b"another secret"))


@pytest.fixture
def tree():
    found = KeyTree(group=group_name(GROUP), random=random_from(b"tree"))
    found.rekey(joins=[b"me", b"you"])
    return found


def epoch(number, secret, previous=None):
    made = {GROUP: commitment(secret, GROUP, number)}
    return sign_epoch(EpochStatement(TYPE, number, at(number), made, previous), MANAGER)


def delivery(*epochs):
    terms = KeyTermsRecord(100, 10, 10, 5)
    return GroupKeys(1, TYPE, terms, [epoch_to_bytes(one) for one in epochs], b"", None)


def parcel(secret, path=b""):
    paths = [HeldPath(None, path)] if path else []
    return GroupWelcome([None], [Handed(None, 1, None, secret)], paths)


def test_a_secret_that_was_handed_over_is_compared_with_the_signed_epoch(tree):
    keys = TypeKeys(TYPE, MANAGER.principal)
    with raises("PROTOCOL-SECRET-NOT-MEANT"):
        keys.take(delivery(epoch(1, tree.secret)), parcel(OTHER), was_asked=True)
    assert keys.ring.newest is None
    with pytest.raises(KeysMissed):
        keys.take(delivery(), parcel(tree.secret), was_asked=True)
    keys.take(delivery(epoch(1, tree.secret)), parcel(tree.secret), was_asked=True)
    assert keys.ring.secret(GROUP, 1) == tree.secret


def test_a_secret_that_was_found_in_the_tree_is_compared_with_the_signed_epoch(tree):
    keys = TypeKeys(TYPE, MANAGER.principal)
    first = epoch(1, tree.secret)
    keys.take(delivery(first), parcel(tree.secret, tree.path(b"me").to_bytes()), was_asked=True)
    change = tree.rekey()
    forged = epoch(2, OTHER, first.digest)
    with raises("PROTOCOL-SECRET-NOT-MEANT"):
        keys.follow(Rekey(TYPE, epoch_to_bytes(forged), [RekeyPart(None, change.broadcast)]))
    assert keys.ring.newest == 1


def test_the_next_epoch_is_followed_through_the_tree(tree):
    keys = TypeKeys(TYPE, MANAGER.principal)
    first = epoch(1, tree.secret)
    keys.take(delivery(first), parcel(tree.secret, tree.path(b"me").to_bytes()), was_asked=True)
    change = tree.rekey()
    second = epoch(2, change.secret, first.digest)
    told = Rekey(TYPE, epoch_to_bytes(second), [RekeyPart(None, change.broadcast)])
    assert keys.follow(told)
    assert keys.ring.secret(GROUP, 2) == change.secret
    assert not keys.follow(told)
    assert keys.head.statement.since > NOON
