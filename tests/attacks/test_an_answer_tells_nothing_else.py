"""Can the answer to a restriction be forged, moved, taken away, or read by another?

A reader may see when one car was seen, and never which one it was (A46, A52, A67). The cameras' broker
answers. In the middle is a broker that has no key at all.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from maia.credentials import (
    AttributeSet,
    AuthorisationCertificate,
    SignedCertificate,
    TypePattern,
)
from maia.events import AttributeUid, Instant
from maia.predicates import Comparison, Operator, Predicate
from maia.sealing.keys.key_ring import KeyRing
from maia.testing import NetBroker, NetClient
from maia.testing.refusals import raises
from maia.wire.messages import Message, Sealed, Warned
from support.numberplate import EVERY_KEY, NOW, NUMBERPLATE, READ, TIMESTAMP, WRITE, SealedNet, sighting

ANSWER = AttributeUid("answer-0123456789abcdef0123456789abcdef")
OTHER = AttributeUid("answer-ffffffffffffffffffffffffffffffff")
WANTED, ANOTHER = "AE05 XYZ", "LC04 ABC"
THIS_CAR = Comparison(NUMBERPLATE, Operator.EQ, WANTED)
OTHER_CARS = Comparison(NUMBERPLATE, Operator.NE, WANTED)
SEEN = [TIMESTAMP]


def seen(second: int, plate: str = WANTED) -> dict[AttributeUid, Any]:
    return sighting(plate, at=Instant(NOW + second))


class AnsweringNet(SealedNet):
    """Three brokers, the last of which has keys of moments and of an answer, and a reader behind it."""

    def __init__(self, *, writes: AttributeSet | None = None, **settings: Any) -> None:
        super().__init__(**{"share_plaintext": False, **settings})
        self.entitle("CCS broker", READ)
        self.entitle("CCS broker", WRITE, **({} if writes is None else {"attributes": writes}))
        self.entitle("Met broker", READ, attributes=frozenset(SEEN), restriction=THIS_CAR)
        self.ccs, self.middle, self.met = self.three()

    def answers(
        self, running: NetBroker, *groups: AttributeUid | None, about: dict[AttributeUid, Predicate]
    ) -> KeyRing:
        """Let a broker hold keys, and know what the answers among them are about."""
        ring = self.hold(running, *groups)
        assert ring is not None
        ring.answers = about
        self.use(running, ring)
        return ring

    def begin(self) -> tuple[NetClient, NetClient]:
        """Let all have their keys, a camera publish and an office read when one car was seen."""
        self.answers(self.ccs, *EVERY_KEY, ANSWER, about={ANSWER: THIS_CAR})
        self.answers(self.met, None, *SEEN, ANSWER, about={ANSWER: THIS_CAR})
        return self.camera(), self.office()

    def camera(self) -> NetClient:
        camera = self.client("camera at Victoria")
        assert camera.was_accepted(camera.advertise(ref=1))
        return camera

    def office(self, restriction: Predicate = THIS_CAR) -> NetClient:
        key = self.cast.keys["billing office"]
        right = self.cast.right(key, READ, attributes=frozenset(SEEN), restriction=restriction)
        others = [one for one in self.cast.certificates if not _is_about_types(one)]
        office = self.client("billing office", "Met broker", credentials=(*others, right))
        assert office.was_accepted(office.subscribe(ref=1))
        return office


def _is_about_types(signed: SignedCertificate) -> bool:
    said = signed.certificate
    return isinstance(said, AuthorisationCertificate) and isinstance(said.authority.resources, TypePattern)


def moments(client: NetClient) -> list[int]:
    found = [event.get(TIMESTAMP) for event in client.events()]
    return [one - NOW for one in found if isinstance(one, Instant)]


def test_a_reader_gets_the_rows_that_are_for_it_and_never_what_decided():
    net = AnsweringNet()
    camera, office = net.begin()
    camera.publish(1, seen(1), seen(2, ANOTHER), seen(3))
    camera.publish(1, seen(4, ANOTHER))
    camera.publish(1, seen(5))
    assert moments(office) == [1, 3, 5]
    assert all(event.keys() <= {TIMESTAMP} for event in office.events())
    assert len(net.frames(to=net.met)) == 2  # what nobody there is to have ends at the cameras' broker
    heard = net.heard_by(net.middle) + net.heard_by(net.met)
    assert WANTED.encode() not in heard


def test_a_frame_of_one_event_shows_no_carrier_whether_it_is_admitted():
    net = AnsweringNet()
    camera, _ = net.begin()
    everything = net.client("CCS", "Met broker")
    everything.subscribe(ref=2)  # it may read all, and its broker wants every frame
    for plate in (WANTED, ANOTHER):
        camera.publish(1, seen(1, plate))
    one, other = net.frames(to=net.middle)
    assert isinstance(one, Sealed)
    assert isinstance(other, Sealed)
    sizes = [
        [(column.uid, len(column.sealed)) for column in frame.columns if column.uid == ANSWER]
        for frame in (one, other)
    ]
    assert sizes[0] == sizes[1] != []


def _without(message: Message, *, uid: AttributeUid = ANSWER) -> Message:
    if not isinstance(message, Sealed):
        return message
    return replace(message, columns=[one for one in message.columns if one.uid != uid])


def _renamed(message: Message) -> Message:
    if not isinstance(message, Sealed):
        return message
    return replace(
        message, columns=[replace(one, uid=ANSWER) if one.uid == OTHER else one for one in message.columns]
    )


@pytest.mark.parametrize("tamper", [_without, _renamed])
def test_an_answer_that_is_taken_away_or_moved_shows_nothing(tamper):
    net = AnsweringNet()
    net.begin()
    # The cameras' broker answers another restriction; in the middle, that answer becomes the reader's.
    about = {OTHER: OTHER_CARS} if tamper is _renamed else {ANSWER: THIS_CAR}
    net.answers(net.ccs, *EVERY_KEY, ANSWER, OTHER, about=about)
    net.tamper = tamper
    camera = net.client("camera at Victoria")
    camera.advertise(ref=2)
    camera.publish(2, seen(1), seen(2, ANOTHER))
    camera.publish(2, seen(3, ANOTHER))
    office = next(
        one for one in net.clients.values() if one.principal == net.cast.keys["billing office"].principal
    )
    assert moments(office) == []


def test_an_answer_of_another_frame_does_not_open():
    net = AnsweringNet()
    camera, office = net.begin()
    kept: list[Any] = []

    def replayed(message: Message) -> Message:
        if not isinstance(message, Sealed):
            return message
        own = [one for one in message.columns if one.uid == ANSWER]
        kept.extend(own)
        return replace(message, columns=[kept[0] if one.uid == ANSWER else one for one in message.columns])

    net.tamper = replayed
    camera.publish(1, seen(1))
    everything = net.client("CCS", "Met broker")
    everything.subscribe(ref=2)
    camera.publish(1, seen(2, ANOTHER))
    assert moments(office) == [1]


def test_a_broker_answers_only_for_what_it_may_publish():
    """It holds the answer's key as a reader, and publishes moments alone: it says nothing of cars."""
    net = AnsweringNet(writes=frozenset(SEEN))
    _, office = net.begin()
    state = net.met.parts
    frame = frozenset({*SEEN, ANSWER})

    signer = net.ccs.key.principal
    assert state.streams.signers.may_publish(net.type_id, signer, frozenset(SEEN), net.now)
    with raises("SEALING-SIGNER-NOT-ENTITLED"):
        state.streams.signers.may_publish(net.type_id, signer, frame, net.now)
    assert moments(office) == []


def test_an_answer_to_another_restriction_is_none():
    net = AnsweringNet()
    net.begin()
    net.answers(net.met, None, *SEEN, ANSWER, about={ANSWER: OTHER_CARS})
    camera, office = net.camera(), net.office()
    camera.publish(1, seen(1), seen(2, ANOTHER))
    assert moments(office) == []
    assert office.last(Warned).code == "UNAVAILABLE-RESTRICTION-UNANSWERED"


def test_a_reader_is_warned_until_its_restriction_is_answered():
    net = AnsweringNet()
    net.answers(net.ccs, *EVERY_KEY, about={})
    net.answers(net.met, None, *SEEN, about={})
    camera, office = net.camera(), net.office()
    warned = office.last(Warned)
    assert warned.code == "UNAVAILABLE-RESTRICTION-UNANSWERED"
    assert WANTED not in warned.message
    camera.publish(1, seen(1))
    assert moments(office) == []
    net.answers(net.ccs, *EVERY_KEY, ANSWER, about={ANSWER: THIS_CAR})
    net.answers(net.met, None, *SEEN, ANSWER, about={ANSWER: THIS_CAR})
    camera.publish(1, seen(2), seen(3, ANOTHER))
    assert moments(office) == [2]
    assert NUMBERPLATE not in office.events()[0]
