"""What ends when a fact, an appointment, a membership or a right ends?

Memberships and rights are stored with what they depend on. When a fact, an
appointment or a membership is lost, exactly those end that watch it, then those
that watch these, and so on (dissertation 6.2.4). Each step is one read of an
index: what does not depend on the loss is never touched. Revocation by id and
removal of what expired long ago are here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from maia.credentials import Principal, certificate_from_bytes, is_for_good
from maia.credentials.statements import CertificateRevoked
from maia.domain.access.memberships import MEMBERSHIP, RIGHT, DomainTester, membership_from_bytes, support_key
from maia.domain.access.settings import AccessSettings
from maia.domain.access.unit_of_work import UnitOfWork, forget_old
from maia.domain.storage.store import Tables, chunks
from maia.domain.storage.tables import (
    FOR_EVER,
    AppointmentRow,
    MembershipRow,
    RevokedRow,
    RightRow,
    SupportRow,
    TesterRow,
)
from maia.errors import BadInput, Refusal
from maia.events import SECOND, Instant
from maia.roles import RoleMembership, Support, SupportKind, membership_support

_Row = TypeVar("_Row", RightRow, AppointmentRow)

_REASON_MAX: Final = 200
_IDS_MAX: Final = 10_000
"""Certificates that one act revokes."""
_SOME: Final = 200
"""Expired rows of a table that are removed at once."""


def end_dependents(work: UnitOfWork, lost: Iterable[Support], reason: str) -> None:
    """End everything that watches one of `lost`, and all that depends on it."""
    frontier = sorted({support_key(support) for support in lost})
    while frontier:
        watching: dict[bytes, str] = {}
        for chunk in chunks(frontier):
            where = (SupportRow.c.support.in_(chunk), SupportRow.c.is_watched == 1)
            # One that watches several of them may be cut in two by the end of a page: one row is enough.
            for rows in work.tables.every(SupportRow, *where, order=SupportRow.c.dependent):
                watching |= {row.dependent: row.sort for row in rows}
        revoke_rights(work, (one for one, sort in watching.items() if sort == RIGHT), reason)
        before = len(work.ids)
        ended = _end(work, (one for one, sort in watching.items() if sort == MEMBERSHIP), reason)
        # A policy may also ask for a certificate on a membership of its own domain.
        certificates = [Support(SupportKind.CERTIFICATE, one) for one in work.ids[before:]]
        frontier = sorted(map(support_key, (*map(membership_support, ended), *certificates)))


def end_memberships(work: UnitOfWork, ids: Sequence[bytes], reason: str) -> None:
    """End memberships, and all that depends on them."""
    before = len(work.ids)
    ended = _end(work, ids, reason)
    certificates = [Support(SupportKind.CERTIFICATE, one) for one in work.ids[before:]]
    end_dependents(work, [*map(membership_support, ended), *certificates], reason)


def revoke_rights(work: UnitOfWork, ids: Iterable[bytes], reason: str) -> None:
    """Revoke rights, so that the next list names them."""
    gone = _revoke(work, RightRow, work.tables.find_in(RightRow, RightRow.c.id, ids), reason)
    work.tables.delete_in(SupportRow, SupportRow.c.dependent, (row.id for row in gone))


def mark_revoked(work: UnitOfWork, rows: Iterable[RightRow], check: DomainTester) -> None:
    """Note in the register which certificates of others their issuers have revoked."""
    gone: list[RightRow] = []
    for row in rows:
        signed = certificate_from_bytes(row.certificate)
        problem = check.check(signed, work.now) if row.revoked_at is None else None
        if isinstance(problem, CertificateRevoked):
            reason = f"revoked by {signed.certificate.issuer}"[:_REASON_MAX]
            gone.append(replace(row, revoked_at=work.now, reason=reason))
    work.tables.put(*gone)


def _revoke(work: UnitOfWork, table: type[_Row], rows: Iterable[_Row], reason: str) -> list[_Row]:
    """Revoke those certificates that are not revoked yet, and return them."""
    valid = [row for row in rows if row.revoked_at is None]
    gone = [replace(row, revoked_at=work.now, reason=reason[:_REASON_MAX]) for row in valid]
    work.tables.put(*gone)
    work.tables.put(*(RevokedRow(row.id, row.not_after, work.now) for row in gone))
    work.ids += [row.id for row in gone]
    return gone


def _end(work: UnitOfWork, ids: Iterable[bytes], reason: str) -> list[RoleMembership]:
    """End memberships and revoke their certificates; return those that had not ended yet."""
    rows = sorted(
        (row for row in work.tables.find_in(MembershipRow, MembershipRow.c.id, ids) if row.ended_at is None),
        key=lambda row: row.number,
    )
    work.tables.put(*(replace(row, ended_at=work.now, reason=reason[:_REASON_MAX]) for row in rows))
    work.tables.delete_in(SupportRow, SupportRow.c.dependent, (row.id for row in rows))
    # A membership that was renewed has several certificates.
    on_these = work.tables.find_in(AppointmentRow, AppointmentRow.c.membership, (row.id for row in rows))
    _revoke(work, AppointmentRow, sorted(on_these, key=lambda row: row.number), reason)
    ended = [membership_from_bytes(row.membership) for row in rows]
    work.memberships += ended
    return ended


def revoke_ids(work: UnitOfWork, ids: Iterable[bytes], reason: str, domain: Principal) -> None:
    """Revoke rights, appointments and role memberships of this domain; refuse those of other issuers.

    What is revoked already stays so, and is no error.
    """
    wanted = tuple(dict.fromkeys(ids))
    if len(wanted) > _IDS_MAX:
        raise BadInput("INPUT-TOO-MANY-SHOWN", f"at most {_IDS_MAX} certificates are revoked at once")
    rights: list[bytes] = []
    appointments: list[AppointmentRow] = []
    memberships: list[bytes] = []
    known_rights = {row.id: row for row in work.tables.find_in(RightRow, RightRow.c.id, wanted)}
    others = {row.id: row for row in work.tables.find_in(AppointmentRow, AppointmentRow.c.id, wanted)}
    for one in wanted:
        right, appointment = known_rights.get(one), others.get(one)
        if right is not None:
            said = certificate_from_bytes(right.certificate).certificate
            if domain not in (said.issuer, *(test.by for test in said.validity.tests)):
                raise Refusal(
                    "REFUSED-NOT-OURS",
                    f"`{one.hex()[:16]}…` was issued by another: ask its issuer to revoke it",
                )
            if is_for_good(said):
                raise Refusal(
                    "REFUSED-HANDED-OVER", f"`{one.hex()[:16]}…` hands root authority over for good"
                )
            rights.append(one)
        elif appointment is None:
            raise BadInput(
                "INPUT-UNKNOWN-CERTIFICATE", f"no certificate of the register has the id `{one.hex()[:64]}`"
            )
        elif appointment.issuer != domain.key:
            raise Refusal(
                "REFUSED-NOT-OURS", f"`{one.hex()[:16]}…` was issued by another: ask its issuer to revoke it"
            )
        elif appointment.membership:
            memberships.append(appointment.membership)
        else:
            appointments.append(appointment)
    revoke_rights(work, rights, reason)
    gone = _revoke(work, AppointmentRow, appointments, reason)
    end_dependents(work, [Support(SupportKind.CERTIFICATE, row.id, row.name) for row in gone], reason)
    end_memberships(work, memberships, reason)


def revoke_again(work: UnitOfWork, ids: Iterable[bytes], reason: str, domain: Principal) -> None:
    """Revoke what an earlier list of this domain revoked, also if the register does not have it any more."""
    wanted = tuple(sorted(ids))
    listed = {row.id for row in work.tables.find_in(RevokedRow, RevokedRow.c.id, wanted)}
    missed = [one for one in wanted if one not in listed]
    known = {row.id for row in work.tables.find_in(RightRow, RightRow.c.id, missed)}
    known |= {row.id for row in work.tables.find_in(AppointmentRow, AppointmentRow.c.id, missed)}
    ours = [one for one in missed if one in known]
    for start in range(0, len(ours), _IDS_MAX):
        revoke_ids(work, ours[start : start + _IDS_MAX], reason, domain)
    forgotten = [one for one in missed if one not in known]
    work.tables.put(*(RevokedRow(one, FOR_EVER, work.now) for one in forgotten))
    work.ids += forgotten


def forget_expired(tables: Tables, now: Instant, settings: AccessSettings) -> None:
    """Remove some of what expired so long ago that no clock in the network takes it for valid."""
    forget_old(tables, now)
    long_ago = now - settings.kept_s * SECOND
    rights = tables.find(RightRow, RightRow.c.not_after <= long_ago, limit=_SOME, order=RightRow.c.not_after)
    memberships = tables.find(
        MembershipRow, MembershipRow.c.until <= long_ago, limit=_SOME, order=MembershipRow.c.until
    )
    gone = (*(row.id for row in rights), *(row.id for row in memberships))
    tables.delete_in(SupportRow, SupportRow.c.dependent, gone)
    tables.delete_in(RightRow, RightRow.c.id, (row.id for row in rights))
    tables.delete_in(MembershipRow, MembershipRow.c.id, (row.id for row in memberships))
    # A certificate on a membership ends with it, so the membership has gone before, or goes now.
    appointments = tables.find(
        AppointmentRow, AppointmentRow.c.not_after <= long_ago, limit=_SOME, order=AppointmentRow.c.not_after
    )
    ids = [
        row.id
        for row in appointments
        if not row.membership or tables.get(MembershipRow, row.membership) is None
    ]
    tables.delete_in(AppointmentRow, AppointmentRow.c.id, ids)
    tables.delete_in(TesterRow, TesterRow.c.certificate, ids)
