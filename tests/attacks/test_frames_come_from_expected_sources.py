"""A peer that may connect may act as a broker; frames that it was not asked for go nowhere."""

from __future__ import annotations

from itertools import count

import pytest

from maia.broker.interests.expected_sources import PARTING_MAX, offer_ended
from maia.broker.interests.routes import REPLICAS, Neighbour
from maia.broker.log.retained import FRAMES_MAX
from maia.broker.settings import BrokerLimits
from maia.credentials import Action, SigningKey
from maia.events import Frame, frame_of
from maia.routing.overlay.table import NodeId, closeness, node_id_of_key, node_id_of_type, node_id_to_bytes
from maia.sealing import EpochKeys, Publication, Sealer
from maia.testing import NetClient, random_from, shown
from maia.types import SealingLevel, type_id
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from maia.wire.effects import LinkId
from maia.wire.messages import (
    AskState,
    Carried,
    Interest,
    Offer,
    Ping,
    Renew,
    StateFrame,
    StateQuery,
)
from support.numberplate import NUMBERPLATE, NUMBERPLATE_KINDS, RECORDING, Net, sighting
from support.sealed_messages import made_up_proof, sealed_offer
from support.sealing import seal_one

CAMERA = "camera at Victoria"
LEASE_S = 60


class Town:
    """One broker, an office that wants everything, and brokers that a test makes up."""

    def __init__(self) -> None:
        self.net = Net(verify_in_transit=1.0)
        self.broker = self.net.broker()
        self.office = self.net.client("billing office")
        assert self.office.was_accepted(self.office.subscribe())
        name = self.net.cast.type_name
        self.type_id = type_id(name.owner, name.name)
        self.frames = 0

    @property
    def far(self) -> int:
        """How far the broker is from the rendezvous."""
        return self.distance(self.broker.key)

    def distance(self, key: SigningKey) -> int:
        point: NodeId = node_id_of_type(self.type_id)
        return closeness(node_id_of_key(key.principal.key), point)[0]

    def nearer(self, some: int) -> list[SigningKey]:
        """Return keys of brokers that are nearer to the rendezvous than the broker, the nearest first."""
        keys = (SigningKey.from_seed(number.to_bytes(32)) for number in count(1))
        found: list[SigningKey] = []
        while len(found) < some:
            key = next(keys)
            found += [key] if self.distance(key) < self.far else []
        return sorted(found, key=self.distance)

    def neighbour(self, key: SigningKey | None = None) -> NetClient:
        """Connect a peer who says that it is a broker; by default, further from the rendezvous."""
        key = key or next(
            one
            for number in count(1)
            if self.distance(one := SigningKey.from_seed(number.to_bytes(32))) > self.far
        )
        right = (self.net.cast.broker_right(key),)
        address = f"{key.principal.key.hex()[:8]}:1"
        return self.net.client(address, key=key, credentials=right, address=address)

    def offer(self, neighbour: NetClient, *, stands: bool = True) -> None:
        """Let a neighbour offer the type, by what a camera asked for, or take that back."""
        camera = NetClient(self.net, self.net.cast.keys[CAMERA], self.net.cast.certificates)
        proof = camera.request(Action.PUBLISH) if stands else None
        certificates = shown(self.net.cast.certificates) if stands else []
        neighbour.say(Offer(self.type_id, stands, proof, certificates))

    def frame(self, plate: str, sequence: int, stream: bytes = b"s" * 16) -> Carried:
        frame = frame_of([sighting(plate)], NUMBERPLATE_KINDS)
        publisher = self.net.cast.principal(CAMERA).key
        columns = frame_to_columns(frame)
        return Carried(self.type_id, publisher, stream, sequence, int(self.net.now), 1, [], columns)

    def believes(self, neighbour: NetClient) -> bool:
        """Let a neighbour send one more frame, and say whether the office got it."""
        self.frames += 1
        plate = f"plate {self.frames}"
        neighbour.say(self.frame(plate, self.frames))
        assert not neighbour.closed
        return plate in [event[NUMBERPLATE] for event in self.office.events()]

    def refusals(self) -> list[str]:
        noted = self.broker.noted("refused")
        return [str(one["code"]) for one in noted if one.get("asked") == "Carried"]

    def live(self, seconds: int, *awake: NetClient) -> None:
        """Let time pass, in which some are accepted and the office renews."""
        for _ in range(0, seconds, 10):
            self.net.advance(10)
            self.office.subscribe(ref=1)
            for one in awake:
                one.say(Ping(1))


@pytest.fixture
def town() -> Town:
    return Town()


def test_a_frame_that_no_peer_asked_for_reaches_no_peer(town: Town) -> None:
    """A14, A67: by a broker that neither offers the type nor leads to it, under a camera's name."""
    rogue = town.neighbour()
    assert not town.believes(rogue)
    assert not town.believes(rogue)
    assert town.broker.counts["maia_frames_refused_total"] == 2


def test_it_is_said_once_in_a_lease_and_the_neighbour_receives_what_it_was_asked_for(town: Town) -> None:
    """A38: an engineer finds it by its code, and no peer fills the log; a mistaken neighbour finds out."""
    rogue = town.neighbour()
    rogue.heard.clear()
    for _ in range(5):
        town.believes(rogue)
    assert town.refusals() == ["REFUSED-FRAME-UNASKED"]
    assert [one.entries for one in rogue.all_heard(Renew)] == [0]
    town.live(LEASE_S, rogue)
    town.believes(rogue)
    assert town.refusals() == ["REFUSED-FRAME-UNASKED"] * 2


def test_an_unasked_frame_uses_up_no_number_and_is_no_peer_s_last_word(town: Town) -> None:
    """A66, A37: the camera's own frame with this number comes later, and is delivered."""
    camera, rogue = town.net.client(CAMERA), town.neighbour()
    town.office.say(AskState(98, 1))  # from now on, the broker answers from what has passed by
    rogue.say(town.frame("forged", 0, camera.stream))
    town.office.say(AskState(99, 1))
    assert town.office.events() == []
    camera.publish(camera.advertise(), sighting("true"), sequence=0)
    assert [event[NUMBERPLATE] for event in town.office.events()] == ["true"]


def test_who_offers_a_type_is_believed_for_as_long_as_it_offers(town: Town) -> None:
    """A67: and for two seconds more, in which frames may be on the way."""
    edge = town.neighbour()
    town.offer(edge)
    assert town.believes(edge)
    town.offer(edge, stands=False)
    assert town.believes(edge)
    town.net.advance(1.9)
    assert town.believes(edge)
    town.net.advance(0.2)
    assert not town.believes(edge)
    assert edge.last(Interest).remove


def test_an_offer_that_is_refused_makes_no_peer_believed(town: Town) -> None:
    """A67: nor does it leave any of the two seconds."""
    edge = town.neighbour()
    edge.say(Offer(town.type_id, True, None, []))
    assert not town.believes(edge)
    town.offer(edge)
    town.offer(edge, stands=False)
    edge.say(Offer(town.type_id, True, None, []))
    assert not town.believes(edge)


def test_to_take_back_what_was_not_offered_wins_nothing(town: Town) -> None:
    """A67: two seconds are for those who offered."""
    rogue = town.neighbour()
    town.offer(rogue, stands=False)
    assert not town.believes(rogue)


def test_who_slept_is_believed_when_it_wakes_up(town: Town) -> None:
    """Its lease has ended, and it does not know that yet; for one lease more."""
    edge = town.neighbour()
    town.offer(edge)
    town.live(LEASE_S + 10, edge)
    assert edge.last(Interest).remove, "it did not renew its offer, and nothing is wanted there any more"
    assert town.believes(edge)
    town.live(LEASE_S + 10, edge)
    assert not town.believes(edge)


def test_who_leads_to_the_rendezvous_is_believed_and_a_peer_that_would_follow_it(town: Town) -> None:
    """A replica may have told the next two what is wanted here; others were told nothing."""
    leads, *follow, other = map(town.neighbour, town.nearer(REPLICAS + 2))
    town.live(LEASE_S + 10, leads, *follow, other)  # by now every peer knows who leads
    assert all(town.believes(one) for one in (leads, *follow))
    assert not town.believes(other)


def test_what_was_asked_for_a_moment_ago_is_not_blamed_on_who_leads(town: Town) -> None:
    """The office has left, and frames for it are on the way: they go nowhere, and no peer is accused."""
    leads = town.neighbour(town.nearer(1)[0])
    assert leads.last(Interest).add
    town.office.withdraw(1)
    assert leads.last(Interest).remove
    town.net.advance(LEASE_S + 10)
    assert not town.believes(leads)
    assert town.refusals() == []


def test_a_way_that_changes_opens_no_other(town: Town) -> None:
    """A85, A67: with one key nearer to the rendezvous that comes and goes, the other key wins nothing."""
    leads, *follow, other = map(town.neighbour, town.nearer(REPLICAS + 2))
    rogue = town.neighbour()
    leads.hang_up()
    assert not town.believes(rogue)
    assert town.believes(other), "it is one of those that follow now"
    follow[0].hang_up()
    assert not town.believes(rogue)


def test_who_led_to_the_rendezvous_is_believed_for_a_lease_after_others_came_between(town: Town) -> None:
    """It was asked for the type, and may not have received yet that it is not any more."""
    *between, led = town.nearer(REPLICAS + 2)
    before = town.neighbour(led)
    after = [town.neighbour(key) for key in between]
    assert before.last(Interest).remove
    assert town.believes(before)
    town.live(LEASE_S + 10, before, *after)
    assert not town.believes(before)


def test_while_who_leads_is_silent_no_other_peer_is_believed_than_before(town: Town) -> None:
    """A85: silence of one neighbour is no reason to believe those that were never to follow it."""
    leads, *follow, other = map(town.neighbour, town.nearer(REPLICAS + 2))
    town.live(LEASE_S + 10, leads, *follow, other)
    town.live(40, *follow, other)  # two rounds; in the third it would be asked, and answer
    assert all(town.believes(one) for one in follow)
    assert not town.believes(other)


@pytest.mark.parametrize("restarts", [False, True])
def test_numbers_near_the_last_one_use_up_no_others(town: Town, restarts: bool) -> None:
    """A85: even from the neighbour that leads to the rendezvous; also after a restart."""
    leads, camera = town.neighbour(town.nearer(1)[0]), town.net.client(CAMERA)
    for number in range(2 * BrokerLimits().numbers_per_stream):
        leads.say(town.frame("forged", 2**62 + number % 7 * number, camera.stream))
    assert town.office.events()
    if restarts:
        town.net.drain("CCS broker")
        town.net.restart("CCS broker")
        town.office, camera = town.net.client("billing office"), town.net.client(CAMERA)
        town.office.subscribe()
    ref = camera.advertise()
    plates = [f"true {number}" for number in range(5)]
    for plate in plates:
        camera.publish(ref, sighting(plate))
    assert [event[NUMBERPLATE] for event in town.office.events() if event[NUMBERPLATE] != "forged"] == plates


def test_a_number_far_ahead_is_not_the_last_word_for_ever(town: Town) -> None:
    """A90: a subscriber that asks for the present state is told what the camera said last."""
    leads, camera = town.neighbour(town.nearer(1)[0]), town.net.client(CAMERA)
    leads.say(town.frame("forged", 2**62, camera.stream))
    camera.publish(camera.advertise(), sighting("true"))
    late = town.net.client("billing office")
    late.subscribe(ref=1)
    late.say(AskState(99, 1))
    assert [event[NUMBERPLATE] for event in late.events()] == ["true"]


def test_who_is_asked_for_the_state_is_believed_like_who_sends_frames(town: Town) -> None:
    """A90: an offer of the sealed form of a plain type needs no proof here, and proves nothing."""
    rogue = town.neighbour()
    rogue.say(sealed_offer(town.type_id, made_up_proof()))
    town.office.say(AskState(99, 1))
    answer = encode(town.frame("forged", 2**62))
    rogue.say(StateFrame(rogue.last(StateQuery).question, answer))
    assert town.office.events() == []
    assert len(town.broker.parts.retained) == 0
    assert not rogue.closed


def test_what_passes_takes_no_room_from_what_this_broker_s_publishers_said(town: Town) -> None:
    """A90: a neighbour that is believed fills the memory of last words with made-up streams."""
    camera, leads = town.net.client(CAMERA), town.neighbour(town.nearer(1)[0])
    camera.publish(camera.advertise(), sighting("true"))
    for number in range(FRAMES_MAX + 1):
        leads.say(town.frame("forged", number, number.to_bytes(16)))
    assert len(town.broker.parts.retained) == FRAMES_MAX
    late = town.net.client("billing office")
    late.subscribe(ref=1)
    late.say(AskState(99, 1))
    assert "true" in [event[NUMBERPLATE] for event in late.events()]


@pytest.mark.parametrize(("sealed", "offers"), [(False, False), (True, False), (True, True)])
def test_a_type_that_does_not_exist_is_neither_recorded_nor_remembered(sealed: bool, offers: bool) -> None:
    """A90: by the neighbour that leads to the rendezvous of a made-up type, and that offers it sealed."""
    net = Net(verify_in_transit=1.0, recording=RECORDING)
    broker = net.broker()
    key = SigningKey.from_seed(b"\x0f" * 32)
    credentials = (net.cast.broker_right(key),)
    rogue = net.client("rogue", key=key, credentials=credentials, address="rogue:1")
    made_up = node_id_to_bytes(node_id_of_key(key.principal.key)) + bytes(16)
    if offers:
        rogue.say(sealed_offer(made_up, made_up_proof()))
    for number in range(20):
        about = Publication(key.principal, b"s" * 16, number, int(net.now), 1)
        rogue.say(
            seal_one(
                Sealer(key, random=random_from(bytes([number])), process_id=lambda: 1),
                about,
                Frame(1, {}),
                EpochKeys(made_up, 1, lambda _: None),
                SealingLevel.ATTRIBUTE,
            )
            if sealed
            else Carried(made_up, key.principal.key, b"s" * 16, number, int(net.now), 1, [], [])
        )
    assert not rogue.closed
    assert net.log().safe == []
    if not offers:  # what is offered may be passed on, and is remembered for that under its signer
        assert len(broker.parts.routes.seen) == len(broker.parts.retained) == 0


def test_a_neighbour_that_offers_and_takes_back_without_end_is_remembered_for_a_few_types(town: Town) -> None:
    """A74: the oldest are forgotten first, and are no longer believed."""
    neighbour = Neighbour(NodeId(1), LinkId(1))
    types = [number.to_bytes(32) for number in range(PARTING_MAX + 2)]
    for one in types:
        offer_ended(neighbour, one, town.net.now)
    assert [one for one, _ in neighbour.parting] == types[2:]
    offer_ended(neighbour, types[2], town.net.now)
    assert [one for one, _ in neighbour.parting] == [*types[3:], types[2]]
