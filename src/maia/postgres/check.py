"""What of a connector is installed in a database, and what differs from the file?

`maia postgres check` asks. It changes nothing, and compares with what `maia postgres install` would make: the
outbox of each release, its trigger and the trigger's text, the tables that events are stored in, and which
database this is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from psycopg import sql

from maia.errors import MaiaError
from maia.postgres.config import PreparedConnector, Release, TableName
from maia.postgres.positions import Positions, identity_of
from maia.postgres.schema import (
    EVENTS,
    columns_of_table,
    function_body,
    installed_releases,
    outbox_columns,
    store_columns,
    trigger_name,
    waiting_rows,
)
from maia.postgres.values import COLUMN_TYPES, Connection, rows_of


@dataclass(slots=True)
class Findings:
    """What is there, and what is not as the file says."""

    installed: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    waiting: dict[str, int] = field(default_factory=dict)
    """How many rows of each release wait to be published."""
    refused: dict[str, int] = field(default_factory=dict)
    frames: dict[str, int] = field(default_factory=dict)
    """How many of the broker's frames each store has taken."""
    stored: dict[str, int] = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)
    brokers: dict[str, str] = field(default_factory=dict)
    """Which broker answers at which address, since the first time."""


async def check(connection: Connection, prepared: PreparedConnector) -> Findings:
    """Compare what is installed with the file, and say how far stores and releases have come."""
    findings, config = Findings(), prepared.config
    identity = await identity_of(connection, config.schema)
    findings.brokers = identity.brokers
    positions = Positions(config.data)
    try:
        positions.check(identity, adopt=False)
    except MaiaError as problem:
        findings.differences.append(_shown(problem))
    await _check_releases(connection, prepared, positions, findings)
    await _check_stores(connection, prepared, positions, findings)
    return findings


def _shown(problem: MaiaError) -> str:
    return f"{problem.message} [{problem.code}]"


# ------------------------------------------------------------ releases


async def _check_releases(
    connection: Connection, prepared: PreparedConnector, positions: Positions, findings: Findings
) -> None:
    schema = prepared.config.schema
    asked = "SELECT name, next_frame, refused FROM {s}.releases ORDER BY name"
    found = await rows_of(connection, asked, s=sql.Identifier(schema))
    installed = await installed_releases(connection, schema)
    known = {name: state for name, *state in found if name in installed}
    for name in sorted(installed - {one.name for one in prepared.releases}):
        findings.differences.append(f"release `{name}` is installed, and the file does not declare it")
    for release in prepared.releases:
        if release.name not in known:
            findings.differences.append(f"release `{release.name}` is not installed")
            continue
        next_frame, findings.refused[release.name] = known[release.name]
        try:
            positions.check_release(release.name, next_frame)
        except MaiaError as problem:
            findings.differences.append(_shown(problem))
        outbox = TableName(schema, f"out_{release.name}")
        columns = await columns_of_table(connection, outbox)
        if columns != outbox_columns(release):
            findings.differences.append(
                f"release `{release.name}`: its outbox is of another version of the type; install again"
            )
        if columns:
            findings.waiting[release.name] = await waiting_rows(connection, schema, release.name)
        differing = [one async for one in _trigger_differences(connection, schema, release)]
        findings.differences += differing
        if not differing:
            source = (
                "derived events"
                if release.table is None
                else f"{' and '.join(release.on)} on {release.table}"
            )
            findings.installed.append(f"release `{release.name}`: {source}")


async def _trigger_differences(connection: Connection, schema: str, release: Release) -> AsyncIterator[str]:
    found = await rows_of(
        connection,
        "SELECT t.tgname, n.nspname, c.relname, t.tgenabled <> 'D', p.prosrc, p.prosecdef FROM pg_trigger t"
        " JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgname = ANY (%s)",
        [trigger_name(schema, release.name, event) for event in EVENTS],
    )
    triggers = {row[0]: row[1:] for row in found}
    wanted = () if release.table is None else release.on
    for event in EVENTS:
        there = triggers.get(trigger_name(schema, release.name, event))
        if (there is None) == (event in wanted):
            state = "is missing" if there is None else f"on {there[0]}.{there[1]} is not declared"
            yield f"release `{release.name}`: the trigger for {event} {state}"
        elif there is not None and release.table is not None:
            namespace, table, is_enabled, body, is_definer = there
            if (namespace, table) != (release.table.schema, release.table.table):
                where = f"on {namespace}.{table}, not on {release.table}"
                yield f"release `{release.name}`: its trigger is {where}"
            if not is_enabled:
                yield f"release `{release.name}`: the trigger for {event} is disabled"
            if body != function_body(sql.Identifier(schema), release).as_string(connection) or not is_definer:
                yield f"release `{release.name}`: the text of its trigger is another one; install again"
    if release.table is not None:
        columns = await columns_of_table(connection, release.table)
        for name, column in release.columns.items():
            kind = columns.get(column, "missing").partition("(")[0]
            if kind not in COLUMN_TYPES[release.event_type.vocabulary[name].kind]:
                yield f"release `{release.name}`: column `{column}` of {release.table} is {kind}"


# ------------------------------------------------------------ stores


async def _check_stores(
    connection: Connection, prepared: PreparedConnector, positions: Positions, findings: Findings
) -> None:
    asked = "SELECT name, position, stored, missed FROM {s}.stores ORDER BY name"
    found = await rows_of(connection, asked, s=sql.Identifier(prepared.config.schema))
    known = {row[0]: row[1:] for row in found}
    for name in known.keys() - {one.name for one in prepared.stores}:
        findings.differences.append(f"store `{name}` is installed, and the file does not declare it")
    for store in prepared.stores:
        if store.name not in known:
            findings.differences.append(f"store `{store.name}` is not installed")
            continue
        position, stored, missed = known[store.name]
        findings.frames[store.name], findings.stored[store.name] = position, stored
        findings.missed[store.name] = missed
        try:
            positions.check_store(store.name, position)
        except MaiaError as problem:
            findings.differences.append(_shown(problem))
        columns = await columns_of_table(connection, store.table)
        differing = [
            f"store `{store.name}`: column `{name}` of {store.table} is {columns.get(name) or 'missing'}"
            for name, wanted in store_columns(store).items()
            if columns.get(name) != wanted
        ]
        findings.differences += differing
        if not differing:
            findings.installed.append(f"store `{store.name}`: into {store.table}")
