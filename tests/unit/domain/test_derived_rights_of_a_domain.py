"""A domain's server hands out rights that transform on publication, and rights to summaries, at login."""

from __future__ import annotations

from maia.credentials import Action, SigningKey, TypeName
from maia.policy import NO_FACTS, Permit, Request, View, decide, gather_evidence, shape
from maia.policy.view import split
from maia.types import from_transit, to_transit, verify_definition
from support import air_quality as city
from support.access_control import Station, broker, later
from support.policy import NOON

TYPES = {one.definition.name: verify_definition(one, at=NOON, previous=None) for one in city.DEFINITIONS}
READING, SIGHTING, PASSING = (one.definition.name for one in (city.READING, city.SIGHTING, city.PASSING))


def view(station: Station, who: SigningKey, wallet, name: TypeName, action: Action) -> View | None:
    request = Request(who.principal, action, name, TYPES[name])
    standing = broker(station.now, station)
    evidence = gather_evidence(request, tuple(wallet.chains), at=station.now, standing=standing)
    decision = decide(request, evidence, NO_FACTS, station.now)
    return decision.view if isinstance(decision, Permit) else None


def test_a_changed_derivation_ends_the_rights_that_it_was_in() -> None:
    station = Station(city.CITY)
    for definition in city.DEFINITIONS:
        station.register_type(definition)
    station.load_policy(city.POLICY)
    members = {"sensor": city.SENSOR, "camera": city.CAMERA, "public": city.PUBLIC}
    for what, who in members.items():
        station.assert_fact("works_as", [who.principal, what])
    wallets = {what: station.login(who.principal, []) for what, who in members.items()}

    def rights() -> list[View | None]:
        asked = (
            ("sensor", READING, Action.PUBLISH),
            ("camera", PASSING, Action.PUBLISH),
            ("public", READING, Action.SUBSCRIBE),
        )
        return [view(station, members[what], wallets[what], *which) for what, *which in asked]

    writing, converting, seeing = rights()
    assert writing is not None
    assert converting is not None
    assert seeing is not None
    exact = to_transit({"sensor": "s1", "place": "CB3 0FD", "level": 12.4}, TYPES[READING])
    assert from_transit(shape(writing, exact, city.SECRETS), TYPES[READING])["place"] == "CB3"
    seen = to_transit({"plate": "AE05 XYZ", "place": "CB3 0FD", "speed": 30}, TYPES[SIGHTING])
    assert from_transit(shape(converting, seen, city.SECRETS), TYPES[PASSING])["area"] == "CB3"
    assert (split(seeing).summary.at_least, split(seeing).summary.late_s) == (2, 4)
    # The right is on what is published: the camera has none on what it writes.
    assert view(station, city.CAMERA, wallets["camera"], SIGHTING, Action.PUBLISH) is None

    station.now = later(5)
    changed = city.POLICY.replace("at least 2", "at least 5").replace("first(place, 3)", "first(place, 2)")
    station.load_policy(changed)
    assert rights() == [None, None, None]
    wallets = {what: station.login(who.principal, []) for what, who in members.items()}
    again = rights()[2]
    assert again is not None
    assert split(again).summary.at_least == 5
