"""`maia domain appoint` and `activate`: who is appointed to what, and who is in a role."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from maia.cli.domain.calls import (
    Caller,
    EntitledCaller,
    ReasonText,
    Shows,
    Words,
    answer_revoked,
    arguments_from_words,
    bound_word,
    membership_line,
    published_line,
    record_of,
    revoked_lines,
    revoked_record,
    shown_call,
)
from maia.cli.inputs import (
    AsJson,
    BadFile,
    command_group,
    read_appointments,
    read_principal,
    read_text,
    write_new,
)
from maia.cli.output import answer
from maia.cli.trust.cert import PeriodOptions
from maia.cli.trust.key import Force

if TYPE_CHECKING:
    from maia.api.responses import AppointmentAnswer


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
    caller: EntitledCaller,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write the certificate to.")],
    parameters: Words = None,
    *,
    period: PeriodOptions,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Appoint a principal: the domain signs a certificate that policies can require."""
    from maia.api.requests import Appointing, Period
    from maia.api.responses import AppointmentAnswer
    from maia.credentials.appointments import appointment_from_bytes, appointment_to_text

    valid = period.validity()
    if out.exists() and not force:
        raise BadFile(f"`{out}` is already there; `--force` replaces it")
    body = Appointing(
        str(read_principal(holder)),
        name,
        Period(bound_word(valid.not_before), bound_word(valid.not_after)),
        arguments_from_words(parameters or ()),
    )
    found = caller.change("POST", "/v1/appointments", body, answer=AppointmentAnswer)
    write_new(out, appointment_to_text(appointment_from_bytes(found.certificate)), overwrite=force)
    lines = [*_appointment_lines(found), f"written      {out}"]
    answer(lines, _appointment_record(found) | {"file": str(out)}, as_json=as_json)


def appointments(
    caller: EntitledCaller,
    holder: Annotated[str | None, typer.Option(help="Only this one's: key or .pub file.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the appointments in force."""
    from maia.api.responses import AppointmentPage

    query = {} if holder is None else {"holder": str(read_principal(holder))}
    found = caller.every("/v1/appointments", AppointmentPage, query)
    lines = [f"{one.id}  {shown_call(one.name, one.parameters)}  {one.holder}" for one in found]
    answer(lines, {"appointments": [_appointment_record(one) for one in found]}, as_json=as_json)


def activate(
    role: Annotated[str, typer.Argument(help="The role, as the policy calls it.")],
    caller: Caller,
    arguments: Words = None,
    any_arguments: Annotated[
        bool, typer.Option("--any", help="For all arguments that some rule allows.")
    ] = False,
    show: Shows = None,
    as_json: AsJson = False,
) -> None:
    """Become a member of a role."""
    from maia.api.requests import Activation
    from maia.api.responses import MembershipPage
    from maia.credentials.appointments import appointment_to_bytes

    shown = [appointment_to_bytes(one) for one in read_appointments(show or ())]
    wanted = None if any_arguments else arguments_from_words(arguments or ())
    found = caller.change("POST", "/v1/memberships", Activation(role, wanted, shown), answer=MembershipPage)
    members = [one.membership for one in found.items]
    answer(
        [membership_line(one) for one in members],
        {"memberships": [record_of(one) for one in members]},
        as_json=as_json,
    )


def deactivate(
    membership: Annotated[str, typer.Argument(help="The membership's id.")],
    caller: EntitledCaller,
    reason: ReasonText = "",
    as_json: AsJson = False,
) -> None:
    """End a membership: your own, or any if you may change rights."""
    from maia.api.client import new_once
    from maia.api.requests import Reason
    from maia.api.responses import RevokedAnswer

    with caller.client() as client:
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


# `maia domain fact`: what is so, as policies ask for it, and what no longer is?


FactName: TypeAlias = Annotated[str, typer.Argument(help="The fact, as the policy calls it.")]

app = command_group("Say what is so, and what no longer is.")


@app.command(
    name="assert",
    epilog="Example: maia domain fact assert on_duty smith.pub night -k desk.key --credentials certs",
)
def assert_(name: FactName, caller: EntitledCaller, arguments: Words = None, as_json: AsJson = False) -> None:
    """Assert a fact."""
    from maia.api.requests import FactBody
    from maia.api.responses import News

    row = arguments_from_words(arguments or ())
    found = caller.change("POST", "/v1/facts", FactBody(name, row), answer=News)
    said = "holds" if found.is_news else "held already"
    answer([f"{shown_call(name, row)} {said}"], {"is_news": found.is_news}, as_json=as_json)


@app.command(
    epilog="Example: maia domain fact retract on_duty smith.pub night -k desk.key --credentials certs"
)
def retract(name: FactName, caller: EntitledCaller, arguments: Words = None, as_json: AsJson = False) -> None:
    """Retract a fact; the roles that depend on it end."""
    from maia.api.client import new_once
    from maia.api.requests import FactBody
    from maia.api.responses import RevokedAnswer

    row = arguments_from_words(arguments or ())
    body = FactBody(name, row)
    with caller.client() as client:
        found = client.call("POST", "/v1/facts/retraction", body, answer=RevokedAnswer, once=new_once())
        record = {**revoked_record(found, client), "is_news": found.is_news}
        said = [f"{shown_call(name, row)} did not hold: nothing changed"]
        if found.is_news:
            said = [*revoked_lines(found), *published_line(client)]
        answer(said, record, as_json=as_json)


@app.command(
    epilog="Example: maia domain fact replace on_duty roster.json -k desk.key --credentials certs "
    '(a list of rows, such as [[{"principal": "ed25519:…"}, "night"]])'
)
def replace(
    name: FactName,
    file: Annotated[Path, typer.Argument(help="A JSON file with a list of rows.")],
    caller: EntitledCaller,
    as_json: AsJson = False,
) -> None:
    """Replace a fact by the rows of a file; the roles that depend on a removed row end."""
    import msgspec

    from maia.api.client import new_once
    from maia.api.requests import FactRows
    from maia.api.responses import RevokedAnswer

    try:
        body = msgspec.convert({"rows": json.loads(read_text(file))}, FactRows)
    except (ValueError, RecursionError) as problem:
        raise BadFile(f"`{file}` is not a list of rows in JSON: {str(problem)[:200]}") from None
    with caller.client() as client:
        found = client.call("PUT", f"/v1/facts/{name}", body, answer=RevokedAnswer, once=new_once())
        answer_revoked(client, found, as_json=as_json, first=[f"rows         {len(body.rows)}"])


@app.command(name="list", epilog="Example: maia domain fact list case_assignment -k desk.key")
def list_(name: FactName, caller: EntitledCaller, as_json: AsJson = False) -> None:
    """List the rows of a fact."""
    import msgspec

    from maia.api.responses import FactPage

    rows = caller.every("/v1/facts", FactPage, {"name": name})
    record = {"name": name, "rows": msgspec.to_builtins(rows)}
    answer([shown_call(name, row) for row in rows], record, as_json=as_json)
