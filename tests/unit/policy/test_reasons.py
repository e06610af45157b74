"""Do reasons reach the right audience, in both forms?"""

from __future__ import annotations

import pytest

from maia.credentials.certificate import UNBOUNDED
from maia.errors import BadInput
from maia.events import AttributeUid
from maia.policy import Denial, Facts, Reason
from maia.policy.decision import SENTENCE_MAX, Explanation, for_both, for_owner
from maia.predicates.syntax import ALWAYS, Comparison, Not, Operator
from support.policy import NOON

ID = bytes(range(32))
FULL = Reason("validity", "expired", ID, "validity.not_after", AttributeUid("3265"))


def test_a_reason_for_people_says_where_to_look():
    assert FULL.line() == "expired (certificate 000102030405, field validity.not_after, attribute 3265)"
    assert Reason("owner", "the requester owns it").line() == "the requester owns it"


def test_a_reason_for_programs_has_the_whole_id_and_no_empty_field():
    assert FULL.record() == {
        "rule": "validity",
        "sentence": "expired",
        "certificate": ID.hex(),
        "field": "validity.not_after",
        "attribute": "3265",
    }
    assert Reason("owner", "x").record() == {"rule": "owner", "sentence": "x"}


def test_a_denial_that_is_printed_by_accident_keeps_the_owners_reasons():
    denial = Denial("POLICY-NO-CHAIN", for_owner(Reason("restriction", "secret")), UNBOUNDED)
    assert "secret" not in repr(denial)
    assert "secret" not in str(denial.as_refusal())
    assert "secret" not in str(denial.as_refusal().as_record())


def test_a_refusal_carries_the_code_and_the_requesters_reasons():
    refusal = Denial("POLICY-NO-CHAIN", for_both(FULL), UNBOUNDED).as_refusal()
    assert refusal.code == "POLICY-NO-CHAIN"
    assert refusal.as_record()["code"] == "POLICY-NO-CHAIN"
    assert refusal.as_record()["reasons"] == [FULL.record()]
    assert (
        Denial("POLICY-NO-CHAIN", Explanation(), UNBOUNDED).as_refusal().message
        == "the request is not permitted"
    )


def test_a_very_long_sentence_is_cut():
    assert len(Reason("restriction", "x" * 10_000).sentence) == SENTENCE_MAX


ON_DUTY = AttributeUid("on-duty")


def holds(facts, condition):
    return facts.satisfy(condition, of=None, now=NOON)


def test_facts_are_a_copy_and_leave_nulls_out():
    given = {ON_DUTY: True, AttributeUid("ward"): None}
    facts = Facts(given)
    given[ON_DUTY] = False
    assert dict(facts) == {ON_DUTY: True}
    assert len(facts) == 1


def test_an_unknown_condition_does_not_hold_and_neither_does_its_negation():
    """A59: nothing is known, so nothing is granted, however the question is put."""
    on_duty = Comparison(ON_DUTY, Operator.EQ, True)
    assert not holds(Facts(), on_duty)
    assert not holds(Facts(), Not(on_duty))
    assert not holds(Facts({ON_DUTY: 1}), on_duty)
    assert holds(Facts({ON_DUTY: True}), on_duty)
    assert holds(Facts(), ALWAYS)


@pytest.mark.parametrize("bad", [{"Not A Uid": 1}, {"ok": float("nan")}, {"ok": object()}])
def test_a_fact_that_is_no_value_is_refused(bad):
    with pytest.raises(BadInput):
        Facts(bad)
