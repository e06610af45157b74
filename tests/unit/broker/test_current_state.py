"""B9: a subscriber that asks is told what publishers said last, as far as it may see it now."""

from __future__ import annotations

import pytest

from maia.broker.links.transit import Transit
from maia.broker.log.retained import FRAMES_MAX, RetainedFrame, RetainedFrames
from maia.credentials import SigningKey
from maia.events import Frame, Instant
from maia.predicates import Comparison, Operator
from maia.routing.table.hops import LOCAL
from maia.wire.messages import AskState, Deliver, StateQuery, StateTold
from support.numberplate import LOCATION, NOW, NUMBERPLATE, Net, sighting


@pytest.fixture
def net() -> Net:
    """Three brokers in a row, however their keys place them on the ring."""
    net = Net()
    net.broker()
    net.broker("Met broker", seeds=["CCS broker"])
    net.broker("third broker", seeds=["CCS broker", "Met broker"])
    return net


def asks(client, **changes) -> int:
    """Subscribe and ask for the state; return the subscription's reference."""
    ref = client.subscribe(**changes)
    client.say(AskState(5000 + ref, ref))
    return ref


def seen(client, ref) -> list[object]:
    return [event[NUMBERPLATE] for event in client.events(ref)]


def queries(net: Net) -> int:
    return sum(isinstance(message, StateQuery) for _, _, message in net.carried)


def test_a_latecomer_at_the_publishers_broker_hears_the_last_publication(net: Net) -> None:
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    camera.publish(ref, sighting("first"))
    camera.publish(ref, sighting("second"))
    billing = net.client("billing office")
    assert seen(billing, asks(billing)) == ["second"]
    assert billing.last(StateTold).is_whole


@pytest.mark.parametrize("at", ["Met broker", "third broker"])
def test_a_latecomer_at_another_broker_hears_it_too(net: Net, at: str) -> None:
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("last word"))
    billing = net.client("billing office", at=at)
    assert seen(billing, asks(billing)) == ["last word"]
    assert billing.last(StateTold).is_whole


def test_a_publication_that_the_broker_saw_and_forgot_is_told_again(net: Net) -> None:
    """What was here before is no news to the network, and news to the latecomer."""
    camera = net.client("camera at Victoria")
    first = net.client("billing office", at="Met broker")
    first.subscribe()
    camera.publish(camera.advertise(), sighting("last word"))
    first.hang_up()
    second = net.client("billing office", at="Met broker")
    assert seen(second, asks(second)) == ["last word"]


def test_whoever_does_not_ask_is_told_nothing_old(net: Net) -> None:
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("old"))
    billing = net.client("billing office", at="Met broker")
    assert seen(billing, billing.subscribe()) == []


def test_the_state_is_seen_through_the_subscribers_view_and_filter(net: Net) -> None:
    """E3: attributes without right are not delivered, old or new."""
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("LC04 ABC"))
    billing = net.client("billing office", at="Met broker")
    asks(billing)
    assert all(event.get(LOCATION) is None for event in billing.events())
    assert seen(billing, 1) == ["LC04 ABC"]
    other = asks(billing, filter=Comparison(NUMBERPLATE, Operator.EQ, "another car"))
    assert seen(billing, other) == []


def test_news_follow_the_state_and_nothing_comes_twice(net: Net) -> None:
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    camera.publish(ref, sighting("state"))
    billing = net.client("billing office", at="third broker")
    subscription = asks(billing)
    camera.publish(ref, sighting("news"))
    assert seen(billing, subscription) == ["state", "news"]


def test_with_nobody_publishing_the_answer_is_nothing_and_whole(net: Net) -> None:
    billing = net.client("billing office", at="Met broker")
    assert seen(billing, asks(billing)) == []
    assert billing.last(StateTold).is_whole


def test_the_second_question_is_answered_from_the_cache_of_the_tree(net: Net) -> None:
    """Dissertation 6.3.2: brokers on the tree cache the last publication, and keep it current."""
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    camera.publish(ref, sighting("one"))
    first = net.client("billing office", at="third broker")
    asks(first)
    asked = queries(net)
    camera.publish(ref, sighting("two"))
    second = net.client("billing office", at="third broker")
    assert seen(second, asks(second)) == ["two"]
    assert queries(net) == asked


def test_a_cache_is_believed_for_one_lease(net: Net) -> None:
    camera = net.client("camera at Victoria")
    published = camera.advertise()
    camera.publish(published, sighting("one"))
    first = net.client("billing office", at="third broker")
    ref = asks(first)
    asked = queries(net)
    for _ in range(3):
        net.advance(net.brokers["third broker"].settings.lease_s / 2)
        first.subscribe(ref=ref)
        camera.advertise(ref=published)
    again = net.client("billing office", at="third broker")
    asks(again)
    assert queries(net) > asked


def test_a_cache_that_something_may_have_passed_by_is_not_believed(net: Net) -> None:
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    camera.publish(ref, sighting("one"))
    first = net.client("billing office", at="third broker")
    asks(first)
    first.hang_up()
    camera.publish(ref, sighting("two"))  # nobody there wants it, so it does not come by
    second = net.client("billing office", at="third broker")
    assert seen(second, asks(second)) == ["two"]


def test_each_publisher_has_a_last_word(net: Net) -> None:
    victoria, hyde_park = (
        net.client("camera at Victoria"),
        net.client("camera at Victoria", at="third broker"),
    )
    hyde_park.stream = b"another stream.."
    victoria.publish(victoria.advertise(), sighting("by one"))
    hyde_park.publish(hyde_park.advertise(), sighting("by the other"))
    billing = net.client("billing office", at="Met broker")
    assert sorted(seen(billing, asks(billing))) == ["by one", "by the other"]


def test_the_last_word_outlives_the_publishers_connection(net: Net) -> None:
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("last word"))
    camera.hang_up()
    billing = net.client("billing office")
    assert seen(billing, asks(billing)) == ["last word"]


def test_a_broker_that_does_not_answer_delays_and_is_reported(net: Net) -> None:
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("one"))
    billing = net.client("billing office", at="third broker")
    billing.subscribe()
    net.brokers["CCS broker"].alive = False  # it hears nothing more, and nobody knows
    net.brokers["Met broker"].alive = False
    billing.say(AskState(9, 1))
    assert billing.all_heard(StateTold) == []
    net.advance(4)
    assert billing.last(StateTold) == StateTold(9, is_whole=False)


def test_a_reference_that_does_not_stand_is_refused(net: Net) -> None:
    billing = net.client("billing office")
    billing.say(AskState(9, 77))
    assert billing.code_of(9) == "INPUT-UNKNOWN-REF"


# ------------------------------------------------------------ what is remembered is bounded


def frame(number: int, sequence: int = 0) -> RetainedFrame:
    publisher = SigningKey.from_seed(b"p" * 32).principal
    stream = number.to_bytes(16, "big")
    return RetainedFrame(Transit(b"t" * 32, publisher, stream, sequence, int(NOW), Frame(1, {})), NOW, LOCAL)


def test_the_oldest_words_are_forgotten_first():
    cache = RetainedFrames()
    for number in range(FRAMES_MAX + 10):
        cache.remember([frame(number)])
    streams = {int.from_bytes(stream, "big") for _, stream, _ in cache.of_type(b"t" * 32)}
    assert len(cache) == FRAMES_MAX
    assert streams == set(range(10, FRAMES_MAX + 10))


def test_an_earlier_frame_never_replaces_a_later_one():
    """S16: whoever answers first does not win with an old word."""
    cache = RetainedFrames()
    cache.remember([frame(1, sequence=5)])
    cache.remember([frame(1, sequence=4)])
    assert [said.frame.sequence for _, _, said in cache.of_type(b"t" * 32)] == [5]


def test_what_is_forgotten_makes_a_type_incomplete():
    cache = RetainedFrames()
    cache.remember([frame(1)])
    cache.complete(b"t" * 32, Instant(NOW + 1))
    assert cache.is_complete(b"t" * 32, NOW)
    cache.forget(b"t" * 32, SigningKey.from_seed(b"p" * 32).principal.key, (1).to_bytes(16, "big"))
    assert not cache.is_complete(b"t" * 32, NOW)
    assert len(cache) == 0


def test_deliveries_of_the_state_look_like_all_others(net: Net) -> None:
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("a"), sighting("b"))
    billing = net.client("billing office", at="Met broker")
    ref = asks(billing)
    assert billing.last(Deliver).refs == [ref]
    assert seen(billing, ref) == ["a", "b"]
