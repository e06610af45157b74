"""Which command was asked for?

This module holds the outermost loop of the command line: it finds the
command, and turns whatever goes wrong into one sentence, one code and one
exit status. A user's mistake never ends in a stack trace. Heavy libraries are
imported by the commands that need them, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import typer

from maia.cli import (
    benchmarks,
    broker,
    cert,
    demo,
    domain,
    explain,
    filters,
    key,
    log,
    login,
    pipeline,
    publish,
    status,
    subscribe,
    types,
)
from maia.cli.output import fail
from maia.errors import MaiaError

__all__ = ["app", "main"]

INTERRUPTED: Final = 130
INPUT_STATUS: Final = 2

app = typer.Typer(
    name="maia",
    help="Secure publish/subscribe between organisations that do not trust each other fully.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(key.app, name="key")
app.add_typer(cert.app, name="cert")
app.add_typer(types.app, name="type")
app.add_typer(filters.app, name="filter")
app.add_typer(domain.app, name="domain")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(log.app, name="log")
app.command(name="login", epilog=login.EXAMPLES)(login.login)
app.command(name="explain", epilog=explain.EXAMPLES)(explain.explain)
app.command(name="broker", epilog=broker.EXAMPLES)(broker.broker)
app.command(name="publish", epilog=publish.EXAMPLES)(publish.publish)
app.command(name="subscribe", epilog=subscribe.EXAMPLES)(subscribe.subscribe)
app.command(name="status", epilog=status.EXAMPLES)(status.status)
app.command(name="demo", epilog=demo.EXAMPLES)(demo.demo)
app.command(name="bench", epilog=benchmarks.EXAMPLES)(benchmarks.bench)


def _run(words: list[str]) -> object:
    """Run a command; of the errors of tasks that ended together, the user hears one."""
    try:
        return app(args=words, prog_name="maia", standalone_mode=False)
    except BaseExceptionGroup as group:
        raise _one_of(group) from group


def _one_of(group: BaseExceptionGroup) -> BaseException:
    """Return the most telling error of a group: one of ours, else the first."""
    leaves = [_one_of(one) if isinstance(one, BaseExceptionGroup) else one for one in group.exceptions]
    return next((one for one in leaves if isinstance(one, MaiaError)), leaves[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _run(words)
    except MaiaError as problem:
        return fail(problem, as_json="--json" in words)
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("maia: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as problem:
        sys.stderr.write(f"maia: {problem.strerror or problem}: `{problem.filename}` [INPUT-FILE]\n")
        return INPUT_STATUS
    except typer.TyperException as problem:
        # A wrong option or a missing argument: Typer knows how to show it beside the usage line.
        problem.show()  # type: ignore[attr-defined]  # every usage error of Typer has it; its base class does not say so
        return INPUT_STATUS
    return status if isinstance(status, int) else 0
