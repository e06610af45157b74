"""What does a connector put into a database, and is it there?

For each release an outbox `out_NAME` with a column for each attribute. A trigger on the released table
copies written rows into it, within the writer's own transaction: a row of a transaction that does not commit
is never seen. Applications need no rights here: the triggers run with the rights of the role that installed
them, and their text is fixed.

**The order of commits.** A number that a row takes when it is written says nothing about which
transaction commits first. So each transaction that releases something leaves one row in `commits`, which
takes its turn from a sequence in a deferred trigger, at the very end of the transaction. No lock is taken
there: a writer could hold it for as long as its transaction is open, and stop every other writer. A
transaction that commits after another had committed has the higher turn, and is never seen without it. So
the connector gives positions to the commits that it sees for the first time, in the order of their turns
(`docs/decisions/postgres.md`).

**Frames.** `frames` says which rows left together, and under which number, before they leave. What is
published again after a crash is the same frame under the same number, and the broker drops it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, LiteralString
from uuid import uuid4

import psycopg
from psycopg import sql

from maia.errors import BadInput
from maia.events import Attribute, Kind
from maia.postgres.config import PreparedConnector, Release, TableName, TableStore
from maia.postgres.values import CHECKS, COLUMN_TYPES, Connection, ask, rows_of
from maia.views.plan import POSTGRES_TYPES

FORMAT: Final = 3
_EVENT_BYTES_MAX: Final = 2 << 20
_OUTBOX_OWN: Final = {
    "maia_xid": "xid8",
    "maia_started": "timestamp with time zone",
    "maia_row": "bigint",
    "maia_size": "integer",
}
_STORE_OWN: Final = {
    "maia_position": "bigint",
    "maia_row": "integer",
    "maia_publisher": "text",
    "maia_published_at": "timestamp with time zone",
}
_REPLICA_OWN: Final = {**_STORE_OWN, "maia_digest": "bytea"}
"""Of a replica, a row is found again by the digest of its values."""


def channel(schema: str) -> str:
    """Return the channel on which a commit wakes the connector."""
    return f"maia_{schema}"


def trigger_name(schema: str, release: str, event: str) -> str:
    """Return what the trigger on a released table is called."""
    return f"maia_{schema}_{release}_{event}"


def table_sql(table: TableName) -> sql.Identifier:
    """Return a table as an SQL identifier."""
    return sql.Identifier(table.schema, table.table)


# ------------------------------------------------------------ what belongs to every database


def _common(schema: sql.Identifier, channel_name: str) -> Iterable[sql.Composed]:
    statements = (
        "CREATE SCHEMA IF NOT EXISTS {s}",
        "REVOKE ALL ON SCHEMA {s} FROM PUBLIC",
        """CREATE TABLE IF NOT EXISTS {s}.connection (
            is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only), format integer NOT NULL,
            incarnation uuid NOT NULL, system_identifier bigint NOT NULL, database oid NOT NULL,
            broker text, may_rebind boolean NOT NULL DEFAULT true)""",
        "CREATE SEQUENCE IF NOT EXISTS {s}.turns",
        """CREATE TABLE IF NOT EXISTS {s}.commits (
            release text NOT NULL, xid xid8 NOT NULL, started timestamptz NOT NULL, position bigint,
            PRIMARY KEY (release, xid, started))""",
        "ALTER TABLE {s}.commits ADD COLUMN IF NOT EXISTS turn bigint",
        # Format 1 had a lock for the order of commits.
        "DROP FUNCTION IF EXISTS {s}.take_position() CASCADE",
        "DROP TABLE IF EXISTS {s}.turn",
        "CREATE INDEX IF NOT EXISTS commits_in_order ON {s}.commits (release, position)",
        """CREATE TABLE IF NOT EXISTS {s}.releases (
            name text PRIMARY KEY, next_frame bigint NOT NULL DEFAULT 0,
            planned_position bigint NOT NULL DEFAULT 0, planned_row bigint NOT NULL DEFAULT 0,
            refused bigint NOT NULL DEFAULT 0)""",
        """CREATE TABLE IF NOT EXISTS {s}.frames (
            release text NOT NULL, number bigint NOT NULL, upto_position bigint NOT NULL,
            upto_row bigint NOT NULL, PRIMARY KEY (release, number))""",
        """CREATE TABLE IF NOT EXISTS {s}.stores (
            name text PRIMARY KEY, position bigint NOT NULL DEFAULT 0, after bytea,
            stored bigint NOT NULL DEFAULT 0, missed bigint NOT NULL DEFAULT 0)""",
        # A store is served by every broker of the file: how far each has come, and what it will still bring
        # that another one has brought. A broker that was never reached is called by its address.
        "CREATE TABLE IF NOT EXISTS {s}.brokers (address text PRIMARY KEY, broker text NOT NULL)",
        """CREATE TABLE IF NOT EXISTS {s}.cursors (
            store text NOT NULL, broker text NOT NULL, after bytea NOT NULL, PRIMARY KEY (store, broker))""",
        """CREATE TABLE IF NOT EXISTS {s}.awaited (
            store text NOT NULL, broker text NOT NULL, label bytea NOT NULL, stream bytea NOT NULL,
            number bigint NOT NULL, PRIMARY KEY (store, broker, label))""",
        "ALTER TABLE {s}.releases ADD COLUMN IF NOT EXISTS done_frame bigint NOT NULL DEFAULT -1",
        "ALTER TABLE {s}.frames ADD COLUMN IF NOT EXISTS rows integer NOT NULL DEFAULT 0",
        # Format 2 had one broker, and its position with each store.
        """INSERT INTO {s}.cursors SELECT name, broker, after FROM {s}.stores, {s}.connection
            WHERE after IS NOT NULL AND broker IS NOT NULL ON CONFLICT DO NOTHING""",
        "UPDATE {s}.stores SET after = NULL WHERE after IS NOT NULL",
        # A derived row comes through here as well: the trigger is on the outbox itself.
        # A role may be given INSERT on an outbox: what it says of its transaction is its own, or refused.
        """CREATE OR REPLACE FUNCTION {s}.mark() RETURNS trigger LANGUAGE plpgsql
            SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
            BEGIN
                IF EXISTS (SELECT FROM released WHERE maia_row <= 0
                        OR (maia_xid, maia_started) <> (pg_current_xact_id(), transaction_timestamp())) THEN
                    RAISE check_violation USING MESSAGE = 'columns maia_... of an outbox are set by itself';
                ELSIF EXISTS (SELECT FROM released) THEN
                    INSERT INTO {s}.commits (release, xid, started)
                        VALUES (TG_ARGV[0], pg_current_xact_id(), transaction_timestamp())
                        ON CONFLICT DO NOTHING;
                END IF;
                RETURN NULL;
            END $$""",
        """CREATE OR REPLACE FUNCTION {s}.take_turn() RETURNS trigger LANGUAGE plpgsql
            SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
            BEGIN
                UPDATE {s}.commits SET turn = nextval({turns})
                    WHERE release = NEW.release AND xid = NEW.xid AND started = NEW.started;
                PERFORM pg_notify({channel}, '');
                RETURN NULL;
            END $$""",
        "REVOKE ALL ON FUNCTION {s}.mark(), {s}.take_turn() FROM PUBLIC",
        "DROP TRIGGER IF EXISTS take_turn ON {s}.commits",
        """CREATE CONSTRAINT TRIGGER take_turn AFTER INSERT ON {s}.commits
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {s}.take_turn()""",
    )
    turns = sql.Literal(f"{schema.as_string(None)}.turns")
    for text in statements:
        yield sql.SQL(text).format(s=schema, turns=turns, channel=sql.Literal(channel_name))


# ------------------------------------------------------------ releases


def outbox_columns(release: Release) -> dict[str, str]:
    """Return the columns of a release's outbox, with their types as `format_type` calls them."""
    return {**_OUTBOX_OWN, **{one.name: _format_type(one.kind) for one in release.event_type.attributes}}


def _format_type(kind: Kind) -> str:
    return "timestamp with time zone" if kind is Kind.TIMESTAMP else POSTGRES_TYPES[kind]


def _column(attribute: Attribute) -> sql.Composable:
    name, check = sql.Identifier(attribute.name), CHECKS.get(attribute.kind)
    column = sql.SQL("{} {}").format(name, sql.SQL(POSTGRES_TYPES[attribute.kind]))
    if check is None:
        return column
    return sql.SQL("{} CONSTRAINT {} CHECK ({})").format(column, name, sql.SQL(check).format(name))


def _outbox(schema: sql.Identifier, release: Release) -> Iterable[sql.Composed]:
    attributes = release.event_type.attributes
    long = [one for one in attributes if one.kind in (Kind.STRING, Kind.BYTES)]
    size = sql.SQL(" + ").join(
        [
            sql.SQL("0"),
            *(sql.SQL("coalesce(octet_length({}), 0)").format(sql.Identifier(one.name)) for one in long),
        ]
    )
    out = sql.Identifier(f"out_{release.name}")
    columns = [
        sql.SQL("maia_xid xid8 NOT NULL DEFAULT pg_current_xact_id()"),
        sql.SQL("maia_started timestamptz NOT NULL DEFAULT transaction_timestamp()"),
        sql.SQL("maia_row bigint GENERATED ALWAYS AS IDENTITY"),
        *(_column(one) for one in attributes),
        sql.SQL("maia_size integer GENERATED ALWAYS AS ({}) STORED CHECK (maia_size <= {})").format(
            size, sql.Literal(_EVENT_BYTES_MAX)
        ),
        sql.SQL("PRIMARY KEY (maia_xid, maia_started, maia_row)"),
    ]
    yield sql.SQL("CREATE TABLE {}.{} ({})").format(schema, out, sql.SQL(", ").join(columns))
    yield sql.SQL(
        "CREATE TRIGGER mark AFTER INSERT ON {s}.{out} REFERENCING NEW TABLE AS released"
        " FOR EACH STATEMENT EXECUTE FUNCTION {s}.mark({name})"
    ).format(s=schema, out=out, name=sql.Literal(release.name))


def function_body(schema: sql.Identifier, release: Release) -> sql.Composed:
    """Return what the trigger of a release does with the rows that were written, or are taken away."""
    out = sql.Identifier(f"out_{release.name}")
    names = [*release.columns, *([] if release.operation is None else [release.operation])]
    into = sql.SQL("INSERT INTO {s}.{out} ({into}) ").format(
        s=schema, out=out, into=sql.SQL(", ").join(map(sql.Identifier, names))
    )

    def of(rows: LiteralString, *, exact: bool = True) -> sql.Composed:
        kinds = {column: release.event_type.vocabulary[name].kind for name, column in release.columns.items()}
        # Compared by code point: under another collation, two texts that differ may count as equal.
        text = {column for column, kind in kinds.items() if exact and kind is Kind.STRING}
        found = sql.SQL(", ").join(
            sql.SQL('{}::text COLLATE "C"' if one in text else "{}").format(sql.Identifier(rows, one))
            for one in release.columns.values()
        )
        return sql.SQL("SELECT {found} FROM {rows}").format(found=found, rows=sql.Identifier(rows))

    if release.operation is None or release.table is None:
        written = of("written", exact=False)
        return sql.SQL("BEGIN {into}{written}; RETURN NULL; END").format(into=into, written=written)
    return sql.SQL(_BY_OPERATION).format(
        into=into, written=of("written"), removed=of("removed"), table=table_sql(release.table),
        all=sql.SQL(", ").join(sql.Identifier("every", one) for one in release.columns.values()),
    )  # fmt: skip


_BY_OPERATION: Final = """BEGIN
IF TG_OP = 'TRUNCATE' THEN
    -- TRUNCATE takes rows away that an older snapshot does not show: and that would never be released.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE feature_not_supported USING MESSAGE = 'a released table is truncated in READ COMMITTED';
    END IF;
    {into}SELECT {all}, 'truncate' FROM {table} AS every;
ELSIF TG_OP = 'DELETE' THEN
    {into}SELECT gone.*, 'delete' FROM ({removed}) AS gone;
ELSIF TG_OP = 'UPDATE' THEN
    {into}SELECT gone.*, 'delete' FROM ({removed} EXCEPT ALL {written}) AS gone;
    {into}SELECT come.*, 'insert' FROM ({written} EXCEPT ALL {removed}) AS come;
ELSE
    {into}SELECT come.*, 'insert' FROM ({written}) AS come;
END IF;
RETURN NULL; END"""
"""An update is the delete of what a row was and the insert of what it is: each is shown to those who may see
it, and none learns that a row came from, or went, where it sees nothing (A91)."""
EVENTS: Final = ("insert", "update", "delete", "truncate")


def _trigger(schema: sql.Identifier, release: Release, event: str) -> sql.Composed:
    assert release.table is not None  # noqa: S101 - a release without a table has no trigger
    rows: LiteralString = {
        "insert": "AFTER INSERT ON {table} REFERENCING NEW TABLE AS written",
        "update": "AFTER UPDATE ON {table} REFERENCING NEW TABLE AS written OLD TABLE AS removed",
        "delete": "AFTER DELETE ON {table} REFERENCING OLD TABLE AS removed",
        "truncate": "BEFORE TRUNCATE ON {table}",
    }[event]
    if release.operation is None:
        rows = rows.replace(" OLD TABLE AS removed", "")
    return sql.SQL(
        "CREATE OR REPLACE TRIGGER {name} " + rows + " FOR EACH STATEMENT EXECUTE FUNCTION {s}.{function}()"
    ).format(
        name=sql.Identifier(trigger_name(schema.as_string(None).strip('"'), release.name, event)),
        table=table_sql(release.table),
        s=schema,
        function=sql.Identifier(f"release_{release.name}"),
    )


async def _install_release(connection: Connection, schema: sql.Identifier, release: Release) -> None:
    own = TableName(schema.as_string(None).strip('"'), f"out_{release.name}")
    found = await columns_of_table(connection, own)
    if found and found != outbox_columns(release):
        # The type has another version: an outbox is made anew while nothing waits in it.
        if await waiting_rows(connection, own.schema, release.name):
            raise BadInput(
                "INPUT-POSTGRES-ROWS-WAITING",
                f"rows of release `{release.name}` wait to be published in the form of another version; "
                "let the connector publish them, then install",
            )
        await ask(connection, "DROP TABLE {own}", own=table_sql(own))
        found = {}
    if not found:
        for statement in _outbox(schema, release):
            await connection.execute(statement)
    known = "INSERT INTO {s}.releases (name) VALUES (%s) ON CONFLICT DO NOTHING"
    await ask(connection, known, release.name, s=schema)
    await _drop_triggers(connection, own.schema, release.name)
    if release.table is None:
        return
    await _check_released(connection, release)
    function = sql.Identifier(f"release_{release.name}")
    body = sql.Literal(function_body(schema, release).as_string(connection))
    await ask(
        connection,
        "CREATE OR REPLACE FUNCTION {s}.{function}() RETURNS trigger LANGUAGE plpgsql"
        " SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {body}",
        s=schema, function=function, body=body,
    )  # fmt: skip
    await ask(connection, "REVOKE ALL ON FUNCTION {s}.{function}() FROM PUBLIC", s=schema, function=function)
    for event in release.on:
        await connection.execute(_trigger(schema, release, event))


async def resend(connection: Connection, schema_name: str, release: Release) -> int:
    """Release every row that a table has as it is now, as its delete and its insert; return how many.

    A replica that has a row is as it was, and one that has begun since gets it. No row is written meanwhile.
    """
    if release.table is None or release.operation is None:
        raise BadInput(
            "INPUT-POSTGRES-TABLE",
            f"release `{release.name}` has no `operation`: rows that leave again would be new events",
        )
    names = [*release.columns, release.operation]
    async with connection.transaction():
        await ask(connection, "LOCK TABLE {table} IN SHARE MODE", table=table_sql(release.table))
        sent = await ask(
            connection,
            "INSERT INTO {out} ({names}) SELECT {columns}, again.operation FROM {table} AS every CROSS JOIN"
            " (VALUES (1, 'delete'), (2, 'insert')) AS again (step, operation)"
            " ORDER BY every.ctid, again.step",
            out=sql.Identifier(schema_name, f"out_{release.name}"),
            names=sql.SQL(", ").join(map(sql.Identifier, names)),
            columns=sql.SQL(", ").join(sql.Identifier("every", one) for one in release.columns.values()),
            table=table_sql(release.table),
        )
    return sent.rowcount // 2


async def _check_released(connection: Connection, release: Release) -> None:
    assert release.table is not None  # noqa: S101 - asked for such alone
    found = await columns_of_table(connection, release.table)
    if not found:
        raise BadInput(
            "INPUT-POSTGRES-TABLE", f"release `{release.name}`: there is no table `{release.table}`"
        )
    for name, column in release.columns.items():
        allowed = COLUMN_TYPES[release.event_type.vocabulary[name].kind]
        if column not in found:
            raise BadInput(
                "INPUT-POSTGRES-TABLE",
                f"release `{release.name}`: `{release.table}` has no column `{column}`",
            )
        if found[column].partition("(")[0] not in allowed:
            raise BadInput(
                "INPUT-POSTGRES-TABLE",
                f"release `{release.name}`: column `{column}` is {found[column]}, and attribute "
                f"`{name}` needs {' or '.join(sorted(allowed))}",
            )
    may_read = "SELECT has_table_privilege({named}, 'SELECT')"
    named = sql.Literal(table_sql(release.table).as_string(connection))
    if "truncate" in release.on and not (await rows_of(connection, may_read, named=named))[0][0]:
        raise BadInput(
            "INPUT-POSTGRES-TABLE",
            f"release `{release.name}`: to release what TRUNCATE takes away, the role that installs has to "
            f"read `{release.table}`",
        )


async def waiting_rows(connection: Connection, schema: str, release: str) -> int:
    """Return how many rows of a release wait; those that a broker has taken on are kept for another one."""
    asked = (
        "SELECT (SELECT count(*) FROM {out}) - coalesce((SELECT sum(f.rows) FROM {s}.frames f"
        " JOIN {s}.releases r ON r.name = f.release AND f.number <= r.done_frame WHERE f.release = %s), 0)"
    )
    out = sql.Identifier(schema, f"out_{release}")
    return int((await rows_of(connection, asked, release, s=sql.Identifier(schema), out=out))[0][0])


async def _drop_triggers(connection: Connection, schema: str, release: str) -> None:
    """Drop the triggers of a release, on whichever table they are."""
    names = [trigger_name(schema, release, event) for event in EVENTS]
    found = await rows_of(
        connection,
        "SELECT n.nspname, c.relname, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE t.tgname = ANY (%s) AND t.tgparentid = 0",
        names,
    )
    for namespace, table, trigger in found:
        where = sql.Identifier(namespace, table)
        await ask(connection, "DROP TRIGGER {name} ON {where}", name=sql.Identifier(trigger), where=where)


# ------------------------------------------------------------ stores


def store_columns(store: TableStore) -> dict[str, str]:
    """Return the columns that a table needs so that events can be stored in it."""
    own = _STORE_OWN if store.operation is None else _REPLICA_OWN
    return {**own, **{one.name: _format_type(one.kind) for one in store.attributes}}


async def _install_store(connection: Connection, schema: sql.Identifier, store: TableStore) -> None:
    found = await columns_of_table(connection, store.table)
    if not found:
        own = _STORE_OWN if store.operation is None else _REPLICA_OWN
        columns = [
            *(
                sql.SQL("{} {} NOT NULL").format(sql.Identifier(name), sql.SQL(kind))
                for name, kind in own.items()
            ),
            *(
                sql.SQL("{} {}").format(sql.Identifier(one.name), sql.SQL(POSTGRES_TYPES[one.kind]))
                for one in store.attributes
            ),
            sql.SQL("PRIMARY KEY (maia_position, maia_row)"),
        ]
        table, all_columns = table_sql(store.table), sql.SQL(", ").join(columns)
        await ask(connection, "CREATE TABLE {table} ({columns})", table=table, columns=all_columns)
        if store.operation is not None:
            await ask(connection, "CREATE INDEX ON {table} (maia_digest)", table=table)
    for name, wanted in store_columns(store).items():
        if found and found.get(name) != wanted:
            raise BadInput(
                "INPUT-POSTGRES-TABLE",
                f"store `{store.name}`: `{store.table}` needs the column `{name}` of type {wanted}, "
                f"and has {found.get(name) or 'none'}",
            )
    known = "INSERT INTO {s}.stores (name) VALUES (%s) ON CONFLICT DO NOTHING"
    await ask(connection, known, store.name, s=schema)


# ------------------------------------------------------------ all of it


async def columns_of_table(connection: Connection, table: TableName) -> dict[str, str]:
    """Return the columns of a table with their types; nothing if there is no such table."""
    found = await rows_of(
        connection,
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a"
        " JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')"
        " AND a.attnum > 0 AND NOT a.attisdropped",
        table.schema,
        table.table,
    )
    return dict(found)


async def installed_releases(connection: Connection, schema: str) -> set[str]:
    """Return the releases that have an outbox."""
    there = (
        "SELECT name FROM {s}.releases WHERE to_regclass(format('%%I.%%I', %s::text, 'out_' || name))"
        " IS NOT NULL"
    )
    return {name for (name,) in await rows_of(connection, there, schema, s=sql.Identifier(schema))}


async def install(connection: Connection, prepared: PreparedConnector, *, role: str) -> None:
    """Put into the database what the file declares, as a whole or not at all; `role` runs the connector."""
    schema = sql.Identifier(prepared.config.schema)
    async with connection.transaction():
        for statement in _common(schema, channel(prepared.config.schema)):
            await connection.execute(statement)
        known = (
            "INSERT INTO {s}.connection (format, incarnation, system_identifier, database)"
            " SELECT %s, %s, system_identifier, oid FROM pg_control_system(), pg_database"
            " WHERE datname = current_database()"
            " ON CONFLICT (is_only) DO UPDATE SET format = EXCLUDED.format"
        )
        await ask(connection, known, FORMAT, uuid4(), s=schema)
        await _remove_undeclared(connection, prepared)
        for release in prepared.releases:
            await _install_release(connection, schema, release)
        for store in prepared.stores:
            await _install_store(connection, schema, store)
        await _grant(connection, schema, prepared, role)


async def _remove_undeclared(connection: Connection, prepared: PreparedConnector) -> None:
    """Take releases out that the file does not declare any more; rows that wait are not lost."""
    schema_name = prepared.config.schema
    schema = sql.Identifier(schema_name)
    installed = await installed_releases(connection, schema_name)
    for name in installed - {one.name for one in prepared.releases}:
        out = sql.Identifier(schema_name, f"out_{name}")
        await _drop_triggers(connection, schema_name, name)
        if await waiting_rows(connection, schema_name, name):
            raise BadInput(
                "INPUT-POSTGRES-ROWS-WAITING",
                f"rows of release `{name}` wait to be published, and the file does not declare it any more; "
                "let the connector publish them with the old file, then install",
            )
        await ask(connection, "DROP TABLE {out}", out=out)
        # Its numbers are kept: if it is declared again one day, none of them is used a second time.
        await ask(connection, "DELETE FROM {s}.commits WHERE release = %s", name, s=schema)
        await ask(connection, "DELETE FROM {s}.frames WHERE release = %s", name, s=schema)


async def _grant(
    connection: Connection, schema: sql.Identifier, prepared: PreparedConnector, role: str
) -> None:
    """Let the role that runs the connector do what it has to, and nothing else."""
    grants: tuple[LiteralString, ...] = (
        "USAGE ON SCHEMA {s}",
        "SELECT, UPDATE ON {s}.connection, {s}.releases, {s}.stores",
        "SELECT, INSERT, UPDATE, DELETE ON {s}.brokers, {s}.cursors, {s}.awaited",
        "SELECT, INSERT, DELETE ON {s}.frames",
        "SELECT, UPDATE (position), DELETE ON {s}.commits",
    )
    to = sql.Identifier(role)
    for one in grants:
        await ask(connection, "GRANT " + one + " TO {role}", s=schema, role=to)
    for release in prepared.releases:
        out = sql.Identifier(f"out_{release.name}")
        await ask(
            connection, "GRANT SELECT, INSERT, DELETE ON {s}.{out} TO {role}", s=schema, out=out, role=to
        )
    for store in prepared.stores:
        table = table_sql(store.table)
        await ask(connection, "GRANT SELECT, INSERT ON {table} TO {role}", table=table, role=to)
        if store.operation is not None:
            await ask(connection, "GRANT DELETE ON {table} TO {role}", table=table, role=to)


async def remove(connection: Connection, schema_name: str, *, force: bool) -> list[str]:
    """Take everything out but the tables that events were stored in; return the names of the releases."""
    schema = sql.Identifier(schema_name)
    async with connection.transaction():
        try:
            releases = sorted(await installed_releases(connection, schema_name))
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            raise BadInput(
                "INPUT-POSTGRES-TABLE", f"nothing of a connector is installed in schema `{schema_name}`"
            ) from None
        for name in releases:
            if not force and await waiting_rows(connection, schema_name, name):
                raise BadInput(
                    "INPUT-POSTGRES-ROWS-WAITING",
                    f"rows of release `{name}` wait to be published; say `--force` to lose them",
                )
            await _drop_triggers(connection, schema_name, name)
        await ask(connection, "DROP SCHEMA {s} CASCADE", s=schema)
    return releases
