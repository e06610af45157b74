"""A110: a partner that replicates a table searches its database, and asks for more than its View."""

from __future__ import annotations

import psycopg

from maia.testing import wait_until
from support.postgres_clinic import BEDS, Clinic, clinic, own_database
from support.replicas import TABLE, WARD_3, replica_of

__all__ = ["clinic"]

VISIBLE = (
    "INSERT INTO beds VALUES ('3', 'Ann', 'n1', 1), ('3', 'Bob', 'n2', 2)",
    "UPDATE beds SET patient = 'Cas' WHERE patient = 'Ann' AND ward = '3'",
    "DELETE FROM beds WHERE patient = 'Bob' AND ward = '3'",
    "INSERT INTO beds VALUES ('3', 'Dee', 'n3', 3)",
)
HIDDEN = (
    "INSERT INTO beds VALUES ('4', 'SECRET-1', 'SECRET-2', 1), ('5', 'SECRET-3', 'SECRET-4', 1)",
    "UPDATE beds SET ward = '4', patient = 'SECRET-5' WHERE ward = '5'",
    "INSERT INTO beds SELECT '5', 'SECRET-6', 'SECRET-7', n FROM generate_series(1, 9) n",
    "DELETE FROM beds WHERE ward = '4'",
    "UPDATE beds SET note = 'SECRET-8' WHERE ward = '5'",
)
LAST = ("3", "last", None)


def everything(address: str) -> list[str]:
    """Return every row of every table of a database as text, with the name of the table."""
    with psycopg.connect(address) as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
        ).fetchall()
        return [
            f"{name} {row}"
            for (name,) in tables
            for (row,) in connection.execute(f"SELECT t::text FROM {name} t").fetchall()
        ]


def test_rows_columns_deletes_and_truncates_outside_the_view_leave_no_trace(
    clinic: Clinic, postgres_server: str
) -> None:
    clinic.sql(TABLE)
    clinic.install(BEDS)
    clinic.partner_may(*WARD_3)
    observed = []
    with clinic.broker(), clinic.connector():
        for hidden in ((), HIDDEN):
            clinic.sql("TRUNCATE beds", *hidden[:1])
            schema = f"r_{len(hidden)}"
            with own_database(postgres_server) as clinic.partner, clinic.replica("--schema", schema):
                clinic.sql("TRUNCATE beds")
                for number, statement in enumerate(VISIBLE):
                    clinic.sql(statement)
                    clinic.sql(*hidden[number : number + 1] or ["SELECT 1"])
                clinic.sql(*hidden[len(VISIBLE) :] or ["SELECT 1"])
                clinic.sql("INSERT INTO beds VALUES ('3', 'last', 'SECRET-9', 9)")
                wait_until(lambda: LAST in replica_of(clinic))
                observed.append((replica_of(clinic), counted(clinic, schema)))
                found = "\n".join([*everything(clinic.partner), clinic.errors("replica")])
                assert "SECRET" not in found
                assert "last" in found, "the search finds what is there"
    without, with_hidden = observed
    assert with_hidden == without
    assert without[0] == [("3", "Cas", None), ("3", "Dee", None), LAST]


def counted(clinic: Clinic, schema: str) -> object:
    """Return how many changes and gaps a partner can count; its own numbers have no holes."""
    state = f"SELECT stored, missed, position FROM {schema}.stores"
    ((stored, missed, upto),) = clinic.sql(state, at=clinic.partner)
    rows = clinic.sql("SELECT maia_position, maia_row FROM beds", at=clinic.partner)
    assert all(0 < position <= upto and 0 <= row < stored for position, row in rows)
    return stored, missed


def test_a_replica_cannot_ask_for_more_than_its_view(clinic: Clinic, postgres_server: str) -> None:
    clinic.sql(TABLE)
    clinic.install(BEDS)
    clinic.partner_may(*WARD_3)
    with own_database(postgres_server) as clinic.partner, clinic.broker(), clinic.connector():
        for asked in ('note == "SECRET"', 'not note == "SECRET"'):
            with clinic.replica("--where", asked, ready=False):
                wait_until(lambda: "POLICY-" in clinic.errors("replica"))
            assert replica_of(clinic) == []
