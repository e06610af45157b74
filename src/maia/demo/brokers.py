"""Who runs the brokers of the numberplate story? Sections 3.7 and 5.2.1 of the dissertation.

Each of the three domains adds one. PITO coordinates the network and admits
its own broker itself; CCS grants its broker the right by name; Met grants it
to the group `Met Brokers`, of which a name certificate makes its broker a
member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    Subject,
    TypePattern,
    Validity,
    issue,
)
from maia.demo.numberplate import LOCATION, TIMESTAMP, NumberplateStory, key_of
from maia.routing.overlay.table import closeness, node_id_of_key, node_id_of_type
from maia.types import Sealing, SealingLevel, sign_definition, type_id

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
    credentials = {
        "PITO broker": (_connect(story, "PITO", keys["PITO broker"].principal, validity),),
        "CCS broker": (
            _domain_right(story, "CCS"),
            _connect(story, "CCS", keys["CCS broker"].principal, validity),
        ),
        "Met broker": (
            _domain_right(story, "Met"),
            _connect(story, "Met", LocalName(met.principal, (MET_BROKERS,)), validity),
            member,
        ),
    }
    return NumberplateBrokers(keys, credentials)


def _domain_right(story: NumberplateStory, domain: str) -> SignedCertificate:
    """Return the certificate by which PITO lets a domain connect, and pass that right on."""
    for signed in story.certificates:
        certificate = signed.certificate
        if (
            isinstance(certificate, AuthorisationCertificate)
            and certificate.subject == story.principal(domain)
            and Action.CONNECT in certificate.authority.actions
        ):
            return signed
    raise AssertionError(f"the story grants {domain} no right to connect")


def _connect(story: NumberplateStory, issuer: str, subject: Subject, validity: Validity) -> SignedCertificate:
    certificate = AuthorisationCertificate(
        issuer=story.principal(issuer),
        subject=subject,
        may_delegate=False,
        authority=Authority(story.network_pattern, frozenset({Action.CONNECT})),
        validity=validity,
        comment=f"{issuer} to its broker",
    )
    return issue(certificate, story.keys[issuer])


# Who runs the brokers of the sealed numberplate story, and who of them holds which keys?


CARRIER: Final = "Highways broker"
"""The broker without any right to the type."""
KEY_SERVER: Final = "PITO keys"

_PUBLISH_SUBSCRIBE: Final = (Action.PUBLISH, Action.SUBSCRIBE)


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
    connects = (
        _granted(
            story, "PITO", highways.principal, story.network_pattern, (Action.CONNECT,), may_delegate=True
        ),
        _granted(story, highways, carrier.principal, story.network_pattern, (Action.CONNECT,)),
    )
    server = _granted(
        story,
        "PITO",
        keys[KEY_SERVER].principal,
        story.network_pattern,
        (Action.CONNECT,),
        may_delegate=False,
    )
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
    rights = {
        "PITO broker": (_granted(story, "PITO", pito, pattern, (Action.SUBSCRIBE,), attributes=of_place),),
        "CCS broker": (
            _given(story, "CCS"),
            _granted(story, "CCS", ccs, pattern, _PUBLISH_SUBSCRIBE),
        ),
        "Met broker": (
            _given(story, "Met"),
            _granted(story, "Met", members, pattern, (Action.SUBSCRIBE,)),
        ),
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


def _given(story: NumberplateStory, domain: str) -> SignedCertificate:
    """Return the certificate by which PITO lets a domain use the type, and pass that on."""
    for signed in story.certificates:
        certificate = signed.certificate
        if (
            isinstance(certificate, AuthorisationCertificate)
            and isinstance(certificate.authority.resources, TypePattern)
            and certificate.subject == story.principal(domain)
        ):
            return signed
    raise AssertionError(f"the story grants {domain} no right to the type")


def _granted(
    story: NumberplateStory,
    issuer: str | SigningKey,
    subject: Subject,
    resources: ResourcePattern,
    actions: tuple[Action, ...],
    *,
    attributes: AttributeSet = ALL_ATTRIBUTES,
    may_delegate: bool = False,
) -> SignedCertificate:
    key = story.keys[issuer] if isinstance(issuer, str) else issuer
    certificate = AuthorisationCertificate(
        issuer=key.principal,
        subject=subject,
        may_delegate=may_delegate,
        authority=Authority(resources, frozenset(actions), attributes),
        validity=story.certificates[0].certificate.validity,
    )
    return issue(certificate, key)
