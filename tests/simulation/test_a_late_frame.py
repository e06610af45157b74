"""A frame that was held up and comes after a later one is not shown: order per publisher is kept."""

from __future__ import annotations

from maia.client.entries import EntryStage
from maia.routing.overlay.table import closeness, node_id_of_key, node_id_of_type
from maia.testing.simulation import Weather
from maia.wire.columns import frame_label
from maia.wire.effects import Close
from support.city import City, Office, delivered_to
from support.seeds import with_seeds

HELD_UP_S = 60


def move_on(city: City, office: Office) -> None:
    """Let an office lose its broker and go to the next one."""
    link = office.client.session.link
    city.network.act(office.name, lambda _now: [Close(link, "TEST")])
    city.network.run_until(lambda: office.client.session.link not in (None, link), at_most=20)
    city.network.run_until(lambda: office.entry.stage is EntryStage.ACCEPTED, at_most=5)
    city.network.run_for(1)


def rendezvous(city: City) -> int:
    """Return the number of the broker at which the type's interests and offers meet."""
    point = node_id_of_type(city.cast.type_id)
    stands = [node_id_of_key(city.key(name).principal.key) for name in city.brokers]
    return min(range(len(stands)), key=lambda number: closeness(stands[number], point))


@with_seeds(2)
def test_a_frame_that_was_held_up_on_its_way_is_not_shown_after_a_later_one(seed):
    """G2: the first frame is on a slow line when the office moves, receives the second, and moves back."""
    city = City(seed, brokers=3, lease_s=600)
    far, near = (1, 2) if rendezvous(city) == 2 else (2, 1)
    camera = city.camera("camera", "Soho", via=[0])
    office = city.office("office", via=[far, near])
    city.settle()
    overheard = delivered_to(city, office)
    for number in (0, near):
        slow = Weather(least_s=HELD_UP_S)
        city.network.set_weather(slow, between=(city.brokers[number], city.brokers[far]))
    city.sees(camera)
    city.network.run_for(1)
    move_on(city, office)
    (second,) = city.sees(camera)
    city.network.run_for(1)
    assert office.seen == [second]
    move_on(city, office)
    city.network.run_for(2 * HELD_UP_S)
    key, stream = city.key(camera.name).principal.key, camera.entry.stream
    late = [frame_label(key, stream, number) for number in (1, 0)]
    assert overheard[:2] == late  # the first one came, and came too late
    assert office.seen == [second]
