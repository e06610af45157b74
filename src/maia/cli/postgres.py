"""`maia postgres`: a PostgreSQL database stores events, and releases rows as events."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from maia.cli.command import flag, need, opt, options
from maia.cli.inputs import command_group
from maia.cli.output import ANSWER_NO, answer, use_folder
from maia.cli.profile_option import profile_named
from maia.cli.servers.server_command import LogFormat, LogLevel
from maia.cli.trust.key import open_key
from maia.config.settings import Defaults
from maia.errors import BadInput, MaiaError

if TYPE_CHECKING:
    from maia.events import Instant
    from maia.postgres.config import PreparedConnector
    from maia.postgres.process import Running
    from maia.postgres.values import Connection
    from maia.postgres.views import InstalledView, Outcome


app = command_group(
    "Connect a PostgreSQL database to a broker: store events in tables, release rows as events."
)
views_app = command_group("Show tables of a PostgreSQL database through the Views of principals.")
app.add_typer(views_app, name="views")


@options
class ConnectorFile:
    """The settings of a connector: the operator's file, and what it need not say of a participant."""

    config: Path = need("A TOML file; MAIA_POSTGRES_… wins over it.", "--config", "-c")
    profile: str | None = opt("Take key, certificates, network and broker from this profile, unless the file says others.", "--as", metavar="PROFILE")  # fmt: skip

    def defaults(self) -> Defaults | None:
        """Return what the profile says of the connector."""
        if self.profile is None:
            return None
        found = profile_named(self.profile)
        use_folder(found.path)
        given = found.settings
        said: dict[str, object] = {
            "key": given.key, "network": given.network, "coordinator": given.coordinator,
            "credentials": given.credentials, "broker": given.brokers[0] if given.brokers else None,
            "data": found.path / "postgres-data",
        }  # fmt: skip
        words = {
            name: [str(one) for one in value] if isinstance(value, tuple) else str(value)
            for name, value in said.items()
            if value
        }
        return Defaults(f"`{found.path}`", words)


DatabaseWord: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--admin",
        envvar="MAIA_POSTGRES_ADMIN",
        metavar="URL",
        help="Do it as another role than the connector's: the owner of the released tables.",
    ),
]
ViewsFile: TypeAlias = Annotated[
    Path, typer.Option("--config", "-c", help="Tables, readers and their roles, in TOML.")
]

_Found = TypeVar("_Found")


class NoChoice(BadInput):
    """What is to become of rows that wait was not said, or said in two ways."""

    code = "INPUT-POSTGRES-CHOICE"


def _prepared(file: ConnectorFile, **flags: object) -> PreparedConnector:
    from maia.clock import system_now
    from maia.postgres.config import prepare, read_config

    environment = {name: value for name, value in os.environ.items() if name != "MAIA_POSTGRES_ADMIN"}
    settings = read_config(file.config, flags=flags, environment=environment, defaults=file.defaults())
    return prepare(settings, now=system_now(), open_key=open_key)


def _in_database(url: str, work: Callable[[Connection], Awaitable[_Found]]) -> _Found:
    """Connect, do one thing, and turn an error of the database into one of ours."""
    import asyncio

    import psycopg

    from maia.postgres.values import connected, database_problem

    async def whole() -> _Found:
        async with connected(url) as connection:
            return await work(connection)

    try:
        return asyncio.run(whole())
    except psycopg.Error as problem:
        raise database_problem(problem) from None


@app.command()
def install(file: ConnectorFile, as_role: DatabaseWord = None) -> None:
    """Put into the database what the file declares; run it again after a change of the file.

    Examples:
        maia postgres install -c connector.toml
        maia postgres install -c connector.toml --admin postgresql://owner@/clinic
    """
    from maia.postgres import schema

    prepared = _prepared(file)
    url = prepared.config.database

    async def role_of(connection: Connection) -> str:
        found = await (await connection.execute("SELECT current_user::text")).fetchone()
        return "" if found is None else str(found[0])

    role = _in_database(url, role_of)
    _in_database(as_role or url, lambda connection: schema.install(connection, prepared, role=role))
    stores, releases = ([one.name for one in prepared.stores], [one.name for one in prepared.releases])
    lines = [
        f"installed in schema {prepared.config.schema} for the role {role}",
        *(f"store        {one.name}: into {one.table}" for one in prepared.stores),
        *(f"release      {one.name}: from {one.table or 'derived events'}" for one in prepared.releases),
    ]
    answer(lines, {"installed": True, "role": role, "stores": stores, "releases": releases}, as_json=as_json)


@app.command()
def run(file: ConnectorFile, log_format: LogFormat = None, log_level: LogLevel = None) -> None:
    """Store and release until Ctrl-C or SIGTERM; one line says when the connector is ready.

    Examples:
        maia postgres run -c connector.toml
        maia postgres run -c connector.toml --as clinic
    """
    import asyncio

    from maia.net.telemetry import Telemetry
    from maia.postgres.process import serve

    prepared = _prepared(file, log_format=log_format, log_level=log_level)
    settings = prepared.config
    telemetry = Telemetry(sys.stderr, log_format=settings.log_format, level=settings.log_level)

    def ready(running: Running) -> None:
        what = [*(f"store {one}" for one in running.stores), *(f"release {one}" for one in running.releases)]
        record = {
            "connected": settings.broker,
            "broker": running.broker,
            "principal": running.principal,
            "stores": running.stores,
            "releases": running.releases,
        }
        lines = [f"connected to {settings.broker} as {running.principal}: {', '.join(what)}"]
        answer(lines, record, as_json=as_json)

    asyncio.run(serve(prepared, telemetry, ready))


@app.command()
def check(file: ConnectorFile, as_role: DatabaseWord = None) -> None:
    """Explain what is installed, what differs from the file, and how far stores and releases have come.

    Examples:
        maia postgres check -c connector.toml
        maia postgres check -c connector.toml --json
    """
    from maia.postgres.check import check as compare

    prepared = _prepared(file)
    found = _in_database(
        as_role or prepared.config.database, lambda connection: compare(connection, prepared)
    )
    lines = [
        f"broker       {found.broker or 'none yet'}",
        *(f"installed    {one}" for one in found.installed),
        *(
            f"stored       {name}: {found.stored[name]} events in {frames} frames, {found.missed[name]} gaps"
            for name, frames in found.frames.items()
        ),
        *(
            f"waiting      {name}: {rows} rows; {found.refused[name]} were refused so far"
            for name, rows in found.waiting.items()
        ),
        *(f"differs      {one}" for one in found.differences),
        f"checked      differences: {len(found.differences)}",
    ]
    record: dict[str, Any] = {  # Any: what JSON can hold
        "broker": found.broker,
        "installed": found.installed,
        "differences": found.differences,
        "waiting": found.waiting,
        "refused": found.refused,
        "frames": found.frames,
        "stored": found.stored,
        "missed": found.missed,
    }
    answer(lines, record, as_json=as_json)
    if found.differences:
        raise typer.Exit(ANSWER_NO)


@app.command()
def accept(
    file: ConnectorFile,
    discard: bool = flag("Rows that wait may have been published: drop them."),
    publish: bool = flag("Rows that wait have never been published: publish them."),
    as_role: DatabaseWord = None,
) -> None:
    """Go on with a database that was restored from a backup, or copied; the connector must not run.

    Examples:
        maia postgres accept -c connector.toml --discard
        maia postgres accept -c connector.toml --publish
    """
    from maia.net.process import own_folder
    from maia.postgres.positions import Positions
    from maia.postgres.positions import accept as go_on

    if discard == publish:
        raise NoChoice("say what becomes of rows that wait: `--discard` or `--publish`")
    prepared = _prepared(file)
    settings = prepared.config
    with own_folder(settings.data):
        positions = Positions(settings.data)
        done = _in_database(
            as_role or settings.database,
            lambda connection: go_on(connection, settings.schema, positions, publish=publish),
        )
    lines = [
        *(f"waiting      {name}: {rows} rows will be published" for name, rows in done.kept.items()),
        *(f"discarded    {name}: {rows} rows" for name, rows in done.discarded.items()),
        *(
            f"lost         {name}: frames {first} to {last} were acknowledged, and are not here"
            for name, (first, last) in done.lost.items()
        ),
        "accepted     what is released from now on is under new streams",
    ]
    record = {"waiting": done.kept, "discarded": done.discarded, "lost": done.lost}
    answer(lines, record, as_json=as_json)


@app.command()
def remove(
    file: ConnectorFile,
    force: bool = flag("Lose rows that wait to be published."),
    as_role: DatabaseWord = None,
) -> None:
    """Take the connector's schema and triggers out of the database; tables with stored events stay.

    Examples:
        maia postgres remove -c connector.toml
        maia postgres remove -c connector.toml --force
    """
    from maia.postgres import schema

    prepared = _prepared(file)
    gone = _in_database(
        as_role or prepared.config.database,
        lambda connection: schema.remove(connection, prepared.config.schema, force=force),
    )
    answer(
        [f"removed schema {prepared.config.schema} with {len(gone)} releases"],
        {"removed": prepared.config.schema, "releases": gone},
        as_json=as_json,
    )


# `maia postgres views`: principals read a database's tables through their Views.


@views_app.command("install")
def install_views(config: ViewsFile) -> int:
    """Make an SQL view for every reader and table; exit status 1 if a reader has no right to one.

    Examples:
        maia postgres views install -c views.toml
        maia postgres views install -c views.toml --json
    """
    from maia.clock import system_now
    from maia.postgres.views import ViewWatch

    outcomes = ViewWatch(config, system_now).install()
    _print(outcomes, as_json=as_json)
    return 0 if all(one.shows for one in outcomes) else ANSWER_NO


@views_app.command("renew")
def renew_views(config: ViewsFile, watch: bool = flag("Go on until Ctrl-C or SIGTERM.")) -> None:
    """Decide every reader's right again: renew views, remove those whose right is gone, add new ones.

    Examples:
        maia postgres views renew -c views.toml
        maia postgres views renew -c views.toml --watch
    """
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


@views_app.command("remove")
def remove_views(config: ViewsFile) -> int:
    """Remove all views; exit status 1 if one is being read, which shows nothing more.

    Examples:
        maia postgres views remove -c views.toml
        maia postgres views remove -c views.toml --json
    """
    from maia.clock import system_now
    from maia.postgres.view_settings import read_views_config
    from maia.postgres.views import InstalledViews, connected, view_ledger

    settings = read_views_config(config)
    with connected(settings.database) as connection, view_ledger(settings) as ledger:
        outcomes = InstalledViews(settings.schema).remove(connection, system_now(), ledger)
    _print(outcomes, as_json=as_json)
    return 0 if all(one.what == "removed" for one in outcomes) else ANSWER_NO


@views_app.command("list")
def list_views(config: ViewsFile) -> None:
    """Show the views that are there: for which role and principal, and until when each shows rows.

    Examples:
        maia postgres views list -c views.toml
        maia postgres views list -c views.toml --json
    """
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
