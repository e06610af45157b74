"""No peer says anything to a broker before both sides have proved their right to connect."""

from __future__ import annotations

import pytest

from maia.broker import Broker, BrokerSettings
from maia.credentials import NetworkName, SigningKey
from maia.errors import MaiaError
from maia.testing import random_from, shown
from maia.wire.codec import encode
from maia.wire.effects import Close, LinkId, LinkOpened, Received, Send
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Accepted,
    Advertise,
    Announce,
    Author,
    Carried,
    CarriedSigned,
    CarriedWithAuthor,
    Deliver,
    FindClosest,
    FrameSignature,
    Greeting,
    Hello,
    Identify,
    Interest,
    Message,
    NodeRecord,
    Nodes,
    Offer,
    Ping,
    Publish,
    Published,
    Renew,
    RenewAll,
    Replica,
    Resync,
    ShownRight,
    Subscribe,
    TypeQuery,
    Welcome,
    Withdraw,
)
from maia.wire.names import network_to_bytes
from support.numberplate import NOW, Net, sighting

KEY, TOKEN, DIGEST = b"k" * 32, b"t" * 16, b"d" * 32

BROKER_ONLY: list[Message] = [
    Carried(DIGEST, KEY, TOKEN, 1, int(NOW), 1, [], []),
    FindClosest(1, TOKEN),
    Nodes(1, []),
    Announce(NodeRecord(KEY, "a:1"), alive=True),
    Interest(DIGEST, [], []),
    Offer(DIGEST, True, None, []),
    Renew(0, DIGEST),
    Resync(),
    Replica(DIGEST, NodeRecord(KEY, "a:1"), [], False),
    Accepted(1, None),  # brokers answer each other's identity statements with it
    CarriedWithAuthor(DIGEST, KEY, TOKEN, 1, int(NOW), 1, [], [], Author(b"", b"")),
    CarriedSigned(
        DIGEST,
        KEY,
        TOKEN,
        1,
        int(NOW),
        1,
        [],
        [],
        None,
        None,
        None,
        FrameSignature(KEY, DIGEST, int(NOW), b"s" * 64, 0, []),
    ),
    ShownRight(DIGEST, KEY, KEY, b"", []),
]
TOO_SOON: list[Message] = [
    Subscribe(1, b"", [], []),
    Advertise(1, b"", [], []),
    Withdraw(1, 1),
    RenewAll(1, 0, DIGEST),
    Withdraw(1, 1, True),
    Publish(1, 1, int(NOW), 1, []),
    TypeQuery(1, b""),
    Ping(1),
    Welcome(60),
    *BROKER_ONLY,
]
NEVER_TO_A_BROKER: list[Message] = [
    Published(1, 1, 0),
    Deliver([1], KEY, TOKEN, TOKEN, int(NOW), 1, []),
]


def name(message: Message) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", TOO_SOON, ids=name)
def test_nothing_is_accepted_before_the_handshake_ends(message: Message) -> None:
    """A11: any message before the hello ends the link, and changes nothing."""
    net = Net()
    running = net.broker()
    client = net.client("camera at Victoria", says_hello=False)
    client.say(message)
    assert client.bye == "PROTOCOL-OUT-OF-TURN"
    client.hello()
    assert not client.all_heard(Welcome)
    status = running.broker.status(net.now)
    assert (status["subscriptions"], status["advertisements"], status["peers"]) == (0, 0, 0)


def test_one_identity_statement_before_the_hello_admits_no_peer_and_a_second_ends_the_link() -> None:
    """A11, A96: another broker may show its statement first; what cannot be believed counts as none."""
    net = Net()
    running = net.broker()
    client = net.client("camera at Victoria", says_hello=False)
    client.say(Identify(1, b"statement"))
    assert not client.all_heard(Welcome)
    assert running.broker.status(net.now)["peers"] == 0
    client.say(Identify(2, b"statement"))
    assert client.bye == "PROTOCOL-OUT-OF-TURN"


@pytest.mark.parametrize("message", [*TOO_SOON, Identify(1, b"statement")], ids=name)
def test_a_broker_that_dials_receives_nothing_but_a_greeting(message: Message) -> None:
    """A11, A19: a peer that answers proves itself first, or receives no hello."""
    net = Net()
    running = net.broker()
    stranger = SigningKey.from_seed(b"\x09" * 32).principal
    running.broker.handle(LinkOpened(LinkId(77), stranger, "elsewhere:1"), NOW)
    effects = running.broker.handle(Received(LinkId(77), encode(message)), NOW)
    assert Close(LinkId(77), "PROTOCOL-OUT-OF-TURN") in effects
    hello = [one for one in effects if isinstance(one, Send) and one.data[1:2] == b"\x02"]
    assert hello == []


@pytest.mark.parametrize("message", BROKER_ONLY, ids=name)
def test_a_client_does_not_act_as_a_broker(message: Message) -> None:
    """A68: what brokers say to each other, a client loses its link for."""
    net = Net()
    net.broker()
    client = net.client("camera at Victoria")
    client.say(message)
    assert client.bye == "PROTOCOL-BROKERS-ONLY"


@pytest.mark.parametrize("message", NEVER_TO_A_BROKER, ids=name)
def test_what_only_a_broker_says_to_clients_is_not_received_from_them(message: Message) -> None:
    """A68: answers and deliveries go one way."""
    net = Net()
    net.broker()
    client = net.client("camera at Victoria")
    client.say(message)
    assert client.bye == "PROTOCOL-OUT-OF-TURN"


def test_a_broker_does_not_act_as_a_client() -> None:
    """A15: a broker makes no requests of its own, so it cannot make one for another peer either."""
    net = Net()
    net.broker()
    key = SigningKey.from_seed(b"\x0a" * 32)
    peer = net.client("a broker", key=key, credentials=(net.cast.broker_right(key),), address="peer:1")
    camera = net.cast.keys["camera at Victoria"]
    peer.advertise(signed_by=camera, credentials=net.cast.certificates)
    assert peer.bye == "PROTOCOL-CLIENTS-ONLY"


def test_another_network_cannot_be_named_in_the_handshake() -> None:
    """A12: neither another name nor the same name of another coordinator."""
    for other in (
        NetworkName(Net().cast.network.owner, "UK Fire Network"),
        NetworkName(SigningKey.from_seed(b"\x0b" * 32).principal, Net().cast.network.name),
    ):
        net = Net()
        net.broker()
        client = net.client("camera at Victoria", says_hello=False)
        client.hello(network=network_to_bytes(other))
        assert client.bye == "PROTOCOL-WRONG-NETWORK"


def test_rights_on_another_network_open_nothing_here() -> None:
    """A12, A22: a connect right is for one network."""
    net = Net()
    key = SigningKey.from_seed(b"\x0c" * 32)
    elsewhere = NetworkName(net.cast.network.owner, "UK Fire Network")
    running = Broker(
        net.cast.keys["CCS broker"],
        BrokerSettings(elsewhere, "x:1", net.cast.wallets["CCS broker"]),
        random=random_from(b"r"),
    )
    running.start(NOW)
    running.handle(LinkOpened(LinkId(1), key.principal, None), NOW)
    hello = Hello(
        PROTOCOL_VERSION,
        network_to_bytes(elsewhere),
        shown((net.cast.broker_right(key),)),
        TOKEN,
        None,
    )
    effects = running.handle(Received(LinkId(1), encode(hello)), NOW)
    (closed,) = [effect for effect in effects if isinstance(effect, Close)]
    assert closed.code.startswith("POLICY-")


def test_a_session_is_not_taken_over() -> None:
    """A13: a second link of the same principal, or of another one, has nothing of the first."""
    net = Net()
    running = net.broker()
    camera = net.client("camera at Victoria")
    billing = net.client("billing office")
    billing.subscribe()
    ref = camera.advertise()
    for who in ("camera at Victoria", "Detective Smith"):
        other = net.client(who)
        other.publish(ref, sighting())
        assert other.ended_with(ref) == "INPUT-UNKNOWN-REF"
        other.withdraw(ref)
        assert other.code_of(1000 + ref) == "INPUT-UNKNOWN-REF"
    assert billing.events() == []
    camera.publish(ref, sighting())
    assert len(billing.events()) == 1
    assert running.broker.status(net.now)["advertisements"] == 1


def test_a_hello_with_the_token_of_another_session_is_a_session_of_its_own() -> None:
    """A13: the instance is a hint to recognise restarts of brokers, and gives a client nothing."""
    net = Net()
    net.broker()
    billing = net.client("billing office")
    ref = billing.subscribe()
    thief = net.client("Detective Smith", says_hello=False)
    thief.hello(instance=billing.last(Greeting).instance)
    thief.withdraw(ref)
    assert thief.code_of(1000 + ref) == "INPUT-UNKNOWN-REF"
    assert not billing.closed


def test_a_broker_does_not_talk_to_itself() -> None:
    """A16: its own greeting is not reflected into a connection with itself."""
    net = Net()
    running = net.broker()
    effects = running.broker.handle(LinkOpened(LinkId(70), running.key.principal, "mirror:1"), NOW)
    assert any(isinstance(effect, Close) for effect in effects)


def test_a_greeting_is_not_reflected_as_a_hello() -> None:
    """A16: what a broker shows of itself proves nothing about a peer that repeats it."""
    net = Net()
    net.broker()
    key = SigningKey.from_seed(b"\x0d" * 32)
    client = net.client("mirror", key=key, credentials=(), says_hello=False)
    client.hello(credentials=client.last(Greeting).credentials)
    assert client.bye == "POLICY-NO-CHAIN"


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x91\x63", b"\xc1" * 100, b"\xdd\xff\xff\xff\xff"])
def test_bytes_that_are_no_message_end_the_link(data: bytes) -> None:
    """A74, A75: before the hello and after it."""
    net = Net()
    running = net.broker()
    for says_hello in (False, True):
        client = net.client("camera at Victoria", says_hello=says_hello)
        client.say_bytes(data)
        assert client.closed
    assert running.broker.status(net.now)["clients"] == 0


def test_a_hello_full_of_rubbish_ends_in_one_of_our_errors() -> None:
    """A10, A74: empty, broken and very many certificates."""
    net = Net()
    net.broker()
    for credentials in ([b""], [b"(4:junk)"] * 256, [shown(net.cast.certificates)[0][:-1]]):
        client = net.client("camera at Victoria", says_hello=False)
        client.hello(credentials=credentials)
        assert client.closed
        assert client.bye is not None


def test_a_refused_certificate_is_not_remembered_as_good() -> None:
    """A19: no silent fallback: the same hello is refused every time."""
    net = Net()
    net.broker()
    forged = shown(net.cast.certificates)
    forged = [one[:-10] + bytes(8) + one[-2:] for one in forged]
    for _ in range(2):
        client = net.client("camera at Victoria", says_hello=False)
        client.hello(credentials=forged)
        assert client.closed
        assert not client.all_heard(Welcome)


def test_settings_that_cannot_be_kept_are_refused() -> None:
    """A42: no broker starts with half a configuration."""
    net = Net()
    for changes in ({"verify_in_transit": 1.5}, {"lease_s": 0}, {"skew_s": -1}):
        with pytest.raises(MaiaError):
            net.broker(**changes)
