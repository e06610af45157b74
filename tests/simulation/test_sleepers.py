"""A broker that was stopped for longer than a lease blames no client for what it did not hear."""

from __future__ import annotations

from maia.broker.refusals import PeerSilent
from maia.testing.simulation import Simulation
from support.city import LEASE_S, City
from support.echo_nodes import add_echo
from support.seeds import with_seeds

A_LITTLE_MORE_THAN_A_LEASE_S = LEASE_S + 1


def sleep(city: City, name: str, seconds: float) -> None:
    city.network.put_to_sleep(name)
    city.network.run_for(seconds)
    city.network.wake_up(name)


def blamed_by(city: City, name: str) -> list[str]:
    """Return who was told by a broker that it had been silent; others may well say that to a sleeper."""
    sleeper = str(city.key(name).principal)
    byes = [(who, note.fields) for who, note in city.network.notes if note.event == "bye"]
    return [who for who, told in byes if (told["peer"], told["code"]) == (sleeper, PeerSilent.code)]


@with_seeds(1)
def test_who_renewed_meanwhile_keeps_what_stood(seed):
    """What stood, a client that it was for, stands on: nothing ends and no client is told so."""
    city = City(seed, brokers=4)
    city.populate()
    city.settle()
    for name in city.brokers:
        city.network.notes.clear()
        sleep(city, name, A_LITTLE_MORE_THAN_A_LEASE_S)
        city.network.run_for(2 * LEASE_S)
        assert city.network.host(name).counts["maia_ended_total"] == 0
        assert not blamed_by(city, name)
    city.settle()
    city.probe()


@with_seeds(3)
def test_who_fell_silent_meanwhile_is_forgotten_a_little_later(seed):
    city = City(seed, brokers=3)
    office = city.office("office", via=[0])
    city.settle()
    city.network.put_to_sleep(city.brokers[0])
    city.network.put_to_sleep(office.name)
    city.network.run_for(2 * LEASE_S)
    city.network.wake_up(city.brokers[0])
    city.network.run_for(LEASE_S)
    assert city.network.host(city.brokers[0]).counts["maia_ended_total"] == 1


@with_seeds(2)
def test_however_long_brokers_sleep_everything_is_repaired(seed):
    city = City(seed, brokers=5)
    city.populate()
    city.settle()
    for name in city.brokers[:3]:
        sleep(city, name, city.chance.uniform(LEASE_S, 6 * LEASE_S))
    city.network.run_for(6 * LEASE_S)
    city.settle()
    city.probe()


def test_a_sleeper_checks_the_clock_before_it_reads():
    network = Simulation(1)
    add_echo(network, "a", dials=["b"])
    add_echo(network, "b")
    network.run_for(1)
    network.put_to_sleep("a")
    before = network.host("a").life
    network.run_for(60)
    assert network.host("a").asleep is not None
    network.wake_up("a")
    assert network.host("a").asleep is None
    assert network.host("a").life == before


def test_a_client_that_fails_in_its_sleep_wakes_up_with_nothing():
    network = Simulation(1)
    add_echo(network, "a", dials=["b"])
    add_echo(network, "b")
    network.run_for(1)
    network.put_to_sleep("a")
    network.crash("a")
    network.wake_up("a")
    network.restart("a")
    assert network.host("a").asleep is None
    assert network.host("a").node is not None
