"""Sub-types of the numberplate story: CCS extends PITO's type, and Met extends that of CCS."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from maia.credentials import (
    Action,
    SignedCertificate,
    TestKind,
    TypeName,
    Validity,
)
from maia.events import Attribute, AttributeUid, Kind, attribute_uid
from maia.policy.answers import Answers
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.secrets import Secret
from maia.testing import Cast, NetBroker, NetClient
from maia.types import (
    Sealing,
    SealingLevel,
    SignedDefinition,
    TypeDefinition,
    definition_to_bytes,
    sign_definition,
    type_id,
)
from support.numberplate import (
    CAMERA,
    NUMBERPLATE_KINDS,
    READ,
    SEED,
    WRITE,
    SealedNet,
    sighting,
    without_right_of,
)

CHARGE = "uk.gov.ccs.Charge"
FEE = attribute_uid("charge-fee")
CASE = attribute_uid("case-number")
CHARGE_KINDS = {**NUMBERPLATE_KINDS, FEE: Kind.INT}
CASE_KINDS = {**CHARGE_KINDS, CASE: Kind.STRING}
SECRET_FEE, SECRET_CASE = 4711, "case 0815"


def charge(plate: str = "LC04 ABC", fee: int = SECRET_FEE, **more: Any) -> dict[Any, Any]:
    """Return an event of the sub-type: a sighting with a fee."""
    return {**sighting(plate, **more), FEE: fee}


def case(plate: str = "LC04 ABC") -> dict[Any, Any]:
    """Return an event of the sub-type's sub-type."""
    return {**charge(plate), CASE: SECRET_CASE}


@dataclass(frozen=True)
class SubTypes:
    """The definitions, and the certificates by which they extend each other."""

    cast: Cast
    charge: SignedDefinition
    case: SignedDefinition
    consents: dict[str, SignedCertificate]
    rights: tuple[SignedCertificate, ...]

    @property
    def certificates(self) -> tuple[SignedCertificate, ...]:
        return (*self.cast.certificates, *self.rights)


def tell_of_sub_types(
    story: Cast,
    *,
    test: TestKind | None = None,
    validity: Validity | None = None,
    sealing: Sealing | None = None,
) -> SubTypes:
    """Let CCS extend the numberplate with a fee, and Met that with a case; cameras publish both."""
    above = story.definition
    install = {who: story.grant("PITO", who, story.network, Action.INSTALL) for who in ("CCS", "Met")}
    how = {"test": test} if validity is None else {"test": test, "validity": validity}
    consents = {"CCS": story.grant("PITO", "CCS", above, Action.EXTEND, **how)}
    charge_name = TypeName(story.principal("CCS"), CHARGE, "0")
    shape = (*above.definition.attributes, Attribute("fee", FEE, Kind.INT))
    shown = (consents["CCS"], install["CCS"])
    charge_type = sign_definition(
        TypeDefinition(charge_name, None, shape, shown, sealing, (above,)), story.keys["CCS"]
    )
    consents["Met"] = story.grant("CCS", "Met", charge_name, Action.EXTEND, test=test)
    case_name = TypeName(story.principal("Met"), "uk.gov.met.Case", "0")
    shape, shown = (*shape, Attribute("case", CASE, Kind.STRING)), (consents["Met"], install["Met"])
    case_type = sign_definition(
        TypeDefinition(case_name, None, shape, shown, sealing, (charge_type,)), story.keys["Met"]
    )
    rights = (
        story.grant("CCS", CAMERA, charge_name, Action.PUBLISH),
        story.grant("CCS", "billing office", charge_name, Action.SUBSCRIBE),
        story.grant("Met", CAMERA, case_name, Action.PUBLISH),
        story.grant("Met", "Detective Smith", case_name, Action.SUBSCRIBE),
    )
    return SubTypes(story, charge_type, case_type, consents, rights)


def speak(client: NetClient, definition: SignedDefinition, action: str, **changes: Any) -> int:
    """Have a client advertise or subscribe to a type other than the story's."""
    told = {"definitions": [definition_to_bytes(definition)], "event_type": definition.definition.name}
    # Each entry of a publisher is a stream of its own.
    stream = definition.id[:16]
    return getattr(client, action)(**(told | {"stream": stream} | changes))


def rights_without(world: SubTypes, who: str, name: str) -> tuple[SignedCertificate, ...]:
    """Return all certificates but those that grant somebody something about a type."""
    return without_right_of(world.cast, who, name, world.certificates)


# The three brokers of the sealed network, with keys of a sealed type and of a sealed sub-type of it.


ABOVE: tuple[AttributeUid | None, ...] = (None, *NUMBERPLATE_KINDS)
BELOW: tuple[AttributeUid | None, ...] = (None, *CHARGE_KINDS)


class SealedTown(SealedNet):
    """The three brokers with keys of two types, which a test brings."""

    def __init__(self, level: SealingLevel = SealingLevel.ATTRIBUTE, **settings: Any) -> None:
        super().__init__(level, **settings)
        self.world = tell_of_sub_types(self.cast, sealing=self.cast.definition.definition.sealing)
        name = self.world.charge.definition.name
        self.below = type_id(name.owner, name.name)
        for broker in ("CCS broker", "Met broker"):
            self.entitle(broker, READ, WRITE)
            self.rights[broker] += (self.cast.grant("CCS", broker, name, READ, WRITE),)
        self.ccs, self.middle, self.met = self.three()

    def bring(
        self, running: NetBroker, kind: bytes, *groups: AttributeUid | None, answers: Answers | None = None
    ) -> None:
        """Bring a broker keys of a type, which may have been awaited; `answers` is what some are about."""
        ring = KeyRing(kind)
        ring.learn(1, since=self.now)
        for uid in groups:
            secret = sha256(b"%b/%b/%b" % (SEED, kind, (uid or "*").encode())).digest()
            ring.hold(GroupId(kind, uid), 1, Secret.from_bytes(secret))
        ring.answers = {} if answers is None else answers
        self.use(running, ring, kind)

    def person(self, who: str, at: str, *more: SignedCertificate) -> NetClient:
        return self.client(who, at, credentials=(*self.world.certificates, *more))

    def camera(self, *more: SignedCertificate) -> NetClient:
        shown = rights_without(self.world, CAMERA, self.cast.type_name.name)
        return self.client(CAMERA, credentials=(*shown, *more))


def whole(level: SealingLevel) -> SealedTown:
    """Return a town in which both brokers hold all keys of both types."""
    town = SealedTown(level)
    for running in (town.ccs, town.met):
        town.bring(running, town.type_id, *ABOVE)
        town.bring(running, town.below, *BELOW)
    return town
