"""`maia postgres`: a PostgreSQL database stores events, and releases rows as events."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from maia.cli.inputs import AsJson
from maia.cli.output import ANSWER_NO, answer
from maia.cli.postgres import views
from maia.cli.servers.server_command import LogFormat, LogLevel
from maia.cli.trust.key import open_key
from maia.errors import BadInput

if TYPE_CHECKING:
    from maia.postgres.config import PreparedConnector
    from maia.postgres.process import Running
    from maia.postgres.values import Connection


app = typer.Typer(
    help="Connect a PostgreSQL database to a broker: store events in tables, release rows as events.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(views.app, name="views")

ConfigFile: TypeAlias = Annotated[
    Path, typer.Option("--config", "-c", help="A TOML file; MAIA_POSTGRES_… wins over it.")
]
DatabaseWord: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--admin",
        envvar="MAIA_POSTGRES_ADMIN",
        metavar="URL",
        help="Do it as another role than the connector's: the owner of the released tables.",
    ),
]

_Found = TypeVar("_Found")


class NoChoice(BadInput):
    """What is to become of rows that wait was not said, or said in two ways."""

    code = "INPUT-POSTGRES-CHOICE"


def _prepared(config: Path, **flags: object) -> PreparedConnector:
    from maia.clock import system_now
    from maia.postgres.config import prepare, read_config

    environment = {name: value for name, value in os.environ.items() if name != "MAIA_POSTGRES_ADMIN"}
    settings = read_config(config, flags=flags, environment=environment)
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


@app.command(
    epilog="Examples: maia postgres install -c connector.toml; "
    "maia postgres install -c connector.toml --admin postgresql://owner@/clinic"
)
def install(config: ConfigFile, as_role: DatabaseWord = None, as_json: AsJson = False) -> None:
    """Put into the database what the file declares; run it again after a change of the file."""
    from maia.postgres import schema

    prepared = _prepared(config)
    url = prepared.config.database

    async def role_of(connection: Connection) -> str:
        found = await (await connection.execute("SELECT current_user::text")).fetchone()
        return "" if found is None else str(found[0])

    role = _in_database(url, role_of)
    _in_database(as_role or url, lambda connection: schema.install(connection, prepared, role=role))
    stores, releases = (
        [one.name for one in prepared.stores],
        [one.name for one in prepared.releases],
    )
    lines = [
        f"installed in schema {prepared.config.schema} for the role {role}",
        *(f"store        {one.name}: into {one.table}" for one in prepared.stores),
        *(f"release      {one.name}: from {one.table or 'derived events'}" for one in prepared.releases),
    ]
    answer(lines, {"installed": True, "role": role, "stores": stores, "releases": releases}, as_json=as_json)


@app.command(
    epilog="Examples: maia postgres run -c connector.toml; maia postgres run -c connector.toml --json"
)
def run(
    config: ConfigFile, log_format: LogFormat = None, log_level: LogLevel = None, as_json: AsJson = False
) -> None:
    """Store and release until Ctrl-C or SIGTERM; one line says when the connector is ready."""
    import asyncio

    from maia.net.telemetry import Telemetry
    from maia.postgres.process import serve

    prepared = _prepared(config, log_format=log_format, log_level=log_level)
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


@app.command(
    epilog="Examples: maia postgres check -c connector.toml; maia postgres check -c connector.toml --json"
)
def check(config: ConfigFile, as_role: DatabaseWord = None, as_json: AsJson = False) -> None:
    """Explain what is installed, what differs from the file, and how far stores and releases have come."""
    from maia.postgres.check import check as compare

    prepared = _prepared(config)
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


@app.command(
    epilog="Examples: maia postgres accept -c connector.toml --discard; "
    "maia postgres accept -c connector.toml --publish"
)
def accept(
    config: ConfigFile,
    discard: Annotated[
        bool, typer.Option("--discard", help="Rows that wait may have been published: drop them.")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="Rows that wait have never been published: publish them.")
    ] = False,
    as_role: DatabaseWord = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a database that was restored from a backup, or copied; the connector must not run."""
    from maia.net.process import own_folder
    from maia.postgres.positions import Positions
    from maia.postgres.positions import accept as go_on

    if discard == publish:
        raise NoChoice("say what becomes of rows that wait: `--discard` or `--publish`")
    prepared = _prepared(config)
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


@app.command(
    epilog="Examples: maia postgres remove -c connector.toml; maia postgres remove -c connector.toml --force"
)
def remove(
    config: ConfigFile,
    force: Annotated[bool, typer.Option("--force", help="Lose rows that wait to be published.")] = False,
    as_role: DatabaseWord = None,
    as_json: AsJson = False,
) -> None:
    """Take the connector's schema and triggers out of the database; tables with stored events stay."""
    from maia.postgres import schema

    prepared = _prepared(config)
    gone = _in_database(
        as_role or prepared.config.database,
        lambda connection: schema.remove(connection, prepared.config.schema, force=force),
    )
    answer(
        [f"removed schema {prepared.config.schema} with {len(gone)} releases"],
        {"removed": prepared.config.schema, "releases": gone},
        as_json=as_json,
    )
