"""A broker asks only what has changed when something is due: the moment is as if it had asked everything."""

from __future__ import annotations

import pytest

from maia.broker.node import Broker
from maia.broker.timers import Upkeep
from maia.events import just_after
from maia.testing.simulation import Trouble, Troublemaker
from maia.types import Cover
from support.city import LEASE_S, City
from support.numberplate import BlindedNet, camera_and_reader


@pytest.fixture(autouse=True)
def asked_everything(monkeypatch):
    """After every turn of every broker: nothing is due before the moment for which upkeep is scheduled."""
    follow, turns = Broker._follow, []

    def checked(broker, turn):
        follow(broker, turn)
        state, now = broker.parts, turn.now
        scheduled = state.timers.moment_of(Upkeep())
        due = {
            "routes": state.router.next_due(now),
            "keys": state.key_events.next_key_moment(now),
            "slot": state.maintenance.covering.next_slot(now),
            "keep": state.maintenance.keep_at,
        }
        late = {
            part: at - now
            for part, at in due.items()
            if at is not None and (scheduled is None or max(at, just_after(now)) < scheduled)
        }
        assert state.own.is_draining or not late, (
            f"upkeep is scheduled for {scheduled}, and at {now} due in {late}"
        )
        turns.append(now)

    monkeypatch.setattr(Broker, "_follow", checked)
    yield
    assert turns


def test_while_brokers_crash_and_are_cut_off_from_each_other():
    city = City(48113, brokers=3)
    city.populate()
    city.settle()
    maker = Troublemaker(city.network, city.brokers, Trouble())
    maker.begin()
    for _ in range(40):
        for camera in city.cameras:
            city.sees(camera)
        city.network.run_for(1)
    maker.end()
    city.settle()
    assert maker.made


def test_when_brokers_without_clients_get_their_first():
    """A neighbour that was sent nothing gets no renewals: from the first interest on it does."""
    city = City(48113, brokers=2)
    city.network.run_for(3 * LEASE_S)
    city.camera("camera", "Soho", via=[0])
    city.office("office", via=[1])
    city.settle()
    city.network.run_for(3 * LEASE_S)
    city.probe()


def test_while_a_covered_type_gets_and_loses_its_publisher():
    net = BlindedNet(cover=Cover(100, 1024))
    camera, _ = camera_and_reader(net)
    net.advance(1)
    camera.withdraw(1)
    net.advance(1)
    camera.advertise(ref=1)
    net.advance(1)
    for running in (net.ccs, net.met):
        net.bring(running, 1, 2)
    net.advance(1)
