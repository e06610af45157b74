"""X10: what is deleted, changed or truncated in a table is released, within the View of each recipient."""

from __future__ import annotations

import psycopg
import pytest

from maia.testing import wait_until
from support.postgres_clinic import BEDS, Clinic, clinic

__all__ = ["clinic"]

TABLE = "CREATE TABLE beds (ward text, patient text, note text, bed integer)"

CHANGES = [("delete", "Cas"), ("insert", "Dee"), ("delete", "Dee"), ("insert", "Eve"), ("delete", "Ann")]


def bed(operation: str, patient: str, ward: str = "3") -> dict[str, object]:
    return {"operation": operation, "ward": ward, "patient": patient, "note": None}


def insert(*rows: tuple[str, str]) -> str:
    values = ", ".join(f"('{ward}', '{patient}', 'a note on {patient}')" for ward, patient in rows)
    return f"INSERT INTO beds (ward, patient, note) VALUES {values}"


def test_each_recipient_sees_what_is_taken_away_of_the_rows_that_it_sees(clinic: Clinic) -> None:
    clinic.sql(TABLE)
    clinic.install(BEDS)
    shown = [word for one in ("operation", "ward", "patient") for word in ("--attribute", one)]
    clinic.partner_may("--where", 'ward == "3"', *shown)
    with clinic.broker(), clinic.connector():
        clinic.read(0, of="Bed", who="partner")
        clinic.sql(insert(("3", "Ann"), ("4", "Bob"), ("3", "Cas"), ("3", "Ann"), ("4", "Dee")))
        assert clinic.read(3, of="Bed", who="partner") == [
            bed("insert", one) for one in ("Ann", "Cas", "Ann")
        ]
        # What leaves the View is deleted, what enters it inserted; a column that is no attribute is nothing.
        clinic.sql("UPDATE beds SET ward = '4' WHERE patient = 'Cas'")
        clinic.sql("UPDATE beds SET ward = '3' WHERE patient = 'Dee'")
        clinic.sql("UPDATE beds SET bed = 1")
        clinic.sql("UPDATE beds SET patient = 'Eve' WHERE patient IN ('Bob', 'Dee')")
        clinic.sql("DELETE FROM beds WHERE ward = '4'")
        with psycopg.connect(clinic.database) as undone:
            undone.execute("DELETE FROM beds")
            undone.rollback()
            undone.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="READ COMMITTED"):
                undone.execute("TRUNCATE beds")
        clinic.sql("DELETE FROM beds WHERE ctid = (SELECT ctid FROM beds WHERE patient = 'Ann' LIMIT 1)")
        clinic.sql("TRUNCATE beds")
        clinic.sql("TRUNCATE beds", insert(("3", "Fay")))
        read = clinic.read(8, of="Bed", who="partner")
        assert read[:5] == [bed(*one) for one in CHANGES]
        assert sorted(read[5:7], key=repr) == [bed("truncate", one) for one in ("Ann", "Eve")]
        assert read[7:] == [bed("insert", "Fay")]
        wait_until(lambda: clinic.sql("SELECT count(*) FROM maia.out_beds") == [(0,)])
    assert clinic.postgres("check").returncode == 0
