"""X10: a publication that left through two brokers, and so has two signers, is one event everywhere.

A publisher whose broker is lost cannot know what that one has passed on. It publishes the last frames again
at another broker, under the same stream and numbers, and the first broker comes back with its log.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.broker.log.progress import identity_of
from maia.testing import NetClient
from maia.types import SealingLevel
from maia.wire.codec import decode_recorded
from maia.wire.messages import CarriedSigned, Message, Ping, Sealed, SealedWithPlaintext, signer_of
from support.numberplate import (
    EVERY_KEY,
    NUMBERPLATE,
    READ,
    RECORDING,
    WRITE,
    Net,
    SealedNet,
    sighting,
)

CAMERA, READER = "camera at Victoria", "CCS"
FIRST, SECOND, THIRD = "CCS broker", "another broker of CCS", "Met broker"
NUMBERS = list(range(6))


class Move:
    """A camera with two brokers of one organisation, and a reader at a third; each broker records."""

    def __init__(self, protection: str) -> None:
        self.net = net = (
            Net(open_borders=True) if protection == "signed" else SealedNet(SealingLevel(protection))
        )
        if protection == "signed":
            net.cast = net.cast.defined(replace(net.cast.definition.definition, signed=True))
        for name in (FIRST, SECOND):
            net.entitle(name, READ, WRITE)
        net.entitle(THIRD, READ)
        started: list[str] = []
        for name in (FIRST, SECOND, THIRD):
            net.broker(name, seeds=list(started), recording=RECORDING)
            started.append(name)
            self._open(name)
        self.live, self.reader = net.client(READER, THIRD), net.client(READER, THIRD)
        assert self.live.was_accepted(self.live.subscribe())
        assert self.reader.was_accepted(self.reader.durable())

    def _open(self, name: str) -> None:
        if isinstance(self.net, SealedNet):
            self.net.hold(self.net.brokers[name], *EVERY_KEY)

    def camera(self, at: str, *numbers: int) -> NetClient:
        """Let the camera publish frames of these numbers at a broker."""
        camera = self.net.client(CAMERA, at)
        ref = camera.advertise()
        assert camera.was_accepted(ref), camera.code_of(ref)
        for number in numbers:
            camera.publish(ref, sighting(f"plate {number}"), sequence=number)
        return camera

    def come_back(self, name: str) -> None:
        self.net.restart(name)
        self._open(name)
        self.net.advance(10)

    def recorded(self, name: str) -> list[int]:
        return [identity_of(decode_recorded(one.data))[1] for one in self.net.log(name).safe]

    def plates_read(self) -> list[object]:
        """Return what a durable subscriber reads that has acknowledged nothing, and comes again."""
        self.reader.hang_up()
        again = self.net.client(READER, THIRD)
        again.durable()
        self.net.settle()
        return [one[NUMBERPLATE] for one in again.logged_events()]


def swallow(message: Message) -> Message:
    """Lose frames on their way to other brokers."""
    return Ping(1) if isinstance(message, Sealed | SealedWithPlaintext | CarriedSigned) else message


@pytest.mark.parametrize("protection", ["signed", "event", "attribute"])
def test_what_a_lost_broker_had_not_passed_on_is_there_once_when_it_comes_back(protection: str) -> None:
    move = Move(protection)
    move.camera(FIRST, 0, 1)
    move.net.tamper = swallow
    move.camera(FIRST, 2, 3)
    move.net.crash(FIRST)
    move.net.tamper = None
    move.camera(SECOND, 1, 2, 3, 4)
    assert [len({signer_of(decode_recorded(one.data)) for one in move.net.log(THIRD).safe})] == [2]
    move.come_back(FIRST)
    move.camera(FIRST, 3, 4, 5)
    plates = [f"plate {number}" for number in NUMBERS]
    assert [one[NUMBERPLATE] for one in move.live.events()] == plates
    move.net.advance(10)
    assert [sorted(move.recorded(name)) for name in (FIRST, SECOND, THIRD)] == [NUMBERS] * 3
    assert move.plates_read() == plates


@pytest.mark.parametrize("protection", ["signed", "event", "attribute"])
def test_what_two_brokers_recorded_before_the_power_was_cut_is_recognised_at_the_one_that_comes_back(
    protection: str,
) -> None:
    """The memory of publications was not kept yet, and the signer's certificates are not here: the log is."""
    move = Move(protection)
    move.camera(FIRST, 0, 1)
    for name in (FIRST, SECOND):
        move.net.crash(name)
    move.come_back(SECOND)
    move.camera(SECOND, 0, 1, 2)
    move.come_back(FIRST)
    assert [sorted(move.recorded(name)) for name in (FIRST, SECOND, THIRD)] == [[0, 1, 2]] * 3
    assert move.plates_read() == ["plate 0", "plate 1", "plate 2"]
