"""E7, P3: what a domain's conditions ask for, it states beside its lists, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from itertools import permutations

import pytest

from maia.credentials import FactList, Principal, SignedStatement, StatementOld, Validity
from maia.domain.access.settings import AccessSettings
from maia.events import Instant
from maia.policy import Facts, Permit, Request, decide, gather_evidence
from maia.validity import Monitor
from support.access_control import JONES, POLICY, Station, later, met
from support.policy import MET, NOON, NUMBERPLATE, PITO, SMITH, Action, granted

ON_DUTY = POLICY.replace(
    "fact detective(who: principal)", "fact detective(who: principal)\nfact on_duty(who: principal)"
).replace(
    "grant supervisor(plate)",
    """grant detective_on_duty()
    may subscribe to Numberplate(timestamp)
    provided on-duty == true

grant supervisor(plate)""",
)


def stated(station) -> list[FactList]:
    said = [one.statement for one in station.beat()]
    return [one for one in said if isinstance(one, FactList)]


def test_only_what_a_condition_asks_for_is_stated():
    station = met(policy=ON_DUTY)
    station.assert_fact("on_duty", [SMITH.principal])
    (said,) = stated(station)
    assert dict(said.facts) == {(SMITH.principal, "on-duty"): True}
    assert said.period.contains(NOON)


def test_a_policy_without_such_conditions_states_no_facts():
    assert stated(met()) == []


def test_a_right_holds_at_a_verifier_while_its_holder_is_said_to_be_on_duty():
    station = met(policy=ON_DUTY)
    station.assert_fact("on_duty", [SMITH.principal])
    (issued,) = station.login(SMITH.principal, []).issued
    pool = [granted(PITO, MET, "subscribe", may_delegate=True), issued.certificate]
    verifier = Monitor()

    def decided():
        for one in station.beat():
            verifier.receive(one, station.now)
        request = Request(SMITH.principal, Action.SUBSCRIBE, NUMBERPLATE.name, NUMBERPLATE)
        evidence = gather_evidence(request, pool, at=station.now, standing=verifier)
        facts = Facts(asserted=verifier.facts_about(SMITH.principal, station.now))
        return decide(request, evidence, facts, station.now)

    assert isinstance(decided(), Permit)
    station.retract_fact("on_duty", [SMITH.principal])
    station.now = later(60)  # not told at once, and one period later
    refused = decided()
    assert refused.code == "POLICY-CONDITION-NOT-MET"


# ------------------------------------------------------------ facts that change between two lists


def on_duty(*who, **settings) -> Station:
    """A station that has said of whom it knows that they are on duty."""
    station = met(policy=ON_DUTY, settings=AccessSettings(**settings))
    for one in who:
        station.assert_fact("on_duty", [one.principal])
    assert len(stated(station)) == 1
    return station


def named(said: SignedStatement | None) -> set[Principal]:
    assert said is not None
    assert isinstance(said.statement, FactList)
    return {whom for whom, _ in said.statement.facts}


def heard(*said: SignedStatement, at: Instant) -> Monitor:
    verifier = Monitor()
    for one in said:
        with suppress(StatementOld):
            verifier.receive(one, at)
    return verifier


def test_who_goes_off_duty_is_named_no_more_at_once():
    station = on_duty(SMITH, JONES)
    station.now = later(3)
    gone = station.retract_fact("on_duty", [SMITH.principal])
    assert named(gone.facts) == {JONES.principal}
    assert gone.facts.statement.period.not_before == later(3)


def test_a_roster_that_is_replaced_is_stated_at_once_as_a_whole():
    station = on_duty(SMITH)
    station.now = later(3)
    changed = station.replace_facts("on_duty", [[JONES.principal]])
    assert named(changed.facts) == {JONES.principal}
    assert station.replace_facts("on_duty", [[JONES.principal]]).facts is None


def test_what_no_condition_asks_for_states_nothing():
    station = on_duty(SMITH)
    station.now = later(3)
    assert station.retract_fact("case_assignment", [SMITH.principal, "42"]).facts is None
    assert station.retract_fact("on_duty", [JONES.principal]).facts is None


def test_who_comes_on_duty_is_said_with_the_next_word_and_not_a_period_later():
    station = on_duty(SMITH)
    station.now = later(3)
    assert station.next_due(station.now) > station.now
    station.assert_fact("on_duty", [JONES.principal])
    assert station.next_due(station.now) == station.now
    (said,) = station.beat()
    assert named(said) == {SMITH.principal, JONES.principal}
    assert station.beat() == []


def test_a_new_list_holds_as_long_as_those_that_it_replaces():
    """No moment that was covered is left without a word, and none is covered for longer."""
    station = on_duty(SMITH, JONES, period_s=30, lead_s=10)
    station.now = later(25)
    assert len(stated(station)) == 1  # in advance: the lists reach to the sixtieth second
    gone = station.retract_fact("on_duty", [SMITH.principal])
    assert gone.facts.statement.period == Validity(later(25), Instant(later(60) - 1))
    verifier = heard(*station.current_statements(station.now), at=station.now)
    assert verifier.facts_about(SMITH.principal, later(25)) == {}
    assert verifier.facts_until(JONES.principal, later(25)) == later(60) - 1


def test_a_newcomer_hears_the_new_list_and_not_those_that_it_replaced():
    station = on_duty(SMITH, JONES)
    station.now = later(3)
    gone = station.retract_fact("on_duty", [SMITH.principal])
    told = [one for one in station.current_statements(station.now) if isinstance(one.statement, FactList)]
    assert told == [gone.facts]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_old_lists_that_come_late_bring_nobody_back_on_duty(order):
    """A39: whatever is repeated, and in whatever order it comes."""
    station = met(policy=ON_DUTY)
    station.assert_fact("on_duty", [SMITH.principal])
    said = [one for one in station.beat() if isinstance(one.statement, FactList)]
    for second, acts in ((3, station.retract_fact), (5, station.assert_fact), (7, station.retract_fact)):
        station.now = later(second)
        answer = acts("on_duty", [SMITH.principal])
        said += station.beat() if answer is True else [answer.facts]
    assert len(said) == 4
    verifier = heard(*(said[index] for index in order), at=later(7))
    assert verifier.facts_about(SMITH.principal, later(7)) == {}
    assert verifier.facts_about(SMITH.principal, later(29)) == {}


def test_a_policy_whose_conditions_ask_for_a_fact_has_it_stated_when_it_comes_into_force():
    declared = POLICY.replace("fact detective", "fact on_duty(who: principal)\nfact detective")
    station = met(policy=declared)
    station.beat()
    station.now = later(3)
    station.assert_fact("on_duty", [SMITH.principal])
    assert station.beat() == []
    assert named(station.load_policy(ON_DUTY).revoked.facts) == {SMITH.principal}


def test_a_policy_that_asks_no_more_takes_back_what_was_stated():
    station = on_duty(SMITH)
    station.now = later(3)
    assert named(station.load_policy(POLICY).revoked.facts) == set()
    station.now = later(40)
    assert stated(station) == []


def test_of_more_than_a_list_can_name_nobody_is_said_to_be_on_duty(monkeypatch):
    monkeypatch.setattr("maia.domain.facts.store.FACTS_MAX", 1)
    station = on_duty(SMITH)
    station.now = later(3)
    station.assert_fact("on_duty", [JONES.principal])
    (said,) = station.beat()
    assert named(said) == set()


def test_what_was_said_survives_a_restart():
    station = on_duty(SMITH)
    station.now = later(3)
    again = station.restarted()
    assert again.beat() == []
    again.assert_fact("on_duty", [JONES.principal])
    last = again.restarted()
    (said,) = last.beat()
    assert named(said) == {SMITH.principal, JONES.principal}
    assert said.statement.sequence == 2


def test_a_clock_that_is_set_back_takes_nobody_off_the_list_by_itself():
    station = on_duty(SMITH, JONES)
    station.now = later(9)
    first = station.retract_fact("on_duty", [JONES.principal])
    station.now = later(4)
    second = station.retract_fact("on_duty", [SMITH.principal])
    verifier = heard(first.facts, second.facts, at=later(9))
    assert verifier.facts_about(SMITH.principal, later(9)) == {}
    assert named(second.facts) == set()


# ------------------------------------------------------------ about no principal, and with a value


WORLD = ON_DUTY.replace(
    "fact detective(who: principal)",
    "fact incident\nfact alert(level: int)\nfact clearance(who: principal, level: int)\n"
    "fact detective(who: principal)",
).replace("provided on-duty == true", "provided incident == true and alert >= 2 and clearance >= 3")


def test_a_fact_about_no_principal_is_stated_and_holds_for_all():
    """X9: `fact incident` has no argument, and counts for whoever a condition asks about."""
    station = met(policy=WORLD)
    station.assert_fact("incident", [])
    station.assert_fact("alert", [2])
    station.assert_fact("clearance", [SMITH.principal, 3])
    (said,) = stated(station)
    assert dict(said.facts) == {
        (None, "incident"): True, (None, "alert"): 2, (SMITH.principal, "clearance"): 3
    }  # fmt: skip
    verifier = heard(*station.current_statements(station.now), at=station.now)
    everyone = {"incident": True, "alert": 2}
    assert verifier.facts_about(JONES.principal, NOON) == {MET.principal: everyone}
    assert verifier.facts_about(SMITH.principal, NOON) == {MET.principal: {**everyone, "clearance": 3}}
    gone = station.retract_fact("incident", [])
    assert gone.facts.statement.facts[None, "incident"] is False


def test_of_two_values_of_one_fact_neither_is_stated():
    station = met(policy=WORLD)
    station.assert_fact("alert", [1])
    station.assert_fact("alert", [2])
    (said,) = stated(station)
    assert dict(said.facts) == {(None, "incident"): False}
    assert station.retract_fact("alert", [1]).facts.statement.facts[None, "alert"] == 2
