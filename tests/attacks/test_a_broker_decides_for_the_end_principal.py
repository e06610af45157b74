"""A request counts for a peer that signed it and stands at the end of the link, and for no other peer."""

from __future__ import annotations

import pytest

from maia.credentials import Action, NetworkName
from maia.events import SECOND, Instant
from maia.predicates import Comparison, Exists, Not, Operator
from maia.wire.messages import Deliver, Published
from support.numberplate import LOCATION, NUMBERPLATE, SUSPECT, Net, sighting


@pytest.fixture
def net() -> Net:
    net = Net()
    net.broker()
    return net


def test_a_request_of_another_peer_is_not_made_for_them(net: Net) -> None:
    """A14, A15: the billing office hands in what the detective signed."""
    detective, billing = net.client("Detective Smith"), net.client("billing office")
    ref = billing.subscribe(request=detective.request(Action.SUBSCRIBE))
    assert billing.code_of(ref) == "REQUEST-ANOTHER-PRINCIPAL"
    assert not billing.closed


def test_certificates_of_another_peer_grant_nothing(net: Net) -> None:
    """A15: every peer shows all certificates of the story, and each gets what is theirs."""
    camera = net.client("camera at Victoria")
    assert camera.code_of(camera.subscribe()) is not None
    billing = net.client("billing office")
    assert billing.code_of(billing.advertise()) is not None


def test_the_publisher_of_a_frame_is_the_key_of_the_link(net: Net) -> None:
    """A14: no message of a client says who it is; the broker does."""
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    billing.subscribe()
    camera.publish(camera.advertise(), sighting())
    assert billing.last(Deliver).publisher == camera.principal.key


def test_a_request_for_another_network_is_refused(net: Net) -> None:
    """A12, A22: what was signed for one network says nothing in another."""
    billing = net.client("billing office")
    elsewhere = NetworkName(net.cast.network.owner, "UK Fire Network")
    ref = billing.subscribe(network=elsewhere)
    assert billing.code_of(ref) == "REQUEST-ANOTHER-NETWORK"


def test_references_of_other_links_are_worth_nothing(net: Net) -> None:
    """A69: authorised by name, acting by number."""
    camera, billing, thief = (
        net.client("camera at Victoria"),
        net.client("billing office"),
        net.client("statistics office"),
    )
    subscribed, advertised = billing.subscribe(), camera.advertise()
    for ref in (subscribed, advertised, 0, 2**63 - 1):
        thief.publish(ref, sighting())
        thief.withdraw(ref) if ref < 2**40 else None
    camera.publish(advertised, sighting("LC04 ABC"))
    assert [event[NUMBERPLATE] for event in billing.events()] == ["LC04 ABC"]
    assert not thief.all_heard(Published)


def test_a_subscription_does_not_publish(net: Net) -> None:
    """A69: a reference is good for what was decided under it."""
    billing, other = net.client("billing office"), net.client("billing office")
    other.subscribe()
    ref = billing.subscribe()
    billing.publish(ref, sighting())
    assert billing.ended_with(ref) == "INPUT-UNKNOWN-REF"
    assert other.events() == []


@pytest.mark.parametrize(
    "probe",
    [
        Comparison(LOCATION, Operator.EQ, "Victoria"),
        Not(Comparison(LOCATION, Operator.EQ, "Victoria")),
        Exists(LOCATION),
        Not(Exists(LOCATION)),
    ],
    ids=["equals", "differs", "exists", "is missing"],
)
def test_a_hidden_attribute_cannot_be_probed(net: Net, probe: Comparison | Not | Exists) -> None:
    """A52: a filter over what its author may not read is refused when it is made."""
    billing = net.client("billing office")
    ref = billing.subscribe(probe)
    assert billing.code_of(ref) == "POLICY-ATTRIBUTE-NOT-READABLE"


def test_a_refusal_says_nothing_of_the_restriction(net: Net) -> None:
    """A38: neither the answer nor the log holds the suspect's plate."""
    detective = net.client("Detective Smith")
    detective.subscribe(Comparison(NUMBERPLATE, Operator.EQ, 5))
    detective.advertise()
    said = repr(detective.heard[2:])
    noted = repr(net.brokers["CCS broker"].notes)
    status = repr(net.brokers["CCS broker"].broker.status(net.now))
    assert SUSPECT not in said + noted + status


def test_an_expired_right_publishes_and_receives_nothing_more(net: Net) -> None:
    """A35: certificates end at one moment; the frame after it finds neither publisher nor subscriber."""
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    subscribed, advertised = billing.subscribe(), camera.advertise()
    end = net.cast.certificates[0].certificate.validity.not_after
    assert end is not None
    net.now = Instant(end - SECOND)
    billing.subscribe(ref=subscribed)
    camera.advertise(ref=advertised)
    camera.publish(advertised, sighting())
    assert len(billing.events()) == 1
    net.now = Instant(end + SECOND)
    camera.publish(advertised, sighting())
    net.settle()
    status = net.brokers["CCS broker"].broker.status(net.now)
    assert len(billing.events()) == 1
    assert (status["subscriptions"], status["advertisements"], status["rendezvous"]) == (0, 0, {})
