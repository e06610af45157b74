"""The commands of docs/pipeline-applications.md work, in the order of the page, with fewer events."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from maia.cli import main

PAGE = Path(__file__).resolve().parents[3] / "docs" / "pipeline-applications.md"
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    for line in block.splitlines()
]


def with_fewer_events(command: str) -> list[str]:
    words = shlex.split(re.sub(r"--rows \d+", "--rows 2000", command))
    return words + (["--per-day", "1000"] if "generate" in words else [])


def test_every_command_of_the_page_works(sparkling, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) > 8
    for command in COMMANDS:
        program, *words = with_fewer_events(command)
        assert program == "maia"
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"
        assert capsys.readouterr().out
    made = {path.name for path in tmp_path.iterdir()}
    folders = {"city", "exchange", "air", "hospital", "charges", "matches"}
    keys = {f"{name}.{half}" for name in ("city", "billing", "statistics") for half in ("key", "pub")}
    rights = {"sighting.type", "billing.cert", "statistics.cert"}
    assert made == folders | keys | rights | {"charges.png", "traffic.svg", "path.png", "doctors.png"}


@pytest.mark.parametrize("name", re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.M))
def test_the_page_tells_what_an_application_never_reads(name):
    from maia.spark.applications import APPLICATIONS

    row = next(
        line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{name}`")
    )
    assert bool(row.split("|")[3].strip()) == bool(APPLICATIONS[name].never_reads)
