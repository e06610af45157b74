"""`maia domain`: run a domain's server, show its status, and query it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from maia.cli.command import opt
from maia.cli.domain import audit, identity, people, policy, rights
from maia.cli.inputs import command_group
from maia.cli.output import Answer, row, rows
from maia.cli.servers.server_command import CHECK_ONLY, NetworkFlags, checked, prepared_shown, run_server
from maia.cli.trust.key import open_key

if TYPE_CHECKING:
    from maia.domain.server.access_config import AccessConfig
    from maia.domain.server.config import PreparedDomain


app = command_group("Run a domain's server: key groups, access control, register; and ask it things.")
app.add_typer(policy.app, name="policy")
app.add_typer(people.facts, name="fact")
app.add_typer(identity.subjects, name="subject")
app.add_typer(identity.trust, name="trust")
app.add_typer(audit.audit, name="audit")
for _part in (identity, people, rights, audit):
    app.registered_commands += _part.app.registered_commands


@app.command()
def serve(
    *,
    config: Path | None = opt("A TOML file; flags and MAIA_DOMAIN_… win over it.", "--config", "-c"),
    key: str | None = opt("The server's signing key file.", "--key", "-k"),
    of_network: NetworkFlags,
    data: str | None = opt("A folder for epochs and sealed keys."),
    listen: str | None = opt("HOST:PORT; port 0 takes a free one. Default: 127.0.0.1:7500."),
    history: list[str] | None = opt("A *.type file of a type whose old keys are kept. May be repeated."),
    refresh_s: str | None = opt("Seconds between periodic refreshes."),
    drift_s: str | None = opt("Seconds for which old keys still open."),
    check: bool = CHECK_ONLY,
) -> Answer | None:
    """Run a domain's server until Ctrl-C or SIGTERM; one line says when it is ready.

    Without `[api]`, `[policy]` and the like in its configuration it is a key server and nothing else.

    Examples:
        maia domain serve --config domain.toml
        maia domain serve -c domain.toml --check
        maia domain serve --key pito-keys.key --network 'UK Police Network' --coordinator pito.pub
          --credentials certs --listen 127.0.0.1:7500 --data pito-keys-data
    """
    from maia.clock import system_now
    from maia.domain.server.config import prepare_domain, read_domain_config

    own = {"key": key, "data": data, "listen": listen, "history": history}
    flags = {**asdict(of_network), **own, "refresh_s": refresh_s, "drift_s": drift_s}
    reread = partial(read_domain_config, config, flags=flags, environment=os.environ)
    prepared = prepare_domain(reread(), now=system_now(), open_key=open_key)
    if check:
        from maia.domain.server.background import check_policy_file

        check_policy_file(prepared)
        return _checked(prepared)
    from maia.domain.server.process import serve_domain

    run_server(prepared, prepared.config, partial(serve_domain, reread=reread))
    return None


@app.command("status")
def show_status(
    data: Path | None = opt("The key server's data folder."),
    config: Path | None = opt("The server's configuration, which names the folder.", "--config", "-c"),
) -> Answer:
    """Show the types, epochs and members of a key server that runs on this machine.

    Examples:
        maia domain status --data pito-keys-data
        maia domain status -c domain.toml --json
    """
    from maia.domain.server.config import read_domain_config
    from maia.net.status_endpoint import fetch_status, read_door

    if data is None and config is None and "MAIA_DOMAIN_DATA" in os.environ:
        data = Path(os.environ["MAIA_DOMAIN_DATA"])
    if data is None and config is None:
        raise typer.BadParameter("say --data FOLDER or --config FILE")
    folder = data or read_domain_config(config, flags={}, environment=os.environ).data
    found = fetch_status(read_door(folder))
    named = ("principal", "network", "address", "interface", "statements_carried", "members",
             "links_waiting", "types", "versions", "evicted", "revoked")  # fmt: skip
    shown = rows(width=20, **{name: found[name] for name in named if name in found})
    groups = found.get("groups")
    of_types = [_group(one, record) for one, record in groups.items()] if isinstance(groups, dict) else []
    return Answer(shown, *of_types, row(**found))


def _group(type_id: str, record: Mapping[str, object]) -> Answer:
    members = f"{record.get('members_here')} of {record.get('members')} members here"
    since = f"epoch {record.get('epoch')} since {record.get('since')}"
    return row(f"{f'type {type_id[:12]}':<20}", f"{since}, {record.get('groups')} groups, {members}")


def _checked(prepared: PreparedDomain) -> Answer:
    config, kept = prepared.config, len(prepared.history)
    refresh = f"every {config.refresh_s} s; old keys open for {config.drift_s} s"
    api = None if config.access is None else config.access.api_listen
    return Answer(
        prepared_shown(prepared, what="key server"),
        rows(listen=config.listen),
        row("refresh", refresh, refresh_s=config.refresh_s, drift_s=config.drift_s),
        row("history", f"kept for {kept} types", history=kept),
        rows(data=config.data),
        _access(config.access),
        checked("key server", config.data, config.listen, config.status, api),
    )


def _access(access: AccessConfig | None) -> Answer:
    if access is None:
        return Answer()
    database = "SQLite" if access.database_url is None else access.database_url.partition(":")[0]
    brokers = " ".join(access.broker_addresses)
    return Answer(
        row("interface", f"{access.api_listen}, database {database}"),
        row("policy", access.policy_file or "by the interface"),
        row("broker", brokers or "none: statements are fetched, not carried"),
        row("facts", " ".join(one.name for one in access.facts) or "by the interface"),
    )
