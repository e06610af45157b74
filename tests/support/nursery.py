"""A process that has loaded `maia` once and forks a copy for each command, so that none imports it again.

An interpreter that loads a broker computes for almost a second, and the suite
runs hundreds. A copy is a process like any other, with its own number, folder,
environment, output and end, and what it starts with `python -m maia.cli` is a copy as well;
`tests/unit/cli/test_start.py` starts interpreters.
Lanes share one nursery, which is loaded while tests are collected.

A client connects to the nursery's socket and sends what is to be run, with
the descriptors for input, output and errors. It is answered with the number of
the process and, when that has ended, with its status. Each byte that the client
sends in between is a signal for the process; a client that goes away kills it.
"""

from __future__ import annotations

import atexit
import gc
import marshal
import os
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

__all__ = [
    "SPARK_COMMANDS_AT",
    "Forked",
    "forked",
    "maia_command",
    "maia_python",
    "module_command",
    "receive_command",
    "send_numbers",
    "spark_python",
    "start_nurseries",
]

TESTS: Final = Path(__file__).resolve().parents[1]
START_S: Final = 180.0
END_S: Final = 20.0
SPARK_COMMANDS_AT: Final = "SPARK_COMMANDS_AT"
"""The variable that names a socket for commands that need Spark, if the nursery is not to run them."""
_NUMBER: Final = struct.Struct("!i")
_REQUEST_MAX: Final = 1 << 20
_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_LOADED: Final = (
    *(
        "certifi",
        "csv",
        "encodings.idna",
        "httpcore",
        "httpx",
        "importlib.metadata",
        "pydantic.plugin._loader",
    ),
    *("typer._adapters", "typer._click.decorators", "maia.broker.server.log_recording"),
    *("maia.gateway.server.process", "maia.net.statement_links", "maia.postgres.views"),
    *("sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.sqlite", "uvicorn.lifespan.off"),
    *("uvicorn.protocols.http.h11_impl", "maia.api.client", "maia.broker.server.process"),
    *(
        "maia.client.api.client",
        "maia.domain.http.application",
        "maia.net.http_listener",
        "maia.console.server",
    ),
    *("maia.domain.server.access", "maia.domain.server.process", "maia.domain.server.service"),
    *("maia.domain.server.statement_stream", "maia.domain.storage.store", "maia.keystore.key_files"),
    *("maia.log.disk.event_log", "maia.postgres.process", "maia.roles"),
)
"""What commands load when they need it."""
_SPARK_PROGRAMS: Final = ("pyspark.sql.streaming.python_streaming_source_runner", "pyspark.daemon")
"""What Spark starts with `python -m`: the process beside a stream, and the parent of its workers."""
_LOADED_BY_SPARK: Final = (
    *_SPARK_PROGRAMS,
    *("pyspark.worker", "pyspark.sql.worker.plan_data_source_read", "pandas", "pyarrow.parquet"),
)
_LOADED_BY_WORKERS: Final = (
    "maia.spark.source.data_source",
    "maia.spark.governed.table",
    "maia.views.to_spark",
)


class Forked:
    """A process of the nursery, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, connection: socket.socket) -> None:
        """Wait for the number of the process."""
        self._connection = connection
        self.pid: int = self._received()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the status of a process that has ended, or None."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.returncode = self._received()
            self._connection.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the status when the process has ended."""
        if self.returncode is None and not select.select([self._connection], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("maia", timeout or 0)
        status = self.poll()
        assert status is not None
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(BrokenPipeError):
                self._connection.send(bytes([number]))

    def terminate(self) -> None:
        """Ask the process to stop."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once."""
        self.send_signal(signal.SIGKILL)

    def _received(self) -> int:
        data = self._connection.recv(_NUMBER.size, socket.MSG_WAITALL)
        assert len(data) == _NUMBER.size, "the nursery has ended"
        return int(_NUMBER.unpack(data)[0])


def forked(
    words: Sequence[object],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    module: str = "maia.cli",
) -> Forked:
    """Run `maia WORDS…` in a copy of the nursery; descriptors are input, output and errors."""
    asked = {"words": [str(word) for word in words], "cwd": str(cwd), "ignored": [], "nice": os.nice(0)}
    asked["module"] = module
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(nursery()))
    request = marshal.dumps({**asked, "environment": dict(environment)})
    socket.send_fds(connection, [_NUMBER.pack(len(request))], list(descriptors))
    connection.sendall(request)
    return Forked(connection)


def nursery(*modules: str) -> Path:
    """Return the socket of a nursery that has loaded modules, when it listens."""
    path = Path(start_nursery(*modules).name, "socket")
    deadline = time.monotonic() + START_S
    while not path.exists():
        assert time.monotonic() < deadline, "the nursery did not start"
        time.sleep(0.02)
    return path


@cache
def start_nursery(*modules: str) -> tempfile.TemporaryDirectory[str]:
    """Start a nursery, which ends with this process, and return the folder of its socket.

    Lanes use the one that was started before they were copied, if it has loaded the same modules.
    """
    folder = tempfile.TemporaryDirectory(prefix="maia-nursery-", dir="/tmp")
    # Without threads for linear algebra: a copy has none of its parent's.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "support.nursery", f"{folder.name}/socket", *(modules or _LOADED)]
    started = subprocess.Popen(command, cwd=TESTS, env=environment, stdin=subprocess.PIPE)

    def end() -> None:
        started.stdin.close()
        try:
            started.wait(END_S)
        except subprocess.TimeoutExpired:  # something that a lane left behind holds its input open
            started.kill()
            started.wait()
        folder.cleanup()

    atexit.register(end)
    return folder


def start_nurseries() -> None:
    """Start those that lanes share: one for commands, and one for Spark."""
    start_nursery()
    start_nursery(*_LOADED_BY_SPARK, *_LOADED_BY_WORKERS)


COMMAND: Final = """\
#!{python} -IS
# What is asked for runs in a copy of the nursery, which is sent the signals. Nothing is imported that takes
# longer than the command: `signal` and `socket` alone double the time.
import _signal, _socket, marshal, os, sys
path, module = {path!r}, {module!r}
{first}
link = _socket.socket(_socket.AF_UNIX)
link.connect(path)
passed_on = {passed_on!r}
ignored = [one for one in passed_on if _signal.getsignal(one) == _signal.SIG_IGN]
request = marshal.dumps({{"module": module, "words": sys.argv[1:], "cwd": os.getcwd(), "ignored": ignored,
                         "nice": os.nice(0), "environment": dict(os.environ)}})
descriptors = b"".join(one.to_bytes(4, sys.byteorder) for one in (0, 1, 2))
rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)
link.sendmsg([len(request).to_bytes(4, "big")], [rights])
link.sendall(request)
for one in passed_on:
    if one not in ignored:
        _signal.signal(one, lambda sent, _: link.send(bytes([sent])))
link.recv(4, _socket.MSG_WAITALL)
status = int.from_bytes(link.recv(4, _socket.MSG_WAITALL), "big", signed=True)
if status < 0:
    _signal.signal(-status, _signal.SIG_DFL) if -status != {killed} else None
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@cache
def maia_command() -> Path:
    """Return a program that is used as `maia` is, and named so; it goes with the nursery."""
    first = (
        # Its page kills it and goes on at once: of a copy, only the program in front is gone by then.
        "if sys.argv[1:3] == ['postgres', 'run']:\n"
        "    os.execv(sys.executable, [sys.executable, '-m', 'maia.cli', *sys.argv[1:]])\n"
        f"path = sys.argv[1:2] == ['pipeline'] and os.environ.get({SPARK_COMMANDS_AT!r}) or path"
    )
    return _program("maia", nursery(), "maia.cli", first)


@cache
def module_command(module: str) -> Path:
    """Return a program that does what `python -m MODULE` would do in `tests`."""
    return _program(module, nursery(), module, "")


@cache
def maia_python() -> Path:
    """Return a Python for which `-m maia.cli` is a copy of the nursery."""
    return _python_of(nursery())


def _python_of(path: Path) -> Path:
    first = (
        "if sys.argv[1:3] != ['-m', 'maia.cli']: os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
        "del sys.argv[1:3]"
    )
    return _program("python3", path, "maia.cli", first)


@cache
def spark_python(*, has_maia: bool = True) -> Path:
    """Return a Python for Spark, whose processes beside streams, and workers, have loaded everything already.

    Each would compute for a second or two before it answers, and Spark gives a stream's up after ten.
    On a cluster, the package comes with the job.
    """
    first = (
        f"if sys.argv[1] != '-m' or sys.argv[2] not in {_SPARK_PROGRAMS!r}:\n"
        "    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
        "module = sys.argv[2]\n"
        "del sys.argv[1:3]"
    )
    return _program(
        "python", nursery(*_LOADED_BY_SPARK, *(_LOADED_BY_WORKERS if has_maia else ())), "", first
    )


def _program(name: str, path: Path, module: str, first: str) -> Path:
    file = path.parent / str(os.getpid()) / name  # lanes share the nursery, but write no file together
    file.parent.mkdir(exist_ok=True)
    passed_on = [int(one) for one in _PASSED_ON]
    filled = COMMAND.format(
        python=sys.executable,
        path=str(path),
        first=first,
        module=module,
        passed_on=passed_on,
        killed=int(signal.SIGKILL),
    )
    file.write_text(filled)
    file.chmod(0o755)
    return file


def receive_command(connection: socket.socket) -> tuple[Mapping[str, object], list[int]]:
    """Return what a client asks to be run, and its descriptors for input, output and errors."""
    connection.settimeout(START_S)
    size, descriptors, _, _ = socket.recv_fds(connection, _NUMBER.size, 3)
    length = _NUMBER.unpack(size)[0]
    assert length <= _REQUEST_MAX
    asked = marshal.loads(connection.recv(length, socket.MSG_WAITALL))  # noqa: S302 - by a process of the suite
    return dict(asked), descriptors


def send_numbers(connection: socket.socket, *numbers: int) -> None:
    """Answer a client: with the number of the process, then with its status."""
    for number in numbers:
        connection.sendall(_NUMBER.pack(number))


# ------------------------------------------------------------ the nursery itself


@dataclass
class Nursery:
    """The server: connections of clients, and the processes that run for them."""

    listening: socket.socket
    woken: socket.socket
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    children: dict[int, socket.socket] = field(default_factory=dict)

    def run(self) -> Mapping[str, object] | None:
        """Serve until standard input ends; in a copy, return what is to be run there."""
        self.selector.register(self.listening, selectors.EVENT_READ)
        self.selector.register(self.woken, selectors.EVENT_READ)
        self.selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            # Whoever is gone first: what comes next may need what its process holds.
            for key, _ in sorted(self.selector.select(), key=lambda one: one[0].fileobj is self.listening):
                if key.fileobj is sys.stdin:
                    self._end()
                    return None
                if key.fileobj is self.woken:
                    self.woken.recv(4096)
                    self._bury_all()
                elif key.fileobj is self.listening:
                    asked = self._accept()
                    if asked is not None:
                        return asked
                elif key.data in self.children:  # not buried since
                    self._pass_on(key.fileobj)

    def _accept(self) -> Mapping[str, object] | None:
        connection, _ = self.listening.accept()
        asked, descriptors = receive_command(connection)
        child = os.fork()
        if child == 0:
            self._become(descriptors)
            return asked
        for one in descriptors:
            os.close(one)
        connection.sendall(_NUMBER.pack(child))
        self.children[child] = connection
        self.selector.register(connection, selectors.EVENT_READ, child)
        return None

    def _become(self, descriptors: Sequence[int]) -> None:
        """Keep nothing of the nursery's in a copy but what it has loaded."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for connection in (self.listening, self.woken, *self.children.values()):
            connection.close()
        self.selector.close()
        for number, one in enumerate(descriptors):
            os.dup2(one, number)
        for one in descriptors:
            os.close(one)

    def _pass_on(self, connection: object) -> None:
        assert isinstance(connection, socket.socket)
        child = self.selector.get_key(connection).data
        try:
            numbers = connection.recv(4096)
        except OSError:
            numbers = b""
        for number in numbers or [signal.SIGKILL]:
            os.kill(child, number)
        if not numbers:
            self._bury(*os.waitpid(child, 0))

    def _bury_all(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._bury(*ended)

    def _bury(self, child: int, status: int) -> None:
        connection = self.children.pop(child)
        self.selector.unregister(connection)
        with suppress(OSError):
            connection.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))
        connection.close()

    def _end(self) -> None:
        for child in self.children:
            os.kill(child, signal.SIGKILL)


def main(path: str, *modules: str) -> None:
    """Load, serve, and in a copy run what was asked for."""
    for name in modules:
        import_module(name)
    if modules == _LOADED:
        import_module("maia.cli.main").commands_for([])  # every command's module
        sys.executable = str(_python_of(Path(path)))  # the servers of `maia up` are copies, too
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{path}.new")
    listening.listen(64)
    woken, waking = socket.socketpair()
    waking.setblocking(False)
    woken.setblocking(False)
    signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.collect()
    gc.freeze()  # a copy neither looks through what was loaded nor takes memory for it
    Path(f"{path}.new").rename(path)  # now it is found
    asked = Nursery(listening, woken).run()
    if asked is not None:
        waking.close()
        _end(_be(asked))


def _be(asked: Mapping[str, object]) -> int:
    """Be what `python -m maia.cli WORDS…`, or another module, would be, and return the status."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    os.chdir(str(asked["cwd"]))
    os.nice(max(0, asked["nice"] - os.nice(0)))
    for number in asked["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    sys.argv = ["maia", *asked["words"]]
    module = str(asked.get("module", "maia.cli"))
    if module in _SPARK_PROGRAMS:
        del sys.modules[module]  # it is run and not imported
    try:
        runpy.run_module(module, run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        return 1
    return 0


def _end(status: int) -> None:
    """End as an interpreter does, without taking apart every module that the nursery has loaded."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
