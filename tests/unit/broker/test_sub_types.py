"""What is published as a sub-type is seen as the super-type, and as nothing more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.broker import BrokerLimits
from maia.broker.links import projection
from maia.credentials import Action, TestKind, TypeName, Validity
from maia.credentials.requirements import parse_requirement, requirement_to_bytes
from maia.events import SECOND, Attribute, Instant, Kind, attribute_uid, frame_of
from maia.predicates import Comparison, Operator
from maia.testing import Issuer
from maia.types import (
    Added,
    Sealing,
    SealingLevel,
    definition_to_bytes,
    next_version,
    sign_definition,
    type_id,
)
from maia.wire.columns import frame_to_columns
from maia.wire.messages import AskState, Carried, Deliver, Offer, Publish, Published
from support.coalition import TRUST, show
from support.numberplate import LOCATION, NOW, NUMBERPLATE, TIMESTAMP, Net
from support.sub_types import (
    CASE_KINDS,
    CHARGE_KINDS,
    FEE,
    SubTypes,
    case,
    charge,
    rights_without,
    speak,
    tell_of_sub_types,
)
from support.types import version

VICTORIA, BILLING, SMITH = "camera at Victoria", "billing office", "Detective Smith"


class Town:
    """Three brokers in a row of links, cameras at one end and readers at the other."""

    def __init__(
        self, test: TestKind | None = None, validity: Validity | None = None, **settings: object
    ) -> None:
        self.net = Net(**settings)
        self.net.broker("PITO broker")
        self.net.broker("CCS broker", seeds=["PITO broker"])
        self.net.broker("Met broker", seeds=["PITO broker"])
        self.pito: Issuer
        self.ccs: Issuer
        self.world: SubTypes = tell_of_sub_types(self.net.cast, test=test, validity=validity)

    def client(self, who: str, at: str = "CCS broker", **changes: object):
        return self.net.client(who, at, **({"credentials": self.world.certificates} | changes))

    def camera(self, at: str = "CCS broker"):
        """Return a camera without any right to the super-type."""
        name = self.net.cast.type_name.name
        return self.client(VICTORIA, at, credentials=rights_without(self.world, VICTORIA, name))


@pytest.fixture
def town() -> Town:
    return Town()


@pytest.fixture
def tested() -> Town:
    """Return a town whose issuers have to be heard about the rights to extend."""
    town = Town(test=TestKind.CRL, lease_s=3600)
    town.pito, town.ccs = Issuer(town.net, "PITO", "PITO broker"), Issuer(town.net, "CCS", "CCS broker")
    town.pito.state(town.pito.says.list_now())
    town.ccs.state(town.ccs.says.list_now())
    return town


def test_a_frame_that_is_published_again_elsewhere_arrives_once(town):
    billing = town.client(BILLING, "Met broker")
    billing.subscribe()
    for at in ("CCS broker", "PITO broker"):
        camera = town.camera(at)
        camera.publish(
            speak(camera, town.world.charge, "advertise"), charge(), kinds=CHARGE_KINDS, sequence=3
        )
    assert len(billing.events()) == 1


def test_the_publishers_right_to_the_sub_type_decides_what_is_published(town):
    world, story = town.world, town.net.cast
    name = world.charge.definition.name
    small = story.grant("CCS", VICTORIA, name, Action.PUBLISH, restriction=Comparison(FEE, Operator.LT, 100))
    camera = town.client(VICTORIA, credentials=(*rights_without(world, VICTORIA, name.name), small))
    billing = town.client(BILLING, "Met broker")
    billing.subscribe()
    offer = speak(camera, world.charge, "advertise")
    camera.publish(offer, charge("A", fee=5), charge("B", fee=500), kinds=CHARGE_KINDS)
    assert [event[NUMBERPLATE] for event in billing.events()] == ["A"]
    assert camera.last(Published).refused_rows == 1


def test_no_attribute_of_the_sub_type_travels_under_the_super_type(town):
    billing = town.client(BILLING, "Met broker")
    billing.subscribe()
    camera = town.camera()
    camera.publish(speak(camera, town.world.case, "advertise"), case(), kinds=CASE_KINDS)
    carried = [message for _, _, message in town.net.carried if isinstance(message, Carried)]
    assert carried
    for message in carried:
        assert {column.uid for column in message.columns} <= {NUMBERPLATE, TIMESTAMP, LOCATION}


def test_a_later_version_of_the_super_type_reads_what_the_named_one_has(town):
    story = town.net.cast
    later = next_version(story.definition.definition, [], version=version(3))
    definitions = [
        definition_to_bytes(one) for one in (story.definition, sign_definition(later, story.keys["PITO"]))
    ]
    billing = town.client(BILLING, "Met broker")
    ref = billing.subscribe(definitions=definitions, event_type=later.name)
    camera = town.camera()
    camera.publish(speak(camera, town.world.charge, "advertise"), charge(), kinds=CHARGE_KINDS)
    assert billing.events(ref) == [{NUMBERPLATE: "LC04 ABC", TIMESTAMP: NOW}]


def test_a_version_of_a_manager_with_some_rights_is_believed_beside_the_one_before():
    town = Town(verify_in_transit=1.0)
    world, story = town.world, town.net.cast
    first = world.charge
    credentials = (
        story.grant("CCS", "Met", first.definition.name, Action.MANAGE_ADD),
        story.grant("PITO", "Met", story.type_name, Action.EXTEND),
        story.grant("PITO", "Met", story.network, Action.INSTALL),
    )
    more = Attribute("more", attribute_uid("more"), Kind.STRING)
    later = sign_definition(
        next_version(first.definition, [Added(more)], version=version(9), credentials=credentials),
        story.keys["Met"],
    )
    billing = town.client(BILLING, "CCS broker")
    billing.subscribe()
    camera = town.camera("Met broker")
    definitions = [definition_to_bytes(one) for one in (first, later)]
    offer = speak(camera, later, "advertise", definitions=definitions)
    assert camera.was_accepted(offer), camera.heard
    camera.publish(offer, {**charge(), more.uid: "x"}, kinds={**CHARGE_KINDS, more.uid: more.kind})
    assert billing.events() == [{NUMBERPLATE: "LC04 ABC", TIMESTAMP: NOW}]
    assert not any(running.noted("refused") for running in town.net.brokers.values())


def test_a_super_type_that_was_sealed_since_makes_a_plain_sub_type_unusable(town):
    """A29: the strongest version that the broker has met decides."""
    story = town.net.cast
    pito = story.keys["PITO"]
    later = next_version(
        story.definition.definition,
        [],
        version=version(3),
        sealing=Sealing(SealingLevel.EVENT, pito.principal),
    )
    definitions = [definition_to_bytes(one) for one in (story.definition, sign_definition(later, pito))]
    town.client(BILLING).subscribe(definitions=definitions, event_type=later.name)
    camera = town.camera()
    assert camera.code_of(speak(camera, town.world.charge, "advertise")) == "TYPE-SUB-TYPE-SEALS-LESS"


def test_a_broker_forgets_nothing_of_it_when_it_is_started_again(town):
    camera = town.camera()
    speak(camera, town.world.case, "advertise")
    town.net.restart("CCS broker")
    billing = town.client(BILLING, "Met broker")
    billing.subscribe()
    camera = town.camera()
    offer = camera.advertise(definitions=[], event_type=town.world.case.definition.name)
    assert camera.was_accepted(offer), camera.heard
    town.net.advance(2)
    camera.publish(offer, case(), kinds=CASE_KINDS)
    assert len(billing.events()) == 1


def test_super_types_of_what_is_in_use_stay_known_when_room_is_made():
    town = Town(limits=BrokerLimits(types=6))
    story, pito = town.net.cast, town.client("PITO")
    camera = town.camera()
    offer = speak(camera, town.world.case, "advertise")
    for number in range(8):
        other = TypeName(story.principal("PITO"), f"uk.gov.pito.Other{number}", "0")
        definition = sign_definition(replace(story.definition.definition, name=other), story.keys["PITO"])
        ref = speak(pito, definition, "advertise")
        assert pito.was_accepted(ref), pito.heard
        pito.withdraw(ref)
    known = town.net.brokers["CCS broker"].parts.types.type_ids()
    names = [
        definition.definition.name for definition in (town.world.case, town.world.charge, story.definition)
    ]
    assert {type_id(name.owner, name.name) for name in names} <= set(known)
    billing = town.client(BILLING, "Met broker")
    billing.subscribe()
    camera.publish(offer, case(), kinds=CASE_KINDS)
    assert len(billing.events()) == 1


def test_an_offer_shows_so_many_versions_of_a_sub_type(monkeypatch):
    """Of a longer line the last ones have to do: most signers need no earlier version."""
    monkeypatch.setattr(projection, "_LINEAGE_SHOWN", 2)
    town = Town(verify_in_transit=1.0)
    lineage = [town.world.charge]
    for number in (1, 2, 3):
        credentials = lineage[0].definition.credentials
        later = next_version(lineage[-1].definition, [], version=version(number), credentials=credentials)
        lineage.append(sign_definition(later, town.net.cast.keys["CCS"]))
    billing = town.client(BILLING, "CCS broker")
    billing.subscribe()
    camera = town.camera("Met broker")
    definitions = [definition_to_bytes(one) for one in lineage]
    camera.publish(
        speak(camera, lineage[-1], "advertise", definitions=definitions), charge(), kinds=CHARGE_KINDS
    )
    assert len(billing.events()) == 1
    offers = [one for _, _, one in town.net.carried if isinstance(one, Offer)]
    shown = [sum(b"event-type" in data for data in one.credentials) for one in offers]
    assert max(shown) == 2


# ---------------------------------------------------------------- when rights end


def test_a_revoked_consent_ends_it_at_once_and_the_sub_type_lives_on(tested):
    town = tested
    billing = town.client(BILLING, "Met broker")
    above, below = billing.subscribe(), speak(billing, town.world.charge, "subscribe")
    camera = town.camera()
    offer = speak(camera, town.world.charge, "advertise")
    camera.publish(offer, charge("before"), kinds=CHARGE_KINDS)
    town.pito.revoke(town.world.consents["CCS"])
    camera.publish(offer, charge("after"), kinds=CHARGE_KINDS)
    assert [event[NUMBERPLATE] for event in billing.events(above)] == ["before"]
    assert [event[NUMBERPLATE] for event in billing.events(below)] == ["before", "after"]
    assert town.net.brokers["CCS broker"].noted("not-published-as-super-type")


def test_a_revoked_consent_between_ends_what_is_above_it_alone(tested):
    """Met extends the type of CCS, which extends PITO's: what PITO takes back ends at CCS."""
    town = tested
    billing = town.client(BILLING, "Met broker")
    above, between = billing.subscribe(), speak(billing, town.world.charge, "subscribe")
    camera = town.camera()
    offer = speak(camera, town.world.case, "advertise")
    town.pito.revoke(town.world.consents["CCS"])
    camera.publish(offer, case("one"), kinds=CASE_KINDS)
    assert [len(billing.events(ref)) for ref in (above, between)] == [0, 1]
    town.ccs.revoke(town.world.consents["Met"])
    camera.publish(offer, case("two"), kinds=CASE_KINDS)
    assert [len(billing.events(ref)) for ref in (above, between)] == [0, 1]


def test_a_consent_that_counts_again_is_used_again():
    town = Town(test=TestKind.TIMED_CRL, lease_s=3600)
    pito, ccs = Issuer(town.net, "PITO", "PITO broker"), Issuer(town.net, "CCS", "CCS broker")
    pito.vouch(60)
    ccs.vouch(3600)
    billing = town.client(BILLING, "Met broker")
    billing.subscribe()
    camera = town.camera()
    offer = speak(camera, town.world.charge, "advertise")
    camera.publish(offer, charge("vouched"), kinds=CHARGE_KINDS)
    town.net.advance(61)
    camera.publish(offer, charge("stale"), kinds=CHARGE_KINDS)
    pito.vouch(3600)
    town.net.advance(3)
    camera.publish(offer, charge("again"), kinds=CHARGE_KINDS)
    assert [event[NUMBERPLATE] for event in billing.events()] == ["vouched", "again"]


def test_an_expired_consent_ends_the_sub_type():
    until = Instant(NOW + 60 * SECOND)
    town = Town(validity=Validity(None, until), lease_s=3600)
    billing = town.client(BILLING, "Met broker")
    billing.subscribe()
    camera = town.camera()
    offer = speak(camera, town.world.charge, "advertise")
    camera.publish(offer, charge("before"), kinds=CHARGE_KINDS)
    town.net.advance(61)
    assert camera.ended_with(offer) == "POLICY-TYPE-NOT-VALID"
    assert [event[NUMBERPLATE] for event in billing.events()] == ["before"]
    assert camera.code_of(speak(camera, town.world.charge, "advertise")) == "TYPE-EXPIRED"


def test_a_revoked_publisher_of_the_sub_type_is_seen_no_more(town):
    billing = town.client(BILLING, "Met broker")
    billing.subscribe()
    camera = town.camera()
    offer = speak(camera, town.world.charge, "advertise")
    camera.publish(offer, charge("before"), kinds=CHARGE_KINDS)
    Issuer(town.net, "CCS", "CCS broker").revoke(town.world.rights[0])
    camera.publish(offer, charge("after"), kinds=CHARGE_KINDS)
    assert [event[NUMBERPLATE] for event in billing.events()] == ["before"]
    assert camera.ended_with(offer) == "POLICY-REVOKED"
    name = town.net.cast.type_name
    last = [
        message for at, _, message in town.net.carried if isinstance(message, Offer) and at == "CCS broker"
    ]
    assert name
    assert not last[-1].stands


# ---------------------------------------------------------------- the present state


def test_the_state_of_a_super_type_holds_what_was_said_as_a_sub_type(town):
    camera = town.camera()
    camera.publish(speak(camera, town.world.charge, "advertise"), charge(), kinds=CHARGE_KINDS)
    billing = town.client(BILLING, "Met broker")
    ref = billing.subscribe()
    billing.say(AskState(77, ref))
    assert billing.events(ref) == [{NUMBERPLATE: "LC04 ABC", TIMESTAMP: NOW}]


@pytest.mark.parametrize("lost", ["extend", "publish"])
def test_what_was_said_goes_with_the_right_to_say_it(tested, lost):
    town = tested
    camera = town.camera()
    camera.publish(speak(camera, town.world.charge, "advertise"), charge(), kinds=CHARGE_KINDS)
    camera.hang_up()
    if lost == "extend":
        town.pito.revoke(town.world.consents["CCS"])
    else:
        town.ccs.revoke(town.world.rights[0])
    for at in ("CCS broker", "Met broker"):
        billing = town.client(BILLING, at)
        ref = billing.subscribe()
        billing.say(AskState(77, ref))
        assert not billing.all_heard(Deliver)


@pytest.mark.parametrize("is_default", [True, False])
def test_what_the_publisher_of_a_sub_type_requires_holds_for_readers_of_the_super_type(is_default: bool):
    town = Town(identity=TRUST)
    low, high = (town.client(BILLING, "Met broker") for _ in range(2))
    show(low, rank=1)
    show(high, rank=2)
    low.subscribe()
    high.subscribe()
    camera, required = town.camera(), parse_requirement("rank >= 2")
    told = {"requires": required} if is_default else {}
    offer = speak(camera, town.world.charge, "advertise", **told)
    frame = frame_to_columns(frame_of([charge()], CHARGE_KINDS))
    if is_default:
        camera.say(Publish(offer, 0, int(NOW), 1, frame))
    else:
        camera.say(Publish(offer, 0, int(NOW), 1, frame, requirement_to_bytes(required)))
    assert [event[NUMBERPLATE] for event in high.events()] == ["LC04 ABC"]
    assert low.events() == []
