"""A83: who is cut off extends no trust, and when the parts meet again no client receives anything twice."""

from __future__ import annotations

from maia.events import SECOND, Instant
from support.city import LEASE_S, City
from support.seeds import with_seeds


def everybody_at(city: City, *brokers: int) -> list[str]:
    """Return the names of some brokers."""
    return [city.brokers[number] for number in brokers]


@with_seeds(2)
def test_both_parts_go_on_by_themselves_and_meet_again_without_duplicates(seed):
    """A83: clients stay with their brokers; each part receives itself, and after the heal both hear both."""
    city = City(seed, brokers=5)
    west = city.camera("camera west", "Victoria", via=[0])
    east = city.camera("camera east", "Soho", via=[4])
    in_west, in_east = city.office("office west", via=[1]), city.office("office east", via=[3])
    city.settle()
    city.probe()
    city.network.partition(
        [*everybody_at(city, 0, 1), west.name, in_west.name],
        [*everybody_at(city, 2, 3, 4), east.name, in_east.name],
    )
    city.network.run_for(4 * LEASE_S)
    here, there = city.sees(west, 3), city.sees(east, 3)
    city.network.run_for(10)
    assert set(here) <= set(in_west.seen)
    assert set(there) <= set(in_east.seen)
    assert not set(there) & set(in_west.seen)
    city.network.heal()
    city.network.run_for(6 * LEASE_S + 60)
    city.settle()
    city.probe()


@with_seeds(2)
def test_a_minority_that_is_cut_off_does_not_extend_a_right_that_ends_meanwhile(seed):
    """A83: the certificate ends while the office and its broker are alone; nothing is delivered after."""
    city = City(seed, brokers=5)
    ends = Instant(city.network.now + 120 * SECOND)
    camera = city.camera("camera", "Victoria", via=[1])
    # Its clock is slow, so the office itself believes for a while that nothing has ended.
    office = city.office("office", via=[1], until=ends, skew_s=-25)
    other = city.office("other", via=[3])
    city.settle()
    city.probe()
    city.network.partition([city.brokers[1], camera.name, office.name])
    heard_in_time = False
    while city.network.now < ends + 40 * SECOND:
        city.sees(camera)
        city.network.run_for(1)
        heard_in_time |= bool(office.seen)
    assert heard_in_time
    assert max(office.seen) <= ends
    assert office.gone
    city.network.heal()
    city.network.run_for(6 * LEASE_S + 60)
    city.offices.remove(office)
    city.probe()
    assert max(office.seen) <= ends
    assert len(set(other.seen)) == len(other.seen)


@with_seeds(2)
def test_a_right_that_has_ended_stays_ended_across_a_restart(seed):
    """A83, A35: a broker that starts again after the right ended does not remember it as standing."""
    city = City(seed, brokers=3)
    ends = Instant(city.network.now + 60 * SECOND)
    camera = city.camera("camera", "Victoria", via=[0])
    office = city.office("office", via=[1], until=ends)
    city.settle()
    city.probe()
    city.network.crash(city.brokers[1])
    city.network.run_for(max(0, (ends - city.network.now) / SECOND) + 1)
    city.network.restart(city.brokers[1])
    city.network.run_for(6 * LEASE_S)
    city.sees(camera, 5)
    city.network.run_for(6 * LEASE_S)
    assert office.gone
    assert max(office.seen) <= ends
