"""PostgreSQL answers like SQLite, which all other tests use; both keep a whole transaction or none of it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maia.domain.storage.store import (
    AT_ONCE,
    DomainStore,
    StoreFenced,
    memory_store,
    postgres_store,
    sqlite_store,
)
from maia.domain.storage.tables import ALL_TABLES, FOR_EVER, FactRow, MetaRow, RevokedRow, RightRow
from maia.testing.refusals import raises
from support.random_cases import usually


class Broke(Exception):
    """Raised in the middle of a transaction."""


class Database:
    """A database that can be opened again and again, as after a restart."""

    def __init__(self, open_store):
        self.opened = []
        self.open_store = open_store

    def open(self) -> DomainStore:
        store = self.open_store()
        self.opened.append(store)
        return store


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """One database of each sort, empty."""
    if request.param == "sqlite":
        made = Database(lambda: sqlite_store(tmp_path / "domain.sqlite"))
        yield made
    else:
        address, schema = request.getfixturevalue("postgres_server"), f"d{uuid4().hex}"
        made = Database(lambda: postgres_store(address, schema))
        yield made
    for store in made.opened:
        store.close()
    if request.param == "postgres":
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def right(key: int, **changes: object) -> RightRow:
    """A row of the register."""
    fields = {
        "id": bytes([key]) * 32,
        "number": key,
        "kind": "issued",
        "issuer": b"i" * 32,
        "subject": b"s" * 32,
        "about": "type",
        "not_after": FOR_EVER,
        "membership": b"",
        "rule": "rule ‘a’",
        "granted": b"",
        "is_revalidated": 0,
        "certificate": b"\x00\xff",
        "registered_by": b"a" * 32,
        "registered_at": 1,
        "revoked_at": None,
        "reason": "",
    }
    return RightRow(**{**fields, **changes})


def test_a_row_comes_back_as_it_was_put(database: Database) -> None:
    rows = [right(1), right(2, revoked_at=7, reason="it is \x01 over"), right(3, about="")]
    store = database.open()
    with store.transaction() as tables:
        tables.put(*rows)
        assert [tables.get(RightRow, row.id) for row in rows] == rows
    with closing(database.open()) as again, again.reading() as tables:
        assert tables.find(RightRow, limit=10) == rows
        assert tables.get(RightRow, b"none") is None


def test_a_row_takes_the_place_of_the_one_with_its_key(database: Database) -> None:
    store = database.open()
    with store.transaction() as tables:
        tables.put(MetaRow("sequence", 1, b""))
        tables.put(MetaRow("sequence", 2, b"x"), MetaRow("other", 3, b""))
        assert tables.find(MetaRow, limit=5) == [MetaRow("other", 3, b""), MetaRow("sequence", 2, b"x")]


def test_a_transaction_that_breaks_off_leaves_nothing(database: Database) -> None:
    store = database.open()
    with store.transaction() as tables:
        tables.put(MetaRow("kept", 1, b""))

    def break_off() -> None:
        with store.transaction() as tables:
            tables.put(MetaRow("kept", 2, b""), MetaRow("new", 1, b""))
            tables.delete(MetaRow, MetaRow.c.name == "kept")
            raise Broke

    with pytest.raises(Broke):
        break_off()
    with store.reading() as tables:
        assert tables.find(MetaRow, limit=5) == [MetaRow("kept", 1, b"")]
    with store.transaction() as tables:
        tables.put(MetaRow("kept", 3, b""))


def test_a_transaction_within_another_is_part_of_it(database: Database) -> None:
    store = database.open()

    def break_off() -> None:
        with store.transaction() as outer:
            with store.transaction() as inner:
                inner.put(MetaRow("inner", 1, b""))
            with store.reading() as reader:
                assert reader.get(MetaRow, "inner") == MetaRow("inner", 1, b"")
            outer.put(MetaRow("outer", 1, b""))
            raise Broke

    with pytest.raises(Broke):
        break_off()
    with store.reading() as tables:
        assert tables.count(MetaRow) == 0


def test_a_second_process_that_wrote_stops_the_first(database: Database) -> None:
    first, second = database.open(), database.open()
    with first.transaction() as tables:
        tables.put(MetaRow("sequence", 1, b""))
    with pytest.raises(StoreFenced), second.transaction() as tables:
        tables.put(MetaRow("sequence", 1, b"again"))
    with first.transaction() as tables:
        assert tables.get(MetaRow, "sequence") == MetaRow("sequence", 1, b"")


def test_texts_are_ordered_by_code_point_and_bytes_by_byte(database: Database) -> None:
    names = ["a", "B", "b", "ä", "_", "Z", "aa", "A", "10", "9", "\U0001f600", "\uffee"]
    digests = [b"\x80", b"\x7f", b"\x00", b"\xff", b"\x00\x01", b"A", b"a"]
    store = database.open()
    with store.transaction() as tables:
        tables.put(*(MetaRow(name, 0, b"") for name in names))
        tables.put(*(RevokedRow(digest, 1, 1) for digest in digests))
        assert [row.name for row in tables.find(MetaRow, limit=99)] == sorted(names)
        assert [row.id for row in tables.find(RevokedRow, limit=99)] == sorted(digests)
        assert tables.distinct(MetaRow.c.name, limit=99, after="B") == sorted(n for n in names if n > "B")


def test_thousands_of_values_are_looked_for_at_once(database: Database) -> None:
    rows = [RevokedRow(number.to_bytes(4), number, 0) for number in range(3000)]
    store = database.open()
    with store.transaction() as tables:
        tables.put(*rows)
        wanted = RevokedRow.c.id.in_([*(row.id for row in reversed(rows[500:2500])), b"none"])
        assert tables.find(RevokedRow, wanted, limit=5000) == rows[500:2500]
        assert tables.find(RevokedRow, wanted, limit=7) == rows[500:507]
        assert tables.count(RevokedRow, wanted, RevokedRow.c.not_after <= 600) == 101
        assert tables.distinct(RevokedRow.c.id, wanted, limit=3) == [row.id for row in rows[500:503]]
        assert tables.delete(RevokedRow, wanted) == 2000
        assert tables.count(RevokedRow) == 1000
        assert tables.find(RevokedRow, RevokedRow.c.id.in_([]), limit=7) == []


def test_rows_come_in_order_from_a_cursor_on_forwards_and_backwards(database: Database) -> None:
    store = database.open()
    with store.transaction() as tables:
        tables.put(*(right(key, number=key) for key in (4, 1, 6, 3, 5, 2)))

        def numbers(**asked: object) -> list[int]:
            return [row.number for row in tables.find(RightRow, order=RightRow.c.number, **asked)]

        assert numbers(limit=9) == [1, 2, 3, 4, 5, 6]
        assert numbers(limit=3, after=2) == [3, 4, 5]
        assert numbers(limit=2, after=4, descending=True) == [3, 2]
        assert numbers(limit=9, after=6) == []
        assert numbers(limit=0) == []


def test_a_key_has_all_its_parts(database: Database) -> None:
    store = database.open()
    with store.transaction() as tables, pytest.raises(ValueError, match="shorter"):
        tables.get(FactRow, "onDuty")


def test_all_rows_come_page_by_page_while_they_are_changed(database: Database) -> None:
    rows = [RevokedRow(number.to_bytes(4), number, 0) for number in range(2 * AT_ONCE + 1)]
    store = database.open()
    with store.transaction() as tables:
        tables.put(*rows)
        pages = []
        for page in tables.every(RevokedRow, order=RevokedRow.c.id):
            tables.delete(RevokedRow, RevokedRow.c.id.in_([row.id for row in page]))
            pages.append(len(page))
        assert pages == [AT_ONCE, AT_ONCE, 1]
        assert tables.count(RevokedRow) == 0


SMALL = st.integers(0, 5)
COLUMNS = st.sampled_from([RightRow.c.number, RightRow.c.not_after, RightRow.c.revoked_at])
CONDITIONS = st.lists(
    st.one_of(
        st.builds(lambda column, value: column == value, COLUMNS, SMALL),
        st.builds(lambda column, value: column >= value, COLUMNS, SMALL),
        st.builds(lambda column, value: column <= value, COLUMNS, SMALL),
        st.builds(lambda column, values: column.in_(values), COLUMNS, st.lists(SMALL, max_size=4)),
        st.just(RightRow.c.revoked_at.is_(None)),
    ),
    max_size=2,
)
RIGHT_ROWS = st.builds(
    lambda key, number, end, revoked: right(key, number=number, not_after=end, revoked_at=revoked),
    st.integers(0, 9),
    SMALL,
    SMALL,
    st.none() | SMALL,
)
ORDERS = st.sampled_from([None, "number", "not_after"])
STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(RIGHT_ROWS, max_size=4)),
    st.tuples(st.just("delete"), CONDITIONS),
    st.tuples(st.just("find"), CONDITIONS, st.integers(0, 6), st.none() | SMALL, st.booleans()),
    st.tuples(st.just("page"), CONDITIONS, st.integers(1, 3)),
    st.tuples(
        st.just("distinct"),
        st.sampled_from([RightRow.c.number, RightRow.c.revoked_at]),
        CONDITIONS,
        st.none() | SMALL,
    ),
    st.tuples(st.just("count"), CONDITIONS),
    st.tuples(
        st.just("break"),
    ),
)


def answer(store, steps):
    """Do every step in a transaction of its own and return what was answered."""
    answers = []
    for step in steps:
        try:
            with store.transaction() as tables:
                answers.append(one_answer(tables, *step))
                if step[0] == "break":
                    raise Broke
        except Broke:
            answers.append("broke")
    return answers


def one_answer(tables, word, *rest):
    match word, rest:
        case "put", (rows,):
            return tables.put(*list({row.id: row for row in rows}.values()))
        case "delete", (where,):
            return tables.delete(RightRow, *where)
        case "find", (where, limit, after, descending):
            # Ties have no order, so the column that orders is what is compared.
            found = tables.find(
                RightRow, *where, limit=limit, order=RightRow.c.number, after=after, descending=descending
            )
            return [row.number for row in found]
        case "page", (where, limit):
            return tables.find(RightRow, *where, limit=limit)
        case "distinct", (column, where, after):
            return tables.distinct(column, *where, limit=3, after=after)
        case "count", (where,):
            return tables.count(RightRow, *where)
        case _:
            return tables.put(right(9))


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=usually(10, laws=25))
@pytest.mark.laws
def test_postgres_answers_like_sqlite(postgres_server: str, steps) -> None:
    with closing(postgres_store(postgres_server, "laws")) as store, closing(memory_store()) as double:
        with store.transaction() as tables:
            tables.delete(RightRow)
        assert answer(store, steps) == answer(double, steps)


def test_every_table_can_be_written_and_read(database: Database) -> None:
    store = database.open()
    for table in ALL_TABLES:
        with store.reading() as tables:
            assert tables.find(table, limit=1) == []
    with store.transaction() as tables:
        tables.put(FactRow("onDuty", b"d", b"()", 1))
        assert tables.find(
            FactRow, FactRow.c.name == "onDuty", limit=2, order=FactRow.c.digest, after=b"c"
        ) == [FactRow("onDuty", b"d", b"()", 1)]


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "domain.sqlite"
    with closing(sqlite_store(file)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_is_no_database_is_refused_with_a_code(tmp_path: Path) -> None:
    file = tmp_path / "domain.sqlite"
    file.write_bytes(b"something else" * 100)
    with raises("UNAVAILABLE-DOMAIN-STORE"):
        sqlite_store(file)


def test_an_address_where_no_peer_listens_is_refused_without_its_secret(tmp_path: Path) -> None:
    with raises("UNAVAILABLE-DOMAIN-STORE") as refused:
        postgres_store(f"host={tmp_path} user=maia password=hunter2 dbname=none")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("schema", ["", "Maia", "a b", 'x"; DROP TABLE y; --', "a" * 64, "-c", "1a"])
def test_a_schema_that_could_be_mistaken_for_something_else_is_refused(
    postgres_server: str, schema: str
) -> None:
    with raises("UNAVAILABLE-DOMAIN-STORE"):
        postgres_store(postgres_server, schema)


def test_postgres_is_also_named_by_an_address_of_the_other_form(postgres_server: str) -> None:
    named = psycopg.conninfo.conninfo_to_dict(postgres_server)
    address = f"postgresql://{named['user']}@/{named['dbname']}?host={named['host']}"
    with closing(postgres_store(address, "by_url")) as store, store.transaction() as tables:
        tables.put(MetaRow("url", 1, b""))


def test_a_database_that_goes_away_in_the_middle_keeps_nothing_of_it_and_is_found_again(
    postgres_server: str,
) -> None:
    with closing(postgres_store(postgres_server, "outage")) as store:
        with store.transaction() as tables:
            tables.put(MetaRow("kept", 1, b""))

        def interrupted() -> None:
            with store.transaction() as tables:
                tables.put(MetaRow("kept", 2, b""))
                end_connections(postgres_server)
                tables.put(MetaRow("more", 1, b""))

        with raises("UNAVAILABLE-DOMAIN-STORE"):
            interrupted()
        with store.transaction() as tables:
            assert tables.find(MetaRow, limit=5) == [MetaRow("kept", 1, b"")]
            tables.put(MetaRow("kept", 3, b""))


def end_connections(address: str) -> None:
    """End every other connection to the database, as a restart of the server would."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND query LIKE '%domain_meta%'"
        )
