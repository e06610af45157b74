"""How do chains, conditions, filters and topics come together in one decision?"""

from __future__ import annotations

import pytest

from maia.credentials.authority import Action
from maia.credentials.certificate import Validity
from maia.events import AttributeUid
from maia.policy import (
    Audience,
    Bound,
    BoundRule,
)
from maia.policy import grants as openings
from maia.policy.evidence import CHAINS_MAX
from maia.predicates.language.parser import parse_predicate
from maia.predicates.syntax import Exists
from maia.types import TypeDefinition, sign_definition, verify_definition
from support.policy import (
    CCTV,
    MANAGER,
    MET,
    NOON,
    NUMBERPLATE,
    PITO,
    PLATE,
    SMITH,
    TIME,
    ask,
    chain,
    denial,
    granted,
    later,
    permit,
    type_pattern,
)

UNTIL_ONE = Validity(None, later(3600))
UNTIL_TWO = Validity(None, later(7200))


def to_smith(**terms):
    return chain(granted(PITO, SMITH, terms.pop("actions", "subscribe"), **terms), subject=SMITH)


# ---------------------------------------------------------------- subscribers: chains add up


# ---------------------------------------------------------------- filters


def test_a_filter_on_a_hidden_attribute_and_on_a_missing_one_get_the_same_answer():
    """A52: whether `numberplate` is hidden or does not exist is not told."""
    times = to_smith(attributes="timestamp")
    answers = []
    for uid in (PLATE, AttributeUid("4711")):
        refused = denial(ask(SMITH, "subscribe", chains=[times], filter=Exists(uid)))
        assert refused.code == "POLICY-ATTRIBUTE-NOT-READABLE"
        answers.append(str(refused.as_refusal().as_record()).replace(uid, "that one"))
    assert answers[0] == answers[1]


def test_a_filter_of_the_wrong_kind_is_a_clear_error_to_its_author():
    refused = denial(ask(SMITH, "subscribe", chains=[to_smith()], filter=parse_predicate(f"#{PLATE} = 5")))
    assert refused.code == "POLICY-FILTER-MISTYPED"
    assert refused.explanation.requester[0].attribute == PLATE
    assert "string" in refused.as_refusal().message


# ---------------------------------------------------------------- conditions


# ---------------------------------------------------------------- publishers: one chain speaks

VICTORIA = {"attributes": "location numberplate timestamp", "restriction": 'location = "Victoria"'}


def camera(**terms):
    return chain(granted(PITO, CCTV, "publish", **terms), subject=CCTV)


def test_a_chain_that_another_one_goes_beyond_does_not_speak():
    assert permit(ask(CCTV, "publish", chains=[camera(**VICTORIA), camera()])).view.forced == {}


# ---------------------------------------------------------------- the owner's nearest miss


@pytest.mark.parametrize(
    ("terms", "code", "field"),
    [
        ({"actions": "publish"}, "POLICY-ACTION-NOT-GRANTED", "authority.actions"),
        ({"resources": type_pattern(name="Other")}, "POLICY-RESOURCE-NOT-GRANTED", "authority.resources"),
        ({"condition": "on-duty = true"}, "POLICY-CONDITION-NOT-MET", "authority.condition"),
    ],
)
def test_a_denial_names_the_certificate_and_the_field(terms, code, field):
    certificate = granted(PITO, SMITH, terms.pop("actions", "subscribe"), **terms)
    refused = denial(ask(SMITH, "subscribe", chains=[chain(certificate, subject=SMITH)]))
    (reason,) = refused.explanation.owner
    assert (refused.code, reason.certificate, reason.field) == (code, certificate.id, field)


def test_the_nearest_miss_comes_first_and_the_others_follow():
    far = to_smith(resources=type_pattern(name="Other"))
    near = to_smith(condition="on-duty = true")
    refused = denial(ask(SMITH, "subscribe", chains=[far, near]))
    assert refused.code == "POLICY-CONDITION-NOT-MET"
    assert [reason.rule for reason in refused.explanation.owner] == ["condition", "resource"]


def test_a_permit_names_the_certificates_behind_it():
    first = granted(PITO, MET, "subscribe", may_delegate=True)
    second = granted(
        MET, SMITH, "subscribe", attributes="numberplate", restriction='numberplate = "AE05 XYZ"'
    )
    decision = permit(ask(SMITH, "subscribe", chains=[chain(first, second, subject=SMITH)]))
    rules = {reason.rule: reason for reason in decision.explanation.reasons(Audience.OWNER)}
    assert rules["restriction"].certificate == second.id
    assert rules["restriction"].attribute == PLATE
    assert 'numberplate == "AE05 XYZ"' in rules["restriction"].sentence
    told = decision.explanation.lines(Audience.REQUESTER)
    assert any("`numberplate`" in line for line in told)
    assert not any("restrict" in line or "AE05" in line for line in told)
    assert "AE05" not in repr(decision)


def test_the_owner_reads_what_is_hidden_and_the_requester_what_is_shown():
    decision = permit(ask(SMITH, "subscribe", chains=[to_smith(attributes="timestamp")]))
    assert (
        "the requester may read `timestamp` and not `numberplate`, `location`"
        in decision.explanation.lines(Audience.OWNER)
    )
    assert "you may read `timestamp`" in decision.explanation.lines(Audience.REQUESTER)
    assert not any("location" in line for line in decision.explanation.lines(Audience.REQUESTER))


# ---------------------------------------------------------------- types that lapse, topics


def test_a_view_never_outlives_the_type_behind_it():

    rights = granted(PITO, MANAGER, "manage", validity=UNTIL_ONE)
    name = type(NUMBERPLATE.name)(
        PITO.principal, NUMBERPLATE.name.name, "00000000-0000-0000-0000-000000000001"
    )
    definition = TypeDefinition(name, "0", NUMBERPLATE.attributes, (rights,))
    managed = verify_definition(sign_definition(definition, MANAGER), at=NOON, previous=NUMBERPLATE)
    assert permit(ask(SMITH, "subscribe", managed, chains=[to_smith()])).until == UNTIL_ONE.not_after
    refused = denial(ask(SMITH, "subscribe", managed, chains=[to_smith()], now=later(3601)))
    assert refused.code == "POLICY-TYPE-NOT-VALID"


def test_many_chains_and_many_bounds_ask_the_prover_once_for_each_bound(monkeypatch):
    """Limits count steps: what costs much is asked once per bound, however many chains there are."""
    asked = []
    real = openings.permits
    monkeypatch.setattr(openings, "permits", lambda rule, wanted: asked.append(rule) or real(rule, wanted))
    chains = [to_smith(restriction=f'location != "{number}"') for number in range(CHAINS_MAX)]
    bounds = [BoundRule(SMITH.principal, Action.SUBSCRIBE, Bound.UPPER, Exists(TIME))] * 3
    bounds[1] = BoundRule(SMITH.principal, Action.SUBSCRIBE, Bound.LOWER, Exists(TIME))
    view = permit(ask(SMITH, "subscribe", chains=chains, bounds=bounds, filter=Exists(TIME))).view
    assert len(view.windows[0].admits.parts) == CHAINS_MAX
    assert len(asked) == 2


@pytest.mark.parametrize("seconds", [3601, 7201])
def test_a_denial_blames_the_certificate_that_expired_first_however_late_it_is(seconds):
    first = granted(PITO, MET, "subscribe", may_delegate=True, validity=UNTIL_TWO)
    second = granted(MET, SMITH, "subscribe", validity=UNTIL_ONE)
    shown = chain(first, second, subject=SMITH)
    (reason,) = denial(ask(SMITH, "subscribe", chains=[shown], now=later(seconds))).explanation.requester
    assert reason.certificate == second.id
    assert reason.sentence == (
        f"what {MET.principal} granted ended at {later(3600)}: ask {MET.principal} for a new certificate"
    )


# ------------------------------------------------------------ of several chains, one that serves
