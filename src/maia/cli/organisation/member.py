"""`maia member`: people and programs of an organisation, each with a profile of its own."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from maia.cli.inputs import AsJson
from maia.cli.organisation.org import Org, opened
from maia.cli.output import answer

app = typer.Typer(
    help="Add members to an organisation, and list them.", no_args_is_help=True, rich_markup_mode=None
)

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


def names_in(words: list[str] | None) -> list[str]:
    """Return names that were written with commas, or one by one."""
    return [one.strip() for word in words or () for one in word.split(",") if one.strip()]


@app.command(
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
    made = ours.add_member(name, may=may or (), only=names_in(only), where=where, days=days)
    lines = [
        f"member       {name} of {ours.name}",
        f"profile      {made.path} (only you can read it; `--as {name}`)",
        *(f"may          {one}" for one in may or ()),
    ]
    record = {"member": name, "profile": str(made.path), "may": may or []}
    answer(lines, record, as_json=as_json)


@app.command("list", epilog="Examples: maia member list; maia member list --org hospital")
def list_members(org: Org = None, as_json: AsJson = False) -> None:
    """List the members of an organisation, and their profiles."""
    found = opened(org).members()
    record = {"members": [{"member": one.name, "profile": str(one.path)} for one in found]}
    answer([f"{one.name:<12} {one.path}" for one in found] or ["no members"], record, as_json=as_json)
