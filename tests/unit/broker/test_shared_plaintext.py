"""K4: neighbours with the same right get plaintext beside the ciphertext, and nobody else does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from maia.credentials import Validity
from maia.events import SECOND, Instant
from maia.predicates import ALWAYS, AllOf, Exists
from maia.sealing import open_run
from maia.types import SealingLevel
from maia.wire.codec import encode
from maia.wire.effects import Received
from maia.wire.messages import Sealed, SealedWithPlaintext
from support.numberplate import (
    EVERY_KEY,
    LOCATION,
    NOW,
    NUMBERPLATE,
    READ,
    TIMESTAMP,
    WRITE,
    SealedNet,
    camera_and_reader,
    sighting,
)

LEVELS = (SealingLevel.EVENT, SealingLevel.ATTRIBUTE)
NAMED = {SealingLevel.EVENT: {""}, SealingLevel.ATTRIBUTE: {NUMBERPLATE, TIMESTAMP, LOCATION}}


def the_two(level=SealingLevel.ATTRIBUTE, *, reads=None, **settings):
    """Start two neighbours; the second may read what `reads` says, or everything."""
    net = SealedNet(level, **{"share_plaintext": True, **settings})
    net.entitle("CCS broker", READ, WRITE)
    net.entitle("Met broker", READ, **(reads or {}))
    ccs, met = net.broker(), net.broker("Met broker", seeds=["CCS broker"])
    net.hold(ccs, *EVERY_KEY)
    net.hold(met, *EVERY_KEY)
    return net, ccs, met


def shared(message):
    return {one.uid for one in message.contents} if isinstance(message, SealedWithPlaintext) else set()


@pytest.mark.parametrize("level", LEVELS)
def test_a_neighbour_with_the_same_right_is_spared_the_opening(level, monkeypatch):
    net, _, met = the_two(level)
    camera, office = camera_and_reader(net)
    monkeypatch.setattr("maia.sealing.frames.opener._decrypted", _never)
    camera.publish(1, sighting("LC04 ABC"))
    (frame,) = net.frames(to=met)
    assert shared(frame) == NAMED[level]
    assert [event[NUMBERPLATE] for event in office.events()] == ["LC04 ABC"]


def _never(_run, _held, places):
    assert not places, "nothing had to be opened"
    return []


def test_a_neighbour_gets_the_plaintext_of_what_it_may_read_and_no_more():
    net, _, met = the_two(reads={"attributes": frozenset({NUMBERPLATE, TIMESTAMP})})
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    (frame,) = net.frames(to=met)
    assert shared(frame) == {NUMBERPLATE, TIMESTAMP}
    assert b"Victoria" not in net.heard_by(met)
    # It has been handed the key of the rest all the same, and opens it.
    assert [event[LOCATION] for event in office.events()] == ["Victoria"]


def test_plaintext_ends_at_the_first_link_without_the_right():
    """A51: the middle broker has no right, so nothing goes to it in clear, and nothing through it."""
    net = SealedNet(share_plaintext=True)
    net.entitle("CCS broker", READ, WRITE)
    net.entitle("Met broker", READ)
    ccs, _, met = net.three()
    net.hold(ccs, *EVERY_KEY)
    net.hold(met, *EVERY_KEY)
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    assert {type(message) for message in net.frames()} == {Sealed}
    assert len(office.events()) == 1


def test_plaintext_ends_when_the_right_of_the_neighbour_lapses():
    """A51: one microsecond after the last certificate, there is no plaintext any more."""
    last = Instant(NOW + 30 * SECOND)
    net, _, met = the_two(reads={"validity": Validity(None, last)})
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting())
    net.now = last
    camera.publish(1, sighting())
    net.now = Instant(last + 1)
    camera.publish(1, sighting())
    assert [bool(shared(frame)) for frame in net.frames(to=met)] == [True, True, False]


def test_plaintext_begins_when_the_right_of_the_neighbour_does():
    first = Instant(NOW + 30 * SECOND)
    net, _, met = the_two(reads={"validity": Validity(first, None)})
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting())
    net.now = first
    camera.publish(1, sighting())
    assert [bool(shared(frame)) for frame in net.frames(to=met)] == [False, True]


def test_an_operator_may_do_without():
    net, _, met = the_two(share_plaintext=False)
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting())
    assert [type(frame) for frame in net.frames(to=met)] == [Sealed]
    assert len(office.events()) == 1


def test_a_cache_that_lies_is_dropped_and_the_ciphertext_opened():
    """A51: what does not fit what was signed is not used, and counted."""
    net, _, met = the_two()
    camera, office = camera_and_reader(net)
    plates = [b"LC04 ABC", b"LC04 XXX"]
    net.tamper = lambda message: _lying(message, *plates)
    camera.publish(1, sighting("LC04 ABC"))
    assert [event[NUMBERPLATE] for event in office.events()] == ["LC04 ABC"]
    assert met.counts["maia_plaintext_dropped_total"] == 1


def _lying(message, said, lie):
    if not isinstance(message, SealedWithPlaintext):
        return message
    contents = [type(one)(one.uid, one.content.replace(said, lie)) for one in message.contents]
    return type(message)(message.frame, contents)


def test_a_neighbour_that_has_no_key_uses_no_plaintext():
    """A cache is checked under the key; whoever lacks it takes nothing on trust."""
    net, _, met = the_two()
    camera, office = camera_and_reader(net)
    net.use(met, net.ring(None, NUMBERPLATE, TIMESTAMP))
    camera.publish(1, sighting("LC04 ABC"))
    assert [set(event) for event in office.events()] == [{NUMBERPLATE, TIMESTAMP}]


def test_plaintext_is_passed_on_to_the_next_neighbour_by_its_own_right():
    net = SealedNet(share_plaintext=True)
    third = net.name_near(net.type_id, "CCS broker", "Met broker")
    net.entitle("CCS broker", READ, WRITE)
    net.entitle(third, READ)
    net.entitle("Met broker", READ, attributes=frozenset({TIMESTAMP}))
    running = net.three()
    for one in running:
        net.hold(one, *EVERY_KEY)
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting())
    _, middle, met = running
    assert [shared(frame) for frame in net.frames(to=middle)] == [{NUMBERPLATE, TIMESTAMP, LOCATION}]
    assert [shared(frame) for frame in net.frames(to=met)] == [{TIMESTAMP}]
    assert len(office.events()) == 1


def authorised_three(level=SealingLevel.ATTRIBUTE):
    """Start three brokers in a row that may all read everything."""
    net = SealedNet(level, share_plaintext=True)
    third = net.name_near(net.type_id, "CCS broker", "Met broker")
    for name in ("CCS broker", third, "Met broker"):
        net.entitle(name, READ, WRITE)
    running = net.three()
    for one in running:
        net.hold(one, *EVERY_KEY)
    return net, *running


@pytest.mark.parametrize(
    ("asked", "opened"),
    [(ALWAYS, 1), (Exists(LOCATION), 1), (AllOf((Exists(LOCATION), Exists(NUMBERPLATE))), 2)],
)
def test_a_hop_opens_what_it_is_asked_about_and_passes_the_rest_on(asked, opened, monkeypatch):
    net, _, _, met = authorised_three()
    camera, office = camera_and_reader(net, filter=asked)
    found = []

    def watched(frame, keys, **limits):
        found.append(open_run(frame, keys, **limits))
        return found[-1]

    monkeypatch.setattr("maia.broker.streams.neighbour.open_run", watched)
    camera.publish(1, sighting())
    at_the_hop, _at_the_edge = found
    assert len(at_the_hop.columns[0]) == opened
    assert asked is ALWAYS or LOCATION not in at_the_hop.closed
    assert [shared(frame) for frame in net.frames(to=met)] == [{NUMBERPLATE, TIMESTAMP, LOCATION}]
    assert len(office.events()) == 1


@pytest.mark.parametrize("level", LEVELS)
def test_nobody_without_a_key_uses_up_the_number_of_a_frame_at_a_hop(level):
    """A66, A51: what was cached and said of one frame is sent again under the number of the next."""
    net, ccs, middle, met = authorised_three(level)
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("FIRST"))
    (honest,) = net.frames(to=middle)
    link = next(one.id for one in middle.parts.links.values() if one.peer == ccs.key.principal)
    forged = SealedWithPlaintext(structs.replace(honest.frame, sequence=1), honest.contents)
    net.happen(middle, Received(link, encode(forged)))
    net.settle()
    assert len(net.frames(to=met)) == 1
    camera.publish(1, sighting("SECOND"))
    assert [event[NUMBERPLATE] for event in office.events()] == ["FIRST", "SECOND"]


def test_the_right_is_worked_out_from_what_the_neighbour_showed_and_once():
    net, ccs, met = the_two()
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting())
    (link,) = [one for one in ccs.parts.links.values() if one.peer == met.key.principal]
    known = link.shares[net.type_id]
    camera.publish(1, sighting())
    assert link.shares[net.type_id] is known
    link.rights, link.shares = {}, {}
    camera.publish(1, sighting())
    assert [bool(shared(frame)) for frame in net.frames(to=met)] == [True, True, False]
    assert replace(known, uids=frozenset()) != known
