"""How does an organisation hand rights down to brokers that are many levels below it? Sections 3.2, 5.1.

A domain holds sub-domains, or brokers, and never both: here that is the shape
of the data, so nothing else can be written. Rights go from the owner to the
top, from level to level, and to the brokers in one of two ways: by a *blanket
capability*, wider than the domain's own right and cut by it, or by a *group*
of which the domain names the members. Either way, a right that the domain
receives later needs no new certificate for any broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from maia.credentials import (
    ANY_NAME,
    Action,
    AuthorisationCertificate,
    Authority,
    LocalName,
    NameCertificate,
    NetworkPattern,
    Principal,
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    Subject,
    TypePattern,
    Validity,
    issue,
)

_BROKERS = "brokers"


@dataclass(frozen=True, slots=True)
class BrokerGroup:
    """A domain that holds brokers, which share all of its rights."""

    name: str
    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DomainGroup:
    """A domain that holds sub-domains, each with a part of its rights."""

    name: str
    parts: tuple[Domain, ...]


Domain = DomainGroup | BrokerGroup


class Manner(Enum):
    """How a domain lets its brokers share its rights."""

    BLANKET = "blanket capabilities"
    GROUP = "a group of brokers"


@dataclass(frozen=True, slots=True)
class HandedDown:
    """What each domain issued once, for its brokers and sub-domains."""

    keys: Mapping[str, SigningKey] = field(repr=False)
    certificates: tuple[SignedCertificate, ...]


def hand_down(
    domain: Domain, keys: Mapping[str, SigningKey], *, owner: Principal, validity: Validity, manner: Manner
) -> HandedDown:
    """Issue what lets every broker below `domain` use the rights of its own domain to what `owner` owns."""
    issuing = _Issuing(keys, owner, validity, manner)
    return HandedDown(keys, tuple(issuing.within(domain)))


@dataclass(frozen=True, slots=True)
class _Issuing:
    keys: Mapping[str, SigningKey] = field(repr=False)
    owner: Principal
    validity: Validity
    manner: Manner

    def within(self, domain: Domain) -> Iterator[SignedCertificate]:
        match domain:
            case BrokerGroup(name, brokers) if self.manner is Manner.BLANKET:
                for broker in brokers:
                    yield from self._everything(name, self.keys[broker].principal)
            case BrokerGroup(name, brokers):
                key = self.keys[name]
                yield from self._everything(name, LocalName(key.principal, (_BROKERS,)))
                for broker in brokers:
                    member = self.keys[broker].principal
                    yield issue(NameCertificate(key.principal, _BROKERS, member, self.validity), key)
            case DomainGroup(_, parts):
                # Which part of its rights a sub-domain gets is decided right by right, by its parent.
                for part in parts:
                    yield from self.within(part)

    def _everything(self, issuer: str, subject: Subject) -> Iterator[SignedCertificate]:
        """Grant all of the owner's networks and types; what remains is what the issuer has itself."""
        wide: tuple[tuple[ResourcePattern, frozenset[Action]], ...] = (
            (NetworkPattern(self.owner, ANY_NAME), frozenset({Action.CONNECT})),
            (TypePattern(self.owner, ANY_NAME, None), frozenset({Action.PUBLISH, Action.SUBSCRIBE})),
        )
        key = self.keys[issuer]
        for resources, actions in wide:
            certificate = AuthorisationCertificate(
                issuer=key.principal,
                subject=subject,
                may_delegate=False,
                authority=Authority(resources, actions),
                validity=self.validity,
                comment=f"{self.manner.value} of {issuer}",
            )
            yield issue(certificate, key)
