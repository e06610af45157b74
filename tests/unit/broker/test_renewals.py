"""One message renews all that a client has on a link, and nothing else."""

from __future__ import annotations

import pytest

from maia.broker import BrokerLimits
from maia.credentials import Action
from maia.predicates import Comparison, Operator
from maia.testing import NetClient
from support.numberplate import NUMBERPLATE, Net, sighting

LEASE_S = 60


@pytest.fixture
def net() -> Net:
    net = Net(lease_s=LEASE_S)
    net.broker()
    return net


def subscribed(client: NetClient, how_many: int = 3) -> dict[int, bytes]:
    """Let somebody subscribe so many times; return the requests by their references."""
    filters = [Comparison(NUMBERPLATE, Operator.EQ, f"plate {number}") for number in range(how_many)]
    requests = [client.request(Action.SUBSCRIBE, one) for one in filters]
    return {client.subscribe(request=request): request for request in requests}


def test_all_that_stands_lives_on_for_as_long_as_it_is_renewed(net: Net) -> None:
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    asked = subscribed(billing)
    for _ in range(5):
        net.advance(LEASE_S / 2)
        assert billing.was_accepted(billing.renew_all(asked))
    camera.publish(camera.advertise(), sighting("plate 2"))
    assert len(billing.events()) == 1
    net.advance(LEASE_S + 1)
    assert {billing.ended_with(ref) for ref in asked} == {"UNAVAILABLE-LEASE-ENDED"}


def test_advertisements_are_renewed_too(net: Net) -> None:
    camera = net.client("camera at Victoria")
    request = camera.request(Action.PUBLISH)
    ref = camera.advertise(request=request)
    for _ in range(3):
        net.advance(LEASE_S / 2)
        assert camera.was_accepted(camera.renew_all({ref: request}))
    assert camera.ended_with(ref) is None


@pytest.mark.parametrize("difference", ["one less", "one more", "another request", "another number"])
def test_whoever_counts_otherwise_renews_nothing(net: Net, difference: str) -> None:
    billing = net.client("billing office")
    asked = subscribed(billing)
    last = max(asked)
    told = {
        "one less": {ref: request for ref, request in asked.items() if ref != last},
        "one more": asked | {last + 1: asked[last]},
        "another request": asked | {last: asked[last] + b" "},
        "another number": asked,
    }[difference]
    net.advance(LEASE_S / 2)
    changes = {"entries": 7} if difference == "another number" else {}
    assert billing.code_of(billing.renew_all(told, **changes)) == "UNAVAILABLE-ENTRIES-DIFFER"
    net.advance(LEASE_S / 2 + 1)
    assert {billing.ended_with(ref) for ref in asked} == {"UNAVAILABLE-LEASE-ENDED"}


def test_what_has_changed_since_the_last_renewal_of_all_counts_in_the_next_one(net: Net) -> None:
    billing = net.client("billing office")
    asked = subscribed(billing)
    assert billing.was_accepted(billing.renew_all(asked))
    before, (first, second, _) = dict(asked), asked
    asked[first] = billing.request(Action.SUBSCRIBE, Comparison(NUMBERPLATE, Operator.EQ, "another"))
    billing.subscribe(request=asked[first], ref=first)
    assert billing.code_of(billing.renew_all(before)) == "UNAVAILABLE-ENTRIES-DIFFER"
    assert billing.was_accepted(billing.renew_all(asked))
    billing.withdraw(second)
    assert billing.code_of(billing.renew_all(asked)) == "UNAVAILABLE-ENTRIES-DIFFER"
    del asked[second]
    assert billing.was_accepted(billing.renew_all(asked))


def test_a_renewal_of_many_counts_for_several_requests() -> None:
    net = Net(lease_s=LEASE_S, limits=BrokerLimits(requests_per_minute=200))
    net.broker()
    billing = net.client("billing office")
    asked = subscribed(billing, 130)
    codes = [billing.code_of(billing.renew_all(asked)) for _ in range(40)]
    assert codes[0] is None
    assert codes.index("UNAVAILABLE-REQUEST-QUOTA") <= 70 // 3 + 1
