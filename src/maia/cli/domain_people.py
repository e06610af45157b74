"""`maia domain appoint`, `fact`, `activate`: who is appointed to what, what is so, who is in a role."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from maia.cli.cert import validity_from_options
from maia.cli.domain_calls import (
    CallerKey,
    DomainKey,
    Server,
    Shown,
    arguments_from_words,
    calling,
    every_page,
    published_line,
    shown_call,
)
from maia.cli.inputs import AsJson, BadFile, read_appointments, read_principal, read_text, write_new
from maia.cli.key import Force
from maia.cli.output import answer

if TYPE_CHECKING:
    from maia.events import Instant
    from maia.runtime.domain_api.answers import AppointmentAnswer, MembershipAnswer, RevokedAnswer

__all__ = ["add_commands", "revoked_lines", "revoked_record"]

Words: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ARGUMENT]...",
        help='Text; 42; 1.5; true; time:2026-11-15T08:30:00Z; ed25519:… or a .pub file; "42" is text.',
    ),
]
ReasonText: TypeAlias = Annotated[str, typer.Option("--reason", help="Why, for the audit.")]
Shows: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--show", help="Appointment certificates: files, or folders of *.appointment."),
]

fact_app = typer.Typer(
    help="Say what is so, and what no longer is.", no_args_is_help=True, rich_markup_mode=None
)


def add_commands(app: typer.Typer) -> None:
    """Add these commands to `maia domain`."""
    app.add_typer(fact_app, name="fact")
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
    """Appoint somebody to something: the domain signs a certificate that policies can ask for."""
    from maia.credentials.appointments import appointment_from_bytes, appointment_to_text
    from maia.runtime.domain_api.answers import AppointmentAnswer
    from maia.runtime.domain_api.bodies import Appointing, Period
    from maia.runtime.domain_client import new_once

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
    """List the appointments that stand."""
    from maia.runtime.domain_api.answers import AppointmentPage

    query = {} if holder is None else {"holder": str(read_principal(holder))}
    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        pages = every_page(client, "/v1/appointments", AppointmentPage, query)
        found = [one for page in pages for one in page.items]
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
    from maia.credentials.appointments import appointment_to_bytes
    from maia.runtime.domain_api.answers import MembershipPage
    from maia.runtime.domain_api.bodies import Activation
    from maia.runtime.domain_client import new_once

    shown = [appointment_to_bytes(one) for one in read_appointments(show or ())]
    wanted = None if any_arguments else arguments_from_words(arguments or ())
    with calling(server=server, domain=domain, key=key, credentials=None) as client:
        found = client.call(
            "POST", "/v1/memberships", Activation(role, wanted, shown), answer=MembershipPage, once=new_once()
        )
    members = [one.membership for one in found.items]
    answer(
        [_membership_line(one) for one in members],
        {"memberships": [_membership_record(one) for one in members]},
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
    """End a membership: your own, or anybody's if you may change rights."""
    from maia.runtime.domain_api.answers import RevokedAnswer
    from maia.runtime.domain_api.bodies import Reason
    from maia.runtime.domain_client import new_once

    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        path = f"/v1/memberships/{membership}/end"
        found = client.call("POST", path, Reason(reason), answer=RevokedAnswer, once=new_once())
        lines = [*revoked_lines(found), *published_line(client)]
        answer(lines, revoked_record(found, client.last.is_published), as_json=as_json)


# ------------------------------------------------------------ facts


@fact_app.command(
    name="assert",
    epilog="Example: maia domain fact assert on_duty smith.pub night -k desk.key --credentials certs",
)
def assert_(
    name: Annotated[str, typer.Argument(help="The fact, as the policy calls it.")],
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    arguments: Words = None,
    credentials: Shown = None,
    as_json: AsJson = False,
) -> None:
    """Say that a fact holds."""
    from maia.runtime.domain_api.answers import News
    from maia.runtime.domain_api.bodies import FactBody
    from maia.runtime.domain_client import new_once

    row = arguments_from_words(arguments or ())
    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        found = client.call("POST", "/v1/facts", FactBody(name, row), answer=News, once=new_once())
    said = "holds" if found.is_news else "held already"
    answer([f"{shown_call(name, row)} {said}"], {"is_news": found.is_news}, as_json=as_json)


@fact_app.command(
    epilog="Example: maia domain fact retract on_duty smith.pub night -k desk.key --credentials certs"
)
def retract(
    name: Annotated[str, typer.Argument(help="The fact, as the policy calls it.")],
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    arguments: Words = None,
    credentials: Shown = None,
    as_json: AsJson = False,
) -> None:
    """Say that a fact holds no more; whatever watched it falls."""
    from maia.runtime.domain_api.answers import RevokedAnswer
    from maia.runtime.domain_api.bodies import FactBody
    from maia.runtime.domain_client import new_once

    body = FactBody(name, arguments_from_words(arguments or ()))
    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        found = client.call("POST", "/v1/facts/retraction", body, answer=RevokedAnswer, once=new_once())
        lines = [*revoked_lines(found), *published_line(client)]
        answer(lines, revoked_record(found, client.last.is_published), as_json=as_json)


@fact_app.command(
    epilog="Example: maia domain fact replace on_duty roster.json -k desk.key --credentials certs "
    '(a list of rows, such as [[{"principal": "ed25519:…"}, "night"]])'
)
def replace(
    name: Annotated[str, typer.Argument(help="The fact, as the policy calls it.")],
    file: Annotated[Path, typer.Argument(help="A JSON file with a list of rows.")],
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    credentials: Shown = None,
    as_json: AsJson = False,
) -> None:
    """Make exactly the rows of a file hold; whatever watched one that is gone falls."""
    import msgspec

    from maia.runtime.domain_api.answers import RevokedAnswer
    from maia.runtime.domain_api.bodies import FactRows
    from maia.runtime.domain_client import new_once

    try:
        body = msgspec.convert({"rows": json.loads(read_text(file))}, FactRows)
    except (ValueError, RecursionError) as problem:
        raise BadFile(f"`{file}` is not a list of rows in JSON: {str(problem)[:200]}") from None
    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        found = client.call("PUT", f"/v1/facts/{name}", body, answer=RevokedAnswer, once=new_once())
        lines = [f"rows         {len(body.rows)}", *revoked_lines(found), *published_line(client)]
        answer(lines, revoked_record(found, client.last.is_published), as_json=as_json)


@fact_app.command(name="list", epilog="Example: maia domain fact list case_assignment -k desk.key")
def list_(
    name: Annotated[str, typer.Argument(help="The fact, as the policy calls it.")],
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    credentials: Shown = None,
    as_json: AsJson = False,
) -> None:
    """List the rows of a fact."""
    import msgspec

    from maia.runtime.domain_api.answers import FactPage

    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        pages = every_page(client, "/v1/facts", FactPage, {"name": name})
        rows = [row for page in pages for row in page.items]
    record = {"name": name, "rows": msgspec.to_builtins(rows)}
    answer([shown_call(name, row) for row in rows], record, as_json=as_json)


# ------------------------------------------------------------ how answers are shown


def bound_word(bound: Instant | None) -> str:
    """Return one end of a period as it is stated."""
    return "unbounded" if bound is None else str(bound)


def revoked_lines(found: RevokedAnswer) -> list[str]:
    """Return what was taken away, one line each."""
    lines = [f"fell         {_membership_line(one)}" for one in found.memberships]
    lines += [f"revoked      {one}" for one in found.ids]
    if found.is_silent:
        lines.append("warning      the list is full: every right goes stale when the present list ends")
    return lines or ["nothing      rested on it"]


def revoked_record(found: RevokedAnswer, is_published: bool | None) -> dict[str, object]:
    """Return what was taken away as named fields."""
    return {
        "revoked": list(found.ids),
        "memberships": [_membership_record(one) for one in found.memberships],
        "published": is_published,
        "is_silent": found.is_silent,
    }


def _membership_line(one: MembershipAnswer) -> str:
    until = one.until or "unbounded"
    return f"{shown_call(one.role, one.arguments)} of {one.principal} until {until}  {one.id}"


def _membership_record(one: MembershipAnswer) -> dict[str, object]:
    import msgspec

    found = msgspec.to_builtins(one)
    assert isinstance(found, dict)  # noqa: S101 - a struct
    return found


def _appointment_lines(found: AppointmentAnswer) -> list[str]:
    return [
        f"appointment  {shown_call(found.name, found.parameters)}",
        f"holder       {found.holder}",
        f"issuer       {found.issuer}",
        f"valid        {found.valid.not_before} to {found.valid.not_after}",
        f"id           {found.id}",
    ]


def _appointment_record(found: AppointmentAnswer) -> dict[str, object]:
    import msgspec

    record = msgspec.to_builtins(found)
    assert isinstance(record, dict)  # noqa: S101 - a struct
    return {name: value for name, value in record.items() if name != "certificate"}
