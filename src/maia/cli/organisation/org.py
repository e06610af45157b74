"""`maia org`: make an organisation, join another one's network, show what there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from maia.cli.inputs import AsJson
from maia.cli.output import answer, use_folder

if TYPE_CHECKING:
    from maia.organisation import Organisation


app = typer.Typer(
    help="Make an organisation, and join the network of another one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Org: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--org",
        envvar="MAIA_ORG",
        help="The organisation's folder; default: the one around here, or the only one below.",
    ),
]


def opened(folder: Path | None) -> Organisation:
    """Open the organisation that is meant."""
    from maia.organisation import find_organisation

    ours = find_organisation(folder)
    use_folder(ours.folder)
    return ours


@app.command(epilog="Examples: maia org new hospital; maia org new institute --host 10.0.0.7")
def new(
    folder: Annotated[Path, typer.Argument(help="A new folder, whose name is the organisation's.")],
    host: Annotated[
        str, typer.Option(help="Where its servers listen; free ports are chosen once.")
    ] = "127.0.0.1",
    processes: Annotated[
        int,
        typer.Option(min=1, max=64, help="How many processes its broker is; they share its types."),
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


@app.command(epilog="Example: maia org join institute.grant")
def join(
    grant: Annotated[Path, typer.Argument(help="A file of `maia grant`, made for this organisation.")],
    org: Org = None,
    as_json: AsJson = False,
) -> None:
    """Join the network of the organisation that made the grant, and keep its certificates and types."""
    ours = opened(org)
    found = ours.join(grant)
    names = sorted({one.definition.name.name for one in found.definitions})
    lines = [
        f"joined       {found.network} of {found.coordinator}",
        f"granted by   {found.domain}",
        f"types        {' '.join(names)}",
        "check        compare that key with the one the other organisation tells you; then",
        f"             `maia key remember {found.domain} --name NAME` gives it a name of yours",
    ]
    record = {
        "network": found.network,
        "coordinator": str(found.coordinator),
        "granted_by": str(found.domain),
        "types": names,
    }
    answer(lines, record, as_json=as_json, whole=True)


@app.command(epilog="Examples: maia org show; maia org show --org hospital")
def show(org: Org = None, as_json: AsJson = False) -> None:
    """Print the organisation's key, network, addresses, types and members."""
    ours = opened(org)
    types = sorted({one.definition.name.name for one in ours.definitions()})
    members = [one.name for one in ours.members()]
    record: dict[str, object] = {
        "name": ours.name,
        "principal": str(ours.principal),
        "network": ours.network.name,
        "coordinator": str(ours.network.owner),
        **ours.addresses,
        "types": types,
        "members": members,
    }
    lines = [f"{name:<12} {' '.join(one) if isinstance(one, list) else one}" for name, one in record.items()]
    answer(lines, record, as_json=as_json, whole=True)
