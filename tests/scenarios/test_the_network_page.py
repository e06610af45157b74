"""Two domains that do not know each other share a type owned by a third: docs/network.md, command by command.

Every `sh` block of the page is run, in order, by one shell, with real
processes. The ports are the only thing that is changed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.pages import THE_END, follow


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Follow the page from its first command to its last."""
    folder = tmp_path_factory.mktemp("page")
    return folder / "network", follow("network.md", folder, ports=[7401, 7402, 7403])


def logs(folder: Path) -> str:
    return "".join(f"--- {log}\n{log.read_text()[-2000:]}" for log in sorted(folder.glob("*/broker.log")))


def test_every_command_of_the_page_works(followed: tuple[Path, str]) -> None:
    folder, printed = followed
    assert THE_END in printed, printed[-4000:] + logs(folder)
    assert printed.count("listening on 127.0.0.1:") == 3


def test_the_detective_sees_the_car_at_victoria_whatever_the_camera_claims(
    followed: tuple[Path, str],
) -> None:
    folder, _ = followed
    seen = [json.loads(line) for line in (folder / "met" / "seen.jsonl").read_text().splitlines()]
    assert [(event["numberplate"], event["location"]) for event in seen] == [("AE05 XYZ", "Victoria")] * 2


def test_programs_do_what_the_commands_do(followed: tuple[Path, str]) -> None:
    folder, printed = followed
    assert (folder / "met" / "watched.txt").read_text() == "AE05 XYZ at Victoria\n"
    broker = (folder / "ccs" / "broker.pub").read_text().strip()
    assert f"published through {broker}" in printed


def test_the_detective_cannot_publish(followed: tuple[Path, str]) -> None:
    assert "refused, as it should be" in followed[1]


def test_the_definition_that_a_broker_hands_out_is_the_owners(followed: tuple[Path, str]) -> None:
    folder, _ = followed
    assert (folder / "met" / "fetched.type").read_text() == (folder / "pito" / "numberplate.type").read_text()


def test_nothing_secret_is_in_a_log(followed: tuple[Path, str]) -> None:
    folder, printed = followed
    told = printed + logs(folder)
    for key in folder.glob("*/*.key"):
        seed = re.search(r"\(seed\s+[|#]([^|#]+)[|#]\)", key.read_text())
        assert seed is not None
        assert seed[1] not in told
