"""Routers of a mesh in trouble: what arrives is what flooding everything and filtering would show.

The reference is the city's own: every event goes to every office, and `decide` and `see` say what
it may see of it (`support/simulated_city.py`). A delivery that is not in it, or comes twice, is a violation.
"""

from __future__ import annotations

import pytest

from support.mesh_city import MeshCity
from support.seeds import with_seeds
from support.simulated_city import LEASE_S

RING = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]


@with_seeds(2)
def test_a_mesh_in_trouble_shows_no_more_and_when_it_is_calm_no_less(seed):
    """B5, A83: crashes, partitions, wrong clocks and sleep; then every office hears all it may."""
    city = MeshCity(seed, brokers=6)
    city.populate()
    city.settle()
    city.probe()
    chance, network = city.chance, city.network
    for _ in range(4):
        router = chance.choice(city.brokers)
        match chance.choice(["crash", "partition", "clock", "sleep"]):
            case "crash":
                network.crash(router, dark=chance.random() < 0.3)
                publish_for(city, 4)
                network.restart(router)
            case "partition":
                network.partition(chance.sample(city.brokers, 3))
                publish_for(city, chance.randrange(20))
                network.heal()
            case "clock":
                network.set_clock(router, skew_s=chance.choice([-20, 20, -5, 5]))
            case "sleep":
                network.put_to_sleep(router)
                network.run_for(chance.random() * 20)
                network.wake_up(router)
        publish_for(city, 2)
    for router in city.brokers:
        network.set_clock(router, skew_s=0)
    network.run_for(3 * LEASE_S + 60)
    city.settle()
    city.probe()


def publish_for(city, seconds):
    for _ in range(seconds):
        for camera in city.cameras:
            city.sees(camera)
        city.network.run_for(1)


@pytest.mark.parametrize("dark", [False, True], ids=["killed", "without a trace"])
def test_a_way_heals_within_a_lease(dark):
    """B5: in a ring, whichever neighbour led to the office, the other one does once that is silent."""
    city = MeshCity(3, brokers=5, edges=RING)
    city.camera("camera", "Victoria", via=[0])
    office = city.office("archive", via=[2])
    city.settle()
    city.probe()
    mesh = city.network.broker(city.brokers[0]).status(city.network.now)["mesh"]["routers"]
    keys = {str(city.key(name).principal): name for name in city.brokers}
    names = {node: keys[router["principal"]] for node, router in mesh.items()}
    way = next(router["via"] for router in mesh.values() if keys[router["principal"]] == city.brokers[2])
    city.network.crash(names[way[0]], dark=dark)
    # A link whose other end is silent ends within a lease; then the way is another at once.
    city.network.run_for(1 if not dark else 1.5 * LEASE_S)
    before = len(office.seen)
    city.probe()
    assert len(office.seen) > before


def test_a_router_whose_clock_is_wrong_by_more_than_the_skew_is_left_out_and_comes_back():
    """A98: its aggregates are refused with a code while its clock is wrong, and count again afterwards."""
    city = MeshCity(5, brokers=3, edges=[(0, 1), (1, 2)])
    city.camera("camera", "Victoria", via=[0])
    office = city.office("archive", via=[2])
    city.settle()
    city.probe()
    city.network.set_clock(city.brokers[2], skew_s=120)
    city.network.run_for(3 * LEASE_S)
    codes = {note.fields["code"] for _, note in city.network.notes if note.event == "refused"}
    assert "AGGREGATE-FROM-FUTURE" in codes
    city.network.set_clock(city.brokers[2], skew_s=0)
    city.network.run_for(20 * LEASE_S)
    assert office.stands
    city.probe()
