"""A reader with a database role of its own gets no more out of a View than its rows.

The role may run any SQL: functions of its own, EXPLAIN, casts that fail, settings of
the session, the catalogue, transactions that stay open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from maia.clock import system_now
from maia.credentials import (
    UNBOUNDED,
    Action,
    OnlineTest,
    SignedCertificate,
    SigningKey,
    TestKind,
    TypePattern,
    Validity,
    exact_name,
)
from maia.events import SECOND, AttributeUid, Instant
from maia.ledger.files import LedgerFiles
from maia.postgres.view_definitions import ViewLedger
from maia.postgres.views import InstalledViews
from maia.predicates import parse_predicate
from maia.testing import grant
from maia.testing.refusals import raises
from maia.types import sign_definition, verify_definition
from maia.validity import Monitor
from support.homecare import CARER, DOCTOR, HOSPITAL, PRESCRIBE
from support.sql_views import Hospital, hospital, open_plans
from support.statements import NOON, crl

LEAKY = (
    "CREATE FUNCTION pg_temp.leak(seen text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS "
    "$$ BEGIN RAISE NOTICE 'leaked %', seen; RETURN true; END $$"
)


@pytest.fixture(scope="module")
def database(postgres_server: str) -> Iterator[Hospital]:
    with hospital(postgres_server) as found:
        yield found


def right(
    where: str = "true",
    *,
    attributes: tuple[str, ...] = ("1", "4"),
    validity: Validity | None = None,
    to: SigningKey = CARER,
) -> SignedCertificate:
    """Let the carer, or another, see some attributes of some prescriptions."""
    vocabulary = PRESCRIBE.definition.vocabulary
    return grant(
        HOSPITAL,
        to,
        TypePattern(HOSPITAL.principal, exact_name("nhs.Prescribe"), None),
        Action.SUBSCRIBE,
        attributes=frozenset(AttributeUid(uid) for uid in attributes),
        restriction=parse_predicate(where, vocabulary),
        validity=validity or UNBOUNDED,
    )


HIDDEN = 'not patient == "O\'Neil \\\\ 7%"'


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[ViewLedger]:
    with LedgerFiles(tmp_path / "ledger") as files:
        yield ViewLedger(files, HOSPITAL.principal)


@pytest.fixture(params=["hidden", "open", "recorded"])
def view(database: Hospital, ledger: ViewLedger, request: pytest.FixtureRequest) -> str:
    """The view of a carer from whom one patient is hidden: over a function, without, with reads noted."""
    table = open_plans(database.table) if request.param == "open" else database.table
    noted = ledger if request.param == "recorded" else None
    (made,) = database.renew((CARER, [right(HIDDEN)]), table=table, ledger=noted)
    assert made.shows, made.problem
    return database.view()


def test_a_function_of_the_reader_is_handed_no_hidden_row(database: Hospital, view: str):
    """A93: the cheapest function in a WHERE runs after the View has decided, also once the View has ended."""
    said: list[str] = []
    with database.role() as session:
        session.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        session.execute(LEAKY)
        found = session.execute(f"SELECT patient, drug FROM {view} WHERE pg_temp.leak(patient)").fetchall()
        assert sorted(found) == [("Ann", None), ("Bob", None)]
        assert sorted(said) == ["leaked Ann", "leaked Bob"]
        said.clear()
        database.owner.execute("UPDATE shown.installed SET until = clock_timestamp()")
        assert session.execute(f"SELECT 1 FROM {view} WHERE pg_temp.leak(patient)").fetchall() == []
        assert said == []


def test_a_cast_that_fails_names_no_hidden_value(database: Hospital, view: str):
    """A93: the error is about a row that the reader sees."""
    with database.role() as session, pytest.raises(psycopg.Error) as refused:
        session.execute(f"SELECT 1 FROM {view} WHERE patient::int = 1 OR place::int = 1")
    assert "O'Neil" not in str(refused.value)
    assert "NW1" not in str(refused.value)


@pytest.mark.parametrize("is_noted", [False, True])
def test_no_plan_text_or_setting_shows_what_a_view_asks(
    database: Hospital, ledger: ViewLedger, is_noted: bool
):
    """A93: plans, counts of withheld rows, the catalogue, errors and debug output are silent."""
    (made,) = database.renew((CARER, [right(HIDDEN)]), ledger=ledger if is_noted else None)
    assert made.shows
    view, said = database.view(), []
    with database.role() as session:
        session.add_notice_handler(
            lambda notice: said.append(str(notice.message_primary) + str(notice.context))
        )
        for explain in ("EXPLAIN VERBOSE", "EXPLAIN (ANALYZE, VERBOSE, BUFFERS)"):
            said += [row[0] for row in session.execute(f"{explain} SELECT * FROM {view}").fetchall()]
        for question in (
            "SELECT definition FROM pg_views WHERE schemaname = 'shown'",
            "SELECT prosrc FROM pg_proc",
            "SELECT description FROM pg_description",
            "SELECT view_definition FROM information_schema.views",
            "SELECT routine_definition FROM information_schema.routines",
        ):
            said += [str(row[0]) for row in session.execute(question).fetchall()]
        for setting in ("debug_print_plan", "debug_print_parse", "debug_print_rewritten"):
            session.execute(f"SET {setting} = on")
        session.execute("SET client_min_messages = debug5")
        session.execute(f"SELECT * FROM {view}")
        session.execute("SET client_min_messages = notice")
        database.owner.execute("CREATE INDEX ON public.prescriptions (patient)")
        with database.owner.transaction():
            # The reader waits for the table, and gives up in the middle of the query.
            database.owner.execute("LOCK TABLE public.prescriptions")
            session.execute("SET statement_timeout = 200")
            with pytest.raises(psycopg.errors.QueryCanceled) as refused:
                session.execute(f"SELECT * FROM {view}")
        said.append(str(refused.value) + str(refused.value.diag.context))
    everything = "\n".join(said)
    assert "shown" in everything, "the view itself is there"
    for hidden in ("Neil", "public.prescriptions", "Seq Scan on prescriptions", "Removed by Filter"):
        assert hidden not in everything, hidden
    (made,) = database.renew((CARER, [right(HIDDEN)]), table=open_plans(database.table))
    assert made.shows
    with database.role() as session:
        plan = "\n".join(
            row[0] for row in session.execute(f"EXPLAIN ANALYZE SELECT * FROM {view}").fetchall()
        )
        assert "Neil" in plan, "an owner who opens the plans shows the policy, and how many rows it withholds"
        assert "Rows Removed by Filter: 1" in plan


def test_a_role_reads_neither_the_table_nor_the_entries(database: Hospital, view: str):
    """A93: the views are all that was granted."""
    for table in ("public.prescriptions", "shown.installed"):
        with database.role() as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(f"SELECT * FROM {table}")
    with database.role(1) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(f"SELECT * FROM {view}")
    with database.role() as session, pytest.raises(psycopg.Error):
        session.execute(f"DELETE FROM {view}")


def test_no_setting_or_object_of_the_reader_changes_what_a_view_asks(database: Hospital, view: str):
    """A72, A93: the text runs in the reader's session, and means there what it meant to its author."""
    settings = {
        "standard_conforming_strings": "off",
        "backslash_quote": "on",
        "transform_null_equals": "on",
        "array_nulls": "off",
        "datestyle": "'SQL, DMY'",
        "timezone": "'Pacific/Kiritimati'",
        "search_path": "pg_temp, public",
    }
    with database.role() as session:
        for name, value in settings.items():
            session.execute(f"SET {name} = {value}")
        session.execute("CREATE TEMPORARY TABLE installed (name text, until timestamptz, query text)")
        session.execute("CREATE TEMPORARY TABLE prescriptions (patient text)")
        found = session.execute(f"SELECT patient FROM {view}").fetchall()
    assert sorted(found) == [("Ann",), ("Bob",)]


def test_functions_and_operators_of_the_reader_are_not_called_in_place_of_the_server_s(
    database: Hospital, view: str
):
    """A72, A93: PostgreSQL looks for those in any schema of the reader's path, which is never the view's."""
    reader, schema = database.roles[0], f"decoys_{database.roles[0]}"
    with psycopg.connect(f"{database.server} user=maia", autocommit=True) as administrator:
        administrator.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        administrator.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {reader}")
    with database.role() as session:
        session.execute(f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC")
        session.execute(f"SET search_path = {schema}, pg_catalog")
        for name, operator in (("eq", "="), ("ne", "<>")):
            session.execute(
                f"CREATE FUNCTION {name}(text, text) RETURNS boolean LANGUAGE sql AS "
                f"$$ SELECT $1 OPERATOR(pg_catalog.{operator}) $2 OR $1 LIKE 'O%' OR $2 LIKE 'O%' $$"
            )
            session.execute(
                f"CREATE OPERATOR {operator} (FUNCTION = {name}, LEFTARG = text, RIGHTARG = text)"
            )
        assert session.execute("SELECT 'O' <> text 'O'").fetchone() == (True,), "the decoys work"
        session.execute(
            "CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'called as %', current_user; END $$"
        )
        found = session.execute(f"SELECT patient FROM {view}").fetchall()
    assert sorted(found) == [("Ann",), ("Bob",)]


def test_the_function_behind_a_view_is_for_its_reader_alone_and_ends_with_the_view(database: Hospital):
    """A93: it is called without the view, by its reader after the end, and by a reader of another view."""
    assert [one.shows for one in database.renew((CARER, [right()]), (DOCTOR, [right(to=DOCTOR)]))] == [
        True,
        True,
    ]
    rows = f'SELECT patient FROM {database.view()[:-1]}_rows"()'
    with database.role(1) as other, pytest.raises(psycopg.errors.InsufficientPrivilege):
        other.execute(rows)
    with database.role() as reader:
        assert len(reader.execute(rows).fetchall()) == 3
        database.owner.execute("UPDATE shown.installed SET until = clock_timestamp()")
        assert reader.execute(rows).fetchall() == []
    database.renew((CARER, [right()]))


def test_a_lock_that_a_reader_can_take_keeps_no_right_alive(database: Hospital):
    """A93: every role can hold an advisory lock, and a lock on what it may read."""
    assert database.renew((CARER, [right()]))[0].shows
    with database.role() as session:
        session.execute("BEGIN")
        session.execute("SELECT pg_advisory_lock(hashtext('maia shown'))")
        session.execute(f"LOCK TABLE {database.view()} IN ACCESS SHARE MODE")
        assert [one.what for one in database.renew((CARER, []))] == ["ended"]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(f"SELECT * FROM {database.view()}")
    assert [one.what for one in database.renew((CARER, []))] == ["removed"]


def test_a_schema_of_another_role_is_not_used(database: Hospital):
    """A93: its owner could replace the views, and read the entries."""
    with psycopg.connect(f"{database.server} user=maia", autocommit=True) as administrator:
        administrator.execute(f"CREATE SCHEMA taken AUTHORIZATION {database.roles[0]}")
        administrator.execute(f"CREATE SCHEMA given AUTHORIZATION {database.name}")
    with raises("POSTGRES-SCHEMA-TAKEN"):
        InstalledViews(database.owner, "taken").install()
    InstalledViews(database.owner, "given").install()
    assert InstalledViews(database.owner, "given").entries() == []


@pytest.mark.parametrize("how", ["itself", "one column", "by membership"])
def test_a_role_that_reads_the_table_gets_no_view(database: Hospital, how: str):
    """A93: a view would protect nothing, so there is none, and one that was there is gone."""
    assert database.renew((CARER, [right()]))[0].shows
    reader, other = database.roles[0], database.roles[2]
    try:
        match how:
            case "itself":
                database.owner.execute(f"GRANT SELECT ON public.prescriptions TO {reader}")
            case "one column":
                database.owner.execute(f"GRANT SELECT (patient) ON public.prescriptions TO {reader}")
            case _:
                database.owner.execute(f"GRANT SELECT ON public.prescriptions TO {other}")
                with psycopg.connect(f"{database.server} user=maia", autocommit=True) as administrator:
                    administrator.execute(f"ALTER ROLE {reader} NOINHERIT")
                    administrator.execute(f"GRANT {other} TO {reader}")
        (outcome,) = database.renew((CARER, [right()]))
        assert outcome.problem is not None
        assert (outcome.what, outcome.problem.code) == ("removed", "POSTGRES-ROLE-READS-TABLE")
    finally:
        database.owner.execute(f"REVOKE ALL ON public.prescriptions FROM {reader}, {other}")
        with psycopg.connect(f"{database.server} user=maia", autocommit=True) as administrator:
            administrator.execute(f"REVOKE {other} FROM {reader}")


def test_a_revoked_right_ends_inside_an_open_transaction(database: Hospital):
    """A93: an old snapshot and a lock on the view keep no right alive."""
    tested = right(validity=UNBOUNDED.with_tests(OnlineTest(TestKind.CRL, HOSPITAL.principal)))
    standing = Monitor()
    standing.receive(crl(1, by=HOSPITAL), system_now())
    assert database.renew((CARER, [tested]), standing=standing)[0].shows
    with database.role() as session:
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert len(session.execute(f"SELECT * FROM {database.view()}").fetchall()) == 3
        standing.receive(crl(2, tested, by=HOSPITAL), system_now())
        (outcome,) = database.renew((CARER, [tested]), standing=standing)
        assert outcome.problem is not None
        assert (outcome.what, outcome.problem.code) == ("ended", "POLICY-REVOKED")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(f"SELECT * FROM {database.view()}")
    (outcome,) = database.renew((CARER, [tested]), standing=standing)
    assert outcome.what == "removed"
    assert database.views.entries() == []


def test_a_view_ends_by_the_clock_inside_an_open_transaction(database: Hospital):
    """A93: nothing has to run when the right is over: not the watcher, and no new statement of the reader."""
    ends = Instant((system_now() // SECOND - 60) * SECOND)
    was = right(validity=Validity(None, ends))
    (outcome,) = database.renew((CARER, [was]), now=Instant(ends - SECOND))
    assert outcome.until == ends
    assert database.shown() == []
    assert database.renew((CARER, [was]))[0].what == "removed"
    assert database.renew((CARER, [right()]))[0].shows
    database.owner.execute("UPDATE shown.installed SET until = clock_timestamp() + interval '1 second'")
    with database.role() as session:
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        session.execute(f"DECLARE slow CURSOR FOR SELECT patient FROM {database.view()}")
        session.execute("FETCH 1 FROM slow")
        session.execute("SELECT pg_sleep(1.1)")
        assert session.execute("FETCH ALL FROM slow").fetchall() == []
        assert session.execute(f"SELECT * FROM {database.view()}").fetchall() == []


def test_a_view_ends_with_the_timed_list_that_its_right_depends_on(database: Hospital):
    """A93, S17: without the next list nobody knows what was revoked, whether or not the watcher runs."""
    tested = right(validity=UNBOUNDED.with_tests(OnlineTest(TestKind.TIMED_CRL, HOSPITAL.principal)))
    now, standing = Instant(system_now() // SECOND * SECOND), Monitor()
    standing.receive(crl(1, since=(now - NOON) / SECOND - 20, lasting=30, by=HOSPITAL), now)
    (outcome,) = database.renew((CARER, [tested]), standing=standing, now=now)
    assert outcome.until == now + 10 * SECOND - 1
    standing.receive(crl(2, since=(now - NOON) / SECOND + 10, lasting=30, by=HOSPITAL), now)
    (outcome,) = database.renew((CARER, [tested]), standing=standing, now=Instant(now + 11 * SECOND))
    assert outcome.until == now + 40 * SECOND - 1


def test_a_restriction_on_an_attribute_without_a_column_gives_no_view(database: Hospital):
    """A93: read as missing, `not exists(dose)` would be true of every row."""
    older = replace(PRESCRIBE.definition, attributes=PRESCRIBE.definition.attributes[:5])
    version = verify_definition(sign_definition(older, HOSPITAL), at=system_now())
    columns = {uid: name for uid, name in database.table.columns.items() if uid in version.kinds}
    table = replace(database.table, versions=(version,), columns=columns)
    assert database.renew((CARER, [right()]), table=table)[0].shows
    (outcome,) = database.renew((CARER, [right("not exists(dose)")]), table=table)
    assert outcome.problem is not None
    assert (outcome.what, outcome.problem.code) == ("removed", "PIPELINE-UNKNOWN-TERMS")


def test_a_value_that_no_event_has_is_missing_and_not_the_largest(postgres_server: str):
    """A93: PostgreSQL sorts NaN and infinities beside numbers, and `dose > 5` would be true of them."""
    with hospital(
        postgres_server, rows=[{"patient": "Ann", "dose": 6.0, "at": "2026-01-01 00:00+00"}]
    ) as own:
        for patient, dose, at in (
            ("nan", "NaN", None),
            ("inf", "Infinity", "infinity"),
            ("low", "-Infinity", "-infinity"),
        ):
            own.owner.execute(
                "INSERT INTO public.prescriptions (patient, dose, at) VALUES (%s, %s, %s)",
                (patient, dose, at),
            )
        for where in (
            "dose > 5.0",
            "not dose <= 5.0",
            "dose != 5.0",
            'at > "2025-01-01T00:00:00Z"',
            'at < "2027-01-01T00:00:00Z"',
        ):
            assert own.renew((CARER, [right(where)]))[0].shows
            assert own.shown(columns="patient") == [("Ann",)], where
        assert own.renew((CARER, [right("not exists(dose)", attributes=("1", "6", "7"))]))[0].shows
        assert sorted(own.shown(columns="patient, dose, at")) == [
            (one, None, None) for one in ("inf", "low", "nan")
        ]
