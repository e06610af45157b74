"""A broker that begins to record when events were published: what is in its log, and what is a gap?"""

from __future__ import annotations

from maia.broker.settings import Routing
from maia.credentials import Action
from maia.testing import Cast, Net, NetClient
from maia.testing.cast import address_of
from maia.wire.codec import decode_recorded
from support.numberplate import RECORDING

FIRST, CARRIER, LATE = "hospital broker", "city broker", "auditor's broker"


def the_net() -> tuple[Net, NetClient]:
    """Return a hospital whose doctor publishes, and a city that records what it may see of that."""
    cast = Cast.of("trust", "doctor", of_type="Prescription", drug="string", patient="string")
    cast = cast.domain("hospital", FIRST).domain("city", CARRIER).domain("auditor", LATE)
    net = Net(cast.let("doctor", Action.PUBLISH), recording=RECORDING, routing=Routing.MESH)
    for name in (FIRST, CARRIER, LATE):
        net.entitle(name, Action.SUBSCRIBE, attributes=frozenset({"drug"}))
    net.broker(FIRST)
    net.broker(CARRIER, neighbours=(address_of(FIRST),))
    net.advance(5)
    doctor = net.client("doctor", FIRST)
    assert doctor.was_accepted(doctor.advertise())
    publish(doctor, "MORPHINE", "ASPIRIN")
    net.advance(5)
    return net, doctor


def publish(doctor: NetClient, *drugs: str) -> None:
    for drug in drugs:
        doctor.publish(1, {"drug": drug, "patient": "Ann Lee"})


def live(net: Net, doctor: NetClient, seconds: int) -> None:
    net.live(seconds, lambda: doctor.advertise(ref=1))


def recorded(net: Net) -> list[int]:
    """Return the numbers of the frames in the late log."""
    return [decode_recorded(one.data).sequence for one in net.log(LATE).safe]


def test_what_comes_first_does_not_follow_a_gap() -> None:
    net, doctor = the_net()
    net.broker(LATE, neighbours=(address_of(FIRST), address_of(CARRIER)))
    live(net, doctor, 100)
    publish(doctor, "ETHER", "OPIUM")
    live(net, doctor, 100)
    assert recorded(net) == [2, 3]
    assert net.brokers[LATE].noted("events-missed") == []


def test_what_another_broker_has_fetched_since_is_no_younger_for_that() -> None:
    """A broker that was down when events were published records them after the late one has begun."""
    net, doctor = the_net()
    net.crash(CARRIER)
    publish(doctor, "ETHER", "OPIUM")
    net.advance(5)
    net.broker(LATE, neighbours=(address_of(FIRST), address_of(CARRIER)))
    live(net, doctor, 60)
    net.restart(CARRIER)
    live(net, doctor, 180)
    assert recorded(net) == []
    publish(doctor, "LAUDANUM")
    live(net, doctor, 100)
    assert recorded(net) == [4]
