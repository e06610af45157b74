"""Recording of sealed types, and a recording broker's own interest: as frames travel, keys or not."""

from __future__ import annotations

import pytest

from maia.broker.settings import RecordingSettings
from maia.credentials import Action
from maia.types import SealingLevel
from maia.wire.codec import decode
from maia.wire.messages import Published, Released, Sealed
from support.numberplate import (
    EVERY_KEY,
    NUMBERPLATE,
    READ,
    RECORDING,
    WRITE,
    Net,
    SealedNet,
    camera_and_reader,
    sighting,
)

LEVELS = list(SealingLevel)


def three(
    level: SealingLevel = SealingLevel.ATTRIBUTE, **recording: RecordingSettings
) -> tuple[SealedNet, dict[str, str]]:
    """Start the cameras' broker, one without rights in the middle, and one that reads; some record."""
    net = SealedNet(level)
    net.entitle("CCS broker", READ, WRITE)
    net.entitle("Met broker", READ)
    third = net.name_near(net.type_id, "CCS broker", "Met broker")
    names = {"first": "CCS broker", "middle": third, "last": "Met broker"}
    started: list[str] = []
    for role, name in names.items():
        net.broker(name, seeds=list(started), recording=recording.get(role))
        started.append(name)
    for role in ("first", "last"):
        net.hold(net.brokers[names[role]], *EVERY_KEY)
    return net, names


@pytest.mark.parametrize("level", LEVELS)
def test_a_publisher_s_frame_is_recorded_sealed_signed_and_once(level: SealingLevel) -> None:
    net, _ = three(level, first=RECORDING)
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    camera.publish(1, sighting("LC04 ABC"), sequence=0)
    (logged,) = net.log().safe
    frame = decode(logged.data)
    assert isinstance(frame, Sealed)
    assert frame.signature != bytes(64)
    assert b"LC04 ABC" not in logged.data
    assert [event[NUMBERPLATE] for event in office.events()] == ["LC04 ABC"]
    assert camera.all_heard(Published)


def test_a_frame_that_was_recorded_before_a_crash_is_not_recorded_again_when_it_is_repeated() -> None:
    """The memory of publications was not kept yet; the log is read again."""
    net, names = three(first=RECORDING)
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    net.crash(names["first"])
    net.restart(names["first"])
    net.hold(net.brokers[names["first"]], *EVERY_KEY)
    again = net.client("camera at Victoria")
    again.advertise(ref=1)
    again.publish(1, sighting("LC04 ABC"), sequence=0)
    again.publish(1, sighting("AE05 XYZ"), sequence=1)
    assert len(net.log().safe) == 2


def test_what_was_recorded_is_what_neighbours_got() -> None:
    net, names = three(first=RECORDING, last=RECORDING)
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    assert net.log(names["first"]).safe[0].data == net.log(names["last"]).safe[0].data


def test_a_broker_without_keys_records_what_passes_of_a_type_that_it_was_told_to_record() -> None:
    chosen = SealedNet().type_id.hex()
    net, names = three(middle=RecordingSettings(frozenset({chosen})))
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    assert office.events()
    (logged,) = net.log(names["middle"]).safe
    assert isinstance(decode(logged.data), Sealed)
    assert b"LC04 ABC" not in logged.data


@pytest.mark.parametrize("level", LEVELS)
def test_a_sealed_type_can_be_subscribed_to_durably(level: SealingLevel) -> None:
    net, names = three(level, last=RECORDING)
    camera = net.client("camera at Victoria")
    camera.advertise(ref=1)
    office = net.client("CCS", names["last"])
    office.durable()
    office.hang_up()
    camera.publish(1, sighting("LC04 ABC"))
    back = net.client("CCS", names["last"])
    back.durable()
    camera.publish(1, sighting("AE05 XYZ"))
    assert [event[NUMBERPLATE] for event in back.logged_events()] == ["LC04 ABC", "AE05 XYZ"]


def test_a_recording_broker_wants_its_types_while_nobody_else_does() -> None:
    net = Net()
    net.broker("CCS broker")
    key, credentials = net.cast.identity("Met broker")
    own = net.cast.right(key.principal, Action.SUBSCRIBE)
    net.broker("Met broker", seeds=["CCS broker"], credentials=(*credentials, own), recording=RECORDING)
    office = net.client("billing office", "Met broker")
    office.durable()
    office.hang_up()
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("A1"))
    assert [type(decode(one.data)) for one in net.log("Met broker").safe] == [Released]
    back = net.client("billing office", "Met broker")
    back.durable()
    assert [event[NUMBERPLATE] for event in back.logged_events()] == ["A1"]


def test_without_a_right_of_its_own_it_records_what_passes_and_wants_nothing() -> None:
    net = Net()
    net.broker("CCS broker")
    net.broker("Met broker", seeds=["CCS broker"], recording=RECORDING)
    office = net.client("billing office", "Met broker")
    ref = office.subscribe()
    camera = net.client("camera at Victoria")
    camera.advertise()
    camera.publish(1, sighting("A1"))
    office.withdraw(ref)
    camera.publish(1, sighting("B2"))
    assert len(net.log("Met broker").safe) == 1
