"""What a verifier returns, and how it explains a refusal."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from hashlib import sha256

import pytest

from maia.credentials import (
    UNBOUNDED,
    BrokenChain,
    CertificateExpired,
    FiveTuple,
    Validity,
    VerifiedChain,
    VerifiedConstitution,
    found_quorum,
    reduce_chain,
    verify_chain,
    verify_constitution,
)
from maia.credentials.chains.reduction import includes
from maia.credentials.keys import QuorumId
from maia.events import Instant
from maia.testing.refusals import raises
from support.chains import (
    ALICE,
    BOB,
    CAROL,
    DAVE,
    EVERYTHING,
    NOON,
    OWNER,
    TODAY,
    YESTERDAY,
    about,
    call,
    grant,
    k_of,
    named,
    types_of,
)

CHAIN = (grant(OWNER, ALICE), grant(ALICE, DAVE, final=True))


def proof() -> VerifiedChain:
    return verify_chain(CHAIN, root=OWNER, subject=DAVE, at=NOON)


def constitution() -> VerifiedConstitution:
    evidence = found_quorum(k_of(1, ALICE), salt=b"")
    return verify_constitution(evidence, quorum=QuorumId(sha256(evidence.founding).digest()))


def test_a_proof_says_what_was_proved() -> None:
    chain = proof()
    assert (chain.root, chain.subject) == (OWNER, DAVE)
    assert chain.authority == about()
    assert chain.certificates == CHAIN
    assert not chain.may_delegate


@pytest.mark.parametrize("made", [proof, constitution])
def test_only_the_verifier_makes_a_proof(made) -> None:
    """The type is the guarantee, so there is no other way to one."""
    genuine = made()
    fields = {field.name: getattr(genuine, field.name) for field in dataclasses.fields(genuine)}
    with pytest.raises(TypeError, match="only verify_"):
        type(genuine)(**fields, seal=object())
    with pytest.raises(TypeError):
        type(genuine)(**fields)
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(genuine)
    with pytest.raises(TypeError):
        dataclasses.replace(genuine, seal=None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(genuine, next(iter(fields)), None)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(genuine, protocol)
    with pytest.raises(TypeError, match="sub-classes"):
        type("Forged", (type(genuine),), {})
    assert copy.copy(genuine) is genuine
    assert copy.deepcopy(genuine) is genuine


def test_name_certificates_may_stand_anywhere_and_come_back_in_order() -> None:
    to_group, member, last = grant(OWNER, named(ALICE, "team")), call(ALICE, "team", BOB), grant(BOB, DAVE)
    for shown in ((to_group, member, last), (member, to_group, last), (to_group, last, member)):
        chain = verify_chain(shown, root=OWNER, subject=DAVE, at=NOON)
        assert chain.certificates == (to_group, member, last)


def test_one_name_certificate_may_serve_twice_and_is_shown_once() -> None:
    member = call(ALICE, "team", BOB)
    chain = (grant(OWNER, named(ALICE, "team")), member, grant(BOB, named(ALICE, "team", "team")))
    shown = (*chain, call(BOB, "team", DAVE))
    assert len(verify_chain(shown, root=OWNER, subject=DAVE, at=NOON).certificates) == 4


def test_a_name_may_mean_a_threshold() -> None:
    board = call(ALICE, "board", k_of(2, BOB, CAROL))
    shown = (grant(OWNER, named(ALICE, "board")), board, grant(BOB, DAVE), grant(CAROL, DAVE))
    assert verify_chain(shown, root=OWNER, subject=DAVE, at=NOON).subject == DAVE
    inside = call(ALICE, "board", named(BOB, "other", "words"))
    with raises("CREDENTIAL-NAME-UNRESOLVED"):
        verify_chain((shown[0], inside), root=OWNER, subject=DAVE, at=NOON)


def test_a_threshold_has_no_namespace() -> None:
    shown = (grant(OWNER, named(ALICE, "board", "clerk")), call(ALICE, "board", k_of(1, BOB)))
    with pytest.raises(BrokenChain):
        verify_chain(shown, root=OWNER, subject=BOB, at=NOON)


def test_a_refusal_names_certificate_and_field_for_people_and_programs() -> None:
    kept = grant(OWNER, ALICE, final=True)
    with raises("CREDENTIAL-NOT-DELEGABLE") as refused:
        verify_chain((kept, grant(ALICE, DAVE)), root=OWNER, subject=DAVE, at=NOON)
    assert f"`{kept.id.hex()[:12]}`" in refused.value.message
    assert refused.value.as_record()["certificate"] == kept.id.hex()
    assert refused.value.as_record()["field"] == "delegation"
    with pytest.raises(CertificateExpired, match="2026-11-14T23:59:59Z"):
        verify_chain((grant(OWNER, DAVE, validity=YESTERDAY),), root=OWNER, subject=DAVE, at=NOON)


def test_periods_that_never_meet_are_refused_without_a_clock() -> None:
    early, late = Validity(None, Instant(5)), Validity(Instant(6), None)
    links = [FiveTuple(OWNER, ALICE, True, about(), early), FiveTuple(ALICE, BOB, True, about(), late)]
    with raises("CREDENTIAL-VALIDITY-DISJOINT", match="certificate 2"):
        reduce_chain(links)
    touching = [links[0], links[1]._replace(validity=Validity(Instant(5), None))]
    assert reduce_chain(touching).validity == Validity(Instant(5), Instant(5))
    never = [
        links[0]._replace(validity=Validity(Instant(6), Instant(5))),
        links[1]._replace(validity=UNBOUNDED),
    ]
    with raises("CREDENTIAL-VALIDITY-DISJOINT", match="certificate 1"):
        reduce_chain(never)


def test_a_chain_of_nothing_is_no_chain() -> None:
    with pytest.raises(BrokenChain):
        reduce_chain(())


def test_includes_is_about_every_field() -> None:
    wide = about(EVERYTHING)
    assert includes(wide=wide, narrow=about(types_of(OWNER, "uk.*")))
    assert not includes(wide=about(types_of(OWNER, "uk.*")), narrow=wide)
    assert not includes(wide=about(types_of(ALICE)), narrow=about(types_of(OWNER)))


def test_the_validity_of_a_chain_is_that_of_all_its_certificates() -> None:
    chain = verify_chain(
        (grant(OWNER, named(ALICE, "team"), validity=TODAY), call(ALICE, "team", DAVE)),
        root=OWNER,
        subject=DAVE,
        at=NOON,
    )
    assert chain.validity == TODAY != UNBOUNDED
