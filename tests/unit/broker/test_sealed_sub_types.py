"""Sealed sub-types: the inherited part opens for the super-type's readers, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from maia.broker.sealed.key_events import keys_came
from maia.credentials import Action, SignedCertificate, issue
from maia.demo.numberplate import NUMBERPLATE, NUMBERPLATE_KINDS, TIMESTAMP
from maia.events import AttributeUid
from maia.predicates import Comparison, Operator
from maia.sealing.groups.group_id import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.secrets import Secret
from maia.types import Sealing, SealingLevel, type_id
from maia.wire.codec import encode
from maia.wire.messages import AskState, Carried, Published, Sealed, SealedWithPlaintext
from support.broker import NOW, SEED, Running
from support.sealed_net import state_of
from support.sealed_publications import READ, WRITE, PublishingNet
from support.sub_types import (
    CHARGE_KINDS,
    FEE,
    SECRET_FEE,
    charge,
    grant,
    rights_without,
    speak,
    tell_of_sub_types,
)

LEVELS = (SealingLevel.EVENT, SealingLevel.ATTRIBUTE)
VICTORIA, BILLING = "camera at Victoria", "billing office"
ABOVE: tuple[AttributeUid | None, ...] = (None, *NUMBERPLATE_KINDS)
BELOW: tuple[AttributeUid | None, ...] = (None, *CHARGE_KINDS)


class Town(PublishingNet):
    """The three brokers with keys of two types, which a test brings."""

    def __init__(self, level: SealingLevel = SealingLevel.ATTRIBUTE, **settings: Any) -> None:
        super().__init__(level, **settings)
        sealing = Sealing(level, self.story.principal("PITO"))
        self.world = tell_of_sub_types(self.story, sealing=sealing)
        name = self.world.charge.definition.name
        self.below = type_id(name.owner, name.name)
        for broker in ("CCS broker", "Met broker"):
            self.entitle(broker, READ, WRITE)
        self.ccs, self.middle, self.met = self.three()
        self.rings: dict[str, dict[bytes, KeyRing]] = {}

    def broker(self, name: str = "CCS broker", **changes: Any) -> Running:
        key, _ = self._identity(name)
        if name in self.rights:
            right = grant(self.story, "CCS", "CCS", self.world.charge.definition.name, READ, WRITE)
            certificate = replace(right.certificate, subject=key.principal)
            self.rights[name] = (*self.rights[name], issue(certificate, self.story.keys["CCS"]))
        return super().broker(name, **changes)

    def bring(self, running: Running, kind: bytes, *groups: AttributeUid | None) -> None:
        """Bring a broker keys of a type, which may have been awaited."""
        ring = KeyRing(kind)
        ring.learn(1, since=self.now)
        for uid in groups:
            secret = sha256(b"%b/%b/%b" % (SEED, kind, (uid or "*").encode())).digest()
            ring.hold(GroupId(kind, uid), 1, Secret.from_bytes(secret))
        rings = self.rings.setdefault(running.name, {})
        rings[kind] = ring
        state = state_of(running)
        state.seals.ring_of = state.sealed.ring_of = rings.get
        for name, certificates in self.rights.items():
            identity, shown = self._identity(name)
            state.writers.learn(kind, identity.principal, (*shown, *certificates))
        effects = running.broker._finished(keys_came(state, kind, self.now), self.now)
        self._perform(running, effects)
        self.settle()

    def person(self, who: str, at: str, *more: SignedCertificate) -> Any:
        return self.client(who, at, credentials=(*self.world.certificates, *more))

    def camera(self, *more: SignedCertificate) -> Any:
        name = self.story.definition.definition.name.name
        return self.client(VICTORIA, credentials=(*rights_without(self.world, VICTORIA, name), *more))


def whole(level: SealingLevel) -> Town:
    """Return a town in which both brokers hold all keys of both types."""
    town = Town(level)
    for running in (town.ccs, town.met):
        town.bring(running, town.type_id, *ABOVE)
        town.bring(running, town.below, *BELOW)
    return town


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
    town = Town(level)
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


def test_keys_of_the_super_type_that_come_later_are_waited_for():
    town = Town()
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
    town = Town()
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
    small = grant(
        town.story, "CCS", VICTORIA, name, Action.PUBLISH, restriction=Comparison(FEE, Operator.LT, 987654)
    )
    town.world = replace(town.world, rights=town.world.rights[1:])
    billing = town.person(BILLING, "Met broker")
    ref = billing.subscribe()
    camera = town.camera(small)
    offer = speak(camera, town.world.charge, "advertise")
    assert camera.was_accepted(offer), camera.heard
    camera.publish(offer, charge(), kinds=CHARGE_KINDS)
    assert len(billing.events(ref)) == 1
    assert b"987654" not in town.heard_by(town.met) + town.heard_by(town.middle)


def test_the_state_of_a_sealed_super_type_is_told_sealed():
    town = whole(SealingLevel.ATTRIBUTE)
    camera = town.camera()
    camera.publish(speak(camera, town.world.charge, "advertise"), charge(), kinds=CHARGE_KINDS)
    billing = town.person(BILLING, "Met broker")
    ref = billing.subscribe()
    billing.say(AskState(77, ref))
    assert billing.events(ref) == [{NUMBERPLATE: "LC04 ABC", TIMESTAMP: NOW}]
    assert b"LC04 ABC" not in town.heard_by(town.middle)
