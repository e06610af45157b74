"""What a rule or grant says is its identity: every word of it counts, and nothing else does."""

from __future__ import annotations

import pytest

from maia.credentials.appointments import AppointmentKind
from maia.roles import activate
from support.known_world import KnownWorld
from support.roles import COURT, HIGH_COURT, JONES, SMITH, appointment, later, policy
from support.types import NOON

BODY = """
appointment order(case: string, plate: string) by court
fact detective(who: principal)
fact level(who: principal, level: int)
fact on_duty(who: principal)
role officer
role tracker(plate: string)
rule officer
    for 1 day
rule tracker(plate)
    while order(case, plate)
    while officer
    given detective(holder)
    given level(other, n)
    given order(case, _) held by other
    while between 09:00 and 17:00 on monday in Europe/London
    if n >= 3
    for 8 hours
grant tracker(plate)
    given detective(holder)
    may subscribe Numberplate(numberplate, location)
    where numberplate == $plate
    provided on-duty == true
    for 8 hours
    checked by crl
"""


def ids(body: str) -> tuple[str, str]:
    """Return the ids of the rule and the grant about trackers."""
    read = policy(body)
    return read.rules["tracker"][0].id, read.grants["tracker"][0].id


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("while order(case, plate)", "given order(case, plate)"),
        ("while officer\n", "while officer held by other\n"),
        ("given level(other, n)", "while level(other, n)"),
        ("order(case, _) held by other", 'order(case, "x") held by other'),
        ("between 09:00", "between 08:00"),
        ("and 17:00", "and 18:00"),
        ("on monday", "on tuesday"),
        ("Europe/London", "Europe/Paris"),
        ("n >= 3", "n >= 2"),
        ("    if n >= 3\n", "    if n >= 3\n    ask plate\n"),
        ("if n >= 3\n    for 8 hours", "if n >= 3\n    for 9 hours"),
        ("if n >= 3\n    for 8 hours", "if n >= 3\n    for 8 hours\n    until revoked"),
        ("if n >= 3\n    for 8 hours", "if n >= 3\n    for 8 hours\n    until order ends"),
        (
            "order(case: string, plate: string) by court",
            "order(case: string, plate: string) by court named warrant",
        ),
        ("appointment order(case: string, plate: string) by", "role order(case: string, plate: string) of"),
    ],
)
def test_a_rule_that_says_something_else_is_another_rule(old, new):
    assert old in BODY
    assert ids(BODY.replace(old, new, 1))[0] != ids(BODY)[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    given detective(holder)\n    may", "    while detective(holder)\n    may"),
        ("    given detective(holder)\n    may", "    may"),
        ("may subscribe", "may publish"),
        ("(numberplate, location)", "(numberplate)"),
        ("(numberplate, location)", "(*)"),
        ("numberplate == $plate", "numberplate != $plate"),
        ("numberplate == $plate", "location == $plate"),
        ("    provided on-duty == true\n", ""),
        ("on-duty == true", "on-duty != false"),
        ("provided on-duty == true", "provided on sunday in Europe/London"),
        ("checked by crl", "checked by one-time"),
        ("checked by crl", "checked by dates"),
        ("checked by crl", "checked by crl\n    may delegate"),
        ("true\n    for 8 hours", "true\n    for 9 hours"),
    ],
)
def test_a_grant_that_says_something_else_is_another_grant(old, new):
    assert old in BODY
    changed = BODY[: BODY.index("grant")] + BODY[BODY.index("grant") :].replace(old, new, 1)
    assert changed != BODY
    assert ids(changed)[1] != ids(BODY)[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("by court", "by court, high_court"),
        ("while order(case, plate)", "while   order( case,plate )  # so"),
        ("fact level", "# more\nfact nobody()\nfact level"),
        ("(numberplate, location)", "(location, numberplate)"),
        ("checked by crl", "checked by crl, crl"),
    ],
)
def test_what_does_not_change_the_meaning_changes_nothing(old, new):
    assert ids(BODY.replace(old, new, 1)) == ids(BODY)


class CarelessWorld(KnownWorld):
    """A world that hands over whatever it has, whatever was asked."""

    def matching(self, fact, arguments):
        yield from (row for rows in self.facts.values() for row in rows)

    def appointments(self, called, *, kind, holder):
        yield from self.certificates

    def memberships(self, role, *, holder):
        yield from self.active


def test_a_careless_world_opens_nothing():
    """The engine compares everything itself: kind, name, issuer, holder, parameters, time."""
    checked = policy(
        "appointment order(p: string) by court\nfact f(x: string)\nrole other\nrole low\nrole r(p: string)\n"
        "rule low\n    for 1 hour\nrule other\n    for 1 day\n"
        'rule r("certificate")\n    while order("x")\nrule r("role")\n    while low\n'
        'rule r("fact")\n    given f("x")\n    for 1 day\n'
    )
    wrong = [
        appointment(COURT, SMITH, "order", "x", kind=AppointmentKind.ROLE_MEMBERSHIP),
        appointment(COURT, SMITH, "oder", "x"),
        appointment(HIGH_COURT, SMITH, "order", "x"),
        appointment(COURT, JONES, "order", "x"),
        appointment(COURT, SMITH, "order", "y"),
        appointment(COURT, SMITH, "order", "x", "x"),
        appointment(COURT, SMITH, "order", "x", begins=later(hours=3)),
        appointment(COURT, SMITH, "order", "x", ends=later(hours=1)),
    ]
    roles = [
        *activate(checked, KnownWorld(), SMITH.principal, "low", None, NOON),
        *activate(checked, KnownWorld(), SMITH.principal, "low", None, later(hours=3)),
        *activate(checked, KnownWorld(), JONES.principal, "low", None, later(hours=2)),
        *activate(checked, KnownWorld(), SMITH.principal, "other", None, later(hours=2)),
    ]
    world = CarelessWorld({"g": [("y",), ("x", "x"), (1,)]}, wrong, roles)
    assert activate(checked, world, SMITH.principal, "r", None, later(hours=2)) == ()


def test_the_hours_in_a_grant_count_too():
    sundays = BODY.replace("provided on-duty == true", "provided on sunday in Europe/London")
    assert ids(sundays)[1] != ids(sundays.replace("sunday", "saturday"))[1]
    assert ids(sundays)[1] != ids(sundays.replace("sunday in Europe/London", "sunday in Europe/Paris"))[1]
