"""I5, I7: what subscribers require of publishers, and publishers of subscribers, decides who gets what."""

from __future__ import annotations

import pytest

from maia.broker.settings import RecordingSettings
from maia.credentials import Action
from maia.credentials.requirements import parse_requirement
from maia.types import SealingLevel
from maia.wire.messages import AskState, Carried, Failed, Identify, Interest, StateTold
from support.coalition import TRUST, member, plates, publish, show
from support.numberplate import Net, the_three

HERE, THERE = "CCS broker", "Met broker"
READ, WRITE = Action.SUBSCRIBE, Action.PUBLISH


def two_brokers() -> Net:
    net = Net(identity=TRUST)
    net.broker(HERE)
    net.broker(THERE, seeds=[HERE])
    return net


def subscribed(net: Net, who: str, requires: str = "true", **attributes: object):
    client = member(net, who, THERE, READ, **attributes)
    client.subscribe(requires=parse_requirement(requires))
    return client


def carried(net: Net) -> int:
    """Return how many frames have crossed the link between the brokers."""
    return sum(isinstance(message, Carried) for *_, message in net.carried)


def test_a_frame_that_no_subscriber_behind_a_link_wants_by_requirement_does_not_cross_it():
    """I7: requirements travel with the interests, aggregated: the wider one stands for both."""
    net = two_brokers()
    anna = member(net, "anna", HERE, WRITE, clearance=1)
    ref = anna.advertise()
    three, four = subscribed(net, "three", "clearance >= 3"), subscribed(net, "four", "clearance >= 4")
    wanted = [one for *_, message in net.carried if isinstance(message, Interest) for one in message.add]
    assert len({one.filter for one in wanted}) == 1, "what is covered is not sent"
    publish(anna, ref, "LOW")
    assert carried(net) == 0
    show(anna, clearance=3)
    publish(anna, ref, "MIDDLE")
    assert carried(net) == 1
    assert (plates(three), plates(four)) == (["MIDDLE"], [])


@pytest.mark.parametrize("level", [SealingLevel.EVENT, SealingLevel.ATTRIBUTE])
def test_a_sealed_frame_is_stopped_by_requirements_too(level):
    """I7: the requirement travels sealed, as a part of the filter, and the publisher's broker reads it."""
    net, _, middle, _ = the_three(level, identity=TRUST)
    reader = subscribed(net, "reader", "clearance >= 3")
    camera = net.client("camera at Victoria", HERE)
    show(camera, clearance=1)
    ref = camera.advertise()
    publish(camera, ref, "LOW")
    assert net.frames(to=middle) == []
    show(camera, clearance=3)
    publish(camera, ref, "HIGH")
    assert len(net.frames(to=middle)) == 1
    assert plates(reader) == ["HIGH"]


def test_a_new_statement_acts_from_the_next_frame_on_and_an_expired_one_not_at_all():
    """More is delivered, and less; on both sides."""
    net = two_brokers()
    anna, reader = member(net, "anna", HERE, WRITE, clearance=1), subscribed(net, "reader", rank=1)
    picky = subscribed(net, "picky", "clearance >= 3")
    ref = anna.advertise(requires=parse_requirement("rank >= 2"))
    publish(anna, ref, "A")
    show(reader, rank=2)
    show(anna, clearance=3)
    show(picky, rank=2)
    publish(anna, ref, "B")
    show(reader, rank=1)
    publish(anna, ref, "C")
    show(reader, rank=2)
    net.advance(901)
    publish(anna, ref, "D")
    assert plates(reader) == ["B"]
    assert plates(picky) == ["B", "C"]


def test_a_refused_statement_changes_nothing():
    net = two_brokers()
    anna, reader = member(net, "anna", HERE, WRITE), subscribed(net, "reader", rank=2)
    reader.say(Identify(901, b"no statement"))
    assert reader.last(Failed).id == 901
    publish(anna, anna.advertise(requires=parse_requirement("rank >= 2")), "A")
    assert plates(reader) == ["A"]


def test_the_current_state_is_for_whom_it_was_published():
    net = two_brokers()
    anna = member(net, "anna", HERE, WRITE, clearance=3)
    publish(anna, anna.advertise(requires=parse_requirement("rank >= 2")), "A")
    for number, (who, requires, rank, expected) in enumerate(
        [("low", "true", 1, []), ("high", "clearance >= 3", 2, ["A"]), ("strict", "clearance >= 4", 2, [])]
    ):
        reader = member(net, who, THERE, READ, rank=rank)
        reader.say(AskState(50 + number, reader.subscribe(requires=parse_requirement(requires))))
        assert reader.last(StateTold).is_whole
        assert plates(reader) == expected, who


def test_a_durable_subscription_is_served_by_the_statement_of_the_moment():
    """What was missed comes by the subscriber's statement of today, and the publisher's of then."""
    net = Net(identity=TRUST)
    net.broker(HERE, recording=RecordingSettings())
    anna = member(net, "anna", HERE, WRITE, clearance=3)
    first = member(net, "reader", HERE, READ, rank=2)
    first.durable("mine", requires=parse_requirement("clearance >= 3"))
    low = member(net, "low", HERE, READ, rank=1)
    low.durable("mine")
    ref = anna.advertise(requires=parse_requirement("rank >= 2"))
    publish(anna, ref, "A")
    assert plates(first) == ["A"]
    assert plates(low) == []
    first.hang_up()
    show(low, rank=2)
    publish(anna, ref, "B")
    assert plates(low) == ["B"]
    show(anna, clearance=1)
    publish(anna, ref, "C")
    net.advance(1000)
    again = member(net, "reader", HERE, READ, rank=2)
    again.durable("mine", requires=parse_requirement("clearance >= 3"), seen=1)
    assert plates(again) == ["B"]


@pytest.mark.parametrize("who", ["advertise", "subscribe"])
def test_a_requirement_is_a_part_of_what_is_signed(who):
    """A request with another requirement than the one that was signed is none (A67)."""
    net = two_brokers()
    client = member(net, "anna", HERE, WRITE if who == "advertise" else READ, clearance=3)
    action = WRITE if who == "advertise" else READ
    request = client.request(action, requires=parse_requirement("clearance >= 3"))
    assert b"9:clearance(3:int1:3)" in request
    ref = getattr(client, who)(request=request.replace(b"9:clearance(3:int1:3)", b"9:clearance(3:int1:2)"))
    assert client.code_of(ref) == "CREDENTIAL-SIGNATURE"
