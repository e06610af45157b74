"""Evidence is gathered from certificates that still stand, and a denial says which one does not."""

from __future__ import annotations

from maia.credentials import (
    CertificateRevoked,
    OnlineTest,
    RevocationList,
    TestKind,
    Validity,
    period_from,
    sign_statement,
)
from maia.credentials.chains.reduction import NoChain as NoChainFound
from maia.policy import NO_FACTS, Audience, decide, gather_evidence
from maia.validity import ASSUMED_GOOD, Monitor
from support.policy import (
    BILLING,
    MET,
    NOON,
    NUMBERPLATE,
    PITO,
    SMITH,
    chain,
    denial,
    granted,
    later,
    permit,
    request,
)

TESTED = Validity(None, None).with_tests(OnlineTest(TestKind.TIMED_CRL, MET.principal))
TO_MET = granted(PITO, MET, "subscribe", may_delegate=True)
TO_SMITH = granted(MET, SMITH, "subscribe", attributes="numberplate timestamp", validity=TESTED)
ASKED = request(SMITH, "subscribe")


def said(number, *revoked, timed=True, by=MET):
    period = period_from(NOON, microseconds=30_000_000) if timed else None
    ids = frozenset(signed.id for signed in revoked)
    return sign_statement(RevocationList(by.principal, number, period, ids), by)


def heard(*statements, at=NOON):
    standing = Monitor()
    for signed in statements:
        standing.receive(signed, at)
    return standing


def decided(standing, pool=(TO_MET, TO_SMITH), at=NOON, wanted=ASKED):
    return decide(wanted, gather_evidence(wanted, pool, at=at, standing=standing), NO_FACTS, at)


def test_without_a_standing_nothing_was_received():
    """A caller that forgot about revocation must not thereby switch it off."""
    refused = denial(decide(ASKED, gather_evidence(ASKED, (TO_MET, TO_SMITH), at=NOON), NO_FACTS, NOON))
    assert refused.code == "POLICY-STALE"
    untested = granted(MET, SMITH, "subscribe", attributes="location")
    for pool in ((TO_MET, TO_SMITH), (TO_MET, untested), (TO_MET, TO_SMITH, untested), (TO_MET,), ()):
        without, empty = decided(None, pool), decided(Monitor(), pool)
        assert type(without) is type(empty)
        assert without.explanation == empty.explanation
        assert without.stable == empty.stable


def test_who_only_chooses_can_say_so():
    assert permit(decided(ASSUMED_GOOD))


def test_a_revoked_certificate_is_left_out_and_named():
    evidence = gather_evidence(ASKED, (TO_MET, TO_SMITH), at=NOON, standing=heard(said(1, TO_SMITH)))
    assert not evidence.chains
    (problem,) = evidence.broken
    assert isinstance(problem, CertificateRevoked)
    assert problem.certificate == TO_SMITH.id
    refused = denial(decide(ASKED, evidence, NO_FACTS, NOON))
    assert refused.code == "POLICY-REVOKED"


def test_the_requester_learns_that_and_the_owner_learns_which():
    refused = denial(decided(heard(said(1, TO_SMITH))))
    assert TO_SMITH.id.hex()[:12] not in " ".join(refused.explanation.lines(Audience.REQUESTER))
    assert TO_SMITH.id.hex()[:12] in " ".join(refused.explanation.lines(Audience.OWNER))


def test_without_a_chain_the_evidence_names_what_would_have_made_one():
    """A verifier decides again when one of these counts again, and for no other."""
    direct = granted(PITO, SMITH, "subscribe", attributes="location", validity=TESTED)
    pool = (TO_MET, TO_SMITH, direct, granted(MET, BILLING, "subscribe", validity=TESTED))
    standing = heard(said(1, TO_SMITH))
    assert not gather_evidence(ASKED, pool, at=NOON, standing=standing).missed
    stale = gather_evidence(ASKED, pool, at=later(30), standing=standing)
    assert {signed.id for signed in stale.missed} == {TO_SMITH.id, direct.id}
    without = gather_evidence(ASKED, pool[:2], at=NOON, standing=standing)
    assert without.missed == (TO_SMITH,)


def test_problems_of_certificates_that_would_not_have_helped_are_not_reported():
    of_billing = granted(MET, BILLING, "subscribe", validity=TESTED)
    wanted = request(SMITH, "subscribe")
    evidence = gather_evidence(wanted, (TO_MET, of_billing), at=NOON, standing=heard(said(1, of_billing)))
    (problem,) = evidence.broken
    assert isinstance(problem, NoChainFound)
    assert denial(decide(wanted, evidence, NO_FACTS, NOON)).code == "POLICY-NO-CHAIN"


def test_what_was_permitted_once_is_decided_again_from_new_evidence():
    standing = heard(said(1))
    assert permit(decided(standing))
    standing.receive(said(2, TO_SMITH, timed=False), later(1))
    assert denial(decided(standing, at=later(1))).code == "POLICY-REVOKED"


def test_a_chain_carries_its_tests_to_a_principal_that_keeps_it():
    proof = chain(TO_MET, TO_SMITH, subject=SMITH)
    assert proof.validity.tests == TESTED.tests
    assert NUMBERPLATE.validity.tests == ()
