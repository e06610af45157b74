"""A policy asks for role certificates of its own domain: what asked for one falls with its role."""

from __future__ import annotations

import pytest

from support.access_control import MET, POLICY, SMITH, Station, check_consistent, court, met, order, told

OWN = POLICY.replace(
    "role supervisor(plate: string)\n",
    "role supervisor(plate: string)\n"
    f"key ourselves = {MET.principal}\n"
    "role certified(plate: string) of ourselves named np_tracker\n"
    "role auditor(plate: string)\n"
    "rule auditor(plate)\n    while certified(plate)\n    until certified ends\n",
)


def at_work() -> tuple[Station, bytes]:
    """Smith tracks a plate, and audits because a certificate says that she does."""
    courts, station = court(), met(policy=OWN)
    told(station, courts)
    first = station.login(SMITH.principal, [order(courts, SMITH, "42", "A")])
    (tracker,) = (one for one in first.memberships if one.membership.role == "np_tracker")
    second = station.login(SMITH.principal, [tracker.certificate])
    assert "auditor" in {one.membership.role for one in second.memberships}
    return station, tracker.membership.id


@pytest.mark.parametrize("how", ["fact", "membership"])
def test_what_asked_for_the_certificate_falls_with_the_role(how: str) -> None:
    """A40: the cascade goes through certificates that the domain has signed itself."""
    station, tracker = at_work()
    if how == "fact":
        gone = station.retract_fact("detective", [SMITH.principal])
    else:
        gone = station.deactivate(tracker, "off the case")
    assert {one.role for one in gone.memberships} >= {"np_tracker", "supervisor", "auditor"}
    check_consistent(station)
