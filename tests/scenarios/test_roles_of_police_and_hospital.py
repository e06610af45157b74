"""Examples of Bacon et al. (2008): roles of a nation's police (2.3, 5.1), doctors and patients (3.2, 7.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.credentials import Action, TypeName
from maia.events import Instant
from maia.predicates.language.parser import format_predicate
from maia.roles import activate, ended_memberships, fact_support, parse_policy, rights
from maia.types import TypeDefinition, sign_definition, verify_definition
from support.known_world import KnownWorld, activate_all
from support.roles import DAY, HOUR, JONES, SMITH, appointment, key, later
from support.types import NOON, PITO, attribute

POLICIES = Path(__file__).parents[2] / "examples" / "policies"
COLLEGE, CAMBRIDGE, COUNCIL, HOSPITAL = key(3), key(31), key(2), key(32)

NATIONAL = parse_policy(
    (POLICIES / "national-police.policy").read_text(), origin="national", domain=COLLEGE.principal
)
CAMBRIDGE_POLICY = """
policy "Cambridge police"
import national
type Burglary = uk.police.Burglary
role custody_officer(number: int)
rule custody_officer(number)
    while sergeant("cambridge", number)
    while officer_on_duty("Parkside", number)
also grant officer_on_duty(station, _)
    may subscribe Burglary(station, street)
    where station == $station
end
"""


def event_type(name: str, **uids: str):
    attributes = tuple(attribute(label, uid) for label, uid in uids.items())
    definition = TypeDefinition(TypeName(PITO.principal, name, "0"), None, attributes)
    return verify_definition(sign_definition(definition, PITO), at=NOON)


BURGLARY = event_type("uk.police.Burglary", station="1", street="2", victim="3")
POLICE = parse_policy(
    CAMBRIDGE_POLICY,
    origin="cambridge",
    domain=CAMBRIDGE.principal,
    parents={"national": NATIONAL},
    types={"uk.police.Burglary": BURGLARY},
)
ON_DUTY = {"roster": [(SMITH.principal, "Parkside"), (JONES.principal, "Histon")]}
SHOWN = [
    appointment(CAMBRIDGE, SMITH, "employee", "cambridge", 1234),
    appointment(COLLEGE, SMITH, "rank", "sergeant"),
    appointment(CAMBRIDGE, JONES, "employee", "cambridge", 99),
]


def roles_of(members) -> set:
    return {(member.role, *member.arguments) for member in members}


def test_roles_with_parameters_say_who_and_where():
    world = KnownWorld(ON_DUTY, SHOWN)
    assert roles_of(activate_all(POLICE, world, SMITH.principal, NOON)) == {
        ("constable", "cambridge", 1234),
        ("sergeant", "cambridge", 1234),
        ("officer_on_duty", "Parkside", 1234),
        ("custody_officer", 1234),
    }
    assert roles_of(activate_all(POLICE, world, JONES.principal, NOON)) == {
        ("constable", "cambridge", 99),
        ("officer_on_duty", "Histon", 99),
    }


def test_an_officer_receives_of_burglaries_at_her_own_station():
    world = KnownWorld(ON_DUTY, SHOWN)
    (member,) = [
        one for one in activate_all(POLICE, world, JONES.principal, NOON) if one.role == "officer_on_duty"
    ]
    (right,) = rights(POLICE, member, world, NOON)
    assert format_predicate(right.authority.restriction) == '1 == "Histon"'
    assert right.authority.attributes == {"1", "2"}


def test_a_client_that_is_taken_off_the_roster_is_off_duty_and_keeps_her_rank():
    world = KnownWorld(ON_DUTY, SHOWN)
    members = activate_all(POLICE, world, SMITH.principal, NOON)
    down = ended_memberships(members, lost={fact_support("roster", [SMITH.principal, "Parkside"])})
    assert [found.membership.role for found in down] == ["officer_on_duty", "custody_officer"]


# ----------------------------------------------------------------------------------------- the hospital

PRESCRIBE = event_type("nhs.Prescribe", doctor="1", patient="2", drug="3")
ALARM = event_type("nhs.Alarm", patient="2", ward="4")
CLINIC = parse_policy(
    (POLICIES / "county-hospital.policy").read_text(),
    origin="hospital",
    domain=HOSPITAL.principal,
    types={"Prescribe": PRESCRIBE, "Alarm": ALARM},
)
DOCTOR, PATIENT = SMITH, JONES
LICENSED = [
    appointment(COUNCIL, DOCTOR, "licence", "surgery"),
    appointment(HOSPITAL, DOCTOR, "employee", "D1"),
]
RECORDS = {
    "registered": [("D1", "P7"), ("D1", "P8"), ("D2", "P9")],
    "patient": [(PATIENT.principal, "P7"), (DOCTOR.principal, "P8")],
    "in_building": [(DOCTOR.principal,)],
}


def test_a_doctor_treats_her_own_patients_and_never_herself():
    members = activate_all(CLINIC, KnownWorld(RECORDS, LICENSED), DOCTOR.principal, NOON)
    assert roles_of(members) == {("doctor", "D1"), ("treating_doctor", "D1", "P7")}


def test_she_prescribes_in_her_own_name_for_the_patients_she_treats():
    world = KnownWorld(RECORDS, LICENSED)
    members = activate_all(CLINIC, world, DOCTOR.principal, NOON)
    (right,) = [right for member in members for right in rights(CLINIC, member, world, NOON)]
    assert right.authority.actions == {Action.PUBLISH, Action.SUBSCRIBE}
    assert format_predicate(right.authority.restriction) == '1 == "D1" and 2 == "P7"'


def test_leaving_the_building_ends_nothing_that_was_only_asked_on_the_way_in():
    members = activate_all(CLINIC, KnownWorld(RECORDS, LICENSED), DOCTOR.principal, NOON)
    assert ended_memberships(members, lost={fact_support("in_building", [DOCTOR.principal])}) == ()
    down = ended_memberships(members, lost={fact_support("registered", ["D1", "P7"])})
    assert [found.membership.role for found in down] == ["treating_doctor"]


def test_losing_the_licence_ends_every_role_that_depends_on_it():
    members = activate_all(CLINIC, KnownWorld(RECORDS, LICENSED), DOCTOR.principal, NOON)
    down = ended_memberships(members, lost={members[0].depends_on[0].support})
    assert {found.membership.role for found in down} == {"doctor", "treating_doctor"}


@pytest.mark.parametrize(
    ("at", "until"),
    [
        (NOON, None),
        (later(hours=9), "2026-11-16T07:59:59Z"),
        (Instant(NOON + DAY - 5 * HOUR), "2026-11-16T07:59:59Z"),
    ],
)
def test_the_night_ends_in_the_morning(at, until):
    world = KnownWorld(RECORDS, LICENSED)
    doctor = activate(CLINIC, world, DOCTOR.principal, "doctor", None, later(hours=8))
    awake = KnownWorld(RECORDS, LICENSED, doctor)
    night = activate(CLINIC, awake, DOCTOR.principal, "night_doctor", None, at)
    assert [str(member.until) for member in night] == ([] if until is None else [until])
    for member in night:
        (right,) = rights(CLINIC, member, awake, at)
        assert "time-minute-europe-london" in format_predicate(right.authority.condition)
