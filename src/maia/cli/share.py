"""`maia share`: let others read tables of a log by Delta Sharing, each under the right of a member."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from maia.cli.command import arg, need, opt, options
from maia.cli.inputs import BadFile, command_group
from maia.cli.output import Answer, row
from maia.cli.servers.server_command import (
    CHECK_ONLY,
    LOG_FORMAT,
    LOG_LEVEL,
    checked,
    file_of,
    organisation_of,
    run_server,
)
from maia.clock import system_now
from maia.config.settings import Defaults
from maia.private_files import create_private

if TYPE_CHECKING:
    from maia.organisation import Organisation
    from maia.share.config import ShareConfig


app = command_group("Share tables of a log with others, who read them by Delta Sharing and without Maia.")


@options
class ShareFile:
    """The settings of a sharing server: the operator's file, and what it need not say of an organisation."""

    config: Path | None = opt("The server's TOML file; see docs/sharing.md.", "--config", "-c")
    org: Path | None = opt(
        "An organisation's folder: its log, unless the file says another.", envvar="MAIA_ORG"
    )

    def read(self, flags: Mapping[str, object]) -> ShareConfig:
        """Read the file, the environment and flags."""
        from maia.share.config import read_config

        ours = self.organisation()
        config = file_of(self.config, ours, "share.toml")
        defaults = None if ours is None else Defaults(f"`{ours.folder}`", _defaults(ours))
        return read_config(config, flags=flags, environment=os.environ, defaults=defaults)

    def organisation(self) -> Organisation | None:
        """Return the organisation that is meant: with neither option, the one whose folder this is."""
        return organisation_of(self.config, self.org, what="the log")


def _defaults(ours: Organisation) -> dict[str, object]:
    """Return the settings that an organisation's folder answers."""
    folder = ours.folder.absolute()
    return {"log": ours.profile.settings.log or str(folder / "log"), "data": str(folder / "share-data"),
            "share": ours.name}  # fmt: skip


@app.command()
def serve(
    file: ShareFile,
    listen: str | None = opt("Where recipients connect: HOST:PORT; default 127.0.0.1:8890."),
    log_format: str | None = LOG_FORMAT,
    log_level: str | None = LOG_LEVEL,
    check: bool = CHECK_ONLY,
) -> Answer | None:
    """Serve recipients until Ctrl-C or SIGTERM; one line says when it is ready.

    Examples:
        maia share serve --org hospital
        maia share serve --config share.toml --listen 127.0.0.1:8890
    """
    from maia.share.process import serve as run

    config = file.read({"listen": listen, "log_format": log_format, "log_level": log_level})
    if check:
        return checked("sharing server", config.data, config.listen, config.status)
    run_server(config, config, run)
    return None


@app.command()
def add(
    *,
    name: str = arg("What the recipient is called here."),
    profile: str = need("The member under whose right it reads: a profile.", "--as", metavar="PROFILE"),
    file: ShareFile,
    days: int = opt("For how many days.", default=30),
    out: Path | None = opt("Where to write its profile file; default: NAME.share.", "--out", "-o"),
    listen: str | None = opt("Where the server listens, if its file does not say."),
) -> Answer:
    """Make a recipient, and write the profile file that its programs read: it holds a password.

    Examples:
        maia share add institute --as office --org hospital
        maia share add institute --as office --days 90 --out institute.share --config share.toml
    """
    from maia.profile import find_profile
    from maia.share.recipients import RecipientFolder, profile_text

    config = file.read({"listen": listen})
    if config.endpoint is None and config.listen.endswith(":0"):
        raise config.wrong("listen", "takes any port: say with `endpoint` how recipients call the server")
    member = find_profile(profile)
    target = out or Path(f"{name}.share")
    if target.exists():
        raise BadFile(f"`{target}` is already there")
    made, token = RecipientFolder(config.data).add(
        name, member.path, member.principal(), days=days, now=system_now()
    )
    endpoint = config.endpoint_at(config.listen)
    with create_private(target) as written:
        written.write(profile_text(made, token, endpoint).encode())
    return Answer(
        row("recipient", name, recipient=name),
        row("reads as", f"{member.name}, {made.principal}", profile=member.path, principal=made.principal),
        row("until", str(made.expires), until=str(made.expires)),
        row("calls", endpoint, endpoint=endpoint),
        row("profile file", f"{target} (it holds the password: send it as one)", file=target),
    )


@app.command("list")
def list_(file: ShareFile) -> Answer:
    """List recipients: under whose right each reads, and until when.

    Examples:
        maia share list --org hospital
    """
    from maia.share.recipients import RecipientFolder

    now = system_now()
    found = RecipientFolder(file.read({}).data).all()
    lines = [
        f"{one.name:<20} as {Path(one.profile).stem:<20} {'expired' if now >= one.expires_at else 'until'} "
        f"{one.expires}"
        for one in found
    ]
    return row(
        "",
        lines or "no recipients",
        recipients=[
            {
                "name": one.name,
                "id": one.id,
                "profile": one.profile,
                "principal": one.principal,
                "until": str(one.expires),
            }
            for one in found
        ],
    )


@app.command()
def remove(name: str = arg("The recipient."), *, file: ShareFile) -> Answer:
    """End a recipient at once: its password, and every address of a file that it was given.

    Examples:
        maia share remove institute --org hospital
    """
    from maia.share.recipients import RecipientFolder

    gone = RecipientFolder(file.read({}).data).remove(name)
    return row("removed", gone.name, removed=gone.name)
