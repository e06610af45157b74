"""`maia domain audit` and `statements`: what was done, what was said, and do the two agree?"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maia.cli.domain.calls import Caller, EntitledCaller, published_line, revoked_lines, revoked_record
from maia.cli.inputs import AsJson, BadFile, command_group, read_principal, read_text
from maia.cli.output import answer

if TYPE_CHECKING:
    from maia.credentials.statements import SignedStatement, Statement
    from maia.domain.access.audit import AuditRecord


audit_app = command_group("Read the audit log of a domain, and check that it was not changed.")


def add_commands(app: typer.Typer) -> None:
    """Add these commands to `maia domain`."""
    app.add_typer(audit_app, name="audit")
    app.command(
        epilog="Example: maia domain statements -o kept --server 127.0.0.1:7600 --domain met.pub -k me.key"
    )(statements)
    app.command(epilog="Example: maia domain receive kept/*.statement -k admin.key --credentials certs")(
        receive
    )


@audit_app.command(
    name="show",
    epilog="Example: maia domain audit show -k audit.key --credentials audit-certs -o met-audit.jsonl",
)
def show(
    caller: EntitledCaller,
    after: Annotated[int, typer.Option(min=0, help="Only records behind this number.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the whole records here, one a line.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List administrative acts, with principal and time."""
    import msgspec

    from maia.api.responses import AuditPage

    found = caller.every("/v1/audit", AuditPage, {"after": after})
    if out is not None:
        out.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in found))
    lines = [
        f"{one.number:>6}  {one.at}  {one.act}  "
        + " ".join(f"{name}={text}" for name, text in one.details)
        + f"  by {one.actor}"
        for one in found
    ]
    answer(lines, {"audit": [msgspec.to_builtins(one) for one in found]}, as_json=as_json)


@audit_app.command(
    epilog="Example: maia domain audit verify met-audit.jsonl --of met.pub --against kept/*.statement"
)
def verify(
    log: Annotated[Path, typer.Argument(help="A file of `maia domain audit show -o`, from the start.")],
    of: Annotated[str, typer.Option("--of", help="Whose audit it is: key or .pub file.")],
    against: Annotated[
        list[Path], typer.Option("--against", help="Statements of that domain that you kept: files, folders.")
    ],
    as_json: AsJson = False,
) -> None:
    """Check that an audit is whole, and leads through every head that its domain has published."""
    from maia.credentials.statements import check_statement
    from maia.domain.access.audit import check_against

    domain, records = read_principal(of), read_records(log)
    heads = []
    for signed in _statements(against):
        check_statement(signed)
        head = getattr(signed.statement, "audit", None)
        if signed.statement.by != domain:
            raise BadFile(f"a statement is by `{signed.statement.by}`, and not by `{domain}`")
        heads += [] if head is None else [head]
    found = check_against(records, heads)
    lines = [
        f"records      {found.length}",
        f"digest       {found.digest.hex()}",
        f"verified     the audit leads through all {len(heads)} heads that were stated",
    ]
    record = {"length": found.length, "digest": found.digest.hex(), "heads": len(heads), "verified": True}
    answer(lines, record, as_json=as_json)


def statements(
    caller: Caller,
    history: Annotated[
        bool, typer.Option("--history", help="All that are kept, and not only what holds now.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A folder to keep them in, as *.statement.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a domain's validity statements; they are public, and prove themselves."""
    from maia.api.responses import StatementPage
    from maia.credentials.statements import check_statement, statement_from_bytes

    found: list[SignedStatement] = []
    with caller.client() as client:
        path, after = "/v1/statements/history" if history else "/v1/statements", None
        while True:
            query = {"after": after} if history else None
            page = client.public(path, answer=StatementPage, query=query)
            found += [statement_from_bytes(one.statement) for one in page.items]
            after = page.next
            if after is None:
                break
    for one in found:
        check_statement(one)
    if out is not None:
        _keep(found, out)
    answer(
        [_statement_line(one) for one in found],
        {"statements": [_statement_record(one) for one in found]},
        as_json=as_json,
    )


def receive(
    files: Annotated[list[Path], typer.Argument(help="*.statement files of other domains.")],
    caller: EntitledCaller,
    as_json: AsJson = False,
) -> None:
    """Send the domain statements of other issuers; what depends on what they revoke ends."""
    from maia.api.requests import StatementBody
    from maia.api.responses import RevokedAnswer
    from maia.credentials.statements import statement_to_bytes

    lines: list[str] = []
    records: list[dict[str, object]] = []
    with caller.client() as client:
        for signed in _statements(files):
            body = StatementBody(statement_to_bytes(signed))
            found = client.call("POST", "/v1/statements", body, answer=RevokedAnswer)
            lines += [*revoked_lines(found), *published_line(client)]
            records.append(revoked_record(found, client))
    answer(lines, {"received": records}, as_json=as_json)


def _keep(found: list[SignedStatement], folder: Path) -> None:
    from maia.credentials.statements import statement_to_bytes

    folder.mkdir(parents=True, exist_ok=True)
    for one in found:
        (folder / f"{one.id.hex()}.statement").write_bytes(statement_to_bytes(one))


def _statements(paths: list[Path]) -> list[SignedStatement]:
    from maia.credentials.statements import statement_from_bytes
    from maia.errors import MaiaError

    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.statement")) if path.is_dir() else [path]
    found: list[SignedStatement] = []
    for file in files:
        try:
            found.append(statement_from_bytes(file.read_bytes()))
        except OSError as problem:
            raise BadFile(f"`{file}` cannot be read: {problem.strerror}") from problem
        except MaiaError as problem:
            raise BadFile(f"`{file}`: {problem.message} [{problem.code}]") from problem
    return found


def read_records(log: Path) -> list[AuditRecord]:
    """Return the records of a file of `maia domain audit show -o`, each of which follows the one before."""
    from maia.domain.access.audit import AUDIT_START, record_from_bytes

    found: list[AuditRecord] = []
    previous = AUDIT_START.digest
    for number, line in enumerate(_lines_of(log), start=1):
        try:
            body = base64.b64decode(json.loads(line)["body"], validate=True)
        except (ValueError, KeyError, TypeError):
            raise BadFile(f"`{log}` line {number} is not an audit record") from None
        record = record_from_bytes(body, previous)
        found.append(record)
        previous = record.digest
    return found


def _lines_of(log: Path) -> list[str]:
    try:
        return [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        return read_text(log).splitlines()  # says that there is no such file
    except UnicodeDecodeError:
        raise BadFile(f"`{log}` is not a text file") from None


def _statement_record(one: SignedStatement) -> dict[str, object]:
    said = one.statement
    period, revoked = getattr(said, "period", None), getattr(said, "revoked", None)
    return {
        "id": one.id.hex(),
        "kind": type(said).__name__,
        "by": str(said.by),
        "sequence": getattr(said, "sequence", None),
        "not_before": None if period is None else str(period.not_before),
        "not_after": None if period is None else str(period.not_after),
        "revoked": None if revoked is None else sorted(identifier.hex() for identifier in revoked),
        "facts": _facts(said),
    }


def _facts(statement: Statement) -> list[dict[str, object]] | None:
    """Return the facts of a list by principal; None for any other statement."""
    from maia.credentials.statements import FactList
    from maia.events import Instant

    if not isinstance(statement, FactList):
        return None
    return [
        {"about": str(whom), "fact": name, "value": str(value) if isinstance(value, Instant) else value}
        for (whom, name), value in sorted(statement.facts.items(), key=lambda one: one[0])
    ]


def _statement_line(one: SignedStatement) -> str:
    record = _statement_record(one)
    period = "at once" if record["not_after"] is None else f"{record['not_before']} to {record['not_after']}"
    return f"{record['kind']} {record['sequence']}  {period}  {_content(one.statement)}"


def _content(statement: Statement) -> str:
    """Return the size of a statement's content."""
    for what in ("revoked", "valid", "facts"):
        listed = getattr(statement, what, None)
        if listed is not None:
            return f"{len(listed)} {what}"
    return ""
