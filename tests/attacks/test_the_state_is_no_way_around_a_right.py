"""What was said last is told to a peer that may have it now, and by a peer that may still say it."""

from __future__ import annotations

import pytest

from maia.credentials import (
    Action,
    SigningKey,
    Validity,
)
from maia.events import SECOND, Instant, frame_of
from maia.predicates import ALWAYS
from maia.testing import NetClient, grant, shown
from maia.types import type_id
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from maia.wire.messages import (
    AskState,
    Bye,
    Carried,
    Interest,
    Offer,
    StateDone,
    StateFrame,
    StateGone,
    StateQuery,
    StateTold,
    Wanted,
)
from maia.wire.names import filter_to_bytes
from support.numberplate import NUMBERPLATE, NUMBERPLATE_KINDS, SUSPECT, Net, sighting

ROGUE = SigningKey.from_seed(b"\x0f" * 32)


@pytest.fixture
def net() -> Net:
    net = Net(verify_in_transit=1.0)
    net.broker()
    net.broker("Met broker", seeds=["CCS broker"])
    return net


def rogue_broker(net: Net, at: str) -> NetClient:
    """Connect a peer with a right to connect who says that it is a broker."""
    credentials = (net.cast.broker_right(ROGUE),)
    return net.client("a rogue broker", at, key=ROGUE, credentials=credentials, address="rogue:1")


def the_type(net: Net) -> bytes:
    name = net.cast.type_name
    return type_id(name.owner, name.name)


def camera_for(net: Net, seconds: int) -> NetClient:
    """Connect a camera whose right to publish ends soon."""
    story, name = net.cast, net.cast.type_name
    certificates = (
        *story.certificates,
        grant(
            story.keys["CCS"],
            story.principal("billing office"),
            name,
            Action.PUBLISH,
            validity=Validity(Instant(net.now - SECOND), Instant(net.now + seconds * SECOND)),
        ),
    )
    return net.client("billing office", credentials=certificates)


def plates(client: NetClient) -> list[object]:
    return [event[NUMBERPLATE] for event in client.events()]


def asking(net: Net, at: str) -> NetClient:
    client = net.client("statistics office", at=at)
    ref = client.subscribe()
    client.say(AskState(99, ref))
    return client


@pytest.mark.parametrize("at", ["CCS broker", "Met broker"])
def test_the_word_of_a_publisher_goes_with_its_right(net: Net, at: str) -> None:
    """A37: the publisher's right has ended; neither its broker nor a cache tells its last word."""
    camera = camera_for(net, seconds=10)
    camera.publish(camera.advertise(), sighting("cached"))
    before = asking(net, at)
    assert len(before.events()) == 1  # so there was something to forget
    net.advance(12)
    after = asking(net, at)
    assert after.events() == []
    assert after.last(StateTold).is_whole


def test_the_word_of_a_publisher_goes_even_if_it_has_hung_up_before(net: Net) -> None:
    """A37: with no peer there to be told, the right is asked about when the state is."""
    camera = camera_for(net, seconds=10)
    camera.publish(camera.advertise(), sighting("cached"))
    camera.hang_up()
    assert len(asking(net, "CCS broker").events()) == 1
    net.advance(12)
    assert asking(net, "CCS broker").events() == []


def test_the_state_shows_a_subscriber_no_more_than_news_would(net: Net) -> None:
    """A37: what the subscriber may see is decided when it asks, not when it was said."""
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("LC04 ABC"))
    detective = net.client("Detective Smith", at="Met broker")
    ref = detective.subscribe()
    detective.say(AskState(99, ref))
    assert detective.events() == []
    camera.publish(1, sighting(SUSPECT))
    assert plates(detective) == [SUSPECT]


def test_a_broker_without_proved_interest_learns_nothing_by_asking(net: Net) -> None:
    """A67, C9: a question is no right; only what is wanted behind a neighbour, and proved, is told."""
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting())
    rogue = rogue_broker(net, "CCS broker")
    rogue.say(StateQuery(b"q" * 16, the_type(net)))
    rogue.say(Interest(the_type(net), [Wanted(b"w" * 16, filter_to_bytes(ALWAYS), None, [])], []))
    rogue.say(StateQuery(b"r" * 16, the_type(net)))
    assert rogue.all_heard(StateFrame) == []
    assert [one.question[:1] for one in rogue.all_heard(StateDone)] == [b"q", b"r"]


def test_a_broker_is_told_the_rows_that_it_has_proved_and_no_others() -> None:
    """A67, C9: the detective's proof, used to ask for the state of every car."""
    net = Net(verify_in_transit=1.0, open_borders=True)
    net.broker()
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("LC04 ABC"), sighting(SUSPECT))
    rogue = rogue_broker(net, "CCS broker")
    detective = NetClient(net, net.cast.keys["Detective Smith"], net.cast.certificates)
    proof = detective.request(Action.SUBSCRIBE)
    wanted = Wanted(b"w" * 16, filter_to_bytes(ALWAYS), proof, shown(net.cast.certificates))
    rogue.say(Interest(the_type(net), [wanted], []))
    rogue.say(StateQuery(b"q" * 16, the_type(net)))
    (told,) = rogue.all_heard(StateFrame)
    assert b"LC04 ABC" not in told.frame
    assert SUSPECT.encode() in told.frame


def a_frame(net: Net, plate: str, sequence: int = 9) -> bytes:
    frame = frame_of([sighting(plate)], NUMBERPLATE_KINDS)
    publisher = net.cast.principal("camera at Victoria").key
    columns = frame_to_columns(frame)
    return encode(Carried(the_type(net), publisher, b"s" * 16, sequence, int(net.now), 1, [], columns))


def test_an_answer_that_no_peer_asked_for_reaches_no_peer(net: Net) -> None:
    """A66: a rogue broker tells a state out of the blue, under numbers that it makes up."""
    billing, rogue = net.client("billing office"), rogue_broker(net, "CCS broker")
    ref = billing.subscribe()
    rogue.say(StateFrame(b"q" * 16, a_frame(net, "forged")))
    billing.say(AskState(99, ref))
    rogue.say(StateFrame(b"q" * 16, a_frame(net, "forged")))
    assert billing.events() == []


def test_an_answer_counts_only_from_a_peer_that_was_asked(net: Net) -> None:
    """A66: a broker that has overheard the number of a question answers before those who were asked."""
    camera = net.client("camera at Victoria", at="Met broker")
    camera.advertise()
    billing, rogue = net.client("billing office"), rogue_broker(net, "CCS broker")
    ref = billing.subscribe()
    net.brokers["Met broker"].alive = False  # it takes its time
    billing.say(AskState(99, ref))
    (question,) = net.brokers["CCS broker"].parts.revocation.state_answers.questions
    rogue.say(StateFrame(question, a_frame(net, "forged")))
    rogue.say(StateDone(question, is_whole=True))
    assert billing.events() == []
    assert billing.all_heard(StateTold) == []


def test_an_offer_without_proof_is_not_asked_for_the_state(net: Net) -> None:
    """A67: a peer that only says that it has publishers is not asked what they said."""
    billing, rogue = net.client("billing office"), rogue_broker(net, "CCS broker")
    rogue.say(Offer(the_type(net), True, None, []))
    ref = billing.subscribe()
    billing.say(AskState(99, ref))
    assert rogue.all_heard(StateQuery) == []


def test_an_answer_that_is_no_frame_ends_the_link(net: Net) -> None:
    """A67: an asked broker answers with another message, or with another type's frame."""
    camera = net.client("camera at Victoria", at="Met broker")
    camera.publish(camera.advertise(), sighting())
    rogue = rogue_broker(net, "CCS broker")
    proof = camera.request(Action.PUBLISH)
    rogue.say(Offer(the_type(net), True, proof, shown(net.cast.certificates)))
    billing = net.client("billing office")
    ref = billing.subscribe()
    billing.say(AskState(99, ref))
    (asked,) = rogue.all_heard(StateQuery)
    rogue.say(StateFrame(asked.question, encode(Bye("X", "no frame"))))
    assert rogue.closed


def test_no_other_peer_can_have_a_publishers_word_forgotten(net: Net) -> None:
    """A69: a rogue broker says that the camera's word is gone."""
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("kept"))
    rogue = rogue_broker(net, "CCS broker")
    publisher = net.cast.principal("camera at Victoria").key
    rogue.say(StateGone(the_type(net), publisher, camera.stream))
    assert plates(asking_billing(net)) == ["kept"]


def asking_billing(net: Net) -> NetClient:
    billing = net.client("billing office")
    ref = billing.subscribe()
    billing.say(AskState(99, ref))
    return billing


def test_a_question_that_is_repeated_costs_others_nothing(net: Net) -> None:
    """A75: a client asks again and again while a peer does not answer."""
    rogue = rogue_broker(net, "CCS broker")
    camera = net.client("camera at Victoria", at="Met broker")
    camera.advertise()
    rogue.say(Offer(the_type(net), True, camera.request(Action.PUBLISH), shown(net.cast.certificates)))
    billing = net.client("billing office")
    ref = billing.subscribe()
    for number in range(200):
        billing.say(AskState(1000 + number, ref))
    assert len(rogue.all_heard(StateQuery)) == 1
    net.advance(4)
    assert [one.id for one in billing.all_heard(StateTold)] == list(range(1000, 1200))
    assert not any(one.is_whole for one in billing.all_heard(StateTold))
