"""A holder of a delegable right learns nothing by delegating it, not even to a key of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    SignedCertificate,
    SigningKey,
    Transformation,
    TypePattern,
    exact_name,
)
from maia.events import Instant, Kind
from maia.expressions import parse_rule
from maia.organisation import Organisation
from maia.policy import NO_FACTS, Decision, Denial, Permit, Request, decide, gather_evidence, see
from maia.policy.decision import Audience
from maia.predicates import ALWAYS, parse_predicate
from maia.testing import grant as granted
from maia.testing.refusals import raises
from maia.types import verify_definition
from support.policy_world import keys_of, type_of

NOW = Instant.parse("2026-11-15T12:00:00Z")
OWNER, HOLDER, SECOND, THIRD = keys_of("delegating", "owner", "holder", "second key", "third key")
SIGNED = type_of(OWNER, "LabResult", ("patient", Kind.STRING), ("ward", Kind.STRING), ("value", Kind.INT))
RESULT = verify_definition(SIGNED, at=NOW)
PATIENT, WARD, VALUE = (one.uid for one in RESULT.attributes)
EVENT = {PATIENT: "P-17", WARD: "3", VALUE: 7}


def given(issuer: SigningKey, subject: SigningKey, *, only=ALL_ATTRIBUTES, where=None, rules=()):
    made = tuple(parse_rule(text, RESULT.vocabulary) for text in rules)
    steps = (Transformation(issuer.principal, made),) if made else ()
    restriction = ALWAYS if where is None else parse_predicate(where, RESULT.vocabulary)
    return granted(
        issuer,
        subject,
        TypePattern(OWNER.principal, exact_name("LabResult"), None),
        Action.SUBSCRIBE,
        attributes=only,
        restriction=restriction,
        transformations=steps,
        may_delegate=True,
    )


def decided(who: SigningKey, *certificates: SignedCertificate) -> Decision:
    request = Request(who.principal, Action.SUBSCRIBE, RESULT.name, RESULT)
    return decide(request, gather_evidence(request, certificates, at=NOW), NO_FACTS, NOW)


TWO = given(OWNER, HOLDER, only=frozenset({WARD, VALUE}))


@pytest.mark.parametrize(
    "where", ['patient == "P-17"', 'patient < "Q"', "exists(patient)", 'prefix(patient, "P")']
)
def test_a104_a_restriction_on_a_hidden_attribute_admits_nothing_and_says_so(where: str) -> None:
    """A104: otherwise a second key of the holder receives exactly the events of one patient."""
    denial = decided(SECOND, TWO, given(HOLDER, SECOND, where=where))
    assert isinstance(denial, Denial)
    assert denial.code == "POLICY-ATTRIBUTE-NOT-READABLE"
    assert "patient" in " ".join(denial.explanation.lines(Audience.OWNER, {PATIENT: "patient"}))


def test_a104_what_a_restriction_says_of_visible_attributes_still_counts() -> None:
    """A104: a hidden attribute is missing for it, as for its issuer, and nothing else changes."""
    where = 'ward == "3" or patient == "P-18"'
    permit = decided(SECOND, TWO, given(HOLDER, SECOND, where=where))
    assert isinstance(permit, Permit)
    assert see(permit.view, EVENT) == {WARD: "3", VALUE: 7}
    assert see(permit.view, {**EVENT, WARD: "4", PATIENT: "P-18"}) is None
    assert any(
        "its issuer may not read `patient`" in line for line in permit.explanation.lines(Audience.OWNER)
    )


def test_a104_the_owner_may_restrict_by_what_it_does_not_show() -> None:
    """A104: whoever sees an attribute may restrict by it."""
    permit = decided(HOLDER, given(OWNER, HOLDER, only=frozenset({VALUE}), where='ward == "3"'))
    assert isinstance(permit, Permit)
    assert see(permit.view, EVENT) == {VALUE: 7}
    assert see(permit.view, {**EVENT, WARD: "4"}) is None


def test_a104_behind_two_links_after_a_transformation_the_first_link_still_hides() -> None:
    """A104: the second link behind a transformation is about what the first one behind it shows."""
    blurred = given(OWNER, HOLDER, rules=("value := value / 10",))
    narrow = given(HOLDER, SECOND, only=frozenset({VALUE}))
    denial = decided(THIRD, blurred, narrow, given(SECOND, THIRD, where='patient == "P-17"'))
    assert isinstance(denial, Denial)
    assert denial.code == "POLICY-ATTRIBUTE-NOT-READABLE"


def test_a104_an_organisation_is_told_when_it_issues(tmp_path: Path) -> None:
    """A104: the refusal names the attribute and leaves no certificate behind."""
    hospital, institute = (Organisation.create(tmp_path / name) for name in ("hospital", "institute"))
    hospital.define("LabResult", patient="string", ward="string", value="int")
    grant = hospital.grant(
        institute.principal, may="subscribe:LabResult", only=["ward", "value"], delegable=True
    )
    institute.join(grant.save(tmp_path / "institute.grant"))
    with raises("POLICY-ATTRIBUTE-NOT-READABLE", match="`patient`"):
        institute.add_member("spy", may="subscribe:LabResult", where='patient == "P-17" or ward == "3"')
    assert not list(institute.folder.glob("issued/*.cert"))
