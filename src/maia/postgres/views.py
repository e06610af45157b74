"""How does a principal's View become an SQL view of a database role, and how does it end with its right?

    views = InstalledViews(connection, "maia_views")
    views.install()
    outcomes = views.renew(prepared, monitor, now)

Each reader and table has one view with `security_barrier`, and its role may select from that and from
nothing else. By default the view is over a function that runs the query. What the View asks of rows is then
in a table that only the owner of the views reads, and in no plan, view text or error of the reader
(docs/decisions/postgres-views.md).

A view shows no row after the `until` of its entry, by the clock of the database, in whatever transaction. A
right that is gone is taken from the role first, which waits for no lock, and the view is dropped after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from maia.credentials import Principal, principal_from_text
from maia.errors import BadInput, MaiaError, Refusal, Unavailable
from maia.events import SECOND, Instant
from maia.ledger.files import LedgerUnavailable
from maia.ledger.records import TableRead
from maia.postgres.view_definitions import (
    ROW_ID,
    DeclaredTable,
    ViewDefinition,
    ViewLedger,
    check_ledger,
    view_definition,
)
from maia.postgres.view_settings import (
    PreparedViews,
    ViewReader,
)
from maia.validity import Monitor
from maia.views import POSTGRES_TYPES, Query
from maia.views.to_sql import Operand, quoted

if TYPE_CHECKING:
    import psycopg


LOCK_MS: Final = 2_000
"""How long the removal of a view waits for readers, who see nothing more; the next renewal tries again."""
CONNECT_S: Final = 15
READS_WAITING_MAX: Final = 100_000
ROWS_WAITING_MAX: Final = 100_000_000
"""How many reads, and rows that were shown, of one view may wait for the next renewal."""
_ENTRIES: Final = "installed"
_ROWS: Final = "_rows"
_SERVER_MIN: Final = 150_000
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,50}", re.ASCII)


class DatabaseUnavailable(Unavailable):
    """The database cannot be reached, or refused a statement."""

    code = "UNAVAILABLE-DATABASE"


class ViewBusy(DatabaseUnavailable):
    """A transaction uses what is to be changed, and did not end in time."""

    code = "UNAVAILABLE-VIEW-BUSY"


@contextmanager
def connected(database: str) -> Iterator[psycopg.Connection[Any]]:
    """Connect as the owner of the views."""
    # Any: rows are tuples of whatever a statement returns.
    import psycopg

    try:
        connection = psycopg.connect(database, autocommit=True, connect_timeout=CONNECT_S)
    except psycopg.Error as problem:
        # The address can hold a password, so only the kind of the problem is shown.
        raise DatabaseUnavailable(f"PostgreSQL cannot be reached: {type(problem).__name__}") from None
    with connection:
        yield connection


@dataclass(frozen=True, slots=True)
class InstalledView:
    """One entry: which view is for whom, and until when it shows rows."""

    name: str
    role: str
    principal: str
    type_name: str
    table: str
    until: Instant | None
    certificates: tuple[str, ...]
    is_ended: bool = False
    """Whether its right is gone, and only a reader's transaction keeps it from being dropped."""

    @property
    def source(self) -> str:
        """Return what the ledger calls it."""
        return f"{self.table} as {self.role}"


@dataclass(frozen=True, slots=True)
class _AskedView:
    """One view that is to be as its reader's right is now."""

    name: str
    reader: ViewReader
    table: DeclaredTable
    monitor: Monitor
    now: Instant
    ledger: ViewLedger | None

    def failed(self, problem: MaiaError) -> ViewOutcome:
        """Return what became of it where the database or the ledger failed."""
        return ViewOutcome(
            self.name, self.reader.role, self.reader.reader.principal, "failed", problem=problem
        )


@dataclass(frozen=True, slots=True)
class ViewOutcome:
    """What became of one view: what it is now, or why it is not there."""

    name: str
    role: str
    principal: Principal | None
    what: str
    """`made`, `renewed`, `removed`, `ended` (a reader keeps it from being dropped), `none` or `failed`."""
    definition: ViewDefinition | None = None
    until: Instant | None = None
    problem: MaiaError | None = None

    @property
    def shows(self) -> bool:
        """Return whether the view shows anything."""
        return self.definition is not None and self.problem is None


class InstalledViews:
    """The views in one schema of a database."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str, *, lease_s: int = 0) -> None:
        """Work in `schema`; a view shows rows for `lease_s` after a renewal, or while its right holds."""
        self._connection, self.schema, self._lease_s = connection, schema, lease_s
        if _SCHEMA.fullmatch(schema) is None:
            raise BadInput(
                "INPUT-SQL-IDENTIFIER", f"`{schema[:64]}` is no name of lower case letters, digits and `_`"
            )
        self._schema = _identifier(schema)
        self._entries = f"{self._schema}.{_ENTRIES}"

    def install(self) -> None:
        """Make the schema and the table of entries, unless they are there."""
        if self._connection.info.server_version < _SERVER_MIN:
            raise BadInput("POSTGRES-NOT-INSTALLED", "views need PostgreSQL 15 or later")
        with self._work():
            owner = self._connection.execute(
                "SELECT pg_get_userbyid(nspowner) = current_user FROM pg_namespace WHERE nspname = %s",
                (self.schema,),
            ).fetchone()
            if owner is None:  # an administrator may have made it, so that its owner need make no other
                self._execute(f"CREATE SCHEMA {self._schema}")
            elif not owner[0]:
                raise Refusal("POSTGRES-SCHEMA-TAKEN", f"the schema `{self.schema}` belongs to another role")
            self._execute(f"REVOKE ALL ON SCHEMA {self._schema} FROM PUBLIC")
            self._execute(
                f"CREATE TABLE IF NOT EXISTS {self._entries} (name text PRIMARY KEY, role text NOT NULL, "
                "principal text NOT NULL, type text NOT NULL, source text NOT NULL, "
                "until timestamptz NOT NULL, certificates text[] NOT NULL, digest text NOT NULL, "
                "query text NOT NULL)",
            )
            self._execute(f"REVOKE ALL ON TABLE {self._entries} FROM PUBLIC")
            self._make_reads()

    def renew(
        self,
        prepared: PreparedViews,
        monitor: Monitor,
        now: Instant,
        ledger: ViewLedger | None = None,
    ) -> list[ViewOutcome]:
        """Decide every reader's right again; make, renew and remove views accordingly.

        What fails for one view leaves the others as they should be.
        """
        before = {one.name: (one, digest) for one, digest in self._read()}
        outcomes: list[ViewOutcome] = []
        try:
            self.collect(now, ledger)
        except (DatabaseUnavailable, LedgerUnavailable) as problem:
            # Rights end all the same. What was read waits, and a view with too much of it shows nothing.
            outcomes.append(ViewOutcome("reads", "", None, "failed", problem=problem))
        wanted: set[str] = set()
        for reader in prepared.readers:
            for table in reader.tables:
                asked = _AskedView(f"{reader.role}_{table.name}", reader, table, monitor, now, ledger)
                wanted.add(asked.name)
                try:
                    outcome = self._renewed(asked, *before.get(asked.name, (None, "")))
                except (DatabaseUnavailable, LedgerUnavailable) as problem:
                    if self._connection.closed:
                        raise
                    outcome = asked.failed(problem)
                outcomes.append(outcome)
        for name in sorted(before.keys() - wanted):
            outcomes.append(self._removed(before[name][0], now, ledger))
        return outcomes

    # ------------------------------------------------------------ what is read
    #
    # Each read leaves a row in `reads`, in the reader's own transaction. A reader can roll that back, and
    # cannot roll back the two sequences of its view: how many reads there were, and how many rows were shown.
    # What they have and `reads` does not is on record as reads whose transactions did not commit.

    def _make_reads(self) -> None:
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {self._schema}.reads (view text, number bigint, "
            "at timestamptz NOT NULL DEFAULT clock_timestamp(), role text NOT NULL DEFAULT session_user, "
            "rows bigint NOT NULL, ids text[], PRIMARY KEY (view, number))"
        )
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {self._schema}.counted (view text PRIMARY KEY, role text NOT NULL, "
            "principal text NOT NULL, source text NOT NULL, reads bigint NOT NULL DEFAULT 0, "
            "rows bigint NOT NULL DEFAULT 0)"
        )

    def _counters(self, view: str) -> tuple[str, str]:
        """Return the sequences of a view: its reads, and the rows that it has shown."""
        digest = sha256(view.encode()).hexdigest()[:16]
        return f"{self._schema}.n_{digest}", f"{self._schema}.r_{digest}"

    def _noting(self, name: str, text: str, table: DeclaredTable, definition: ViewDefinition) -> str:
        """Return a View's query that leaves a row in `reads` as well."""
        columns = ", ".join(_identifier(one.name) for one in definition.columns)
        number = _literal(self._counters(name)[0])
        ids = "NULL" if table.row_id is None else f"array_agg(shown.{ROW_ID})"
        return (
            f"WITH shown AS MATERIALIZED ({text}), noted AS (INSERT INTO {self._schema}.reads "
            f"(view, number, rows, ids) SELECT {_literal(name)}, nextval({number}), count(*), {ids} "
            f"FROM shown) SELECT {columns} FROM shown"
        )

    def collect(self, now: Instant, ledger: ViewLedger | None) -> None:
        """Take what was read since the last time over into the ledger, where it is before it is deleted."""
        if ledger is None:
            return
        with self._work():
            self._make_reads()
            noted: dict[str, list[tuple[Any, ...]]] = {}
            taken = f"DELETE FROM {self._schema}.reads RETURNING view, number, at, role, rows, ids"
            for view, *about in self._connection.execute(taken.encode()).fetchall():
                noted.setdefault(view, []).append(tuple(about))
            known = f"SELECT view, role, principal, source, reads, rows FROM {self._schema}.counted"
            records: list[TableRead] = []
            for view, role, principal, source, before, rows_before in self._connection.execute(
                known.encode()
            ).fetchall():
                reads, rows = (self._value_of(one) for one in self._counters(view))
                who, what = principal_from_text(principal).key, f"{source} as {role}"
                mine = sorted(noted.get(view, []))
                for number, at, session, count, ids in mine:
                    moment, named = int(Instant.from_datetime(at)), None if ids is None else tuple(ids)
                    records.append(TableRead(moment, who, what, session, number, 1, count, named))
                missing = reads - before - sum(number > before for number, *_ in mine)
                unseen = max(0, rows - rows_before - sum(one[3] for one in mine))
                if missing or unseen:
                    records.append(TableRead(int(now), who, what, role, 0, missing, unseen))
                self._execute(
                    f"UPDATE {self._schema}.counted SET reads = %s, rows = %s WHERE view = %s",
                    (reads, rows, view),
                )
            ledger.read(now, records)

    def _value_of(self, sequence: str) -> int:
        found = self._connection.execute(
            f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}".encode()
        ).fetchone()
        return 0 if found is None else int(found[0])

    def entries(self) -> list[InstalledView]:
        """Return the views that are there."""
        return [one for one, _ in self._read()]

    def remove(self, now: Instant, ledger: ViewLedger | None = None) -> list[ViewOutcome]:
        """Remove every view, and the schema with the last."""
        outcomes = [self._removed(one, now, ledger) for one, _ in self._read()]
        self.collect(now, ledger)
        if all(one.what == "removed" for one in outcomes):
            with self._work():
                self._make_reads()
                counted = f"SELECT view FROM {self._schema}.counted".encode()
                for (view,) in self._connection.execute(counted).fetchall():
                    for sequence in self._counters(view):
                        self._execute(f"DROP SEQUENCE {sequence}")
                self._execute(f"DROP TABLE {self._schema}.reads, {self._schema}.counted")
                self._execute(f"DROP TABLE {self._entries}")
                self._execute(f"DROP SCHEMA {self._schema}")
        return outcomes

    def _renewed(self, asked: _AskedView, entry: InstalledView | None, digest: str) -> ViewOutcome:
        reader, table, now, ledger = asked.reader, asked.table, asked.now, asked.ledger
        name, role, who = asked.name, asked.reader.role, asked.reader.reader.principal
        try:
            # What is wrong with the role or the table ends the view as much as what is wrong with the right.
            check_ledger(table, ledger)
            if reader.problem is not None:
                raise reader.problem
            with self._work():
                self._check_role(role, table)
                _check_columns(self._connection, table)
            if ledger is None or not table.records_reads:
                table = replace(table, records_reads=False, row_id=None)
            definition = view_definition(table, reader.reader, asked.monitor, now)
            text = written(definition.query, self._connection)
            if table.records_reads:
                text = self._noting(name, text, table, definition)
        except DatabaseUnavailable:
            raise
        except MaiaError as problem:
            if entry is None:
                return ViewOutcome(name, role, who, "none", problem=problem)
            gone = self._removed(entry, now, ledger)
            return ViewOutcome(name, role, who, gone.what, problem=problem)
        until = definition.until
        if self._lease_s:
            lease = Instant(now + self._lease_s * SECOND)
            until = lease if until is None else Instant(min(lease, until))
        newer = _digest(text, definition, role, table)
        certificates = [one.hex() for one in definition.certificates]
        if entry is not None and newer == digest and not entry.is_ended:
            if ledger is not None and entry.certificates != tuple(certificates):
                ledger.opened(who, entry.source, table, definition, definition.until, now)
            with self._work():
                self._execute(
                    f"UPDATE {self._entries} SET until = %s, certificates = %s WHERE name = %s",
                    (_moment(until), certificates, name),
                )
            return ViewOutcome(name, role, who, "renewed", definition, until)
        if entry is not None and self._removed(entry, now, ledger).what != "removed":
            busy = DatabaseUnavailable("the former view is being read; until it is replaced it shows nothing")
            return ViewOutcome(name, role, who, "ended", problem=busy)
        path = ".".join((table.table,) if isinstance(table.table, str) else table.table)
        made = InstalledView(
            name, role, str(who), table.versions[-1].name.name, path, until, tuple(certificates)
        )
        if ledger is not None:
            # On record before it is there: a crash between the two records a view that nobody reads.
            ledger.opened(who, made.source, table, definition, definition.until, now)
        values = (name, role, made.principal, made.type_name, path, _moment(until), certificates, newer, text)
        with self._work():
            self._execute(f"INSERT INTO {self._entries} VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", values)
            self._make(made, text, definition, table)
        return ViewOutcome(name, role, who, "made", definition, until)

    def _make(
        self, entry: InstalledView, text: str, definition: ViewDefinition, table: DeclaredTable
    ) -> None:
        name = entry.name
        view, rows = f"{self._schema}.{_identifier(name)}", f"{self._schema}.{_identifier(name + _ROWS)}"
        key, to = written(Query("%s", (name,)), self._connection), _identifier(entry.role)
        source, counters = f"({text})", self._counters(name)
        if table.records_reads:
            for sequence in counters:
                self._execute(f"CREATE SEQUENCE IF NOT EXISTS {sequence}")
            self._execute(
                f"INSERT INTO {self._schema}.counted VALUES (%s, %s, %s, %s) ON CONFLICT (view) DO UPDATE "
                "SET role = EXCLUDED.role, principal = EXCLUDED.principal, source = EXCLUDED.source",
                (name, entry.role, entry.principal, entry.table),
            )
        if table.hides_plans:
            source = f"{rows}()"
            noted = (f"{self._schema}.counted", *counters) if table.records_reads else None
            self._execute(_function(rows, key, self._entries, definition, noted))
            self._execute(f"REVOKE ALL ON FUNCTION {rows}() FROM PUBLIC")
            self._execute(f"GRANT EXECUTE ON FUNCTION {rows}() TO {to}")
        self._execute(
            f"CREATE VIEW {view} WITH (security_barrier = true) AS SELECT * FROM {source} AS shown "
            f"WHERE clock_timestamp() <= (SELECT i.until FROM {self._entries} AS i WHERE i.name = {key})",
        )
        self._execute(f"GRANT USAGE ON SCHEMA {self._schema} TO {to}")
        self._execute(f"GRANT SELECT ON {view} TO {to}")

    def _removed(
        self,
        entry: InstalledView,
        now: Instant,
        ledger: ViewLedger | None,
    ) -> ViewOutcome:
        """End a view at once, and drop it if no transaction reads it."""
        name, role = entry.name, entry.role
        view, rows = f"{self._schema}.{_identifier(name)}", f"{self._schema}.{_identifier(name + _ROWS)}"
        with self._work():
            self._execute(f"UPDATE {self._entries} SET until = '-infinity' WHERE name = %s", (name,))
            # A transaction with an old snapshot does not see the update. It does see that it may not select.
            for what, there in (
                (f"TABLE {view}", f"to_regclass({_literal(view)})"),
                (f"FUNCTION {rows}()", f"to_regprocedure({_literal(rows + '()')})"),
            ):
                found = self._connection.execute(f"SELECT {there} IS NOT NULL".encode()).fetchone()
                if found is not None and found[0]:
                    self._execute(f"REVOKE ALL ON {what} FROM {_identifier(role)}")
        if ledger is not None and not entry.is_ended:
            ledger.closed(principal_from_text(entry.principal), entry.source, now)
        try:
            with self._work():
                self._execute(f"DROP VIEW IF EXISTS {view}")
                self._execute(f"DROP FUNCTION IF EXISTS {rows}()")
                self._execute(f"DELETE FROM {self._entries} WHERE name = %s", (name,))
                left = self._connection.execute(
                    f"SELECT 1 FROM {self._entries} WHERE role = %s".encode(), (role,)
                ).fetchone()
                if left is None:  # nothing that belongs to the role is left behind
                    self._execute(f"REVOKE ALL ON SCHEMA {self._schema} FROM {_identifier(role)}")
        except ViewBusy:
            return ViewOutcome(name, role, None, "ended")
        return ViewOutcome(name, role, None, "removed")

    def _check_role(self, role: str, table: DeclaredTable) -> None:
        """Refuse a role that could read the table, or the entries, without the view."""
        there = self._connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
        if there is None:
            raise BadInput("POSTGRES-NOT-INSTALLED", f"there is no database role `{role[:64]}`")
        for path in (table.table, (self.schema, _ENTRIES)):
            named = _path(path)
            found = self._connection.execute(
                # A role may also become each role that it is a member of.
                "SELECT rolname FROM pg_roles WHERE pg_has_role(%s, oid, 'MEMBER') AND (rolsuper OR "
                "has_any_column_privilege(oid, to_regclass(%s), 'SELECT')) LIMIT 1",
                (role, named),
            ).fetchone()
            if found is not None:
                raise Refusal(
                    "POSTGRES-ROLE-READS-TABLE", f"the role `{role}` reads {named} by itself, as `{found[0]}`"
                )

    def _read(self) -> list[tuple[InstalledView, str]]:
        with self._work():
            there = self._connection.execute("SELECT to_regclass(%s)", (self._entries,)).fetchone()
            if there is None or there[0] is None:
                raise BadInput(
                    "POSTGRES-NOT-INSTALLED",
                    f"there are no views in the schema `{self.schema}`; `install` makes them",
                )
            rows = self._connection.execute(
                "SELECT name, role, principal, type, source, CASE WHEN isfinite(until) THEN until END, "
                f"until = '-infinity', certificates, digest FROM {self._entries} ORDER BY name".encode()
            ).fetchall()
        found = []
        for name, role, principal, type_name, source, until, is_ended, certificates, digest in rows:
            ends = Instant(0) if is_ended else None if until is None else Instant.from_datetime(until)
            entry = InstalledView(
                name, role, principal, type_name, source, ends, tuple(certificates), is_ended
            )
            found.append((entry, digest))
        return found

    @contextmanager
    def _work(self) -> Iterator[None]:
        """Work in one transaction, alone in this schema, with no schema in the way of the catalogue."""
        import psycopg

        try:
            with self._connection.transaction():
                self._connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
                self._connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
                # No advisory lock: every role can hold one, and a reader would keep its own right alive.
                own = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = %s"
                if self._connection.execute(own, (self.schema, _ENTRIES)).fetchone() is not None:
                    self._execute(f"LOCK TABLE {self._entries} IN SHARE ROW EXCLUSIVE MODE")
                yield
        except psycopg.errors.LockNotAvailable:
            raise ViewBusy("another transaction uses the table or the view") from None
        except (psycopg.Error, OSError) as problem:
            # The sentence of the server can hold a row, or the text of a View.
            raise DatabaseUnavailable(f"PostgreSQL refused: {type(problem).__name__}") from None

    def _execute(self, text: str, operands: Sequence[object] | None = None) -> None:
        self._connection.execute(text.encode(), operands)


def _function(
    rows: str, key: str, entries: str, definition: ViewDefinition, noted: tuple[str, str, str] | None
) -> str:
    """Return the function that runs a View's query.

    It says nothing to the reader but rows: an error of the query, its cancellation and what the server
    prints about plans would all quote it. Where reads are `noted`, it shows nothing once too many wait for
    the ledger, and counts what it shows by a sequence, which no rollback takes back.
    """
    limit = count = ""
    if noted is not None:
        counted, reads, shown = noted
        limit = (
            f"IF (SELECT n.last_value - c.reads > {READS_WAITING_MAX} "
            f"OR r.last_value - c.rows > {ROWS_WAITING_MAX} "
            f"FROM {counted} AS c, {reads} AS n, {shown} AS r WHERE c.view = {key}) THEN\n"
            "RAISE configuration_limit_exceeded; END IF;\n"
        )
        count = (
            "GET DIAGNOSTICS maia_rows = ROW_COUNT;\n"
            f"PERFORM nextval({_literal(shown)}) FROM generate_series(1, maia_rows);\n"
        )
    columns = ", ".join(f"{_identifier(one.name)} {POSTGRES_TYPES[one.kind]}" for one in definition.columns)
    return (
        f"CREATE FUNCTION {rows}() RETURNS TABLE ({columns}) LANGUAGE plpgsql "
        f"{'STABLE' if noted is None else 'VOLATILE'} SECURITY DEFINER "
        "SET search_path = pg_catalog, pg_temp SET client_min_messages = error SET debug_print_plan = off "
        "SET debug_print_parse = off SET debug_print_rewritten = off AS $maia$\n"
        "#variable_conflict use_column\n"
        "DECLARE maia_query text; maia_rows bigint;\nBEGIN\n"
        f"SELECT i.query INTO maia_query FROM {entries} AS i\n"
        f"WHERE i.name = {key} AND clock_timestamp() <= i.until;\n"
        f"IF maia_query IS NOT NULL THEN\n{limit}RETURN QUERY EXECUTE maia_query;\n{count}END IF;\n"
        "EXCEPTION WHEN query_canceled OR OTHERS THEN\n"
        "RAISE EXCEPTION 'the view cannot be read now' USING ERRCODE = SQLSTATE;\n"
        "END $maia$"
    )


def _check_columns(connection: psycopg.Connection[Any], table: DeclaredTable) -> None:
    """Refuse a table that is not there, or whose columns are not of the declared kinds."""
    named = _path(table.table)
    rows = connection.execute(
        "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
        "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        (named,),
    ).fetchall()
    found = {str(name): "timestamptz" if kind == "timestamp with time zone" else kind for name, kind in rows}
    if not found:
        raise BadInput("INPUT-STORED-COLUMNS", f"there is no table {named}")
    wanted = {table.columns[uid]: POSTGRES_TYPES[kind] for uid, kind in table.kinds.items()}
    if table.published_at is not None:
        wanted[table.published_at] = "timestamptz"
    if table.row_id is not None and table.row_id not in found:
        raise BadInput(
            "INPUT-STORED-COLUMNS", f"{named} has no column `{table.row_id}`, which `row_id` names"
        )
    for column, kind in wanted.items():
        if found.get(column) != kind:
            shown = found.get(column, "not there")
            raise BadInput(
                "INPUT-STORED-COLUMNS", f"the column `{column}` of {named} is to be {kind}, and is {shown}"
            )


def _digest(text: str, definition: ViewDefinition, role: str, table: DeclaredTable) -> str:
    columns = [(one.name, one.kind.value) for one in definition.columns]
    return sha256(json.dumps([text, columns, role, table.hides_plans]).encode()).hexdigest()


def written(query: Query, connection: psycopg.Connection[Any]) -> str:
    """Return a query with its operands as literals, quoted by the driver: a view has no placeholders.

    Each is text that its type follows. A negative number would otherwise be a sign and a number too large.
    """
    from psycopg import ClientCursor

    return ClientCursor(connection).mogrify(query.text.encode(), [_as_text(one) for one in query.operands])


def _as_text(operand: Operand) -> str | list[str]:
    match operand:
        case list():
            return [str(_as_text(one)) for one in operand]
        case str() if "\0" in operand:
            raise BadInput(
                "INPUT-SQL-IDENTIFIER",
                "the view compares with a text with a zero, which PostgreSQL cannot hold",
            )
        case str():
            return operand
        case bytes():
            return "\\x" + operand.hex()
        case datetime():
            return operand.isoformat()
        case bool() | int() | float():
            return repr(operand)


def _identifier(name: str) -> str:
    return quoted(name).replace("%%", "%")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _path(table: str | tuple[str, ...]) -> str:
    return ".".join(map(_identifier, (table,) if isinstance(table, str) else table))


def _moment(until: Instant | None) -> str:
    return "infinity" if until is None else until.to_datetime().isoformat()
