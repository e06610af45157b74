"""Attacks on sealed publications at the brokers that carry and deliver them."""

from __future__ import annotations

from dataclasses import replace as dc_replace

import pytest
from msgspec.structs import replace

from maia.credentials import Validity
from maia.credentials.identity import IdentityTrust, pack_identity
from maia.events import SECOND, Instant
from maia.sealing import EpochKeys, Publication, Sealer
from maia.sealing.groups.key_group import GroupId
from maia.testing import random_from
from maia.types import SealingLevel
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from maia.wire.effects import Received
from maia.wire.messages import Author, Carried, Deliver, Identify, OpenContent, SealedWithPlaintext
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
    sightings,
    the_three,
)
from support.sealing import seal_one
from support.two_message import COMMUNITY, NORWAY, statement

LEVELS = (SealingLevel.EVENT, SealingLevel.ATTRIBUTE)


def forged(
    net, *, signed_by, plate="FORGED", level=SealingLevel.ATTRIBUTE, at=None, epoch=1, sequence=7, author=None
):
    """Seal a frame with the group's keys and sign it with a broker's key, as a peer that reads can."""
    ring = net.ring(*EVERY_KEY, epochs=(epoch,))
    keys = EpochKeys(net.type_id, epoch, lambda uid: ring.key(GroupId(net.type_id, uid), epoch))
    sealer = Sealer(net.cast.identity(signed_by)[0], random=random_from(b"forger"), process_id=lambda: 1)
    camera = net.cast.principal("camera at Victoria")
    about = Publication(camera, b"s" * 16, sequence, int(at or net.now), 1, author=author)
    return seal_one(sealer, about, sightings((plate, "Victoria")), keys, level)


def inject(net, at, message):
    """Let a neighbour of a broker say something to it."""
    link = next(one.id for one in at.parts.links.values() if one.address is not None)
    net.happen(at, Received(link, encode(message)))
    net.settle()


def plates(office):
    return [event[NUMBERPLATE] for event in office.events()]


# ---------------------------------------------------------------- A49: readers forge


@pytest.mark.parametrize("level", LEVELS)
def test_a_reader_with_every_key_cannot_publish(level):
    """A49: the group key seals, and the right to publish does not come with it."""
    net, _, _, met = the_three(level)
    _, office = camera_and_reader(net)
    inject(net, met, forged(net, signed_by="Met broker", level=level))
    assert plates(office) == []
    assert met.counts["maia_frames_refused_total"] == 1
    inject(net, met, forged(net, signed_by="CCS broker", level=level))
    assert plates(office) == ["FORGED"]  # the same frame, by a peer who may publish it


def test_a_signature_of_an_entitled_broker_cannot_be_borrowed():
    """A49: another signer's name over the same frame proves nothing."""
    net, _, _, met = the_three()
    _, office = camera_and_reader(net)
    frame = forged(net, signed_by="Met broker")
    inject(net, met, replace(frame, signer=net.cast.identity("CCS broker")[0].principal.key))
    inject(net, met, replace(forged(net, signed_by="CCS broker"), signature=bytes(64)))
    assert plates(office) == []
    assert met.counts["maia_frames_refused_total"] == 2


def test_a_broker_that_may_write_some_attributes_cannot_write_others():
    """A49: the right is asked for every attribute of a frame."""
    net = SealedNet()
    third = net.name_near(net.type_id, "CCS broker", "Met broker")
    net.entitle("CCS broker", READ, WRITE)
    net.entitle("Met broker", READ)
    net.entitle(third, READ)
    net.entitle(third, WRITE, attributes=frozenset({LOCATION, TIMESTAMP}))
    ccs, _, met = net.three()
    net.hold(ccs, *EVERY_KEY)
    net.hold(met, *EVERY_KEY)
    _, office = camera_and_reader(net)
    inject(net, met, forged(net, signed_by=third))
    assert plates(office) == []
    assert met.counts["maia_frames_refused_total"] == 1


def test_a_right_to_publish_that_lapsed_publishes_nothing_more():
    """A49, A35: asked again at the moment it ends."""
    net = SealedNet()
    last = Instant(NOW + 20 * SECOND)
    net.entitle("CCS broker", READ)
    net.entitle("CCS broker", WRITE, validity=Validity(None, last))
    net.entitle("Met broker", READ)
    ccs, _, met = net.three()
    net.hold(ccs, *EVERY_KEY)
    net.hold(met, *EVERY_KEY)
    camera, office = camera_and_reader(net)
    net.now = last
    camera.publish(1, sighting("IN TIME"))
    net.now = Instant(last + 1)
    camera.publish(1, sighting("TOO LATE"))
    assert plates(office) == ["IN TIME"]


def test_a_signer_that_no_peer_knows_is_not_believed():
    """A49: without its certificates a frame waits, and is delivered to no peer."""
    net, _, _, met = the_three()
    _, office = camera_and_reader(net)
    inject(net, met, forged(net, signed_by="PITO broker"))
    assert plates(office) == []
    net.advance(11)
    assert plates(office) == []
    assert met.counts["maia_frames_unread_total"] == 1


def test_a_forgery_uses_up_no_number_of_what_it_imitates():
    """A66: the frame that it stands in for is delivered all the same."""
    net, _, _, met = the_three()
    _, office = camera_and_reader(net)
    inject(net, met, forged(net, signed_by="Met broker"))
    inject(net, met, forged(net, signed_by="CCS broker", plate="GENUINE"))
    assert plates(office) == ["GENUINE"]


# ---------------------------------------------------------------- A46: what was moved or altered


@pytest.mark.parametrize("level", LEVELS)
def test_a_ciphertext_that_was_altered_on_the_way_ends_the_frame_and_not_the_link(level):
    """A46: a peer that passed it on could not see that, so it is not to blame."""
    net, _, _, met = the_three(level)
    _, office = camera_and_reader(net)
    frame = forged(net, signed_by="CCS broker", level=level)
    column = frame.columns[0]
    flipped = replace(column, sealed=column.sealed[:-1] + bytes([column.sealed[-1] ^ 1]))
    inject(net, met, replace(frame, columns=[flipped, *frame.columns[1:]]))
    assert plates(office) == []
    assert met.counts["maia_frames_refused_total"] == 1
    inject(net, met, frame)
    assert plates(office) == ["FORGED"]


def test_ciphertexts_that_change_places_are_refused():
    """A46: between attributes of one frame, and between frames."""
    net, _, _, met = the_three()
    _, office = camera_and_reader(net)
    one, other = forged(net, signed_by="CCS broker"), forged(net, signed_by="CCS broker", sequence=8)
    first, *rest = one.columns
    swapped = [replace(first, sealed=rest[0].sealed), replace(rest[0], sealed=first.sealed), *rest[1:]]
    inject(net, met, replace(one, columns=swapped))
    inject(net, met, replace(one, columns=[other.columns[0], *rest]))
    inject(net, met, replace(one, sequence=9))
    inject(net, met, replace(one, published_at=one.published_at + 1))
    assert plates(office) == []
    assert met.counts["maia_frames_refused_total"] == 4


def test_a_sealed_frame_that_contradicts_itself_ends_the_link():
    """A46: its fields are compared before anything is computed from them."""
    net, _, _, met = the_three()
    camera_and_reader(net)
    inject(net, met, replace(forged(net, signed_by="CCS broker"), kept=[3, 1]))
    assert met.counts["maia_links_refused_total"] == 1


# ---------------------------------------------------------------- A29: less than the owner wants


def test_plaintext_of_a_sealed_type_is_refused_from_a_neighbour():
    """A29: whether it was taken off on the way or never was sealed."""
    net, _, _, met = the_three()
    _, office = camera_and_reader(net)
    camera = net.cast.principal("camera at Victoria")
    columns = frame_to_columns(sightings(("IN CLEAR", "Victoria")))
    inject(net, met, Carried(net.type_id, camera.key, b"s" * 16, 7, int(net.now), 1, [], columns))
    assert plates(office) == []
    assert met.counts["maia_frames_refused_total"] == 1
    assert not [message for message in net.frames() if isinstance(message, Carried)]


def test_a_frame_sealed_as_a_whole_is_refused_where_each_attribute_is_to_be_sealed():
    """A29: a reader of one attribute would read them all."""
    net, _, _, met = the_three()
    _, office = camera_and_reader(net)
    inject(net, met, forged(net, signed_by="CCS broker", level=SealingLevel.EVENT))
    assert plates(office) == []
    assert met.counts["maia_frames_refused_total"] == 1


# ---------------------------------------------------------------- A50: dated back


def test_a_member_that_was_put_out_cannot_date_a_frame_back_for_longer_than_clocks_drift():
    """A50: it holds the old key, and a moment of that time is no secret."""
    net, _, _, met = the_three()
    _, office = camera_and_reader(net)
    ring = net.ring(*EVERY_KEY)
    evicted_at = Instant(NOW + 100 * SECOND)
    ring.learn(2, since=evicted_at)
    net.use(met, ring)
    drift = ring.terms.drift_s * SECOND
    back = Instant(NOW + 99 * SECOND)
    net.now = Instant(evicted_at + drift + 1)
    inject(net, met, forged(net, signed_by="CCS broker", at=back))
    inject(net, met, forged(net, signed_by="CCS broker", at=net.now, sequence=8))
    assert plates(office) == []
    assert met.counts["maia_frames_refused_total"] == 2


def test_a_frame_of_a_far_epoch_waits_for_nothing():
    """A50, A74: an epoch number costs nothing to make up, so it takes no place in a queue."""
    net, _, _, met = the_three()
    camera_and_reader(net)
    inject(net, met, forged(net, signed_by="CCS broker", epoch=1000))
    assert len(met.parts.seals.carrying) == 0
    assert met.counts["maia_frames_refused_total"] == 1


def test_made_up_epochs_do_not_turn_this_broker_against_the_manager():
    """A74: one question a second, however many frames ask for one."""
    net, _, _, met = the_three()
    camera_and_reader(net)
    asked = []
    met.parts.keys.member.missing = lambda type_id, now: asked.append(now) or []
    for number in range(5):
        inject(net, met, forged(net, signed_by="CCS broker", epoch=2, sequence=number))
    assert len(asked) == 1


# ---------------------------------------------------------------- A51: plaintext beside it


def test_plaintext_that_came_along_is_not_believed_without_its_proof():
    """A51: contents of another frame, of another attribute, and of one that the frame does not have."""
    net, _, _, met = the_three()
    _, office = camera_and_reader(net)
    frame = forged(net, signed_by="CCS broker", plate="GENUINE")
    lies = [OpenContent(NUMBERPLATE, b"\x01\x91\xa3LIE"), OpenContent("77", b"x")]
    inject(net, met, SealedWithPlaintext(frame, lies))
    assert plates(office) == ["GENUINE"]
    assert met.counts["maia_plaintext_dropped_total"] == 2


def test_plaintext_without_a_valid_frame_beside_it_is_worth_nothing():
    """A51, A49: the proof is the frame's."""
    net, _, _, met = the_three()
    _, office = camera_and_reader(net)
    frame = forged(net, signed_by="Met broker")
    inject(net, met, SealedWithPlaintext(frame, [OpenContent(NUMBERPLATE, b"\x01\x91\xa3LIE")]))
    assert plates(office) == []


# ---------------------------------------------------------------- A14: the attached statement


def test_the_statement_of_a_sealed_frame_is_attached_and_signed_by_the_publishers_broker():
    """A14, A96: it comes through brokers with the frame, and no router puts another in its place."""
    net, _, _, met = the_three()
    trust = IdentityTrust(COMMUNITY, frozenset({NORWAY.principal}))
    for running in net.brokers.values():
        state = running.parts
        state.own.settings, state.streams.attached._trust = (
            dc_replace(state.own.settings, identity=trust),
            trust,
        )
    camera, office = camera_and_reader(net)
    key = net.cast.keys["camera at Victoria"]
    low, high = (statement(key, start=net.now, clearance=level) for level in (1, 9))
    camera.say(Identify(99, pack_identity(low)))
    camera.publish(camera.advertise(), sighting("AE05 XYZ"))
    assert plates(office) == ["AE05 XYZ"]
    assert office.last(Deliver).author == Author(pack_identity(low), b"")
    genuine = Author(pack_identity(low), b"")
    frame = forged(net, signed_by="CCS broker", author=genuine)
    inject(net, met, replace(frame, author=Author(pack_identity(high), b"")))
    assert plates(office) == ["AE05 XYZ"]
    inject(net, met, frame)
    assert plates(office) == ["AE05 XYZ", "FORGED"]
