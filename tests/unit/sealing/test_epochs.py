"""Signed epochs: their one form, who may sign them, and what follows what."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.errors import MaiaError
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.epochs import (
    CHAIN_MAX,
    BadEpoch,
    EpochChain,
    EpochForked,
    EpochGap,
    EpochStatement,
    commitment,
    epoch_from_bytes,
    epoch_to_bytes,
    sign_epoch,
)
from maia.sealing.keys.secrets import Secret
from maia.testing.refusals import raises
from support.key_groups import MANAGER, NOON, PLACE, PLATE, at, random_from

TYPE = bytes(range(32))
GROUP, PLATES, PLACES = GroupId(TYPE), GroupId(TYPE, PLATE), GroupId(TYPE, PLACE)


def epoch(number=1, since=NOON, refreshed=None, previous=None, key=MANAGER, type_id=TYPE):
    made = {GROUP: bytes(32)} if refreshed is None else refreshed
    return sign_epoch(EpochStatement(type_id, number, since, made, previous), key)


def test_the_order_of_groups_is_not_the_authors_choice():
    one = epoch(refreshed={PLATES: b"b" * 32, GROUP: b"a" * 32, PLACES: b"c" * 32})
    other = epoch(refreshed={PLACES: b"c" * 32, GROUP: b"a" * 32, PLATES: b"b" * 32})
    assert one.body == other.body


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"(6:number1:1)", b"(6:number1:0)"),
        (b"(6:number1:1)", b"(6:number2:01)"),
        (b"(6:number1:1)", b"(6:number20:99999999999999999999)"),
        (b"(7:version1:1)", b"(7:version1:2)"),
        (b"(5:since", b"(5:seven"),
        (b"5:group", b"5:grope"),
        (b"7:ed25519", b"7:ed25518"),
    ],
)
def test_another_form_is_refused(old, new):
    data = epoch_to_bytes(epoch())
    assert old in data
    with pytest.raises(BadEpoch):
        epoch_from_bytes(data.replace(old, new, 1))


def test_a_group_that_is_named_twice_is_refused():
    data = epoch_to_bytes(epoch())
    group = b"(5:group32:" + bytes(32) + b")"
    with pytest.raises(BadEpoch):
        epoch_from_bytes(data.replace(group, group + group))


@given(st.binary(max_size=300) | st.binary(max_size=20).map(lambda tail: epoch_to_bytes(epoch()) + tail))
def test_whatever_arrives_ends_in_an_epoch_or_in_an_error_of_ours(data):
    with suppress(MaiaError):
        assert epoch_to_bytes(epoch_from_bytes(data)) == data


def test_a_chain_refuses_a_fork_a_gap_and_another_type():
    chain = EpochChain(TYPE, MANAGER.principal)
    first = epoch()
    chain.follow(first)
    with pytest.raises(EpochForked):
        chain.follow(epoch(1, at(5)))
    with pytest.raises(EpochForked):
        chain.follow(epoch(2, at(1), previous=b"x" * 32))
    with pytest.raises(EpochForked):
        chain.follow(epoch(2, at(1), previous=None))
    with pytest.raises(EpochForked):
        chain.follow(epoch(2, NOON, previous=first.digest))  # it would begin when the first one did
    with pytest.raises(EpochGap):
        chain.follow(epoch(3, at(1), previous=first.digest))
    with pytest.raises(BadEpoch):
        chain.follow(epoch(2, at(1), previous=first.digest, type_id=bytes(32)))
    assert chain.head == first


def test_a_chain_remembers_a_bounded_number_of_epochs():
    chain = EpochChain(TYPE, MANAGER.principal)
    previous = None
    for number in range(1, 6):
        signed = epoch(number, at(number), previous=previous)
        chain.follow(signed)
        previous = signed.digest
    assert CHAIN_MAX >= 256
    assert len(chain._digests) == 5


def test_a_commitment_is_for_one_secret_one_group_and_one_epoch():
    secrets = [Secret.fresh(random_from(seed)) for seed in (b"one", b"two")]
    made = {
        commitment(secret, group, number)
        for secret in secrets
        for group in (GROUP, PLATES, GroupId(bytes(32)))
        for number in (1, 2)
    }
    assert len(made) == 12


def test_a_group_belongs_to_a_type():
    with raises("SEALING-GROUP"):
        GroupId(b"short")
    assert str(PLATES) == "000102030405/plate"
    assert sorted([PLATES, GROUP, PLACES], key=lambda one: one.order) == [GROUP, PLACES, PLATES]
