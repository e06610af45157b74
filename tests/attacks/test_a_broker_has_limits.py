"""No peer makes a broker hold more than it was told to hold."""

from __future__ import annotations

from maia.broker import BrokerLimits
from maia.credentials import SigningKey
from maia.events import SECOND, Instant
from maia.predicates import AnyOf, Comparison, Membership, Operator
from maia.wire.effects import LinkId, LinkOpened
from maia.wire.messages import Accepted, Deliver
from support.numberplate import NOW, NUMBERPLATE, Net, sighting


def test_churn_has_a_quota() -> None:
    """A77: subscribing and unsubscribing by turns is slowed down, on every link of the principal."""
    net = Net(limits=BrokerLimits(requests_per_minute=6))
    net.broker()
    billing = net.client("billing office")
    for _ in range(3):
        billing.withdraw(billing.subscribe())
    assert billing.code_of(billing.subscribe()) == "UNAVAILABLE-REQUEST-QUOTA"
    other = net.client("billing office")
    assert other.code_of(other.subscribe()) == "UNAVAILABLE-REQUEST-QUOTA"
    somebody_else = net.client("statistics office")
    assert somebody_else.was_accepted(somebody_else.subscribe())
    net.now = Instant(NOW + 11 * SECOND)
    assert other.was_accepted(other.subscribe())
    assert other.code_of(other.subscribe()) == "UNAVAILABLE-REQUEST-QUOTA"


def test_a_new_connection_does_not_renew_the_quota() -> None:
    """A77: the quota belongs to the principal."""
    net = Net(limits=BrokerLimits(requests_per_minute=1))
    net.broker()
    first = net.client("billing office")
    first.subscribe()
    first.hang_up()
    second = net.client("billing office")
    assert second.code_of(second.subscribe()) == "UNAVAILABLE-REQUEST-QUOTA"


def test_half_open_connections_do_not_keep_the_others_out() -> None:
    """A74 A88: those that never say hello are few, the oldest make room, and all go away by themselves."""
    net = Net(limits=BrokerLimits(links_before_welcome=3, handshake_s=5))
    net.broker()
    camera = net.client("camera at Victoria")
    silent = [net.client("billing office", says_hello=False) for _ in range(5)]
    assert [one.closed for one in silent] == [True] * 2 + [False] * 3
    assert not camera.closed
    net.advance(6)
    assert all(one.closed for one in silent)
    assert not net.client("billing office").closed


def test_a_thousand_connections_leave_nothing_behind() -> None:
    """A74: what a connection cost is given back when it ends."""
    net = Net(limits=BrokerLimits(links=10, handshake_s=1))
    running = net.broker()
    key = SigningKey.from_seed(b"\x0e" * 32).principal
    for number in range(100, 1100):
        net.happen(running, LinkOpened(LinkId(number), key, None))
    net.settle()
    net.advance(2)
    assert running.broker.status(net.now)["clients"] == 0
    assert len(running.parts.timers) < 50


def test_very_many_filters_of_one_client_are_bounded() -> None:
    """A76: at the limit, and one beyond it."""
    net = Net(limits=BrokerLimits(subscriptions_per_client=50))
    net.broker()
    billing = net.client("billing office")
    for number in range(51):
        billing.subscribe(Comparison(NUMBERPLATE, Operator.EQ, f"P{number}"))
    assert len(billing.all_heard(Accepted)) == 50


def test_a_filter_too_long_to_be_told_is_still_kept() -> None:
    """A64, A76: a long list of plates is matched here; other brokers are asked for everything."""
    net = Net()
    net.broker("PITO broker")
    net.broker("CCS broker", seeds=["PITO broker"])
    camera, billing = net.client("camera at Victoria", "PITO broker"), net.client("billing office")
    plates = frozenset(f"PLATE {number:05}" for number in range(3000))
    half = sorted(plates)[1500:]
    wanted = AnyOf((Membership(NUMBERPLATE, plates - set(half)), Membership(NUMBERPLATE, frozenset(half))))
    assert billing.was_accepted(billing.subscribe(wanted))
    camera.publish(camera.advertise(), sighting("PLATE 00007"), sighting("PLATE 99999"), sighting(half[0]))
    assert [event[NUMBERPLATE] for event in billing.events()] == ["PLATE 00007", half[0]]


def test_order_of_streams_is_remembered_within_a_limit() -> None:
    """A76: very many streams push out the oldest, and nothing grows."""
    net = Net(limits=BrokerLimits(streams=4))
    running = net.broker()
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    billing.subscribe()
    for number in range(10):
        camera.stream = number.to_bytes(16, "big")
        camera.publish(camera.advertise(), sighting(), sequence=0)
    assert len(billing.all_heard(Deliver)) == 10
    assert running.broker.status(net.now)["streams"] == 4
