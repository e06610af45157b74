"""Who sees which cars? The numberplate story of the dissertation, sections 3.7 and 5.2.

PITO runs the network and owns the type. The congestion charge service (CCS)
owns the cameras and two offices; the Metropolitan Police (Met) employs
Detective Smith. Many tests begin with
this cast, its keys and its certificates, all derived from one seed. Below are
the brokers. (`maia demo` plays the same story with organisations and processes.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from typing import Final

from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    AuthorisationCertificate,
    Authority,
    LocalName,
    NameCertificate,
    NetworkName,
    NetworkPattern,
    Principal,
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    Subject,
    TypeName,
    TypePattern,
    Validity,
    exact_name,
    issue,
    parse_name_pattern,
)
from maia.events import Attribute, Instant, Kind, attribute_uid
from maia.predicates import ALWAYS, Comparison, Operator, Predicate
from maia.routing.overlay.table import closeness, node_id_of_key, node_id_of_type
from maia.types import (
    Sealing,
    SealingLevel,
    SignedDefinition,
    TypeDefinition,
    sign_definition,
    type_id,
)

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

    def grant(
        self,
        issuer: str | SigningKey,
        subject: Subject,
        resources: ResourcePattern,
        *actions: Action,
        attributes: AttributeSet = ALL_ATTRIBUTES,
        may_delegate: bool = False,
        comment: str = "",
    ) -> SignedCertificate:
        """Issue one more certificate, which is valid for as long as the others."""
        key = self.keys[issuer] if isinstance(issuer, str) else issuer
        authority = Authority(resources, frozenset(actions), attributes)
        validity = self.certificates[0].certificate.validity
        return granted(key, subject, authority, validity, may_delegate=may_delegate, comment=comment)

    def held_by(self, domain: str, about: type[ResourcePattern]) -> SignedCertificate:
        """Return the certificate by which PITO lets a domain use network or type, and pass that on."""
        (held,) = (
            one
            for one in self.certificates
            if one.certificate.subject == self.principal(domain) and is_about(one, about)
        )
        return held


def is_about(signed: SignedCertificate, kind: type[ResourcePattern]) -> bool:
    """Say whether a certificate grants something about a type, or a network."""
    one = signed.certificate
    return isinstance(one, AuthorisationCertificate) and isinstance(one.authority.resources, kind)


def granted(
    key: SigningKey,
    subject: Subject,
    authority: Authority,
    validity: Validity,
    *,
    may_delegate: bool = False,
    comment: str = "",
) -> SignedCertificate:
    """Issue one certificate of a story."""
    certificate = AuthorisationCertificate(key.principal, subject, may_delegate, authority, validity, comment)
    return issue(certificate, key)


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
        authority = Authority(resources, frozenset(actions), attributes, restriction)
        comment = f"{issuer} to {subject}"
        key, to = self.keys[issuer], self.keys[subject].principal
        return granted(key, to, authority, self.validity, may_delegate=may_delegate, comment=comment)


CAMERA: Final = "camera at Victoria"


# Who runs the brokers of the numberplate story? Sections 3.7 and 5.2.1 of the dissertation.
#
# Each of the three domains adds one. PITO coordinates the network and admits
# its own broker itself; CCS grants its broker the right by name; Met grants it
# to the group `Met Brokers`, of which a name certificate makes its broker a
# member.


BROKERS: Final[Mapping[str, str]] = {"PITO broker": "PITO", "CCS broker": "CCS", "Met broker": "Met"}
"""The brokers of the story, each with the domain that runs it."""

MET_BROKERS: Final = "Met Brokers"
"""The group to which Met grants what its brokers may do."""


@dataclass(frozen=True, slots=True)
class NumberplateBrokers:
    """The keys of the three brokers, and everything that each of them can show."""

    keys: Mapping[str, SigningKey] = field(repr=False)
    credentials: Mapping[str, tuple[SignedCertificate, ...]]


def add_brokers(story: NumberplateStory, seed: bytes) -> NumberplateBrokers:
    """Give each domain of the story a broker, with keys that grow from `seed`."""
    keys = {who: key_of(who, seed) for who in BROKERS}
    met, name = story.keys["Met"], keys["Met broker"].principal
    validity = story.certificates[0].certificate.validity
    member = issue(
        NameCertificate(met.principal, MET_BROKERS, name, validity, "Met broker is one of ours"), met
    )
    members: dict[str, Subject] = {
        "PITO broker": keys["PITO broker"].principal,
        "CCS broker": keys["CCS broker"].principal,
        "Met broker": LocalName(met.principal, (MET_BROKERS,)),
    }
    connect = {
        who: story.grant(
            issuer, members[who], story.network_pattern, Action.CONNECT, comment=f"{issuer} to its broker"
        )
        for who, issuer in BROKERS.items()
    }
    credentials = {
        "PITO broker": (connect["PITO broker"],),
        "CCS broker": (story.held_by("CCS", NetworkPattern), connect["CCS broker"]),
        "Met broker": (story.held_by("Met", NetworkPattern), connect["Met broker"], member),
    }
    return NumberplateBrokers(keys, credentials)


# Who runs the brokers of the sealed numberplate story, and who of them holds which keys?


CARRIER: Final = "Highways broker"
"""The broker without any right to the type."""
KEY_SERVER: Final = "PITO keys"


@dataclass(frozen=True, slots=True)
class SealedCast:
    """The keys of four brokers and a key server, and what each of them can show."""

    keys: Mapping[str, SigningKey] = field(repr=False)
    credentials: Mapping[str, tuple[SignedCertificate, ...]]

    @property
    def brokers(self) -> tuple[str, ...]:
        """Return the brokers with a right to the type."""
        return tuple(BROKERS)


def add_carrier(story: NumberplateStory, seed: bytes) -> SealedCast:
    """Give the three domains brokers with keys, and put a third domain's broker between them."""
    brokers, highways = add_brokers(story, seed), key_of("Highways", seed)
    carrier = _nearest(story, seed, brokers.keys.values())
    keys = {**brokers.keys, CARRIER: carrier, KEY_SERVER: key_of(KEY_SERVER, seed)}
    network, connect = story.network_pattern, Action.CONNECT
    connects = (
        story.grant("PITO", highways.principal, network, connect, may_delegate=True),
        story.grant(highways, carrier.principal, network, connect),
    )
    server = story.grant("PITO", keys[KEY_SERVER].principal, network, connect)
    credentials = {**_with_type_rights(story, brokers), CARRIER: connects, KEY_SERVER: (server,)}
    return SealedCast(keys, credentials)


def sealed_story(story: NumberplateStory, cast: SealedCast, *, keys_at: str) -> NumberplateStory:
    """Return the story with a type whose attributes are sealed, by keys that are to be had at an address."""
    sealing = Sealing(SealingLevel.ATTRIBUTE, cast.keys[KEY_SERVER].principal, (keys_at,))
    definition = replace(story.definition.definition, sealing=sealing)
    return replace(story, definition=sign_definition(definition, story.keys["PITO"]))


def _with_type_rights(
    story: NumberplateStory, brokers: NumberplateBrokers
) -> dict[str, tuple[SignedCertificate, ...]]:
    """Let each domain pass what it was given on to its broker, whose readers need it."""
    pattern, members = story.type_pattern, LocalName(story.principal("Met"), (MET_BROKERS,))
    ccs, pito = (brokers.keys[who].principal for who in ("CCS broker", "PITO broker"))
    of_place = frozenset({LOCATION, TIMESTAMP})
    publish, subscribe = Action.PUBLISH, Action.SUBSCRIBE
    rights = {
        "PITO broker": (story.grant("PITO", pito, pattern, subscribe, attributes=of_place),),
        "CCS broker": (
            story.held_by("CCS", TypePattern),
            story.grant("CCS", ccs, pattern, publish, subscribe),
        ),
        "Met broker": (story.held_by("Met", TypePattern), story.grant("Met", members, pattern, subscribe)),
    }
    return {who: (*shown, *rights[who]) for who, shown in brokers.credentials.items()}


def _nearest(story: NumberplateStory, seed: bytes, others: Iterable[SigningKey]) -> SigningKey:
    """Return a key whose broker is nearer to the type than the others, and so its rendezvous."""
    name = story.definition.definition.name
    point = node_id_of_type(type_id(name.owner, name.name))
    nearest = min(closeness(node_id_of_key(one.principal.key), point) for one in others)
    for number in count():
        key = key_of(f"{CARRIER} {number}", seed)
        if closeness(node_id_of_key(key.principal.key), point) < nearest:
            return key
    raise AssertionError("keys do not run out")
