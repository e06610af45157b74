"""X8, A126: can a reader of what a right shows of events that are sealed as a whole get at any more of them?

An office may see when one car was seen, the first letters of the place, and never which car it was. The
cameras' broker makes that and seals it beside the event. The office's broker has the key of that and no
other, the broker in the middle none.
"""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace

from maia.credentials import AttributeSet, AuthorisationCertificate, Transformation, TypePattern
from maia.credentials.authority import ALL_ATTRIBUTES
from maia.events import AttributeUid, Instant, Kind
from maia.expressions.syntax import Call, Function, Rule, Take
from maia.policy.answers import PART_PREFIX, Answers, Shown, needed_part, with_columns
from maia.policy.view import Window
from maia.predicates import Comparison, Operator, Predicate
from maia.sealing import SignatureChecks, open_run, read_run, verify
from maia.sealing.filters.proofs import SealedOffer, check_made_by_a_member, seal_proof
from maia.sealing.keys.key_ring import KeyRing
from maia.testing import NetBroker, NetClient
from maia.testing.refusals import raises
from maia.types import SealingLevel
from maia.wire.messages import Message, Sealed, Warned
from support.numberplate import (
    LOCATION,
    NOW,
    NUMBERPLATE,
    NUMBERPLATE_KINDS,
    READ,
    TIMESTAMP,
    WRITE,
    SealedNet,
    sighting,
)

PART = AttributeUid(PART_PREFIX + "0123456789abcdef" * 2)
OTHER = AttributeUid(PART_PREFIX + "f" * 32)
WANTED, ANOTHER = "AE05 XYZ", "LC04 ABC"
THIS_CAR = Comparison(NUMBERPLATE, Operator.EQ, WANTED)
OTHER_CARS = Comparison(NUMBERPLATE, Operator.NE, WANTED)
FIRST = Rule(LOCATION, Call(Function.FIRST, Take(LOCATION, Kind.STRING), (2,)))
SHOWN = frozenset({LOCATION, TIMESTAMP})
Event = dict[AttributeUid, Any]


class PartNet(SealedNet):
    """Three brokers, the last of which has the key of one part of each frame, and an office behind it."""

    def __init__(self, *, writes: AttributeSet = ALL_ATTRIBUTES, **settings: Any) -> None:
        super().__init__(SealingLevel.EVENT, **{"share_plaintext": False, **settings})
        self.step = Transformation(self.cast.owner.principal, (FIRST,), SHOWN)
        self.right = {"transformations": (self.step,), "restriction": THIS_CAR}
        self.entitle("CCS broker", READ)
        self.entitle("CCS broker", WRITE, attributes=writes)
        self.entitle("Met broker", READ, **self.right)
        self.ccs, self.middle, self.met = self.three()

    def part(self, uid: AttributeUid = PART, restriction: Predicate = THIS_CAR) -> Answers:
        """Return what a part is about, with the columns in it."""
        window = Window(restriction, ALL_ATTRIBUTES, (self.step,))
        (said,) = needed_part(window, NUMBERPLATE_KINDS, b"")
        return with_columns({uid: said})

    def know(self, running: NetBroker, *groups: AttributeUid | None, parts: Answers) -> KeyRing:
        """Let a broker hold keys, and know what the parts among them are about."""
        ring = self.hold(running, *groups)
        assert ring is not None
        ring.answers = parts
        self.use(running, ring)
        return ring

    def begin(self, wanted: Predicate | None = None) -> tuple[NetClient, NetClient]:
        """Let both have their keys, a camera publish and the office read."""
        self.know(self.ccs, None, PART, OTHER, parts={**self.part(), **self.part(OTHER, OTHER_CARS)})
        self.know(self.met, PART, parts=self.part())
        camera = self.client("camera at Victoria")
        assert camera.was_accepted(camera.advertise(ref=1))
        key = self.cast.keys["billing office"]
        others = [one for one in self.cast.certificates if not _is_about_types(one.certificate)]
        given = (*others, self.cast.right(key, READ, **self.right))
        office = self.client("billing office", "Met broker", credentials=given)
        filters = {} if wanted is None else {"filter": wanted}
        assert office.was_accepted(office.subscribe(ref=1, **filters))
        return camera, office


def _is_about_types(said: object) -> bool:
    return isinstance(said, AuthorisationCertificate) and isinstance(said.authority.resources, TypePattern)


def seen(second: int, plate: str = WANTED) -> Event:
    return sighting(plate, at=Instant(NOW + second))


def shown(client: NetClient) -> list[int]:
    assert all(NUMBERPLATE not in event and event[LOCATION] == "Vi" for event in client.events())
    return [int(event[TIMESTAMP]) - NOW for event in client.events()]


def frames(net: PartNet, running: NetBroker) -> list[Sealed]:
    return [one for one in net.frames(to=running) if isinstance(one, Sealed)]


@pytest.mark.parametrize("share_plaintext", [False, True])
def test_a_reader_gets_what_its_right_shows_and_its_broker_nothing_else(share_plaintext: bool):
    net = PartNet(share_plaintext=share_plaintext)
    camera, office = net.begin()
    camera.publish(1, seen(1), seen(2, ANOTHER), seen(3))
    camera.publish(1, seen(4, ANOTHER))
    camera.publish(1, seen(5))
    assert shown(office) == [1, 3, 5]
    assert len(frames(net, net.met)) == 2, "what it shows nothing of ends at the cameras' broker"
    for secret in (WANTED.encode(), ANOTHER.encode(), b"Victoria"):
        assert secret not in net.heard_by(net.met) + net.heard_by(net.middle)
    held = net.met.parts.seals
    for frame in frames(net, net.met):
        keys = held.keys(net.type_id, 1)
        assert keys is not None
        opened = open_run(verify(read_run([frame]), SignatureChecks()), keys)
        assert opened.closed == {"", OTHER}
        assert {column.uid[: len(PART)] for column in opened.columns[0]} == {PART}


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        (Comparison(LOCATION, Operator.EQ, "Vi"), [1, 3]),
        (Comparison(LOCATION, Operator.EQ, "Victoria"), []),
        (Comparison(TIMESTAMP, Operator.GE, Instant(NOW + 3)), [3]),
    ],
)
def test_a_reader_asks_about_what_it_is_shown(wanted: Predicate, rows: list[int]):
    net = PartNet()
    camera, office = net.begin(wanted)
    camera.publish(1, seen(1), seen(2, ANOTHER), seen(3))
    assert shown(office) == rows


def test_a_reader_of_whole_events_is_told_that_this_broker_has_no_key_for_it():
    net = PartNet()
    camera, office = net.begin()
    detective = net.client("Detective Smith", "Met broker")
    assert detective.was_accepted(detective.subscribe(ref=1))
    camera.publish(1, seen(1))
    assert shown(office) == [1]
    assert detective.events() == []
    assert detective.last(Warned).code == "UNAVAILABLE-NO-KEYS"


def _without(message: Message) -> Message:
    if not isinstance(message, Sealed):
        return message
    return replace(message, columns=[one for one in message.columns if one.uid != PART])


def _exchanged(message: Message) -> Message:
    if not isinstance(message, Sealed):
        return message
    by_uid = {one.uid: one for one in message.columns}
    columns = [replace(by_uid[OTHER], uid=PART) if one.uid == PART else one for one in message.columns]
    return replace(message, columns=columns)


@pytest.mark.parametrize("tamper", [_without, _exchanged])
def test_a_part_that_is_taken_away_or_exchanged_shows_nothing(tamper):
    net = PartNet()
    camera, office = net.begin()
    net.tamper = tamper
    camera.publish(1, seen(1), seen(2, ANOTHER))
    camera.publish(1, seen(3))
    assert shown(office) == []


def test_a_publishers_broker_shows_nothing_of_what_it_may_not_publish():
    """It may publish all but moments: with a part that shows one, it signs what is not its to say."""
    net = PartNet(writes=frozenset({NUMBERPLATE, LOCATION}))
    camera, office = net.begin()
    camera.publish(1, {NUMBERPLATE: WANTED, LOCATION: "Victoria"})
    assert [event[LOCATION] for event in office.events()] == ["Vi"]
    may_publish, signer = net.met.parts.streams.signers.may_publish, net.ccs.key.principal
    said = {uid: one.uid for uid, one in net.part().items() if isinstance(one, Shown)}
    moment = next(uid for uid, shown in said.items() if shown == TIMESTAMP)
    assert may_publish(net.type_id, signer, frozenset(said) - {moment}, net.now)
    with raises("SEALING-SIGNER-NOT-ENTITLED"):
        may_publish(net.type_id, signer, frozenset(said), net.now)


def test_no_outsider_makes_an_interest_by_naming_a_part_that_nobody_has():
    """A67: whoever holds the key of the events holds that of every part; of others there is none."""
    net = PartNet()
    holder, member, carrier = net.ring(PART), net.ring(None, PART), net.ring(OTHER)
    offer = SealedOffer(net.type_id, 1, b"i" * 16)
    proof = seal_proof(offer, None, uids=frozenset({PART}), keys=holder, random=bytes)
    assert proof is not None
    assert check_made_by_a_member(offer, proof, member)
    assert not check_made_by_a_member(offer, proof, carrier), "it cannot tell, as a carrier cannot"
    for named in (PART, OTHER):
        with raises("SEALING-NOT-BY-A-MEMBER"):
            check_made_by_a_member(offer, replaced(proof, uids=(named,), tag=bytes(16)), member)
    assert seal_proof(offer, None, uids=frozenset(), keys=holder, random=bytes) is None
