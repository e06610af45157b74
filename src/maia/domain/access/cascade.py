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

from maia.domain.access.unit_of_work import UnitOfWork
from maia.domain.storage.membership_encoding import membership_from_bytes, support_key
from maia.domain.storage.store import Tables, chunks
from maia.domain.storage.tables import (
    APPOINTMENTS,
    MEMBERSHIPS,
    REVOKED,
    RIGHTS,
    SUPPORTS,
    AppointmentRow,
    RevokedRow,
    SupportRow,
)
from maia.roles import Ground, RoleMembership, Support, SupportKind, membership_support

__all__ = [
    "MEMBERSHIP",
    "RIGHT",
    "end_memberships",
    "lose",
    "rest_on",
    "revoke_appointments",
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
