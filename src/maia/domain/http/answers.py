"""How are the values of the access control service shown to a caller? As the structs of `maia.api.responses`.

The struct says how: a field is the attribute of the same name, keys and moments become text, ids
hexadecimal digits, and signed documents their bytes. What a struct calls otherwise than the value is said
below, by the class of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from hashlib import sha256
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec

from maia.api.arguments import written
from maia.api.responses import AbilityAnswer, HolderAnswer
from maia.credentials import (
    ALL_ATTRIBUTES,
    LocalName,
    SignedCertificate,
    Threshold,
    Validity,
    certificate_to_bytes,
)
from maia.credentials.appointments import SignedAppointment, appointment_to_bytes
from maia.credentials.identity import SignedIdentity, identity_to_bytes
from maia.credentials.statements import SignedStatement, statement_to_bytes
from maia.domain.access.attestations import ApprovedBoots
from maia.domain.access.results import Ability, Holder, Page, RegisterEntry, Wallet
from maia.events import AttributeUid
from maia.expressions import format_rule
from maia.policy import shows
from maia.predicates import format_predicate
from maia.types import SignedDefinition, VerifiedType, definition_to_bytes

# Any, in this file: a field holds whatever its class says.
_BYTES: Final[Mapping[type, Callable[[Any], bytes]]] = {
    SignedAppointment: appointment_to_bytes,
    SignedCertificate: certificate_to_bytes,
    SignedDefinition: definition_to_bytes,
    SignedIdentity: identity_to_bytes,
    SignedStatement: statement_to_bytes,
}


def shaped(value: Any, kind: Any) -> Any:
    """Return a value as `kind`, the class of an answer or of a field of one."""
    inner = get_origin(kind)
    kinds = [one for one in get_args(kind) if one is not NoneType][: 1 if inner is Annotated else None]
    if value is None or inner is tuple:
        return value
    if inner is list:
        return [shaped(one, kinds[0]) for one in value]
    if inner is dict:
        return {str(name): shaped(one, kinds[1]) for name, one in sorted(value.items())}
    if kinds:
        return shaped(value, kinds[0]) if len(kinds) == 1 else written(value)
    if kind is str:
        return (
            value.hex()
            if isinstance(value, bytes)
            else str(value.value if isinstance(value, Enum) else value)
        )
    if kind is bytes:
        return value if isinstance(value, bytes) else _BYTES[type(value)](value)
    if isinstance(value, kind):
        return value
    return _struct(value, kind) if issubclass(kind, msgspec.Struct) else kind(value)


def _struct(value: Any, kind: type[msgspec.Struct]) -> msgspec.Struct:
    fields = _fields(kind)
    if isinstance(value, Page):
        found: dict[str, Any] = {"items": value.rows, "next": value.after}
    elif type(value) in _OTHERWISE:
        otherwise = _OTHERWISE[type(value)](value)
        found = {name: otherwise[name] if name in otherwise else getattr(value, name) for name in fields}
    elif len(fields) == 1 or isinstance(value, tuple):  # values in the order of the fields
        found = dict(zip(fields, (value,) if len(fields) == 1 else value, strict=True))
    else:
        found = {name: getattr(value, name) for name in fields}
    return kind(**{name: shaped(one, fields[name]) for name, one in found.items()})


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {one.name: one.type for one in msgspec.structs.fields(kind)}


# ------------------------------------------------------------ what answers call otherwise


def _appointment(signed: SignedAppointment) -> dict[str, object]:
    said = signed.certificate
    named = {name: getattr(said, name) for name in ("kind", "issuer", "holder", "name", "parameters")}
    return {**named, "valid": said.validity, "certificate": signed}


def _entry(entry: RegisterEntry) -> dict[str, object]:
    said = entry.certificate.certificate
    match said.subject:
        case LocalName(space, names):
            subject = f"{space}#{'#'.join(names)}"
        case Threshold(needed, members):
            subject = f"{needed} of {len(members)}"
        case principal:
            subject = str(principal)
    return {
        "id": entry.certificate.id,
        "issuer": said.issuer,
        "subject": subject,
        "may_delegate": getattr(said, "may_delegate", False),
        "valid": said.validity,
    }


def _type(signed: SignedDefinition) -> dict[str, object]:
    name, attributes = signed.definition.name, signed.definition.attributes
    return {
        "owner": name.owner,
        "name": name.name,
        "version": name.version,
        "attributes": [f"{one.name}:{one.kind.value}" for one in attributes],
        "definition": signed,
    }


def _boots(found: ApprovedBoots) -> dict[str, object]:
    digests = [sha256(one).digest() for one in found.roots]
    one = found.approved
    return {"pcrs": one.pcrs, "configurations": one.configurations, "roots": digests, "scan": one.scan}


def _period(valid: Validity) -> dict[str, object]:
    bounds = {"not_before": valid.not_before, "not_after": valid.not_after}
    return {name: "unbounded" if bound is None else bound for name, bound in bounds.items()}


_OTHERWISE: Final[Mapping[type, Callable[[Any], Mapping[str, object]]]] = {
    ApprovedBoots: _boots,
    RegisterEntry: _entry,
    SignedAppointment: _appointment,
    SignedDefinition: _type,
    Validity: _period,
    Wallet: lambda wallet: {"rights": wallet.issued},
}


def holder_answer(holder: Holder, event_type: VerifiedType) -> HolderAnswer:
    """Return a principal that can, with attributes by the names of the type."""
    names = {one.uid: one.name for one in event_type.attributes}
    windows = () if holder.view is None else holder.view.windows
    shown = {uid for uid in names for window in windows if shows(window, uid)}
    rules = {rule for window in windows for step in window.transformations for rule in step.rules}
    sees_all = any(one.attributes is ALL_ATTRIBUTES and not one.transformations for one in windows)
    return HolderAnswer(
        str(holder.principal),
        shaped(holder.until, str),
        [format_predicate(window.admits, names) for window in windows],
        None if sees_all else sorted(names.get(uid, uid) for uid in shown),
        [[one.id.hex() for one in chain] for chain in holder.chains],
        holder.is_conditional,
        sorted(format_rule(rule, names) for rule in rules),
        holder.may_pass_on,
    )


def ability_answer(ability: Ability, names: Mapping[AttributeUid, str]) -> AbilityAnswer:
    """Return something that a member of a role would be able to do, with attributes by their names."""
    windows = None if ability.view is None else ability.view.windows
    return AbilityAnswer(
        ability.rule,
        ability.action.value,
        ability.resource,
        None if ability.attributes is None else sorted(names.get(one, one) for one in ability.attributes),
        None if windows is None else [format_predicate(one.admits, names) for one in windows],
        ability.denial,
    )
