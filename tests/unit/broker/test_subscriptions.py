"""From a signed request to an entry that routes events, and back to nothing."""

from __future__ import annotations

from uuid import UUID

import pytest

from maia.broker import BrokerLimits
from maia.credentials import FIRST_VERSION, Action, TypeName
from maia.events import Attribute, Instant, Kind, attribute_uid
from maia.predicates import Comparison, Operator
from maia.types import Added, TypeDefinition, definition_to_bytes, next_version, sign_definition
from maia.wire.effects import Close, LinkId, LinkOpened, Tick, WakeAt
from maia.wire.messages import Bye, Carried, Deliver, Failed, Interest, TypeQuery, TypeReply
from maia.wire.names import type_to_bytes
from support.numberplate import LOCATION, NUMBERPLATE, SUSPECT, TIMESTAMP, Net, sighting

BY_DAY = Comparison(NUMBERPLATE, Operator.EQ, "LC04 ABC")


@pytest.fixture
def net() -> Net:
    net = Net()
    net.broker()
    return net


def test_a_filter_over_a_hidden_attribute_is_refused_with_its_code(net: Net) -> None:
    billing = net.client("billing office")
    ref = billing.subscribe(Comparison(LOCATION, Operator.EQ, "Victoria"))
    assert billing.code_of(ref) == "POLICY-ATTRIBUTE-NOT-READABLE"
    assert not billing.closed


def test_a_refusal_is_noted_with_code_and_principal_and_no_literal(net: Net) -> None:
    detective = net.client("Detective Smith")
    detective.advertise()
    (fields,) = net.brokers["CCS broker"].noted("refused")
    assert fields["code"] == "POLICY-ACTION-NOT-GRANTED" or str(fields["code"]).startswith("POLICY-")
    assert fields["principal"] == str(detective.principal)
    assert SUSPECT not in repr(fields)


def test_a_broker_knows_a_type_once_it_was_handed_over(net: Net) -> None:
    first, second = net.client("billing office"), net.client("statistics office")
    ref = second.subscribe(definitions=[])
    assert second.code_of(ref) == "TYPE-UNKNOWN"
    first.subscribe()
    ref = second.subscribe(definitions=[])
    assert second.was_accepted(ref)


def test_a_type_is_not_remembered_from_a_request_that_was_refused(net: Net) -> None:
    client = net.client("camera at Victoria")
    assert client.code_of(client.subscribe()) is not None
    assert net.brokers["CCS broker"].broker.status(net.now)["types"] == 0


def test_a_type_whose_signer_may_not_install_is_refused() -> None:
    net = Net()
    net.broker()
    key = net.cast.keys["Detective Smith"]
    name = TypeName(key.principal, "uk.gov.met.Suspect", FIRST_VERSION)
    attributes = (Attribute("name", attribute_uid("1"), Kind.STRING),)
    own = definition_to_bytes(sign_definition(TypeDefinition(name, None, attributes), key))
    detective = net.client("Detective Smith")
    ref = detective.subscribe(definitions=[own], event_type=name)
    assert detective.code_of(ref) == "TYPE-INSTALL-NOT-GRANTED"


def test_without_the_rule_an_owner_uses_its_own_type_at_once() -> None:
    net = Net(require_install=False)
    net.broker()
    key = net.cast.keys["Detective Smith"]
    name = TypeName(key.principal, "uk.gov.met.Suspect", FIRST_VERSION)
    attributes = (Attribute("name", attribute_uid("1"), Kind.STRING),)
    own = definition_to_bytes(sign_definition(TypeDefinition(name, None, attributes), key))
    detective = net.client("Detective Smith")
    assert detective.was_accepted(detective.subscribe(definitions=[own], event_type=name))


def test_a_subscriber_gets_its_own_version(net: Net) -> None:
    """N7: what the publisher's later version adds is not in the subscriber's, and is dropped."""
    story = net.cast
    colour = Attribute("colour", attribute_uid("77"), Kind.STRING)
    later = sign_definition(
        next_version(story.definition.definition, [Added(colour)], version=UUID(int=7)), story.keys["PITO"]
    )
    pito, ccs = net.client("PITO"), net.client("CCS")
    ccs.subscribe()
    both = [definition_to_bytes(story.definition), definition_to_bytes(later)]
    ref = pito.advertise(definitions=both, event_type=later.definition.name)
    pito.publish(ref, sighting() | {colour.uid: "red"}, kinds=later.definition.kinds)
    pito.subscribe(event_type=later.definition.name, definitions=[])
    pito.publish(ref, sighting() | {colour.uid: "red"}, kinds=later.definition.kinds)
    assert [set(event) for event in ccs.events()] == [{NUMBERPLATE, TIMESTAMP, LOCATION}] * 2
    assert [event[colour.uid] for event in pito.events()] == ["red"]


def test_an_unsubscribed_client_hears_no_more(net: Net) -> None:
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    ref, published = billing.subscribe(), camera.advertise()
    camera.publish(published, sighting())
    billing.withdraw(ref)
    camera.publish(published, sighting())
    assert len(billing.events()) == 1
    assert net.brokers["CCS broker"].broker.status(net.now)["audiences"] == {}


def test_a_subscription_that_is_not_renewed_ends_with_its_lease(net: Net) -> None:
    billing = net.client("billing office")
    ref = billing.subscribe()
    net.advance(59)
    assert billing.ended_with(ref) is None
    net.advance(2)
    assert billing.ended_with(ref) == "UNAVAILABLE-LEASE-ENDED"


def test_a_renewed_subscription_stands(net: Net) -> None:
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    ref = billing.subscribe()
    for _ in range(5):
        net.advance(40)
        billing.subscribe(ref=ref)
    camera.publish(camera.advertise(), sighting())
    assert billing.ended_with(ref) is None
    assert len(billing.events(ref)) == 1


def test_a_renewal_may_change_the_filter(net: Net) -> None:
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    ref, published = billing.subscribe(BY_DAY), camera.advertise()
    billing.subscribe(Comparison(NUMBERPLATE, Operator.EQ, SUSPECT), ref=ref)
    camera.publish(published, sighting("LC04 ABC"), sighting(SUSPECT))
    assert [event[NUMBERPLATE] for event in billing.events()] == [SUSPECT]


def test_a_reference_stands_for_one_thing(net: Net) -> None:
    office = net.client("billing office")
    ref = office.subscribe()
    office.advertise(ref=ref)
    assert office.code_of(ref) == "INPUT-REF-TAKEN"
    office.withdraw(ref)
    assert office.was_accepted(1000 + ref)
    office.withdraw(ref)
    assert office.last(Failed).code == "INPUT-UNKNOWN-REF"


def test_subscriptions_have_a_limit() -> None:
    net = Net(limits=BrokerLimits(subscriptions_per_client=2, advertisements_per_client=1))
    net.broker()
    billing, camera = net.client("billing office"), net.client("camera at Victoria")
    refs = [billing.subscribe() for _ in range(3)]
    assert [billing.code_of(ref) for ref in refs] == [None, None, "UNAVAILABLE-ENTRY-QUOTA"]
    billing.withdraw(refs[0])
    assert billing.was_accepted(billing.subscribe())
    assert [camera.code_of(camera.advertise()) for _ in range(2)] == [None, "UNAVAILABLE-ENTRY-QUOTA"]


def test_the_same_view_is_screened_and_written_once(net: Net) -> None:
    camera = net.client("camera at Victoria")
    offices = [net.client("billing office") for _ in range(3)]
    for office in offices:
        office.subscribe()
    sent: list[bytes] = []  # kept, so that no two of them are ever at one address
    send = net.send
    net.send = lambda name, link, data: (sent.append(data), send(name, link, data))[1]  # type: ignore[method-assign]  # watched
    camera.publish(camera.advertise(), sighting())
    delivered = [message for office in offices for message in office.all_heard(Deliver)]
    assert len(delivered) == 3
    assert net.brokers["CCS broker"].broker.status(net.now)["audiences"].popitem()[1]["classes"] == 1  # type: ignore[attr-defined]
    assert len(sent) - len({id(data) for data in sent}) == 2  # one object, three links


def test_two_subscriptions_of_one_client_share_a_delivery(net: Net) -> None:
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    refs = [billing.subscribe(), billing.subscribe()]
    camera.publish(camera.advertise(), sighting())
    (message,) = billing.all_heard(Deliver)
    assert message.refs == refs


def test_a_right_that_ends_takes_the_subscription_with_it(net: Net) -> None:
    """A35: the next frame is not delivered, however late the clock's tick comes."""
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    ref = billing.subscribe()
    published = camera.advertise()
    camera.publish(published, sighting())
    end = net.cast.certificates[0].certificate.validity.not_after
    assert end is not None
    net.now = end
    # Rights end together in the story; leases are renewed so that only the rights are left to end.
    billing.subscribe(ref=ref)
    camera.advertise(ref=published)
    camera.publish(published, sighting())
    heard = len(billing.events())
    net.now = Instant(end + 1)
    camera.publish(published, sighting())
    assert len(billing.events()) == heard
    assert camera.bye == "POLICY-EXPIRED"


def test_a_broker_tells_what_it_knows_of_a_type(net: Net) -> None:
    billing = net.client("billing office")
    name = net.cast.type_name
    billing.say(TypeQuery(9, type_to_bytes(name)))
    assert billing.last(TypeReply) == TypeReply(9, [])
    billing.subscribe()
    billing.say(TypeQuery(10, type_to_bytes(name)))
    assert billing.last(TypeReply) == TypeReply(10, [definition_to_bytes(net.cast.definition)])


def test_what_a_client_had_goes_with_its_link(net: Net) -> None:
    billing, camera = net.client("billing office"), net.client("camera at Victoria")
    billing.subscribe()
    camera.advertise()
    billing.hang_up()
    camera.hang_up()
    status = net.brokers["CCS broker"].broker.status(net.now)
    assert (status["subscriptions"], status["advertisements"], status["rendezvous"]) == (0, 0, {})


def test_credentials_shown_in_the_handshake_count_for_requests(net: Net) -> None:
    billing = net.client("billing office")
    assert billing.was_accepted(billing.subscribe(credentials=()))


def test_a_request_for_another_action_breaks_the_link(net: Net) -> None:
    billing = net.client("billing office")
    billing.subscribe(request=billing.request(Action.PUBLISH))
    assert billing.bye == "PROTOCOL-REQUEST"


def test_evidence_that_changed_is_asked_again(net: Net) -> None:
    billing = net.client("billing office")
    ref = billing.subscribe()
    running = net.brokers["CCS broker"]
    net.perform(running, running.broker.evidence_changed(net.now))
    net.settle()
    assert billing.ended_with(ref) is None
    assert not billing.closed


@pytest.mark.parametrize("at", ["CCS broker", "Met broker", "third broker"])
def test_a_client_that_vanishes_takes_wide_and_narrow_filters_along(at: str) -> None:
    """Its wide filter stood for its narrow one; nothing of either is left anywhere."""
    net = Net()
    net.broker()
    net.broker("Met broker", seeds=["CCS broker"])
    net.broker("third broker", seeds=["CCS broker", "Met broker"])
    cameras = [net.client("camera at Victoria", at=one) for one in net.brokers]
    published = [camera.advertise() for camera in cameras]
    office = net.client("billing office", at=at)
    office.subscribe()
    office.subscribe(filter=Comparison(NUMBERPLATE, Operator.EQ, "LC04 ABC"))
    office.hang_up()
    before = len(net.carried)
    for number, (camera, ref) in enumerate(zip(cameras, published, strict=True)):
        camera.stream = bytes([number]) * 16
        camera.publish(ref, sighting("LC04 ABC"))
    assert not any(isinstance(message, Carried) for _, _, message in net.carried[before:])


def test_nobody_is_told_of_a_narrow_filter_in_the_place_of_a_wide_one_that_goes_with_it() -> None:
    net = Net()
    net.broker()
    net.broker("Met broker", seeds=["CCS broker"])
    net.client("camera at Victoria", at="Met broker").advertise()
    office = net.client("billing office")
    office.subscribe()
    for plate in ("LC04 ABC", "AE05 XYZ"):
        office.subscribe(filter=Comparison(NUMBERPLATE, Operator.EQ, plate))
    before = len(net.carried)
    office.hang_up()
    told = [message for _, _, message in net.carried[before:] if isinstance(message, Interest)]
    assert [(len(one.add), len(one.remove)) for one in told] == [(0, 1)]


def test_a_broker_that_stops_takes_nothing_back_word_by_word() -> None:
    """Its neighbours forget all that it told when its link ends."""
    net = Net()
    net.broker()
    net.broker("Met broker", seeds=["CCS broker"])
    camera = net.client("camera at Victoria", at="Met broker")
    published = camera.advertise()
    office = net.client("billing office")
    office.subscribe()
    before = len(net.carried)
    net.drain("CCS broker")
    camera.publish(published, sighting())
    said = [type(message) for _, _, message in net.carried[before:]]
    assert Interest not in said
    assert Carried not in said
    assert Bye in said


def test_a_broker_that_stops_opens_no_new_link() -> None:
    net = Net()
    running = net.broker()
    running.broker.drain(net.now)
    opened = LinkOpened(LinkId(99), net.cast.keys["billing office"].principal, None)
    assert [type(one) for one in running.broker.handle(opened, net.now)] == [Close]


def test_a_broker_that_stops_asks_for_no_further_moment() -> None:
    """It looks at nothing that is due any more, so it would be woken for the same again and again."""
    net = Net()
    running = net.broker()
    office = net.client("billing office")
    office.subscribe()
    running.broker.drain(net.now)
    much_later = Instant(net.now + 3600 * 1_000_000)
    assert not [one for one in running.broker.handle(Tick(), much_later) if isinstance(one, WakeAt)]
