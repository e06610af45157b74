"""Where facts come from, and how old they may be."""

from __future__ import annotations

import asyncio
import http.server
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from maia.config.row_sources import FileSource, HttpSource, PostgresSource, Row, SqliteSource, row_of
from maia.credentials.appointments import ParameterKind
from maia.domain.access.results import Revoked
from maia.domain.facts.poller import FactAges, FactFeed, FactFeeder
from maia.domain.server.service import DomainService
from maia.errors import MaiaError, Unavailable
from maia.events import Instant
from maia.testing.refusals import raises
from support.domain_server import RecordedNotes, key_of

SMITH = key_of("smith").principal
KINDS = (ParameterKind.PRINCIPAL, ParameterKind.STRING)
COLUMNS = ("officer", "case")
EXPECTED: list[Row] = [(SMITH, "case 7")]
NOON = Instant.parse("2026-11-15T12:00:00Z")
SECOND = 1_000_000


# ------------------------------------------------------------ sources


def test_sqlite_is_read_and_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "roster.sqlite"
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE assigned (officer TEXT, file TEXT)")
        file.execute("INSERT INTO assigned VALUES (?, 'case 7')", (str(SMITH),))
    file.close()
    source = SqliteSource(path, "SELECT officer, file FROM assigned", KINDS, time.monotonic)
    assert source.read() == EXPECTED
    for query in ("DELETE FROM assigned", "SELECT nothing", "SELECT 1; SELECT 2", "not sql"):
        with raises("UNAVAILABLE-FACT-SOURCE"):
            SqliteSource(path, query, KINDS, time.monotonic).read()
    assert source.read() == EXPECTED
    with raises("UNAVAILABLE-FACT-SOURCE"):
        SqliteSource(tmp_path / "missing.sqlite", "SELECT 1", KINDS, time.monotonic).read()
    assert not (tmp_path / "missing.sqlite").exists()


def test_a_query_without_end_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "roster.sqlite"
    sqlite3.connect(path).close()
    moments = iter([0.0, *([1_000.0] * 1_000_000)])
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    with raises("UNAVAILABLE-FACT-SOURCE"):
        SqliteSource(path, endless, (ParameterKind.INT,), lambda: next(moments)).read()


@pytest.mark.postgres
def test_postgresql_is_read_and_cannot_be_changed(postgres_server: str) -> None:
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS assigned")
        connection.execute("CREATE TABLE assigned (officer text, file text)")
        connection.execute("INSERT INTO assigned VALUES (%s, 'case 7')", (str(SMITH),))
    assert PostgresSource(postgres_server, "SELECT officer, file FROM assigned", KINDS).read() == EXPECTED
    with raises("UNAVAILABLE-FACT-SOURCE"):
        PostgresSource(postgres_server, "DELETE FROM assigned RETURNING officer, file", KINDS).read()
    with raises("UNAVAILABLE-FACT-SOURCE") as refused:
        PostgresSource("postgresql://u:hunter2@127.0.0.1:1/x", "SELECT 1", KINDS).read()
    assert "hunter2" not in refused.value.message


def test_csv_and_json_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"case,officer,extra\ncase 7,{SMITH},x\n")
    (tmp_path / "a.json").write_text(json.dumps([{"officer": str(SMITH), "case": "case 7", "extra": 1}]))
    (tmp_path / "b.json").write_text(json.dumps([[str(SMITH), "case 7"]]))
    for name in ("a.csv", "a.json", "b.json"):
        assert FileSource(tmp_path / name, COLUMNS, KINDS).read() == EXPECTED


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("half.csv", "officer,case\ned25519:00"),
        ("none.csv", "officer\nx\n"),
        ("bad.csv", "officer,case\nnobody,case 7\n"),
        ("half.json", '[["ed25519:'),
        ("object.json", "{}"),
        ("deep.json", "[" * 100_000),
        ("row.json", "[1]"),
        ("missing.json", '[{"officer": "x"}]'),
        ("short.json", '[["x"]]'),
        ("empty.json", ""),
    ],
)
def test_a_file_with_any_mistake_is_no_source_at_all(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(MaiaError):
        FileSource(tmp_path / name, COLUMNS, KINDS).read()


def test_a_missing_file_is_a_failure_and_not_an_empty_one(tmp_path: Path) -> None:
    with raises("UNAVAILABLE-FACT-SOURCE"):
        FileSource(tmp_path / "gone.json", COLUMNS, KINDS).read()


@contextmanager
def page(status: int, body: bytes) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/roster?token=hunter2"
        finally:
            server.shutdown()
            thread.join()


def test_a_page_is_read_and_every_other_answer_is_a_failure() -> None:
    with page(200, json.dumps([[str(SMITH), "case 7"]]).encode()) as url:
        assert HttpSource(url, COLUMNS, KINDS).read() == EXPECTED
    for status, body in ((500, b"[]"), (302, b"[]"), (200, b"<html>"), (204, b"")):
        with page(status, body) as url, raises("UNAVAILABLE-FACT-SOURCE") as refused:
            HttpSource(url, COLUMNS, KINDS).read()
        assert "hunter2" not in refused.value.message


# ------------------------------------------------------------ values


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("7", ParameterKind.INT, 7),
        (7, ParameterKind.INT, 7),
        ("1.5", ParameterKind.FLOAT, 1.5),
        (2, ParameterKind.FLOAT, 2.0),
        ("true", ParameterKind.BOOL, True),
        (0, ParameterKind.BOOL, False),
        ("2026-11-15T12:00:00Z", ParameterKind.TIMESTAMP, NOON),
        (str(SMITH), ParameterKind.PRINCIPAL, SMITH),
    ],
)
def test_a_value_is_read_by_its_declared_kind(value: object, kind: ParameterKind, expected: object) -> None:
    (found,) = row_of([value], [kind])
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, ParameterKind.STRING),
        (1, ParameterKind.STRING),
        (True, ParameterKind.INT),
        ("seven", ParameterKind.INT),
        ("nan", ParameterKind.FLOAT),
        ("maybe", ParameterKind.BOOL),
        (2, ParameterKind.BOOL),
        ("yesterday", ParameterKind.TIMESTAMP),
        ("smith", ParameterKind.PRINCIPAL),
        ("9" * 30, ParameterKind.INT),
        ("x" * 5000, ParameterKind.STRING),
    ],
)
def test_a_value_that_does_not_fit_spoils_the_reading(value: object, kind: ParameterKind) -> None:
    with raises("UNAVAILABLE-FACT-ROW"):
        row_of([value], [kind])


# ------------------------------------------------------------ freshness


@dataclass
class FakeAccess:
    """An access control service that keeps the rows it was given."""

    rows: list[Row] = field(default_factory=list)
    calls: int = 0
    has_news: bool = False
    has_new_policy: bool = False
    to_push: tuple[object, ...] = ()
    to_tell: tuple[object, ...] = ()

    def replace_facts(self, _name: str, rows: list[Row], **_named: object) -> Revoked:
        self.rows, self.calls = list(rows), self.calls + 1
        return Revoked()


@dataclass
class FakeSource:
    """A source that answers what it is told to."""

    answer: list[Row] | None

    def read(self) -> list[Row]:
        if self.answer is None:
            raise Unavailable("UNAVAILABLE-FACT-SOURCE", "down")
        return self.answer


@dataclass
class Stage:
    """One feeder with a clock that the test turns."""

    folder: Path
    access: FakeAccess = field(default_factory=FakeAccess)
    source: FakeSource = field(default_factory=lambda: FakeSource(list(EXPECTED)))
    now: Instant = NOON

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.service = DomainService(self.access, key_of("met"), clock=lambda: self.now)  # type: ignore[arg-type]
        feed = FactFeed("case_assignment", self.source, every_s=10, stale_s=60)
        ages = FactAges(self.folder / "facts.json")
        self.feeder = FactFeeder(feed, self.service, ages, clock=lambda: self.now, records=RecordedNotes())

    def after(self, seconds: float) -> list[Row]:
        self.now = Instant(self.now + int(seconds * SECOND))
        asyncio.run(self.feeder.feed_once())
        return self.access.rows


def test_what_a_source_says_holds_and_what_it_says_no_more_does_not(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.after(0) == EXPECTED
    stage.source.answer = []
    assert stage.after(10) == []


def test_the_same_answer_again_changes_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for _ in range(3):
        stage.after(10)
    assert stage.access.calls == 1


def test_a_source_that_fails_keeps_its_facts_until_they_are_stale_and_no_longer(tmp_path: Path) -> None:
    """A39, S17: silence does not keep a fact alive."""
    stage = Stage(tmp_path)
    stage.after(0)
    stage.source.answer = None
    assert stage.after(59) == EXPECTED
    assert stage.after(1) == []
    stage.source.answer = list(EXPECTED)
    assert stage.after(10) == EXPECTED


def test_a_restart_makes_no_old_fact_young(tmp_path: Path) -> None:
    """A82: the age of the last good reading survives a restart."""
    stage = Stage(tmp_path)
    stage.after(0)
    stage.source.answer = None
    stage.restart()
    assert stage.after(30) == EXPECTED
    stage.restart()
    assert stage.after(30) == []


@pytest.mark.parametrize("damage", [None, "", "{", "[]", '{"case_assignment": "x"}'])
def test_facts_of_unknown_age_are_lost(tmp_path: Path, damage: str | None) -> None:
    stage = Stage(tmp_path)
    stage.after(0)
    ages = tmp_path / "facts.json"
    ages.unlink() if damage is None else ages.write_text(damage)
    stage.source.answer = None
    stage.restart()
    assert stage.after(1) == []


def test_a_clock_that_steps_back_extends_nothing(tmp_path: Path) -> None:
    """A78: a fact from the future is as good as lost."""
    stage = Stage(tmp_path)
    stage.after(0)
    stage.source.answer = None
    assert stage.after(-3600) == []
