"""The key server's page, docs/keys.md, command by command: every `sh` block is run by one shell."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "keys.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
DEADLINE_S = 240


def commands() -> str:
    text = "".join(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    assert text.count("127.0.0.1:7500") == 1
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return text.replace("127.0.0.1:7500", f"127.0.0.1:{one.getsockname()[1]}")


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAIA_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    shell = subprocess.Popen(
        ["bash", "-eu", "-o", "pipefail"],
        cwd=tmp_path,
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
    assert "THE END" in printed, printed[-4000:]
    assert "the key server can run with this configuration" in printed
    assert "listening on 127.0.0.1:" in printed
    assert (tmp_path / "sealed" / "keys-data" / "groups.sqlite").exists()
