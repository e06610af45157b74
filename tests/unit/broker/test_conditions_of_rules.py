"""X9: what the `when` of a transformation asks of either side, of the place and of functions, at a broker."""

from __future__ import annotations

import pytest

from maia.credentials import ALL_ATTRIBUTES, UNBOUNDED, Action, Transformation
from maia.credentials.authority import AttributeSet
from maia.credentials.identity import pack_identity
from maia.events import SECOND, AttributeUid
from maia.expressions import parse_rule
from maia.policy.facts import WorldFunction
from maia.testing import NetClient, key_of
from maia.wire.messages import Identify
from support.coalition import TRUST, member, publish, show, statement
from support.numberplate import LOCATION, NUMBERPLATE_ATTRIBUTES, Net

HERE, THERE = "CCS broker", "Met broker"
NAMES = {one.name: one for one in NUMBERPLATE_ATTRIBUTES}
COARSE = "location := first(location, 1) when "


def transforming(net: Net, rule: str) -> Transformation:
    return Transformation(net.cast.owner.principal, (parse_rule(rule, NAMES),))


def reader(
    net: Net,
    rule: str,
    who: str = "reader",
    at: str = THERE,
    only: AttributeSet = ALL_ATTRIBUTES,
    **named: object,
) -> NetClient:
    steps = (transforming(net, rule),)
    right = net.cast.right(
        key_of(who), Action.SUBSCRIBE, validity=UNBOUNDED, transformations=steps, attributes=only
    )
    client = net.guest(who, right, at=at, **named)
    client.subscribe()
    return client


@pytest.fixture
def net() -> Net:
    net = Net(identity=TRUST)
    net.broker(HERE)
    net.broker(THERE, seeds=[HERE])
    return net


def seen(client: NetClient) -> list[object]:
    return [event.get(LOCATION) for event in client.take_events()]


def test_attributes_of_the_subscriber_decide_and_follow_its_statement(net: Net) -> None:
    anna = member(net, "anna", HERE, Action.PUBLISH)
    ref = anna.advertise()
    client = reader(net, COARSE + "subscriber.clearance < 3")
    publish(anna, ref, "none")
    show(client, clearance=2)
    publish(anna, ref, "low")
    show(client, clearance=3)
    publish(anna, ref, "high")
    assert seen(client) == [None, "S", "Soho"], "unknown hides, and what stands follows the statement"
    short = statement(client.key, {"clearance": 3}, since=net.now, life_s=10)
    client.say(Identify(900, pack_identity(short)))
    net.advance(11)
    publish(anna, ref, "expired")
    assert seen(client) == [], "the link ends with the statement"


@pytest.mark.parametrize("only", [ALL_ATTRIBUTES, frozenset({LOCATION})], ids=["all", "one"])
def test_attributes_of_the_publisher_decide_event_by_event(net: Net, only: AttributeSet) -> None:
    anna, bob = (member(net, who, HERE, Action.PUBLISH) for who in ("anna", "bob"))
    ref, others = anna.advertise(), bob.advertise()
    client = reader(net, COARSE + "not publisher.clearance >= 3", only=only)
    publish(anna, ref, "unknown")
    show(anna, clearance=3)
    show(bob, clearance=1)
    publish(anna, ref, "high")
    publish(bob, others, "low")
    assert seen(client) == [None, "Soho", "S"]
    assert set().union(*client.take_events()) <= {one.uid for one in NUMBERPLATE_ATTRIBUTES}


def test_a_publishers_own_transformation_sees_its_own_attributes(net: Net) -> None:
    story, rule = net.cast, COARSE + "publisher.clearance < 3"
    right = story.right(
        key_of("anna"), Action.PUBLISH, validity=UNBOUNDED, transformations=(transforming(net, rule),)
    )
    anna, client = net.guest("anna", right, at=HERE), member(net, "reader", THERE, Action.SUBSCRIBE)
    client.subscribe()
    show(anna, clearance=1)
    ref = anna.advertise()
    publish(anna, ref, "low")
    show(anna, clearance=3)
    publish(anna, ref, "high")
    assert seen(client) == ["S", "Soho"]


def test_the_place_decides(net: Net) -> None:
    anna = member(net, "anna", HERE, Action.PUBLISH)
    rule = COARSE + 'not prefix(world.client-address, "10.1.")'
    near = reader(net, rule, "near", remote="10.1.2.3")
    far = reader(net, rule, "far", remote="192.0.2.1")
    unknown = reader(net, rule, "unknown")
    publish(anna, anna.advertise(), "A")
    assert [seen(one) for one in (near, far, unknown)] == [["Soho"], ["S"], [None]]


def test_a_function_is_asked_when_a_right_is_decided_and_again_after_its_time() -> None:
    sites: dict[object, object] = {"10.1.2.3": "ward"}
    asked: list[object] = []

    def find(key: object) -> object:
        asked.append(key)
        return sites.get(key)

    net = Net()
    function = WorldFunction(
        net.cast.owner.principal,
        AttributeUid("site"),
        AttributeUid("client-address"),
        find,  # type: ignore[arg-type]
        5.0,
    )
    net.broker(THERE, functions=(function,))
    anna = member(net, "anna", THERE, Action.PUBLISH)
    ref, rule = anna.advertise(), COARSE + 'not world.site == "ward"'
    near = reader(net, rule, "near", remote="10.1.2.3")
    far = reader(net, rule, "far", remote="192.0.2.1")
    publish(anna, ref, "A")
    publish(anna, ref, "B")
    assert (seen(near), seen(far)) == (["Soho"] * 2, [None] * 2), "what a function does not know is unknown"
    assert len(asked) <= 4, "once for a decision, and not for an event"
    sites["10.1.2.3"] = "street"
    net.advance(6)
    publish(anna, ref, "C")
    assert seen(near) == ["S"]


def test_a_function_is_for_the_rules_of_its_own_issuer() -> None:
    net = Net()
    other = key_of("other").principal
    function = WorldFunction(other, AttributeUid("site"), AttributeUid("client-address"), lambda _: "x", 5.0)
    net.broker(THERE, functions=(function,))
    anna = member(net, "anna", THERE, Action.PUBLISH)
    client = reader(net, COARSE + 'world.site == "x"', remote="10.1.2.3")
    publish(anna, anna.advertise(), "A")
    assert seen(client) == [None]


def test_the_time_decides_again_by_itself(net: Net) -> None:
    net.advance(60 - net.now % (60 * SECOND) / SECOND - 5)
    minute = net.now // (60 * SECOND) % 1440
    anna = member(net, "anna", HERE, Action.PUBLISH)
    ref = anna.advertise()
    client = reader(net, COARSE + f"world.time-minute-utc <= {minute}")
    publish(anna, ref, "before")
    net.advance(10)
    publish(anna, ref, "after")
    assert seen(client) == ["S", "Soho"]
