"""How can a few facts, certificates and memberships in memory be asked as a world?

Tests, examples and `maia domain policy` use this one; the domain service asks
its database instead. The order of the answers is the order of what was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from maia.credentials import Principal
from maia.credentials.appointments import AppointmentKind, Argument, VerifiedAppointment, argument_key
from maia.roles.memberships import RoleMembership, World

__all__ = ["KnownWorld", "WithMemberships"]


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
        for shown in self.certificates:
            said = shown.certificate
            if said.name == called and said.kind is kind and holder in (None, said.holder):
                yield shown

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
