"""E7, P3: what a domain's conditions ask for, it states beside its lists, and nothing else."""

from __future__ import annotations

from maia.credentials import FactList, Standing
from maia.policy import Facts, Permit, Request, decide, gather_evidence
from support.access_control import POLICY, later, met
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
    verifier = Standing()

    def decided():
        for one in station.beat():
            verifier.hear(one, station.now)
        request = Request(SMITH.principal, Action.SUBSCRIBE, NUMBERPLATE.name, NUMBERPLATE)
        evidence = gather_evidence(request, pool, at=station.now, standing=verifier)
        facts = Facts(asserted=verifier.facts_about(SMITH.principal, station.now))
        return decide(request, evidence, facts, station.now)

    assert isinstance(decided(), Permit)
    station.retract_fact("on_duty", [SMITH.principal])
    station.now = later(60)  # one period later
    refused = decided()
    assert refused.code == "POLICY-CONDITION-NOT-MET"
