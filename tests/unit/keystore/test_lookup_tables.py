"""Tables of `lookup`: where they are read from, how long a reading holds, and for whose rules they are."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import psycopg
import pytest

from maia.errors import MaiaError
from maia.events import AttributeUid, Instant, Kind
from maia.expressions.meaning import NO_KEYS, TransformationKeys, value_of
from maia.expressions.syntax import Call, Function, Take
from maia.keystore.lookup_tables import ReadTable, TransformationKeyFile, read_lookups
from support.domain_server import key_of

HOSPITAL, DELEGATE = key_of("hospital").principal, key_of("delegate").principal
WARD = Take(AttributeUid("ward"), Kind.STRING)
FOUND = Call(Function.LOOKUP, WARD, ("wards", "int"))


def named(folder: Path, *words: str, key: str = "string", value: str = "int") -> Path:
    """Write a file that names one table of the hospital's."""
    lines = [
        "[[lookups]]",
        'name = "wards"',
        f'issuer = "{HOSPITAL}"',
        f'key = "{key}"',
        f'value = "{value}"',
    ]
    file = folder / "lookups.toml"
    file.write_text("\n".join([*lines, *words, "every_s = 10", "stale_s = 60"]) + "\n")
    return file


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def only(file: Path, clock: Clock | None = None) -> ReadTable:
    return read_lookups(file, clock or Clock())[HOSPITAL.key]["wards"]


def test_a_table_is_read_from_a_file_from_sqlite_and_from_postgresql(tmp_path: Path, postgres_server: str):
    (tmp_path / "wards.csv").write_text("title,ward,extra\n4,A,x\n7,B,y\n")
    with sqlite3.connect(tmp_path / "wards.sqlite") as file:
        file.execute("create table beds (site text, ward text, number integer)")
        file.executemany("insert into beds values (?, ?, ?)", [("n", "A", 4), ("n", "B", 7), ("s", "C", 9)])
    file.close()
    with psycopg.connect(postgres_server, autocommit=True) as session:
        session.execute("drop table if exists beds")
        session.execute("create table beds (ward text, number bigint)")
        session.execute("insert into beds values ('A', 4), ('B', 7)")
    sources = (
        ('source = "file"', 'path = "wards.csv"', 'columns = ["ward", "title"]'),
        ('source = "sqlite"', 'path = "wards.sqlite"', "parameters = { site = 'n' }",
         'query = "select ward, number from beds where site = :site"'),
        ('source = "postgresql"', f'url = "{postgres_server}"', 'query = "select ward, number from beds"'),
    )  # fmt: skip
    for words in sources:
        table = only(named(tmp_path, *words))
        table.refresh()
        found = [table.find(key, Kind.INT) for key in ("A", "B", "C", 4)]
        assert found == [4, 7, None, None], words
        assert table.find("A", Kind.STRING) is None, "a value of another kind than was stated is not there"
        assert "4" not in repr(table).split(" at 0x")[0]


def test_a_reading_holds_for_its_stated_age_and_no_longer(tmp_path: Path):
    path, clock = tmp_path / "wards.json", Clock()
    path.write_text(json.dumps([["A", 4]]))
    file = named(tmp_path, 'source = "file"', 'path = "wards.json"', 'columns = ["ward", "title"]')
    table = only(file, clock)
    assert table.is_due
    table.refresh()
    path.write_text(json.dumps([["A", 5]]))
    clock.now = 10
    assert table.is_due
    table.refresh()
    assert table.find("A", Kind.INT) == 5
    for wrong in ('[["A", 5], ["A", 6]]', '[["A", "five"]]', '[["A"]]', '[["A", null]]', "[", None):
        path.unlink(missing_ok=True) if wrong is None else path.write_text(wrong)
        with pytest.raises(MaiaError):
            table.refresh()
        assert table.find("A", Kind.INT) == 5
    clock.now = 70
    assert table.find("A", Kind.INT) == 5
    clock.now = 70.5
    assert table.find("A", Kind.INT) is None


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("bytes", "beef", b"\xbe\xef"),
        ("float", 1, 1.0),
        ("bool", True, True),
        ("timestamp", "2026-11-15T12:00:00Z", Instant.parse("2026-11-15T12:00:00Z")),
    ],
)
def test_cells_are_of_the_stated_kind(tmp_path: Path, kind: str, cell: object, value: object):
    (tmp_path / "wards.json").write_text(json.dumps([["A", cell]]))
    words = ('source = "file"', 'path = "wards.json"', 'columns = ["ward", "title"]')
    table = only(named(tmp_path, *words, value=kind))
    table.refresh()
    found = table.find("A", Kind(kind))
    assert (found, type(found)) == (value, type(value))


def test_a_table_is_for_the_rules_of_its_own_issuer(tmp_path: Path):
    """A93: a delegate that transforms what it was granted looks nothing up in the owner's tables."""
    (tmp_path / "wards.csv").write_text("ward,title\nA,4\n")
    file = named(tmp_path, 'source = "file"', 'path = "wards.csv"', 'columns = ["ward", "title"]')
    keys: TransformationKeys = TransformationKeyFile(lookups=str(file)).transformation_keys()
    event = {AttributeUid("ward"): "A"}
    assert value_of(FOUND, event, keys.of(HOSPITAL.key, b"")) == 4
    assert value_of(FOUND, event, keys.of(DELEGATE.key, b"")) is None
    assert value_of(FOUND, event, keys.only([DELEGATE.key]).of(HOSPITAL.key, b"")) is None
    assert value_of(FOUND, event, NO_KEYS.of(HOSPITAL.key, b"")) is None
    assert value_of(FOUND, {}, keys.of(HOSPITAL.key, b"")) is None


@pytest.mark.parametrize(
    "words",
    [
        ('source = "file"', 'path = "a.csv"'),
        ('source = "file"', 'path = "a.csv"', 'columns = ["a"]'),
        ('source = "sqlite"', 'path = "a.sqlite"'),
        ('source = "http"',),
        ('source = "file"', 'path = "a.csv"', 'columns = ["a", "b"]', 'kolumns = "x"'),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_line(tmp_path: Path, words: tuple[str, ...]):
    with pytest.raises(MaiaError, match="line"):
        read_lookups(named(tmp_path, *words))
