"""A sealed frame counts for nothing before its source and signature hold, and then for its signer alone."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import count

import pytest
from msgspec.structs import replace

from maia.broker.settings import RecordingSettings
from maia.credentials import SigningKey, principal_from_bytes
from maia.events import Frame
from maia.routing.overlay.table import closeness, node_id_of_key, node_id_of_type
from maia.sealing import EpochKeys, Publication, Sealer
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.blinding import envelope
from maia.sealing.keys.secrets import Secret
from maia.testing import NetBroker, NetClient, random_from
from maia.types import SealingLevel
from maia.types.definition import ENVELOPE_UID
from maia.wire.codec import encode
from maia.wire.effects import Received
from maia.wire.messages import AskState, Sealed, StateFrame, StateQuery
from support.numberplate import (
    EVERY_KEY,
    NUMBERPLATE,
    READ,
    WRITE,
    BlindedNet,
    SealedNet,
    camera_and_reader,
    sighting,
    sightings,
)
from support.sealed_messages import made_up_proof, sealed_offer
from support.sealing import seal_one

CAMERA = "camera at Victoria"
ANOTHER_WRITER = "a broker that may publish, too"
NEAR_THE_LAST = [2**62 + 3 * number for number in range(300)]
THE_NEXT_ONES = list(range(12))


@dataclass
class City:
    """A camera's broker, one without keys that leads to the type, and an office's; each records the type."""

    net: SealedNet
    middle: NetBroker
    met: NetBroker
    camera: NetClient
    office: NetClient

    def rogue(self, at: NetBroker, *, offers: bool) -> NetClient:
        """Connect a peer who says that it is a broker, behind others as seen from the type."""
        point = node_id_of_type(self.net.type_id)
        nearest = max(
            closeness(node_id_of_key(one.key.principal.key), point) for one in self.net.brokers.values()
        )
        keys = (SigningKey.from_seed(number.to_bytes(32)) for number in count(7))
        key = next(one for one in keys if closeness(node_id_of_key(one.principal.key), point) > nearest)
        credentials = (self.net.cast.broker_right(key),)
        rogue = self.net.client("rogue", at.name, key=key, credentials=credentials, address="rogue:1")
        if offers:
            rogue.say(sealed_offer(self.net.type_id, made_up_proof()))
        return rogue

    def forged(self, signer: SigningKey, sequence: int, *, with_keys: bool = True, epoch: int = 1) -> Sealed:
        """Return a frame in the camera's name: its stream, any number, any signer."""
        net = self.net
        ring = net.ring(*EVERY_KEY, epochs=(epoch,))
        made_up = Secret.from_bytes(sha256(b"no key of the group").digest())
        keys = EpochKeys(
            net.type_id,
            epoch,
            lambda uid: ring.key(GroupId(net.type_id, uid), epoch) if with_keys else made_up,
        )
        sealer = Sealer(signer, random=random_from(sequence.to_bytes(8)), process_id=lambda: 1)
        about = Publication(net.cast.principal(CAMERA), self.camera.stream, sequence, int(net.now), 1)
        return seal_one(sealer, about, sightings(("FORGED", "Victoria")), keys, SealingLevel.ATTRIBUTE)

    def middle_says(self, frame: Sealed) -> None:
        """Let the office's broker hear a frame from the one that leads to the rendezvous."""
        links = self.met.parts.links.values()
        link = next(one.id for one in links if one.peer == self.middle.key.principal)
        self.net.happen(self.met, Received(link, encode(frame)))
        self.net.settle()

    def camera_is_heard(self, *plates: str) -> None:
        """Let the camera publish, and find all of it and nothing else at the office."""
        self.office.take_events()
        for plate in plates:
            self.camera.publish(1, sighting(plate))
        assert [event[NUMBERPLATE] for event in self.office.take_events()] == list(plates)


@pytest.fixture
def city() -> City:
    net = SealedNet()
    net.entitle("CCS broker", READ, WRITE)
    net.entitle("Met broker", READ)
    net.entitle(ANOTHER_WRITER, WRITE)
    third = net.name_near(net.type_id, "CCS broker", "Met broker")
    recording = RecordingSettings(frozenset({net.type_id.hex()}))
    ccs = net.broker("CCS broker")
    middle = net.broker(third, seeds=["CCS broker"], recording=recording)
    met = net.broker("Met broker", seeds=["CCS broker", third], recording=recording)
    net.hold(ccs, *EVERY_KEY)
    net.hold(met, *EVERY_KEY)
    return City(net, middle, met, *camera_and_reader(net))


def signers(city: City) -> dict[str, SigningKey]:
    return {
        "a reader": city.net.cast.identity("Met broker")[0],
        "nobody known": SigningKey.from_seed(b"x" * 32),
    }


# ------------------------------------------------------------ A85: no other peer's numbers are used up


@pytest.mark.parametrize("ends", ["goes on", "is drained", "crashes"])
@pytest.mark.parametrize(
    "numbers", [THE_NEXT_ONES, NEAR_THE_LAST], ids=["the next ones", "near the last one"]
)
@pytest.mark.parametrize("offers", [False, True], ids=["off the path", "offers"])
@pytest.mark.parametrize("signed", ["by nobody", "a reader", "nobody known"])
def test_a_publisher_is_not_silenced_at_a_broker_without_keys(
    city: City, signed: str, offers: bool, numbers: list[int], ends: str
) -> None:
    """A85, A66: there every peer may offer a sealed type, and no signer's right is known; it also records."""
    rogue = city.rogue(city.middle, offers=offers)
    signer = signers(city).get(signed, rogue.key)
    for number in numbers:
        frame = city.forged(signer, number, with_keys=signed == "a reader")
        rogue.say(replace(frame, signature=bytes(64)) if signed == "by nobody" else frame)
    assert not rogue.closed
    if ends != "goes on":
        (city.net.drain if ends == "is drained" else city.net.crash)(city.middle.name)
        city.net.restart(city.middle.name)
        city.net.advance(5)
    city.camera_is_heard("one", "two", "three")


@pytest.mark.parametrize(
    "numbers", [THE_NEXT_ONES, NEAR_THE_LAST], ids=["the next ones", "near the last one"]
)
def test_a_publisher_is_not_silenced_where_its_readers_are(city: City, numbers: list[int]) -> None:
    """A85: by the neighbour that leads to the rendezvous, with the group's keys and without the right."""
    for number in numbers:
        for signer in signers(city).values():
            city.middle_says(city.forged(signer, number))
    city.camera_is_heard("one", "two", "three")


def test_numbers_of_one_entitled_signer_make_no_frame_of_another_late(city: City) -> None:
    """A85: neither for a subscriber that is served at once nor for a durable one."""
    archive = city.net.client("CCS", city.met.name)
    archive.durable()
    city.middle_says(city.forged(city.net.cast.identity(ANOTHER_WRITER)[0], 1_000))
    city.camera_is_heard("one", "two")
    assert [event[NUMBERPLATE] for event in archive.logged_events()] == ["FORGED", "one", "two"]


def test_envelopes_of_one_entitled_broker_use_up_no_number_of_another_s() -> None:
    """A85: of a blinded type, whose frames number the envelopes of a broker; it may publish under its own."""
    net = BlindedNet()
    net.entitle(ANOTHER_WRITER, WRITE)
    net.bring(net.met, 1)
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("one"))
    (sent,) = net.sealed_frames(to=net.met)
    state = net.met.parts
    keys = state.seals.keys(sent.type_id, sent.epoch)
    assert keys is not None
    sealer = Sealer(net.cast.identity(ANOTHER_WRITER)[0], random=random_from(b"seals"), process_id=lambda: 1)
    cover = Frame(1, {ENVELOPE_UID: envelope(None, rows=1, fill=0)})
    link = next(one.id for one in state.links.values() if one.peer == net.middle.key.principal)
    for number in THE_NEXT_ONES:
        about = Publication(
            principal_from_bytes(sent.publisher), sent.stream, sent.sequence + 1 + number, int(net.now), 1
        )
        forged = seal_one(sealer, about, cover, keys, SealingLevel.EVENT)
        net.happen(net.met, Received(link, encode(forged)))
    net.settle()
    assert not net.met.counts.get("maia_frames_refused_total")
    for plate in ("two", "three"):
        camera.publish(1, sighting(plate))
    assert [event[NUMBERPLATE] for event in office.take_events()] == ["one", "two", "three"]


def test_a_broker_s_own_frame_that_comes_back_to_it_is_a_repetition(city: City) -> None:
    """A65: by another way, while the tree changes; it is neither cached nor passed on again."""
    city.camera_is_heard("one")
    ccs, (frame, *_) = city.net.brokers["CCS broker"], city.net.frames()
    links = ccs.parts.links.values()
    link = next(one.id for one in links if one.peer == city.middle.key.principal)
    before = len(city.net.frames())
    city.net.happen(ccs, Received(link, encode(frame)))
    assert ccs.counts["maia_duplicates_total"] == 1
    assert len(city.net.frames()) == before


def test_a_publisher_that_repeats_a_frame_at_another_broker_is_accepted_and_recorded_once(city: City) -> None:
    """A65: two signers that may both publish, and a number that the publisher used once."""
    for signer in ("CCS broker", ANOTHER_WRITER, "CCS broker"):
        city.middle_says(city.forged(city.net.cast.identity(signer)[0], 7))
    assert len(city.office.take_events()) == 1
    assert len(city.net.log(city.met.name).safe) == 1


# ------------------------------------------------------------ A90: what is not proved leaves no trace


@pytest.mark.parametrize("offers", [False, True], ids=["off the path", "offers"])
def test_what_no_peer_signed_is_not_remembered_cached_recorded_or_passed_on(city: City, offers: bool) -> None:
    """A90: wherever it comes from, and whether the broker has keys or not."""
    before = len(city.net.frames())
    for broker in (city.middle, city.met):
        rogue = city.rogue(broker, offers=offers)
        for number in THE_NEXT_ONES:
            frame = city.forged(rogue.key, number)
            rogue.say(replace(frame, signature=bytes(64)))
            rogue.say(replace(frame, signer=city.net.cast.identity("CCS broker")[0].principal.key))
            rogue.say(replace(frame, signer=bytes(32)))  # a key of small order
        state = broker.parts
        assert len(state.routes.seen) == len(state.retained) == len(state.seals.carrying) == 0
        assert city.net.log(broker.name).safe == []
        assert broker.counts["maia_frames_refused_total"] == 3 * len(THE_NEXT_ONES)
        assert not rogue.closed
    assert len(city.net.frames()) == before


def test_what_comes_from_off_the_path_is_not_checked(city: City) -> None:
    """A90: however well it is signed, also by the camera's own broker; it is said once in a lease."""
    rogue = city.rogue(city.middle, offers=False)
    for number in THE_NEXT_ONES:
        rogue.say(city.forged(city.net.cast.identity("CCS broker")[0], number))
    state = city.middle.parts
    assert len(state.routes.seen) == len(state.retained) == 0
    assert [one["code"] for one in city.middle.noted("refused") if one["asked"] == "Sealed"] == [
        "REFUSED-FRAME-UNASKED"
    ]
    city.camera_is_heard("one")


def test_a_signer_that_no_peer_knows_keeps_no_other_waiting(city: City) -> None:
    """A85: its frame waits for its certificates; the camera's frames do not wait behind it."""
    city.middle_says(city.forged(signers(city)["nobody known"], 0))
    assert len(city.met.parts.seals.carrying) == 1
    city.camera_is_heard("one", "two")


def test_signers_that_no_peer_knows_leave_room_for_those_that_are_known(city: City) -> None:
    """A85: frames that wait for a new key are not crowded out by frames that wait for made-up signers."""
    room = city.met.settings.limits.frames_waiting_per_type
    unknown = city.forged(signers(city)["nobody known"], 0)
    for _ in range(room + 1):
        city.middle_says(unknown)
    assert len(city.met.parts.seals.carrying) == room // 2
    city.middle_says(city.forged(city.net.cast.identity("CCS broker")[0], 0, epoch=2))
    assert len(city.met.parts.seals.carrying) == room // 2 + 1


def test_the_present_state_is_not_what_an_unproved_answer_says(city: City) -> None:
    """A90: an answer to a question about the state proves its signer like every frame."""
    rogue = city.rogue(city.middle, offers=True)
    city.office.say(AskState(99, 1))
    question = rogue.last(StateQuery).question
    frame = city.forged(rogue.key, 2**62)
    rogue.say(StateFrame(question, encode(replace(frame, signature=bytes(64)))))
    rogue.say(StateFrame(question, encode(replace(frame, signer=bytes(32)))))
    assert not rogue.closed
    assert len(city.middle.parts.retained) == 0
    rogue.say(StateFrame(question, encode(frame)))
    assert len(city.middle.parts.retained) == 1
    city.camera.publish(1, sighting("one"))
    assert len(city.middle.parts.retained) == 2, "what one signer says does not replace what another says"


# ------------------------------------------------------------ a sealed offer that ends


def test_who_takes_a_sealed_offer_back_is_expected_for_two_seconds_more(city: City) -> None:
    """A67: as for a plain type, frames may be on the way; a refused offer leaves no such time."""
    rogue, state = city.rogue(city.middle, offers=True), city.middle.parts

    def is_expected(number: int) -> bool:
        refused = city.middle.counts.get("maia_frames_refused_total", 0)
        rogue.say(city.forged(rogue.key, number))
        return city.middle.counts.get("maia_frames_refused_total", 0) == refused

    taken_back = sealed_offer(city.net.type_id, None)
    assert is_expected(0)
    rogue.say(taken_back)
    assert is_expected(1)
    city.net.advance(2.1)
    assert not is_expected(2)
    rogue.say(taken_back)
    assert not is_expected(2), "to take back what was not offered wins nothing"
    offered = sealed_offer(city.net.type_id, made_up_proof())
    rogue.say(offered).say(taken_back)
    city.net.hold(city.middle, *EVERY_KEY)  # from now on this broker can tell whose offer it is
    rogue.say(offered)
    assert not state.routes.book.offers(node_id_of_key(rogue.key.principal.key), city.net.key)
    assert not is_expected(3)
