"""`maia domain fact`: what is so, as policies ask for it, and what no longer is?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from maia.cli.domain_answers import answer_revoked, published_line, revoked_lines, revoked_record
from maia.cli.domain_calls import (
    CallerKey,
    DomainKey,
    Server,
    Shown,
    Words,
    arguments_from_words,
    calling,
    every_item,
    shown_call,
)
from maia.cli.inputs import AsJson, BadFile, read_text
from maia.cli.output import answer

__all__ = ["app"]

FactName: TypeAlias = Annotated[str, typer.Argument(help="The fact, as the policy calls it.")]

app = typer.Typer(help="Say what is so, and what no longer is.", no_args_is_help=True, rich_markup_mode=None)


@app.command(
    name="assert",
    epilog="Example: maia domain fact assert on_duty smith.pub night -k desk.key --credentials certs",
)
def assert_(
    name: FactName,
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    arguments: Words = None,
    credentials: Shown = None,
    as_json: AsJson = False,
) -> None:
    """Assert a fact."""
    from maia.api.client import new_once
    from maia.api.requests import FactBody
    from maia.api.responses import News

    row = arguments_from_words(arguments or ())
    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        found = client.call("POST", "/v1/facts", FactBody(name, row), answer=News, once=new_once())
    said = "holds" if found.is_news else "held already"
    answer([f"{shown_call(name, row)} {said}"], {"is_news": found.is_news}, as_json=as_json)


@app.command(
    epilog="Example: maia domain fact retract on_duty smith.pub night -k desk.key --credentials certs"
)
def retract(
    name: FactName,
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    arguments: Words = None,
    credentials: Shown = None,
    as_json: AsJson = False,
) -> None:
    """Retract a fact; the roles that depend on it end."""
    from maia.api.client import new_once
    from maia.api.requests import FactBody
    from maia.api.responses import RevokedAnswer

    row = arguments_from_words(arguments or ())
    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        body = FactBody(name, row)
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
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    credentials: Shown = None,
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
    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        found = client.call("PUT", f"/v1/facts/{name}", body, answer=RevokedAnswer, once=new_once())
        answer_revoked(client, found, as_json=as_json, first=[f"rows         {len(body.rows)}"])


@app.command(name="list", epilog="Example: maia domain fact list case_assignment -k desk.key")
def list_(
    name: FactName,
    server: Server,
    domain: DomainKey,
    key: CallerKey,
    credentials: Shown = None,
    as_json: AsJson = False,
) -> None:
    """List the rows of a fact."""
    import msgspec

    from maia.api.responses import FactPage

    with calling(server=server, domain=domain, key=key, credentials=credentials) as client:
        rows = every_item(client, "/v1/facts", FactPage, {"name": name})
    record = {"name": name, "rows": msgspec.to_builtins(rows)}
    answer([shown_call(name, row) for row in rows], record, as_json=as_json)
