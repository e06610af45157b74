"""Four routers in a ring, one killed, then another: docs/mesh.md, command by command, with real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.pages import THE_END, follow


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Follow the page from its first command to its last."""
    folder = tmp_path_factory.mktemp("page")
    return folder / "mesh", follow("mesh.md", folder, ports=[7411, 7412, 7413, 7414])


def test_a_key_and_neighbours_are_all_that_a_router_needs(followed: tuple[Path, str]) -> None:
    """I8: no network, owner, credential folder or port of another broker is configured."""
    folder, printed = followed
    logs = "".join(f"--- {log}\n{log.read_text()[-1500:]}" for log in sorted(folder.glob("*.log")))
    assert THE_END in printed, printed[-3000:] + logs
    assert printed.count("listening on 127.0.0.1:") == 5


@pytest.mark.parametrize("name", ["four", "without-east", "without-west"])
def test_events_arrive_while_any_way_is_left(followed: tuple[Path, str], name: str) -> None:
    """B5: what arrives without the east came through the west, and the other way round."""
    folder, _ = followed
    seen = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    assert [event["plate"] for event in seen] == ["AE05 XYZ"] * 2
