"""k of n means k different principals of the members in force, and no other peer."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest

from maia.credentials import (
    Action,
    BadQuorum,
    BadSignature,
    BrokenChain,
    NoChain,
    QuorumChange,
    QuorumEvidence,
    QuorumId,
    QuorumNotReached,
    SignedChange,
    SuperfluousCertificate,
    TypeName,
    UnknownQuorum,
    evidence_from_bytes,
    evidence_to_bytes,
    find_chain,
    found_quorum,
    propose_change,
    sign_change,
    verify_chain,
    verify_constitution,
)
from maia.credentials.chains.quorum import change_body, checked_threshold
from maia.credentials.keys import SignedKind
from maia.testing.refusals import raises
from support.chains import (
    ALICE,
    BOB,
    CAROL,
    DAVE,
    KEYS,
    NOON,
    OWNER,
    PEOPLE,
    TYPE,
    about,
    call,
    grant,
    k_of,
    named,
    types_of,
    uids,
)

EVE = PEOPLE[5]
TWO_OF_THREE = grant(OWNER, k_of(2, ALICE, BOB, CAROL))


def verified(*certificates):
    return verify_chain(certificates, root=OWNER, subject=DAVE, at=NOON)


def test_two_of_three_pass_on_what_both_pass_on() -> None:
    chain = verified(
        TWO_OF_THREE,
        grant(ALICE, DAVE, about(attributes=uids("time", "plate"))),
        grant(CAROL, DAVE, about(attributes=uids("time", "location"))),
    )
    assert chain.authority.attributes == uids("time")


@pytest.mark.parametrize(
    "certificates",
    [
        (TWO_OF_THREE, grant(ALICE, DAVE)),
        (TWO_OF_THREE, grant(ALICE, DAVE), grant(ALICE, DAVE, comment="again")),
        (TWO_OF_THREE, grant(ALICE, DAVE), grant(ALICE, EVE), grant(EVE, DAVE)),
        (TWO_OF_THREE, grant(ALICE, DAVE), grant(EVE, DAVE)),
        (TWO_OF_THREE, grant(ALICE, BOB), grant(ALICE, DAVE)),
    ],
    ids=[
        "k-1",
        "one key twice",
        "one principal through two chains",
        "a stranger",
        "a member who says nothing",
    ],
)
def test_a23_one_principal_is_one_share(certificates) -> None:
    """A23: k-1, same key twice, same principal through two chains."""
    with pytest.raises(QuorumNotReached):
        verified(*certificates)


def test_a23_a_member_who_hands_its_share_to_another_member_has_agreed() -> None:
    """A23, the other side: BOB gives his share to ALICE, and both shares flow from her."""
    assert verified(TWO_OF_THREE, grant(BOB, ALICE), grant(ALICE, DAVE)).subject == DAVE


def test_a23_a_member_counts_itself_once() -> None:
    """A23: DAVE is a member and agrees by acting; that is one share and not two."""
    itself = grant(OWNER, k_of(2, DAVE, ALICE, BOB))
    with pytest.raises(QuorumNotReached):
        verified(itself)
    assert verified(itself, grant(ALICE, DAVE)).subject == DAVE


def test_a23_two_names_of_one_person_are_one_person() -> None:
    """A23: same principal behind two group names."""
    names = grant(OWNER, k_of(2, named(ALICE, "sergeant"), named(ALICE, "detective")))
    both = (call(ALICE, "sergeant", BOB), call(ALICE, "detective", BOB))
    with pytest.raises(QuorumNotReached):
        verified(names, *both, grant(BOB, DAVE))
    other = (call(ALICE, "sergeant", BOB), call(ALICE, "detective", CAROL))
    assert verified(names, *other, grant(BOB, DAVE), grant(CAROL, DAVE)).subject == DAVE


def test_a23_a_name_and_the_key_it_means_are_one_person() -> None:
    """A23: member by key and by name."""
    mixed = grant(OWNER, k_of(2, BOB, named(ALICE, "sergeant")))
    with pytest.raises(QuorumNotReached):
        verified(mixed, call(ALICE, "sergeant", BOB), grant(BOB, DAVE))


def test_a23_no_peer_counts_inside_a_nested_threshold_and_beside_it() -> None:
    """A23: nested thresholds; the same key outside and inside is refused, names that meet do not count."""
    with raises("INPUT-THRESHOLD"):
        checked_threshold(k_of(2, ALICE, k_of(1, ALICE, BOB)))
    with pytest.raises(BrokenChain):
        verified(grant(OWNER, k_of(2, ALICE, k_of(1, ALICE, BOB))), grant(ALICE, DAVE))
    hidden = grant(OWNER, k_of(2, ALICE, k_of(1, named(BOB, "deputy"), CAROL)))
    with pytest.raises(QuorumNotReached):
        verified(hidden, call(BOB, "deputy", ALICE), grant(ALICE, DAVE))


def test_a23_nested_thresholds_need_their_own_number() -> None:
    """A23: nested thresholds."""
    nested = grant(OWNER, k_of(2, ALICE, k_of(2, BOB, CAROL, EVE)))
    with pytest.raises(QuorumNotReached):
        verified(nested, grant(ALICE, DAVE), grant(BOB, DAVE))
    assert verified(nested, grant(ALICE, DAVE), grant(BOB, DAVE), grant(EVE, DAVE)).subject == DAVE


def test_a23_shares_that_grant_different_things_grant_nothing() -> None:
    """A23: authorities of the shares must meet."""
    with pytest.raises(QuorumNotReached):
        verified(
            TWO_OF_THREE,
            grant(ALICE, DAVE, about(attributes=uids("time"))),
            grant(BOB, DAVE, about(attributes=uids("plate"))),
        )


def test_a23_a_threshold_that_may_not_delegate_passes_no_shares_on() -> None:
    """A23: delegation bit of a threshold certificate."""
    kept = grant(OWNER, k_of(2, ALICE, BOB), final=True)
    with pytest.raises(QuorumNotReached):
        verified(kept, grant(ALICE, DAVE), grant(BOB, DAVE))


def test_a23_more_shares_than_needed_are_superfluous_in_a_chain_and_harmless_in_a_pool() -> None:
    """A23: the number is exact in what is shown; a search leaves the rest out."""
    all_three = (TWO_OF_THREE, grant(ALICE, DAVE), grant(BOB, DAVE), grant(CAROL, DAVE))
    with pytest.raises(SuperfluousCertificate):
        verified(*all_three)
    chain = find_chain(all_three, root=OWNER, subject=DAVE, action=Action.SUBSCRIBE, resource=TYPE, at=NOON)
    assert len(chain.certificates) == 3


# ---------------------------------------------------------------- a quorum as owner

EVIDENCE = found_quorum(k_of(2, ALICE, BOB, CAROL), salt=b"police")
CONSTITUTION = verify_constitution(EVIDENCE, quorum=QuorumId(sha256(EVIDENCE.founding).digest()))
QUORUM = CONSTITUTION.quorum
SHARED_TYPE = TypeName(QUORUM, "uk.gov.shared.Sighting", "0")


def shared(*certificates, constitutions=(CONSTITUTION,)):
    return verify_chain(certificates, root=QUORUM, subject=DAVE, at=NOON, constitutions=constitutions)


def for_quorum(issuer, subject=DAVE, **options):
    return grant(issuer, subject, about(types_of(QUORUM)), **options)


def changed(current, threshold, *signers):
    change = propose_change(current, threshold)
    return sign_change(change, [KEYS[signer] for signer in signers])


def test_a_quorum_grants_what_k_of_its_members_grant() -> None:
    chain = shared(for_quorum(ALICE), for_quorum(BOB))
    assert chain.root == QUORUM
    assert chain.authority.resources == types_of(QUORUM)
    found = find_chain(
        [for_quorum(CAROL), for_quorum(ALICE)],
        root=QUORUM,
        subject=DAVE,
        action=Action.SUBSCRIBE,
        resource=SHARED_TYPE,
        at=NOON,
        constitutions=[CONSTITUTION],
    )
    assert found.subject == DAVE


def test_a23_one_member_does_not_speak_for_the_quorum() -> None:
    """A23: k-1 for an owner; and members alone own nothing of it."""
    with pytest.raises(QuorumNotReached):
        shared(for_quorum(ALICE))
    with pytest.raises(BrokenChain):
        verify_chain((for_quorum(ALICE),), root=ALICE, subject=DAVE, at=NOON)
    with pytest.raises(NoChain):
        find_chain(
            [for_quorum(ALICE)],
            root=QUORUM,
            subject=DAVE,
            action=Action.SUBSCRIBE,
            resource=SHARED_TYPE,
            at=NOON,
            constitutions=[CONSTITUTION],
        )


def test_a23_a_quorum_without_its_constitution_is_no_peer() -> None:
    """A23: evidence is needed."""
    with pytest.raises(UnknownQuorum):
        shared(for_quorum(ALICE), for_quorum(BOB), constitutions=())


def test_members_are_replaced_by_the_quorum_and_its_name_stays() -> None:
    change = changed(CONSTITUTION, k_of(2, ALICE, BOB, EVE), ALICE, BOB)
    now = verify_constitution(replace(EVIDENCE, changes=(change,)), quorum=QUORUM)
    assert (now.quorum, now.sequence) == (QUORUM, 1)
    assert shared(for_quorum(ALICE), for_quorum(EVE), constitutions=[now]).subject == DAVE
    with pytest.raises(QuorumNotReached):
        shared(for_quorum(ALICE), for_quorum(CAROL), constitutions=[now])


def test_a23_a_change_needs_k_members_of_the_constitution_it_replaces() -> None:
    """A23: k-1, a stranger, the new members, one key twice, a forged signature."""
    wanted = k_of(1, EVE)
    lonely = changed(CONSTITUTION, wanted, ALICE)
    for changes, problem in (
        (lonely, QuorumNotReached),
        (changed(CONSTITUTION, wanted, EVE), "CREDENTIAL-SUCCESSION"),
        (changed(CONSTITUTION, wanted, ALICE, EVE), "CREDENTIAL-SUCCESSION"),
        (SignedChange(lonely.body, lonely.signatures * 2), "CREDENTIAL-SUCCESSION"),
        (SignedChange(lonely.body, (*lonely.signatures, (BOB, lonely.signatures[0][1]))), BadSignature),
    ):
        with raises(problem):
            verify_constitution(replace(EVIDENCE, changes=(changes,)), quorum=QUORUM)


def test_a23_a_change_signed_as_something_else_does_not_count() -> None:
    """A23, A32: the signature is for changes of quorums."""
    change = propose_change(CONSTITUTION, k_of(1, EVE))
    body = change_body(change)
    signatures = tuple((who, KEYS[who].sign(SignedKind.CERTIFICATE, body)) for who in (ALICE, BOB))
    with pytest.raises(BadSignature):
        verify_constitution(replace(EVIDENCE, changes=(SignedChange(body, signatures),)), quorum=QUORUM)


def test_a_change_cannot_be_replayed_skipped_or_moved_to_another_quorum() -> None:
    first = changed(CONSTITUTION, k_of(2, ALICE, BOB, EVE), ALICE, BOB)
    one = verify_constitution(replace(EVIDENCE, changes=(first,)), quorum=QUORUM)
    second = changed(one, k_of(2, ALICE, EVE), ALICE, EVE)
    for changes in ((first, first), (second,), (second, first)):
        with raises("CREDENTIAL-SUCCESSION"):
            verify_constitution(replace(EVIDENCE, changes=changes), quorum=QUORUM)
    twin = found_quorum(k_of(2, ALICE, BOB, CAROL), salt=b"another")
    other = QuorumId(sha256(twin.founding).digest())
    with raises("CREDENTIAL-SUCCESSION"):
        verify_constitution(replace(twin, changes=(first,)), quorum=other)
    assert verify_constitution(replace(EVIDENCE, changes=(first, second)), quorum=QUORUM).sequence == 2


def test_a_verifier_that_knows_a_later_constitution_refuses_an_earlier_one() -> None:
    first = changed(CONSTITUTION, k_of(2, ALICE, BOB, EVE), ALICE, BOB)
    with raises("CREDENTIAL-CONSTITUTION-STALE"):
        verify_constitution(EVIDENCE, quorum=QUORUM, not_below_sequence=1)
    later = replace(EVIDENCE, changes=(first,))
    assert verify_constitution(later, quorum=QUORUM, not_below_sequence=1).sequence == 1


def test_a_fork_by_members_who_signed_twice_is_refused_by_a_peer_that_remembers() -> None:
    known = verify_constitution(
        replace(EVIDENCE, changes=(changed(CONSTITUTION, k_of(2, ALICE, BOB, EVE), ALICE, BOB),)),
        quorum=QUORUM,
    )
    fork = replace(EVIDENCE, changes=(changed(CONSTITUTION, k_of(1, DAVE), BOB, CAROL),))
    assert verify_constitution(fork, quorum=QUORUM).sequence == 1
    with raises("CREDENTIAL-SUCCESSION"):
        verify_constitution(
            fork, quorum=QUORUM, not_below_sequence=known.sequence, remembered_digest=known.digest
        )


def test_a_founding_constitution_is_the_one_that_the_name_says() -> None:
    other = found_quorum(k_of(1, EVE), salt=b"police")
    with pytest.raises(BadQuorum):
        verify_constitution(other, quorum=QUORUM)


@pytest.mark.parametrize(
    "threshold",
    [k_of(2, ALICE, ALICE), k_of(3, ALICE, BOB), k_of(0, ALICE), k_of(1), k_of(1, named(ALICE, "x"))],
)
def test_a_constitution_that_cannot_be_counted_is_refused(threshold) -> None:
    with raises("INPUT-THRESHOLD", "CREDENTIAL-CONSTITUTION"):
        found_quorum(threshold, salt=b"")
    with raises("INPUT-THRESHOLD", "CREDENTIAL-CONSTITUTION"):
        propose_change(CONSTITUTION, threshold)


def test_evidence_travels_unchanged_and_malformed_evidence_is_refused() -> None:
    evidence = replace(EVIDENCE, changes=(changed(CONSTITUTION, k_of(2, ALICE, BOB, EVE), ALICE, BOB),))
    data = evidence_to_bytes(evidence)
    assert evidence_from_bytes(data) == evidence
    for cut in range(0, len(data), 3):
        with pytest.raises(BadQuorum):
            evidence_from_bytes(data[:cut])
    for junk in (b"", b"()", b"(15:quorum-evidence)", data + b"x", b"(" * 100):
        with pytest.raises(BadQuorum):
            evidence_from_bytes(junk)
    for founding in (b"", b"x", b"(6:quorum)", EVIDENCE.founding + b" "):
        digest = QuorumId(sha256(founding).digest())
        with pytest.raises(BadQuorum):
            verify_constitution(QuorumEvidence(founding), quorum=digest)


def test_every_field_of_a_change_is_read_strictly() -> None:
    good = change_body(propose_change(CONSTITUTION, k_of(2, ALICE, BOB, EVE)))
    for old, new in (
        (b"1:1)(8:replaces", b"2:01)(8:replaces"),
        (b"7:version1:1", b"7:version1:2"),
        (b"6:k-of-n", b"6:K-of-n"),
    ):
        assert old in good
        body = good.replace(old, new)
        signatures = tuple((who, KEYS[who].sign(SignedKind.QUORUM_CHANGE, body)) for who in (ALICE, BOB))
        with pytest.raises(BadQuorum):
            verify_constitution(replace(EVIDENCE, changes=(SignedChange(body, signatures),)), quorum=QUORUM)


def test_a_proposal_names_what_it_replaces() -> None:
    proposal = propose_change(CONSTITUTION, k_of(2, ALICE, BOB, EVE))
    assert proposal == QuorumChange(QUORUM, 1, CONSTITUTION.digest, k_of(2, ALICE, BOB, EVE))
