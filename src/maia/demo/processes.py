"""How does a server of a story come to run as a process of its own?

It is one of Maia's own commands, such as `maia broker --config broker.toml`. Where no other thread runs it is
forked from the present process, which has everything loaded already, and runs
the command there; elsewhere a new interpreter does. No caller waits for one server
before the next one is started, and however the demonstration ends, its servers end too.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

from maia.errors import Unavailable
from maia.net.process import STOP_WITH_INPUT

_START_S: Final = 180.0
_STOP_S: Final = 8.0
_LINE_MAX: Final = 4096
_WORDS_MAX: Final = 300
_SPAWNED: Final = (
    "import sys; from pathlib import Path; from maia.demo.processes import run_server\n"
    "sys.exit(run_server(sys.argv[2:], Path(sys.argv[1]) if sys.argv[1] else None))"
)
_LOADED: Final = (
    "maia.broker.server.process", "maia.cli.servers.broker", "maia.broker.server.log_recording",
    "maia.cli.domain.commands", "maia.domain.server.process", "maia.domain.server.access",
    "maia.domain.http.application", "maia.net.http_listener", "uvicorn.protocols.http.h11_impl",
    "maia.api.tester_calls", "anyio._backends._asyncio",
    "maia.demo.stage", "maia.client.api.blocking_client",
)  # fmt: skip


_held: Final = set[int]()
"""Our ends of the pipes to all servers. A forked one that kept them would never see that we are gone."""


@dataclass(slots=True)
class Child:
    """A process that we started. Once it was waited for, its number may be a stranger's: no more signals."""

    name: str
    pid: int
    says: int
    """Where its one line is read from."""
    holds: int
    """Its standard input, as long as this process lives: the servers end with it."""
    log: Path
    has_ended: bool = False

    def ready(self) -> None:
        """Wait for the line that says that it is ready; may be asked once."""
        deadline, found = time.monotonic() + _START_S, b""
        while b"\n" not in found:
            left = deadline - time.monotonic()
            part = (
                os.read(self.says, _LINE_MAX) if select.select([self.says], [], [], max(0, left))[0] else b""
            )
            if not part:
                lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
                said = next(
                    (one.strip()[:_WORDS_MAX] for one in reversed(lines) if one.strip()), "it said nothing"
                )
                raise Unavailable("UNAVAILABLE-BROKER-NOT-STARTED", f"the {self.name} did not start: {said}")
            found += part

    def tell(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if not self.wait(0.0):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        self.tell(signal.SIGKILL)
        self.wait(_STOP_S)

    def wait(self, seconds: float) -> bool:
        """Wait for the end; say whether it has come."""
        deadline = time.monotonic() + seconds
        while not self.has_ended:
            self.has_ended = os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
            if self.has_ended:
                for ours in (self.says, self.holds):
                    os.close(ours)
                    _held.discard(ours)
            elif time.monotonic() >= deadline:
                break
            else:
                time.sleep(0.01)
        return self.has_ended


def load() -> None:
    """Load what servers and clients need, so that each server, forked from this process, starts at once."""
    gc.disable()  # and none of it is looked through for garbage, here or there
    for name in _LOADED:
        import_module(name)
    gc.freeze()
    gc.enable()


@contextmanager
def beside(work: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Do work in a copy of this process; yield what waits for its end, and raises what it raised.

    Where another thread runs, the work is done when it is waited for.
    """
    if threading.active_count() > 1:
        yield work
        return
    sys.stdout.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        problem = None
        gc.disable()  # it ends before there is anything to collect
        try:
            work()
        except BaseException as found:  # noqa: BLE001 - raised in the parent
            problem = found
        finally:
            with os.fdopen(writing, "wb") as written:
                pickle.dump(problem, written)
            os._exit(0)
    os.close(writing)

    def wait() -> None:
        problem = pickle.load(answer)  # noqa: S301 - from our own copy
        if problem is not None:
            raise problem

    try:
        with os.fdopen(reading, "rb") as answer:
            yield wait
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def start(name: str, words: Iterable[str], log: Path, *, heard: Path | None = None) -> Child:
    """Start `maia` with these words. A broker writes all that it receives to `heard`."""
    (says, writing), (reading, holds) = os.pipe(), os.pipe()
    os.set_inheritable(writing, True)
    os.set_inheritable(reading, True)
    _held.update((says, holds))
    begin = _forked if threading.active_count() == 1 else _spawned
    with log.open("ab") as errors:
        pid = begin([*words, "--log-format", "json"], (reading, writing, errors.fileno()), heard)
    os.close(writing)
    os.close(reading)
    return Child(name, pid, says, holds, log)


def stop_all(children: Iterable[Child]) -> None:
    """Ask every process to stop, and end those that do not."""
    children = list(children)
    for child in children:
        child.tell(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_S
    for child in children:
        if not child.wait(max(0.1, deadline - time.monotonic())):
            child.kill()


def _forked(words: list[str], files: tuple[int, int, int], heard: Path | None) -> int:
    """Run a command in a copy of this process, which has loaded everything that it needs."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)  # the screen is the demonstration's
        for ours in _held:
            os.close(ours)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, encoding="utf-8") for number in (1, 2))
        os.environ[STOP_WITH_INPUT] = "yes"
        status = run_server(words, heard)
    except BaseException:  # noqa: BLE001 - no caller above this fork would report it
        traceback.print_exc()
    finally:
        os._exit(status)  # nothing of the parent's is to be finished here


def _spawned(words: list[str], files: tuple[int, int, int], heard: Path | None) -> int:
    """Run a command in an interpreter of its own."""
    stdin, stdout, stderr = files
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own files
        [sys.executable, "-c", _SPAWNED, "" if heard is None else str(heard), *words],
        stdin=stdin, stdout=stdout, stderr=stderr, env=os.environ | {STOP_WITH_INPUT: "yes"},
    )  # fmt: skip
    process.returncode = 0  # who waits for it is decided here, by its number
    return process.pid


def run_server(words: list[str], heard: Path | None = None) -> int:
    """Be `maia` with these words, and a broker that writes all that it receives to `heard`."""
    from maia.broker.server import process
    from maia.broker.server.server import TapFile
    from maia.cli import main

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and stops us
    if heard is not None:
        tap = TapFile(heard).__enter__()
        process.serve = partial(process.serve, overhear=tap.write)
    return main(words)
