"""What is so in this domain at this moment, as the role engine asks for it?

Facts on record, memberships that are active, and appointments: those that
the principal has just shown, and those that the domain has on record because
it gave them, or because something here already rests on them. Certificates
against which something speaks are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from maia.credentials import Principal
from maia.credentials.appointments import (
    AppointmentKind,
    VerifiedAppointment,
    appointment_from_bytes,
    verify_appointment,
)
from maia.credentials.arguments import Argument
from maia.domain.access.validity import DomainTester
from maia.domain.facts.store import matching_facts
from maia.domain.storage.membership_encoding import membership_from_bytes
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import APPOINTMENTS, MEMBERSHIPS, active_memberships
from maia.events import Instant
from maia.roles import RoleMembership

__all__ = ["StoreWorld"]


class StoreWorld:
    """The world of one act: one transaction, one moment, and what was shown with the request."""

    def __init__(
        self,
        tables: Tables,
        tester: DomainTester,
        now: Instant,
        shown: Sequence[VerifiedAppointment] = (),
    ) -> None:
        """Answer from `tables` and from what was `shown`."""
        self._tables, self._tester, self._now = tables, tester, now
        self._shown = tuple(sorted(shown, key=lambda one: one.id))

    def matching(self, fact: str, arguments: Sequence[Argument | None]) -> Iterable[tuple[Argument, ...]]:
        """Yield the rows of a fact that agree with `arguments`; None agrees with everything."""
        return matching_facts(self._tables, fact, arguments)

    def appointments(
        self, called: str, *, kind: AppointmentKind, holder: Principal | None
    ) -> Iterator[VerifiedAppointment]:
        """Yield certificates with this name inside, of one holder or (None) of anybody."""
        seen: set[bytes] = set()
        for verified in self._candidates(called, kind, holder):
            if verified.id in seen:
                continue
            seen.add(verified.id)
            if self._tester.problem_with_appointment(verified.signed, self._now) is None:
                yield verified

    def memberships(self, role: str, *, holder: Principal | None) -> Iterator[RoleMembership]:
        """Yield active memberships of a role, of one holder or (None) of anybody."""
        where = [MEMBERSHIPS.c.role == role, *active_memberships(self._now)]
        if holder is not None:
            where.append(MEMBERSHIPS.c.principal == holder.key)
        for rows in self._tables.every(MEMBERSHIPS, *where, order=MEMBERSHIPS.c.number):
            yield from (membership_from_bytes(row.membership) for row in rows)

    def _candidates(
        self, called: str, kind: AppointmentKind, holder: Principal | None
    ) -> Iterator[VerifiedAppointment]:
        for shown in self._shown:
            said = shown.certificate
            if said.name == called and said.kind is kind and holder in (None, said.holder):
                yield shown
        columns = APPOINTMENTS.c
        where = [
            columns.name == called,
            columns.kind == kind.value,
            columns.revoked_at.is_(None),
            columns.not_after >= self._now,
        ]
        if holder is not None:
            where.append(columns.holder == holder.key)
        for rows in self._tables.every(APPOINTMENTS, *where, order=columns.number):
            for row in rows:
                # Bytes in a database are a claim like any other: the signature is checked again.
                yield verify_appointment(appointment_from_bytes(row.certificate))
