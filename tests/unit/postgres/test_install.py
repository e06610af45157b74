"""What is installed, by whom, and does `check` find what differs from the file?"""

from __future__ import annotations

import json

from maia.postgres.positions import Positions
from maia.testing.refusals import raises
from support.postgres_clinic import DERIVE, RELEASE, STORE, Clinic, clinic

__all__ = ["clinic"]

TABLE = "CREATE TABLE prescriptions (patient text, drug varchar(40), dose integer)"


def differences(clinic: Clinic) -> list[str]:
    answered = clinic.postgres("check", "--json")
    found = json.loads(answered.stdout)["differences"]
    assert answered.returncode == (1 if found else 0)
    return found


def test_check_names_whatever_was_changed_and_install_mends_it(clinic: Clinic) -> None:
    clinic.declare(STORE + RELEASE)
    assert "INPUT-POSTGRES-NOT-INSTALLED" in clinic.postgres("check").stderr
    assert "there is no table `public.prescriptions`" in clinic.postgres("install").stderr
    clinic.sql(TABLE)
    clinic.install(STORE + RELEASE)
    clinic.install(STORE + RELEASE)
    assert differences(clinic) == []
    # The format before this one ordered commits by a lock.
    clinic.sql(
        "ALTER TABLE maia.commits DROP COLUMN turn",
        "CREATE TABLE maia.turn ()",
        "UPDATE maia.connection SET format = 1",
    )
    assert "INPUT-POSTGRES-NOT-INSTALLED" in clinic.postgres("check").stderr
    clinic.install(STORE + RELEASE)
    clinic.sql(
        "ALTER TABLE prescriptions DISABLE TRIGGER maia_maia_prescriptions_insert",
        "CREATE OR REPLACE FUNCTION maia.release_prescriptions() RETURNS trigger LANGUAGE plpgsql"
        " SECURITY DEFINER AS 'BEGIN RETURN NULL; END'",
        "ALTER TABLE prescribed DROP COLUMN doctor",
    )
    assert differences(clinic) == [
        "release `prescriptions`: the trigger for insert is disabled",
        "release `prescriptions`: the text of its trigger is another one; install again",
        "store `prescribed`: column `doctor` of public.prescribed is missing",
    ]
    assert "needs the column `doctor` of type text" in clinic.postgres("install").stderr
    clinic.sql("ALTER TABLE prescribed ADD doctor text")
    clinic.declare(STORE + RELEASE + 'on = ["update"]\n')
    assert "the trigger for update is missing" in "".join(differences(clinic))
    clinic.install(STORE + RELEASE + 'on = ["update"]\n')
    assert differences(clinic) == []
    clinic.sql("INSERT INTO prescriptions VALUES ('P1', 'aspirin', 1)", "UPDATE prescriptions SET dose = 2")
    assert clinic.sql("SELECT dose FROM maia.out_prescriptions") == [(2,)]
    clinic.declare(STORE)
    assert differences(clinic) == ["release `prescriptions` is installed, and the file does not declare it"]
    assert "INPUT-POSTGRES-ROWS-WAITING" in clinic.postgres("install").stderr
    assert "INPUT-POSTGRES-ROWS-WAITING" in clinic.postgres("remove").stderr
    assert clinic.postgres("remove", "--force").returncode == 0
    clinic.sql("INSERT INTO prescriptions VALUES ('P1', 'aspirin', 1)")
    assert clinic.sql("SELECT count(*) FROM prescribed") == [(0,)]


def test_the_connector_needs_no_more_than_the_owner_of_the_tables_grants_it(clinic: Clinic) -> None:
    """Installed by the owner of the tables, and used by another role: neither is a superuser."""
    owner, role = "clinic_owner", "clinic_connector"
    name = clinic.database.rpartition("dbname=")[2]
    clinic.sql(
        f"CREATE ROLE {owner} LOGIN",
        f"CREATE ROLE {role} LOGIN",
        f"GRANT CREATE ON DATABASE {name} TO {owner}",
        f"GRANT CREATE ON SCHEMA public TO {owner}",
        TABLE,
        f"ALTER TABLE prescriptions OWNER TO {owner}",
    )
    try:
        admin = clinic.database.replace("user=maia", f"user={owner}")
        everything, clinic.database = clinic.database, clinic.database.replace("user=maia", f"user={role}")
        clinic.declare(STORE + RELEASE + DERIVE[DERIVE.index("[[derive]]") :])
        refused = clinic.postgres("install")
        assert "InsufficientPrivilege" in refused.stderr
        done = clinic.postgres("install", "--admin", admin)
        assert (done.returncode, f"for the role {role}" in done.stdout) == (0, True), done.stderr
        assert differences(clinic) == []
        clinic.sql(
            "INSERT INTO maia.out_prescriptions (dose) VALUES (3)", "DELETE FROM maia.out_prescriptions"
        )
        clinic.sql("INSERT INTO prescribed VALUES (1, 0, 'p', now())")
    finally:
        clinic.database = everything
        for one in (role, owner):
            clinic.sql(f"DROP OWNED BY {one} CASCADE", f"DROP ROLE {one}")


WRONG = {
    "": "nothing is declared",
    STORE + STORE: "`store` declares `prescribed` twice",
    STORE.replace('"prescribed"', '"Prescribed; DROP"', 1): "`store.name` must be 1 to 30 of",
    RELEASE.replace('table = "prescriptions"', 'table = "a.b.c"'): "`release.table` must be a table such as",
    RELEASE + 'columns = ["colour=c"]': "names `colour`, which its type does not have",
    RELEASE + 'on = ["merge"]': "`release.on` must be one of insert, update, delete, truncate, not `merge`",
    RELEASE + 'on = ["insert", "truncate"]': "`truncate` needs `operation`: an attribute of the type",
    RELEASE + 'operation = "dose"': "which is no attribute of kind string of its type",
    STORE + DERIVE.replace("FROM arrived a", "FROM arrived a; DROP TABLE x"): "is one SELECT, without `;`",
    DERIVE: "names `prescribed`, which no `[[store]]` declares",
    STORE + 'filter = "dose >"': "INPUT-PREDICATE-TEXT",
}


def test_a_file_that_cannot_work_is_refused_with_its_line_and_a_password_is_in_no_error(
    clinic: Clinic,
) -> None:
    clinic.database = "host=127.0.0.1 port=1 user=maia password=hunter2"
    for declared, complaint in WRONG.items():
        clinic.declare(declared)
        refused = clinic.postgres("install")
        assert refused.returncode == 2
        assert complaint in refused.stderr
        assert "connector.toml" in refused.stderr
    clinic.declare(STORE)
    away = clinic.postgres("check")
    assert "OperationalError: Connection refused [UNAVAILABLE-POSTGRES]" in away.stderr
    assert "hunter2" not in away.stderr + away.stdout


def test_a_position_survives_a_write_that_was_cut_off_and_never_goes_back(tmp_path) -> None:
    positions = Positions(tmp_path)
    positions.begin_anew("one")
    for number in (3, 7, 5):
        positions.use("r", number)
    (file,) = (tmp_path / "positions" / "one").iterdir()
    whole = file.read_bytes()
    for cut in range(16):  # the write after this one would go to the first place
        file.write_bytes(b"\xff" * cut + whole[cut:])
        assert Positions(tmp_path)._counter("release-r").upto == 7
    file.write_bytes(b"\xff" * 32)
    with raises("INPUT-POSTGRES-POSITIONS"):
        Positions(tmp_path).check_release("r", 9)
