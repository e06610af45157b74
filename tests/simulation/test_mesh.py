"""Routers of a mesh in trouble: what arrives is what flooding everything and filtering would show.

The reference is the city's own: every event goes to every office, and `decide` and `see` say what
it may see of it (`support/city.py`). A delivery that is not in it, or comes twice, is a violation.
"""

from __future__ import annotations

import pytest

from maia.broker import BrokerSettings
from maia.predicates import ALWAYS, Comparison, Operator
from maia.routing.overlay.table import node_id_of_key
from maia.types import SealingLevel
from support.city import LEASE_S, SealedCity, VouchedCity, goes_on_wanting, mesh_city
from support.numberplate import NUMBERPLATE, SUSPECT
from support.seeds import with_seeds

RING = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]


@with_seeds(2)
def test_a_mesh_in_trouble_shows_no_more_and_when_it_is_calm_no_less(seed):
    """B5, A83: crashes, partitions, wrong clocks and sleep; then every office hears all it may."""
    city = mesh_city(seed, brokers=6)
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
    city = mesh_city(3, brokers=5, edges=RING)
    city.camera("camera", "Victoria", via=[0])
    office = city.office("archive", via=[2])
    city.settle()
    city.probe()
    mesh = city.network.node(city.brokers[0]).status(city.network.now)["mesh"]["routers"]
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
    city = mesh_city(5, brokers=3, edges=[(0, 1), (1, 2)])
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


@pytest.mark.parametrize("blinded", [False, True], ids=["sealed", "blinded"])
def test_sealed_frames_cross_a_router_that_cannot_read_them(blinded):
    """B5, K1: interests and frames of a sealed type pass a router without its keys on the only way."""
    level = SealingLevel.EVENT if blinded else SealingLevel.ATTRIBUTE
    edges = [(0, 1), (1, 2), (2, 3)]
    city = SealedCity(2, brokers=4, edges=edges, level=level, blinded=blinded, outsiders=frozenset({1}))
    city.camera("camera", "Victoria", via=[0])
    city.office("archive", via=[2])
    city.office("desk", Comparison(NUMBERPLATE, Operator.EQ, SUSPECT), via=[3])
    city.settle()
    city.probe()
    city.network.run_for(5 * LEASE_S)
    city.probe()
    assert city.network.host(city.brokers[1]).counts["maia_frames_unread_total"] > 0


def test_a_revoked_right_ends_on_the_way_and_at_its_router():
    """A35, A67: the router in the middle sends nothing more towards the router that still wants it."""
    city = VouchedCity(4, brokers=3, edges=[(0, 1), (1, 2)])
    city.camera("camera", "Victoria", via=[0])
    loser, other = city.office("loser", via=[2]), city.office("other", via=[1])
    city.settle()
    city.probe()
    middle = city.network.node(city.brokers[1]).parts
    far, key = node_id_of_key(city.key(city.brokers[2]).principal.key), city.cast.type_id
    assert middle.routes.book.wanted(far, key)
    goes_on_wanting(city.network.node(city.brokers[2]))
    city.revoke(loser)
    city.network.run_for(4)
    assert not middle.routes.book.wanted(far, key)
    city.offices.remove(loser)
    city.probe()
    assert not other.gone


def test_a_latecomer_gets_the_last_publication_from_the_far_end_of_a_mesh():
    """B9: the question waits for the interest that entitles the office's router to an answer."""
    city = mesh_city(3, brokers=3, edges=[(0, 1), (1, 2)])
    camera = city.camera("camera", "Victoria", via=[0])
    city.settle()
    moments = city.sees(camera)
    city.network.run_for(5)
    office = city.office("late", via=[2])
    office.entry = office.client.subscribe(city.known, ALWAYS, state=True)
    city.network.run_for(6)
    assert office.seen == moments


def test_brokers_that_route_in_different_ways_part_and_say_why():
    """All brokers of one network route in the same way; a mistaken one is refused with a code."""
    city = mesh_city(6, brokers=2, edges=[(0, 1)])
    settings = BrokerSettings(
        network=city.cast.network,
        address="10.0.1.1:7400",
        credentials=(*city.connects("Met"), city.cast.broker_right(city.key("mistaken"), by="Met")),
        seeds=(city.addresses[0],),
    )
    city.network.add_broker("mistaken", city.key("mistaken"), settings)
    city.network.run_for(3)
    seen = {note.fields.get("code") for name, note in city.network.notes if name == "mistaken"}
    assert "PROTOCOL-OUT-OF-TURN" in seen
