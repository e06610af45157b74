"""How does a command run a server until it is stopped? One line says when it is ready.

A flag that was not given is `None`, so that the configuration file and the
environment have their say.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from maia.cli.command import flag, opt, options
from maia.cli.organisation import opened
from maia.cli.output import Answer, row, show
from maia.errors import BadInput

if TYPE_CHECKING:
    from maia.credentials import NetworkName, SignedCertificate, SigningKey
    from maia.events import Instant
    from maia.net.telemetry import Telemetry
    from maia.organisation import Organisation


LOG_FORMAT = opt("auto, json or text.")
LOG_LEVEL = opt("debug, info, warning or error.")
CHECK_ONLY = flag("Check the configuration and everything it names, then stop.", "--check")


@options
class NetworkFlags:
    """The options of a server that is part of a network: each is a setting of its own name."""

    network: str | None = opt("The network's name.")
    coordinator: str | None = opt("The network's owner: key, .pub file or quorum:….")
    credentials: list[str] | None = opt("Files, or folders of *.cert and *.quorum. May be repeated.")
    status: str | None = opt("Where /health and the like answer, on loopback; or 'off'.")
    log_format: str | None = LOG_FORMAT
    log_level: str | None = LOG_LEVEL


def organisation_of(config: Path | None, org: Path | None, *, what: str) -> Organisation | None:
    """Return the organisation that is meant: with neither option, the one whose folder this is."""
    if config is not None and org is None:
        return None
    try:
        return opened(org)
    except BadInput as problem:
        if org is None:
            problem.add_note(f"say --config FILE, or --org FOLDER for {what} of an organisation")
        raise


def file_of(config: Path | None, ours: Organisation | None, name: str) -> Path | None:
    """Return the file that is named, or the one in an organisation's folder, if there is one."""
    if ours is not None and config is None and (ours.folder / name).is_file():
        return ours.folder / name
    return config


class _Listening(Protocol):
    """The address, key and status endpoint of a server."""

    @property
    def address(self) -> str: ...
    @property
    def principal(self) -> str: ...
    @property
    def status(self) -> str | None: ...


class _Logged(Protocol):
    """A configuration with log settings."""

    @property
    def log_format(self) -> str: ...
    @property
    def log_level(self) -> str: ...


class _OfNetwork(Protocol):
    """A server that was made ready to be part of a network."""

    @property
    def key(self) -> SigningKey: ...
    @property
    def network(self) -> NetworkName: ...
    @property
    def credentials(self) -> tuple[SignedCertificate, ...]: ...
    @property
    def may_connect_until(self) -> Instant | None: ...


_Prepared = TypeVar("_Prepared")
_Serve = Callable[[_Prepared, "Telemetry", Callable[[_Listening], None]], Coroutine[None, None, None]]


def run_server(prepared: _Prepared, config: _Logged, serve: _Serve[_Prepared]) -> None:
    """Run a server until Ctrl-C or SIGTERM."""
    from maia.net.event_loop import run
    from maia.net.process import STOP_WITH_INPUT, die_with_parent
    from maia.net.telemetry import Telemetry

    if STOP_WITH_INPUT in os.environ:
        die_with_parent()
    telemetry = Telemetry(sys.stderr, log_format=config.log_format, level=config.log_level)

    def ready(listening: _Listening) -> None:
        # Only a domain's server, a gateway and a broker have these, and not every one.
        api, http, links = (getattr(listening, name, None) for name in ("api", "http", "statement_address"))
        own = listening.principal
        fields = {"listening": listening.address, "principal": own, "status": listening.status}
        more = {"api": api, "http": http, "statement_links": links}
        show(
            Answer(
                row("", f"listening on {listening.address} as {own}", **fields),
                row("", None if api is None else f"answering at https://{api}"),
                row("", None if links is None else f"statement links at {own}@{links}"),
                row("", None if http is None else f"HTTP clients at {http}"),
                row(**{name: one for name, one in more.items() if one is not None}),
            )
        )

    run(serve(prepared, telemetry, ready))


def checked(what: str, data: Path | None, *addresses: str | None) -> Answer:
    """Return what was found by `--check`; refuse addresses that another program has."""
    from maia.net.process import is_free

    text = f"the {what} can run with this configuration"
    if not is_free(data, *addresses):
        runs = f"a process runs with `{data}`, so a start would fail"
        text = f"{runs}; if it is this {what}, the configuration counts from its next start"
    return row("checked", text, checked=True)


def prepared_shown(prepared: _OfNetwork, *, what: str) -> Answer:
    """Return the key, network and right of a server."""
    by, network, until = prepared.key.principal, prepared.network, prepared.may_connect_until
    end, certificates = "unbounded" if until is None else str(until), len(prepared.credentials)
    return Answer(
        row(what, by, principal=by),
        row("network", f"{network.name} of {network.owner}", network=network.name, coordinator=network.owner),
        row("may connect", f"until {end}", until=end),
        row("credentials", f"{certificates} certificates", credentials=certificates),
    )
