"""An accepted publisher reaches every accepted subscriber: its first event too, at whichever broker.

Offices and cameras come one after the other, at brokers that the seed chooses. A camera publishes in the
moment in which it is accepted, and again whenever an office or another camera is.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from maia.client import Delivered, Ended, known_version
from maia.client.entries import EntryStage
from maia.events import Attribute, Kind
from maia.testing.simulation import BEGINNING, Weather
from maia.types import sign_definition
from support.city import PLACES, City, SealedCity, mesh_city
from support.seeds import with_seeds


@pytest.mark.parametrize("city_of", [City, mesh_city, SealedCity], ids=["rendezvous", "mesh", "sealed"])
@with_seeds(2)
def test_an_event_reaches_every_subscriber_that_was_accepted_before_it(city_of, seed):
    """B3: a broker accepts when the others know, so one event of a program that leaves is delivered."""
    city = city_of(seed, brokers=6)
    network, chance = city.network, city.chance
    network.set_weather(Weather(spread_s=0.02, gust_chance=0.1))
    network.run_for(60)
    owed: list[tuple[object, int]] = []

    def publish() -> None:
        for camera in city.cameras:
            if camera.stands:
                moments = city.sees(camera, 2)
                owed.extend(
                    (office, one) for office in city.offices if office.stands
                    for one in city.expected(office, moments)
                )  # fmt: skip

    for number in range(8):
        via = [chance.randrange(6)]
        if number % 3 == 1:
            new = city.camera(f"camera {number}", chance.choice(PLACES), via=via)
        else:
            wanted = chance.choice([city.near(PLACES[0]), city.near(PLACES[1]), None])
            new = city.office(f"office {number}", via=via, **({} if wanted is None else {"wanted": wanted}))
        network.run_until(lambda new=new: new.stands, at_most=60)
        publish()
        network.run_for(chance.choice([0, 0, 0.01, 0.3]))
        publish()
    network.run_for(10)
    lost = [(office.name, city.events[one][0].name) for office, one in owed if one not in office.seen]
    assert owed
    assert not lost, f"{len(lost)} of {len(owed)} were lost: {sorted(set(lost))}"


def test_the_first_event_with_a_new_attribute_of_a_sealed_type_waits_for_its_key():
    """K8: the key server makes a group when a version is first named; the publisher does not notice."""
    city = SealedCity(1, brokers=3)
    publisher, reader = (city.camera("camera", "Soho", via=[0]), city.office("office", via=[1]))
    city.settle()
    before, seen, ended = city.cast.definition, [], []
    name = replace(before.definition.name, version=str(UUID(int=5)))
    attributes = (*before.definition.attributes, Attribute("colour", "colour", Kind.STRING))
    newer = replace(before.definition, name=name, previous="0", attributes=attributes)
    known = known_version([before, sign_definition(newer, city.cast.keys["PITO"])], at=BEGINNING)
    reader.client.on_notice = lambda notice: seen.append(notice) if isinstance(notice, Delivered) else None
    publisher.client.on_notice = lambda notice: ended.append(notice) if isinstance(notice, Ended) else None
    offer = publisher.client.advertise(known)
    city.network.run_until(lambda: offer.stage is EntryStage.ACCEPTED, at_most=10)
    publisher.client.publish(offer, [{**city.sighting(), "colour": "red"}])
    wanted = reader.client.subscribe(known)
    city.network.run_for(20)
    publisher.client.publish(offer, [{**city.sighting(), "colour": "blue"}])
    city.network.run_for(5)
    assert not ended
    first_reader, second_reader = ([row for one in seen if ref in one.refs for row in one.frame.events()]
                                   for ref in (reader.entry.ref, wanted.ref))  # fmt: skip
    assert len(first_reader) == 2, "the version before shows both, without the new attribute"
    assert [row["colour"] for row in second_reader][-1] == "blue"
