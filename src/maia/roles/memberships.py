"""Who is in which role, what does that depend on, and what ends when something is lost?

These are the values that the engine returns and the domain service keeps. A
membership remembers every premise that let it come about. Only those that the
policy marked with `while` are watched: when one of them is lost, so is the
membership, and with it all that depends on it.

A membership ends when something that it watches is lost, when its time is
over, when the policy no longer has its rule, or no longer accepts the issuer
of a certificate it depends on. What watches the membership ends after it, and
nothing else does. The same answers are given for granted rights.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from maia.credentials import Authority, Principal, Validity
from maia.credentials.appointments import AppointmentKind, Argument, VerifiedAppointment, arguments_digest
from maia.credentials.certificate import TestKind
from maia.events import Instant
from maia.roles.policy import Policy


class SupportKind(Enum):
    """What sort of thing a membership can depend on."""

    FACT = "fact"
    CERTIFICATE = "certificate"
    MEMBERSHIP = "membership"
    PLACE = "place"


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


def place_support(networks: tuple[str, ...]) -> Support:
    """Return the support that a place gives: it is never lost, and where it is used is checked by brokers."""
    return Support(SupportKind.PLACE, arguments_digest(b"place", "", networks), ", ".join(networks))


def places_in(grounds: Iterable[Ground]) -> tuple[Ground, ...]:
    """Return the places among some grounds: one is named by its networks, apart by spaces."""
    return tuple(ground for ground in grounds if ground.support.kind is SupportKind.PLACE)


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
    def until(self) -> Instant | None:
        """Return when it ends."""
        return self.validity.not_after

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


_NOTHING: Final[frozenset[Support]] = frozenset()


def ended_memberships(
    memberships: Iterable[RoleMembership],
    *,
    lost: Set[Support] = _NOTHING,
    policy: Policy | None = None,
    now: Instant | None = None,
) -> tuple[EndedMembership, ...]:
    """Return the memberships that have ended, each after those that it depended on.

    `lost` are facts retracted, certificates revoked or stale, and memberships
    given up. With `policy`, memberships whose rule or issuer is gone end; with
    `now`, those whose time is over.
    """
    active = {member.id: member for member in memberships}
    dependents: dict[Support, list[RoleMembership]] = {}
    for member in active.values():
        for support in member.watched:
            dependents.setdefault(support, []).append(member)
    first = [
        EndedMembership(member, *why)
        for member in active.values()
        if (why := _why_ended(member, lost=lost, policy=policy, now=now)) is not None
    ]
    return _with_dependents(first, dependents)


def ended_rights(
    rights: Iterable[GrantedRight],
    *,
    lost: Set[Support] = _NOTHING,
    policy: Policy | None = None,
    now: Instant | None = None,
) -> tuple[GrantedRight, ...]:
    """Return the rights that have ended; `lost` names the memberships that have ended, too."""
    return tuple(one for one in rights if _why_ended(one, lost=lost, policy=policy, now=now) is not None)


def _with_dependents(
    first: list[EndedMembership], dependents: dict[Support, list[RoleMembership]]
) -> tuple[EndedMembership, ...]:
    """Return what ended in an order in which nothing comes before what it depended on."""
    reasons = {found.membership.id: found for found in first}
    pending = deque(first)
    while pending:
        support = membership_support(pending.popleft().membership)
        for member in dependents.get(support, ()):
            if member.id not in reasons:
                found = EndedMembership(member, EndReason.SUPPORT_LOST, support)
                reasons[member.id] = found
                pending.append(found)
    # A membership depends on earlier ones only, so a walk that visits supports first is enough.
    ordered: dict[bytes, EndedMembership] = {}
    for found in reasons.values():
        _place(found, reasons, ordered)
    return tuple(ordered.values())


def _place(
    found: EndedMembership, reasons: dict[bytes, EndedMembership], ordered: dict[bytes, EndedMembership]
) -> None:
    """Put an ended membership behind the ended ones that it depends on. Iterative: chains may be long."""
    pending, entered = [found], set[bytes]()
    while pending:
        top = pending[-1].membership
        if top.id in entered or top.id in ordered:
            # Also for memberships that depend on each other, which the engine never makes.
            ordered.setdefault(top.id, pending.pop())
            continue
        entered.add(top.id)
        pending += [
            reasons[ground.support.id]
            for ground in top.depends_on
            if ground.support.id in reasons and ground.support.id not in entered
        ]


def _why_ended(
    held: RoleMembership | GrantedRight, *, lost: Set[Support], policy: Policy | None, now: Instant | None
) -> tuple[EndReason, Support | None] | None:
    gone = next((ground.support for ground in held.depends_on if _is_lost(ground, lost)), None)
    if gone is not None:
        return EndReason.SUPPORT_LOST, gone
    if now is not None and held.until is not None and now > held.until:
        return EndReason.ENDED, None
    if policy is None:
        return None
    rule = policy.rule(held.rule) if isinstance(held, RoleMembership) else policy.grant(held.grant)
    if rule is None:
        return EndReason.RULE_GONE, None
    rejected = _rejected(held.depends_on, policy)
    return None if rejected is None else (EndReason.ISSUER_NOT_ACCEPTED, rejected)


def _is_lost(ground: Ground, lost: Set[Support]) -> bool:
    return ground.is_watched and ground.support in lost


def _rejected(grounds: Iterable[Ground], policy: Policy) -> Support | None:
    """Return a certificate that is watched and whose issuer the policy no longer accepts."""
    for ground in grounds:
        if ground.is_watched and ground.issuer is not None:
            declared = ground.name in policy.appointments
            if not declared or ground.issuer not in policy.issuers(ground.name):
                return ground.support
    return None
