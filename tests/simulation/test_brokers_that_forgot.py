"""Brokers that crashed may send a publication again; the application receives it once.

A broker keeps its memory of publications once in a lease. Here every broker
loses all of it, and the publisher sends again what was not answered for. What
remembers is the subscriber's session, which outlives its brokers.
"""

from __future__ import annotations

from maia.broker.persistence import KEPT_PUBLICATIONS
from maia.testing.simulation import Chaos
from maia.wire.codec import decode
from maia.wire.columns import frame_label
from maia.wire.messages import Published
from support.city import LEASE_S, City, delivered_to
from support.seeds import with_seeds


def forget_and_restart(city: City, name: str) -> None:
    """Start a broker that remembers no publication."""
    city.network.host(name).disk.pop(KEPT_PUBLICATIONS, None)
    city.network.restart(name)


@with_seeds(2)
def test_what_every_broker_forgot_is_delivered_again_and_shown_once(seed):
    city = City(seed, brokers=3)
    camera = city.camera("camera", "Soho", via=[0])
    city.camera("another one", "Bank", via=[0])  # keeps the way from its broker to the office open
    office = city.office("office", via=[1])
    city.settle()
    overheard = delivered_to(city, office)
    no_answers = Chaos(drop=1.0, concerns=lambda data: isinstance(decode(data), Published))
    city.network.set_chaos(no_answers, among=[camera.name, city.brokers[0]])
    moments = [moment for _ in range(3) for moment in city.sees(camera)]
    city.network.run_until(lambda: office.seen == moments, at_most=5)
    assert len(camera.entry.under_way) == 3
    city.network.set_chaos()
    city.network.put_to_sleep(camera.name)
    for name in city.brokers:
        city.network.crash(name)
    for name in city.brokers:
        forget_and_restart(city, name)
    city.network.run_until(lambda: office.stands and city.cameras[1].stands, at_most=60)
    city.network.run_for(6 * LEASE_S)
    city.network.wake_up(camera.name)
    city.settle()
    later = city.sees(camera, 2)
    city.network.run_for(5)
    key, stream = city.key(camera.name).principal.key, camera.entry.stream
    twice = [frame_label(key, stream, number) for number in (0, 1, 2)] * 2
    assert overheard[:6] == twice  # so the brokers did forget
    assert office.seen == [*moments, *later]
