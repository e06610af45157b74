"""`maia org`, `member`, `grant`, `revoke`, `up` and `profile`: an organisation in few words.

Make one or join the network of another one; give its members and other organisations rights, and take them
back; run its servers; show a participant's profile, and choose the one that commands use.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from maia.cli.domain.calls import HINTS, ReasonText, record_of, revoked_lines
from maia.cli.inputs import AsJson, command_group
from maia.cli.output import answer, named, use_folder
from maia.cli.profile_option import VARIABLE, used_profile, used_profile_file
from maia.cli.trust.key import Force
from maia.errors import MaiaError

if TYPE_CHECKING:
    from maia.organisation import Organisation
    from maia.profile import Profile


EXAMPLES: Final = {
    "grant": "Example: maia grant institute.pub --may subscribe:LabResult --only ward,value "
    '--where \'ward in ("3", "4")\' --delegable --days 90 -o institute.grant',
    "revoke": "Examples: maia revoke institute.grant; maia revoke lab --reason 'left us'",
    "up": "Examples: maia up; maia up --org hospital",
}

org_app = command_group("Make an organisation, and join the network of another one.")
member_app = command_group("Add members to an organisation, and list them.")
profile_app = command_group("Show a participant's profile, and choose the one that commands use.")

Org: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--org",
        envvar="MAIA_ORG",
        help="The organisation's folder; default: the one around here, or the only one below.",
    ),
]
May: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--may", metavar="ACTION:TYPE", help="publish:TYPE or subscribe:TYPE; may be repeated."),
]
Only: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAMES", help="Only these attributes: ward,value. Default: all."),
]
Where: TypeAlias = Annotated[
    str | None, typer.Option("--where", help="Only events that this admits, in the filter language.")
]
Days: TypeAlias = Annotated[int, typer.Option("--days", min=1, max=3650, help="How long the rights hold.")]


def opened(folder: Path | None) -> Organisation:
    """Open the organisation that is meant."""
    from maia.organisation import find_organisation

    ours = find_organisation(folder)
    use_folder(ours.folder)
    return ours


# ------------------------------------------------------------ the organisation


@org_app.command(epilog="Examples: maia org new hospital; maia org new institute --host 10.0.0.7")
def new(
    folder: Annotated[Path, typer.Argument(help="A new folder, whose name is the organisation's.")],
    host: Annotated[
        str, typer.Option(help="Where its servers listen; free ports are chosen once.")
    ] = "127.0.0.1",
    processes: Annotated[
        int, typer.Option(min=1, max=64, help="How many processes its broker is; they share its types.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Make an organisation: a key, a network of its own, and the settings of its servers."""
    from maia.organisation import Organisation

    made = Organisation.create(folder, host=host, processes=processes)
    lines = [
        f"organisation {made.name}, in {made.folder} (only you can read it)",
        f"public half  {made.folder / f'{made.name}.pub'}   (hand it out: others grant rights to it)",
        *(f"{name:<12} {address}" for name, address in made.addresses.items()),
        "next         maia type define, maia member add, maia up",
    ]
    record = {"name": made.name, "principal": str(made.principal), "folder": str(folder), **made.addresses}
    answer(lines, record, as_json=as_json, whole=True)


@org_app.command(epilog="Examples: maia org join institute.grant; maia org join institute.grant --check")
def join(
    file: Annotated[Path, typer.Argument(help="An invitation or a grant, made for this organisation.")],
    leave: Annotated[
        bool, typer.Option("--leave", help="Leave the network that it is in, without a question.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", "--dry-run", help="Try it and say what it would change.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="What you call the other organisation from now on.")
    ] = None,
    org: Org = None,
    as_json: AsJson = False,
) -> None:
    """Use an invitation or a grant, as `maia network join` does."""
    from maia.cli.network import join_and_answer

    join_and_answer(file, leave=leave, check=check, name=name, org=org, as_json=as_json)


@org_app.command("show", epilog="Examples: maia org show; maia org show --org hospital")
def show_org(org: Org = None, as_json: AsJson = False) -> None:
    """Print the organisation's key, network, addresses, types and members."""
    ours = opened(org)
    record: dict[str, object] = {
        "name": ours.name,
        "principal": str(ours.principal),
        "network": ours.network.name,
        "coordinator": str(ours.network.owner),
        **ours.addresses,
        "types": sorted({one.definition.name.name for one in ours.definitions()}),
        "members": [one.name for one in ours.members()],
    }
    answer(_lines(record), record, as_json=as_json, whole=True)


def up(org: Org = None, as_json: AsJson = False) -> None:
    """Run the organisation's broker and domain server until Ctrl-C or SIGTERM, with their logs together."""
    import asyncio

    from maia.organisation.servers import run_servers

    ours = opened(org)
    ours.prepare_servers()
    where = ours.addresses

    def ready() -> None:
        line = f"up           {ours.name}: broker {where['broker']}, server {where['server']}"
        answer([line], {"up": ours.name, **where}, as_json=as_json)

    asyncio.run(run_servers(ours, ready=ready, named=None if as_json else named))


def _lines(record: dict[str, object]) -> list[str]:
    return [f"{name:<12} {' '.join(one) if isinstance(one, list) else one}" for name, one in record.items()]


# ------------------------------------------------------------ rights


@member_app.command(
    epilog="Examples: maia member add lab --may publish:LabResult; "
    "maia member add dashboard --may subscribe:LabResult --only ward,value"
)
def add(
    name: Annotated[str, typer.Argument(help="The member: letters, digits, - and _.")],
    may: May = None,
    only: Only = None,
    where: Where = None,
    days: Days = 90,
    org: Org = None,
    as_json: AsJson = False,
) -> None:
    """Make a member with a key and a profile, or give a member more rights; its broker gets them, too."""
    ours = opened(org)
    made = ours.add_member(name, may=may or (), only=_names(only), where=where, days=days)
    lines = [
        f"member       {name} of {ours.name}",
        f"profile      {made.path} (only you can read it; `--as {name}`)",
        *(f"may          {one}" for one in may or ()),
    ]
    record = {"member": name, "profile": str(made.path), "may": may or []}
    answer(lines, record, as_json=as_json)


@member_app.command("list", epilog="Examples: maia member list; maia member list --org hospital")
def list_members(org: Org = None, as_json: AsJson = False) -> None:
    """List the members of an organisation, and their profiles."""
    found = opened(org).members()
    record = {"members": [{"member": one.name, "profile": str(one.path)} for one in found]}
    answer([f"{one.name:<12} {one.path}" for one in found] or ["no members"], record, as_json=as_json)


def grant(
    subject: Annotated[str, typer.Argument(help="To whom: a .pub file or a key.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to hand to the other organisation.")],
    may: May = None,
    only: Only = None,
    where: Where = None,
    delegable: Annotated[
        bool, typer.Option("--delegable", help="It may pass the rights on, to its members and its broker.")
    ] = False,
    days: Days = 90,
    org: Org = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Grant rights to another organisation: certificates, types and addresses in one file; no secrets."""
    made = opened(org).grant(
        subject, may=may or (), only=_names(only), where=where, delegable=delegable, days=days
    )
    made.save(out, overwrite=force)
    lines = [
        f"granted to   {made.subject}",
        *(f"may          {one}" for one in may or ()),
        f"for          {days} days{', and may pass it on' if delegable else ''}",
        f"written to   {out}   (revoke it with `maia revoke {out}`)",
    ]
    record = {"subject": str(made.subject), "may": may or [], "file": str(out), "days": days}
    answer(lines, record, as_json=as_json)


def revoke(
    what: Annotated[str, typer.Argument(help="A grant, a certificate, or a member's name.")],
    reason: ReasonText = "",
    org: Org = None,
    as_json: AsJson = False,
) -> None:
    """Revoke rights at the organisation's own server, which `maia up` runs; open streams end."""
    try:
        found = opened(org).revoke(what, reason=reason)
    except MaiaError as problem:
        if problem.code == "UNAVAILABLE-DOMAIN":
            problem.add_note("`maia up` runs the organisation's server")
        elif problem.code in HINTS:
            problem.add_note(HINTS[problem.code])
        raise
    answer(revoked_lines(found), record_of(found), as_json=as_json)


def _names(words: list[str] | None) -> list[str]:
    """Return names that were written with commas, or one by one."""
    return [one.strip() for word in words or () for one in word.split(",") if one.strip()]


# ------------------------------------------------------------ profiles


@profile_app.command("show", epilog="Examples: maia profile show lab.maia; maia profile show")
def show_profile(
    profile: Annotated[str | None, typer.Argument(help="A profile; default: the one in use.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what a profile names; the secret key is never shown."""
    from maia.profile import NoSuchProfile, find_profile

    found = used_profile() if profile is None else find_profile(profile)
    if found is None:
        raise NoSuchProfile(f"no profile is in use: name one, set {VARIABLE}, or run `maia profile use`")
    record = _profile_record(found)
    answer(_lines(record), record, as_json=as_json)


@profile_app.command(epilog="Examples: maia profile use lab.maia; maia profile use --none")
def use(
    profile: Annotated[str | None, typer.Argument(help="The profile that commands use from now on.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Use no profile any more.")] = False,
    as_json: AsJson = False,
) -> None:
    """Choose the profile that commands of this user take what is not given from."""
    from maia.private_files import create_private, make_private_folder
    from maia.profile import find_profile

    if (profile is None) == (not none):
        raise typer.BadParameter("name a profile, or say --none")
    file = used_profile_file()
    if profile is None:
        file.unlink(missing_ok=True)
        answer(["no profile is in use"], {"profile": None}, as_json=as_json)
        return
    path = find_profile(profile).path.resolve()
    make_private_folder(file.parent)
    with create_private(file) as written:
        written.write(f"{path}\n".encode())
    answer([f"in use       {path}"], {"profile": str(path)}, as_json=as_json)


def _profile_record(profile: Profile) -> dict[str, object]:
    import msgspec

    from maia.config.input_files import read_definitions
    from maia.keystore.key_files import public_half

    settings = profile.settings
    record: dict[str, object] = {"profile": str(profile.path)}
    if settings.key is not None:
        record["principal"] = str(public_half(settings.key))
    for one in msgspec.structs.fields(settings):
        value = getattr(settings, one.name)
        if value not in (None, ()):
            record[one.name] = [str(each) for each in value] if isinstance(value, tuple) else str(value)
    names = {one.definition.name.name for one in read_definitions(settings.types)}
    return record | {"knows": sorted(names)}
