"""What must go when another policy comes into force?

Memberships whose rule is gone or rest on an issuer that counts no more, and
rights whose grant is gone; with them whatever rests on them. Rules are
compared by what they say: one that only moved takes nothing with it, and
removing one of several keeps what the others gave (A41).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from maia.credentials import Principal
from maia.credentials.appointments import Appointment, AppointmentKind, appointment_from_bytes
from maia.credentials.arguments import ParameterKind, argument_kind
from maia.domain.access.cascade import end_memberships, revoke_rights
from maia.domain.access.results import EntryKind
from maia.domain.access.unit_of_work import UnitOfWork
from maia.domain.storage.membership_encoding import membership_from_bytes
from maia.domain.storage.store import AT_ONCE
from maia.domain.storage.tables import (
    APPOINTMENTS,
    MEMBERSHIPS,
    RIGHTS,
    SUPPORTS,
    active_memberships,
    valid_rights,
)
from maia.roles import Grant, Policy, SupportKind, fallen
from maia.roles.policy import CertificatePremise

__all__ = ["let_go_of_what_is_not_granted"]

_CERTIFICATE: Final = SupportKind.CERTIFICATE.value.encode() + b" "

_Signed: TypeAlias = tuple[AppointmentKind, str, tuple[ParameterKind, ...], Principal]
"""What a certificate is, is called and has for parameters, and who signed it."""


def let_go_of_what_is_not_granted(turn: UnitOfWork, policy: Policy, *, before: Policy | None) -> None:
    """End memberships and take back rights that a new policy does not give; `before` it was in force."""
    _end_memberships(turn, policy)
    _take_back_grants(turn, policy)
    for grants in policy.grants.values():
        for grant in grants:
            _take_back_issuers(turn, policy, before, grant)


def _end_memberships(turn: UnitOfWork, policy: Policy) -> None:
    active = active_memberships(turn.now)
    for rows in turn.tables.every(MEMBERSHIPS, *active, order=MEMBERSHIPS.c.number):
        found = fallen((membership_from_bytes(row.membership) for row in rows), policy=policy)
        end_memberships(turn, [one.membership.id for one in found], "the policy changed")


def _take_back_grants(turn: UnitOfWork, policy: Policy) -> None:
    issued = (RIGHTS.c.kind == EntryKind.ISSUED.value, *valid_rights(turn.now))
    after: str = ""
    while rules := turn.tables.distinct(RIGHTS.c.rule, *issued, limit=AT_ONCE, after=after):
        after = rules[-1]
        for rule in (one for one in rules if policy.grant(one) is None):
            for rows in turn.tables.every(RIGHTS, *issued, RIGHTS.c.rule == rule, order=RIGHTS.c.number):
                revoke_rights(turn, [row.id for row in rows], "the policy changed")


def _take_back_issuers(turn: UnitOfWork, policy: Policy, before: Policy | None, grant: Grant) -> None:
    """Take back rights that rest on a certificate whose issuer the grant no longer accepts for it."""
    names = [one.name for one in grant.premises if isinstance(one, CertificatePremise) and one.is_watched]
    if not names:
        return
    # Two appointments may be called the same inside certificates. What met either of them may have been
    # for the one that the issuer has lost: the right falls, and whoever still has it logs in again.
    lost = {one for name in names for one in _accepted(before, name) - _accepted(policy, name)}
    good = {one for name in names for one in _accepted(policy, name)} - lost
    by_grant = (RIGHTS.c.rule == grant.id, *valid_rights(turn.now))
    for rows in turn.tables.every(RIGHTS, *by_grant, order=RIGHTS.c.number):
        gone = [row.id for row in rows if not _rests_on(turn, row.id) <= good]
        revoke_rights(turn, gone, "the policy changed")


def _accepted(policy: Policy | None, name: str) -> frozenset[_Signed]:
    """Return which certificates a policy takes for what it calls by this name."""
    declared = None if policy is None else policy.appointments.get(name)
    if policy is None or declared is None:
        return frozenset()
    kind = AppointmentKind.ROLE_MEMBERSHIP if declared.is_role else AppointmentKind.APPOINTMENT
    kinds = tuple(parameter.kind for parameter in declared.parameters)
    return frozenset((kind, declared.called, kinds, issuer) for issuer in policy.issuers(name))


def _rests_on(turn: UnitOfWork, right: bytes) -> set[_Signed]:
    """Return what the certificates behind a right are, each with who signed it."""
    supports = turn.tables.find(
        SUPPORTS, SUPPORTS.c.dependent == right, SUPPORTS.c.is_watched == 1, limit=AT_ONCE
    )
    keys = (row.support for row in supports if row.support.startswith(_CERTIFICATE))
    ids = tuple(key.removeprefix(_CERTIFICATE) for key in keys)
    found = turn.tables.find_in(APPOINTMENTS, APPOINTMENTS.c.id, ids)
    return {_signed(appointment_from_bytes(row.certificate).certificate) for row in found}


def _signed(said: Appointment) -> _Signed:
    return said.kind, said.name, tuple(map(argument_kind, said.parameters)), said.issuer
