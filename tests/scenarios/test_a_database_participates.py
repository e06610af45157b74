"""X4: a PostgreSQL database stores events, releases rows, and does both in one transaction."""

from __future__ import annotations

import json
import signal

import psycopg

from maia.testing import wait_until
from support.network_process import issue
from support.postgres_clinic import DERIVE, RELEASE, STORE, Clinic, clinic

__all__ = ["clinic"]

PRESCRIPTIONS = "CREATE TABLE prescriptions (patient text, drug varchar(40), dose integer, note text)"


def written(*doses: int) -> list[dict[str, object]]:
    return [{"patient": "P1", "drug": "aspirin", "dose": dose} for dose in doses]


def insert(*doses: int) -> str:
    values = ", ".join(f"('P1', 'aspirin', {dose})" for dose in doses)
    return f"INSERT INTO prescriptions (patient, drug, dose) VALUES {values}"


def test_rows_leave_when_and_only_if_their_transaction_commits_and_in_the_order_of_commits(
    clinic: Clinic,
) -> None:
    clinic.sql(PRESCRIPTIONS)
    clinic.install(RELEASE)
    with clinic.broker(), clinic.connector():
        clinic.subscribe()
        with psycopg.connect(clinic.database) as first, psycopg.connect(clinic.database) as second:
            first.execute(insert(1))
            first.execute("SAVEPOINT s")
            first.execute(insert(99))
            first.execute("ROLLBACK TO s")
            second.execute(insert(2, 3))
            second.commit()
            first.execute(insert(4))
            first.commit()
            second.execute(insert(98))
            second.rollback()
        clinic.sql(insert(5), "UPDATE prescriptions SET note = 'seen'")
        assert clinic.read(5) == written(2, 3, 1, 4, 5)
        wait_until(lambda: checked(clinic)["waiting"] == {"prescriptions": 0})


def test_what_is_prescribed_is_stored_and_its_prescription_leaves_with_the_same_commit(
    clinic: Clinic,
) -> None:
    clinic.sql(
        "CREATE TABLE treats (doctor text, patient text)",
        "INSERT INTO treats VALUES ('D1', 'P1'), ('D2', 'P2')",
    )
    clinic.install(STORE + DERIVE)
    with clinic.broker(), clinic.connector():
        clinic.subscribe()
        clinic.prescribe(
            {"doctor": "D1", "patient": "P1", "drug": "aspirin", "dose": 7},
            {"doctor": "D1", "patient": "P2", "drug": "morphine", "dose": 8},
            {"doctor": "D2", "patient": "P2", "drug": None, "dose": -(2**63)},
        )
        assert clinic.read(2) == [
            {"patient": "P1", "drug": "aspirin", "dose": 7},
            {"patient": "P2", "drug": None, "dose": -(2**63)},
        ]
    stored = clinic.sql("SELECT doctor, patient, dose FROM prescribed ORDER BY maia_position, maia_row")
    assert stored == [("D1", "P1", 7), ("D1", "P2", 8), ("D2", "P2", -(2**63))]


def test_a_connector_stops_when_it_is_told_to_and_is_faithful_to_its_broker(clinic: Clinic) -> None:
    clinic.sql(PRESCRIPTIONS)
    clinic.install(STORE + RELEASE)
    with clinic.broker(), clinic.connector() as connector:
        second = clinic.postgres("run")
        assert "UNAVAILABLE-DATA-FOLDER" in second.stderr
        connector.send_signal(signal.SIGTERM)
        assert connector.wait(60) == 0
    clinic.replace_broker()
    with clinic.broker():
        other = clinic.postgres("run")
        assert (other.returncode, "REFUSED-BROKER-NOT-TRUSTED" in other.stderr) == (3, True), other.stderr


def test_rows_wait_for_a_right_to_publish_and_those_beyond_it_are_refused_and_counted(clinic: Clinic) -> None:
    clinic.sql(PRESCRIPTIONS)
    clinic.install(RELEASE)
    (clinic.home / "connector-certs" / "publish-Prescription.cert").unlink()
    with clinic.broker(), clinic.connector(ready=False):
        clinic.subscribe()
        clinic.sql(insert(5, 50))
        wait_until(lambda: "POLICY-" in clinic.errors("connector"))
        assert checked(clinic)["waiting"] == {"prescriptions": 2}
        # A certificate that is put into the folder is used without a restart.
        about = ("-d", "prescription.type", "--where", "dose < 10")
        issue(clinic.home, "connector", "publish", *about, name="publish-few")
        assert clinic.read(1) == written(5)
        wait_until(lambda: checked(clinic)["refused"] == {"prescriptions": 1})
        wait_until(lambda: checked(clinic)["waiting"] == {"prescriptions": 0})


def checked(clinic: Clinic) -> dict[str, object]:
    return json.loads(clinic.postgres("check", "--json").stdout)
