"""The page docs/postgres-views.md: every `sh` block is run by one shell, with a real PostgreSQL."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.pages import THE_END, follow
from support.postgres import postgres_binaries, running_server


@pytest.mark.skipif(shutil.which("psql") is None, reason="the page uses psql")
def test_every_command_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_server(postgres_binaries()) as address:
        host = dict(word.split("=") for word in address.split())["host"]
        for name, value in {"PGHOST": host, "PGUSER": "maia", "PGDATABASE": "postgres"}.items():
            monkeypatch.setenv(name, value)
        printed = follow("postgres-views.md", tmp_path, ports=[])
    assert THE_END in printed, printed[-4000:]
    assert "Ann||CB\nBob||CB1 2AB\nCas||\n" in printed
    assert "POLICY-NO-CHAIN" in printed
    assert "permission denied" in printed or "does not exist" in printed
    assert printed.count(" made ") == 2
    assert printed.count(" removed") == 2
    assert printed.count("in           public.prescriptions as carer") == 2
    assert "2 tables that are read by themselves" in printed
    assert "3 of public.prescriptions as carer, in 1 reads that had not committed then" in printed
    assert "3 of public.prescriptions as carer, in a session of carer" in printed
