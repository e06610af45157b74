"""`maia domain who-can`, `rights`, `would`, `revoke`: who can do what, and the end of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maia.cli.domain.calls import (
    EntitledCaller,
    ReasonText,
    Words,
    answer_revoked,
    arguments_from_words,
    record_of,
    shown_call,
)
from maia.cli.inputs import AsJson, At, read_certificates, read_definition, read_principal
from maia.cli.output import answer
from maia.cli.trust.grants import right_lines
from maia.cli.trust.key import open_key

if TYPE_CHECKING:
    from maia.api.responses import EntryAnswer, HolderAnswer


def add_commands(app: typer.Typer) -> None:
    """Add these commands to `maia domain`."""
    app.command(
        name="who-can",
        epilog="Example: maia domain who-can subscribe Numberplate --attribute location -k audit.key "
        "--credentials audit-certs",
    )(who_can)
    app.command(
        epilog="Examples: maia domain rights -k smith.key; maia domain rights smith.pub -k audit.key "
        "--credentials audit-certs"
    )(rights)
    app.command(epilog="Example: maia domain register --in-force -k audit.key --credentials audit-certs")(
        register
    )
    app.command(
        epilog="Example: maia domain would np_tracker 'AE05 XYZ' -k audit.key --credentials audit-certs"
    )(would)
    app.command(
        epilog="Example: maia domain revoke 5f0c… --reason 'appeal allowed' -k judge.key --credentials certs"
    )(revoke)
    app.command(name="delegated", epilog="Example: maia domain delegated passed-on.cert -k smith.key")(
        delegated
    )
    app.command(epilog="Example: maia domain hold met.cert -k admin.key --credentials admin-certs")(hold)
    app.command(
        name="register-type", epilog="Example: maia domain register-type numberplate.type -k admin.key"
    )(register_type)
    app.command(epilog="Example: maia domain types -k smith.key")(types)


def who_can(
    action: Annotated[str, typer.Argument(help="subscribe, publish …")],
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="The type's readable name.")],
    caller: EntitledCaller,
    attribute: Annotated[str | None, typer.Option(help="Who can read, or write, this attribute.")] = None,
    owner: Annotated[str | None, typer.Option(help="The type's owner, where names are shared.")] = None,
    version: Annotated[str | None, typer.Option(help="The type's version; default: the newest.")] = None,
    at: At = None,
    as_json: AsJson = False,
) -> None:
    """List the principals that can act on an event type, by which certificates, until when."""
    from maia.api.responses import HolderPage

    whose = None if owner is None else str(read_principal(owner))
    query = {
        "action": action, "type": event_type, "attribute": attribute, "owner": whose, "version": version,
        "at": at,
    }  # fmt: skip
    found = caller.every("/v1/register/who-can", HolderPage, query)
    lines = [line for one in found for line in _holder_lines(one)] or ["no principal"]
    answer(lines, {"holders": [record_of(one) for one in found]}, as_json=as_json)


def rights(
    caller: EntitledCaller,
    principal: Annotated[
        str | None, typer.Argument(help="Whose: key or .pub file. Default: your own.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the certificates of a principal in the register."""
    from maia.api.responses import EntryPage

    whose = open_key(caller.key).principal if principal is None else read_principal(principal)
    found = caller.every(f"/v1/principals/{whose}/rights", EntryPage)
    lines = [line for one in found for line in _entry_lines(one)] or ["none"]
    answer(lines, {"principal": str(whose), "rights": [record_of(one) for one in found]}, as_json=as_json)


def register(
    caller: EntitledCaller,
    in_force: Annotated[bool, typer.Option("--in-force", help="Only what is in force now.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the register of rights."""
    from maia.api.responses import EntryPage

    query = {"standing_at": "now"} if in_force else {}
    found = caller.every("/v1/register", EntryPage, query)
    lines = [line for one in found for line in _entry_lines(one)] or ["empty"]
    answer(lines, {"register": [record_of(one) for one in found]}, as_json=as_json)


def would(
    role: Annotated[str, typer.Argument(help="The role, as the policy calls it.")],
    caller: EntitledCaller,
    arguments: Words = None,
    as_json: AsJson = False,
) -> None:
    """List what a member of a role would be able to do."""
    from maia.api.requests import WouldBody
    from maia.api.responses import AbilitiesAnswer

    wanted = arguments_from_words(arguments or ())
    body = WouldBody(role, wanted)
    found = caller.ask("POST", "/v1/register/would-be-able", body, answer=AbilitiesAnswer).items
    lines = [f"role         {shown_call(role, wanted)}"]
    for one in found:
        attributes = "all attributes" if one.attributes is None else " ".join(one.attributes)
        lines.append(f"may          {one.action} {one.resource}: {attributes}")
        lines += [f"  where      {window}" for window in one.windows or ()]
        lines += [] if one.denial is None else [f"  but        the domain itself cannot: {one.denial}"]
    answer(lines, {"abilities": [record_of(one) for one in found]}, as_json=as_json)


def revoke(
    ids: Annotated[list[str], typer.Argument(help="Ids of rights, appointments or memberships.")],
    caller: EntitledCaller,
    reason: ReasonText = "",
    appointment: Annotated[
        bool, typer.Option("--appointment", help="It is an appointment: /admin/appointments is enough.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Revoke certificates, and whatever depends on them; returns when a broker has acted."""
    from maia.api.client import new_once
    from maia.api.requests import Reason, Revocation
    from maia.api.responses import RevokedAnswer

    with caller.client() as client:
        if appointment:
            for one in ids:
                path = f"/v1/appointments/{one}/revocation"
                found = client.call("POST", path, Reason(reason), answer=RevokedAnswer, once=new_once())
        else:
            body = Revocation(ids, reason)
            found = client.call("POST", "/v1/revocations", body, answer=RevokedAnswer, once=new_once())
        answer_revoked(client, found, as_json=as_json)


def delegated(
    file: Annotated[Path, typer.Argument(help="The certificate by which you delegated a right.")],
    caller: EntitledCaller,
    as_json: AsJson = False,
) -> None:
    """Register a right that you delegated."""
    from maia.api.requests import DelegationBody
    from maia.api.responses import EntryAnswer
    from maia.credentials import certificate_to_bytes

    body = DelegationBody(certificate_to_bytes(read_certificates([file])[0]))
    found = caller.change("POST", "/v1/delegations", body, answer=EntryAnswer)
    answer(_entry_lines(found), record_of(found), as_json=as_json)


def hold(
    files: Annotated[list[Path], typer.Argument(help="Certificates: files, or folders of *.cert.")],
    caller: EntitledCaller,
    as_json: AsJson = False,
) -> None:
    """Give the domain certificates that lead from owners to it, so that it can delegate rights."""
    from maia.api.requests import CertificatesBody
    from maia.api.responses import Count
    from maia.credentials import certificate_to_bytes

    body = CertificatesBody([certificate_to_bytes(one) for one in read_certificates(files)])
    found = caller.change("POST", "/v1/held", body, answer=Count)
    answer([f"held         {found.new} new certificates"], {"new": found.new}, as_json=as_json)


def register_type(
    file: Annotated[Path, typer.Argument(help="A *.type file.")],
    caller: EntitledCaller,
    as_json: AsJson = False,
) -> None:
    """Register a version of an event type, so that policies can use it."""
    from maia.api.requests import TypeBody
    from maia.api.responses import TypeAnswer
    from maia.types import definition_to_bytes

    body = TypeBody(definition_to_bytes(read_definition(file)))
    found = caller.change("POST", "/v1/types", body, answer=TypeAnswer)
    lines = [f"registered   {found.name}, version {found.version}, {' '.join(found.attributes)}"]
    answer(lines, record_of(found), as_json=as_json)


def types(caller: EntitledCaller, as_json: AsJson = False) -> None:
    """List the event types that policies can use."""
    from maia.api.responses import TypePage

    found = caller.every("/v1/types", TypePage)
    lines = [f"{one.name}  version {one.version}  of {one.owner}" for one in found] or ["none"]
    answer(lines, {"types": [record_of(one) for one in found]}, as_json=as_json)


def _holder_lines(one: HolderAnswer) -> list[str]:
    attributes = "all attributes" if one.attributes is None else " ".join(one.attributes)
    lines = [f"{one.principal}", f"  until      {one.until or 'unbounded'}", f"  attributes {attributes}"]
    lines += [f"  where      {window}" for window in one.windows]
    lines += [f"  set        {rule}" for rule in one.transformations]
    lines += ["  if         a condition holds at the moment of use"] if one.is_conditional else []
    return lines + [f"  by         {' → '.join(id_[:16] for id_ in chain)}" for chain in one.chains]


def _entry_lines(one: EntryAnswer) -> list[str]:
    from maia.credentials import certificate_from_bytes

    ended = "" if one.revoked_at is None else f", revoked {one.revoked_at} {one.reason}"
    return [
        f"{one.id}",
        f"  {one.kind:<10} {one.rule or '-'} to {one.subject}",
        *(f"  {line}" for line in right_lines(certificate_from_bytes(one.certificate))),
        f"  valid      {one.valid.not_before} to {one.valid.not_after}{ended}",
    ]
