"""Sub-types of the numberplate story: CCS extends PITO's type, and Met extends that of CCS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    AuthorisationCertificate,
    Authority,
    OnlineTest,
    SignedCertificate,
    TestKind,
    TypeName,
    TypePattern,
    Validity,
    exact_name,
    issue,
)
from maia.events import Attribute, Kind, attribute_uid
from maia.predicates import ALWAYS, Predicate
from maia.types import Sealing, SignedDefinition, TypeDefinition, definition_to_bytes, sign_definition
from support.broker import Client, sighting
from support.numberplate import NUMBERPLATE_KINDS, NumberplateStory

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

    story: NumberplateStory
    charge: SignedDefinition
    case: SignedDefinition
    consents: dict[str, SignedCertificate]
    rights: tuple[SignedCertificate, ...]

    @property
    def certificates(self) -> tuple[SignedCertificate, ...]:
        return (*self.story.certificates, *self.rights)


def grant(
    story: NumberplateStory,
    issuer: str,
    subject: str,
    name: TypeName,
    *actions: Action,
    test: TestKind | None = None,
    validity: Validity | None = None,
    attributes: AttributeSet = ALL_ATTRIBUTES,
    restriction: Predicate = ALWAYS,
) -> SignedCertificate:
    """Let somebody of the story grant rights to a type."""
    validity = validity or story.certificates[0].certificate.validity
    if test is not None:
        validity = validity.with_tests(OnlineTest(test, story.principal(issuer)))
    certificate = AuthorisationCertificate(
        story.principal(issuer),
        story.principal(subject),
        may_delegate=False,
        authority=Authority(
            TypePattern(name.owner, exact_name(name.name), None), frozenset(actions), attributes, restriction
        ),
        validity=validity,
        comment=f"{issuer} to {subject}",
    )
    return issue(certificate, story.keys[issuer])


def install_right(story: NumberplateStory, who: str) -> SignedCertificate:
    """Let the network's coordinator allow somebody to install types."""
    certificate = AuthorisationCertificate(
        story.principal("PITO"),
        story.principal(who),
        may_delegate=False,
        authority=Authority(story.network_pattern, frozenset({Action.INSTALL})),
        validity=story.certificates[0].certificate.validity,
    )
    return issue(certificate, story.keys["PITO"])


def tell_of_sub_types(
    story: NumberplateStory,
    *,
    test: TestKind | None = None,
    validity: Validity | None = None,
    sealing: Sealing | None = None,
) -> SubTypes:
    """Let CCS extend the numberplate with a fee, and Met that with a case; cameras publish both."""
    above = story.definition
    install = {who: install_right(story, who) for who in ("CCS", "Met")}
    consents = {
        "CCS": grant(story, "PITO", "CCS", above.definition.name, Action.EXTEND, test=test, validity=validity)
    }
    fee = Attribute("fee", FEE, Kind.INT)
    charge_name = TypeName(story.principal("CCS"), CHARGE, "0")
    charge_type = sign_definition(
        TypeDefinition(
            charge_name,
            None,
            (*above.definition.attributes, fee),
            (consents["CCS"], install["CCS"]),
            sealing,
            (above,),
        ),
        story.keys["CCS"],
    )
    consents["Met"] = grant(story, "CCS", "Met", charge_name, Action.EXTEND, test=test)
    case_name = TypeName(story.principal("Met"), "uk.gov.met.Case", "0")
    case_type = sign_definition(
        TypeDefinition(
            case_name,
            None,
            (*charge_type.definition.attributes, Attribute("case", CASE, Kind.STRING)),
            (consents["Met"], install["Met"]),
            sealing,
            (charge_type,),
        ),
        story.keys["Met"],
    )
    rights = (
        grant(story, "CCS", "camera at Victoria", charge_name, Action.PUBLISH),
        grant(story, "CCS", "billing office", charge_name, Action.SUBSCRIBE),
        grant(story, "Met", "camera at Victoria", case_name, Action.PUBLISH),
        grant(story, "Met", "Detective Smith", case_name, Action.SUBSCRIBE),
    )
    return SubTypes(story, charge_type, case_type, consents, rights)


def speak(client: Client, definition: SignedDefinition, action: str, **changes: Any) -> int:
    """Have a client advertise or subscribe to a type other than the story's."""
    told = {"definitions": [definition_to_bytes(definition)], "event_type": definition.definition.name}
    # Each entry of a publisher is a stream of its own.
    stream = definition.id[:16]
    return getattr(client, action)(**(told | {"stream": stream} | changes))


def rights_without(world: SubTypes, who: str, name: str) -> tuple[SignedCertificate, ...]:
    """Return all certificates but those that grant somebody something about a type."""
    return tuple(
        one
        for one in world.certificates
        if one.certificate.subject != world.story.principal(who)
        or name not in str(one.certificate.authority.resources)
    )
