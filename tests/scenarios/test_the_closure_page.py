"""D7 from the command line: docs/closure.md, command by command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.pages import THE_END, follow


@pytest.fixture(scope="module")
def followed(sparkling, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Follow the page from its first command to its last."""
    folder = tmp_path_factory.mktemp("page")
    return folder / "closure", follow("closure.md", folder, ports=[])


def test_the_closure_names_everybody_who_can_see_patients_by_which_certificates(followed):
    folder, printed = followed
    assert THE_END in printed, printed[-4000:]
    assert json.loads((folder / "built.json").read_text())["principals"] == 3
    rows = [json.loads(line) for line in (folder / "who-can.jsonl").read_text().splitlines()]
    keys = {
        name: next(word for word in (folder / f"{name}.pub").read_text().split() if "ed25519:" in word)
        for name in ("hospital", "ward", "office", "doctor")
    }
    found = {row["principal"]: (row["where"], len(row["certificates"])) for row in rows}
    assert found == {keys["hospital"]: ("", 0), keys["ward"]: ("", 1), keys["doctor"]: ("ward == 3", 2)}
    assert "computed     1 principals anew, in 1 of 1 types" in printed
