"""X10: what a role reads through its view is on record: who, when, how many rows, and which if demanded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from maia.clock import system_now
from maia.ledger.files import LedgerFiles, read_ledger
from maia.ledger.records import LedgerReader, TableRead
from maia.postgres import views as views_module
from maia.postgres.view_definitions import DeclaredTable, ViewLedger
from support.homecare import CARER, HOSPITAL, right_of
from support.sql_views import ROWS, Hospital, hospital


@pytest.fixture
def database(postgres_server: str) -> Iterator[Hospital]:
    with hospital(postgres_server) as made:
        made.owner.execute("ALTER TABLE public.prescriptions ADD number integer GENERATED ALWAYS AS IDENTITY")
        yield made


def on_record(folder: Path) -> list[TableRead]:
    reader = LedgerReader()
    assert list(read_ledger(folder, reader)) == []
    return list(reader.reads.values())


def renew(database: Hospital, folder: Path, table: DeclaredTable | None = None) -> list[TableRead]:
    with LedgerFiles(folder) as files:
        ledger = ViewLedger(files, HOSPITAL.principal)
        database.renew((CARER, [right_of("carer", CARER)]), ledger=ledger, table=table or database.table)
    return on_record(folder)


def test_each_read_is_on_record_also_one_that_is_rolled_back(database: Hospital, tmp_path: Path) -> None:
    assert renew(database, tmp_path) == []
    before = system_now()
    assert len(database.shown(where="patient = 'Ann'")) == 1
    with database.role() as session:
        session.execute("BEGIN")
        assert len(session.execute(f"SELECT * FROM {database.view()}").fetchall()) == len(ROWS)
        session.execute("ROLLBACK")
        session.execute(f"DECLARE c CURSOR WITH HOLD FOR SELECT * FROM {database.view()}")
    seen, held, undone = renew(database, tmp_path)
    source = f"public.prescriptions as {database.roles[0]}"
    for one, number in ((seen, 1), (held, 3)):
        assert (one.recipient, one.source, one.role) == (CARER.principal.key, source, database.roles[0])
        assert (one.number, one.reads, one.rows, one.ids) == (number, 1, len(ROWS), None)
        assert before <= one.at <= system_now()
    assert (undone.number, undone.reads, undone.rows) == (0, 1, len(ROWS))
    assert len(renew(database, tmp_path)) == 3, "a renewal records nothing twice"


def test_the_ids_of_rows_are_on_record_where_the_owner_demands_it(database: Hospital, tmp_path: Path) -> None:
    table = replace(database.table, row_id="number")
    renew(database, tmp_path, table)
    assert {len(row) for row in database.shown()} == {len(database.table.versions[-1].attributes)}
    database.owner.execute("DELETE FROM public.prescriptions WHERE patient = 'Bob'")
    database.shown()
    first, second = renew(database, tmp_path, table)
    assert [sorted(one.ids or ()) for one in (first, second)] == [["1", "2", "3"], ["1", "3"]]
    odd = replace(database.table, row_id="colour")
    with LedgerFiles(tmp_path) as files:
        ledger = ViewLedger(files, HOSPITAL.principal)
        outcomes = database.renew((CARER, [right_of("carer", CARER)]), ledger=ledger, table=odd)
    assert [one.problem.code for one in outcomes if one.problem] == ["INPUT-STORED-COLUMNS"]


def test_a_reader_changes_no_record_and_shows_itself_nothing_without_one(
    database: Hospital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views_module, "READS_WAITING_MAX", 3)
    renew(database, tmp_path)
    with database.role() as session:
        for wanted in (
            "DELETE FROM shown.reads",
            "SELECT * FROM shown.reads",
            "UPDATE shown.counted SET reads = 0",
            f"SELECT setval('{database.views._counters(f'{database.roles[0]}_prescriptions')[0]}', 1)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(wanted)
        session.execute("BEGIN READ ONLY")
        with pytest.raises(psycopg.Error, match="the view cannot be read now"):
            session.execute(f"SELECT * FROM {database.view()}")
        session.execute("ROLLBACK")
        # A reader that reads faster than what it reads is taken over sees nothing more until it is.
        for _ in range(4):
            session.execute(f"SELECT * FROM {database.view()}")
        with pytest.raises(psycopg.Error, match="the view cannot be read now"):
            session.execute(f"SELECT * FROM {database.view()}")
        assert sum(one.reads for one in renew(database, tmp_path)) >= 4
        session.execute(f"SELECT * FROM {database.view()}")
