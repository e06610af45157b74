"""Perturbed, pseudonymised and blurred values give away what the policy states, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from maia.credentials import (
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    Authority,
    SignedCertificate,
    SigningKey,
    Transformation,
    TypePattern,
    certificate_from_bytes,
    certificate_to_bytes,
    exact_name,
    issue,
)
from maia.credentials.keys import BadCertificate
from maia.events import Instant
from maia.expressions import NO_KEYS, TransformationKeys, parse_rule
from maia.keystore.lookup_tables import create_transformation_keys, load_transformation_keys
from maia.policy import NO_FACTS, Permit, Request, View, decide, gather_evidence, see
from maia.predicates import parse_predicate
from maia.roles import parse_policy
from maia.roles.statements import BadPolicy
from maia.sealing.groups.membership import Claim, MemberGrounds, standing
from maia.testing import grant
from maia.testing.refusals import raises
from maia.types import (
    Sealing,
    SealingLevel,
    from_transit,
    sign_definition,
    to_transit,
    verify_definition,
)
from support.homecare import (
    AUDITOR,
    CARER,
    DEFINITIONS,
    DOCTOR,
    HOSPITAL,
    PHARMACY,
    POLICY,
    PRESCRIBE,
    SECRETS,
    issued,
    right_of,
)
from support.policy_world import keys_of

NOW = Instant.parse("2026-11-15T12:00:00Z")
PRESCRIBED = verify_definition(PRESCRIBE, at=NOW, previous=None)
TYPE = TypePattern(HOSPITAL.principal, exact_name("nhs.Prescribe"), None)
SUBSCRIBE = frozenset({Action.SUBSCRIBE})


def transforming(*rules: str, by: SigningKey = HOSPITAL) -> Authority:
    made = tuple(parse_rule(text, PRESCRIBED.vocabulary) for text in rules)
    return Authority(TYPE, SUBSCRIBE, transformations=(Transformation(by.principal, made),))


def view_of(who: SigningKey, *certificates: SignedCertificate) -> View:
    request = Request(who.principal, Action.SUBSCRIBE, PRESCRIBED.name, PRESCRIBED)
    permit = decide(request, gather_evidence(request, certificates, at=NOW), NO_FACTS, NOW)
    assert isinstance(permit, Permit)
    return permit.view


def shown(view: View, keys: TransformationKeys = SECRETS, **values: object) -> dict[str, object] | None:
    seen = see(view, to_transit(values, PRESCRIBED), keys)
    return None if seen is None else dict(from_transit(seen, PRESCRIBED))


def test_a92_a_holder_that_delegates_to_many_keys_of_its_own_averages_nothing() -> None:
    """A92: noise goes by the subject of the certificate that has it, whatever key it is passed on to."""
    right = transforming('dose := perturb(dose, 5.0, "recipient")')
    granted = grant(HOSPITAL, AUDITOR, right, may_delegate=True)
    plain = Authority(TYPE, SUBSCRIBE)
    seen = set()
    for key in keys_of("averaging", *map(str, range(20))):
        passed = AuthorisationCertificate(AUDITOR.principal, key.principal, False, plain, UNBOUNDED)
        seen.add(str(shown(view_of(key, granted, issue(passed, AUDITOR)), patient="Ann", dose=20.0)))
    assert len(seen) == 1
    other = view_of(PHARMACY, issued(PHARMACY, right))
    assert str(shown(other, patient="Ann", dose=20.0)) not in seen


def test_a92_asking_again_or_together_averages_and_links_nothing() -> None:
    """A92: noise depends on the value and not on who asks, when or where; pseudonyms depend on who asks."""
    right = transforming("dose := perturb(dose, 5.0)", "patient := pseudonym(patient)")
    auditor, pharmacy = (view_of(who, issued(who, right)) for who in (AUDITOR, PHARMACY))
    first, again, other = (
        shown(auditor, patient="Ann", dose=20.0),
        shown(auditor, patient="Ann", dose=20.0, drug="another event"),
        shown(pharmacy, patient="Ann", dose=20.0),
    )
    assert first is not None
    assert again is not None
    assert other is not None
    assert first["dose"] == again["dose"] == other["dose"] != 20.0
    assert abs(first["dose"] - 20.0) <= 5.0
    assert first["patient"] == again["patient"] != other["patient"]
    # Through a broker without the secret there is no second value, but none.
    assert shown(auditor, NO_KEYS, patient="Ann", dose=20.0) == dict.fromkeys(first, None)


def test_a92_no_other_issuer_makes_pseudonyms_under_a_secret() -> None:
    """A92: with one, a delegate would look up every patient it can guess."""
    (clinic,) = keys_of("homecare", "clinic")
    with raises("INPUT-TRANSFORMATION-ISSUER"):
        AuthorisationCertificate(
            clinic.principal,
            AUDITOR.principal,
            False,
            transforming('patient := pseudonym("Ann")', by=HOSPITAL),
            UNBOUNDED,
        )
    # The same bytes, signed by the clinic, are no certificate either.
    honest = issued(AUDITOR, transforming('patient := pseudonym("Ann")'))
    forged = certificate_to_bytes(honest).replace(
        b"(6:issuer(7:ed2551932:" + HOSPITAL.principal.key, b"(6:issuer(7:ed2551932:" + clinic.principal.key
    )
    assert forged != certificate_to_bytes(honest)
    with pytest.raises(BadCertificate):
        certificate_from_bytes(forged)


def test_a92_the_secret_is_in_no_text(tmp_path: Path) -> None:
    """A92: neither the secrets nor a view, a file that is refused or an error print them."""
    path = tmp_path / "transformations.key"
    create_transformation_keys(path, HOSPITAL.principal)
    keys = load_transformation_keys(path)
    assert keys.issuers == {HOSPITAL.principal.key}
    words = path.read_text().split("|")
    for printed in (repr(keys), str(keys), repr(keys.of(HOSPITAL.principal.key, b"")), repr(NO_KEYS)):
        assert not any(word in printed for word in words if len(word) > 20)
    path.chmod(0o644)
    with raises("CREDENTIAL-KEY-FILE-EXPOSED"):
        load_transformation_keys(path)
    path.chmod(0o600)
    path.write_text(path.read_text().replace("secret", "sekret"))
    with raises("INPUT-KEY-FILE") as refused:
        load_transformation_keys(path)
    assert refused.value.__cause__ is None
    assert not any(word in str(refused.value) for word in words if len(word) > 20)


def test_a93_a_holder_of_blurred_places_cannot_delegate_exact_ones() -> None:
    """A93: neither a restriction nor a transformation of its own reads what it does not see itself."""
    blurred = issued(CARER, transforming("place := first(place, 2)", "patient := none"), may_delegate=True)
    exact = parse_predicate('place == "CB3 0FD"', PRESCRIBED.vocabulary)
    by_patient = parse_predicate('patient == "Ann"', PRESCRIBED.vocabulary)
    attempts = {
        "a restriction to the exact place": Authority(TYPE, SUBSCRIBE, restriction=exact),
        "a restriction to one patient": Authority(TYPE, SUBSCRIBE, restriction=by_patient),
        "a rule that reads it": transforming("drug := place", "dose := none", by=CARER),
        "a rule that asks for it": transforming('drug := "yes" when patient == "Ann"', by=CARER),
    }
    for name, authority in attempts.items():
        passed_on = grant(CARER, DOCTOR, authority)
        view = view_of(DOCTOR, blurred, passed_on)
        answers = [
            shown(view, patient=patient, drug="aspirin", place=place)
            for patient, place in (("Ann", "CB3 0FD"), ("Bob", "CB3 0FD"), ("Ann", "CB3 9ZZ"))
        ]
        assert answers[0] == answers[1] == answers[2], name
        assert answers[0] is None or "CB3 0FD" not in answers[0].values(), name


def test_a93_a_holder_of_transformed_events_gets_no_key_of_what_they_are_made_of() -> None:
    """A93: with the key of an attribute, its holder would open what its right transforms."""
    sealing = Sealing(SealingLevel.ATTRIBUTE, HOSPITAL.principal, ("127.0.0.1:7500",))
    definition = replace(PRESCRIBE.definition, sealing=sealing)
    sealed = verify_definition(sign_definition(definition, HOSPITAL), at=NOW, previous=None)
    grounds = MemberGrounds(SealingLevel.ATTRIBUTE)

    def groups(who: SigningKey, *rights: SignedCertificate) -> set[str | None]:
        return {one.uid for one in standing(Claim(who.principal, (sealed,), rights), grounds, NOW).groups}

    assert groups(AUDITOR, right_of("auditor", AUDITOR)) == set(), "it converts, and is answered by no broker"
    assert groups(CARER, right_of("carer", CARER)) == {None, "1", "5"}, "what it is shown as it was published"
    assert groups(PHARMACY, right_of("pharmacist", PHARMACY)) == {None, "1", "2", "6"}
    # A plain right beside a transformed one opens what the plain one shows, and not what the other reads.
    plain = issued(CARER, Authority(TYPE, SUBSCRIBE, frozenset({"2"})))
    assert groups(CARER, right_of("carer", CARER), plain) == {None, "2", "1", "5"}


def test_a42_a_policy_with_a_broken_transformation_is_refused_as_a_whole() -> None:
    """A42: the text is checked with its transformations, and each mistake is named at its line."""
    types = {one.definition.name.name: verify_definition(one, at=NOW, previous=None) for one in DEFINITIONS}
    lines = POLICY.splitlines()

    def line(starts: str) -> int:
        return next(number for number, one in enumerate(lines, start=1) if one.strip().startswith(starts))

    mistakes = {
        ("pseudonym(patient)", "pseudonym(pateint)"): (line("set reference"), "patient"),
        ("upper(drug)", "uper(drug)"): (line("set drug"), "upper"),
        ("day_of(at)", "hour_of(drug)"): (line("set day"), "timestamp"),
        ("transform Prescribe for auditor", "transform Prescribe for auditer"): (
            line("transform Prescribe for auditor"), "auditor",
        ),
        ("first(place, 2)", "round_to(place, 2)"): (line("set place"), "number"),
        ("Prescribe to doctor(d)", "Prescribe to doctor(e)"): (line("restrict"), "doctor(d)"),
        ("when treats(d, patient)", "when treat(d, patient)"): (line("restrict"), "treats"),
    }  # fmt: skip
    for (good, bad), (where, hint) in mistakes.items():
        with pytest.raises(BadPolicy) as refused:
            parse_policy(POLICY.replace(good, bad), origin="p", domain=HOSPITAL.principal, types=types)
        assert f"line {where}," in str(refused.value), str(refused.value)
        assert hint in str(refused.value), str(refused.value)
