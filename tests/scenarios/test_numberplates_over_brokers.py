"""The numberplate story told over one broker and over three: every client receives exactly what is theirs.

Dissertation 3.7 and 5.2: PITO, CCS and Met each run a broker; cameras and
offices are clients of CCS, Detective Smith is one of Met.
"""

from __future__ import annotations

import pytest

from maia.events import Instant
from maia.predicates import Comparison, Operator
from maia.testing import NetClient
from maia.wire.messages import Carried, Interest, Offer
from support.numberplate import BROKERS, LOCATION, NUMBERPLATE, SUSPECT, TIMESTAMP, Net, sighting

THREE = tuple(BROKERS)


def city(brokers: tuple[str, ...] = THREE, **settings: object) -> Net:
    net = Net(**settings)
    for name in brokers:
        net.broker(name, seeds=brokers[:1])
    net.advance(1)
    return net


class Cast:
    """Every client of the story, connected and subscribed."""

    def __init__(self, net: Net) -> None:
        ccs, met = "CCS broker", "Met broker" if "Met broker" in net.brokers else "CCS broker"
        self.camera: NetClient = net.client("camera at Victoria", ccs)
        self.billing, self.statistics = (
            net.client("billing office", ccs),
            net.client("statistics office", ccs),
        )
        self.detective = net.client("Detective Smith", met)
        for subscriber in (self.billing, self.statistics, self.detective):
            subscriber.subscribe()
        self.ref = self.camera.advertise()

    def renew(self) -> None:
        for subscriber in (self.billing, self.statistics, self.detective):
            if not subscriber.closed:
                subscriber.subscribe(ref=1)
        self.camera.advertise(ref=self.ref)


@pytest.mark.parametrize("brokers", [("CCS broker",), THREE], ids=["one broker", "three brokers"])
def test_every_client_receives_exactly_what_is_theirs(brokers: tuple[str, ...]) -> None:
    net = city(brokers)
    cast = Cast(net)
    cast.camera.publish(cast.ref, sighting("LC04 ABC", "Hyde Park"), sighting(SUSPECT))
    assert cast.billing.events() == [
        {NUMBERPLATE: "LC04 ABC", TIMESTAMP: sighting()[TIMESTAMP]},
        {NUMBERPLATE: SUSPECT, TIMESTAMP: sighting()[TIMESTAMP]},
    ]
    assert [set(event) for event in cast.statistics.events()] == [{LOCATION, TIMESTAMP}] * 2
    assert cast.detective.events() == [
        {NUMBERPLATE: SUSPECT, TIMESTAMP: sighting()[TIMESTAMP], LOCATION: "Victoria"}
    ]


def test_cars_that_are_no_other_clients_business_stay_at_the_broker_of_the_camera() -> None:
    """B3: events are filtered as near to the publisher as possible."""
    net = city()
    cast = Cast(net)
    net.carried.clear()
    cast.camera.publish(cast.ref, sighting("LC04 ABC"))
    assert [message for _, _, message in net.carried if isinstance(message, Carried)] == []
    cast.camera.publish(cast.ref, sighting("LC04 ABC"), sighting(SUSPECT), sighting("LC04 ABC"))
    carried = [message for _, _, message in net.carried if isinstance(message, Carried)]
    assert [message.rows for message in carried] == [1] * len(carried)
    assert [list(message.kept) for message in carried] == [[1]] * len(carried)


def test_without_subscribers_nothing_leaves() -> None:
    net = city()
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    net.carried.clear()
    camera.publish(ref, sighting())
    assert net.carried == []


def test_it_does_not_matter_who_comes_first() -> None:
    for camera_first in (True, False):
        net = city()
        camera, detective = net.client("camera at Victoria"), net.client("Detective Smith", "Met broker")
        if camera_first:
            ref = camera.advertise()
            detective.subscribe()
        else:
            detective.subscribe()
            ref = camera.advertise()
        camera.publish(ref, sighting(SUSPECT))
        assert len(detective.events()) == 1


@pytest.mark.parametrize("order", [THREE, THREE[::-1], (THREE[1], THREE[2], THREE[0])])
def test_brokers_may_join_after_the_clients(order: tuple[str, ...]) -> None:
    """B2: a client that joins later finds interests and offers in place."""
    net = Net()
    net.broker(order[0])
    clients: dict[str, NetClient] = {}

    def greet(name: str) -> None:
        if name == "CCS broker":
            clients["camera"] = net.client("camera at Victoria", name)
            clients["ref"] = clients["camera"].advertise()  # type: ignore[assignment]  # a number beside clients
        if name == "Met broker":
            clients["detective"] = net.client("Detective Smith", name)
            clients["detective"].subscribe()

    greet(order[0])
    for name in order[1:]:
        net.broker(name, seeds=[order[0]])
        greet(name)
    net.advance(2)
    clients["camera"].publish(clients["ref"], sighting(SUSPECT))  # type: ignore[arg-type]  # see above
    assert len(clients["detective"].events()) == 1


@pytest.mark.parametrize("victim", ["PITO broker"])
def test_the_loss_of_a_broker_loses_no_subscription(victim: str) -> None:
    """B4: the tree closes over the gap at once."""
    net = city()
    cast = Cast(net)
    net.crash(victim)
    net.advance(1)
    cast.camera.publish(cast.ref, sighting(SUSPECT))
    assert len(cast.detective.events()) == 1


def test_a_broker_that_comes_back_finds_its_place() -> None:
    net = city()
    cast = Cast(net)
    net.crash("PITO broker")
    net.advance(5)
    net.restart("PITO broker")
    net.advance(15)
    cast.renew()
    assert net.brokers["PITO broker"].broker.status(net.now)["peers"] == 2
    cast.camera.publish(cast.ref, sighting(SUSPECT))
    assert len(cast.detective.events()) == 1


def test_a_broker_that_leaves_says_goodbye() -> None:
    net = city()
    cast = Cast(net)
    net.drain("PITO broker")
    net.advance(1)
    assert net.brokers["Met broker"].noted("bye")
    cast.camera.publish(cast.ref, sighting(SUSPECT))
    assert len(cast.detective.events()) == 1


def test_a_client_that_comes_back_is_accepted_again() -> None:
    net = city()
    cast = Cast(net)
    cast.detective.hang_up()
    cast.camera.publish(cast.ref, sighting(SUSPECT))
    again = net.client("Detective Smith", "PITO broker")
    again.subscribe()
    cast.camera.publish(cast.ref, sighting(SUSPECT))
    assert len(again.events()) == 1


def test_what_is_not_wanted_any_more_is_taken_back_everywhere() -> None:
    net = city()
    cast = Cast(net)
    cast.detective.withdraw(1)
    for client in (cast.billing, cast.statistics):
        client.withdraw(1)
    cast.camera.withdraw(cast.ref)
    assert [running.broker.status(net.now)["rendezvous"] for running in net.brokers.values()] == [{}] * 3


def test_a_covered_interest_is_not_told() -> None:
    """B3: a second, narrower subscription makes no other broker hear of it."""
    net = city()
    cast = Cast(net)
    net.carried.clear()
    narrow = cast.detective.subscribe(Comparison(LOCATION, Operator.EQ, "Victoria"))
    assert not [message for _, _, message in net.carried if isinstance(message, Interest)]
    cast.detective.withdraw(1)
    cast.camera.publish(cast.ref, sighting(SUSPECT))
    assert len(cast.detective.events(narrow)) == 1


def test_months_of_upkeep_change_nothing() -> None:
    """B4: leases are renewed for as long as clients and brokers are there."""
    net = city()
    cast = Cast(net)
    for _ in range(40):
        net.advance(40)
        cast.renew()
    cast.camera.publish(cast.ref, sighting(SUSPECT))
    assert len(cast.detective.events()) == 1
    assert cast.detective.ended_with(1) is None


def test_interests_of_a_silent_broker_end_with_its_lease() -> None:
    net = city()
    cast = Cast(net)
    # The Met broker stops without any link being closed: no client receives of it but by its silence.
    net.brokers["Met broker"].alive = False
    for _ in range(4):
        net.advance(30)
        cast.renew()
    status = net.brokers["CCS broker"].broker.status(net.now)
    assert status["peers"] == 1
    net.carried.clear()
    cast.camera.publish(cast.ref, sighting(SUSPECT))
    assert net.carried == []


def test_proofs_are_verified_on_the_way() -> None:
    """C9: with every broker verifying everything, the story is the same."""
    net = city(verify_in_transit=1.0)
    cast = Cast(net)
    cast.camera.publish(cast.ref, sighting("LC04 ABC"), sighting(SUSPECT))
    assert len(cast.detective.events()) == 1
    net.advance(50)
    assert not any(running.noted("refused") for running in net.brokers.values())
    sent = [type(message).__name__ for _, _, message in net.carried]
    assert "Resync" not in sent


def test_an_interest_carries_the_request_and_the_certificates_behind_it() -> None:
    """C9: the detective's own signed request, the chain from PITO, and nothing else."""
    net = city()
    Cast(net)
    found = [
        wanted
        for source, _, message in net.carried
        if isinstance(message, Interest) and source == "Met broker"
        for wanted in message.add
    ]
    assert found
    assert all(wanted.proof is not None and len(wanted.credentials) == 2 for wanted in found)


def test_the_rendezvous_gives_its_book_to_those_that_would_follow_it() -> None:
    """B4: some broker holds a replica of what the others told the rendezvous."""
    net = city()
    Cast(net)
    net.advance(2)
    root = [name for name, one in net.brokers.items() if _is_root(net, name)]
    assert len(root) == 1
    held = {name: one.broker.status(net.now)["replicas"] for name, one in net.brokers.items()}
    told = {name for name, _, message in net.carried if isinstance(message, Interest | Offer)}
    assert sum(held.values()) > 0 or told <= {root[0]}  # type: ignore[arg-type]  # numbers


def _is_root(net: Net, name: str) -> bool:
    rendezvous = net.brokers[name].broker.status(net.now)["rendezvous"]
    return any(one["is_here"] for one in rendezvous.values())  # type: ignore[attr-defined]  # a dictionary


@pytest.mark.parametrize("victim", range(8))
def test_any_one_of_eight_brokers_may_be_lost(victim: int) -> None:
    """B4: wherever the rendezvous is, and a client that is lost, the others go on."""
    names = tuple(f"broker {number}" for number in range(8))
    net = Net()
    for at, name in enumerate(names):
        net.broker(name, seeds=names[max(0, at - 1) : at])
    net.advance(3)
    here, there = [name for at, name in enumerate(names) if at != victim][::6][:2]
    camera, detective = net.client("camera at Victoria", here), net.client("Detective Smith", there)
    detective.subscribe()
    ref = camera.advertise()
    camera.publish(ref, sighting(SUSPECT))
    assert len(detective.events()) == 1
    net.crash(names[victim])
    net.advance(1)
    camera.publish(ref, sighting(SUSPECT))
    assert len(detective.events()) == 2
    net.restart(names[victim])
    net.advance(12)
    camera.publish(ref, sighting(SUSPECT))
    assert len(detective.events()) == 3


def test_rights_end_everywhere_at_once() -> None:
    """A35: the detective's right ends; its broker takes the interest back from the others."""
    net = city()
    cast = Cast(net)
    end = net.cast.certificates[0].certificate.validity.not_after
    assert end is not None
    net.now = Instant(end - 30_000_000)
    for running in net.brokers.values():
        running.wake_at = net.now
    net.advance(0.001)
    net.now = Instant(end + 1)
    for running in net.brokers.values():
        running.wake_at = net.now
    net.advance(1)
    assert all(running.broker.status(net.now)["rendezvous"] == {} for running in net.brokers.values())
    assert cast.detective.closed
