"""Who takes part in the coalition, what may each of them see, and how are the routers linked?

Three nations, each with an identity provider and two routers; seven people on
ships and staffs. The type belongs to the coalition, which grants rights to it
by certificate. Who gets which event is then a matter of requirements: what a
publisher asks of subscribers, and a subscriber of publishers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    AuthorisationCertificate,
    Authority,
    NetworkName,
    NetworkPattern,
    Principal,
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    TypeName,
    TypePattern,
    Validity,
    exact_name,
    issue,
)
from maia.credentials.appointments import Argument
from maia.demo.numberplate import key_of
from maia.events import SECOND, Attribute, AttributeUid, Instant, Kind, Value, attribute_uid
from maia.policy import NO_FACTS, Permit, Request, View, decide, gather_evidence
from maia.predicates import ALWAYS, Predicate
from maia.types import SignedDefinition, TypeDefinition, VerifiedType, sign_definition, verify_definition

COALITION: Final = "Coalition"
COMMUNITY: Final = "coalition.north"
DEMAND: Final = "tpm-integrity >= 2"
"""What every router demands of its neighbours."""

_DAY: Final = 86_400
_VESSEL, _PLACE, _SOURCE = (attribute_uid(one) for one in ("1", "2", "3"))
ATTRIBUTES: Final = (
    Attribute("vessel", _VESSEL, Kind.STRING),
    Attribute("place", _PLACE, Kind.STRING),
    Attribute("source", _SOURCE, Kind.STRING),
)

Contact = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Nation:
    """A nation: which providers its routers trust, and whose guests its own provider accepts."""

    name: str
    trusts: tuple[str, ...]
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Router:
    """A router of a nation, and those that it is linked to."""

    name: str
    nation: str
    neighbours: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a key: at home in one nation, and connected to one router."""

    name: str
    identifier: str
    nation: str
    router: str
    attributes: Mapping[AttributeUid, Argument]
    action: Action = Action.SUBSCRIBE
    requires: str = "true"
    """What a subscriber asks of publishers."""
    sees: AttributeSet = ALL_ATTRIBUTES


def _who(nationality: str, clearance: int) -> dict[AttributeUid, Argument]:
    return {attribute_uid("nationality"): nationality, attribute_uid("clearance"): clearance}


# Norway and the Netherlands do not know each other's providers: trust is never transitive.
NATIONS: Final[Mapping[str, Nation]] = {
    one.name: one
    for one in (
        Nation("Norway", ("Norway", "Britain"), ("Netherlands",)),
        Nation("Britain", ("Norway", "Britain", "Netherlands"), ("Norway",)),
        Nation("Netherlands", ("Britain", "Netherlands"), ()),
    )
}

# A ladder: what Plymouth carried finds its way through London.
ROUTERS: Final[Mapping[str, Router]] = {
    one.name: one
    for one in (
        Router("Oslo", "Norway", ("Bergen", "London")),
        Router("Bergen", "Norway", ("Oslo", "Plymouth")),
        Router("London", "Britain", ("Oslo", "Plymouth", "Den Haag")),
        Router("Plymouth", "Britain", ("Bergen", "London", "Den Helder")),
        Router("Den Haag", "Netherlands", ("London", "Den Helder")),
        Router("Den Helder", "Netherlands", ("Den Haag", "Plymouth")),
    )
}

PEOPLE: Final[Mapping[str, Person]] = {
    one.name: one
    for one in (
        Person("Anna", "anna@norway", "Norway", "Oslo", _who("no", 3), Action.PUBLISH),
        Person("Kent", "kent@britain", "Britain", "London", _who("uk", 2), Action.PUBLISH),
        Person("Bo", "bo@norway", "Norway", "Bergen", _who("no", 3)),
        Person("Brown", "brown@britain", "Britain", "London", _who("uk", 2)),
        Person("Kari", "kari@norway", "Norway", "Plymouth", _who("no", 3)),
        Person(
            "Vries", "vries@netherlands", "Netherlands", "Oslo", _who("nl", 3), requires='nationality == "no"'
        ),
        Person(
            "Smit",
            "smit@netherlands",
            "Netherlands",
            "Den Helder",
            _who("nl", 1),
            sees=frozenset({_VESSEL, _PLACE}),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Cast:
    """Keys, certificates and the type, all from one seed."""

    keys: Mapping[str, SigningKey] = field(repr=False)
    network: NetworkName
    definition: SignedDefinition
    event_type: VerifiedType
    certificates: Mapping[str, tuple[SignedCertificate, ...]]
    """What each router and each person can show."""

    def principal(self, who: str) -> Principal:
        """Return the public key of a nation, a router or a person."""
        return self.keys[who].principal

    def view_of(self, who: str, *, now: Instant) -> View:
        """Return what a person may see or write of a contact, as the kernel decides it."""
        person = PEOPLE[who]
        name, version = self.event_type.name, self.event_type
        request = Request(self.principal(who), person.action, name, version, ALWAYS)
        decision = decide(request, gather_evidence(request, self.certificates[who], at=now), NO_FACTS, now)
        if not isinstance(decision, Permit):
            raise decision.as_refusal()
        return decision.view


def assemble(seed: bytes, *, now: Instant) -> Cast:
    """Make the keys of everybody, and let the coalition issue its certificates."""
    names = (COALITION, *NATIONS, *ROUTERS, *PEOPLE)
    keys = {who: key_of(who, seed) for who in names}
    coalition = keys[COALITION]
    whole = now - now % SECOND
    validity = Validity(Instant(whole - _DAY * SECOND), Instant(whole + _DAY * SECOND))
    network = NetworkName(coalition.principal, "Coalition North")
    definition = TypeDefinition(TypeName(coalition.principal, "coalition.Contact", "0"), None, ATTRIBUTES)
    signed = sign_definition(definition, coalition)

    def granted(
        who: str,
        resources: ResourcePattern,
        action: Action,
        attributes: AttributeSet = ALL_ATTRIBUTES,
        restriction: Predicate = ALWAYS,
    ) -> SignedCertificate:
        authority = Authority(resources, frozenset({action}), attributes, restriction)
        subject = keys[who].principal
        return issue(
            AuthorisationCertificate(coalition.principal, subject, False, authority, validity), coalition
        )

    of_network = NetworkPattern(coalition.principal, exact_name(network.name))
    of_type = TypePattern(coalition.principal, exact_name(definition.name.name), None)
    certificates: dict[str, tuple[SignedCertificate, ...]] = {
        who: (granted(who, of_network, Action.CONNECT),) for who in (*NATIONS, *ROUTERS, *PEOPLE)
    }
    for who, person in PEOPLE.items():
        certificates[who] += (granted(who, of_type, person.action, person.sees),)
    return Cast(keys, network, signed, verify_definition(signed, at=now), certificates)
