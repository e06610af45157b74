"""A frame of a signed type reaches no reader unless it is what its publisher's broker signed (A105)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from maia.broker.streams.neighbour import SIGNED_FOR_S
from maia.credentials import Action, SigningKey, Validity
from maia.events import SECOND, Instant, Kind
from maia.sealing import Draft, Sealer
from maia.sealing.frames.signed import draft_signed
from maia.testing import Issuer, NetBroker, NetClient, key_of, random_from
from maia.testing.cast import BEGINNING
from maia.types import definition_to_bytes, next_version
from maia.wire.codec import decode, decode_recorded, encode
from maia.wire.columns import encode_column, kind_to_number
from maia.wire.effects import Received
from maia.wire.messages import AskState, Carried, CarriedSigned, Column, Message, ShownRight, StateFrame
from support.numberplate import NUMBERPLATE, READ, RECORDING, WRITE, Net, sighting

CAMERA = "camera at Victoria"
CCS, MET = "CCS broker", "Met broker"
Change = Callable[[CarriedSigned], Message]


@dataclass
class Town:
    """A camera at its broker, a broker in the middle that a test makes lie, and an office behind it."""

    net: Net
    met: NetBroker
    middle: NetBroker
    camera: NetClient
    office: NetClient
    ref: int

    @classmethod
    def of(cls, *, signed: bool = True, camera_until: Instant | None = None, **settings: Any) -> Town:
        net = Net(**settings)
        if camera_until is not None:
            rights = net.cast.without(f"CCS to {CAMERA}")
            connect = net.cast.issued(f"CCS to {CAMERA}", Action.CONNECT)
            brief = net.cast.right(CAMERA, WRITE, validity=Validity(None, camera_until))
            net.cast = with_fields(net.cast, certificates=(*rights, connect, brief))
        net.cast = net.cast.defined(with_fields(net.cast.definition.definition, signed=signed))
        net.entitle(CCS, WRITE)
        net.entitle(MET, READ)
        _, middle, met = net.three()
        office = net.client("billing office", MET)
        assert office.was_accepted(office.subscribe())
        camera = net.client(CAMERA, CCS)
        ref = camera.advertise()
        assert camera.was_accepted(ref), camera.code_of(ref)
        return cls(net, met, middle, camera, office, ref)

    def publish(self, *plates: str) -> None:
        self.camera.publish(self.ref, *[sighting(one) for one in plates])

    @property
    def plates(self) -> list[object]:
        return [one[NUMBERPLATE] for one in self.office.events()]

    def sent(self) -> list[CarriedSigned]:
        return [one for _, to, one in self.net.carried if to == MET and isinstance(one, CarriedSigned)]

    def lie(self, change: Callable[[CarriedSigned], Message]) -> None:
        """Have the last broker before the reader change frames."""
        self.net.tamper = lambda said: change(said) if isinstance(said, CarriedSigned) else said

    def arrives(self, frame: CarriedSigned, number: int) -> None:
        """Have the camera's broker sign a frame again under another number, whatever became of its rights."""
        end = next(
            one for one, other in self.net.wires.items() if (one[0], other[0]) == (MET, self.middle.name)
        )
        again = replace(frame, sequence=number, published_at=int(self.net.now))
        key = self.net.cast.keys[CCS]
        draft = draft_signed(again, key.principal, right=frame.signed.right, at=self.net.now)
        self.net.happen(self.met, Received(end[1], encode(signed_as(key, draft))))
        self.net.settle()


@pytest.fixture
def town() -> Town:
    return Town.of()


def test_signed_frames_pass_brokers_that_have_no_right_and_are_read(town: Town) -> None:
    town.publish("A", "B")
    town.publish("C")
    assert town.plates == ["A", "B", "C"]
    assert len(town.sent()) == 2
    shown = [one for _, to, one in town.net.carried if to == MET and isinstance(one, ShownRight)]
    assert len(shown) == 1, "a right is shown once, however many frames name it"
    assert not [
        one for *_, one in town.net.carried if type(one) is Carried and one.type_id == town.net.type_id
    ]


def stripped(frame: CarriedSigned) -> Message:
    return Carried(*[getattr(frame, name) for name in Carried.__struct_fields__])


def cut(frame: CarriedSigned) -> Message:
    rows = [Column(one.uid, one.kind, encode_column(Kind.STRING, ["A"])) for one in frame.columns[:1]]
    return replace(frame, rows=1, kept=[0], columns=rows)


def without_a_column(frame: CarriedSigned) -> Message:
    return replace(frame, columns=frame.columns[1:])


def of_another_stream(frame: CarriedSigned) -> Message:
    return replace(frame, stream=b"x" * 16)


def of_another_number(frame: CarriedSigned) -> Message:
    return replace(frame, sequence=frame.sequence + 1)


def of_another_moment(frame: CarriedSigned) -> Message:
    return replace(frame, published_at=frame.published_at + 1)


def of_another_publisher(frame: CarriedSigned) -> Message:
    return replace(frame, publisher=key_of("another").principal.key)


def signed_later(frame: CarriedSigned) -> Message:
    return replace(frame, signed=replace(frame.signed, signed_at=frame.signed.signed_at + 1))


def under_another_right(frame: CarriedSigned) -> Message:
    return replace(frame, signed=replace(frame.signed, right=b"r" * 32))


def with_another_value(frame: CarriedSigned) -> Message:
    kind = kind_to_number(Kind.STRING)
    told = [
        Column(one.uid, kind, encode_column(Kind.STRING, ["forged"] * frame.rows))
        if one.uid == NUMBERPLATE
        else one
        for one in frame.columns
    ]
    return replace(frame, columns=told)


def signed_as(key: SigningKey, draft: Draft) -> CarriedSigned:
    (signed,) = Sealer(key, random=random_from(b"rogue"), process_id=lambda: 1).sign([draft])
    assert isinstance(signed, CarriedSigned)
    return signed


def signed_by_the_broker_that_changed_it(frame: CarriedSigned) -> Message:
    """It names the publisher's right, and signs itself."""
    rogue = key_of("third domain 0")
    changed = with_another_value(frame)
    assert isinstance(changed, CarriedSigned)
    draft = draft_signed(changed, rogue.principal, right=frame.signed.right, at=frame.signed.signed_at)
    return signed_as(rogue, draft)


@pytest.mark.parametrize(
    "change",
    [
        stripped,
        cut,
        without_a_column,
        of_another_stream,
        of_another_number,
        of_another_moment,
        of_another_publisher,
        signed_later,
        under_another_right,
        with_another_value,
        signed_by_the_broker_that_changed_it,
    ],
)
@pytest.mark.parametrize("verified", [1.0, 0.0], ids=["verified on the way", "not verified on the way"])
def test_a_frame_that_was_changed_on_the_way_reaches_no_reader(change: Change, verified: float) -> None:
    town = Town.of(verify_in_transit=verified)
    town.lie(change)
    town.publish("A", "B")
    assert town.plates == []
    town.net.tamper = None
    town.publish("C")
    town.publish("D")
    # A broker in between that verifies nothing may take a forged number for the next one's.
    least = ["C", "D"] if verified or change is not of_another_number else ["D"]
    assert town.plates == least, "it has used up nothing of the publisher's numbers (A85)"


def test_a_frame_cannot_be_mixed_from_two(town: Town) -> None:
    town.publish("A")
    (first,) = town.sent()
    town.lie(lambda frame: replace(frame, columns=first.columns))
    town.publish("B")
    assert town.plates == ["A"]
    town.lie(lambda frame: replace(frame, signed=first.signed))
    town.publish("C")
    assert town.plates == ["A"]


def test_a_frame_of_an_unsigned_version_is_none_of_a_type_that_is_signed_since() -> None:
    """The definition decides: the strongest that is known, whatever version a frame was written in."""
    town = Town.of(signed=False)
    town.publish("A")
    assert town.plates == ["A"]
    signed = next_version(town.net.cast.definition.definition, (), version=UUID(int=1), signed=True)
    before = town.net.cast.definition
    town.net.cast = town.net.cast.defined(signed)
    known = [definition_to_bytes(before), definition_to_bytes(town.net.cast.definition)]
    other = town.net.client("statistics office", MET)
    assert other.was_accepted(other.subscribe(definitions=known))
    town.publish("B")  # the camera's broker has not heard of the new version
    assert town.plates == ["A"]


def test_what_was_signed_too_long_ago_is_a_repetition_also_for_a_broker_that_remembers_nothing() -> None:
    town = Town.of(lease_s=3600)
    town.publish("A")
    (frame,) = town.sent()
    rights = [one for _, to, one in town.net.carried if to == MET and isinstance(one, ShownRight)]
    town.net.restart(MET, {name: data for name, data in town.met.kept.items() if name != "publications"})
    office = town.net.client("billing office", MET)
    assert office.was_accepted(office.subscribe())
    town.net.advance(SIGNED_FOR_S + 400)
    said = iter([frame])
    town.lie(lambda other: next(said, other))
    town.publish("B")
    assert [one[NUMBERPLATE] for one in office.events()] == []
    assert rights
    town.publish("C")
    assert [one[NUMBERPLATE] for one in office.events()] == ["C"]


def test_a_frame_is_not_delivered_again_after_a_restart() -> None:
    town = Town.of()
    town.publish("A")
    (frame,) = town.sent()
    town.net.advance(30)  # what was seen is kept
    town.net.restart(MET)
    office = town.net.client("billing office", MET)
    assert office.was_accepted(office.subscribe())
    said = iter([frame])
    town.lie(lambda other: next(said, other))
    town.publish("B")
    town.publish("C")
    assert [one[NUMBERPLATE] for one in office.events()] == ["C"]


def test_a_frame_under_a_right_that_has_ended_reaches_no_reader() -> None:
    """The camera's broker lies: it signs on for a camera whose right has ended."""
    ends = Instant(BEGINNING + 300 * SECOND)
    town = Town.of(camera_until=ends, lease_s=3600)
    town.publish("A")
    (frame,) = town.sent()
    town.arrives(frame, 7)
    assert town.plates == ["A", "A"], "while the right holds, its broker may sign what it will"
    town.net.advance(400)
    town.arrives(frame, 8)
    assert town.plates == ["A", "A"]


def test_a_broker_whose_right_is_revoked_signs_for_no_reader() -> None:
    """It goes on, and passes what it signs to a broker that has received the revocation."""
    town = Town.of(lease_s=3600)
    pito = Issuer(town.net, "PITO", MET)
    pito.vouch(3600)
    town.publish("A")
    (frame,) = town.sent()
    pito.revoke(town.net.rights[CCS][0])
    town.arrives(frame, 7)
    assert town.plates == ["A"]


def test_a_broker_without_the_right_to_publish_takes_no_signed_type_on() -> None:
    net = Net()
    net.cast = net.cast.defined(with_fields(net.cast.definition.definition, signed=True))
    net.broker(CCS)
    camera, office = net.client(CAMERA, CCS), net.client("billing office", CCS)
    office.subscribe()
    ref = camera.advertise()
    camera.publish(ref, sighting("A"))
    assert len(office.events()) == 1, "without other brokers there is no reader of a signature"
    net.broker(MET, seeds=[CCS])
    camera.publish(ref, sighting("B"))
    assert camera.ended_with(ref) or len(office.events()) == 1
    assert camera.code_of(camera.advertise(ref=9)) == "REFUSED-BROKER-CANNOT-SIGN"


def test_kept_and_fetched_frames_are_proved_too() -> None:
    """The present state and what is caught up on from other logs come signed, or not at all."""
    town = Town.of(recording=RECORDING, lease_s=3600)
    town.publish("A")
    late = town.net.client("statistics office", MET)
    late.say(AskState(77, late.subscribe()))
    assert len(late.events()) == 1
    town.net.crash(MET)
    town.publish("B")
    town.net.restart(MET)
    town.net.advance(70)
    recorded = [decode_recorded(one.data) for one in town.net.logs[town.met.key.principal.key].safe]
    assert {type(one) for one in recorded} == {CarriedSigned}
    assert {one.sequence for one in recorded} == {0, 1}


def test_a_broker_that_was_restarted_shows_the_rights_of_what_it_has_recorded() -> None:
    """Of what its own clients published, too: a reader's broker that was away catches up on it."""
    town = Town.of(recording=RECORDING, lease_s=3600)
    town.net.crash(MET)
    town.publish("A")
    town.net.crash(CCS)
    town.net.restart(CCS)
    town.net.restart(MET)
    town.net.client(CAMERA, CCS).advertise()
    town.net.advance(70)
    recorded = [decode_recorded(one.data) for one in town.net.logs[town.met.key.principal.key].safe]
    assert [one.sequence for one in recorded] == [0]


@pytest.mark.parametrize("change", [stripped, with_another_value])
def test_the_present_state_is_no_way_around_a_signature(change: Change) -> None:
    town = Town.of()
    town.publish("A")
    town.net.restart(MET, {})
    office = town.net.client("billing office", MET)
    ref = office.subscribe()

    def lie(said: Message) -> Message:
        frame = decode(said.frame) if isinstance(said, StateFrame) else None
        return StateFrame(said.question, encode(change(frame))) if isinstance(frame, CarriedSigned) else said

    town.net.tamper = lie
    office.say(AskState(77, ref))
    assert office.events() == []
