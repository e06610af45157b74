"""A few facts, certificates and memberships in memory, asked as a world, and every role at once.

The domain service asks its database instead. The order of the answers is the
order of what was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from maia.credentials import Principal, Validity
from maia.credentials.appointments import (
    Appointment,
    AppointmentKind,
    Argument,
    VerifiedAppointment,
    argument_key,
)
from maia.events import Instant
from maia.roles import ActivationLimits, Policy, RoleMembership, activate
from maia.roles.engine import DEFAULT_LIMITS, whole_second
from maia.roles.memberships import World


@dataclass(frozen=True, slots=True)
class KnownWorld:
    """What was handed in, and nothing else."""

    facts: Mapping[str, Iterable[tuple[Argument, ...]]] = field(default_factory=dict)
    certificates: Iterable[VerifiedAppointment] = ()
    active: Iterable[RoleMembership] = ()

    def matching(self, fact: str, arguments: Sequence[Argument | None]) -> Iterator[tuple[Argument, ...]]:
        """Yield the rows of a fact that agree with `arguments`; None agrees with everything."""
        for row in self.facts.get(fact, ()):
            if len(row) == len(arguments) and all(map(_agrees, arguments, row)):
                yield row

    def appointments(
        self, called: str, *, kind: AppointmentKind, holder: Principal | None
    ) -> Iterator[VerifiedAppointment]:
        """Yield certificates with this name inside, of one holder or (None) of all."""
        for one in self.certificates:
            said = one.certificate
            if said.name == called and said.kind is kind and holder in (None, said.holder):
                yield one

    def memberships(self, role: str, *, holder: Principal | None) -> Iterator[RoleMembership]:
        """Yield active memberships of a role, of one holder or (None) of all."""
        for member in self.active:
            if member.role == role and holder in (None, member.principal):
                yield member


@dataclass(frozen=True, slots=True)
class WithMemberships:
    """A world in which some more memberships are active."""

    world: World
    more: tuple[RoleMembership, ...]

    def matching(self, fact: str, arguments: Sequence[Argument | None]) -> Iterable[tuple[Argument, ...]]:
        """Ask the world."""
        return self.world.matching(fact, arguments)

    def appointments(
        self, called: str, *, kind: AppointmentKind, holder: Principal | None
    ) -> Iterable[VerifiedAppointment]:
        """Ask the world."""
        return self.world.appointments(called, kind=kind, holder=holder)

    def memberships(self, role: str, *, holder: Principal | None) -> Iterator[RoleMembership]:
        """Yield the world's memberships, then the others."""
        yield from self.world.memberships(role, holder=holder)
        yield from KnownWorld(active=self.more).memberships(role, holder=holder)


def _agrees(wanted: Argument | None, found: Argument) -> bool:
    return wanted is None or argument_key(wanted) == argument_key(found)


def activate_all(
    policy: Policy,
    world: World,
    principal: Principal,
    now: Instant,
    limits: ActivationLimits = DEFAULT_LIMITS,
) -> tuple[RoleMembership, ...]:
    """Return the memberships of every role that `principal` can have now, each after those it depends on.

    Rules that ask their user for a value are left out: no user is there to state it.
    """
    gained: list[RoleMembership] = []
    for role in policy.roles_in_order:
        seen = WithMemberships(world, tuple(gained))
        gained += activate(policy, seen, principal, role, None, now, limits)
    return tuple(gained)


def membership_certificate(policy: Policy, membership: RoleMembership) -> Appointment:
    """Return what the domain signs so that other domains know of the membership."""
    return Appointment(
        policy.domain,
        membership.principal,
        membership.role,
        membership.arguments,
        Validity(whole_second(membership.since), membership.until),
        AppointmentKind.ROLE_MEMBERSHIP,
        membership.id,
    )
