"""A reader that was away, a broker that was killed: docs/durable.md, command by command."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "durable.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
DEADLINE_S = 240


def commands() -> str:
    text = "".join(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return text.replace("127.0.0.1:7411", f"127.0.0.1:{free.getsockname()[1]}")


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Follow the page from its first command to its last."""
    folder = tmp_path_factory.mktemp("page")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAIA_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    shell = subprocess.Popen(
        ["bash", "-eu", "-o", "pipefail"],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(commands() + "\necho THE END\n", timeout=DEADLINE_S)
    finally:
        # Whatever the page left running belongs to the shell's own session, and to nobody else.
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    return folder / "durable", printed


def plates(file: Path) -> list[str]:
    return [json.loads(line)["numberplate"] for line in file.read_text().splitlines()]


def test_every_command_works_and_each_event_comes_once(followed: tuple[Path, str]) -> None:
    folder, printed = followed
    assert "THE END" in printed, printed[-4000:] + (folder / "broker.log").read_text()[-2000:]
    assert plates(folder / "first.jsonl") == ["AE05 XYZ"]
    assert plates(folder / "rest.jsonl") == ["BD51 SMR", "CE02 ABC"]
    assert plates(folder / "nothing.jsonl") == []
    assert json.loads((folder / "status.json").read_text())["log"]["position"] == 2
