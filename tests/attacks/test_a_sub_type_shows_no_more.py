"""A99: extending a type gives nobody a right, and shows nobody more than a right.

Who has no consent cannot publish as the super-type, whoever it asks; who reads
the super-type cannot learn of the sub-type; who reads the sub-type cannot read
the super-type; and a consent that was lost ends it on every way in.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from maia.credentials import Action, SigningKey, TestKind, TypeName
from maia.errors import MaiaError
from maia.events import Attribute, Kind, attribute_uid, frame_of
from maia.predicates import ALWAYS, Comparison, Exists, Operator
from maia.sealing import SignatureChecks, read_run, verify
from maia.testing import Issuer, NetClient, shown
from maia.types import (
    SealingLevel,
    SignedDefinition,
    TypeDefinition,
    definition_from_bytes,
    definition_to_bytes,
    sign_definition,
    type_id,
    verify_definition,
)
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from maia.wire.messages import (
    AskState,
    Carried,
    Deliver,
    Failed,
    Interest,
    Offer,
    Sealed,
    SealedWithPlaintext,
    Wanted,
)
from maia.wire.names import filter_to_bytes
from support.numberplate import LOCATION, NOW, NUMBERPLATE, NUMBERPLATE_KINDS, TIMESTAMP, Net, sighting
from support.sub_types import (
    CASE_KINDS,
    CHARGE_KINDS,
    FEE,
    SECRET_FEE,
    SubTypes,
    case,
    charge,
    rights_without,
    speak,
    tell_of_sub_types,
    whole,
)

VICTORIA, BILLING, SMITH, STATISTICS = (
    "camera at Victoria",
    "billing office",
    "Detective Smith",
    "statistics office",
)
ROGUE = SigningKey.from_seed(b"\x0f" * 32)


class Town:
    """One broker, the sub-types, and a rogue broker that may connect and nothing else."""

    def __init__(self, *, test: TestKind | None = None) -> None:
        self.net = Net(verify_in_transit=1.0, lease_s=3600)
        self.broker = self.net.broker()
        self.world: SubTypes = tell_of_sub_types(self.net.cast, test=test)
        name = self.net.cast.type_name
        self.above = type_id(name.owner, name.name)

    def client(self, who: str, *certificates: Any) -> NetClient:
        return self.net.client(who, credentials=(*self.world.certificates, *certificates))

    def camera(self) -> NetClient:
        name = self.net.cast.type_name.name
        return self.net.client(VICTORIA, credentials=rights_without(self.world, VICTORIA, name))

    def rogue(self) -> NetClient:
        credentials = (self.net.cast.broker_right(ROGUE),)
        return self.net.client("a rogue broker", key=ROGUE, credentials=credentials, address="rogue:1")

    def request(self, who: str, definition: SignedDefinition, action: Action = Action.PUBLISH) -> bytes:
        asking = NetClient(self.net, self.net.cast.keys[who], self.world.certificates)
        return asking.request(action, event_type=definition.definition.name)

    def believes(self, rogue: NetClient, plate: str = "FORGED") -> bool:
        """Return whether a frame of the super-type is taken from the rogue broker."""
        reader = self.client(STATISTICS)
        ref = reader.subscribe()
        frame = Carried(
            self.above, self.net.cast.principal(VICTORIA).key, b"x" * 16, 0, int(self.net.now), 1, [],
            columns_of(plate),
        )  # fmt: skip
        rogue.say(frame)
        return bool(reader.events(ref))


def columns_of(plate: str) -> list[Any]:
    return frame_to_columns(frame_of([sighting(plate)], NUMBERPLATE_KINDS))


def extended(town: Town, by: str, **changes: Any) -> SignedDefinition:
    """Return a sub-type that somebody signed with whatever it has."""
    story = town.net.cast
    told: dict[str, Any] = {
        "name": TypeName(story.principal(by), "uk.gov.forged.Type", "0"),
        "previous": None,
        "attributes": story.definition.definition.attributes,
        "credentials": (story.grant("PITO", by, story.network, Action.INSTALL),),
        "sealing": None,
        "extends": (story.definition,),
    }
    return sign_definition(TypeDefinition(**(told | changes)), story.keys[by])


# ---------------------------------------------------------------- without consent


def test_a_sub_type_without_consent_is_published_as_nothing() -> None:
    """A29: a manager with every right to its own type, and none to extend this one."""
    town = Town()
    met = town.client("Met")
    forged = extended(town, "Met")
    assert met.code_of(speak(met, forged, "advertise")) == "TYPE-EXTEND-NOT-GRANTED"
    assert town.broker.parts.types.type_ids() == ()


def test_consent_for_another_type_owner_or_version_is_none() -> None:
    """A22: a certificate for type X on type Y, one of another issuer, one of somebody else's subject."""
    town = Town()
    story = town.net.cast
    other = TypeName(story.principal("PITO"), "uk.gov.pito.Arrest", "0")
    name = story.type_name
    for consent in (
        story.grant("PITO", "Met", other, Action.EXTEND),
        story.grant("CCS", "Met", name, Action.EXTEND),
        story.grant("PITO", "CCS", name, Action.EXTEND),
        story.grant("PITO", "Met", name, Action.PUBLISH, Action.SUBSCRIBE),
    ):
        forged = extended(
            town, "Met", credentials=(story.grant("PITO", "Met", story.network, Action.INSTALL), consent)
        )
        with pytest.raises(MaiaError) as refused:
            verify_definition(forged, at=NOW)
        assert refused.value.code == "TYPE-EXTEND-NOT-GRANTED"


def test_a_sub_type_that_redefines_an_attribute_is_refused_in_every_form() -> None:
    """A29, A31: a uid with another kind, another name for a uid, written by hand into the signed bytes."""
    town = Town()
    data = definition_to_bytes(town.world.charge)
    at = data.rindex(b"11:numberplate4:32656:string")
    for forged in (b"11:numberplate4:32663:int", b"11:numberplate4:32653:int", b"5:plate4:32656:string"):
        with pytest.raises(MaiaError) as refused:
            definition_from_bytes(data[:at] + forged + data[at + len(b"11:numberplate4:32656:string") :])
        assert refused.value.code in {"TYPE-INHERITED-CHANGED", "TYPE-ENCODING"}


def test_a_super_type_inside_that_another_signed_is_refused() -> None:
    """A32: the super-type's definition is replaced by one that its owner has not signed."""
    town = Town()
    story = town.net.cast
    weaker = replace(story.definition.definition, attributes=story.definition.definition.attributes[:1])
    forged = extended(town, "Met", extends=(sign_definition(weaker, story.keys["Met"]),))
    with pytest.raises(MaiaError) as refused:
        verify_definition(forged, at=NOW)
    assert refused.value.code == "TYPE-NOT-A-MANAGER"


def test_a_second_definition_of_the_super_type_inside_is_a_fork() -> None:
    """A29: the owner of the super-type signed another content under the same full name."""
    town = Town()
    story = town.net.cast
    town.client(BILLING).subscribe()
    more = Attribute("more", attribute_uid("more"), Kind.INT)
    twin = replace(story.definition.definition, attributes=(*story.definition.definition.attributes, more))
    pito = town.client("PITO")
    signed = sign_definition(twin, story.keys["PITO"])
    below = extended(town, "PITO", attributes=twin.attributes, extends=(signed,), credentials=())
    assert pito.code_of(speak(pito, below, "advertise")) == "TYPE-FORK"


# ---------------------------------------------------------------- other brokers


@pytest.mark.parametrize(
    "change",
    [None, "no definition", "another sub-type", "no sub-type", "no consent", "no right", "interest", "cut"],
)
def test_an_offer_of_a_super_type_proves_every_step(change: str | None) -> None:
    """A67, A22: with the whole proof a broker is believed; with less, or with another's, it is not."""
    town = Town()
    world, rogue = town.world, town.rogue()
    definition, certificates = world.charge, list(shown(world.certificates))
    request = town.request(VICTORIA, world.charge)
    match change:
        case "another sub-type":
            definition = world.case
        case "no sub-type":
            definition = town.net.cast.definition
        case "no consent":
            definition = extended(town, "Met")
            request = town.request("Met", definition)
        case "no right":
            certificates = shown(rights_without(world, VICTORIA, "uk.gov.ccs.Charge"))
        case "cut":
            certificates = certificates[:3]
    evidence = [definition_to_bytes(definition), *certificates]
    if change == "no definition":
        evidence = certificates
    if change == "interest":
        wanted = Wanted(b"w" * 16, filter_to_bytes(ALWAYS), request, evidence)
        rogue.say(Interest(town.above, [wanted], []))
    else:
        rogue.say(Offer(town.above, True, request, evidence))
    assert town.believes(rogue) == (change is None)
    assert bool(town.broker.noted("refused")) == (change is not None)


def test_who_reads_a_sub_type_does_not_read_the_super_type_by_it() -> None:
    """A67: a reader of the sub-type, and the sub-type's definition, prove no interest in the super-type."""
    town = Town()
    rogue, world = town.rogue(), town.world
    request = town.request(BILLING, world.charge, Action.SUBSCRIBE)
    certificates = shown(rights_without(world, BILLING, "uk.gov.pito.Numberplate"))
    evidence = [definition_to_bytes(world.charge), *certificates]
    rogue.say(Interest(town.above, [Wanted(b"w" * 16, filter_to_bytes(ALWAYS), request, evidence)], []))
    camera = town.client(VICTORIA)
    camera.publish(camera.advertise(), sighting())
    assert not rogue.all_heard(Carried)
    office = town.net.client(BILLING, credentials=rights_without(world, BILLING, "uk.gov.pito.Numberplate"))
    assert office.code_of(office.subscribe()) is not None


def test_an_offer_falls_with_the_consent_that_it_rests_on() -> None:
    """A35: a broker that was believed by a consent is not believed any more when that is revoked."""
    town = Town(test=TestKind.CRL)
    pito = Issuer(town.net, "PITO")
    pito.state(pito.says.list_now())
    rogue = town.rogue()
    evidence = [definition_to_bytes(town.world.charge), *shown(town.world.certificates)]
    rogue.say(Offer(town.above, True, town.request(VICTORIA, town.world.charge), evidence))
    assert town.believes(rogue)
    pito.revoke(town.world.consents["CCS"])
    town.net.advance(3)
    reader = town.client(STATISTICS)
    ref = reader.subscribe()
    publisher = town.net.cast.principal(VICTORIA).key
    rogue.say(Carried(town.above, publisher, b"y" * 16, 1, int(town.net.now), 1, [], columns_of("LATE")))
    assert not reader.events(ref)
    rogue.say(Offer(town.above, True, town.request(VICTORIA, town.world.charge), evidence))
    rogue.say(Carried(town.above, publisher, b"y" * 16, 2, int(town.net.now), 1, [], columns_of("AGAIN")))
    assert not reader.events(ref)


def test_definitions_of_strangers_cost_a_bounded_amount_of_work() -> None:
    """A87: an offer with the largest definition that is read at all stays within the work of a message."""
    town = Town()
    story = town.net.cast
    lineage = [story.definition]
    for number in range(1, 32):
        previous = lineage[-1].definition
        name = replace(previous.name, version=f"00000000-0000-4000-8000-{number:012d}")
        later = replace(previous, name=name, previous=previous.name.version)
        lineage.append(sign_definition(later, story.keys["PITO"]))
    large = extended(town, "Met", extends=tuple(lineage))
    request = town.request("Met", large)
    rogue, meter = town.rogue(), town.broker.parts.authoriser.meter
    before = meter.used
    for _ in range(3):
        rogue.say(Offer(town.above, True, request, [definition_to_bytes(large)]))
    limits = town.broker.settings.limits
    assert meter.used - before <= 3 * limits.work_per_message
    assert town.broker.parts.types.type_ids() == ()


# ---------------------------------------------------------------- readers of the super-type


def test_a_reader_of_the_super_type_hears_the_same_as_of_any_sighting() -> None:
    """A55: a frame of a sub-type has the columns, numbers and length of one of the super-type."""
    heard = []
    for is_below in (False, True):
        town = Town()
        office = town.client(BILLING)
        office.subscribe()
        camera = town.camera() if is_below else town.client(VICTORIA)
        offer = speak(camera, town.world.case, "advertise") if is_below else camera.advertise()
        event, kinds = (case(), CASE_KINDS) if is_below else (sighting(), NUMBERPLATE_KINDS)
        for _ in range(3):
            camera.publish(offer, event, kinds=kinds)
        heard.append(
            [
                (message.refs, len(message.label), message.rows, message.columns, len(encode(message)))
                for message in office.all_heard(Deliver)
            ]
        )
    assert heard[0] == heard[1]
    assert len(heard[0]) == 3


def test_a_filter_of_the_super_type_cannot_ask_about_the_sub_type() -> None:
    """A38: neither a comparison nor the mere presence of an attribute of the sub-type can be asked for."""
    town = Town()
    office = town.client(BILLING)
    for question in (Comparison(FEE, Operator.EQ, SECRET_FEE), Exists(FEE)):
        assert office.code_of(office.subscribe(question)) == "POLICY-ATTRIBUTE-NOT-READABLE"


def test_nothing_that_happens_to_the_sub_type_is_told_to_readers_of_the_super_type() -> None:
    """A99: refused rows, a revoked publisher, a lost consent: a reader above hears of none of it."""
    town = Town(test=TestKind.CRL)
    issuers = {who: Issuer(town.net, who) for who in ("PITO", "CCS")}
    for issuer in issuers.values():
        issuer.state(issuer.says.list_now())
    office = town.client(STATISTICS)
    ref = office.subscribe()
    camera = town.camera()
    offer = speak(camera, town.world.charge, "advertise")
    camera.publish(offer, charge("ONE"), kinds=CHARGE_KINDS)
    before = len(office.heard)
    issuers["PITO"].revoke(town.world.consents["CCS"])
    camera.publish(offer, charge("TWO"), kinds=CHARGE_KINDS)
    issuers["CCS"].revoke(town.world.rights[0])
    camera.publish(offer, charge("THREE"), kinds=CHARGE_KINDS)
    office.say(AskState(9, ref))
    assert [type(message).__name__ for message in office.heard[before:]] == ["StateTold"]
    assert [event.get(NUMBERPLATE) for event in office.events(ref)] == [None]
    assert set(office.events(ref)[0]) == {TIMESTAMP, LOCATION}
    assert not office.all_heard(Failed)


# ---------------------------------------------------------------- sealed


def test_a_sealed_frame_of_the_sub_type_does_not_pass_for_one_of_the_super_type() -> None:
    """A46: the signature binds the type, so a broker on the way cannot relabel a frame of the other type."""
    town = whole(SealingLevel.ATTRIBUTE)
    office = town.person(BILLING, "Met broker")
    speak(office, town.world.charge, "subscribe")
    camera = town.camera()
    camera.publish(speak(camera, town.world.charge, "advertise"), charge(), kinds=CHARGE_KINDS)
    sent = [one.frame if isinstance(one, SealedWithPlaintext) else one for one in town.frames()]
    below = next(one for one in sent if isinstance(one, Sealed) and one.type_id == town.below)
    verify(read_run([below]), SignatureChecks())
    relabelled = msgspec.structs.replace(below, type_id=town.type_id)
    with pytest.raises(MaiaError):
        verify(read_run([relabelled]), SignatureChecks())
