"""A94: a database that was restored or copied publishes nothing until its operator has decided."""

from __future__ import annotations

import json
import shutil

import psycopg
import pytest

from maia.testing import wait_until
from support.postgres_clinic import RELEASE, STORE, Clinic, KillableServer, clinic, killable_server, prepare

__all__ = ["clinic", "killable_server"]

TABLE = "CREATE TABLE prescriptions (patient text, drug text, dose bigint)"


def insert(dose: int) -> str:
    return f"INSERT INTO prescriptions VALUES ('P1', 'aspirin', {dose})"


def drained(clinic: Clinic) -> None:
    wait_until(lambda: clinic.sql("SELECT count(*) FROM maia.out_prescriptions") == [(0,)])


def test_a_database_from_a_backup_is_refused_and_goes_on_as_its_operator_decides(
    tmp_path, killable_server: KillableServer
) -> None:
    """A94: row 2 waits in the backup and was published since; accepted, it is discarded, and row 5 leaves.

    An event that was stored since then, and is gone, is named.
    """
    clinic = prepare(tmp_path, killable_server.address)
    clinic.sql(TABLE)
    clinic.install(STORE + RELEASE)
    with clinic.broker():
        clinic.subscribe()
        with clinic.connector():
            clinic.sql(insert(1))
            drained(clinic)
        clinic.sql(insert(2))
        backup = killable_server.folder / "backup"
        killable_server.back_up(backup)
        with clinic.connector():
            clinic.sql(insert(3))
            clinic.prescribe({"doctor": "D1", "patient": "P1", "drug": "aspirin", "dose": 1})
            wait_until(lambda: clinic.sql("SELECT count(*) FROM prescribed") == [(1,)])
            drained(clinic)
            killable_server.put_back(backup)
            # The connector notices by itself, and again when it is started.
            wait_until(lambda: "REFUSED-POSTGRES-RESTORED" in clinic.errors("connector"))
        refused = clinic.postgres("check")
        assert refused.returncode == 1
        assert "REFUSED-POSTGRES-RESTORED" in refused.stdout
        clinic.sql(insert(4))
        assert clinic.postgres("accept").returncode == 2
        accepted = clinic.postgres("accept", "--discard", "--json")
        answered = json.loads(accepted.stdout)
        assert answered["discarded"] == {"prescriptions": 2}
        first, last = answered["lost"]["prescribed"]
        assert first <= last
        clinic.prescribe({"doctor": "D1", "patient": "P1", "drug": "aspirin", "dose": 2})
        clinic.sql(insert(5))
        with clinic.connector():
            drained(clinic)
            assert [event["dose"] for event in clinic.read(4)] == [1, 2, 3, 5]
            wait_until(lambda: clinic.sql("SELECT dose FROM prescribed") == [(2,)])


def test_a_copy_of_a_database_does_not_publish_what_the_original_publishes(clinic: Clinic) -> None:
    """A94: a copy has the same outbox; neither it nor a connector that has lost its folder goes on."""
    clinic.sql(TABLE)
    clinic.install(RELEASE)
    with clinic.broker():
        with clinic.connector():
            clinic.sql(insert(1))
            drained(clinic)
        clinic.sql(insert(2))
        original, name = clinic.database, clinic.database.rpartition("dbname=")[2]
        clinic.database = f"{original}_copy"
        with psycopg.connect(original.replace(name, "postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}_copy TEMPLATE {name}")
            clinic.declare(RELEASE)
            copy = clinic.postgres("run")
            connection.execute(f"DROP DATABASE {name}_copy")
        assert (copy.returncode, "is a copy" in copy.stderr) == (3, True), copy.stderr
        clinic.database = original
        clinic.declare(RELEASE)
        shutil.rmtree(clinic.home / "connector-data" / "database")
        lost = clinic.postgres("run")
        assert (lost.returncode, "does not know this database" in lost.stderr) == (3, True), lost.stderr


def test_an_application_that_writes_rows_can_neither_forge_nor_read_what_waits(clinic: Clinic) -> None:
    """A94: a role that may insert releases rows, and can neither touch the outbox nor borrow its triggers."""
    clinic.sql(TABLE, "CREATE ROLE clerk LOGIN", "GRANT INSERT ON prescriptions TO clerk")
    try:
        clinic.install(RELEASE)
        with psycopg.connect(clinic.database.replace("user=maia", "user=clerk")) as clerk:
            clerk.execute(insert(1))
            clerk.commit()
            for forged in (
                "INSERT INTO maia.out_prescriptions (dose) VALUES (2)",
                "SELECT * FROM maia.out_prescriptions",
                "DELETE FROM maia.commits",
                "SELECT nextval('maia.turns')",
                "CREATE TEMP TABLE written (patient text, drug text, dose bigint);"
                "CREATE TRIGGER t AFTER INSERT ON written REFERENCING NEW TABLE AS written FOR EACH STATEMENT"
                " EXECUTE FUNCTION maia.release_prescriptions()",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    clerk.execute(forged)
                clerk.rollback()
        assert clinic.sql("SELECT dose FROM maia.out_prescriptions") == [(1,)]
    finally:
        clinic.sql("DROP OWNED BY clerk", "DROP ROLE clerk")
