"""Both sides prove their right to connect before anything else is said."""

from __future__ import annotations

import pytest

from maia.broker import BrokerLimits
from maia.credentials import SigningKey
from maia.events import SECOND, Instant
from maia.wire.codec import encode
from maia.wire.messages import Accepted, Bye, Greeting, Hello, Ping, Pong, Subscribe, Welcome
from support.numberplate import NOW, Net

STRANGER = SigningKey.from_seed(b"\x07" * 32)


def test_a_broker_greets_with_its_network_and_all_its_credentials() -> None:
    net = Net()
    running = net.broker("Met broker")
    client = net.client("Detective Smith", "Met broker", says_hello=False)
    (greeting,) = client.heard
    assert isinstance(greeting, Greeting)
    assert len(greeting.credentials) == len(running.settings.credentials) == 3


def test_a_client_that_may_connect_is_welcomed_with_the_lease() -> None:
    net = Net(lease_s=45)
    net.broker()
    client = net.client("camera at Victoria")
    assert client.last(Welcome) == Welcome(45)
    assert not client.closed


def test_a_stranger_is_told_why_it_is_not_welcome() -> None:
    net = Net()
    running = net.broker()
    client = net.client("stranger", key=STRANGER)
    assert client.bye == "POLICY-NO-CHAIN"
    assert client.closed
    assert running.noted("closing")[0]["code"] == "POLICY-NO-CHAIN"


def test_the_coordinator_needs_no_certificate() -> None:
    net = Net()
    net.broker()
    client = net.client("PITO", credentials=())
    assert client.last(Welcome)


def test_another_version_of_the_protocol_is_refused() -> None:
    net = Net()
    net.broker()
    client = net.client("camera at Victoria", says_hello=False)
    client.hello(version=2)
    assert client.bye == "PROTOCOL-VERSION"


def test_a_handshake_that_takes_too_long_ends() -> None:
    net = Net()
    net.broker(limits=BrokerLimits(handshake_s=5))
    client = net.client("camera at Victoria", says_hello=False)
    net.advance(4.9)
    assert not client.closed
    net.advance(0.2)
    assert client.bye == "UNAVAILABLE-HANDSHAKE-TIME"


def test_a_handshake_within_the_time_is_not_closed_by_the_old_deadline() -> None:
    net = Net()
    net.broker(limits=BrokerLimits(handshake_s=5))
    client = net.client("camera at Victoria")
    net.advance(6)
    assert not client.closed


def test_a_link_ends_with_the_right_to_connect() -> None:
    net = Net()
    net.broker()
    client = net.client("camera at Victoria")
    end = net.cast.certificates[0].certificate.validity.not_after
    assert end is not None
    net.now = Instant(end - 10 * SECOND)
    client.say(Ping(1))
    assert client.last(Pong) == Pong(1)
    net.now = end
    client.say(Ping(2))
    assert client.last(Pong) == Pong(2)
    net.now = Instant(end + 1)
    client.say(Ping(3))
    assert client.bye == "POLICY-EXPIRED"
    assert client.last(Pong) == Pong(2)


def test_a_silent_peer_is_asked_and_then_given_up() -> None:
    net = Net(lease_s=60)
    net.broker()
    client = net.client("camera at Victoria")
    net.advance(59)
    assert not client.all_heard(Ping)  # whoever renews is heard often enough
    net.advance(2)
    assert client.all_heard(Ping)
    net.advance(120)
    assert not client.closed  # it answers
    client.heard.clear()
    net.hears = lambda client, data: client.heard.append(data)  # type: ignore[method-assign]  # deaf
    net.advance(59)
    assert not client.closed
    net.advance(61)
    assert client.closed


@pytest.mark.parametrize("message", [Hello, Greeting, Welcome])
def test_the_handshake_is_made_once(message: type[Hello | Greeting | Welcome]) -> None:
    net = Net()
    net.broker()
    client = net.client("camera at Victoria")
    if message is Hello:
        client.hello()
    else:
        client.say(Welcome(60) if message is Welcome else client.all_heard(Greeting)[0])
    assert client.bye == "PROTOCOL-OUT-OF-TURN"


def test_what_arrives_after_the_end_is_ignored() -> None:
    net = Net()
    running = net.broker()
    client = net.client("camera at Victoria", says_hello=False)
    link = client.link
    client.say(Subscribe(1, b"", [], []))
    assert client.closed
    assert link is not None
    from maia.wire.effects import Received

    assert running.broker.handle(Received(link, encode(Ping(1))), NOW) == []


def test_a_peer_that_says_goodbye_is_let_go() -> None:
    net = Net()
    running = net.broker()
    client = net.client("billing office")
    client.subscribe()
    client.say(Bye("DONE", "the day is over"))
    assert client.closed
    assert running.broker.status(net.now)["subscriptions"] == 0


def test_a_broker_with_too_many_links_takes_no_more() -> None:
    net = Net()
    net.broker(limits=BrokerLimits(links=2))
    first, second = net.client("camera at Victoria"), net.client("billing office")
    third = net.client("statistics office")
    assert (first.closed, second.closed) == (False, False)
    assert third.bye == "UNAVAILABLE-LINKS"
    first.hang_up()
    assert net.client("statistics office").last(Welcome)


def test_a_member_of_a_group_may_connect() -> None:
    """The Met broker's right is given to the group `Met Brokers` (dissertation, table 5.2)."""
    net = Net()
    net.broker("PITO broker")
    running = net.broker("Met broker", seeds=["PITO broker"])
    assert running.broker.status(net.now)["peers"] == 1


def test_an_accepted_subscription_says_until_when() -> None:
    net = Net()
    net.broker()
    client = net.client("billing office")
    client.subscribe()
    assert client.last(Accepted).until == net.cast.certificates[0].certificate.validity.not_after


def test_a_broker_without_right_is_not_welcome() -> None:
    net = Net()
    net.broker("PITO broker")
    lonely = net.broker("Met broker", seeds=["PITO broker"], credentials=())
    assert lonely.broker.status(net.now)["peers"] == 0


def test_a_broker_does_not_show_itself_to_one_without_right() -> None:
    """A19: the side that dials verifies first."""
    net = Net()
    net.broker("PITO broker", credentials=())
    net.broker("Met broker", seeds=["PITO broker"])
    said = [message for source, _, message in net.carried if source == "Met broker"]
    assert not any(isinstance(message, Hello) for message in said)


def test_connect_rights_may_be_given_by_hand() -> None:
    net = Net()
    net.broker()
    client = net.client("stranger", key=STRANGER, credentials=(net.cast.connect_right(STRANGER.principal),))
    assert client.last(Welcome)
