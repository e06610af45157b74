"""Rights that transform on publication, and rights to summaries, show what their policy states alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import (
    Action,
    Authority,
    SignedCertificate,
    SigningKey,
    Transformation,
    TypePattern,
    certificate_from_bytes,
    certificate_to_bytes,
    exact_name,
)
from maia.credentials.encoding.parts import BadAuthority
from maia.events import Instant
from maia.expressions import parse_rule
from maia.policy import NO_FACTS, Permit, Request, View, decide, gather_evidence, shape
from maia.policy.view import is_summarised, summarised
from maia.roles import parse_policy
from maia.roles.statements import BadPolicy
from maia.sealing.groups.membership import Claim, MemberGrounds, standing
from maia.testing import grant
from maia.types import (
    Sealing,
    SealingLevel,
    from_transit,
    sign_definition,
    to_transit,
    verify_definition,
)
from support.air_quality import (
    CAMERA,
    CITY,
    POLICY,
    PUBLIC,
    READING,
    SECRETS,
    SENSOR,
    authorities_of,
    issued,
    verified_types,
)

NOW = Instant.parse("2026-11-15T12:00:00Z")
READ = verify_definition(READING, at=NOW, previous=None)
TYPE = TypePattern(CITY.principal, exact_name("city.Reading"), None)
PUBLISH, SUBSCRIBE = frozenset({Action.PUBLISH}), frozenset({Action.SUBSCRIBE})


def passed_on(issuer: SigningKey, to: SigningKey, authority: Authority) -> SignedCertificate:
    return grant(issuer, to, authority)


def view_of(who: SigningKey, action: Action, *certificates: SignedCertificate) -> View | None:
    request = Request(who.principal, action, READ.name, READ)
    decision = decide(request, gather_evidence(request, certificates, at=NOW), NO_FACTS, NOW)
    return decision.view if isinstance(decision, Permit) else None


def test_a93_a_delegate_cannot_publish_what_its_issuer_would_have_published_coarser() -> None:
    """A93: whoever a sensor passes its right on to writes through the city's transformation, too."""
    (authority,) = authorities_of("sensor", SENSOR)
    own = issued(SENSOR, authority, may_delegate=True)
    undoing = tuple(parse_rule(text, READ.vocabulary) for text in ('place := "CB3 0FD"', "level := level"))
    attempts = {
        "the right as it is": Authority(TYPE, PUBLISH),
        "a transformation of its own": replace(
            Authority(TYPE, PUBLISH), transformations=(Transformation(SENSOR.principal, undoing),)
        ),
        "everything that there is": Authority(TYPE, PUBLISH | SUBSCRIBE),
    }
    exact = to_transit({"sensor": "s1", "place": "CB3 0FD", "level": 12.4}, READ)
    for name, wanted in attempts.items():
        view = view_of(CAMERA, Action.PUBLISH, own, passed_on(SENSOR, CAMERA, wanted))
        assert view is not None, name
        published = from_transit(shape(view, exact, SECRETS), READ)
        assert (published["place"], published["level"]) == ("CB3", 12.5), name
        assert published["sensor"] != "s1", name
        # Without the secret the pseudonym is missing, and the name of the sensor does not take its place.
        assert from_transit(shape(view, exact), READ)["sensor"] is None, name


def test_a93_a_right_that_makes_other_attributes_than_the_type_has_publishes_nothing() -> None:
    odd = (parse_rule("level := level", READ.vocabulary), parse_rule("place := place", READ.vocabulary))
    stray = tuple(replace(rule, uid="99") for rule in odd[:1])
    mistyped = (replace(odd[0], uid=odd[1].uid),)
    for rules in (stray, mistyped):
        step = Transformation(CITY.principal, rules)
        right = issued(SENSOR, Authority(TYPE, PUBLISH, transformations=(step,)))
        assert view_of(SENSOR, Action.PUBLISH, right) is None


def test_a93_a_holder_of_summaries_gets_no_key_and_sees_no_event() -> None:
    """A93: with a key of the type, its holder would open the readings that are counted."""
    (authority,) = authorities_of("public", PUBLIC)
    right = issued(PUBLIC, authority)
    assert certificate_from_bytes(certificate_to_bytes(right)) == right
    sealing = Sealing(SealingLevel.ATTRIBUTE, CITY.principal, ("127.0.0.1:7500",))
    definition = replace(READING.definition, sealing=sealing)
    sealed = verify_definition(sign_definition(definition, CITY), at=NOW, previous=None)
    claim = Claim(PUBLIC.principal, (sealed,), (right,))
    assert not standing(claim, MemberGrounds(SealingLevel.ATTRIBUTE), NOW).groups
    view = view_of(PUBLIC, Action.SUBSCRIBE, right)
    assert view is not None
    assert is_summarised(view)
    alone = [(NOW, to_transit({"sensor": "s1", "place": "CB3", "level": 10.0}, READ))]
    later = Instant(NOW + 3600 * 1_000_000)
    assert summarised(view, alone, closed_at=later) == []
    assert len(summarised(view, alone * 2, closed_at=later)) == 1


def test_a93_a_summary_has_no_rules_and_is_for_subscribers() -> None:
    (authority,) = authorities_of("public", PUBLIC)
    (step,) = authority.transformations
    rules = (parse_rule("place := place", READ.vocabulary),)
    for broken in (
        replace(authority, actions=PUBLISH),
        replace(authority, transformations=(replace(step, rules=rules),)),
        replace(authority, transformations=(replace(step, result=None),)),
    ):
        with pytest.raises(BadAuthority):
            certificate_to_bytes(issued(PUBLIC, broken))


def test_a42_a_policy_with_a_broken_derivation_is_refused_as_a_whole() -> None:
    """A42: the text is checked with what it derives, and each mistake is named at its line."""
    lines, types = POLICY.splitlines(), verified_types()

    def line(starts: str) -> int:
        return next(number for number, one in enumerate(lines, start=1) if one.strip().startswith(starts))

    mistakes = {
        ("mean(level, 0.1)", "mean(level)"): (line("set mean_level"), "mean(level, 0.01)"),
        ("mean(level, 0.1)", "meen(level, 0.1)"): (line("set mean_level"), "period_start"),
        ("mean(level, 0.1)", "mean(lvl, 0.1)"): (line("set mean_level"), "level"),
        ("readings := count()", "readings := mean(level, 0.1)"): (line("set readings"), "int"),
        ("readings := count()", "reading := count()"): (line("set readings"), "reading"),
        ("every 1 second at", "every 1 secnd at"): (line("summarise"), "seconds"),
        ("at least 2", "at last 2"): (line("summarise"), "least"),
        ("first(place, 2)", "frist(place, 2)"): (line("per area"), "first"),
        ("for public as", "for publik as"): (line("summarise"), "public"),
        ("on publication for sensor", "on publication for operator"): (
            line("transform Reading"), "may publish Reading",
        ),
        ("on publication for camera", "on publishing for camera"): (
            line("transform Sighting"), "transform Prescribe",
        ),
    }  # fmt: skip
    for (good, bad), (where, hint) in mistakes.items():
        assert POLICY.count(good) == 1, good
        with pytest.raises(BadPolicy) as refused:
            parse_policy(POLICY.replace(good, bad), origin="p", domain=CITY.principal, types=types)
        assert f"line {where}," in str(refused.value), str(refused.value)
        assert hint in str(refused.value), str(refused.value)
