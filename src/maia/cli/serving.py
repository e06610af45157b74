"""How does a command run a server until it is told to stop? One line says when it is ready.

A flag that was not given is `None`, so that the configuration file and the
environment have their say.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias, TypeVar

import typer

from maia.cli.output import answer

if TYPE_CHECKING:
    from maia.runtime.telemetry import Telemetry

__all__ = [
    "CheckOnly",
    "CoordinatorWord",
    "CredentialWords",
    "LogFormat",
    "LogLevel",
    "NetworkWord",
    "StatusAddress",
    "run_server",
]

NetworkWord: TypeAlias = Annotated[str | None, typer.Option(help="The network's name.")]
CoordinatorWord: TypeAlias = Annotated[
    str | None, typer.Option(help="The network's owner: key, .pub file or quorum:….")
]
CredentialWords: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Certificates: files, or folders of *.cert. May be repeated.")
]
StatusAddress: TypeAlias = Annotated[
    str | None, typer.Option(help="Where /health and the like answer, on loopback; or 'off'.")
]
LogFormat: TypeAlias = Annotated[str | None, typer.Option(help="auto, json or text.")]
LogLevel: TypeAlias = Annotated[str | None, typer.Option(help="debug, info, warning or error.")]
CheckOnly: TypeAlias = Annotated[
    bool, typer.Option("--check", help="Check the configuration and everything it names, then stop.")
]


class _Listening(Protocol):
    """Where a server listens, as whom, and where it tells how it is."""

    @property
    def address(self) -> str: ...
    @property
    def principal(self) -> str: ...
    @property
    def status(self) -> str | None: ...


class _Logged(Protocol):
    """A configuration that says how to log."""

    @property
    def log_format(self) -> str: ...
    @property
    def log_level(self) -> str: ...


_Prepared = TypeVar("_Prepared")
_Serve = Callable[[_Prepared, "Telemetry", Callable[[_Listening], None]], Coroutine[None, None, None]]


def run_server(prepared: _Prepared, config: _Logged, serve: _Serve[_Prepared], *, as_json: bool) -> None:
    """Run a server until Ctrl-C or SIGTERM."""
    import asyncio

    from maia.runtime.telemetry import Telemetry

    telemetry = Telemetry(sys.stderr, log_format=config.log_format, level=config.log_level)

    def ready(listening: _Listening) -> None:
        api = getattr(listening, "api", None)  # only a domain's server has one, and not every one
        lines = [f"listening on {listening.address} as {listening.principal}"]
        lines += [] if api is None else [f"answering at https://{api}"]
        record = {
            "listening": listening.address,
            "principal": listening.principal,
            "status": listening.status,
            **({} if api is None else {"api": api}),
        }
        answer(lines, record, as_json=as_json)

    asyncio.run(serve(prepared, telemetry, ready))
