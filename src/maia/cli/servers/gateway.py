"""`maia gateway`: let clients of other protocols in; MQTT is the first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from maia.cli.inputs import AsJson, BadFile, read_principal
from maia.cli.output import answer
from maia.cli.servers.serving import CheckOnly, LogFormat, LogLevel, run_server
from maia.cli.trust.key import KeyFile, open_key

__all__ = ["app"]

_RUN: Final = "Example: maia gateway mqtt --config gateway.toml"
_ACCOUNT: Final = (
    "Examples: maia gateway account sensor-1 --config gateway.toml   (prints a token, once); "
    "maia gateway account camera --client camera.pub --config gateway.toml   (proved by TLS)"
)
_LEAF: Final = (
    "Example: maia gateway certificate -k camera.key -o camera   (writes camera.crt and camera.pem)"
)

app = typer.Typer(
    help="Let MQTT clients publish and subscribe, each with the rights of its own account.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ConfigFile: TypeAlias = Annotated[
    Path, typer.Option("--config", "-c", help="The gateway's TOML file; see docs/mqtt.md.")
]


@app.command(epilog=_RUN)
def mqtt(
    config: ConfigFile,
    listen: Annotated[str | None, typer.Option(help="Where MQTT clients connect: HOST:PORT.")] = None,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
    check: CheckOnly = False,
    as_json: AsJson = False,
) -> None:
    """Run an MQTT gateway until Ctrl-C or SIGTERM; one line says when it is ready."""
    from maia.clock import system_now
    from maia.gateway.server.config import prepare, read_config
    from maia.gateway.server.process import serve

    flags: dict[str, object] = {"listen": listen, "log_format": log_format, "log_level": log_level}
    prepared = prepare(
        read_config(config, flags=flags, environment=os.environ),
        now=system_now(),
    )
    if check:
        rows = [f"{row.mqtt:<24} {row.event_type.name.name}" for row in prepared.table.rows]
        lines = [*rows, "checked      the gateway can run with this configuration"]
        answer(lines, {"topics": len(rows), "checked": True}, as_json=as_json)
        return
    run_server(prepared, prepared.config, serve, as_json=as_json)


@app.command(epilog=_ACCOUNT)
def account(
    name: Annotated[str, typer.Argument(help="The account's name, and its clients' user name.")],
    config: ConfigFile,
    client: Annotated[
        str | None,
        typer.Option(help="Clients prove this key by TLS in place of a token: a key or .pub file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an account with a key of its own, to which certificates can be issued."""
    from maia.gateway.server.account_folder import AccountFolder
    from maia.gateway.server.config import read_config

    settings = read_config(config, flags={}, environment=os.environ)
    bound = None if client is None else read_principal(client)
    folder, made, token = AccountFolder(settings.data).add(name, bound)
    lines = [
        f"account      {name}",
        f"issue to     {folder / 'key.pub'}",
        f"put certs in {folder}",
        f"token        {token} (shown once; it is the password)" if token else f"proved by    {made.client}",
    ]
    record = {
        "account": name, "folder": str(folder), "principal": made.principal,
        "token": token, "client": made.client,
    }  # fmt: skip
    answer(lines, record, as_json=as_json)


@app.command(epilog=_LEAF)
def certificate(
    key: KeyFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write NAME.crt and NAME.pem.")],
    as_json: AsJson = False,
) -> None:
    """Write a key and its TLS certificate in PEM, for MQTT clients that prove it by TLS."""
    from maia.net.tls import key_and_leaf
    from maia.private_files import create_private

    secret, leaf = key_and_leaf(open_key(key))
    files = (out.with_suffix(".crt"), leaf), (out.with_suffix(".pem"), secret)
    for path, data in files:
        if path.exists():
            raise BadFile(f"`{path}` is already there")
        with create_private(path) as file:
            file.write(data)
    (shown, _), (hidden, _) = files
    lines = [f"certificate  {shown}", f"secret key   {hidden} (only you can read it)"]
    answer(lines, {"certificate": str(shown), "secret_file": str(hidden)}, as_json=as_json)
