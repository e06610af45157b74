"""A domain's server hands transformed and restricted rights out at login, and ends them with the policy."""

from __future__ import annotations

import pytest

from maia.credentials import SigningKey
from maia.policy import Permit, see
from maia.roles.statements import BadPolicy
from maia.types import from_transit, to_transit, verify_definition
from support.access_control import Station, broker, later, verdict
from support.homecare import CARER, DEFINITIONS, DOCTOR, HOSPITAL, POLICY, PRESCRIBE
from support.policy import NOON

PRESCRIBED = verify_definition(PRESCRIBE, at=NOON, previous=None)
MORE = POLICY.replace("first(place, 2)", "first(place, 1)")


@pytest.fixture
def hospital() -> Station:
    station = Station(HOSPITAL)
    for definition in DEFINITIONS:
        station.register_type(definition)
    station.load_policy(POLICY)
    station.assert_fact("works_as", [CARER.principal, "carer"])
    station.assert_fact("licensed", [DOCTOR.principal, "Grey"])
    for patient in ("Ann", "Bob"):
        station.assert_fact("treats", ["Grey", patient])
    return station


def shown(station: Station, who: SigningKey, wallet, **values: object) -> dict[str, object] | None:
    """Return what a broker shows to the holder of a wallet of a prescription; None for nothing."""
    standing = broker(station.now, station)
    decision = verdict(who.principal, wallet.chains, standing, station.now, PRESCRIBED)
    if not isinstance(decision, Permit):
        return None
    found = see(decision.view, to_transit(values, PRESCRIBED))
    return None if found is None else dict(from_transit(found, PRESCRIBED))


def place(station: Station, wallet) -> object:
    seen = shown(station, CARER, wallet, patient="Ann", place="CB3 0FD", emergency=False)
    return None if seen is None else seen["place"]


def test_a_changed_transformation_ends_the_rights_that_it_was_in(hospital: Station) -> None:
    wallet = hospital.login(CARER.principal, [])
    assert place(hospital, wallet) == "CB"
    hospital.now = later(5)
    # A42: a broken text changes nothing, and the right goes on as it was.
    with pytest.raises(BadPolicy):
        hospital.load_policy(POLICY.replace("first(place, 2)", "frist(place, 2)"))
    assert place(hospital, wallet) == "CB"
    hospital.load_policy(MORE)
    assert place(hospital, wallet) is None
    assert place(hospital, hospital.login(CARER.principal, [])) == "C"


def test_a_doctor_sees_the_patients_that_she_treats_for_as_long_as_she_does(hospital: Station) -> None:
    wallet = hospital.login(DOCTOR.principal, [])
    sees = {who: shown(hospital, DOCTOR, wallet, patient=who) is not None for who in ("Ann", "Bob", "Cas")}
    assert sees == {"Ann": True, "Bob": True, "Cas": False}
    hospital.now = later(5)
    hospital.retract_fact("treats", ["Grey", "Bob"])
    sees = {who: shown(hospital, DOCTOR, wallet, patient=who) is not None for who in ("Ann", "Bob", "Cas")}
    assert sees == {"Ann": True, "Bob": False, "Cas": False}
