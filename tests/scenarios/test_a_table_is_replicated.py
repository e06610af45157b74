"""X10: a partner's database has a table as the source has it, within the partner's View, with deletes."""

from __future__ import annotations

from contextlib import ExitStack

from maia.testing import wait_until
from support.postgres_clinic import BEDS, Clinic, clinic, own_database
from support.replicas import TABLE, WARD_3, Writer, replica_of

__all__ = ["clinic"]


def test_a_replica_is_what_its_view_shows_of_the_source_whatever_is_killed(
    clinic: Clinic, postgres_server: str
) -> None:
    clinic.sql(TABLE, "INSERT INTO beds VALUES ('3', 'Ann', 'early', 1), ('4', 'Bob', 'early', 2)")
    clinic.install(BEDS)
    clinic.partner_may(*WARD_3)
    writer = Writer(clinic, seed=11)
    with own_database(postgres_server) as clinic.partner, clinic.broker(), ExitStack() as running:
        connector = running.enter_context(ExitStack())
        replica = running.enter_context(ExitStack())
        connector.enter_context(clinic.connector())
        replica.enter_context(clinic.replica())
        writer.write(40)
        # The source had a row before it was released, and it was deleted or is sent once more.
        assert clinic.postgres("resend", "beds").returncode == 0
        replica.close()
        writer.write(40)
        replica.enter_context(clinic.replica())
        connector.close()
        writer.write(40)
        connector.enter_context(clinic.connector())
        wait_until(lambda: replica_of(clinic) == writer.shown())
        before = clinic.sql("SELECT * FROM beds ORDER BY maia_position, maia_row", at=clinic.partner)
        assert clinic.postgres("resend", "beds").returncode == 0
        clinic.sql("INSERT INTO beds VALUES ('3', 'last', 'x', 9)")
        wait_until(lambda: replica_of(clinic) == writer.shown())
        assert len(before) > 3, "the writer wrote nothing"
        clinic.sql("TRUNCATE beds")
        wait_until(lambda: replica_of(clinic) == [])
