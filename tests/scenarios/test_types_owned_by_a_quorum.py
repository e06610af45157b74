"""Dissertation 4.2.1 and 5.4: a threshold subject owns a type, and k of its members speak for it."""

import hashlib

import pytest

from maia.credentials.authority import Action, NetworkPattern
from maia.credentials.chains.quorum import (
    QuorumEvidence,
    VerifiedConstitution,
    found_quorum,
    propose_change,
    sign_change,
    verify_constitution,
)
from maia.credentials.chains.reduction import UnknownQuorum
from maia.credentials.keys import QuorumId, Threshold
from maia.credentials.names import NetworkName, parse_name_pattern
from maia.testing.refusals import raises
from maia.types import VerifiedTypeCache, sign_definition, type_id, verify_definition
from support.types import LOCATION, MANAGER, NOON, PLATE, TIME, grant, key, manage, numberplate

FORCES = tuple(key(number) for number in (150, 151, 152))
NEWCOMER = key(153)


def two_of(*keys) -> Threshold:
    return Threshold(2, tuple(one.principal for one in keys))


FOUNDING = found_quorum(two_of(*FORCES), salt=b"numberplates")


def quorum_of(evidence: QuorumEvidence) -> QuorumId:
    return QuorumId(hashlib.sha256(evidence.founding).digest())


OWNER = quorum_of(FOUNDING)
NETWORK = NetworkName(OWNER, "UK Police Network")
CONSTITUTION = verify_constitution(FOUNDING, quorum=OWNER)


def version_by_manager(*members, number=0, credentials=()):
    shares = tuple(manage(member, MANAGER, owner=OWNER) for member in members)
    return sign_definition(
        numberplate(PLATE, TIME, LOCATION, owner=OWNER, number=number, credentials=shares + credentials),
        MANAGER,
    )


def verify(signed, constitution: VerifiedConstitution = CONSTITUTION, **more):
    return verify_definition(signed, at=NOON, constitutions=(constitution,), **more)


def test_two_of_three_members_make_a_manager():
    verified = verify(version_by_manager(*FORCES[:2]))
    assert verified.name.owner == OWNER
    assert verified.type_id == type_id(OWNER, verified.name.name)
    assert verify(version_by_manager(FORCES[0], FORCES[2], number=1))


def test_one_member_alone_does_not():
    with raises("TYPE-NOT-A-MANAGER"):
        verify(version_by_manager(FORCES[0]))


def test_a_member_that_signs_twice_is_still_one_member():
    again = manage(FORCES[0], MANAGER, owner=OWNER, may_delegate=True)
    with raises("TYPE-NOT-A-MANAGER"):
        verify(version_by_manager(FORCES[0], credentials=(again,)))


def test_no_member_signs_a_definition_in_the_name_of_all():
    for member in FORCES:
        signed = sign_definition(numberplate(owner=OWNER), member)
        with raises("TYPE-NOT-A-MANAGER"):
            verify(signed)


def test_without_its_constitution_no_principal_speaks_for_a_quorum():
    with pytest.raises(UnknownQuorum):
        verify_definition(version_by_manager(*FORCES[:2]), at=NOON)


def test_a_replaced_member_no_longer_counts_and_its_successor_does():
    change = propose_change(CONSTITUTION, two_of(FORCES[0], FORCES[1], NEWCOMER))
    evidence = QuorumEvidence(FOUNDING.founding, (sign_change(change, FORCES[:2]),))
    today = verify_constitution(evidence, quorum=OWNER)

    with_old_member = version_by_manager(FORCES[0], FORCES[2])
    assert verify(with_old_member)
    with raises("TYPE-NOT-A-MANAGER"):
        verify(with_old_member, today)
    assert verify(version_by_manager(FORCES[0], NEWCOMER), today)


def test_a_remembered_type_is_verified_again_under_a_new_constitution():
    change = propose_change(CONSTITUTION, two_of(FORCES[0], FORCES[1], NEWCOMER))
    evidence = QuorumEvidence(FOUNDING.founding, (sign_change(change, FORCES[:2]),))
    today = verify_constitution(evidence, quorum=OWNER)
    cache = VerifiedTypeCache()
    signed = version_by_manager(FORCES[0], FORCES[2])
    verified = verify(signed, cache=cache)
    assert verify(signed, cache=cache) is verified
    with raises("TYPE-NOT-A-MANAGER"):
        verify(signed, today, cache=cache)


def installed_by(*members):
    """Verify a definition on the quorum's network, whose manager these members let install types."""
    pattern = NetworkPattern(OWNER, parse_name_pattern(NETWORK.name))
    shares = tuple(
        grant(member, MANAGER.principal, frozenset({Action.INSTALL}), pattern) for member in members
    )
    return verify(version_by_manager(*FORCES[:2], credentials=shares), network=NETWORK)


def test_a_network_may_belong_to_a_quorum_too():
    assert len(installed_by(*FORCES[1:]).chains) == 2


@pytest.mark.parametrize("members", [(), FORCES[:1], FORCES[2:], (NEWCOMER, FORCES[0])])
def test_on_the_network_of_a_quorum_fewer_than_k_members_let_no_principal_install(members):
    with raises("TYPE-INSTALL-NOT-GRANTED"):
        installed_by(*members)
