"""Clients and brokers sign what they ask for again in time, and all that they asked for goes on (C15)."""

from __future__ import annotations

import pytest

from maia.broker.settings import Routing
from maia.credentials import Action
from maia.testing import NetClient, address_of
from maia.wire.messages import Carried, Interest, Offer
from support.numberplate import READ, RECORDING, SUSPECT, Net, sighting, the_three

AGE_S = 300


class Renewing:
    """A client that renews what it has, and signs it again when it is told to."""

    def __init__(self, client: NetClient, action: Action) -> None:
        self.client, self.action, self.signed = client, action, 0
        self.ask()

    def ask(self) -> None:
        self.request = self.client.request(self.action)
        ask = self.client.subscribe if self.action is Action.SUBSCRIBE else self.client.advertise
        ask(request=self.request, ref=1)
        self.signed += 1

    def renew(self) -> None:
        self.client.next_ref += 1
        code = self.client.code_of(self.client.renew_all({1: self.request}))
        if code is not None:
            assert code == "UNAVAILABLE-REQUESTS-OLD"
            self.ask()


def world(kind: str) -> Net:
    """Return two brokers that know each other, or three with one in the middle."""
    if kind == "sealed":
        return the_three(proof_age_s=AGE_S)[0]
    net = Net(proof_age_s=AGE_S)
    if kind == "mesh":
        net.broker("CCS broker", routing=Routing.MESH)
        net.broker("Met broker", routing=Routing.MESH, neighbours=(address_of("CCS broker"),))
    else:
        net.three()
    return net


@pytest.mark.parametrize("kind", ["rendezvous", "mesh", "sealed"])
def test_events_go_on_for_as_long_as_clients_sign_again(kind: str) -> None:
    net = world(kind)
    camera = Renewing(net.client("camera at Victoria", "CCS broker"), Action.PUBLISH)
    smith = Renewing(net.client("Detective Smith", "Met broker"), Action.SUBSCRIBE)
    for number in range(4):
        net.live(AGE_S, camera.renew, smith.renew)
        camera.client.publish(1, sighting(SUSPECT))
        net.advance(1)
        assert len(smith.client.events()) == number + 1
    assert 8 <= camera.signed <= 9
    assert 8 <= smith.signed <= 9
    assert not [one for broker in net.brokers.values() for one in broker.noted("refused")]


def test_a_younger_request_is_renewed_without_a_signature() -> None:
    net = world("rendezvous")
    smith = Renewing(net.client("Detective Smith", "Met broker"), Action.SUBSCRIBE)
    net.carried.clear()
    net.live(AGE_S // 2 - 20, smith.renew)
    assert smith.signed == 1
    assert [one for _, _, one in net.carried if isinstance(one, Interest | Offer)] == []


def test_a_recording_broker_signs_its_own_interest_again() -> None:
    """Nobody is subscribed here: what durable subscribers miss meanwhile is recorded for them."""
    net = Net(proof_age_s=AGE_S)
    net.entitle("Met broker", READ)
    net.broker("CCS broker")
    net.broker("Met broker", seeds=["CCS broker"], recording=RECORDING)
    absent = net.client("Detective Smith", "Met broker")
    absent.durable(ref=1)
    absent.hang_up()
    camera = Renewing(net.client("camera at Victoria", "CCS broker"), Action.PUBLISH)
    for number in range(4):
        net.live(AGE_S, camera.renew)
        camera.client.publish(1, sighting(SUSPECT))
        net.advance(1)
        assert len([one for _, _, one in net.carried if isinstance(one, Carried)]) == number + 1
    assert len(net.log("Met broker").safe) == 4
