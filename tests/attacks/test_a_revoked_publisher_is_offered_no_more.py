"""A broker goes on offering what a revoked publisher would say; brokers further on know better."""

from __future__ import annotations

import pytest

from maia.credentials import Action, SignedCertificate, SigningKey, TestKind
from maia.events import frame_of
from maia.testing import Issuer, NetClient, shown
from maia.types import type_id
from maia.wire.columns import frame_to_columns
from maia.wire.messages import Carried, Interest, Offer, Ping
from support.numberplate import NUMBERPLATE_KINDS, Net, sighting

EDGE = SigningKey.from_seed(b"\x0f" * 32)
CAMERA = "camera at Victoria"


@pytest.fixture
def net() -> Net:
    net = Net(verify_in_transit=1.0)
    net.broker()
    return net


def the_type(net: Net) -> bytes:
    name = net.cast.type_name
    return type_id(name.owner, name.name)


def dishonest_edge(net: Net) -> NetClient:
    """A broker of which no peer knows that it does not let go of a publisher."""
    credentials = (net.cast.broker_right(EDGE),)
    return net.client("a dishonest edge", key=EDGE, credentials=credentials, address="edge:1")


def vouched_right(net: Net, key: SigningKey) -> SignedCertificate:
    """A right to publish for which CCS has to vouch, again and again."""
    return net.cast.grant("CCS", key.principal, net.cast.definition, Action.PUBLISH, test=TestKind.TIMED_CRL)


def pool(net: Net, key: SigningKey, right: SignedCertificate) -> tuple[SignedCertificate, ...]:
    return net.cast.broker_right(key), net.cast.issued("PITO to CCS", Action.PUBLISH), right


def offer(net: Net, right: SignedCertificate) -> Offer:
    """The camera's own request, which it once made at that edge."""
    key = net.cast.keys[CAMERA]
    shown_with = pool(net, key, right)
    request = NetClient(net, key, shown_with).request(Action.PUBLISH)
    return Offer(the_type(net), True, request, shown(shown_with))


def wanted_there(edge: NetClient) -> int:
    """How many interests the edge was told and has not been told to forget."""
    wanted: set[bytes] = set()
    for one in edge.all_heard(Interest):
        if one.key == the_type(edge.net):
            wanted = (wanted | {entry.id for entry in one.add}) - set(one.remove)
    return len(wanted)


class Town:
    """An office that wants everything, and an edge with one camera behind it, or so it says."""

    def __init__(self, net: Net) -> None:
        self.net, self.issuer = net, Issuer(net, "CCS")
        self.issuer.vouch(3600)
        self.right = vouched_right(net, net.cast.keys[CAMERA])
        self.billing, self.edge = net.client("billing office"), dishonest_edge(net)
        self.billing.subscribe()
        self.edge.heard.clear()
        self.edge.say(offer(net, self.right))

    def believes(self, sequence: int) -> bool:
        """Let the edge send a frame as the camera would, and say whether the office got it."""
        before, publisher = len(self.billing.events()), self.net.cast.principal(CAMERA).key
        columns = frame_to_columns(frame_of([sighting()], NUMBERPLATE_KINDS))
        self.edge.say(
            Carried(the_type(self.net), publisher, b"s" * 16, sequence, int(self.net.now), 1, [], columns)
        )
        return len(self.billing.events()) > before

    def refusals(self) -> list[str]:
        """Return the codes of refused offers; the log says the same once a minute."""
        noted = self.net.brokers["CCS broker"].noted("refused")
        return [str(one["code"]) for one in noted if one.get("asked") == "Offer"]


def test_an_offer_falls_with_the_certificate_of_its_publisher(net: Net) -> None:
    """A35, A67: the edge says nothing of it, and offers the same again; nothing is wanted there any more."""
    town = Town(net)
    assert wanted_there(town.edge) == 1
    town.issuer.revoke(town.right)
    net.advance(3)  # an honest edge shows another proof by now, if there is one
    assert wanted_there(town.edge) == 0
    assert len(town.refusals()) == 1
    counted = net.brokers["CCS broker"].counts["maia_refused_total"]
    town.edge.say(offer(net, town.right))
    assert wanted_there(town.edge) == 0
    assert net.brokers["CCS broker"].counts["maia_refused_total"] == counted + 1


@pytest.mark.parametrize("taken_back", ["never", "before", "after"])
def test_what_a_revoked_publisher_would_say_is_believed_for_two_seconds_and_no_longer(
    net: Net, taken_back: str
) -> None:
    """A35, A67: the edge goes on sending frames; to take the offer back in time wins it nothing."""
    town = Town(net)
    assert town.believes(1)
    back = Offer(the_type(net), False, None, [])
    if taken_back == "before":
        town.edge.say(back)
    town.issuer.revoke(town.right)
    net.advance(1.9)
    assert town.believes(2), "an honest edge may have sent it before it heard"
    if taken_back == "after":
        town.edge.say(back)
    net.advance(0.2)
    assert not town.believes(3)
    net.advance(30)
    assert not town.believes(4)
    assert net.brokers["CCS broker"].counts["maia_frames_refused_total"] == 2


def test_to_let_the_lease_of_an_offer_end_wins_a_revoked_publisher_nothing(net: Net) -> None:
    """A35, A67: who sleeps is believed for a lease when it wakes up, and not on behalf of the revoked."""
    town = Town(net)
    for _ in range(7):
        net.advance(10)
        town.billing.subscribe(ref=1)
        town.edge.say(Ping(1))
    assert wanted_there(town.edge) == 0, "it was not renewed"
    assert town.believes(1)
    running, revoked = net.brokers["CCS broker"], town.issuer.says.revoke(town.right)
    net.perform(running, running.broker.hear([revoked], net.now))  # as when it was fetched
    net.settle().advance(1.9)
    assert town.believes(2)
    net.advance(0.2)
    assert not town.believes(3)


def test_an_offer_stands_while_its_publisher_may_publish(net: Net) -> None:
    """A list that names another peer takes nothing back."""
    town = Town(net)
    town.issuer.revoke(net.cast.issued("CCS to billing office", Action.SUBSCRIBE))
    net.advance(3)
    town.edge.say(offer(net, town.right))
    assert town.refusals() == []


def test_an_offer_on_behalf_of_another_publisher_stands(net: Net) -> None:
    """The first is revoked, and within the moment that is given for it the edge shows a second one."""
    town = Town(net)
    town.issuer.revoke(town.right)
    net.advance(1)
    town.edge.say(
        offer(
            net,
            net.cast.grant(
                "CCS",
                net.cast.principal(CAMERA),
                net.cast.definition,
                Action.PUBLISH,
                comment="2",
                test=TestKind.TIMED_CRL,
            ),
        )
    )
    net.advance(30)
    assert wanted_there(town.edge) == 1
    assert town.refusals() == []


def test_a_peer_that_publishes_beside_a_revoked_publisher_goes_on() -> None:
    """Two cameras behind one broker; others were told of the offer on behalf of the one that is revoked."""
    net = Net(verify_in_transit=1.0)
    net.broker("PITO broker")
    for name in ("CCS broker", "Met broker"):
        net.broker(name, seeds=["PITO broker"])
    net.advance(5)
    keys = [SigningKey.from_seed(bytes([number]) * 32) for number in (60, 61)]
    rights = [vouched_right(net, key) for key in keys]
    issuer = Issuer(net, "CCS")
    issuer.vouch(3600)
    cameras = [
        net.client(f"camera {number}", "Met broker", key=key, credentials=pool(net, key, rights[number]))
        for number, key in enumerate(keys)
    ]
    for camera in cameras:
        camera.advertise()  # from now on, the broker receives a peer that must confirm them
    net.advance(5)
    offers = [camera.advertise() for camera in cameras]
    billing = net.client("billing office", "PITO broker")
    assert billing.was_accepted(billing.subscribe())
    net.advance(5)
    for number, camera in enumerate(cameras):
        camera.publish(offers[number], sighting())
    assert len(billing.events()) == 2
    issuer.revoke(rights[0])
    for seconds in (0, 0.1, 2, 3, 30):
        net.advance(seconds)
        before = len(billing.events())
        cameras[1].publish(offers[1], sighting())
        assert len(billing.events()) == before + 1, seconds
    assert cameras[0].ended_with(offers[0]) is not None
