"""`maia domain policy`: check a policy, put it in force, show the one that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from maia.cli.domain.calls import EntitledCaller, published_line
from maia.cli.inputs import (
    AsJson,
    BadFile,
    command_group,
    moment,
    read_certificates,
    read_principal,
    read_text,
)
from maia.cli.output import answer
from maia.cli.pipeline.source import CredentialsOf, KeyOf, LogOptions, RecordOf, TypeOf

if TYPE_CHECKING:
    from maia.api.responses import PolicyAnswer
    from maia.credentials import Principal
    from maia.profile.type_names import NamedTypes
    from maia.roles import Policy, RoleDeclaration


app = command_group("Check policies, put them in force, show the one that is.")

PolicyPath: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="The policy.")]
Parents: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--parent", metavar="NAME=FILE", help="A role set that it imports. May be repeated."),
]


@app.command(
    epilog="Examples: maia domain policy check met.policy --types types --parent home=home.policy; "
    "maia domain policy check new.policy --types types --domain met.pub --against events "
    "--register register.json --in-force met.policy -d plate.type -k met.key --credentials met"
)
def check(
    file: PolicyPath,
    parent: Parents = None,
    types: Annotated[
        list[Path] | None,
        typer.Option("--types", help="Files, or folders of *.type and *.quorum. May be repeated."),
    ] = None,
    domain: Annotated[
        str | None, typer.Option("--domain", help="Whom `here` means: key or .pub file.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Compare with what was seen of an event log: who would have seen more, or less?"),
    ] = None,
    register: Annotated[
        Path | None,
        typer.Option(help="With --against: the rights in force, from `maia domain register --json`."),
    ] = None,
    in_force: Annotated[
        Path | None, typer.Option(help="With --against: the policy in force, for what members would get.")
    ] = None,
    pool: Annotated[
        list[Path] | None,
        typer.Option(
            help="With --against: certificates by which the domain has its rights. May be repeated."
        ),
    ] = None,
    definition: TypeOf = None,
    key: KeyOf = None,
    credentials: CredentialsOf = None,
    examples: Annotated[int, typer.Option(min=0, max=100, help="With --against: of each principal.")] = 3,
    record: RecordOf = None,
    as_json: AsJson = False,
) -> None:
    """Check a policy on this machine: every error, with its line and its rule."""
    from maia.keystore.key_files import new_signing_key
    from maia.roles import Policy, parse_policy

    # Without a domain, `here` is a key without an owner: everything can be checked but that key.
    here = new_signing_key().principal if domain is None else read_principal(domain)
    known, read = _types(types or [], own=here), dict[str, Policy]()
    for name, path in _parents(parent).items():
        read[name] = parse_policy(read_text(path), origin=name, domain=here, parents=dict(read), types=known)
    found = parse_policy(read_text(file), origin=str(file), domain=here, parents=read, types=known)
    if against is not None:
        if register is None or domain is None:
            raise BadFile("with --against, give --register and --domain")
        current = None
        if in_force is not None:
            text = read_text(in_force)
            current = parse_policy(text, origin=str(in_force), domain=here, parents=read, types=known)
        asked = LogOptions(
            log=against, definition=definition, key=key, credentials=credentials, record=record
        )
        _replay(asked, found, current, register, pool or [], examples, as_json=as_json)
        return
    roles = [shown_role(one) for one in found.roles.values()]
    lines = [f"policy       {found.title}", *(f"role         {one}" for one in roles)]
    lines.append("checked      the policy can be put in force")
    answer(lines, {"title": found.title, "roles": roles, "checked": True}, as_json=as_json)


def _replay(
    asked: LogOptions,
    new: Policy,
    in_force: Policy | None,
    register: Path,
    pool: list[Path],
    examples: int,
    *,
    as_json: bool,
) -> None:
    """Say who would have seen more, or less, of an event log."""
    from maia.cli.output import show as show_answer
    from maia.cli.pipeline.closure import outcomes
    from maia.spark.closure.policy_change import under_policy
    from maia.spark.closure.sources import read_register

    now = moment(None)
    found = under_policy(
        new, read_register(register), in_force=in_force, besides=read_certificates(pool), now=now
    )
    lines = [
        f"fall         {found.fallen} certificates",
        f"come         {found.issued} certificates, as their members log in",
        *(f"note         {note}" for note in found.notes),
        "",
    ]
    record = {"fall": found.fallen, "come": found.issued, "notes": list(found.notes)}
    answer(lines, record, as_json=as_json)
    for one in outcomes(asked, found.pools, since=None, until=None, examples=examples):
        show_answer(one)


@app.command(epilog="Example: maia domain policy load met.policy -k admin.key --credentials admin-certs")
def load(file: PolicyPath, caller: EntitledCaller, parent: Parents = None, as_json: AsJson = False) -> None:
    """Put a policy in force; one with errors changes nothing. What it no longer grants ends."""
    from maia.api.client import new_once
    from maia.api.requests import PolicyBody
    from maia.api.responses import PolicyAnswer
    from maia.profile.type_names import owners_named

    text, parents = read_text(file), {name: read_text(path) for name, path in _parents(parent).items()}
    body = PolicyBody(text, parents, owners_named("\n".join([text, *parents.values()])))
    with caller.client() as client:
        found = client.call("PUT", "/v1/policy", body, answer=PolicyAnswer, once=new_once())
        lines = [*_lines(found), *_fallen(found), *published_line(client)]
        answer(lines, _record(found) | {"published": client.last.is_published}, as_json=as_json)


@app.command(epilog="Example: maia domain policy reload -k admin.key --credentials admin-certs")
def reload(caller: EntitledCaller, as_json: AsJson = False) -> None:
    """Have the server read its policy's file again."""
    from maia.api.responses import PolicyAnswer

    found = caller.ask("POST", "/v1/policy/reload", answer=PolicyAnswer)
    answer([*_lines(found), *_fallen(found)], _record(found), as_json=as_json)


@app.command(epilog="Example: maia domain policy show -k admin.key --credentials admin-certs")
def show(caller: EntitledCaller, as_json: AsJson = False) -> None:
    """Show the policy in force."""
    from maia.api.responses import PolicyAnswer

    found = caller.ask("GET", "/v1/policy", answer=PolicyAnswer)
    answer([*_lines(found), "", *found.text.splitlines()], _record(found), as_json=as_json)


def shown_role(role: RoleDeclaration) -> str:
    """Return a role with its parameters, as a policy declares it."""
    return f"{role.name}({', '.join(f'{one.name}: {one.kind.value}' for one in role.parameters)})"


def _types(paths: list[Path], *, own: Principal) -> NamedTypes:
    """Verify definitions from files, and return their types by the words of a policy of `own`."""
    from maia.config.constitutions import read_constitutions
    from maia.config.input_files import QUORUM_SUFFIX, read_definitions
    from maia.config.type_folder import verified_lineage
    from maia.profile.type_names import NamedTypes

    signed, now = read_definitions(one for one in paths if one.suffix != QUORUM_SUFFIX), moment(None)
    quorums = read_constitutions(paths)
    owned = {(one.definition.name.owner, one.definition.name.name) for one in signed}
    newest = [
        verified_lineage(signed, owner=owner, name=name, version=None, at=now, constitutions=quorums)[-1]
        for owner, name in owned
    ]
    return NamedTypes(newest, own=own, folders=[one.parent for one in paths])


def _parents(words: list[str] | None) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for word in words or ():
        name, equals, file = word.partition("=")
        if not equals or not name or not file or name in found:
            raise BadFile(f"`{word[:80]}` is not NAME=FILE, each name once")
        found[name] = Path(file)
    return found


def _lines(found: PolicyAnswer) -> list[str]:
    unchanged = ", in force already" if found.is_unchanged else ""
    return [
        f"policy       version {found.version}, {found.digest}{unchanged}",
        f"loaded       {found.loaded_at} by {found.loaded_by}",
    ]


def _fallen(found: PolicyAnswer) -> list[str]:
    revoked = found.revoked
    if not revoked.ids and not revoked.memberships:
        return []
    return [f"fell         {len(revoked.memberships)} memberships, {len(revoked.ids)} certificates"]


def _record(found: PolicyAnswer) -> dict[str, object]:
    return {
        "version": found.version,
        "digest": found.digest,
        "loaded_by": found.loaded_by,
        "loaded_at": found.loaded_at,
        "text": found.text,
        "revoked": list(found.revoked.ids),
        "is_unchanged": found.is_unchanged,
    }
