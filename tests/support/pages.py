"""A page of the documents, followed command by command by one shell, with real processes."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from maia.testing import free_ports
from support.nursery import SPARK_COMMANDS_AT, maia_command, receive_command, send_numbers
from support.processes import maia

__all__ = ["THE_END", "follow"]

THE_END: Final = "THE END"
"""What is printed last, if every command worked."""
_PAGES: Final = Path(__file__).resolve().parents[2] / "docs"
_BLOCK: Final = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
_DEADLINE_S: Final = 900


def follow(page: str | Sequence[str], folder: Path, *, ports: Sequence[int]) -> str:
    """Run every `sh` block of a page in a folder; return what was printed. Only the ports are changed.

    Several pages share one shell and the servers that they start. If a command fails, the logs follow.
    Commands of `maia pipeline` run in this process, which may have a session for them (`sparkling`).
    """
    pages = [page] if isinstance(page, str) else page
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAIA_")}
    found_in = (str(maia_command().parent), str(Path(sys.executable).parent), environment["PATH"])
    environment["PATH"] = os.pathsep.join(found_in)
    with (
        tempfile.TemporaryDirectory(prefix="maia-page-", dir="/tmp") as place,
        ThreadPoolExecutor(1) as beside,
    ):
        environment[SPARK_COMMANDS_AT] = f"{place}/socket"
        listening = socket.create_server(environment[SPARK_COMMANDS_AT], family=socket.AF_UNIX)
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
            typed = f"{_commands(pages, ports)}\necho {THE_END}\n"
            talk = beside.submit(shell.communicate, typed, _DEADLINE_S)
            _run_on_spark(listening, talk)
            printed, _ = talk.result()
        finally:
            # Whatever the page left running belongs to the shell's own session, and to nobody else.
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
            listening.close()
    if THE_END not in printed:
        printed += "".join(f"{one.name}:\n{one.read_text()[-2000:]}" for one in sorted(folder.glob("*.log")))
    return printed


def _run_on_spark(listening: socket.socket, talk: Future[tuple[str, str]]) -> None:
    """Run in this thread what the page needs Spark for, until the page is done."""
    while not talk.done():
        if not select.select([listening], [], [], 0.1)[0]:
            continue
        connection, _ = listening.accept()
        with connection:
            asked, (_, out, err) = receive_command(connection)
            said = maia(*asked["words"], cwd=Path(asked["cwd"]))
            for descriptor, text in ((out, said.stdout), (err, said.stderr)):
                with os.fdopen(descriptor, "w") as stream:
                    stream.write(text)
            send_numbers(connection, os.getpid(), said.returncode)


def _commands(pages: Sequence[str], ports: Sequence[int]) -> str:
    text = "".join(
        block for page in pages for block in _BLOCK.findall((_PAGES / page).read_text(encoding="utf-8"))
    )
    for shown, free in zip(ports, free_ports(len(ports)), strict=True):
        assert f"127.0.0.1:{shown}" in text
        text = text.replace(f"127.0.0.1:{shown}", f"127.0.0.1:{free}")
    return text
