"""Frames that are sealed in one turn share a signature, and nothing else changes."""

from __future__ import annotations

import pytest

from maia.events import frame_of
from maia.predicates import ALWAYS, Comparison, Operator
from maia.sealing import BATCH_MAX
from maia.types import SealingLevel
from maia.wire.codec import decode, encode
from maia.wire.columns import frame_to_columns
from maia.wire.effects import Count, Received, Send, WakeAt
from maia.wire.messages import Publish, Published, Sealed, SealedWithPlaintext
from support.numberplate import NUMBERPLATE, NUMBERPLATE_KINDS, camera_and_reader, sighting, the_three

LEVELS = tuple(SealingLevel)


def publications(camera, count, *, first=0):
    """Return what one read of the camera's socket brings."""
    frame = frame_of([sighting("WANTED"), sighting("OTHER")], NUMBERPLATE_KINDS)
    columns, now = frame_to_columns(frame), int(camera.net.now)
    said = [Publish(1, number, now, frame.rows, columns) for number in range(first, first + count)]
    return [Received(camera.link, encode(one)) for one in said]


def in_one_turn(net, running, inputs):
    """Let a broker take several inputs on, as the runtime does, and perform what it asks for."""
    turn = running.broker.turn(net.now)
    for one in inputs:
        turn.take((one,))
    ready = turn.all()
    net.perform(running, ready)
    net.settle()
    return ready


@pytest.mark.parametrize("wanted", [ALWAYS, Comparison(NUMBERPLATE, Operator.EQ, "WANTED")])
@pytest.mark.parametrize("level", LEVELS)
def test_frames_of_one_turn_share_a_signature_and_are_delivered_in_their_order(level, wanted):
    net, ccs, middle, _ = the_three(level)
    camera, office = camera_and_reader(net, filter=wanted)
    in_one_turn(net, ccs, publications(camera, 5))
    frames = net.frames(to=middle)
    assert [frame.sequence for frame in frames] == [0, 1, 2, 3, 4]
    assert len({frame.signature for frame in frames}) == 1
    assert [frame.place for frame in frames] == [0, 1, 2, 3, 4]
    assert len(office.events()) == (10 if wanted is ALWAYS else 5)


def test_effects_keep_their_places_and_bytes_their_frames():
    net, ccs, _, _ = the_three()
    camera, _ = camera_and_reader(net)
    ready = in_one_turn(net, ccs, publications(camera, 3))
    assert {type(effect) for effect in ready} <= {Send, Count, WakeAt}
    said = [decode(effect.data) for effect in ready if isinstance(effect, Send)]
    assert [type(one) for one in said] == [Sealed, Published] * 3
    assert [one.sequence for one in said] == [0, 0, 1, 1, 2, 2]


def test_a_frame_that_is_repeated_in_the_same_turn_leaves_once():
    net, ccs, middle, _ = the_three()
    camera, office = camera_and_reader(net)
    in_one_turn(net, ccs, publications(camera, 2) + publications(camera, 2))
    assert [frame.sequence for frame in net.frames(to=middle)] == [0, 1]
    assert len(camera.all_heard(Published)) == 4
    assert len(office.events()) == 4


def test_one_input_is_signed_when_it_was_taken_on():
    net, ccs, middle, _ = the_three()
    camera, office = camera_and_reader(net)
    for one in publications(camera, 2):
        net.perform(ccs, ccs.broker.handle(one, net.now))
    net.settle()
    assert len({frame.signature for frame in net.frames(to=middle)}) == 2
    assert len(office.events()) == 4


def test_more_frames_than_one_signature_covers_have_several():
    net, ccs, middle, _ = the_three()
    camera, office = camera_and_reader(net)
    in_one_turn(net, ccs, publications(camera, BATCH_MAX + 3))
    assert len({frame.signature for frame in net.frames(to=middle)}) == 2
    assert len(office.events()) == 2 * (BATCH_MAX + 3)


def test_nothing_is_left_to_sign_after_a_turn():
    net, ccs, middle, _ = the_three()
    camera, _ = camera_and_reader(net)
    in_one_turn(net, ccs, publications(camera, 2))
    in_one_turn(net, ccs, publications(camera, 1, first=2))
    frames = net.frames(to=middle)
    assert frames[2].path == []
    assert frames[2].signature != frames[1].signature
    assert not any(isinstance(frame, SealedWithPlaintext) for frame in frames)
