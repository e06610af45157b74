"""Who is in which role, what does that depend on, and what does it give?

These are the values that the engine returns and the domain service keeps. A
membership remembers every premise that let it come about. Only those that the
policy marked with `while` are watched: when one of them is lost, so is the
membership, and with it all that depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from maia.credentials import Authority, Principal, Validity
from maia.credentials.appointments import AppointmentKind, Argument, VerifiedAppointment, arguments_digest
from maia.credentials.certificate import TestKind
from maia.events import Instant


class SupportKind(Enum):
    """What sort of thing a membership can depend on."""

    FACT = "fact"
    CERTIFICATE = "certificate"
    MEMBERSHIP = "membership"


@dataclass(frozen=True, slots=True)
class Support:
    """One thing that a membership or a right can depend on, by its id.

    Two supports are the same if kind and id are; `shown` is for people. The id
    of a fact is a digest of its name and arguments, kinds included.
    """

    kind: SupportKind
    id: bytes
    shown: str = field(default="", compare=False)


def fact_support(name: str, arguments: Iterable[Argument]) -> Support:
    """Return the support that a fact gives."""
    given = tuple(arguments)
    return Support(SupportKind.FACT, arguments_digest(b"fact", name, given), _called(name, given))


def certificate_support(certificate: VerifiedAppointment) -> Support:
    """Return the support that an appointment or a foreign role membership gives."""
    said = certificate.certificate
    return Support(SupportKind.CERTIFICATE, certificate.id, _called(said.name, said.parameters))


def membership_support(membership: RoleMembership) -> Support:
    """Return the support that a membership of this domain gives."""
    return Support(SupportKind.MEMBERSHIP, membership.id, _called(membership.role, membership.arguments))


def _called(name: str, arguments: Iterable[Argument]) -> str:
    return f"{name}({', '.join(str(argument) for argument in arguments)})"


@dataclass(frozen=True, slots=True)
class Ground:
    """One premise of a rule, and what met it.

    `premise` is its position in the rule. `until` is when the support itself
    ends, None if it has no end of its own. `issuer` is who signed, for a
    certificate; a policy that no longer accepts the issuer takes it away.
    """

    premise: int
    support: Support
    is_watched: bool
    until: Instant | None = None
    issuer: Principal | None = None
    name: str = ""
    """What the policy calls the fact, the certificate or the role."""


@dataclass(frozen=True, slots=True)
class RoleMembership:
    """`principal` is in `role(arguments)` from `since` to `until`, by one rule and on some grounds.

    `until` is a whole second, included. None means that nothing it depends on
    ends by itself, and that policy or issuer said so explicitly.
    """

    id: bytes
    principal: Principal
    role: str
    arguments: tuple[Argument, ...]
    rule: str
    depends_on: tuple[Ground, ...]
    since: Instant
    until: Instant | None

    @property
    def watched(self) -> frozenset[Support]:
        """Return what must not be lost."""
        return frozenset(ground.support for ground in self.depends_on if ground.is_watched)


class EndReason(Enum):
    """Why a membership or a right has ended."""

    SUPPORT_LOST = "support-lost"
    ENDED = "ended"
    RULE_GONE = "rule-gone"
    ISSUER_NOT_ACCEPTED = "issuer-not-accepted"


@dataclass(frozen=True, slots=True)
class EndedMembership:
    """A membership that has ended, why, and the support that was lost if one was."""

    membership: RoleMembership
    reason: EndReason
    lost: Support | None = None


@dataclass(frozen=True, slots=True)
class GrantedRight:
    """What one grant gives one membership: everything a certificate needs, except its signature.

    `depends_on` has the membership itself first, always watched, and what met
    the grant's own premises after it.
    """

    grant: str
    principal: Principal
    authority: Authority
    validity: Validity
    tests: tuple[TestKind, ...]
    may_delegate: bool
    depends_on: tuple[Ground, ...]

    @property
    def watched(self) -> frozenset[Support]:
        """Return what must not be lost."""
        return frozenset(ground.support for ground in self.depends_on if ground.is_watched)


class World(Protocol):
    """What is so at this moment, as the engine asks for it. Answers come in a fixed order.

    The world answers for validity: it leaves out certificates that are revoked
    or stale, and memberships that have ended. The engine checks validity
    periods, issuers, names and parameters itself.
    """

    def matching(self, fact: str, arguments: Sequence[Argument | None]) -> Iterable[tuple[Argument, ...]]:
        """Yield the rows of a fact that agree with `arguments`; None agrees with everything."""

    def appointments(
        self, called: str, *, kind: AppointmentKind, holder: Principal | None
    ) -> Iterable[VerifiedAppointment]:
        """Yield certificates with this name inside, of one holder or (None) of all."""

    def memberships(self, role: str, *, holder: Principal | None) -> Iterable[RoleMembership]:
        """Yield active memberships of a role, of one holder or (None) of all."""
