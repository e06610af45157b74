"""A condition asks the clock, the verifier, or whoever wrote it; nobody else's word counts."""

from __future__ import annotations

import pytest

from maia.events import AttributeUid, Instant
from maia.events.zones import UnknownZone, local_time
from maia.policy import Facts
from maia.policy.facts import check_clock_facts, clock_facts, during, minute_uid, steady_clock, weekday_uid
from maia.predicates.language.parser import format_predicate, parse_predicate
from support.policy import MALLORY, MET, PITO, SMITH, ask, chain, denial, granted, permit

LONDON = "Europe/London"
WEEK = frozenset({1, 2, 3, 4, 5})
WORKING_HOURS = during(LONDON, days=WEEK, start=9 * 60, end=17 * 60)
ON_DUTY = AttributeUid("on-duty")

FRIDAY_NOON = Instant.parse("2026-11-13T12:00:00Z")
SATURDAY_NOON = Instant.parse("2026-11-14T12:00:00Z")


def smith(**terms):
    return [chain(granted(PITO, SMITH, "subscribe", **terms), subject=SMITH)]


def test_a_denial_is_asked_again_when_the_shift_begins():
    night = Instant.parse("2026-11-13T03:00:00Z")
    stable = denial(ask(SMITH, "subscribe", chains=smith(condition=WORKING_HOURS), now=night)).stable
    assert stable.not_after == Instant.parse("2026-11-13T08:59:59.999999Z")


def test_a_night_shift_goes_on_past_midnight():
    friday_night = during(LONDON, days=frozenset({5}), start=22 * 60, end=6 * 60)
    shift = smith(condition=friday_night)
    for moment in ("2026-11-13T23:00:00Z", "2026-11-14T05:59:00Z"):
        permit(ask(SMITH, "subscribe", chains=shift, now=Instant.parse(moment)))
    for moment in ("2026-11-13T05:00:00Z", "2026-11-14T06:00:00Z", "2026-11-14T23:00:00Z"):
        denial(ask(SMITH, "subscribe", chains=shift, now=Instant.parse(moment)))


def test_no_principal_can_assert_another_time():
    """A78: a verifier's own clock decides, whatever it is told."""
    noon = {minute_uid(LONDON): 12 * 60, weekday_uid(LONDON): 5}
    facts = Facts(noon, asserted={PITO.principal: noon})
    denial(ask(SMITH, "subscribe", chains=smith(condition=WORKING_HOURS), facts=facts, now=SATURDAY_NOON))


def test_a_fact_counts_for_the_certificates_of_a_principal_that_asserts_it():
    duty = smith(condition="on-duty = true")
    permit(ask(SMITH, "subscribe", chains=duty, facts=Facts(asserted={PITO.principal: {ON_DUTY: True}})))
    for other in (MET, MALLORY):
        facts = Facts(asserted={other.principal: {ON_DUTY: True}})
        denial(ask(SMITH, "subscribe", chains=duty, facts=facts))


def test_along_a_chain_each_issuer_speaks_for_its_own_condition():
    first = granted(PITO, MET, "subscribe", condition="on-duty = true", may_delegate=True)
    second = granted(MET, SMITH, "subscribe", condition="on-duty = true")
    chains = [chain(first, second, subject=SMITH)]
    pito_alone = Facts(asserted={PITO.principal: {ON_DUTY: True}})
    refused = denial(ask(SMITH, "subscribe", chains=chains, facts=pito_alone))
    assert refused.explanation.owner[0].certificate == second.id
    both = Facts(asserted={PITO.principal: {ON_DUTY: True}, MET.principal: {ON_DUTY: True}})
    permit(ask(SMITH, "subscribe", chains=chains, facts=both))


def test_that_nothing_was_received_of_a_fact_grants_nothing():
    """S17, A59: whoever withholds the word that somebody is suspended does not keep its rights alive."""
    trusted = smith(condition="not exists(suspended)")
    denial(ask(SMITH, "subscribe", chains=trusted))
    denial(ask(SMITH, "subscribe", chains=trusted, facts=Facts(asserted={PITO.principal: {ON_DUTY: True}})))
    either = smith(condition="not exists(suspended) or on-duty = true")
    denial(ask(SMITH, "subscribe", chains=either, facts=Facts({ON_DUTY: True})))


def test_what_the_verifier_knows_by_itself_is_not_overruled():
    rate = AttributeUid("rate-minute")
    slow = smith(condition="rate-minute <= 10")
    facts = Facts({rate: 11}, asserted={PITO.principal: {rate: 0}})
    denial(ask(SMITH, "subscribe", chains=slow, facts=facts))


def test_a_zone_that_does_not_exist_is_refused_when_it_is_written_and_grants_nothing_when_it_is_read():
    nowhere = parse_predicate("time-minute-middle-earth >= 0")
    with pytest.raises(UnknownZone):
        check_clock_facts(nowhere)
    with pytest.raises(UnknownZone):
        minute_uid("../../etc/passwd")
    denial(ask(SMITH, "subscribe", chains=smith(condition=nowhere), now=FRIDAY_NOON))


def test_a_condition_about_time_is_written_and_read_back():
    assert parse_predicate(format_predicate(WORKING_HOURS)) == WORKING_HOURS
    check_clock_facts(WORKING_HOURS)


def test_where_the_calendar_ends_nothing_is_known():
    last = Instant.parse("9999-12-31T23:59:59Z")
    assert local_time(last, "Pacific/Kiritimati") is None
    assert clock_facts(parse_predicate("time-minute-pacific-kiritimati >= 0"), last) == {}
    steady_clock(parse_predicate("time-minute-utc >= 0"), last)
