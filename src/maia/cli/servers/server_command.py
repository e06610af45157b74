"""How does a command run a server until it is stopped? One line says when it is ready.

A flag that was not given is `None`, so that the configuration file and the
environment have their say.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias, TypeVar

import typer

from maia.cli.command import opt, options
from maia.cli.output import answer

if TYPE_CHECKING:
    from maia.credentials import NetworkName, SignedCertificate, SigningKey
    from maia.events import Instant
    from maia.net.telemetry import Telemetry


LogFormat: TypeAlias = Annotated[str | None, typer.Option(help="auto, json or text.")]
LogLevel: TypeAlias = Annotated[str | None, typer.Option(help="debug, info, warning or error.")]
CheckOnly: TypeAlias = Annotated[
    bool, typer.Option("--check", help="Check the configuration and everything it names, then stop.")
]


@options
class NetworkFlags:
    """The options of a server that is part of a network: each is a setting of its own name."""

    network: str | None = opt("The network's name.")
    coordinator: str | None = opt("The network's owner: key, .pub file or quorum:….")
    credentials: list[str] | None = opt("Files, or folders of *.cert and *.quorum. May be repeated.")
    status: str | None = opt("Where /health and the like answer, on loopback; or 'off'.")
    log_format: LogFormat = None
    log_level: LogLevel = None


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


def run_server(prepared: _Prepared, config: _Logged, serve: _Serve[_Prepared], *, as_json: bool) -> None:
    """Run a server until Ctrl-C or SIGTERM."""
    from maia.net.event_loop import run
    from maia.net.telemetry import Telemetry

    telemetry = Telemetry(sys.stderr, log_format=config.log_format, level=config.log_level)

    def ready(listening: _Listening) -> None:
        api = getattr(listening, "api", None)  # only a domain's server has one, and not every one
        lines = [f"listening on {listening.address} as {listening.principal}"]
        lines += [] if api is None else [f"answering at https://{api}"]
        statements = getattr(listening, "statement_address", None)  # only a broker has one
        lines += [] if statements is None else [f"statement links at {listening.principal}@{statements}"]
        http = getattr(listening, "http", None)  # only a gateway has one
        lines += [] if http is None else [f"HTTP clients at {http}"]
        record = {
            "listening": listening.address,
            "principal": listening.principal,
            "status": listening.status,
            **({} if api is None else {"api": api}),
            **({} if http is None else {"http": http}),
            **({} if statements is None else {"statement_links": statements}),
        }
        answer(lines, record, as_json=as_json)

    run(serve(prepared, telemetry, ready))


def checked_line(what: str, data: Path | None, *addresses: str | None) -> str:
    """Return what was found by `--check`; refuse addresses that another program has."""
    from maia.net.process import is_free

    if is_free(data, *addresses):
        return f"checked      the {what} can run with this configuration"
    runs = f"a process runs with `{data}`, so a start would fail"
    return f"checked      {runs}; if it is this {what}, the configuration counts from its next start"


def prepared_lines(prepared: _OfNetwork, *, what: str) -> list[str]:
    """Return the key, network and right of a server, in lines."""
    record = prepared_record(prepared)
    return [
        f"{what:<12} {record['principal']}",
        f"network      {record['network']} of {record['coordinator']}",
        f"may connect  until {record['until']}",
        f"credentials  {record['credentials']} certificates",
    ]


def prepared_record(prepared: _OfNetwork) -> dict[str, object]:
    """Return the same as named fields."""
    until = prepared.may_connect_until
    return {
        "principal": str(prepared.key.principal),
        "network": prepared.network.name,
        "coordinator": str(prepared.network.owner),
        "until": "unbounded" if until is None else str(until),
        "credentials": len(prepared.credentials),
    }
