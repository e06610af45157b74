"""`maia console serve` runs the console; `maia console open` prints a link that signs you in, once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from maia.cli.command import opt
from maia.cli.inputs import command_group
from maia.cli.organisation import ORG, opened
from maia.cli.output import Answer, row
from maia.cli.servers.server_command import run_server
from maia.errors import BadInput

if TYPE_CHECKING:
    from maia.console.config import ConsoleConfig


app = command_group("A web page of brokers, rights, streams and disclosures, each as its reader may see it.")
AS = opt("The profile; default: the organisation's own key.", "--as", metavar="PROFILE")


@app.command()
def serve(
    config: Path | None = opt("The console's TOML file; see docs/console.md.", "--config", "-c"),
    profile: str | None = AS,
    org: Path | None = ORG,
    listen: str | None = opt("Where browsers connect: HOST:PORT; default 127.0.0.1:7700."),
) -> None:
    """Run the console for an organisation, for one profile, or as a file says, until Ctrl-C or SIGTERM.

    Examples:
        maia console serve
        maia console serve --as auditor
        maia console serve -c console.toml
    """
    from maia.console.server import serve as run

    found = _config(config, profile, org, listen)
    run_server(found, found, run)


@app.command("open")
def open_(profile: str | None = AS, org: Path | None = ORG) -> Answer:
    """Print a link that works once, in one browser, within two minutes, and signs you in with your rights.

    Examples:
        maia console open
        maia console open --as auditor
    """
    from maia.console.config import held_by
    from maia.console.server import link_for
    from maia.profile import find_profile

    link = link_for(held_by(opened(org).profile if profile is None else find_profile(profile)))
    return row("", link, link=link)


def _config(config: Path | None, profile: str | None, org: Path | None, listen: str | None) -> ConsoleConfig:
    from maia.console.config import config_of_file, config_of_organisation, config_of_profile
    from maia.profile import find_profile

    if config is not None:
        if profile is not None or org is not None:
            raise BadInput(
                "INPUT-CONSOLE", "`--config` says whose profiles are held: leave `--as` and `--org` out"
            )
        return config_of_file(config, listen=listen)
    if profile is not None:
        return config_of_profile(find_profile(profile), listen=listen)
    return config_of_organisation(opened(org), listen=listen)
