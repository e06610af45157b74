"""`maia postgres`: a PostgreSQL database stores events, and releases rows as events."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from maia.cli.command import arg, flag, need, opt, options
from maia.cli.inputs import command_group
from maia.cli.output import Answer, row, several, show, use_folder
from maia.cli.profile_option import profile_named
from maia.cli.servers.server_command import LOG_FORMAT, LOG_LEVEL
from maia.cli.trust.key import open_key
from maia.clock import system_now
from maia.config.settings import Defaults
from maia.errors import BadInput, MaiaError

if TYPE_CHECKING:
    from maia.events import Instant
    from maia.postgres.config import PreparedConnector
    from maia.postgres.process import Running
    from maia.postgres.values import Connection
    from maia.postgres.views import InstalledView, ViewOutcome
    from maia.profile import Profile


app = command_group(
    "Connect a PostgreSQL database to a broker: store events in tables, release rows as events."
)
views_app = command_group("Show tables of a PostgreSQL database through the Views of principals.")
app.add_typer(views_app, name="views")


@options
class ConnectorFile:
    """The settings of a connector: the operator's file, and what it need not say of a participant."""

    config: Path = need("A TOML file; MAIA_POSTGRES_… wins over it.", "--config", "-c")
    profile: str | None = opt(
        "Take key, certificates, network and broker from this profile, unless the file says others.",
        "--as", metavar="PROFILE",
    )  # fmt: skip

    def defaults(self) -> Defaults | None:
        """Return what the profile says of the connector."""
        return None if self.profile is None else _defaults_of(profile_named(self.profile))


def _defaults_of(found: Profile) -> Defaults:
    use_folder(found.path)
    given = found.settings
    said: dict[str, object] = {
        "key": given.key, "network": given.network, "coordinator": given.coordinator,
        "credentials": given.credentials, "broker": given.brokers,
        "data": found.path / "postgres-data",
    }  # fmt: skip
    words = {
        name: [str(one) for one in value] if isinstance(value, tuple) else str(value)
        for name, value in said.items()
        if value
    }
    return Defaults(f"`{found.path}`", words)


DATABASE_WORD = opt(
    "Do it as another role than the connector's: the owner of the released tables.",
    "--admin",
    envvar="MAIA_POSTGRES_ADMIN",
    metavar="URL",
)
VIEWS_FILE = need("Tables, readers and their roles, in TOML.", "--config", "-c")

_Found = TypeVar("_Found")


def _prepared(file: ConnectorFile, **flags: object) -> PreparedConnector:
    import psycopg  # noqa: F401 - a driver that is not installed is named before the file is read

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


async def _role_of(connection: Connection) -> str:
    found = await (await connection.execute("SELECT current_user::text")).fetchone()
    return "" if found is None else str(found[0])


@app.command()
def install(file: ConnectorFile, as_role: str | None = DATABASE_WORD) -> Answer:
    """Put into the database what the file declares; run it again after a change of the file.

    Examples:
        maia postgres install -c connector.toml
        maia postgres install -c connector.toml --admin postgresql://owner@/clinic
    """
    from maia.postgres import schema

    prepared = _prepared(file)
    url = prepared.config.database

    role = _in_database(url, _role_of)
    _in_database(as_role or url, lambda connection: schema.install(connection, prepared, role=role))
    stores, releases = prepared.stores, prepared.releases
    head = f"installed in schema {prepared.config.schema} for the role {role}"
    into = [f"{one.name}: into {one.table}" for one in stores]
    out_of = [f"{one.name}: from {one.table or 'derived events'}" for one in releases]
    return Answer(
        row("", head, installed=True, role=role),
        row("store", into, stores=[one.name for one in stores]),
        row("release", out_of, releases=[one.name for one in releases]),
    )


@app.command()
def run(file: ConnectorFile, log_format: str | None = LOG_FORMAT, log_level: str | None = LOG_LEVEL) -> None:
    """Store and release until Ctrl-C or SIGTERM; one line says when the connector is ready.

    Examples:
        maia postgres run -c connector.toml
        maia postgres run -c connector.toml --as clinic
    """
    _serve(_prepared(file, log_format=log_format, log_level=log_level))


def _serve(prepared: PreparedConnector) -> None:
    import asyncio

    from maia.net.telemetry import Telemetry
    from maia.postgres.process import serve

    settings = prepared.config
    telemetry = Telemetry(sys.stderr, log_format=settings.log_format, level=settings.log_level)

    def ready(running: Running) -> None:
        what = [*(f"store {one}" for one in running.stores), *(f"release {one}" for one in running.releases)]
        brokers = ", ".join(settings.broker)
        line = f"connected to {brokers} as {running.principal}: {', '.join(what)}"
        show(row("", line, connected=brokers, **asdict(running)))

    asyncio.run(serve(prepared, telemetry, ready))


@app.command()
def replicate(
    of: str = arg(
        "The type of what is released, by its name in the profile, or its .type file.", metavar="TYPE"
    ),
    table: str = arg("The table; it is made if it is not there.", metavar="TABLE"),
    profile: str = need("The participant under whose rights rows arrive.", "--as", metavar="PROFILE"),
    database: str | None = opt(
        "The database, as a URL or key words.", envvar="MAIA_POSTGRES_DATABASE", metavar="URL"
    ),
    operation: str = opt(
        "The attribute that says insert, delete or truncate.", default="operation", metavar="ATTRIBUTE"
    ),
    where: str = opt(
        "Only rows that this admits, in the filter language.", "--where", "--filter", default="true"
    ),
    shown_as: Path | None = opt("The definition of the type that the right converts events into."),
    schema_name: str | None = opt(
        "The schema of what is kept about the replica; default: r_TABLE.", "--schema", metavar="NAME"
    ),
    log_format: str | None = LOG_FORMAT,
    log_level: str | None = LOG_LEVEL,
) -> None:
    """Keep a table as a partner's released table is, under the participant's View, until Ctrl-C or SIGTERM.

    Rows arrive and are taken away once, in one transaction with the position: stop and start it at any
    moment. What the owner of the source had before comes with its `maia postgres resend`.

    Examples:
        maia postgres replicate Bed beds --as partner --database postgresql://partner@/mirror
        maia postgres replicate Bed beds --as partner --where 'ward == "3"' --schema r_beds_of_3
    """
    from maia.config.input_files import read_definition
    from maia.events import Kind
    from maia.postgres import schema
    from maia.postgres.config import prepare, read_config

    found = profile_named(profile)
    name = re.sub(r"[^a-z0-9_]", "_", table.rpartition(".")[2].lower())
    kept = schema_name or f"r_{name}"[:16]
    definitions = _definition_files(found, of)
    shown = read_definition(shown_as or definitions[-1]).definition
    if not any((one.name, one.kind) == (operation, Kind.STRING) for one in shown.attributes):
        raise BadInput(
            "INPUT-POSTGRES-OPERATION",
            f"`{shown.name.name}` has no attribute `{operation}` of kind string: name the one that says "
            "insert, delete or truncate with `--operation`",
        )
    store: dict[str, object] = {
        "name": name[:30], "table": table, "operation": operation, "filter": where,
        "durable": f"postgres/{kept}",
        "definition": [str(one) for one in definitions],
    }  # fmt: skip
    if shown_as is not None:
        store["shown_as"] = [str(shown_as.resolve())]
    flags: dict[str, object] = {
        "database": database, "schema": kept, "store": [store],
        "log_format": log_format, "log_level": log_level,
        "data": str(found.path / f"replica-{kept}"),
    }  # fmt: skip
    settings = read_config(None, flags=flags, environment={}, defaults=_defaults_of(found))
    prepared = prepare(settings, now=system_now(), open_key=open_key)
    role = _in_database(settings.database, _role_of)
    _in_database(settings.database, lambda connection: schema.install(connection, prepared, role=role))
    _serve(prepared)


def _definition_files(profile: Profile, word: str) -> list[Path]:
    """Return the files of a type's versions, oldest first, by its name in a profile or by its own file."""
    from maia.config.input_files import read_definition

    if word.endswith(".type") and Path(word).is_file():
        return [Path(word).resolve()]
    places = profile.type_places()
    files = [one for place in places for one in (place.glob("*.type") if place.is_dir() else [place])]
    by_name = {read_definition(one).definition.name: one.resolve() for one in files}
    return [by_name[one.name] for one in profile.lineage(word, at=system_now())]


@app.command()
def resend(
    file: ConnectorFile,
    name: str = arg("The release.", metavar="RELEASE"),
    as_role: str | None = DATABASE_WORD,
) -> Answer:
    """Release every row that a table has once more, for replicas that began since; others stay as they are.

    Writers of the table wait meanwhile.

    Examples:
        maia postgres resend beds -c connector.toml
        maia postgres resend beds -c connector.toml --admin postgresql://owner@/clinic
    """
    from maia.postgres import schema

    prepared = _prepared(file)
    release = next((one for one in prepared.releases if one.name == name), None)
    if release is None:
        raise BadInput("INPUT-POSTGRES-TABLE", f"the file declares no release `{name[:64]}`")
    settings = prepared.config
    rows = _in_database(
        as_role or settings.database,
        lambda connection: schema.resend(connection, settings.schema, release),
    )
    return row("", f"{name}: {rows} rows will leave again", release=name, rows=rows)


@app.command()
def check(file: ConnectorFile, as_role: str | None = DATABASE_WORD) -> Answer:
    """Explain what is installed, what differs from the file, and how far stores and releases have come.

    Examples:
        maia postgres check -c connector.toml
        maia postgres check -c connector.toml --json
    """
    from maia.postgres.check import check as compare

    prepared = _prepared(file)
    url = as_role or prepared.config.database
    found = _in_database(url, lambda connection: compare(connection, prepared))
    stored = [
        f"{name}: {found.stored[name]} events in {frames} frames, {found.missed[name]} gaps"
        for name, frames in found.frames.items()
    ]
    waiting = [
        f"{name}: {count} rows; {found.refused[name]} were refused so far"
        for name, count in found.waiting.items()
    ]
    differ = found.differences
    return Answer(
        row("broker", [f"{one} at {address}" for address, one in found.brokers.items()] or "none yet"),
        row(brokers=found.brokers),
        row("installed", found.installed, installed=found.installed),
        row("stored", stored, frames=found.frames, stored=found.stored, missed=found.missed),
        row("waiting", waiting, waiting=found.waiting, refused=found.refused),
        row("differs", differ, differences=differ),
        row("checked", f"differences: {len(differ)}"),
        no=bool(differ),
    )


@app.command()
def accept(
    file: ConnectorFile,
    discard: bool = flag("Rows that wait may have been published: drop them."),
    publish: bool = flag("Rows that wait have never been published: publish them."),
    as_role: str | None = DATABASE_WORD,
) -> Answer:
    """Go on with a database that was restored from a backup, or copied; the connector must not run.

    Examples:
        maia postgres accept -c connector.toml --discard
        maia postgres accept -c connector.toml --publish
    """
    from maia.net.process import own_folder
    from maia.postgres.positions import Positions
    from maia.postgres.positions import accept as go_on

    if discard == publish:
        raise BadInput(
            "INPUT-POSTGRES-CHOICE", "say what becomes of rows that wait: `--discard` or `--publish`"
        )
    prepared = _prepared(file)
    settings = prepared.config
    with own_folder(settings.data):
        positions = Positions(settings.data)
        done = _in_database(
            as_role or settings.database,
            lambda connection: go_on(connection, settings.schema, positions, publish=publish),
        )
    waiting = [f"{name}: {count} rows will be published" for name, count in done.kept.items()]
    discarded = [f"{name}: {count} rows" for name, count in done.discarded.items()]
    lost = [
        f"{name}: frames {first} to {last} were acknowledged, and are not here"
        for name, (first, last) in done.lost.items()
    ]
    return Answer(
        row("waiting", waiting, waiting=done.kept),
        row("discarded", discarded, discarded=done.discarded),
        row("lost", lost, lost=done.lost),
        row("accepted", "what is released from now on is under new streams"),
    )


@app.command()
def remove(
    file: ConnectorFile,
    force: bool = flag("Lose rows that wait to be published."),
    as_role: str | None = DATABASE_WORD,
) -> Answer:
    """Take the connector's schema and triggers out of the database; tables with stored events stay.

    Examples:
        maia postgres remove -c connector.toml
        maia postgres remove -c connector.toml --force
    """
    from maia.postgres import schema

    prepared = _prepared(file)
    name, url = prepared.config.schema, as_role or prepared.config.database
    gone = _in_database(url, lambda connection: schema.remove(connection, name, force=force))
    return row("", f"removed schema {name} with {len(gone)} releases", removed=name, releases=gone)


# `maia postgres views`: principals read a database's tables through their Views.


@views_app.command("install")
def install_views(config: Path = VIEWS_FILE) -> Answer:
    """Make an SQL view for every reader and table; exit status 1 if a reader has no right to one.

    Examples:
        maia postgres views install -c views.toml
        maia postgres views install -c views.toml --json
    """
    from maia.postgres.view_watch import ViewWatch

    outcomes = ViewWatch(config, system_now).install()
    return _shown(outcomes, no=not all(one.shows for one in outcomes))


@views_app.command("renew")
def renew_views(
    config: Path = VIEWS_FILE, watch: bool = flag("Go on until Ctrl-C or SIGTERM.")
) -> Answer | None:
    """Decide every reader's right again: renew views, remove those whose right is gone, add new ones.

    Examples:
        maia postgres views renew -c views.toml
        maia postgres views renew -c views.toml --watch
    """
    from threading import Event

    from maia.postgres.view_watch import ViewWatch

    views = ViewWatch(config, system_now)
    if not watch:
        return _shown(views.renew())
    over = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    before: list[tuple[str, str]] = []

    def on_outcomes(outcomes: list[ViewOutcome]) -> None:
        now = [(one.name, one.what if one.what != "renewed" else "made") for one in outcomes]
        if now != before:
            show(_shown(outcomes))
            before[:] = now

    def on_problem(problem: MaiaError) -> None:
        sys.stderr.write(f"maia: {problem.message} [{problem.code}]\n")

    views.run(over, on_outcomes, on_problem)
    return None


@views_app.command("remove")
def remove_views(config: Path = VIEWS_FILE) -> Answer:
    """Remove all views; exit status 1 if one is being read, which shows nothing more.

    Examples:
        maia postgres views remove -c views.toml
        maia postgres views remove -c views.toml --json
    """
    from maia.postgres.view_settings import read_views_config
    from maia.postgres.view_watch import view_ledger
    from maia.postgres.views import InstalledViews, connected

    settings = read_views_config(config)
    with connected(settings.database) as connection, view_ledger(settings) as ledger:
        outcomes = InstalledViews(connection, settings.schema).remove(system_now(), ledger)
    return _shown(outcomes, no=not all(one.what == "removed" for one in outcomes))


@views_app.command("list")
def list_views(config: Path = VIEWS_FILE) -> Answer:
    """Show the views that are there: for which role and principal, and until when each shows rows.

    Examples:
        maia postgres views list -c views.toml
        maia postgres views list -c views.toml --json
    """
    from maia.postgres.view_settings import read_views_config
    from maia.postgres.views import InstalledViews, connected

    settings = read_views_config(config)
    with connected(settings.database) as connection:
        found = InstalledViews(connection, settings.schema).entries()
    entries = (_entry(settings.schema, one) for one in found)
    return several("views", entries, none="there are no views")


def _shown(outcomes: Sequence[ViewOutcome], *, no: bool = False) -> Answer:
    return Answer(several("views", map(_outcome, outcomes)), no=no)


def _outcome(one: ViewOutcome) -> Answer:
    text, fields = f"{one.name:<32} {one.what:<8}", {"view": one.name, "role": one.role, "what": one.what}
    fields |= {} if one.principal is None else {"principal": str(one.principal)}
    if one.definition is not None:
        fields["until"] = _until(one.until)
    if one.problem is not None:
        text += f" {one.problem.message} [{one.problem.code}]"
        return row("", text.rstrip(), **fields, problem=one.problem.as_record())
    if one.definition is not None:
        text += f" until {_until(one.until)}: {' '.join(each.name for each in one.definition.columns)}"
    return row("", text.rstrip(), **fields)


def _entry(schema: str, one: InstalledView) -> Answer:
    until = _until(one.until)
    shown = "ended, and still being read" if one.is_ended else until
    return Answer(
        row("", f"{schema}.{one.name}", view=one.name),
        row("  role", one.role, role=one.role),
        row("  principal", one.principal, principal=one.principal, type=one.type_name, table=one.table),
        row("  shows", f"{one.type_name} in {one.table}", certificates=one.certificates),
        row("  until", shown, until="ended" if one.is_ended else until),
    )


def _until(until: Instant | None) -> str:
    return "unbounded" if until is None else str(until)
