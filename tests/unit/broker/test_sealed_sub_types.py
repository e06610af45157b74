"""Sealed sub-types: the inherited part opens for the super-type's readers, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.broker.interests.entries import received_of
from maia.credentials import Action, Transformation
from maia.credentials.authority import ALL_ATTRIBUTES
from maia.events import AttributeUid, Kind
from maia.expressions.syntax import Call, Function, Rule, Take
from maia.policy.answers import PART_PREFIX, needed_part, with_columns
from maia.policy.view import Window
from maia.predicates import ALWAYS, Comparison, Operator
from maia.routing.table.hops import type_of_book_key
from maia.sealing.filters.proofs import open_proof
from maia.types import SealingLevel
from maia.wire.codec import encode
from maia.wire.messages import AskState, Carried, Offer, Published, Sealed, SealedWithPlaintext
from support.numberplate import CAMERA, NOW, NUMBERPLATE, NUMBERPLATE_KINDS, TIMESTAMP
from support.sealed_messages import is_sealed
from support.sub_types import (
    ABOVE,
    BELOW,
    CHARGE_KINDS,
    FEE,
    SECRET_FEE,
    SealedTown,
    charge,
    rights_without,
    speak,
    whole,
)

LEVELS = (SealingLevel.EVENT, SealingLevel.ATTRIBUTE)
BILLING = "billing office"


@pytest.mark.parametrize("level", LEVELS)
def test_a_reader_of_the_super_type_reads_the_inherited_part(level):
    town = whole(level)
    billing = town.person(BILLING, "Met broker")
    above, below = billing.subscribe(), speak(billing, town.world.charge, "subscribe")
    camera = town.camera()
    offer = speak(camera, town.world.charge, "advertise")
    assert camera.was_accepted(offer), camera.heard
    camera.publish(offer, charge(), kinds=CHARGE_KINDS)
    assert billing.events(above) == [{NUMBERPLATE: "LC04 ABC", TIMESTAMP: NOW}]
    assert [event[FEE] for event in billing.events(below)] == [SECRET_FEE]
    assert not [message for message in town.frames() if isinstance(message, Carried)]
    for secret in (b"LC04 ABC", b"Victoria"):
        assert secret not in town.heard_by(town.middle)


@pytest.mark.parametrize("level", LEVELS)
def test_a_broker_that_reads_the_super_type_alone_is_sent_nothing_of_the_sub_type(level):
    """A99: not the value, not its ciphertext, not its uid."""
    town = SealedTown(level)
    town.bring(town.ccs, town.type_id, *ABOVE)
    town.bring(town.ccs, town.below, *BELOW)
    town.bring(town.met, town.type_id, *ABOVE)
    billing = town.person(BILLING, "Met broker")
    ref = billing.subscribe()
    camera = town.camera()
    camera.publish(speak(camera, town.world.charge, "advertise"), charge(), kinds=CHARGE_KINDS)
    assert billing.events(ref) == [{NUMBERPLATE: "LC04 ABC", TIMESTAMP: NOW}]
    frames = town.frames(to=town.met)
    assert frames
    for message in frames:
        frame = message.frame if isinstance(message, SealedWithPlaintext) else message
        assert isinstance(frame, Sealed)
        assert frame.type_id == town.type_id
        assert FEE.encode() not in encode(message)


def test_a_transformed_right_to_the_super_type_shows_events_of_the_sub_type():
    """X8: what it shows of whole events is made where the sub-type is published, too."""
    town = SealedTown(SealingLevel.EVENT)
    short = Rule(NUMBERPLATE, Call(Function.FIRST, Take(NUMBERPLATE, Kind.STRING), (2,)))
    step = Transformation(town.cast.owner.principal, (short,), frozenset({NUMBERPLATE, TIMESTAMP}))
    part = AttributeUid(PART_PREFIX + "0" * 32)
    window = Window(ALWAYS, ALL_ATTRIBUTES, (step,))
    (said,) = needed_part(window, NUMBERPLATE_KINDS, b"")
    answers = with_columns({part: said})
    town.bring(town.ccs, town.type_id, None, part, answers=answers)
    town.bring(town.ccs, town.below, None)
    town.bring(town.met, town.type_id, part, answers=answers)
    shown = rights_without(town.world, BILLING, town.cast.type_name.name)
    right = town.cast.right(BILLING, Action.SUBSCRIBE, transformations=(step,))
    billing = town.client(BILLING, "Met broker", credentials=(*shown, right))
    ref, camera = billing.subscribe(), town.camera()
    camera.publish(speak(camera, town.world.charge, "advertise"), charge(), kinds=CHARGE_KINDS)
    assert billing.events(ref) == [{NUMBERPLATE: "LC", TIMESTAMP: NOW}]
    (frame,) = town.frames(to=town.met)
    assert isinstance(frame, Sealed)
    assert [one.uid for one in frame.columns] == ["", part]


def test_keys_of_the_super_type_that_come_later_are_waited_for():
    town = SealedTown()
    town.bring(town.ccs, town.below, *BELOW)
    billing = town.person(BILLING, "CCS broker")
    above, below = billing.subscribe(), speak(billing, town.world.charge, "subscribe")
    camera = town.camera()
    offer = speak(camera, town.world.charge, "advertise")
    for number in range(3):
        camera.publish(offer, charge(f"LC0{number}"), kinds=CHARGE_KINDS)
    assert len(camera.all_heard(Published)) == 3
    assert [len(billing.events(ref)) for ref in (above, below)] == [0, 3]
    town.bring(town.ccs, town.type_id, *ABOVE)
    town.advance(1)
    assert [event[NUMBERPLATE] for event in billing.events(above)] == ["LC00", "LC01", "LC02"]


def test_without_keys_of_the_super_type_the_sub_type_alone_is_published():
    """A broker gets no keys of a super-type by way of a sub-type: it needs a right of its own."""
    town = SealedTown()
    for running in (town.ccs, town.met):
        town.bring(running, town.below, *BELOW)
    billing = town.person(BILLING, "Met broker")
    ref = speak(billing, town.world.charge, "subscribe")
    camera = town.camera()
    camera.publish(speak(camera, town.world.charge, "advertise"), charge(), kinds=CHARGE_KINDS)
    town.advance(60)
    assert len(billing.events(ref)) == 1
    assert town.ccs.counts["maia_projections_lost_total"] == 1
    assert not any(isinstance(message, Carried) for message in town.frames())


def test_what_a_publishers_right_says_of_the_sub_type_is_shut_for_readers_of_the_super_type():
    town = whole(SealingLevel.ATTRIBUTE)
    name = town.world.charge.definition.name
    small = town.cast.grant(
        "CCS", CAMERA, name, Action.PUBLISH, restriction=Comparison(FEE, Operator.LT, 987654)
    )
    town.world = replace(town.world, rights=town.world.rights[1:])
    billing = town.person(BILLING, "Met broker")
    ref = billing.subscribe()
    camera = town.camera(small)
    offer = speak(camera, town.world.charge, "advertise")
    assert camera.was_accepted(offer), camera.heard
    camera.publish(offer, charge(), kinds=CHARGE_KINDS)
    assert len(billing.events(ref)) == 1
    told = [one for _, _, one in town.carried if is_sealed(one, Offer)]
    about = [one for one in told if type_of_book_key(one.key) == town.type_id and one.stands]
    standing = [received_of(one.key, one.proof, one.credentials) for one in about]
    assert standing
    for one in standing:
        assert open_proof(one.sealed, one.proof, town.rings[town.met.name][town.type_id]) is None


def test_the_state_of_a_sealed_super_type_is_told_sealed():
    town = whole(SealingLevel.ATTRIBUTE)
    camera = town.camera()
    camera.publish(speak(camera, town.world.charge, "advertise"), charge(), kinds=CHARGE_KINDS)
    billing = town.person(BILLING, "Met broker")
    ref = billing.subscribe()
    billing.say(AskState(77, ref))
    assert billing.events(ref) == [{NUMBERPLATE: "LC04 ABC", TIMESTAMP: NOW}]
    assert b"LC04 ABC" not in town.heard_by(town.middle)
