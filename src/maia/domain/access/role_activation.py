"""How does a principal become a member of a role, and what is registered then?

The role engine finds the memberships; they are kept here with all that they
depend on, and each gets a signed role membership
certificate for each, which other domains can ask for (dissertation 6.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from maia.canonical import write_canonical
from maia.credentials import Principal, SigningKey, Validity
from maia.credentials.appointments import (
    Appointment,
    AppointmentKind,
    Argument,
    SignedAppointment,
    VerifiedAppointment,
    appointment_from_bytes,
    appointment_to_bytes,
    argument_to_expression,
    issue_appointment,
    verify_appointment,
)
from maia.credentials.certificate import OnlineTest, TestKind
from maia.domain.access.cascade import MEMBERSHIP, keep_dependencies
from maia.domain.access.memberships import membership_from_bytes, membership_to_bytes, support_key
from maia.domain.access.refusals import ServiceFull, TooManyShown
from maia.domain.access.results import Activated
from maia.domain.access.settings import AccessSettings
from maia.domain.access.unit_of_work import UnitOfWork, end_of, next_number
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import AppointmentRow, MembershipRow, TesterRow, active_memberships
from maia.events import SECOND, Instant
from maia.roles import Ground, RoleMembership, SupportKind

_NUMBERS: Final = "memberships"
_CERTIFICATES: Final = "appointments"


class RoleActivation:
    """Keeps memberships and appointments of one domain."""

    def __init__(self, key: SigningKey, settings: AccessSettings) -> None:
        self._key, self._settings = key, settings

    def verified(self, shown: Iterable[SignedAppointment]) -> list[VerifiedAppointment]:
        """Check the signatures of what was shown; refuse too many."""
        given = list(shown)
        if len(given) > self._settings.limits.shown:
            raise TooManyShown(f"a request shows at most {self._settings.limits.shown} certificates")
        return [verify_appointment(signed) for signed in given]

    def register(
        self, work: UnitOfWork, membership: RoleMembership, shown: Sequence[VerifiedAppointment]
    ) -> tuple[Activated, bool]:
        """Register a membership; return it, and whether it is new.

        A membership by the same rule and grounds that has half of its time left is not activated again.
        """
        way, active = _way(membership), active_memberships(work.now)
        same = work.tables.find(
            MembershipRow,
            MembershipRow.c.way == way,
            *active,
            limit=1,
            order=MembershipRow.c.until,
            descending=True,
        )
        for known in same:
            left, whole = known.until - work.now, known.until - known.activated_at
            if known.until >= end_of(membership.until) or 2 * left > whole:
                return activated_of(work.tables, known), False
        by_principal = MembershipRow.c.principal == membership.principal.key
        if work.tables.count(MembershipRow, by_principal, *active) >= self._settings.limits.memberships_each:
            raise ServiceFull(
                f"a principal has at most {self._settings.limits.memberships_each} roles at a time"
            )
        signed = self._sign(
            work,
            AppointmentKind.ROLE_MEMBERSHIP,
            membership.principal,
            membership.role,
            membership.arguments,
            Validity(Instant(work.now - work.now % SECOND), membership.until),
            membership.id,
        )
        row = MembershipRow(
            id=membership.id,
            number=next_number(work.tables, _NUMBERS),
            principal=membership.principal.key,
            role=membership.role,
            rule=membership.rule,
            way=way,
            until=end_of(membership.until),
            membership=membership_to_bytes(membership),
            certificate=signed.id,
            activated_by=work.actor.key,
            activated_at=work.now,
        )
        work.tables.put(row)
        keep_dependencies(work.tables, membership.id, MEMBERSHIP, membership.depends_on)
        self.keep_foreign_certificates(work, membership.depends_on, shown)
        work.given += 1
        return Activated(membership, signed), True

    def appoint(
        self,
        work: UnitOfWork,
        holder: Principal,
        name: str,
        parameters: Sequence[Argument],
        validity: Validity,
    ) -> SignedAppointment:
        return self._sign(work, AppointmentKind.APPOINTMENT, holder, name, parameters, validity, b"")

    def _sign(
        self,
        work: UnitOfWork,
        kind: AppointmentKind,
        holder: Principal,
        name: str,
        parameters: Sequence[Argument],
        validity: Validity,
        membership: bytes,
    ) -> SignedAppointment:
        number = next_number(work.tables, _CERTIFICATES)
        test = OnlineTest(TestKind.TIMED_CRL, self._key.principal, self._settings.locations)
        appointment = Appointment(
            issuer=self._key.principal,
            holder=holder,
            name=name,
            parameters=tuple(parameters),
            validity=validity.with_tests(test),
            kind=kind,
            serial=number.to_bytes(8),
        )
        signed = issue_appointment(appointment, self._key)
        work.tables.put(_row(signed, work, number, membership))
        return signed

    def keep_foreign_certificates(
        self, work: UnitOfWork, grounds: Sequence[Ground], shown: Sequence[VerifiedAppointment]
    ) -> None:
        """Register certificates of other issuers that something depends on, and who states their validity."""
        watched = {
            ground.support.id: ground.is_watched
            for ground in grounds
            if ground.support.kind is SupportKind.CERTIFICATE
        }
        for verified in shown:
            if verified.id not in watched:
                continue
            if work.tables.get(AppointmentRow, verified.id) is None:
                number = next_number(work.tables, _CERTIFICATES)
                work.tables.put(_row(verified.signed, work, number, b""))
        for identifier in (one for one, is_watched in watched.items() if is_watched):
            row = work.tables.get(AppointmentRow, identifier)
            if row is None or row.issuer == self._key.principal.key:
                continue
            tests = appointment_from_bytes(row.certificate).certificate.validity.tests
            work.tables.put(*(TesterRow(test.kind.value, test.by.key, identifier) for test in tests))


def _way(membership: RoleMembership) -> bytes:
    """Return a digest of a membership that leaves out when it began and how long it lasts."""
    supports = sorted(
        (support_key(ground.support), b"1" if ground.is_watched else b"0") for ground in membership.depends_on
    )
    expression = (
        membership.principal.key,
        membership.role.encode(),
        tuple(map(argument_to_expression, membership.arguments)),
        membership.rule.encode(),
        tuple(supports),
    )
    return sha256(b"maia/1/way\x00" + write_canonical(expression)).digest()


def active_row(tables: Tables, membership: bytes, now: Instant) -> MembershipRow | None:
    """Return the row of a membership, if it is active."""
    row = tables.get(MembershipRow, membership)
    return None if row is None or row.ended_at is not None or row.until < now else row


def activated_of(tables: Tables, row: MembershipRow) -> Activated:
    certificate = tables.get(AppointmentRow, row.certificate)
    assert certificate is not None  # noqa: S101 - both are written in one transaction, and forgotten in one
    return Activated(membership_from_bytes(row.membership), appointment_from_bytes(certificate.certificate))


def _row(signed: SignedAppointment, work: UnitOfWork, number: int, membership: bytes) -> AppointmentRow:
    said = signed.certificate
    return AppointmentRow(
        id=signed.id,
        number=number,
        kind=said.kind.value,
        issuer=said.issuer.key,
        holder=said.holder.key,
        name=said.name,
        not_after=end_of(said.validity.not_after),
        membership=membership,
        certificate=appointment_to_bytes(signed),
        registered_by=work.actor.key,
        registered_at=work.now,
    )
