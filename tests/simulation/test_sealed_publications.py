"""Sealed types in a simulated city: keys that rotate, brokers in trouble, and one that reads nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.predicates import Comparison, Operator
from maia.types import SealingLevel
from support.city import KEYS, PLACES, PLATES, TERMS, SealedCity, rendezvous_of
from support.numberplate import LOCATION, NUMBERPLATE, SUSPECT, TIMESTAMP
from support.seeds import with_seeds

LEVELS = (SealingLevel.EVENT, SealingLevel.ATTRIBUTE)


def publish_for(city: SealedCity, seconds: int, *, every: int = 2) -> list[int]:
    """Let every camera publish again and again; return the moments of what was sent."""
    sent: list[int] = []
    for _ in range(0, seconds, every):
        for camera in city.cameras:
            sent += city.sees(camera, 2)
        city.network.run_for(every)
    city.network.run_for(10)
    return sent


def check_nothing_was_lost(city: SealedCity, sent: list[int]) -> None:
    for office in city.offices:
        missing = set(city.expected(office, sent)) - set(office.seen)
        assert not missing, f"{office.name} never heard {len(missing)} of {len(sent)}, {city.network.story()}"


@pytest.mark.parametrize("level", LEVELS)
@with_seeds(2)
def test_every_client_sees_what_the_certificates_say_of_a_sealed_type(seed, level):
    city = SealedCity(seed, level=level)
    city.populate()
    city.settle()
    city.probe()


@with_seeds(1)
def test_rotation_in_the_middle_of_traffic_loses_nothing_and_doubles_nothing(seed):
    """K8: keys are refreshed every minute; the city checks every row for order and doubling."""
    city = SealedCity(seed, share_plaintext=False)
    city.populate()
    city.settle()
    before = city.epoch(0)
    sent = publish_for(city, 180)
    assert city.epoch(0) >= before + 2, "keys were not refreshed while events were published"
    check_nothing_was_lost(city, sent)


@with_seeds(1)
def test_rotation_with_clocks_that_differ_loses_nothing(seed):
    """K8: an epoch begins at one moment, and every broker has its own clock."""
    city = SealedCity(seed)
    city.populate()
    city.settle()
    for number, skew in enumerate((-3.0, 2.0, 4.0)):
        city.network.set_clock(city.brokers[number], skew_s=skew)
    check_nothing_was_lost(city, publish_for(city, 150))


@with_seeds(1)
def test_brokers_go_on_while_the_key_server_is_down(seed):
    """Keys are held, so a manager that is away for a while stops no client.

    Old keys are good for longer than a broker takes to find its manager again.
    """
    city = SealedCity(seed, terms=replace(TERMS, drift_s=120, back_dating_s=90))
    city.populate()
    city.settle()
    city.probe()  # so that every client has met the signers
    city.network.crash(KEYS)
    sent = publish_for(city, 60)
    city.network.restart(KEYS)
    before = city.epoch(0)
    sent += publish_for(city, 150)
    check_nothing_was_lost(city, sent)
    assert city.epoch(0) > before


@with_seeds(2)
def test_a_broker_that_starts_again_gets_its_keys_again(seed):
    city = SealedCity(seed)
    city.populate()
    city.settle()
    city.network.crash(city.brokers[1])
    city.network.run_for(5)
    city.network.restart(city.brokers[1])
    city.settle()
    city.probe(10.0)


@pytest.mark.parametrize("level", LEVELS)
@with_seeds(2)
def test_a_broker_without_rights_carries_everything_and_learns_nothing(seed, level):
    """Issue 4: every byte that reaches it, and every byte on its disk, is searched."""
    outsider = rendezvous_of(seed, brokers=3)
    city = SealedCity(seed, level=level, outsiders=frozenset({outsider}))
    inside = [number for number in range(3) if number != outsider]
    city.camera("camera", PLACES[0], via=inside[:1])
    city.office("billing", via=inside[1:], attributes=frozenset({NUMBERPLATE, TIMESTAMP}))
    city.office("detective", via=inside[1:], restriction=Comparison(NUMBERPLATE, Operator.EQ, SUSPECT))
    city.office("desk", Comparison(LOCATION, Operator.EQ, PLACES[0]), via=inside[1:])
    city.settle()
    sent = publish_for(city, 80)
    check_nothing_was_lost(city, sent)
    host = city.network.host(city.brokers[outsider])
    carried = host.counts["maia_frames_unread_total"]
    assert carried >= len(sent) // 2, "the outsider was not on the way"
    everything = b"".join((*city.overheard[host.name], *host.disk.values()))
    definition = city.cast.definition.definition
    # Uids show at attribute level, and that of the topic is its name: a tree is known for one (limitations).
    names = [one.name for one in definition.attributes if one.name != one.uid]
    for secret in (*PLATES, *PLACES, *names, definition.name.name):
        assert secret.encode() not in everything, f"`{secret}` reached a broker without rights"


@with_seeds(1)
def test_trouble_among_sealed_brokers_never_shows_any_client_too_much(seed):
    """Crashes and cuts while keys rotate: afterwards everything flows as before."""
    city = SealedCity(seed)
    city.populate()
    city.settle()
    for number in range(3):
        city.network.crash(city.brokers[number], dark=number == 1)
        publish_for(city, 10)
        city.network.restart(city.brokers[number])
        publish_for(city, 20)
    city.network.partition([city.brokers[0], KEYS], city.brokers[1:])
    publish_for(city, 70)
    city.network.heal()
    city.settle()
    city.network.run_for(60)
    city.probe(10.0)
