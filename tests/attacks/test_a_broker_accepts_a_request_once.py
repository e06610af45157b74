"""Requests and publications are accepted once: inside the window, outside of it, and after a restart."""

from __future__ import annotations

import pytest

from maia.broker import BrokerLimits
from maia.broker.rights.replay_journal import KEPT_REQUESTS
from maia.credentials import Action
from maia.events import SECOND, Instant
from support.numberplate import NOW, Net, sighting


@pytest.fixture
def net() -> Net:
    net = Net(skew_s=30)
    net.broker()
    return net


def test_a_request_is_accepted_once(net: Net) -> None:
    """A65: the same bytes again, on the same link and on another."""
    billing = net.client("billing office")
    request = billing.request(Action.SUBSCRIBE)
    assert billing.was_accepted(billing.subscribe(request=request))
    assert billing.code_of(billing.subscribe(request=request)) == "REQUEST-REPLAYED"
    again = net.client("billing office")
    assert again.code_of(again.subscribe(request=request)) == "REQUEST-REPLAYED"


def test_a_request_that_was_refused_is_not_received_again(net: Net) -> None:
    """A65: a refusal uses the request up as well, on disk too."""
    billing = net.client("billing office")
    request = billing.request(Action.SUBSCRIBE)
    assert billing.code_of(billing.subscribe(request=request, definitions=[])) == "TYPE-UNKNOWN"
    assert billing.code_of(billing.subscribe(request=request)) == "REQUEST-REPLAYED"
    net.restart("CCS broker")
    again = net.client("billing office")
    assert again.code_of(again.subscribe(request=request)) == "REQUEST-REPLAYED"


def test_a_request_is_not_received_again_after_a_restart(net: Net) -> None:
    """A65: the memory was on disk before the answer was given."""
    billing = net.client("billing office")
    requests = [billing.request(Action.SUBSCRIBE) for _ in range(150)]
    for request in requests:
        assert billing.was_accepted(billing.subscribe(request=request))
    for _ in range(2):
        net.restart("CCS broker")
        again = net.client("billing office")
        for request in (requests[0], requests[70], requests[149]):
            assert again.code_of(again.subscribe(request=request)) == "REQUEST-REPLAYED"
        assert again.was_accepted(again.subscribe())


def test_a_renewal_of_everything_brings_back_nothing_that_has_ended(net: Net) -> None:
    """A65: it is not signed, and needs not be: said late, twice or by another it renews nothing."""
    billing, camera = net.client("billing office"), net.client("camera at Victoria")
    request = billing.request(Action.SUBSCRIBE)
    asked = {billing.subscribe(request=request): request}
    for other in (net.client("billing office"), net.client("Detective Smith")):
        assert other.code_of(other.renew_all(asked)) == "UNAVAILABLE-ENTRIES-DIFFER"
    net.advance(61)
    assert billing.ended_with(min(asked)) == "UNAVAILABLE-LEASE-ENDED"
    assert billing.code_of(billing.renew_all(asked)) == "UNAVAILABLE-ENTRIES-DIFFER"
    camera.publish(camera.advertise(), sighting())
    assert billing.events() == []


@pytest.mark.parametrize("seconds", [-31, 31])
def test_outside_the_window_the_time_stamp_refuses(net: Net, seconds: int) -> None:
    """A78: just outside, on either side."""
    billing = net.client("billing office")
    ref = billing.subscribe(at=Instant(NOW + seconds * SECOND))
    assert billing.code_of(ref) in {"REQUEST-TOO-LATE", "REQUEST-TOO-EARLY"}


@pytest.mark.parametrize("seconds", [-30, 30])
def test_inside_the_window_clocks_may_differ(net: Net, seconds: int) -> None:
    """A78: just inside, on either side."""
    billing = net.client("billing office")
    assert billing.was_accepted(billing.subscribe(at=Instant(NOW + seconds * SECOND)))


def test_a_clock_that_steps_back_brings_nothing_back(net: Net) -> None:
    """A78: what was forgotten stays refused."""
    billing = net.client("billing office")
    request = billing.request(Action.SUBSCRIBE)
    billing.subscribe(request=request)
    net.now = Instant(NOW + 120 * SECOND)
    billing.subscribe()
    net.now = NOW
    assert billing.code_of(billing.subscribe(request=request)) in {"REQUEST-STALE", "REQUEST-REPLAYED"}


def test_a_broken_memory_receives_nothing_from_before_the_start(net: Net) -> None:
    """A65, A81: a memory that cannot be read refuses what it might have held."""
    billing = net.client("billing office")
    request = billing.request(Action.SUBSCRIBE)
    billing.subscribe(request=request)
    running = net.brokers["CCS broker"]
    for name in [name for name in running.kept if name.startswith(KEPT_REQUESTS)]:
        running.kept[name] = b"rubbish"
    net.now = Instant(NOW + SECOND)
    net.restart("CCS broker")
    assert running.noted("kept-dropped")
    again = net.client("billing office")
    assert again.code_of(again.subscribe(request=request)) == "REQUEST-STALE"
    net.now = Instant(NOW + 2 * SECOND)
    assert again.was_accepted(again.subscribe())


def test_old_memory_is_dropped_from_disk(net: Net) -> None:
    """A82: what time alone refuses needs no place."""
    billing = net.client("billing office")
    for _ in range(130):
        billing.subscribe()
    kept = net.brokers["CCS broker"].kept
    assert sum(name.startswith(KEPT_REQUESTS) for name in kept) == 3
    net.now = Instant(NOW + 100 * SECOND)
    client = net.client("billing office")
    client.subscribe()
    assert sum(name.startswith(KEPT_REQUESTS) for name in kept) == 1


def test_no_peer_uses_up_the_number_of_another_publisher(net: Net) -> None:
    """A66: the same stream and number under another key is another publication."""
    camera, ccs = net.client("camera at Victoria"), net.client("CCS")
    billing = net.client("billing office")
    billing.subscribe()
    ccs.stream = camera.stream
    ccs.publish(ccs.advertise(), sighting("FIRST"), sequence=0)
    camera.publish(camera.advertise(), sighting("SECOND"), sequence=0)
    assert len(billing.events()) == 2


def test_a_publication_is_recognised_after_a_restart(net: Net) -> None:
    """A65: the memory of publications is kept when a broker is stopped."""
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    billing.subscribe()
    camera.publish(camera.advertise(), sighting(), sequence=3)
    net.drain("CCS broker")
    net.restart("CCS broker")
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    billing.subscribe()
    ref = camera.advertise()
    camera.publish(ref, sighting(), sequence=3)
    camera.publish(ref, sighting(), sequence=4)
    assert len(billing.events()) == 1


def test_the_memory_has_a_limit_and_then_refuses() -> None:
    """A65, A74: nothing inside the window is forgotten to make room."""
    net = Net(limits=BrokerLimits(requests_remembered=3))
    net.broker()
    billing = net.client("billing office")
    request = billing.request(Action.SUBSCRIBE)
    assert billing.was_accepted(billing.subscribe(request=request))
    for _ in range(2):
        billing.subscribe()
    assert billing.code_of(billing.subscribe()) == "UNAVAILABLE-REPLAY-MEMORY-FULL"
    assert billing.code_of(billing.subscribe(request=request)) == "REQUEST-REPLAYED"
