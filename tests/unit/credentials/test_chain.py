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
from maia.credentials.keys import QuorumId
from maia.events import Instant
from maia.testing.refusals import raises
from support.chains import (
    ALICE,
    BOB,
    DAVE,
    NOON,
    OWNER,
    YESTERDAY,
    about,
    call,
    grant,
    k_of,
    named,
)

CHAIN = (grant(OWNER, ALICE), grant(ALICE, DAVE, final=True))


def proof() -> VerifiedChain:
    return verify_chain(CHAIN, root=OWNER, subject=DAVE, at=NOON)


def constitution() -> VerifiedConstitution:
    evidence = found_quorum(k_of(1, ALICE), salt=b"")
    return verify_constitution(evidence, quorum=QuorumId(sha256(evidence.founding).digest()))


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
