"""Cover frames of a publisher's broker: one frame in every slot, and nothing that a reader notices."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from maia.broker.settings import BrokerLimits, RecordingSettings
from maia.predicates import Comparison, Operator
from maia.sealing.keys.blinding import OVERLAP_S
from maia.types import Cover
from maia.wire.messages import Published, Sealed
from support.numberplate import NUMBERPLATE, SUSPECT, BlindedNet, camera_and_reader, sighting

EVERY_MS, SIZE = 500, 1024
THE_SUSPECT = Comparison(NUMBERPLATE, Operator.EQ, SUSPECT)


@pytest.fixture
def net() -> BlindedNet:
    return BlindedNet(cover=Cover(EVERY_MS, SIZE))


def plates(client) -> list[str]:
    return [event[NUMBERPLATE] for event in client.take_events()]


def slots(net: BlindedNet, number: int) -> list[Sealed]:
    """Let so many slots go by; return the frames that reached the broker in the middle."""
    net.carried.clear()
    net.advance(number * EVERY_MS / 1000)
    return net.sealed_frames(to=net.middle)


def shape(frame: Sealed) -> str:
    """Return what a frame shows that is not a number, a moment, or random to whoever lacks the keys."""
    columns = [(column.uid, len(column.sealed)) for column in frame.columns]
    fixed = (frame.type_id, frame.publisher, frame.signer, frame.stream, frame.level, frame.epoch)
    cut = (frame.rows, frame.is_committed, frame.kept, frame.place, frame.path)
    return repr((fixed, cut, columns))


# ------------------------------------------------------------ what an observer sees


def test_a_slot_carries_one_frame_whether_something_is_published_or_not(net):
    camera, office = camera_and_reader(net)
    silent = slots(net, 8)
    for number in range(4):
        camera.publish(1, sighting(f"plate {number}"))
    busy = slots(net, 8)
    assert len(silent) == len(busy) == 8
    assert {shape(frame) for frame in silent} == {shape(frame) for frame in busy}
    assert len({shape(frame) for frame in silent}) == 1
    numbers = [frame.sequence for frame in (*silent, *busy)]
    assert numbers == list(range(numbers[0], numbers[0] + 16))
    moments = [frame.published_at for frame in (*silent, *busy)]
    assert {later - earlier for earlier, later in pairwise(moments)} == {EVERY_MS * 1000}
    assert plates(office) == [f"plate {number}" for number in range(4)]


def test_frames_that_no_filter_admits_pass_as_cover_does(net):
    """Which frames somebody wanted is not seen either."""
    camera, office = net.client("camera at Victoria"), net.client("CCS", "Met broker")
    camera.advertise(ref=1)
    office.subscribe(THE_SUSPECT, ref=1)
    slots(net, 1)
    camera.publish(1, sighting("harmless"))
    camera.publish(1, sighting(SUSPECT))
    assert len(slots(net, 4)) == 4
    assert plates(office) == [SUSPECT]


def test_a_broker_without_a_publisher_or_a_reader_sends_no_cover(net):
    assert slots(net, 4) == []
    office = net.client("CCS", "Met broker")
    office.subscribe(ref=1)
    assert slots(net, 4) == []
    camera = net.client("camera at Victoria")
    camera.advertise(ref=1)
    slots(net, 1)
    assert len(slots(net, 4)) == 4
    camera.withdraw(1)
    assert slots(net, 4) == []


def test_cover_goes_on_through_a_new_epoch(net):
    camera, office = camera_and_reader(net)
    slots(net, 1)
    for running in (net.ccs, net.met):
        net.bring(running, 1, 2)
    net.carried.clear()
    for number in range(2 * OVERLAP_S * 1000 // EVERY_MS):
        if number % 3 == 0:
            camera.publish(1, sighting(f"plate {number}"))
        net.advance(EVERY_MS / 1000)
    sent = [one for name, _, one in net.carried if isinstance(one, Sealed) and name == "CCS broker"]
    moments = sorted({frame.published_at for frame in sent})
    assert {later - earlier for earlier, later in pairwise(moments)} == {EVERY_MS * 1000}
    assert {frame.type_id for frame in sent} == {net.id_of(1), net.id_of(2)}
    assert plates(office) == [f"plate {number}" for number in range(0, 40, 3)]


# ------------------------------------------------------------ what a reader and an operator notice


def test_cover_is_not_delivered_remembered_recorded_or_counted():
    net = BlindedNet(cover=Cover(EVERY_MS, SIZE), recording=RecordingSettings())
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("A"))
    slots(net, 1)
    assert [len(net.log(one.name).safe) for one in (net.ccs, net.middle, net.met)] == [1, 0, 1]
    slots(net, 1)
    before = {name: dict(running.counts) for name, running in net.brokers.items()}
    heard = len(office.heard)
    assert len(slots(net, 10)) == 10
    assert len(office.heard) == heard
    for running in (net.ccs, net.met):
        assert running.counts == before[running.name]
        assert len(net.log(running.name).safe) == 1
        assert len(running.parts.retained) == 1 if running is net.ccs else not len(running.parts.retained)


def test_a_frame_is_answered_when_it_leaves(net):
    camera, _ = camera_and_reader(net)
    slots(net, 1)
    for number in range(3):
        camera.publish(1, sighting(f"plate {number}"))
    assert not camera.all_heard(Published)
    slots(net, 2)
    assert [answer.sequence for answer in camera.all_heard(Published)] == [0, 1]


def test_a_subscriber_of_the_same_broker_waits_for_the_slot_too(net):
    camera, office = net.client("camera at Victoria"), net.client("CCS")
    camera.advertise(ref=1)
    office.subscribe(ref=1)
    slots(net, 1)
    camera.publish(1, sighting("A"))
    assert plates(office) == []
    slots(net, 1)
    assert plates(office) == ["A"]


def test_a_repetition_does_not_take_a_slot_from_what_is_new(net):
    camera, office = camera_and_reader(net)
    slots(net, 1)
    camera.publish(1, sighting("A"))
    slots(net, 1)
    camera.publish(1, sighting("A"), sequence=0)
    camera.publish(1, sighting("B"))
    assert len(slots(net, 1)) == 1
    assert plates(office) == ["A", "B"]


def test_a_repetition_on_another_link_leaves_no_gap_in_the_numbers(net):
    camera, office = camera_and_reader(net)
    first = slots(net, 1)
    camera.publish(1, sighting("A"))
    first += slots(net, 1)
    again = net.client("camera at Victoria")
    again.advertise(ref=1)
    again.publish(1, sighting("A"))
    numbers = [frame.sequence for frame in (*first, *slots(net, 3))]
    assert numbers == list(range(numbers[0], numbers[0] + 5))
    assert plates(office) == ["A"]


# ------------------------------------------------------------ limits


@pytest.mark.parametrize("events", [[sighting("x" * SIZE)], [sighting("A"), sighting("B")]])
def test_what_does_not_fit_into_a_slot_is_refused_and_leaves_a_slot_as_ever(net, events):
    camera, office = camera_and_reader(net)
    slots(net, 1)
    camera.publish(1, *events)
    assert len(slots(net, 1)) == 1
    assert camera.ended_with(1) == "INPUT-BEYOND-COVER"
    assert plates(office) == []


def test_a_full_slot_of_text_fits(net):
    camera, office = camera_and_reader(net)
    slots(net, 1)
    camera.publish(1, sighting("x" * (SIZE - 300)))
    slots(net, 1)
    assert plates(office) == ["x" * (SIZE - 300)]


@pytest.mark.parametrize("limit", ["frames_waiting_per_type", "bytes_waiting_per_type"])
def test_frames_wait_for_their_slots_up_to_a_limit(limit):
    size = 3 if limit.startswith("frames") else 3 * 320
    net = BlindedNet(cover=Cover(EVERY_MS, SIZE), limits=replace(BrokerLimits(), **{limit: size}))
    camera, _ = camera_and_reader(net)
    slots(net, 1)
    for number in range(3):
        camera.publish(1, sighting(f"plate {number}"))
    assert camera.ended_with(1) is None
    camera.publish(1, sighting("one more"))
    assert camera.ended_with(1) == "UNAVAILABLE-SLOTS"


def test_a_publisher_that_left_takes_its_waiting_frames_along(net):
    camera, office = camera_and_reader(net)
    slots(net, 1)
    camera.publish(1, sighting("A"))
    camera.hang_up()
    slots(net, 2)
    assert plates(office) == []


def test_a_broker_that_slept_fills_one_slot_and_skips_the_rest(net):
    camera_and_reader(net)
    slots(net, 1)
    net.carried.clear()
    net.now = type(net.now)(net.now + 10 * EVERY_MS * 1000)
    net.advance(0)
    assert len(net.sealed_frames(to=net.middle)) == 1
