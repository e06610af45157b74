"""What falls when something that others rest on is gone?

Memberships and rights remember what they rest on. When a fact, an appointment
or a membership is lost, exactly those fall that watch it, then those that
watch these, and so on (dissertation 6.2.4). Each step is one look into an
index: what does not depend on the loss is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from maia.credentials import Principal, certificate_from_bytes, is_for_good
from maia.domain.access.memberships import membership_from_bytes, support_key
from maia.domain.access.refusals import HandedOverForGood, NotOurs, TooManyShown, UnknownCertificate
from maia.domain.access.settings import AccessSettings
from maia.domain.access.unit_of_work import UnitOfWork, forget_old
from maia.domain.storage.store import Tables, chunks
from maia.domain.storage.tables import (
    APPOINTMENTS,
    FOR_EVER,
    MEMBERSHIPS,
    REVOKED,
    RIGHTS,
    SUPPORTS,
    TESTERS,
    AppointmentRow,
    RevokedRow,
    RightRow,
    SupportRow,
    Table,
)
from maia.events import Instant
from maia.roles import Ground, RoleMembership, Support, SupportKind, membership_support

__all__ = [
    "MEMBERSHIP",
    "RIGHT",
    "end_memberships",
    "forget_expired",
    "lose",
    "rest_on",
    "revoke_again",
    "revoke_appointments",
    "revoke_ids",
    "revoke_rights",
]

MEMBERSHIP: Final = "membership"
RIGHT: Final = "right"

_REASON_MAX: Final = 200

_Row = TypeVar("_Row")


def rest_on(tables: Tables, dependent: bytes, sort: str, grounds: Iterable[Ground]) -> None:
    """Remember what a membership or a right rests on."""
    watched: dict[bytes, bool] = {}
    for ground in grounds:
        key = support_key(ground.support)
        watched[key] = watched.get(key, False) or ground.is_watched
    tables.delete(SUPPORTS, SUPPORTS.c.dependent == dependent)
    tables.put(SUPPORTS, [SupportRow(key, dependent, sort, int(on)) for key, on in watched.items()])


def lose(turn: UnitOfWork, lost: Iterable[Support], reason: str) -> None:
    """Let everything fall that watches one of `lost`, and whatever rests on that."""
    frontier = sorted({support_key(support) for support in lost})
    while frontier:
        memberships, rights = _watching(turn.tables, frontier)
        revoke_rights(turn, rights, reason)
        before = len(turn.ids)
        ended = _end(turn, memberships, reason)
        # A policy may also ask for a certificate on a membership of its own domain.
        certificates = [Support(SupportKind.CERTIFICATE, one) for one in turn.ids[before:]]
        frontier = sorted(map(support_key, (*map(membership_support, ended), *certificates)))


def end_memberships(turn: UnitOfWork, ids: Sequence[bytes], reason: str) -> None:
    """End memberships, and whatever rests on them."""
    before = len(turn.ids)
    ended = _end(turn, ids, reason)
    certificates = [Support(SupportKind.CERTIFICATE, one) for one in turn.ids[before:]]
    lose(turn, [*map(membership_support, ended), *certificates], reason)


def revoke_appointments(turn: UnitOfWork, rows: Sequence[AppointmentRow], reason: str) -> None:
    """Take back certificates on appointments of this domain, and whatever rests on them."""
    standing = [row for row in rows if row.revoked_at is None]
    _revoke_appointment_rows(turn, standing, reason)
    lost = [Support(SupportKind.CERTIFICATE, row.id, row.name) for row in standing]
    lose(turn, lost, reason)


def revoke_rights(turn: UnitOfWork, ids: Iterable[bytes], reason: str) -> None:
    """Take back rights, so that the next list names them."""
    rows = [row for row in turn.tables.find_in(RIGHTS, RIGHTS.c.id, ids) if row.revoked_at is None]
    gone = [replace(row, revoked_at=turn.now, reason=reason[:_REASON_MAX]) for row in rows]
    turn.tables.put(RIGHTS, gone)
    turn.tables.put(REVOKED, [RevokedRow(row.id, row.not_after, turn.now) for row in gone])
    turn.tables.delete_in(SUPPORTS, SUPPORTS.c.dependent, (row.id for row in gone))
    turn.ids += [row.id for row in gone]


def _watching(tables: Tables, supports: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the memberships and the rights that watch one of `supports`, each once."""
    found: dict[bytes, str] = {}
    for chunk in chunks(supports):
        where = (SUPPORTS.c.support.in_(chunk), SUPPORTS.c.is_watched == 1)
        # What watches several of them may be cut in two by the end of a page: one row of it is enough.
        for rows in tables.every(SUPPORTS, *where, order=SUPPORTS.c.dependent):
            found |= {row.dependent: row.sort for row in rows}
    memberships = [dependent for dependent, sort in found.items() if sort == MEMBERSHIP]
    return memberships, [dependent for dependent, sort in found.items() if sort == RIGHT]


def _end(turn: UnitOfWork, ids: Iterable[bytes], reason: str) -> list[RoleMembership]:
    """End memberships and take back the certificates on them; return those that had not ended yet."""
    rows = sorted(
        (row for row in turn.tables.find_in(MEMBERSHIPS, MEMBERSHIPS.c.id, ids) if row.ended_at is None),
        key=lambda row: row.number,
    )
    turn.tables.put(
        MEMBERSHIPS, [replace(row, ended_at=turn.now, reason=reason[:_REASON_MAX]) for row in rows]
    )
    turn.tables.delete_in(SUPPORTS, SUPPORTS.c.dependent, (row.id for row in rows))
    # A membership that was renewed has several certificates.
    on_these = turn.tables.find_in(APPOINTMENTS, APPOINTMENTS.c.membership, (row.id for row in rows))
    certificates = sorted((row for row in on_these if row.revoked_at is None), key=lambda row: row.number)
    _revoke_appointment_rows(turn, certificates, reason)
    ended = [membership_from_bytes(row.membership) for row in rows]
    turn.memberships += ended
    return ended


def _revoke_appointment_rows(turn: UnitOfWork, rows: Sequence[AppointmentRow], reason: str) -> None:
    gone = [replace(row, revoked_at=turn.now, reason=reason[:_REASON_MAX]) for row in rows]
    turn.tables.put(APPOINTMENTS, gone)
    turn.tables.put(REVOKED, [RevokedRow(row.id, row.not_after, turn.now) for row in gone])
    turn.ids += [row.id for row in gone]


_IDS_MAX: Final = 10_000


def revoke_ids(turn: UnitOfWork, ids: Iterable[bytes], reason: str, domain: Principal) -> None:
    """Take back rights, appointments and role memberships of this domain; refuse what is not its own.

    What is revoked already stays so, and is no error.
    """
    wanted = tuple(dict.fromkeys(ids))
    if len(wanted) > _IDS_MAX:
        raise TooManyShown(f"at most {_IDS_MAX} certificates are revoked at once")
    rights: list[bytes] = []
    appointments: list[AppointmentRow] = []
    memberships: list[bytes] = []
    known_rights = {row.id: row for row in turn.tables.find_in(RIGHTS, RIGHTS.c.id, wanted)}
    others = {row.id: row for row in turn.tables.find_in(APPOINTMENTS, APPOINTMENTS.c.id, wanted)}
    for one in wanted:
        right, appointment = known_rights.get(one), others.get(one)
        if right is not None:
            rights.append(_own_right(right, domain))
        elif appointment is None:
            raise UnknownCertificate(f"no certificate of the register has the id `{one.hex()[:64]}`")
        elif appointment.issuer != domain.key:
            raise NotOurs(f"`{one.hex()[:16]}…` was issued by another: ask its issuer to revoke it")
        elif appointment.membership:
            memberships.append(appointment.membership)
        else:
            appointments.append(appointment)
    revoke_rights(turn, rights, reason)
    revoke_appointments(turn, appointments, reason)
    end_memberships(turn, memberships, reason)


def revoke_again(turn: UnitOfWork, ids: Iterable[bytes], reason: str, domain: Principal) -> None:
    """Take back what this domain once did, also where its register has forgotten what that was."""
    wanted = tuple(sorted(ids))
    listed = _found(turn, REVOKED, wanted)
    missed = [one for one in wanted if one not in listed]
    known = _found(turn, RIGHTS, missed) | _found(turn, APPOINTMENTS, missed)
    ours = [one for one in missed if one in known]
    for start in range(0, len(ours), _IDS_MAX):
        revoke_ids(turn, ours[start : start + _IDS_MAX], reason, domain)
    forgotten = [one for one in missed if one not in known]
    turn.tables.put(REVOKED, [RevokedRow(one, FOR_EVER, turn.now) for one in forgotten])
    turn.ids += forgotten


def _found(turn: UnitOfWork, table: Table[_Row], ids: Sequence[bytes]) -> set[bytes]:
    """Return which of these ids a table has."""
    return {one for one in ids if turn.tables.get(table, one) is not None}


def _own_right(row: RightRow, domain: Principal) -> bytes:
    """Return the id of a right that this domain issued, or is named to vouch for."""
    said = certificate_from_bytes(row.certificate).certificate
    if domain not in (said.issuer, *(test.by for test in said.validity.tests)):
        raise NotOurs(f"`{row.id.hex()[:16]}…` was issued by another: ask its issuer to revoke it")
    if is_for_good(said):
        raise HandedOverForGood(f"`{row.id.hex()[:16]}…` hands root authority over for good")
    return row.id


_AT_ONCE: Final = 200
_SECOND: Final = 1_000_000


def forget_expired(tables: Tables, now: Instant, settings: AccessSettings) -> None:
    """Forget some of what expired long ago."""
    forget_old(tables, now)
    long_ago = now - settings.kept_s * _SECOND
    rights = tables.find(RIGHTS, RIGHTS.c.not_after <= long_ago, limit=_AT_ONCE, order=RIGHTS.c.not_after)
    memberships = tables.find(
        MEMBERSHIPS, MEMBERSHIPS.c.until <= long_ago, limit=_AT_ONCE, order=MEMBERSHIPS.c.until
    )
    gone = (*(row.id for row in rights), *(row.id for row in memberships))
    tables.delete_in(SUPPORTS, SUPPORTS.c.dependent, gone)
    tables.delete_in(RIGHTS, RIGHTS.c.id, (row.id for row in rights))
    tables.delete_in(MEMBERSHIPS, MEMBERSHIPS.c.id, (row.id for row in memberships))
    # A certificate on a membership ends with it, so the membership has gone before, or goes now.
    appointments = tables.find(
        APPOINTMENTS, APPOINTMENTS.c.not_after <= long_ago, limit=_AT_ONCE, order=APPOINTMENTS.c.not_after
    )
    ids = [
        row.id
        for row in appointments
        if not row.membership or tables.get(MEMBERSHIPS, row.membership) is None
    ]
    tables.delete_in(APPOINTMENTS, APPOINTMENTS.c.id, ids)
    tables.delete_in(TESTERS, TESTERS.c.certificate, ids)
