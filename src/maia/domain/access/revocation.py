"""How are certificates taken back by their ids, whatever they are?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from maia.credentials import Principal, certificate_from_bytes, is_for_good
from maia.domain.access.cascade import end_memberships, revoke_appointments, revoke_rights
from maia.domain.access.refusals import HandedOverForGood, NotOurs, TooManyShown, UnknownCertificate
from maia.domain.access.unit_of_work import UnitOfWork
from maia.domain.storage.tables import (
    APPOINTMENTS,
    FOR_EVER,
    REVOKED,
    RIGHTS,
    AppointmentRow,
    RevokedRow,
    RightRow,
    Table,
)

__all__ = ["revoke_again", "revoke_ids"]

_IDS_MAX: Final = 10_000
_Row = TypeVar("_Row")


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
