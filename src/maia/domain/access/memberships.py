"""How does a principal become a member of a role, how is that stored, and what does the role engine see?

The role engine finds the memberships. They are kept here as bytes, which are
neither signed nor sent, with all that they depend on, and each gets a signed
role membership certificate, which other domains can ask for (dissertation 6.1).
The engine sees the facts on record, the active memberships, and appointments:
those that came with the request, and those that the domain issued or that
something here depends on already. Certificates against which a statement or the
register speaks are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final, cast

from maia.canonical import write_canonical
from maia.credentials import Principal, SignedCertificate, SigningKey, Validity
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
from maia.credentials.chains.reduction import BrokenChain, shown_id
from maia.credentials.statements import CertificateRevoked
from maia.domain.access.results import Activated
from maia.domain.access.settings import AccessSettings, check_room
from maia.domain.access.unit_of_work import UnitOfWork, end_of, next_number
from maia.domain.facts.store import matching_facts
from maia.domain.storage.records import from_cell, to_cell
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import (
    AppointmentRow,
    MembershipRow,
    RevokedRow,
    SupportRow,
    TesterRow,
    active_memberships,
)
from maia.errors import BadInput
from maia.events import SECOND, Instant
from maia.roles import Ground, RoleMembership, Support, SupportKind
from maia.validity import Monitor, Once

# ------------------------------------------------------------ what speaks against a certificate

# Of its own certificates a domain knows more than any statement says: its
# register is where statements come from. Of other issuers' it knows the
# statements that it has received. The policy kernel asks here when the domain decides about its own
# administrators, and when the register answers who can do what.


class DomainTester:
    """The register for certificates that this domain tests, received statements for all others."""

    def __init__(self, tables: Tables, standing: Monitor, domain: Principal) -> None:
        """Ask `tables` about certificates of `domain`, and `standing` about others."""
        self._tables, self._validity, self._domain = tables, standing, domain

    def check(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return what speaks against a certificate at `at`, or None."""
        certificate = signed.certificate
        tests = certificate.validity.tests
        is_ours = self._domain in (certificate.issuer, *(test.by for test in tests))
        if is_ours and self._tables.get(RevokedRow, signed.id) is not None:
            return CertificateRevoked(
                f"certificate {shown_id(signed.id)} was revoked here",
                certificate=signed.id,
                field="validity.online",
            )
        # The tests that this domain itself is asked for are left out: its register is the answer.
        others = tuple(test for test in tests if test.by != self._domain)
        if len(others) != len(tests):
            validity = replace(certificate.validity, tests=others)
            signed = replace(signed, certificate=replace(certificate, validity=validity))
        return self._validity.check(signed, at, once=once)

    def check_appointment(self, signed: SignedAppointment, at: Instant) -> BrokenChain | None:
        """Say the same of an appointment or a role membership certificate."""
        # `cast`: what is read (id, issuer, tests) has the same names in both.
        return self.check(cast("SignedCertificate", signed), at)


def membership_from_bytes(data: bytes) -> RoleMembership:
    found: RoleMembership = from_cell(RoleMembership, data, "a membership in the store")
    return found


def support_key(support: Support) -> bytes:
    return support.kind.value.encode() + b" " + support.id


class StoreWorld:
    """The world of one act: one transaction, one moment, and what was shown with the request."""

    def __init__(
        self, tables: Tables, tester: DomainTester, now: Instant, shown: Sequence[VerifiedAppointment] = ()
    ) -> None:
        self._tables, self._tester, self._now = tables, tester, now
        self._shown = tuple(sorted(shown, key=lambda one: one.id))

    def matching(self, fact: str, arguments: Sequence[Argument | None]) -> Iterable[tuple[Argument, ...]]:
        """Yield the rows of a fact that agree with `arguments`; None agrees with everything."""
        return matching_facts(self._tables, fact, arguments)

    def appointments(
        self, called: str, *, kind: AppointmentKind, holder: Principal | None
    ) -> Iterator[VerifiedAppointment]:
        """Yield certificates with this name inside, of one holder or (None) of all."""
        seen: set[bytes] = set()
        for verified in self._candidates(called, kind, holder):
            if verified.id in seen:
                continue
            seen.add(verified.id)
            if self._tester.check_appointment(verified.signed, self._now) is None:
                yield verified

    def memberships(self, role: str, *, holder: Principal | None) -> Iterator[RoleMembership]:
        """Yield active memberships of a role, of one holder or (None) of all."""
        where = [MembershipRow.c.role == role, *active_memberships(self._now)]
        if holder is not None:
            where.append(MembershipRow.c.principal == holder.key)
        for rows in self._tables.every(MembershipRow, *where, order=MembershipRow.c.number):
            yield from (membership_from_bytes(row.membership) for row in rows)

    def _candidates(
        self, called: str, kind: AppointmentKind, holder: Principal | None
    ) -> Iterator[VerifiedAppointment]:
        for shown in self._shown:
            said = shown.certificate
            if said.name == called and said.kind is kind and holder in (None, said.holder):
                yield shown
        columns = AppointmentRow.c
        where = [
            columns.name == called,
            columns.kind == kind.value,
            columns.revoked_at.is_(None),
            columns.not_after >= self._now,
        ]
        if holder is not None:
            where.append(columns.holder == holder.key)
        for rows in self._tables.every(AppointmentRow, *where, order=columns.number):
            for row in rows:
                # Bytes in a database are a claim like any other: the signature is checked again.
                yield verify_appointment(appointment_from_bytes(row.certificate))


_NUMBERS: Final = "memberships"
_CERTIFICATES: Final = "appointments"


MEMBERSHIP: Final = "membership"
RIGHT: Final = "right"


def keep_dependencies(tables: Tables, dependent: bytes, sort: str, grounds: Iterable[Ground]) -> None:
    """Store what a membership or a right depends on."""
    watched: dict[bytes, bool] = {}
    for ground in grounds:
        key = support_key(ground.support)
        watched[key] = watched.get(key, False) or ground.is_watched
    tables.delete(SupportRow, SupportRow.c.dependent == dependent)
    tables.put(*(SupportRow(key, dependent, sort, int(on)) for key, on in watched.items()))


class RoleActivation:
    """Keeps memberships and appointments of one domain."""

    def __init__(self, key: SigningKey, settings: AccessSettings) -> None:
        self._key, self._settings = key, settings

    def verified(self, shown: Iterable[SignedAppointment]) -> list[VerifiedAppointment]:
        """Check the signatures of what was shown; refuse too many."""
        given = list(shown)
        if len(given) > self._settings.limits.shown:
            raise BadInput(
                "INPUT-TOO-MANY-SHOWN", f"a request shows at most {self._settings.limits.shown} certificates"
            )
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
        count = work.tables.count(MembershipRow, by_principal, *active) + 1
        check_room(
            count, self._settings.limits.memberships_each, "a principal has at most {} roles at a time"
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
            membership=to_cell(RoleMembership, membership),
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
