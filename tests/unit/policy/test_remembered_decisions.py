"""Does the cache answer as `decide` does, and never longer than it may?"""

from __future__ import annotations

import pytest

from maia.credentials.validity import Validity
from maia.events import AttributeUid
from maia.policy import NO_EVIDENCE, NO_FACTS, DecisionCache, Evidence, Facts, decide, see
from support.policy import MET, NOON, PITO, SMITH, chain, denial, granted, later, permit, request

ON_DUTY = AttributeUid("on-duty")
HOUR = Validity(NOON, later(3600))


def evidence_of(**terms) -> Evidence:
    terms = {"validity": HOUR} | terms
    return Evidence((chain(granted(PITO, SMITH, "subscribe", **terms), subject=SMITH),))


@pytest.fixture
def cache() -> DecisionCache:
    return DecisionCache()


def test_the_same_question_gets_the_very_same_answer(cache):
    evidence = evidence_of()
    first = cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, NOON)
    assert cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, later(1800)) is first
    assert first == decide(request(SMITH, "subscribe"), evidence, NO_FACTS, NOON)


def test_a_permit_does_not_outlive_its_certificates(cache):
    evidence = evidence_of()
    permit(cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, NOON))
    permit(cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, HOUR.not_after))
    refused = denial(cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, later(3601)))
    assert refused.code == "POLICY-EXPIRED"


def test_a_permit_is_not_used_before_it_begins(cache):
    """A clock that steps back finds no remembered answer from the future."""
    evidence = evidence_of()
    permit(cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, NOON))
    assert denial(cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, later(-1)))


def test_a_denial_ends_when_a_certificate_begins(cache):
    evidence = evidence_of()
    denial(cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, later(-1)))
    permit(cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, NOON))


def test_other_evidence_is_another_question(cache):
    evidence = evidence_of()
    permit(cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, NOON))
    assert denial(cache.decide(request(SMITH, "subscribe"), NO_EVIDENCE, NO_FACTS, NOON))
    permit(cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, NOON))


def test_narrower_evidence_narrows_the_next_answer(cache):
    wide, narrow = evidence_of(), evidence_of(attributes="timestamp")
    event = {AttributeUid("3265"): "AE05 XYZ", AttributeUid("9058"): NOON}
    assert see(permit(cache.decide(request(SMITH, "subscribe"), wide, NO_FACTS, NOON)).view, event) == event
    view = permit(cache.decide(request(SMITH, "subscribe"), narrow, NO_FACTS, NOON)).view
    assert see(view, event) == {AttributeUid("9058"): NOON}


def test_other_facts_are_another_question_where_a_condition_asks_for_them(cache):
    evidence = evidence_of(condition="on-duty = true")
    on, off = Facts({ON_DUTY: True}), Facts({ON_DUTY: False})
    permit(cache.decide(request(SMITH, "subscribe"), evidence, on, NOON))
    denial(cache.decide(request(SMITH, "subscribe"), evidence, off, NOON))
    permit(cache.decide(request(SMITH, "subscribe"), evidence, on, NOON))


def test_facts_that_no_condition_asks_for_cost_nothing(cache):
    evidence = evidence_of()
    first = cache.decide(request(SMITH, "subscribe"), evidence, Facts(), NOON)
    assert cache.decide(request(SMITH, "subscribe"), evidence, Facts({ON_DUTY: True}), NOON) is first


def test_every_part_of_a_request_counts(cache):
    evidence = evidence_of()
    permit(cache.decide(request(SMITH, "subscribe"), evidence, NO_FACTS, NOON))
    denial(cache.decide(request(SMITH, "publish"), evidence, NO_FACTS, NOON))
    denial(cache.decide(request(MET, "subscribe"), evidence, NO_FACTS, NOON))
    narrow = permit(
        cache.decide(request(SMITH, "subscribe", filter="exists(location)"), evidence, NO_FACTS, NOON)
    )
    assert see(narrow.view, {AttributeUid("9058"): NOON}) is None


def test_the_cache_forgets_the_oldest_answer_first():
    cache = DecisionCache(decisions_max=2)
    evidence = evidence_of()
    filters = [f'location = "{place}"' for place in ("A", "B", "C")]
    first = cache.decide(request(SMITH, "subscribe", filter=filters[0]), evidence, NO_FACTS, NOON)
    for words in filters[1:]:
        cache.decide(request(SMITH, "subscribe", filter=words), evidence, NO_FACTS, NOON)
    assert len(cache) == 2
    again = cache.decide(request(SMITH, "subscribe", filter=filters[0]), evidence, NO_FACTS, NOON)
    assert again == first
    assert again is not first


def test_two_requests_with_one_hash_are_still_two_requests(cache):
    """A76: a collision costs a decision made anew and never mixes two answers up."""
    evidence = evidence_of()
    one, other = request(SMITH, "subscribe"), request(MET, "subscribe")
    object.__setattr__(other, "fingerprint", one.fingerprint)
    for _ in range(2):
        permit(cache.decide(one, evidence, NO_FACTS, NOON))
        denial(cache.decide(other, evidence, NO_FACTS, NOON))
