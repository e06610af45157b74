"""A page of the documents, followed command by command by one shell, with real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from support.nursery import maia_command
from support.ports import free_ports

__all__ = ["THE_END", "follow"]

THE_END: Final = "THE END"
"""What is printed last, if every command worked."""
_PAGES: Final = Path(__file__).resolve().parents[2] / "docs"
_BLOCK: Final = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
_DEADLINE_S: Final = 900


def follow(page: str | Sequence[str], folder: Path, *, ports: Sequence[int]) -> str:
    """Run every `sh` block of a page in a folder; return what was printed. Only the ports are changed.

    Several pages share one shell and the servers that they start. If a command fails, the logs follow.
    """
    pages = [page] if isinstance(page, str) else page
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAIA_")}
    found_in = (str(maia_command().parent), str(Path(sys.executable).parent), environment["PATH"])
    environment["PATH"] = os.pathsep.join(found_in)
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
        printed, _ = shell.communicate(f"{_commands(pages, ports)}\necho {THE_END}\n", timeout=_DEADLINE_S)
    finally:
        # Whatever the page left running belongs to the shell's own session, and to nobody else.
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    if THE_END not in printed:
        printed += "".join(f"{one.name}:\n{one.read_text()[-2000:]}" for one in sorted(folder.glob("*.log")))
    return printed


def _commands(pages: Sequence[str], ports: Sequence[int]) -> str:
    text = "".join(
        block for page in pages for block in _BLOCK.findall((_PAGES / page).read_text(encoding="utf-8"))
    )
    for shown, free in zip(ports, free_ports(len(ports)), strict=True):
        assert f"127.0.0.1:{shown}" in text
        text = text.replace(f"127.0.0.1:{shown}", f"127.0.0.1:{free}")
    return text
