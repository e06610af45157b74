"""How are the values of the access control service shown to a caller? As the structs of `responses.py`."""

from __future__ import annotations

from collections.abc import Mapping

from maia.api.requests import Period, written
from maia.api.responses import (
    AbilityAnswer,
    ActivationAnswer,
    AppointmentAnswer,
    AuditAnswer,
    EntryAnswer,
    HolderAnswer,
    MembershipAnswer,
    OpenAnswer,
    PolicyAnswer,
    RevokedAnswer,
    RightAnswer,
    StatementAnswer,
    TypeAnswer,
    WalletAnswer,
    WithheldAnswer,
)
from maia.credentials import (
    ALL_ATTRIBUTES,
    LocalName,
    NameCertificate,
    Subject,
    Threshold,
    Validity,
    certificate_to_bytes,
)
from maia.credentials.appointments import SignedAppointment, appointment_to_bytes
from maia.credentials.statements import SignedStatement, statement_to_bytes
from maia.domain.access.audit import AuditRecord
from maia.domain.access.results import (
    Ability,
    Activated,
    Holder,
    Issued,
    LoadedPolicy,
    RegisterEntry,
    Revoked,
    Wallet,
)
from maia.events import AttributeUid, Instant
from maia.expressions import format_rule
from maia.policy import shows
from maia.predicates import format_predicate
from maia.roles import RoleMembership
from maia.types import SignedDefinition, VerifiedType, definition_to_bytes


def statement_answer(signed: SignedStatement) -> StatementAnswer:
    return StatementAnswer(statement_to_bytes(signed))


def appointment_answer(signed: SignedAppointment) -> AppointmentAnswer:
    """Return an appointment or role membership certificate."""
    said = signed.certificate
    return AppointmentAnswer(
        signed.id.hex(),
        said.kind.value,
        str(said.issuer),
        str(said.holder),
        said.name,
        [written(one) for one in said.parameters],
        _period(said.validity),
        appointment_to_bytes(signed),
    )


def membership_answer(membership: RoleMembership) -> MembershipAnswer:
    return MembershipAnswer(
        membership.id.hex(),
        str(membership.principal),
        membership.role,
        [written(one) for one in membership.arguments],
        membership.rule,
        _moment(membership.until),
    )


def activation_answer(activated: Activated) -> ActivationAnswer:
    return ActivationAnswer(
        membership_answer(activated.membership), appointment_answer(activated.certificate)
    )


def right_answer(issued: Issued) -> RightAnswer:
    return RightAnswer(
        issued.id.hex(),
        certificate_to_bytes(issued.certificate),
        [certificate_to_bytes(one) for one in issued.chain],
        None if issued.membership is None else issued.membership.hex(),
        issued.rule,
        _moment(issued.until),
    )


def wallet_answer(wallet: Wallet) -> WalletAnswer:
    return WalletAnswer(
        str(wallet.principal),
        [activation_answer(one) for one in wallet.memberships],
        [right_answer(one) for one in wallet.issued],
        [certificate_to_bytes(one) for one in wallet.chains],
        [statement_to_bytes(one) for one in wallet.statements],
        _moment(wallet.renew_before),
        [WithheldAnswer(one.rule, one.code, one.right, one.why) for one in wallet.withheld],
        [definition_to_bytes(one) for one in wallet.types],
    )


def revoked_answer(revoked: Revoked) -> RevokedAnswer:
    return RevokedAnswer(
        [one.hex() for one in revoked.ids],
        [membership_answer(one) for one in revoked.memberships],
        None if revoked.statement is None else statement_to_bytes(revoked.statement),
        revoked.is_silent,
        revoked.is_news,
        [OpenAnswer(one.hex(), _moment(until)) for one, until in revoked.still_open],
        _moment(revoked.closes_at),
    )


def policy_answer(loaded: LoadedPolicy) -> PolicyAnswer:
    return PolicyAnswer(
        loaded.version,
        loaded.digest.hex(),
        loaded.text,
        str(loaded.loaded_by),
        str(loaded.loaded_at),
        revoked_answer(loaded.revoked),
        loaded.is_unchanged,
    )


def entry_answer(entry: RegisterEntry) -> EntryAnswer:
    said = entry.certificate.certificate
    return EntryAnswer(
        entry.kind.value,
        entry.certificate.id.hex(),
        str(said.issuer),
        _subject(said.subject),
        not isinstance(said, NameCertificate) and said.may_delegate,
        _period(said.validity),
        None if entry.membership is None else entry.membership.hex(),
        entry.rule,
        str(entry.registered_at),
        _moment(entry.revoked_at),
        entry.reason,
        certificate_to_bytes(entry.certificate),
    )


def holder_answer(holder: Holder, event_type: VerifiedType) -> HolderAnswer:
    """Return a principal that can, with attributes by the names of the type."""
    names = {one.uid: one.name for one in event_type.attributes}
    windows = () if holder.view is None else holder.view.windows
    shown = {uid for uid in names for window in windows if shows(window, uid)}
    rules = {rule for window in windows for step in window.transformations for rule in step.rules}
    sees_all = any(one.attributes is ALL_ATTRIBUTES and not one.transformations for one in windows)
    return HolderAnswer(
        str(holder.principal),
        _moment(holder.until),
        [format_predicate(window.admits, names) for window in windows],
        None if sees_all else sorted(names.get(uid, uid) for uid in shown),
        [[one.id.hex() for one in chain] for chain in holder.chains],
        holder.is_conditional,
        sorted(format_rule(rule, names) for rule in rules),
    )


def ability_answer(ability: Ability, names: Mapping[AttributeUid, str]) -> AbilityAnswer:
    """Return something that a member of a role would be able to do, with attributes by their names."""
    windows = (
        None
        if ability.view is None
        else [format_predicate(one.admits, names) for one in ability.view.windows]
    )
    return AbilityAnswer(
        ability.rule,
        ability.action.value,
        ability.resource,
        None if ability.attributes is None else sorted(names.get(one, one) for one in ability.attributes),
        windows,
        ability.denial,
    )


def audit_answer(record: AuditRecord) -> AuditAnswer:
    return AuditAnswer(
        record.number,
        str(record.at),
        str(record.actor),
        record.act,
        list(record.details),
        record.digest.hex(),
        record.previous.hex(),
        record.body,
    )


def type_answer(signed: SignedDefinition) -> TypeAnswer:
    said = signed.definition
    return TypeAnswer(
        signed.id.hex(),
        str(said.name.owner),
        said.name.name,
        said.name.version,
        [f"{one.name}:{one.kind.value}" for one in said.attributes],
        definition_to_bytes(signed),
    )


def _moment(at: Instant | None) -> str | None:
    return None if at is None else str(at)


def _period(validity: Validity) -> Period:
    start, end = validity.not_before, validity.not_after
    return Period("unbounded" if start is None else str(start), "unbounded" if end is None else str(end))


def _subject(subject: Subject) -> str:
    match subject:
        case LocalName(space, names):
            return f"{space}#{'#'.join(names)}"
        case Threshold(needed, members):
            return f"{needed} of {len(members)}"
        case principal:
            return str(principal)
