"""`maia domain policy`: check a policy, put it in force, show the one that is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from maia.api import endpoints as api
from maia.api.requests import PolicyBody
from maia.cli.command import opt
from maia.cli.domain.calls import EntitledCaller, published
from maia.cli.inputs import BadFile, command_group, moment, read_certificates, read_principal, read_text
from maia.cli.output import Answer, plain, row
from maia.cli.pipeline.source import CREDENTIALS_OF, KEY_OF, RECORD_OF, TYPE_OF, LogOptions

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


@app.command()
def check(
    *,
    file: PolicyPath,
    parent: Parents = None,
    types: list[Path] | None = opt("Files, or folders of *.type and *.quorum. May be repeated."),
    domain: str | None = opt("Whom `here` means: key or .pub file."),
    against: str | None = opt(
        "Compare with what was seen of an event log: who would have seen more, or less?", metavar="PLACE"
    ),
    register: Path | None = opt("With --against: the rights in force, from `maia domain register --json`."),
    in_force: Path | None = opt("With --against: the policy in force, for what members would get."),
    pool: list[Path] | None = opt(
        "Certificates by which the domain has its rights: does the policy grant no more? May be repeated."
    ),
    definition: list[Path] | None = TYPE_OF,
    key: Path | None = KEY_OF,
    credentials: list[Path] | None = CREDENTIALS_OF,
    examples: int = opt("With --against: of each principal.", default=3, min=0, max=100),
    record: str | None = RECORD_OF,
) -> Iterator[Answer]:
    """Check a policy on this machine: every error, with its line and its rule.

    Examples:
        maia domain policy check met.policy --types types --parent home=home.policy
        maia domain policy check met.policy --types types --domain met.pub --pool met/certs
        maia domain policy check new.policy --types types --domain met.pub --against events --register
          register.json --in-force met.policy -d plate.type -k met.key --credentials met
    """
    from maia.keystore.key_files import new_signing_key
    from maia.roles import Policy, parse_policy

    # Without a domain, `here` is a key without an owner: everything can be checked but that key.
    here = new_signing_key().principal if domain is None else read_principal(domain)
    known, read = _types(types or [], own=here), dict[str, Policy]()
    for name, path in _parents(parent).items():
        read[name] = parse_policy(read_text(path), origin=name, domain=here, parents=dict(read), types=known)
    found = parse_policy(read_text(file), origin=str(file), domain=here, parents=read, types=known)
    if pool:
        from maia.domain.access.passed_on import check_passed_on

        if domain is None:
            raise BadFile("with --pool, give --domain: whose rights they are")
        check_passed_on(found, known.values(), read_certificates(pool), moment(None))
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
        yield from _replayed(asked, found, current, register, pool or [], examples)
        return
    roles = [shown_role(one) for one in found.roles.values()]
    yield Answer(
        row("policy", found.title, title=found.title),
        row("role", roles, roles=roles),
        row("checked", "the policy can be put in force", checked=True),
    )


def _replayed(
    asked: LogOptions, new: Policy, in_force: Policy | None, register: Path, pool: list[Path], examples: int
) -> Iterator[Answer]:
    """Say who would have seen more, or less, of an event log."""
    from maia.cli.pipeline.closure import outcomes
    from maia.spark.closure.policy_change import under_policy
    from maia.spark.closure.sources import read_register

    known, besides = read_register(register), read_certificates(pool)
    found = under_policy(new, known, in_force=in_force, besides=besides, now=moment(None))
    yield Answer(
        row("fall", f"{found.fallen} certificates", fall=found.fallen),
        row("come", f"{found.issued} certificates, as their members log in", come=found.issued),
        row("note", list(found.notes), notes=list(found.notes)),
        row("", ""),
    )
    yield from outcomes(asked, found.pools, since=None, until=None, examples=examples)


@app.command()
def load(file: PolicyPath, caller: EntitledCaller, parent: Parents = None) -> Answer:
    """Put a policy in force; one with errors changes nothing. What it no longer grants ends.

    Examples:
        maia domain policy load met.policy -k admin.key --credentials admin-certs
    """
    from maia.profile.type_names import owners_named

    text, parents = read_text(file), {name: read_text(path) for name, path in _parents(parent).items()}
    body = PolicyBody(text, parents, owners_named("\n".join([text, *parents.values()])))
    with caller.client() as client:
        found = client.ask(api.LOAD_POLICY, body)
        return Answer(_in_force(found), _fallen(found), published(client))


@app.command()
def reload(caller: EntitledCaller) -> Answer:
    """Have the server read its policy's file again.

    Examples:
        maia domain policy reload -k admin.key --credentials admin-certs
    """
    found = caller.ask(api.RELOAD_POLICY)
    return Answer(_in_force(found), _fallen(found))


@app.command()
def show(caller: EntitledCaller) -> Answer:
    """Show the policy in force.

    Examples:
        maia domain policy show -k admin.key --credentials admin-certs
    """
    found = caller.ask(api.POLICY)
    return Answer(_in_force(found), row("", ["", *found.text.splitlines()]))


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


def _in_force(found: PolicyAnswer) -> Answer:
    unchanged = ", in force already" if found.is_unchanged else ""
    record = {**plain(found), "revoked": found.revoked.ids}
    return Answer(
        row("policy", f"version {found.version}, {found.digest}{unchanged}", **record),
        row("loaded", f"{found.loaded_at} by {found.loaded_by}"),
    )


def _fallen(found: PolicyAnswer) -> Answer:
    ended, ids = len(found.revoked.memberships), len(found.revoked.ids)
    return row("fell", f"{ended} memberships, {ids} certificates" if ended or ids else None)
