"""`maia domain audit` and `statements`: what was done, what was said, and do the two agree?"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

from maia.api import endpoints as api
from maia.api.requests import AuditQuestion, StatementBody
from maia.cli.command import arg, flag, need, opt
from maia.cli.domain.calls import DomainCaller, EntitledCaller
from maia.cli.inputs import BadFile, command_group, read_principal, read_text
from maia.cli.output import Answer, plain, row, several

if TYPE_CHECKING:
    from maia.credentials.statements import SignedStatement
    from maia.domain.access.audit import AuditRecord


app = command_group("")
audit = command_group("Read the audit log of a domain, and check that it was not changed.")


@audit.command()
def show(
    *,
    caller: EntitledCaller,
    after: int = opt("Only records behind this number.", default=0, min=0),
    out: Path | None = opt("Write the whole records here, one a line.", "--out", "-o"),
) -> Answer:
    """List administrative acts, with principal and time.

    Examples:
        maia domain audit show -k audit.key --credentials audit-certs -o met-audit.jsonl
    """
    import msgspec

    found = caller.every(api.AUDIT, AuditQuestion(after))
    if out is not None:
        out.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in found))
    texts = [" ".join(f"{name}={text}" for name, text in one.details) for one in found]
    return several(
        "audit",
        (
            row("", f"{one.number:>6}  {one.at}  {one.act}  {details}  by {one.actor}", **plain(one))
            for one, details in zip(found, texts, strict=True)
        ),
    )


@audit.command()
def verify(
    log: Path = arg("A file of `maia domain audit show -o`, from the start."),
    of: str = need("Whose audit it is: key or .pub file."),
    against: list[Path] = need("Statements of that domain that you kept: files, folders."),
) -> Answer:
    """Check that an audit is whole, and leads through every head that its domain has published.

    Examples:
        maia domain audit verify met-audit.jsonl --of met.pub --against kept/*.statement
    """
    from maia.credentials.statements import check_statement
    from maia.domain.access.audit import check_against

    domain, records, heads = read_principal(of), read_records(log), []
    for signed in _statements(against):
        check_statement(signed)
        head = getattr(signed.statement, "audit", None)
        if signed.statement.by != domain:
            raise BadFile(f"a statement is by `{signed.statement.by}`, and not by `{domain}`")
        heads += [] if head is None else [head]
    found = check_against(records, heads)
    return Answer(
        row("records", found.length, length=found.length),
        row("digest", found.digest.hex(), digest=found.digest, heads=len(heads)),
        row("verified", f"the audit leads through all {len(heads)} heads that were stated", verified=True),
    )


@app.command()
def statements(
    *,
    caller: DomainCaller,
    history: bool = flag("All that are kept, and not only what holds now."),
    out: Path | None = opt("A folder to keep them in, as *.statement.", "--out", "-o"),
) -> Answer:
    """Fetch a domain's validity statements; they are public, and prove themselves.

    Examples:
        maia domain statements -o kept --server 127.0.0.1:7600 --domain met.pub -k me.key
    """
    from maia.credentials.statements import check_statement, statement_from_bytes, statement_to_bytes

    told = caller.every(api.STATEMENT_HISTORY) if history else caller.ask(api.STATEMENTS).items
    found = [statement_from_bytes(one.statement) for one in told]
    for one in found:
        check_statement(one)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for one in found:
            (out / f"{one.id.hex()}.statement").write_bytes(statement_to_bytes(one))
    return several("statements", map(_statement, found))


@app.command()
def receive(
    *, files: list[Path] = arg("*.statement files of other domains."), caller: EntitledCaller
) -> Answer:
    """Send the domain statements of other issuers; what depends on what they revoke ends.

    Examples:
        maia domain receive kept/*.statement -k admin.key --credentials certs
    """
    from maia.credentials.statements import statement_to_bytes

    bodies = [StatementBody(statement_to_bytes(signed)) for signed in _statements(files)]
    return several("received", [caller.revoke(api.RECEIVE_STATEMENT, one) for one in bodies])


def _statements(paths: list[Path]) -> list[SignedStatement]:
    from maia.config.input_files import files_in
    from maia.credentials.statements import statement_from_bytes
    from maia.errors import MaiaError

    found: list[SignedStatement] = []
    for file in files_in(paths, ".statement"):
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
        found.append(record_from_bytes(body, previous))
        previous = found[-1].digest
    return found


def _lines_of(log: Path) -> list[str]:
    try:
        return [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        return read_text(log).splitlines()  # says that there is no such file
    except UnicodeDecodeError:
        raise BadFile(f"`{log}` is not a text file") from None


def _statement(one: SignedStatement) -> Answer:
    said = one.statement
    period, sequence = getattr(said, "period", None), getattr(said, "sequence", None)
    kind, listed = (
        type(said).__name__,
        {name: getattr(said, name, None) for name in ("revoked", "valid", "facts")},
    )
    when = "at once" if period is None else f"{period.not_before} to {period.not_after}"
    size = next((f"{len(some)} {name}" for name, some in listed.items() if some is not None), "")
    facts = (
        None
        if listed["facts"] is None
        else [
            {"about": whom, "fact": name, "value": value}
            for (whom, name), value in sorted(listed["facts"].items(), key=lambda fact: fact[0])
        ]
    )
    revoked = None if listed["revoked"] is None else sorted(id_.hex() for id_ in listed["revoked"])
    return row(
        "",
        f"{kind} {sequence}  {when}  {size}",
        id=one.id,
        kind=kind,
        by=said.by,
        sequence=sequence,
        not_before=None if period is None else str(period.not_before),
        not_after=None if period is None else str(period.not_after),
        revoked=revoked,
        facts=facts,
    )
