"""Who runs the brokers of the numberplate story? Sections 3.7 and 5.2.1 of the dissertation.

Each of the three domains adds one. PITO coordinates the network and admits
its own broker itself; CCS grants its broker the right by name; Met grants it
to the group `Met Brokers`, of which a name certificate makes its broker a
member.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Authority,
    LocalName,
    NameCertificate,
    SignedCertificate,
    SigningKey,
    Subject,
    Validity,
    issue,
)
from maia.demo.numberplate import NumberplateStory, key_of

__all__ = ["BROKERS", "MET_BROKERS", "NumberplateBrokers", "add_brokers"]

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
