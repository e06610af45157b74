"""Two domains that do not know each other share a type owned by a third: docs/network.md, command by command.

Every `sh` block of the page is run, in order, by one shell, with real
processes. The ports are the only thing that is changed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "network.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
DEADLINE_S = 240


def free_ports(how_many: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(how_many)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def commands() -> str:
    text = "".join(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    for shown, free in zip(("7401", "7402", "7403"), free_ports(3), strict=True):
        assert text.count(f"127.0.0.1:{shown}") == 1
        text = text.replace(f"127.0.0.1:{shown}", f"127.0.0.1:{free}")
    return text


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
    return folder / "network", printed


def logs(folder: Path) -> str:
    return "".join(f"--- {log}\n{log.read_text()[-2000:]}" for log in sorted(folder.glob("*/broker.log")))


def test_every_command_of_the_page_works(followed: tuple[Path, str]) -> None:
    folder, printed = followed
    assert "THE END" in printed, printed[-4000:] + logs(folder)
    assert printed.count("listening on 127.0.0.1:") == 3


def test_the_detective_sees_the_car_at_victoria_whatever_the_camera_claims(
    followed: tuple[Path, str],
) -> None:
    folder, _ = followed
    seen = [json.loads(line) for line in (folder / "met" / "seen.jsonl").read_text().splitlines()]
    assert [(event["numberplate"], event["location"]) for event in seen] == [("AE05 XYZ", "Victoria")] * 2


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
