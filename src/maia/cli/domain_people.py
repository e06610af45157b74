"""`maia domain appoint` and `activate`: who is appointed to what, and who is in a role."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maia.cli.cert import validity_from_options
from maia.cli.domain_answers import answer_revoked, bound_word, membership_line, record_of
from maia.cli.domain_calls import (
    CallerKey,
    DomainKey,
    ReasonText,
    Server,
    Shown,
    Shows,
    Words,
    arguments_from_words,
    calling,
    every_item,
    shown_call,
)
from maia.cli.inputs import AsJson, BadFile, read_appointments, read_principal, write_new
from maia.cli.key import Force
from maia.cli.output import answer

if TYPE_CHECKING:
    from maia.api.responses import AppointmentAnswer

__all__ = ["add_commands"]


def add_commands(app: typer.Typer) -> None:
    """Add these commands to `maia domain`."""
    app.command(
        epilog="Example: maia domain appoint smith.pub court_order 'case 7' 'AE05 XYZ' --days 30 "
        "-k judge.key --credentials judge-certs -o order.appointment"
    )(appoint)
    app.command(
        epilog="Example: maia domain appointments --holder smith.pub -k judge.key --credentials judge-certs"
    )(appointments)
    app.command(
        epilog="Example: maia domain activate np_tracker 'AE05 XYZ' --show order.appointment -k smith.key"
    )(activate)
    app.command(epilog="Example: maia domain deactivate 5f0c… -k smith.key")(deactivate)


def appoint(
    holder: Annotated[str, typer.Argument(help="Whom: key or .pub file.")],
    name: Annotated[str, typer.Argument(help="To what, as policies call it.")],
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write the certificate to.")],
    parameters: Words = None,
    credentials: Shown = None,
    days: Annotated[int | None, typer.Option(min=1, help="Valid from now for so many days.")] = None,
    not_before: Annotated[str | None, typer.Option(help="A moment, or 'unbounded'.")] = None,
    not_after: Annotated[str | None, typer.Option(help="A moment, or 'unbounded'.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Appoint a principal: the domain signs a certificate that policies can require."""
    from maia.api.client import new_once
    from maia.api.requests import Appointing, Period
    from maia.api.responses import AppointmentAnswer
    from maia.credentials.appointments import appointment_from_bytes, appointment_to_text

    valid = validity_from_options(days=days, not_before=not_before, not_after=not_after)
    if out.exists() and not force:
        raise BadFile(f"`{out}` is already there; `--force` replaces it")
    body = Appointing(
        str(read_principal(holder)),
        name,
        Period(bound_word(valid.not_before), bound_word(valid.not_after)),
        arguments_from_words(parameters or ()),
    )
    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        found = client.call("POST", "/v1/appointments", body, answer=AppointmentAnswer, once=new_once())
    write_new(out, appointment_to_text(appointment_from_bytes(found.certificate)), overwrite=force)
    lines = [*_appointment_lines(found), f"written      {out}"]
    answer(lines, _appointment_record(found) | {"file": str(out)}, as_json=as_json)


def appointments(
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    credentials: Shown = None,
    holder: Annotated[str | None, typer.Option(help="Only this one's: key or .pub file.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the appointments in force."""
    from maia.api.responses import AppointmentPage

    query = {} if holder is None else {"holder": str(read_principal(holder))}
    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        found = every_item(client, "/v1/appointments", AppointmentPage, query)
    lines = [f"{one.id}  {shown_call(one.name, one.parameters)}  {one.holder}" for one in found]
    answer(lines, {"appointments": [_appointment_record(one) for one in found]}, as_json=as_json)


def activate(
    role: Annotated[str, typer.Argument(help="The role, as the policy calls it.")],
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    arguments: Words = None,
    any_arguments: Annotated[
        bool, typer.Option("--any", help="For all arguments that some rule allows.")
    ] = False,
    show: Shows = None,
    as_json: AsJson = False,
) -> None:
    """Become a member of a role."""
    from maia.api.client import new_once
    from maia.api.requests import Activation
    from maia.api.responses import MembershipPage
    from maia.credentials.appointments import appointment_to_bytes

    shown = [appointment_to_bytes(one) for one in read_appointments(show or ())]
    wanted = None if any_arguments else arguments_from_words(arguments or ())
    with calling(server=server, domain=domain, key=key, credentials=None) as client:
        found = client.call(
            "POST", "/v1/memberships", Activation(role, wanted, shown), answer=MembershipPage, once=new_once()
        )
    members = [one.membership for one in found.items]
    answer(
        [membership_line(one) for one in members],
        {"memberships": [record_of(one) for one in members]},
        as_json=as_json,
    )


def deactivate(
    membership: Annotated[str, typer.Argument(help="The membership's id.")],
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    credentials: Shown = None,
    reason: ReasonText = "",
    as_json: AsJson = False,
) -> None:
    """End a membership: your own, or any if you may change rights."""
    from maia.api.client import new_once
    from maia.api.requests import Reason
    from maia.api.responses import RevokedAnswer

    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        path = f"/v1/memberships/{membership}/end"
        found = client.call("POST", path, Reason(reason), answer=RevokedAnswer, once=new_once())
        answer_revoked(client, found, as_json=as_json)


def _appointment_lines(found: AppointmentAnswer) -> list[str]:
    return [
        f"appointment  {shown_call(found.name, found.parameters)}",
        f"holder       {found.holder}",
        f"issuer       {found.issuer}",
        f"valid        {found.valid.not_before} to {found.valid.not_after}",
        f"id           {found.id}",
    ]


def _appointment_record(found: AppointmentAnswer) -> dict[str, object]:
    return {name: value for name, value in record_of(found).items() if name != "certificate"}
