"""`maia domain appoint`, `activate` and `fact`: who is appointed to what, who has a role, and what is so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from maia.api import endpoints as api
from maia.api.requests import (
    Activation,
    Appointing,
    FactBody,
    FactRows,
    FactsQuestion,
    HolderQuestion,
    Period,
    Reason,
)
from maia.cli.command import arg, flag, need, opt
from maia.cli.domain.calls import (
    DomainCaller,
    EntitledCaller,
    ReasonText,
    Shows,
    Words,
    arguments_from_words,
    membership_line,
    revoked_shown,
    shown_call,
)
from maia.cli.inputs import BadFile, command_group, read_appointments, read_principal, read_text, write_new
from maia.cli.output import Answer, plain, row, several
from maia.cli.trust.cert import PeriodOptions
from maia.cli.trust.key import FORCE

if TYPE_CHECKING:
    from maia.api.responses import AppointmentAnswer

app = command_group("")
facts = command_group("Say what is so, and what no longer is.")
FactName: TypeAlias = Annotated[str, typer.Argument(help="The fact, as the policy calls it.")]


@app.command()
def appoint(
    *,
    holder: str = arg("Whom: key, .pub file, or x509:CN=…,O=… of a registered subject."),
    name: str = arg("To what, as policies call it."),
    caller: EntitledCaller,
    out: Path = need("The file to write the certificate to.", "--out", "-o"),
    parameters: Words = None,
    period: PeriodOptions,
    force: bool = FORCE,
) -> Answer:
    """Appoint a principal: the domain signs a certificate that policies can require.

    Examples:
        maia domain appoint smith.pub court_order 'case 7' 'AE05 XYZ' --days 30 -k judge.key
          --credentials judge-certs -o order.appointment
    """
    from maia.credentials.appointments import X509_WORD, appointment_from_bytes, appointment_to_text

    valid = period.validity()
    if out.exists() and not force:
        raise BadFile(f"`{out}` is already there; `--force` replaces it")
    start, end = ("unbounded" if one is None else str(one) for one in (valid.not_before, valid.not_after))
    arguments = arguments_from_words(parameters or ())
    whom = holder if holder.startswith(X509_WORD) else str(read_principal(holder))
    body = Appointing(whom, name, Period(start, end), arguments)
    found = caller.ask(api.APPOINT, body)
    write_new(out, appointment_to_text(appointment_from_bytes(found.certificate)), overwrite=force)
    return Answer(
        row("appointment", shown_call(found.name, found.parameters), **_record(found)),
        row("holder", found.holder),
        row("issuer", found.issuer),
        row("valid", f"{found.valid.not_before} to {found.valid.not_after}"),
        row("id", found.id),
        row("written", out, file=out),
    )


@app.command()
def appointments(
    *, caller: EntitledCaller, holder: str | None = opt("Only this one's: key or .pub file.")
) -> Answer:
    """List the appointments in force.

    Examples:
        maia domain appointments --holder smith.pub -k judge.key --credentials judge-certs
    """
    question = HolderQuestion(holder=None if holder is None else str(read_principal(holder)))
    found = caller.every(api.APPOINTMENTS, question)
    texts = (f"{one.id}  {shown_call(one.name, one.parameters)}  {one.holder}" for one in found)
    return several(
        "appointments", (row("", text, **_record(one)) for text, one in zip(texts, found, strict=True))
    )


def _record(found: AppointmentAnswer) -> dict[str, object]:
    return {name: value for name, value in plain(found).items() if name != "certificate"}


@app.command()
def activate(
    *,
    role: str = arg("The role, as the policy calls it."),
    caller: DomainCaller,
    arguments: Words = None,
    any_arguments: bool = flag("For all arguments that some rule allows.", "--any"),
    show: Shows = None,
) -> Answer:
    """Become a member of a role.

    Examples:
        maia domain activate np_tracker 'AE05 XYZ' --show order.appointment -k smith.key
    """
    from maia.credentials.appointments import appointment_to_bytes

    shown = [appointment_to_bytes(one) for one in read_appointments(show or ())]
    wanted = None if any_arguments else arguments_from_words(arguments or ())
    found = [one.membership for one in caller.ask(api.ACTIVATE, Activation(role, wanted, shown)).items]
    return several("memberships", (row("", membership_line(one), **plain(one)) for one in found))


@app.command()
def deactivate(
    *, membership: str = arg("The membership's id."), caller: EntitledCaller, reason: ReasonText = ""
) -> Answer:
    """End a membership: your own, or any if you may change rights.

    Examples:
        maia domain deactivate 5f0c… -k smith.key
    """
    return caller.revoke(api.DEACTIVATE, Reason(reason), id=membership)


@facts.command("assert")
def assert_(name: FactName, caller: EntitledCaller, arguments: Words = None) -> Answer:
    """Assert a fact.

    Examples:
        maia domain fact assert on_duty smith.pub night -k desk.key --credentials certs
        maia domain fact assert on_duty x509:CN=Smith,O=Met night -k desk.key --credentials certs
    """
    fact = arguments_from_words(arguments or ())
    is_news = caller.ask(api.ASSERT_FACT, FactBody(name, fact)).is_news
    return row("", f"{shown_call(name, fact)} {'holds' if is_news else 'held already'}", is_news=is_news)


@facts.command()
def retract(name: FactName, caller: EntitledCaller, arguments: Words = None) -> Answer:
    """Retract a fact; the roles that depend on it end.

    Examples:
        maia domain fact retract on_duty smith.pub night -k desk.key --credentials certs
    """
    fact = arguments_from_words(arguments or ())
    with caller.client() as client:
        found = client.ask(api.RETRACT_FACT, FactBody(name, fact))
        shown = revoked_shown(found, client)
    if not found.is_news:
        shown.lines = [f"{shown_call(name, fact)} did not hold: nothing changed"]
    return Answer(shown, row(is_news=found.is_news))


@facts.command()
def replace(
    *,
    name: FactName,
    file: Path = arg("A JSON file with a list of rows."),
    caller: EntitledCaller,
) -> Answer:
    """Replace a fact by the rows of a file; the roles that depend on a removed row end.

    Examples:
        maia domain fact replace on_duty roster.json -k desk.key --credentials certs (a list of rows,
          such as [[{"principal": "ed25519:…"}, "night"]])
    """
    import msgspec

    try:
        body = msgspec.convert({"rows": json.loads(read_text(file))}, FactRows)
    except (ValueError, RecursionError) as problem:
        raise BadFile(f"`{file}` is not a list of rows in JSON: {str(problem)[:200]}") from None
    return Answer(row("rows", len(body.rows)), caller.revoke(api.REPLACE_FACTS, body, name=name))


@facts.command("list")
def list_(name: FactName, caller: EntitledCaller) -> Answer:
    """List the rows of a fact.

    Examples:
        maia domain fact list case_assignment -k desk.key
    """
    found = caller.every(api.FACTS, FactsQuestion(name=name))
    return row("", [shown_call(name, one) for one in found], name=name, rows=found)
