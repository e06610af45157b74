"""B9 for sealed types: the last word travels sealed, past brokers that cannot read it."""

from __future__ import annotations

import pytest

from maia.types import SealingLevel
from maia.wire.messages import AskState, StateFrame, StateTold
from support.numberplate import NUMBERPLATE, sighting, the_three

LEVELS = (SealingLevel.EVENT, SealingLevel.ATTRIBUTE)


@pytest.mark.parametrize("level", LEVELS)
def test_a_latecomer_hears_it_across_a_broker_that_cannot_read_it(level):
    net, _, middle, _ = the_three(level)
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("LC04 ABC"))
    office = net.client("CCS", "Met broker")
    office.say(AskState(99, office.subscribe()))
    assert [event[NUMBERPLATE] for event in office.events()] == ["LC04 ABC"]
    assert office.last(StateTold).is_whole
    assert b"LC04 ABC" not in net.heard_by(middle)
    assert any(isinstance(message, StateFrame) for _, _, message in net.carried)


def test_a_broker_without_the_keys_tells_its_subscriber_nothing():
    net, _, _, last = the_three()
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("LC04 ABC"))
    net.hold(last)
    office = net.client("CCS", "Met broker")
    office.say(AskState(99, office.subscribe()))
    assert office.events() == []


def test_what_passed_sealed_is_told_again_from_the_cache():
    net, _, _, _ = the_three()
    camera, first = net.client("camera at Victoria"), net.client("CCS", "Met broker")
    ref = camera.advertise()
    first.say(AskState(99, first.subscribe()))
    camera.publish(ref, sighting("LC04 ABC"))
    asked = len([message for _, _, message in net.carried if isinstance(message, StateFrame)])
    second = net.client("CCS", "Met broker")
    second.say(AskState(99, second.subscribe()))
    assert [event[NUMBERPLATE] for event in second.events()] == ["LC04 ABC"]
    assert len([message for _, _, message in net.carried if isinstance(message, StateFrame)]) == asked
