"""A reader that was away, a broker that was killed: docs/durable.md, command by command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.pages import THE_END, follow


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Follow the page from its first command to its last."""
    folder = tmp_path_factory.mktemp("page")
    return folder / "durable", follow("durable.md", folder, ports=[7411])


def plates(file: Path) -> list[str]:
    return [json.loads(line)["numberplate"] for line in file.read_text().splitlines()]


def test_every_command_works_and_each_event_comes_once(followed: tuple[Path, str]) -> None:
    folder, printed = followed
    assert THE_END in printed, printed[-4000:] + (folder / "broker.log").read_text()[-2000:]
    assert plates(folder / "first.jsonl") == ["AE05 XYZ"]
    assert plates(folder / "rest.jsonl") == ["BD51 SMR", "CE02 ABC"]
    assert plates(folder / "nothing.jsonl") == []
    assert json.loads((folder / "status.json").read_text())["log"]["position"] == 2
