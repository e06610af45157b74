"""`maia domain who-can`, `rights`, `would`, `revoke`: who can do what, and the end of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from maia.api import endpoints as api
from maia.api.requests import (
    CertificatesBody,
    DelegationBody,
    Reason,
    RegisterQuestion,
    Revocation,
    TypeBody,
    WhoCanQuestion,
    WouldBody,
)
from maia.cli.command import arg, flag, opt
from maia.cli.domain.calls import (
    ASK,
    EntitledCaller,
    ReasonText,
    Words,
    arguments_from_words,
    certificate_bytes,
    shown_call,
    shown_end,
)
from maia.cli.inputs import (
    AT,
    command_group,
    moment,
    read_certificates,
    read_definition,
    read_owner,
    read_principal,
)
from maia.cli.output import Answer, name_places, plain, row, several
from maia.cli.trust.grants import right as right_of
from maia.cli.trust.key import open_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from maia.api.client import DomainClient
    from maia.api.further_registers import End
    from maia.api.responses import AbilityAnswer, EntryAnswer, HolderAnswer
    from maia.credentials import Principal

_Found: TypeAlias = "dict[str, tuple[HolderAnswer, Principal | None]]"
"""Who can, by its key, and of whose register that is, if not of the domain that was asked."""

app = command_group("")


@app.command("who-can")
def who_can(
    *,
    action: str = arg("subscribe, publish …"),
    event_type: str = arg("The type's readable name, or NAME@OWNER.", metavar="TYPE"),
    caller: EntitledCaller,
    attribute: str | None = opt("Who can read, or write, this attribute."),
    owner: str | None = opt("The type's owner, where names are shared."),
    version: str | None = opt("The type's version; default: the newest."),
    at: str | None = AT,
    ask: list[str] | None = ASK,
) -> Answer:
    """List the principals that can act on an event type, by which certificates, until when.

    A register has what its domain issued and what was registered there. Whoever may pass the right
    on is asked for its own, where its server is known and lets you; `ends at` says who was not.

    Examples:
        maia domain who-can subscribe Numberplate --attribute location -k audit.key --credentials
          audit-certs
        maia domain who-can subscribe LabResult@hospital --as audit
        maia domain who-can subscribe LabResult --as hospital --ask institute@institute.example:7600
    """
    from maia.api.further_registers import servers_told
    from maia.profile.type_names import type_meant

    if at is not None:
        moment(at)  # a slip is found before anything is asked
    told = servers_told(ask or (), read_principal)
    known = {(read_owner(one.owner), one.name) for one in caller.every(api.TYPES)}
    word = event_type if owner is None else f"{event_type.partition('@')[0]}@{read_owner(owner)}"
    whose, name = type_meant(word, known, folders=name_places())
    question = WhoCanQuestion(
        action=action, type=name, owner=str(whose), version=version, attribute=attribute, at=at
    )
    found: _Found = {one.principal: (one, None) for one in caller.every(api.WHO_CAN, question)}
    ends = _asked_further(caller, question, found, told)
    return Answer(
        several("holders", [_holder(*one) for one in found.values()], none="no principal"),
        several("ends_at", map(shown_end, ends)),
    )


@app.command()
def rights(
    caller: EntitledCaller,
    principal: str | None = arg("Whose: key or .pub file. Default: your own.", None),
) -> Answer:
    """List the certificates of a principal in the register.

    Examples:
        maia domain rights -k smith.key
        maia domain rights smith.pub -k audit.key --credentials audit-certs
    """
    whose = open_key(caller.key).principal if principal is None else read_principal(principal)
    found = caller.every(api.RIGHTS, principal=whose)
    return Answer(row(principal=whose), several("rights", map(_entry, found), none="none"))


@app.command()
def register(*, caller: EntitledCaller, in_force: bool = flag("Only what is in force now.")) -> Answer:
    """List the register of rights.

    Examples:
        maia domain register --in-force -k audit.key --credentials audit-certs
    """
    question = RegisterQuestion(standing_at="now" if in_force else None)
    return several("register", map(_entry, caller.every(api.REGISTER, question)), none="empty")


@app.command()
def would(
    *,
    role: str = arg("The role, as the policy calls it."),
    caller: EntitledCaller,
    arguments: Words = None,
) -> Answer:
    """List what a member of a role would be able to do.

    Examples:
        maia domain would np_tracker 'AE05 XYZ' -k audit.key --credentials audit-certs
    """
    wanted = arguments_from_words(arguments or ())
    found = caller.ask(api.WOULD_BE_ABLE, WouldBody(role, wanted)).items
    return Answer(row("role", shown_call(role, wanted)), several("abilities", map(_ability, found)))


@app.command()
def revoke(
    *,
    ids: list[str] = arg("Ids of rights, appointments or memberships."),
    caller: EntitledCaller,
    reason: ReasonText = "",
    appointment: bool = flag("It is an appointment: /admin/appointments is enough."),
) -> Answer:
    """Revoke certificates, and whatever depends on them; returns when a broker has acted.

    Examples:
        maia domain revoke 5f0c… --reason 'appeal allowed' -k judge.key --credentials certs
    """
    if appointment:
        return [caller.revoke(api.REVOKE_APPOINTMENT, Reason(reason), id=one) for one in ids][-1]
    return caller.revoke(api.REVOKE, Revocation(ids, reason))


@app.command()
def delegated(
    *, file: Path = arg("The certificate by which you delegated a right."), caller: EntitledCaller
) -> Answer:
    """Register a right that you delegated.

    Examples:
        maia domain delegated passed-on.cert -k smith.key
    """
    return _entry(caller.ask(api.REGISTER_DELEGATION, DelegationBody(certificate_bytes([file])[0])))


@app.command()
def hold(
    *, files: list[Path] = arg("Certificates: files, or folders of *.cert."), caller: EntitledCaller
) -> Answer:
    """Give the domain certificates that lead from owners to it, so that it can delegate rights.

    Examples:
        maia domain hold met.cert -k admin.key --credentials admin-certs
    """
    found = caller.ask(api.HOLD, CertificatesBody(certificate_bytes(files)))
    return row("held", f"{found.new} new certificates", new=found.new)


@app.command("register-type")
def register_type(*, file: Path = arg("A *.type file."), caller: EntitledCaller) -> Answer:
    """Register a version of an event type, so that policies can use it.

    Examples:
        maia domain register-type numberplate.type -k admin.key
    """
    from maia.types import definition_to_bytes

    found = caller.ask(api.REGISTER_TYPE, TypeBody(definition_to_bytes(read_definition(file))))
    said = f"{found.name}, version {found.version}, {' '.join(found.attributes)}"
    return row("registered", said, **plain(found))


@app.command()
def types(caller: EntitledCaller) -> Answer:
    """List the event types that policies can use.

    Examples:
        maia domain types -k smith.key
    """
    found = caller.every(api.TYPES)
    lines = (row("", f"{one.name}  version {one.version}  of {one.owner}", **plain(one)) for one in found)
    return several("types", lines, none="none")


def _asked_further(
    caller: EntitledCaller,
    question: WhoCanQuestion,
    found: _Found,
    told: dict[Principal, str],
) -> list[End]:
    """Add what registers of those know who may pass the right on; return where the list ends."""
    from maia.api.further_registers import ask_further, servers_of_issuers
    from maia.credentials import certificate_from_bytes

    own = read_principal(caller.domain)

    def beyond(some: Iterable[HolderAnswer]) -> list[Principal]:
        return [who for one in some if one.may_pass_on and (who := read_principal(one.principal)) != own]

    def asked(client: DomainClient) -> list[Principal]:
        more = list(client.every(api.WHO_CAN, question))
        for one in more:
            found.setdefault(one.principal, (one, client.domain))
        return beyond(more)

    first = beyond(one for one, _ in found.values())
    if not first:
        return []
    entries = caller.every(api.REGISTER, RegisterQuestion(standing_at="now"))
    known = servers_of_issuers(certificate_from_bytes(one.certificate) for one in entries)
    shown = read_certificates(caller.credentials or ())
    return ask_further(first, known | told, open_key(caller.key), shown, asked)


def _ability(one: AbilityAnswer) -> Answer:
    attributes = "all attributes" if one.attributes is None else " ".join(one.attributes)
    denied = None if one.denial is None else f"the domain itself cannot: {one.denial}"
    return Answer(
        row("may", f"{one.action} {one.resource}: {attributes}", **plain(one)),
        row("  where", one.windows),
        row("  but", denied),
    )


def _holder(one: HolderAnswer, register: Principal | None) -> Answer:
    attributes = "all attributes" if one.attributes is None else " ".join(one.attributes)
    return Answer(
        row("", one.principal, **plain(one)),
        row("  register of", register, **({} if register is None else {"register": str(register)})),
        row("  until", one.until or "unbounded"),
        row("  attributes", attributes),
        row("  where", one.windows),
        row("  set", one.transformations),
        row("  if", "a condition holds at the moment of use" if one.is_conditional else None),
        row("  by", [" → ".join(id_[:16] for id_ in chain) for chain in one.chains]),
        row("  passes on", "it may" if one.may_pass_on else None),
    )


def _entry(one: EntryAnswer) -> Answer:
    from maia.credentials import certificate_from_bytes

    ended = "" if one.revoked_at is None else f", revoked {one.revoked_at} {one.reason}"
    certificate = certificate_from_bytes(one.certificate)
    return Answer(
        row("", one.id, **plain(one)),
        row(f"  {one.kind:<10}", f"{one.rule or '-'} to {one.subject}"),
        row("", [f"  {line}" for line in right_of(certificate).lines]),
        row("  valid", f"{one.valid.not_before} to {one.valid.not_after}{ended}"),
    )
