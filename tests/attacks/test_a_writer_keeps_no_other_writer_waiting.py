"""A117: what a role with INSERT on one released table, or on an outbox, can do to the releases of others."""

from __future__ import annotations

import psycopg
import pytest

from maia.testing import wait_until
from support.postgres_clinic import RELEASE, Clinic, clinic

__all__ = ["clinic"]

REFILLS = RELEASE.replace('"prescriptions"', '"refills"')
ROW = "(patient, drug, dose) VALUES ('P1', 'aspirin', %s)"


def test_a_transaction_that_runs_its_deferred_triggers_early_holds_nothing_that_others_need(
    clinic: Clinic,
) -> None:
    """A117: other roles commit and their rows leave; its own leaves when it commits, and is not overtaken."""
    columns = "(patient text, drug text, dose bigint)"
    clinic.sql(
        f"CREATE TABLE prescriptions {columns}",
        f"CREATE TABLE refills {columns}",
        "CREATE ROLE clerk LOGIN",
        "CREATE ROLE nurse LOGIN",
        "GRANT INSERT ON prescriptions TO clerk",
        "GRANT INSERT ON prescriptions, refills TO nurse",
    )
    try:
        clinic.install(RELEASE + REFILLS)
        clerk = psycopg.connect(clinic.database.replace("user=maia", "user=clerk"))
        nurse = psycopg.connect(clinic.database.replace("user=maia", "user=nurse"), autocommit=True)
        with clinic.broker(), clinic.connector(), clerk, nurse:
            clinic.subscribe()
            clerk.execute(f"INSERT INTO prescriptions {ROW}", [9])
            clerk.execute("SET CONSTRAINTS ALL IMMEDIATE")
            # Not about speed: the transaction above stays open for as long as its owner likes.
            nurse.execute("SET lock_timeout = '5s'")
            nurse.execute(f"INSERT INTO refills {ROW}", [1])
            nurse.execute(f"INSERT INTO prescriptions {ROW}", [2])
            assert sorted(event["dose"] for event in clinic.read(2)) == [1, 2]
            clerk.execute(f"INSERT INTO prescriptions {ROW}", [10])
            clerk.commit()
            nurse.execute(f"INSERT INTO prescriptions {ROW}", [11])
            assert [event["dose"] for event in clinic.read(3)] == [9, 10, 11]
    finally:
        clinic.sql("DROP OWNED BY clerk, nurse", "DROP ROLE clerk, nurse")


def test_a_row_that_is_put_into_an_outbox_leaves_or_is_refused(clinic: Clinic) -> None:
    """A117: a role with INSERT on an outbox cannot leave rows there that no connector ever publishes."""
    clinic.sql(
        "CREATE TABLE prescriptions (patient text, drug text, dose bigint)",
        "CREATE ROLE clerk LOGIN",
    )
    try:
        clinic.install(RELEASE)
        clinic.sql("GRANT USAGE ON SCHEMA maia TO clerk", "GRANT INSERT ON maia.out_prescriptions TO clerk")
        with psycopg.connect(clinic.database.replace("user=maia", "user=clerk"), autocommit=True) as clerk:
            clerk.execute("INSERT INTO maia.out_prescriptions (dose) VALUES (1)")
            for forged in (
                "(maia_xid, dose) VALUES ('1', 2)",
                "(maia_started, dose) VALUES ('2000-01-01', 2)",
                "(maia_row, dose) OVERRIDING SYSTEM VALUE VALUES (0, 2)",
                "(maia_xid, dose) VALUES (pg_current_xact_id(), 2), ('1', 3)",
            ):
                with pytest.raises(psycopg.errors.CheckViolation):
                    clerk.execute(f"INSERT INTO maia.out_prescriptions {forged}")
        with clinic.broker():
            clinic.subscribe()
            with clinic.connector():
                assert [event["dose"] for event in clinic.read(1)] == [1]
                wait_until(lambda: clinic.sql("SELECT count(*) FROM maia.out_prescriptions") == [(0,)])
    finally:
        clinic.sql("DROP OWNED BY clerk", "DROP ROLE clerk")
