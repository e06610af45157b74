"""A clinic's database takes part, and its connector is killed: docs/postgres.md, command by command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from support.pages import THE_END, follow
from support.postgres import postgres_binaries


def doses(file: Path) -> list[int]:
    return [json.loads(line)["dose"] for line in file.read_text().splitlines()]


def test_every_command_works_and_each_row_leaves_once(
    tmp_path: Path, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"page_{uuid4().hex[:12]}"
    monkeypatch.setenv("DATABASE", postgres_server.replace("dbname=postgres", f"dbname={name}"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(postgres_binaries()), os.environ["PATH"]]))
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            printed = follow("postgres.md", tmp_path, ports=[7431])
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    folder = tmp_path / "clinic"
    assert THE_END in printed, printed[-3000:] + (folder / "connector.log").read_text()[-2000:]
    assert "Dr Gray|P1|aspirin|2\nDr Gray|P2|morphine|9\n" in printed
    assert doses(folder / "derived.jsonl") == [2]
    assert doses(folder / "released.jsonl") == [4, 5, 6]
    assert "checked      differences: 0" in printed
    assert "release prescriptions serving, 3 events" in printed or "serving, 2 events" in printed
