"""`maia broker`: run a broker of a network, or check whether one could run."""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from maia.cli.command import arg, opt
from maia.cli.domain.calls import ReasonText
from maia.cli.organisation import DRY_RUN, ORG, opened, revoked
from maia.cli.output import Answer, row
from maia.cli.servers.server_command import CHECK_ONLY, NetworkFlags, checked, prepared_shown, run_server
from maia.cli.trust.key import open_key
from maia.clock import system_now

if TYPE_CHECKING:
    from maia.broker.server.config import PreparedBroker


app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def broker(
    ctx: typer.Context,
    *,
    config: Path | None = opt("A TOML file; flags and MAIA_BROKER_… win over it.", "--config", "-c"),
    key: str | None = opt("The broker's signing key file.", "--key", "-k"),
    of_network: NetworkFlags,
    listen: str | None = opt("HOST:PORT; port 0 takes a free one. Default: 127.0.0.1:7400."),
    address: str | None = opt("What others dial, if not where it listens."),
    join: list[str] | None = opt("A broker to join the network through. May be repeated."),
    neighbour: list[str] | None = opt(
        "A neighbour in a mesh. May be repeated; needs --key and no other option."
    ),
    processes: str | None = opt(
        "So many processes behind one address; they need --data, and as many ports more."
    ),
    data: str | None = opt("A folder for what survives a restart."),
    types: str | None = opt("A folder of *.type files to answer queries from."),
    lease_s: str | None = opt("Seconds that a subscription lasts without renewal."),
    log_folder: str | None = opt("Record events in this folder; needs --data, too."),
    log_types: list[str] | None = opt("A type to record: name, id, or '*' for all. May be repeated."),
    log_durable: str | None = opt("true: publishers are answered when events are on disk; or false."),
    check: bool = CHECK_ONLY,
) -> Answer | None:
    """Run a broker until Ctrl-C or SIGTERM; one line says when it is ready.

    Examples:
        maia broker --config broker.toml
        maia broker --config broker.toml --check
        maia broker --key met.key --network 'UK Police Network' --coordinator pito.pub --credentials
          certs --listen 127.0.0.1:7403 --join 127.0.0.1:7401 --data met-data
        maia broker --key north.key --neighbour 127.0.0.1:7401
        maia broker --config broker.toml --processes 4
    """
    if ctx.invoked_subcommand is not None:
        return None
    from maia.broker.server.config import prepare, read_config

    flags: dict[str, object] = {
        **asdict(of_network),
        "key": key, "listen": listen, "address": address, "join": join, "neighbours": neighbour,
        "processes": processes, "data": data, "types": types, "lease_s": lease_s,
        "log.folder": log_folder, "log.types": log_types, "log.durable": log_durable,
    }  # fmt: skip
    reread = partial(read_config, config, flags=flags, environment=os.environ)
    settings = reread()
    prepared = prepare(settings, now=system_now(), open_key=open_key)
    if check:
        return _checked(prepared)
    if settings.processes == 1:
        from maia.broker.server.process import serve

        run_server(prepared, settings, partial(serve, reread=reread, receive=_received))
        return None
    from maia.broker.server.processes import serve_processes

    several = partial(serve_processes, reread=reread, file=config, flags=flags)
    run_server(prepared, settings, several)
    return None


@app.command()
def add(
    name: str = arg("The broker: letters, digits, - and _."),
    listen: str | None = opt("HOST:PORT where it listens. Default: a free port of the first one's host."),
    org: Path | None = ORG,
) -> Answer:
    """Make one more broker of an organisation: its key, the organisation's word that it is one, its settings.

    It joins through the organisation's first broker, and serves the same members. Where it runs on another
    machine, its settings, key, certificates and types go there.

    Examples:
        maia broker add north
        maia broker add north --listen 10.0.0.8:7400 --org hospital
    """
    made = opened(org).add_broker(name, listen=listen)
    return Answer(
        row("broker", f"{name}, {made.principal}", broker=name, principal=made.principal),
        row("listen", made.listen, listen=made.listen),
        row("settings", made.settings, settings=made.settings),
        row("next", f"maia broker --config {made.settings}"),
    )


@app.command()
def remove(
    name: str = arg("The broker: one that was added, or `broker`, the first one."),
    reason: ReasonText = "",
    dry_run: bool = DRY_RUN,
    org: Path | None = ORG,
) -> Answer:
    """Make a broker of an organisation none any more; other brokers part from it at once.

    Its certificates are revoked at the organisation's server, which `maia up` runs, and its key is given
    nothing again: for one that is not needed any more, or whose key is lost or stolen. The first broker gets
    another key.

    Examples:
        maia broker remove north --reason 'replaced'
        maia broker remove broker --reason 'key stolen' --dry-run
    """
    ours = opened(org)
    key = ours.key_of_broker(name)
    act = None if dry_run else lambda: ours.remove_broker(name, reason=reason)
    last = "start `maia up` again: the broker goes on with another key"
    if name != "broker":
        last = f"stop it; its log and data stay, and all else of it is in {ours.folder}/revoked"
    return Answer(revoked(ours.losses(str(key)), act), row("next", None if dry_run else last))


def _checked(prepared: PreparedBroker) -> Answer:
    config, types = prepared.config, len(prepared.definitions)
    processes = "" if config.processes == 1 else f", {config.processes} processes"
    way = row("neighbours", " ".join(config.neighbours) or "none: others dial this router")
    if config.routing != "mesh":
        way = row("join", " ".join(config.join) or "none: the first broker of its network")
    statements, log = "none: statement links are not accepted", "none: nothing is recorded"
    if prepared.identity is not None:
        until = prepared.identity().own.statement.not_after
        statements = f"links accepted at {config.identity_listen}; the broker's own holds until {until}"
    if config.log_folder is not None:
        answered = "when they are on disk" if config.log_durable else "at once"
        log = f"{config.log_folder}: {' '.join(config.log_types)}; publishers are answered {answered}"
    return Answer(
        prepared_shown(prepared, what="broker"),
        row("types", f"{types} definitions", types=types),
        row("listen", f"{config.listen}{processes}", listen=config.listen),
        row("statements", statements, statement_links=config.identity_listen),
        way,
        row(join=config.join, routing=config.routing, neighbours=config.neighbours),
        row("data", config.data or "none: nothing survives a restart", data=config.data),
        row("log", log, log=config.log_folder),
        checked("broker", config.data, config.listen, config.identity_listen, config.status),
    )


async def _received(prepared: PreparedBroker, address: str, folder: Path) -> None:
    """Receive the certificates that are pushed to a broker which runs at an address."""
    from maia.client.api.pushed_certificates import receive_into
    from maia.config.constitutions import constitutions_of

    await receive_into(
        folder, address, key=prepared.key, network=prepared.network, credentials=prepared.credentials,
        constitutions=constitutions_of(prepared.quorums),
    )  # fmt: skip
