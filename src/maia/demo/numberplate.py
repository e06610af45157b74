"""Who sees which cars? The numberplate story of the dissertation, sections 3.7 and 5.2.

PITO runs the network and owns the type. The congestion charge service (CCS)
owns the cameras and two offices; the Metropolitan Police (Met) employs
Detective Smith. The demonstration, the examples and many tests begin with
this cast, its keys and its certificates, all derived from one seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
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
    parse_name_pattern,
)
from maia.events import SECOND, Attribute, Instant, Kind, Value, attribute_uid
from maia.predicates import ALWAYS, Comparison, Operator, Predicate
from maia.types import SignedDefinition, TypeDefinition, sign_definition

# The uids of table 4.3.
NUMBERPLATE: Final = attribute_uid("3265")
TIMESTAMP: Final = attribute_uid("9058")
LOCATION: Final = attribute_uid("3467")

NUMBERPLATE_ATTRIBUTES: Final = (
    Attribute("numberplate", NUMBERPLATE, Kind.STRING),
    Attribute("timestamp", TIMESTAMP, Kind.TIMESTAMP),
    Attribute("location", LOCATION, Kind.STRING),
)
NUMBERPLATE_KINDS: Final = {attribute.uid: attribute.kind for attribute in NUMBERPLATE_ATTRIBUTES}

SUSPECT: Final = "AE05 XYZ"

_CAST: Final = (
    "PITO",
    "CCS",
    "Met",
    "billing office",
    "statistics office",
    "camera at Victoria",
    "Detective Smith",
)
_NETWORK: Final = "UK Police Network"
_TYPE: Final = "uk.gov.pito.Numberplate"
_DAY: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class NumberplateStory:
    """The cast with its keys, the network, the type, and the certificates in the order of issue."""

    keys: Mapping[str, SigningKey] = field(repr=False)
    network: NetworkName
    definition: SignedDefinition
    certificates: tuple[SignedCertificate, ...]

    def principal(self, who: str) -> Principal:
        """Return the public key of a member of the cast."""
        return self.keys[who].principal

    @property
    def network_pattern(self) -> NetworkPattern:
        """Return the story's network, as certificates name it."""
        return NetworkPattern(self.network.owner, exact_name(self.network.name))

    @property
    def type_pattern(self) -> TypePattern:
        """Return the story's type in all of its versions, as certificates name it."""
        name = self.definition.definition.name
        return TypePattern(name.owner, exact_name(name.name), None)


def key_of(who: str, seed: bytes) -> SigningKey:
    """Return the key of a principal in a story derived from `seed`."""
    return SigningKey.from_seed(sha256(seed + who.encode()).digest())


def tell_numberplate_story(seed: bytes, *, now: Instant, lifetime_days: int = 30) -> NumberplateStory:
    """Issue every certificate of the story, valid from a day before `now` for some days."""
    keys = {who: key_of(who, seed) for who in _CAST}
    network = NetworkName(keys["PITO"].principal, _NETWORK)
    name = TypeName(keys["PITO"].principal, _TYPE, "0")
    definition = sign_definition(TypeDefinition(name, None, NUMBERPLATE_ATTRIBUTES), keys["PITO"])
    today = Instant(now - now % _DAY)
    validity = Validity(Instant(today - _DAY), Instant(today + lifetime_days * _DAY))
    issuing = _Issuing(keys, validity)
    certificates = (*issuing.network_rights(network), *issuing.type_rights(name))
    return NumberplateStory(keys, network, definition, certificates)


@dataclass(frozen=True, slots=True)
class _Issuing:
    """The tables of section 5.2, one line a certificate."""

    keys: Mapping[str, SigningKey] = field(repr=False)
    validity: Validity

    def network_rights(self, network: NetworkName) -> list[SignedCertificate]:
        pattern = NetworkPattern(network.owner, parse_name_pattern(network.name))
        connect, both = (Action.CONNECT,), (Action.CONNECT, Action.INSTALL)
        return [
            self.grant("PITO", "Met", pattern, connect, may_delegate=True),
            self.grant("PITO", "CCS", pattern, both, may_delegate=True),
            self.grant("Met", "Detective Smith", pattern, connect),
            self.grant("CCS", "billing office", pattern, both),
            self.grant("CCS", "statistics office", pattern, connect),
            self.grant("CCS", "camera at Victoria", pattern, connect),
        ]

    def type_rights(self, name: TypeName) -> list[SignedCertificate]:
        pattern = TypePattern(name.owner, parse_name_pattern(name.name), None)
        publish, subscribe = (Action.PUBLISH,), (Action.SUBSCRIBE,)
        at_victoria = Comparison(LOCATION, Operator.EQ, "Victoria")
        the_suspect = Comparison(NUMBERPLATE, Operator.EQ, SUSPECT)
        every = frozenset(NUMBERPLATE_KINDS)
        return [
            self.grant("PITO", "CCS", pattern, publish + subscribe, may_delegate=True),
            self.grant("PITO", "Met", pattern, subscribe, may_delegate=True),
            self.grant(
                "CCS", "billing office", pattern, subscribe, attributes=frozenset({NUMBERPLATE, TIMESTAMP})
            ),
            self.grant(
                "CCS", "statistics office", pattern, subscribe, attributes=frozenset({LOCATION, TIMESTAMP})
            ),
            self.grant(
                "CCS", "camera at Victoria", pattern, publish, attributes=every, restriction=at_victoria
            ),
            self.grant(
                "Met", "Detective Smith", pattern, subscribe, attributes=every, restriction=the_suspect
            ),
        ]

    def grant(
        self,
        issuer: str,
        subject: str,
        resources: ResourcePattern,
        actions: tuple[Action, ...],
        *,
        attributes: AttributeSet = ALL_ATTRIBUTES,
        restriction: Predicate = ALWAYS,
        may_delegate: bool = False,
    ) -> SignedCertificate:
        """Issue one certificate; its comment names both ends for the people who read it."""
        certificate = AuthorisationCertificate(
            issuer=self.keys[issuer].principal,
            subject=self.keys[subject].principal,
            may_delegate=may_delegate,
            authority=Authority(resources, frozenset(actions), attributes, restriction),
            validity=self.validity,
            comment=f"{issuer} to {subject}",
        )
        return issue(certificate, self.keys[issuer])


# What do the cameras see, in the demonstration?


CONTROL_ROOM: Final = "CCS control room"
"""Who publishes what the other cameras see."""

Sighting = Mapping[str, Value]

_AT_VICTORIA: Final = Instant.parse("2026-11-05T13:00:00Z")
_DAYS: Final = 3
_SUSPECT_EVERY: Final = 150


def close_up() -> list[Sighting]:
    """Return the sightings that are shown one by one, as the camera at Victoria writes them."""
    # The second claims another place and the fourth names none: the broker writes what the certificate says.
    seen = [
        ("LB02 KRT", "Victoria"),
        (SUSPECT, "Euston"),
        ("KX51 AAD", "Victoria"),
        ("LB02 KRT", None),
        (SUSPECT, "Victoria"),
        (SUSPECT, "Victoria"),
    ]
    return [
        {"numberplate": plate, "timestamp": Instant(_AT_VICTORIA + number * SECOND), "location": place}
        for number, (plate, place) in enumerate(seen)
    ]


def city_traffic(rows: int, *, seed: int) -> list[Sighting]:
    """Return what the other cameras see in three days; the suspect drives a lot."""
    from maia.spark.generators import SIGHTINGS

    made = SIGHTINGS.rows(rows=rows, seed=seed, per_day=max(1, rows // _DAYS)).to_pylist()
    return [
        {
            "numberplate": SUSPECT if at % _SUSPECT_EVERY == 0 else one["numberplate"],
            "timestamp": Instant.from_datetime(one["timestamp"]),
            "location": one["location"],
        }
        for at, one in enumerate(made)
    ]


def trial_sighting(number: int) -> Sighting:
    """Return a sighting that every office receives and no bill counts: it is from 1970."""
    return {"numberplate": SUSPECT, "timestamp": Instant(number), "location": "Victoria"}


def add_control_room(story: NumberplateStory, seed: bytes) -> NumberplateStory:
    """Let CCS have a control room, which may publish sightings of any place."""
    key = key_of(CONTROL_ROOM, seed)
    granted = (
        _granted(story, key, story.network_pattern, Action.CONNECT),
        _granted(story, key, story.type_pattern, Action.PUBLISH),
    )
    keys = {**story.keys, CONTROL_ROOM: key}
    return replace(story, keys=keys, certificates=(*story.certificates, *granted))


def _granted(
    story: NumberplateStory, to: SigningKey, resources: ResourcePattern, action: Action
) -> SignedCertificate:
    certificate = AuthorisationCertificate(
        issuer=story.principal("CCS"),
        subject=to.principal,
        may_delegate=False,
        authority=Authority(resources, frozenset({action})),
        validity=story.certificates[0].certificate.validity,
        comment=f"CCS to {CONTROL_ROOM}",
    )
    return issue(certificate, story.keys["CCS"])
