"""Subjects come from files and databases, by one command: all of a source, or nothing of it (I1)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest

from maia.clock import system_now
from maia.credentials import certificate_to_text
from maia.domain.server.access_config import AccessConfig
from maia.keystore.key_files import create_key_file
from support.domain_server import DomainAtWork, admin_certificate, domain_at_work, key_of
from support.processes import Answer, maia

ANNA, BO, CY = (str(key_of(who).principal) for who in ("anna", "bo", "cy"))
COLUMNS = ("-a", "nationality", "-a", "clearance:int")
PEOPLE = [(ANNA, "anna@norway", "no", 3), (BO, "bo@norway", "no", None)]
QUERY = "SELECT key, name, nation, clearance FROM people"
Run = Callable[..., Answer]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Run `maia domain subject …` as an administrator of a domain."""
    config = AccessConfig(api_listen="127.0.0.1:0", identity_community="coalition", api_skew_s=3600)
    (tmp_path / "data").mkdir()
    with domain_at_work(tmp_path / "data", config=config, clock=system_now) as domain:
        yield prepared(domain, tmp_path)


def prepared(domain: DomainAtWork, folder: Path) -> Run:
    create_key_file(folder / "admin.key", key_of("admin"))
    (folder / "met.pub").write_text(f"{domain.key.principal}\n")
    right = admin_certificate(domain.key, key_of("admin").principal)
    (folder / "admin.cert").write_text(certificate_to_text(right))
    at = ("--server", domain.address, "--domain", "met.pub", "-k", "admin.key", "--credentials", "admin.cert")
    return lambda *words: maia("domain", "subject", *words, *at, "--json", cwd=folder)


def registered(run: Run) -> dict[str, dict[str, object]]:
    return {one["identifier"]: one["attributes"] for one in json.loads(run("list").stdout)["subjects"]}


def write(folder: Path, kind: str) -> tuple[str, ...]:
    """Write the same people in one form; return how they are named at the command."""
    named = [dict(zip(("key", "identifier", "nationality", "clearance"), one, strict=True)) for one in PEOPLE]
    given = [{name: value for name, value in one.items() if value is not None} for one in named]
    file = folder / f"people.{kind}"
    match kind:
        case "csv":
            rows = [",".join("" if value is None else str(value) for value in one) for one in PEOPLE]
            file.write_text("\n".join(["key,identifier,nationality,clearance", *rows]) + "\n")
        case "json":
            file.write_text(json.dumps(given))
        case "toml":
            tables = (
                "\n".join(f"{name} = {json.dumps(value)}" for name, value in one.items()) for one in given
            )
            file.write_text("".join(f"[[subject]]\n{table}\n" for table in tables))
        case _:
            with sqlite3.connect(file) as database:
                database.execute("CREATE TABLE people (key, name, nation, clearance)")
                database.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", PEOPLE)
            return ("--from-database", f"sqlite:///{file}", "--query", QUERY)
    return (file.name,)


@pytest.mark.parametrize("kind", ["csv", "json", "toml", "sqlite"])
def test_a_source_is_loaded_whole_and_then_only_what_changed(kind: str, run: Run, tmp_path: Path) -> None:
    source = write(tmp_path, kind)
    first = run("load", *source, *COLUMNS)
    assert first.returncode == 0, first.stderr
    assert sorted(json.loads(first.stdout)["added"]) == sorted((ANNA, BO))
    expected = {"anna@norway": {"nationality": "no", "clearance": 3}, "bo@norway": {"nationality": "no"}}
    assert registered(run) == expected
    run("add", CY, "cy@norway")
    again = json.loads(run("load", *source, *COLUMNS, "--remove-missing").stdout)
    assert {what: len(who) for what, who in again.items()} == {
        "added": 0, "changed": 0, "removed": 1, "unchanged": 2,
    }  # fmt: skip
    assert registered(run) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"key,identifier,nationality,clearance\n{CY},cy,no,3\n{CY},cy,no,3\n", "INPUT-SUBJECT-SOURCE"),
        (f"key,identifier,nationality,clearance\n{CY},cy,no,three\n", "UNAVAILABLE-FACT-ROW"),
        (f"key,identifier,nationality\n{CY},cy,no\n", "UNAVAILABLE-FACT-SOURCE"),
        (f"key,identifier,nationality,clearance\n{CY},cy,no,3", "UNAVAILABLE-FACT-SOURCE"),
        ("key,identifier,nationality,clearance\n", "INPUT-SUBJECT-SOURCE"),
    ],
    ids=["a key twice", "no number", "no column", "half a line", "nothing"],
)
def test_a_source_with_one_bad_row_changes_nothing(text: str, code: str, run: Run, tmp_path: Path) -> None:
    run("load", *write(tmp_path, "json"), *COLUMNS)
    (tmp_path / "bad.csv").write_text(text)
    refused = run("load", "bad.csv", *COLUMNS, "--remove-missing")
    assert refused.returncode != 0
    assert code in refused.stderr
    assert set(registered(run)) == {"anna@norway", "bo@norway"}


def test_subjects_are_loaded_from_postgresql_and_its_password_is_never_shown(
    run: Run, postgres_server: str
) -> None:
    with psycopg.connect(postgres_server) as database:
        database.execute("CREATE TABLE people (key text, name text, nation text, clearance int)")
        for one in PEOPLE:
            database.execute("INSERT INTO people VALUES (%s, %s, %s, %s)", one)
    try:
        parts = psycopg.conninfo.conninfo_to_dict(postgres_server)
        url = f"postgresql://?{urlencode(parts)}"
        loaded = run("load", "--from-database", url, "--query", QUERY, *COLUMNS)
        assert loaded.returncode == 0, loaded.stderr
    finally:
        with psycopg.connect(postgres_server) as database:
            database.execute("DROP TABLE people")
    assert registered(run)["anna@norway"] == {"nationality": "no", "clearance": 3}
    elsewhere = "postgresql://me:hunter2@127.0.0.1:1/people"
    refused = run("load", "--from-database", elsewhere, "--query", QUERY, *COLUMNS)
    assert "UNAVAILABLE-FACT-SOURCE" in refused.stderr
    assert "hunter2" not in refused.stderr
