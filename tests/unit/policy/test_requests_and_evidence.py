"""Which requests make sense, and how much evidence is checked?"""

from __future__ import annotations

import pytest

from maia.credentials.authority import Action
from maia.credentials.certificate import Validity
from maia.credentials.names import FIRST_VERSION, TopicName, TypeName
from maia.errors import BadInput
from maia.events import AttributeUid
from maia.policy import NO_FACTS, Bound, BoundRule, Evidence, Request, decide, gather_evidence
from maia.policy.decision import resources_needed
from maia.policy.evidence import BOUNDS_MAX, CERTIFICATES_MAX, CHAINS_COUNTED, CHAINS_MAX
from maia.predicates.syntax import (
    ALWAYS,
    NODES_MAX,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    NotAConstraintFilter,
    Operator,
)
from maia.testing.refusals import raises
from maia.views.plan import checked_view
from support.policy import (
    CCS,
    MET,
    NOON,
    NUMBERPLATE,
    PITO,
    PLACE,
    PLATE,
    POLICE_NETWORK,
    SMITH,
    chain,
    denial,
    granted,
    later,
    permit,
    request,
    topic_pattern,
)

SMITHS = SMITH.principal
SPEED = AttributeUid("speed")


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        (Action.PUBLISH, POLICE_NETWORK),
        (Action.CONNECT, NUMBERPLATE.name),
        (Action.MANAGE_ADD, TopicName(PITO.principal, "/a")),
        (Action.EXTEND, POLICE_NETWORK),
    ],
)
def test_an_action_that_does_not_fit_its_resource_cannot_be_asked(action, resource):
    with raises("INPUT-REQUEST"):
        Request(SMITHS, action, resource)


@pytest.mark.parametrize("action", [Action.PUBLISH, Action.SUBSCRIBE])
def test_publishing_and_subscribing_need_the_definition_of_the_type(action):
    with raises("INPUT-REQUEST"):
        Request(SMITHS, action, NUMBERPLATE.name)


def test_the_definition_must_be_the_one_that_was_named():
    """A22: the proof of one type is not used for another."""
    other = TypeName(PITO.principal, "uk.gov.pito.Other", FIRST_VERSION)
    with raises("INPUT-REQUEST"):
        Request(SMITHS, Action.SUBSCRIBE, other, NUMBERPLATE)


def test_only_publishing_and_subscribing_have_a_filter():
    with raises("INPUT-REQUEST"):
        Request(SMITHS, Action.CONNECT, POLICE_NETWORK, filter=Exists(NUMBERPLATE.attributes[0].uid))


def test_a_filter_too_deep_to_compare_is_refused_before_it_is_compared():
    deep = ALWAYS
    for _ in range(100_000):
        deep = AllOf((deep,))
    with pytest.raises(BadInput):
        Request(SMITHS, Action.SUBSCRIBE, NUMBERPLATE.name, NUMBERPLATE, deep)


def test_requests_are_equal_if_they_ask_for_the_same():
    one, same = request(SMITH, "subscribe"), request(SMITH, "subscribe")
    assert one == same
    assert hash(one) == hash(same)
    assert one != request(SMITH, "publish")
    assert one != request(CCS, "subscribe")
    assert one != request(SMITH, "subscribe", filter='location = "Soho"')
    assert one != "something else"


def test_a_number_is_not_a_truth_value_in_a_filter():
    """Python takes 1 and True for equal; a remembered decision must not."""
    uid = NUMBERPLATE.attributes[0].uid
    number = request(SMITH, "subscribe", filter=Comparison(uid, Operator.EQ, 1))
    assert number != request(SMITH, "subscribe", filter=Comparison(uid, Operator.EQ, True))


def test_publishing_on_a_topic_needs_every_super_topic_and_subscribing_does_not():
    topic = TopicName(PITO.principal, "/traffic/london")
    paths = [name.path for name in resources_needed(request(SMITH, "publish", topic))]
    assert paths == ["/", "/traffic", "/traffic/london"]
    assert resources_needed(request(SMITH, "subscribe", topic)) == (topic,)
    root = TopicName(PITO.principal, "/")
    assert resources_needed(request(SMITH, "publish", root)) == (root,)


def test_more_chains_than_a_decision_checks_are_refused():
    one = chain(granted(PITO, SMITH, "subscribe"), subject=SMITH)
    Evidence((one,) * CHAINS_MAX)
    with raises("INPUT-EVIDENCE-SIZE"):
        Evidence((one,) * (CHAINS_MAX + 1))
    rule = BoundRule(SMITHS, Action.SUBSCRIBE, Bound.UPPER, ALWAYS)
    with raises("INPUT-EVIDENCE-SIZE"):
        Evidence((), (rule,) * (BOUNDS_MAX + 1))


def test_a_bound_is_on_a_filter_and_made_of_constraints():
    with raises("INPUT-BOUND"):
        BoundRule(SMITHS, Action.CONNECT, Bound.UPPER, ALWAYS)
    either = AnyOf((Exists(NUMBERPLATE.attributes[0].uid), Exists(NUMBERPLATE.attributes[1].uid)))
    BoundRule(SMITHS, Action.SUBSCRIBE, Bound.UPPER, either)
    with pytest.raises(NotAConstraintFilter):
        BoundRule(SMITHS, Action.SUBSCRIBE, Bound.LOWER, either)


# ---------------------------------------------------------------- gathering

TO_MET = granted(PITO, MET, "subscribe", may_delegate=True)
TO_SMITH = granted(MET, SMITH, "subscribe", restriction='numberplate = "AE05 XYZ"')


def refusal_from(wanted, pool):
    return denial(decide(wanted, gather_evidence(wanted, pool, at=NOON), NO_FACTS, NOON))


def test_an_expired_certificate_in_the_pool_explains_the_denial():
    ended = granted(MET, SMITH, "subscribe", validity=Validity(later(-20), later(-10)))
    wanted = request(SMITH, "subscribe")
    refused = refusal_from(wanted, [TO_MET, ended])
    assert refused.code == "POLICY-EXPIRED"
    assert refused.explanation.owner[0].certificate == ended.id


def test_who_relies_on_a_certificate_that_has_ended_is_told_which_one_and_whom_to_ask():
    ended = granted(MET, SMITH, "subscribe", validity=Validity(later(-20), later(-10)))
    said = refusal_from(request(SMITH, "subscribe"), [TO_MET, ended]).as_refusal()
    assert said.message == (
        f"what {MET.principal} granted ended at {later(-10)}: ask {MET.principal} for a new certificate "
        f"(certificate {ended.id.hex()[:12]}, field validity.not_after)"
    )


def test_a_certificate_that_has_not_begun_explains_the_denial():
    coming = granted(MET, SMITH, "subscribe", validity=Validity(later(10), later(20)))
    wanted = request(SMITH, "subscribe")
    refused = refusal_from(wanted, [TO_MET, coming])
    assert refused.code == "POLICY-NOT-YET-VALID"
    assert refused.explanation.owner[0].certificate == coming.id


def test_a_certificate_that_may_not_be_passed_on_explains_the_denial_to_the_owner():
    kept_by_met = granted(PITO, MET, "subscribe")
    wanted = request(SMITH, "subscribe")
    refused = denial(
        decide(wanted, gather_evidence(wanted, [kept_by_met, TO_SMITH], at=NOON), NO_FACTS, NOON)
    )
    assert refused.code == "POLICY-NO-CHAIN"
    assert refused.explanation.owner[0].certificate == kept_by_met.id
    assert refused.explanation.owner[0].field == "delegation"


def test_evidence_for_a_publication_on_a_topic_is_gathered_level_by_level():
    topic = TopicName(PITO.principal, "/traffic/london")
    pool = [
        granted(PITO, SMITH, "publish", topic_pattern(path)) for path in ("/", "/traffic", "/traffic/london")
    ]
    wanted = request(SMITH, "publish", topic)
    evidence = gather_evidence(wanted, pool, at=NOON)
    assert len(evidence.chains) == 3
    permit(decide(wanted, evidence, NO_FACTS, NOON))
    assert refusal_from(wanted, pool[:2]).code == "POLICY-RESOURCE-NOT-GRANTED"


# ---------------------------------------------------------------- what a limit leaves out


def narrow(issuer, number, **terms):
    return granted(issuer, SMITH, "subscribe", restriction=f'numberplate == "{number}"', **terms)


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_chains_as_the_limit_add_up_and_one_more_is_told(more):
    wanted = request(SMITH, "subscribe")
    pool = [narrow(PITO, number) for number in range(20 + more)]
    evidence = gather_evidence(wanted, pool, at=NOON, chains_max=20)
    assert (len(evidence.chains), evidence.left_out) == (20, more)
    limit = permit(decide(wanted, evidence, NO_FACTS, NOON)).limit
    told = f"only 20 of at least {20 + more} grants were counted, because of a limit here"
    assert (None if limit is None else limit.sentence) == (told if more else None)


@pytest.mark.parametrize("more", [0, 1])
def test_a_decision_depends_on_as_many_certificates_as_a_message_has_room_for(more):
    """One of the police, and one for each case: 256 in all can be shown to another broker."""
    pool = [TO_MET, *(narrow(MET, number) for number in range(CERTIFICATES_MAX - 1 + more))]
    evidence = gather_evidence(request(SMITH, "subscribe"), pool, at=NOON)
    assert len({one.id for found in evidence.chains for one in found.certificates}) == CERTIFICATES_MAX
    assert evidence.left_out == more
    assert CHAINS_COUNTED <= CERTIFICATES_MAX


@pytest.mark.parametrize(("each", "counted"), [(NODES_MAX // 3 - 2, 3), (NODES_MAX // 3, 2)])
def test_a_view_has_as_many_windows_as_an_executor_compiles(each, counted):
    """What does not fit is left out and told, and does not fail when the first event comes."""
    sets = ([PLATE], [PLACE], [PLATE, PLACE])
    pool = [
        granted(
            PITO,
            SMITH,
            "subscribe",
            attributes=uids,
            restriction=Membership(SPEED, frozenset(range(number, number + each))),
        )
        for number, uids in enumerate(sets)
    ]
    wanted = request(SMITH, "subscribe")
    decision = permit(decide(wanted, gather_evidence(wanted, pool, at=NOON), NO_FACTS, NOON))
    assert len(decision.view.windows) == counted
    checked_view(decision.view)
    assert (decision.limit is None) == (counted == 3)
