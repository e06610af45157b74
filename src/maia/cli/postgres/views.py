"""`maia postgres views`: principals read a database's tables through their Views."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maia.cli.inputs import AsJson
from maia.cli.output import ANSWER_NO, answer
from maia.errors import MaiaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maia.events import Instant
    from maia.postgres.views import InstalledView, Outcome


app = typer.Typer(
    help="Show tables of a PostgreSQL database through the Views of principals.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Config = Annotated[Path, typer.Option("--config", "-c", help="Tables, readers and their roles, in TOML.")]


@app.command(
    epilog="Examples: maia postgres views install -c views.toml; "
    "maia postgres views install -c views.toml --json"
)
def install(config: Config, as_json: AsJson = False) -> int:
    """Make an SQL view for every reader and table; exit status 1 if a reader has no right to one."""
    from maia.clock import system_now
    from maia.postgres.views import ViewWatch

    outcomes = ViewWatch(config, system_now).install()
    _print(outcomes, as_json=as_json)
    return 0 if all(one.shows for one in outcomes) else ANSWER_NO


@app.command(
    epilog="Examples: maia postgres views renew -c views.toml; "
    "maia postgres views renew -c views.toml --watch"
)
def renew(
    config: Config,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until Ctrl-C or SIGTERM.")] = False,
    as_json: AsJson = False,
) -> None:
    """Decide every reader's right again: renew views, remove those whose right is gone, add new ones."""
    from threading import Event

    from maia.clock import system_now
    from maia.postgres.views import ViewWatch

    views = ViewWatch(config, system_now)
    if not watch:
        _print(views.renew(), as_json=as_json)
        return
    over = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    before: list[tuple[str, str]] = []

    def on_outcomes(outcomes: list[Outcome]) -> None:
        now = [(one.name, one.what if one.what != "renewed" else "made") for one in outcomes]
        if now != before:
            _print(outcomes, as_json=as_json)
            before[:] = now

    def on_problem(problem: MaiaError) -> None:
        sys.stderr.write(f"maia: {problem.message} [{problem.code}]\n")

    views.run(over, on_outcomes, on_problem)


@app.command(
    epilog="Examples: maia postgres views remove -c views.toml; "
    "maia postgres views remove -c views.toml --json"
)
def remove(config: Config, as_json: AsJson = False) -> int:
    """Remove all views; exit status 1 if one is being read, which shows nothing more."""
    from maia.clock import system_now
    from maia.postgres.view_settings import read_views_config
    from maia.postgres.views import InstalledViews, connected, view_ledger

    settings = read_views_config(config)
    with connected(settings.database) as connection, view_ledger(settings) as ledger:
        outcomes = InstalledViews(settings.schema).remove(connection, system_now(), ledger)
    _print(outcomes, as_json=as_json)
    return 0 if all(one.what == "removed" for one in outcomes) else ANSWER_NO


@app.command(
    name="list",
    epilog="Examples: maia postgres views list -c views.toml; maia postgres views list -c views.toml --json",
)
def list_views(config: Config, as_json: AsJson = False) -> None:
    """Show the views that are there: for which role and principal, and until when each shows rows."""
    from maia.postgres.view_settings import read_views_config
    from maia.postgres.views import InstalledViews, connected

    settings = read_views_config(config)
    with connected(settings.database) as connection:
        found = InstalledViews(settings.schema).entries(connection)
    lines = [line for one in found for line in _entry_lines(settings.schema, one)]
    answer(lines or ["there are no views"], {"views": [_entry_record(one) for one in found]}, as_json=as_json)


def _print(outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    lines = []
    for one in outcomes:
        line = f"{one.name:<32} {one.what:<8}"
        if one.problem is not None:
            line += f" {one.problem.message} [{one.problem.code}]"
        elif one.definition is not None:
            shown = " ".join(each.name for each in one.definition.columns)
            line += f" until {_until(one.until)}: {shown}"
        lines.append(line.rstrip())
    records = [
        {
            "view": one.name,
            "role": one.role,
            "what": one.what,
            **({} if one.principal is None else {"principal": str(one.principal)}),
            **({} if one.definition is None else {"until": _until(one.until)}),
            **({} if one.problem is None else {"problem": one.problem.as_record()}),
        }
        for one in outcomes
    ]
    answer(lines, {"views": records}, as_json=as_json)


def _entry_lines(schema: str, one: InstalledView) -> list[str]:
    return [
        f"{schema}.{one.name}",
        f"  role       {one.role}",
        f"  principal  {one.principal}",
        f"  shows      {one.type_name} in {one.table}",
        f"  until      {'ended, and still being read' if one.is_ended else _until(one.until)}",
    ]


def _entry_record(one: InstalledView) -> dict[str, object]:
    return {
        "view": one.name,
        "role": one.role,
        "principal": one.principal,
        "type": one.type_name,
        "table": one.table,
        "until": "ended" if one.is_ended else _until(one.until),
        "certificates": list(one.certificates),
    }


def _until(until: Instant | None) -> str:
    return "unbounded" if until is None else str(until)
