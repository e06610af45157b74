"""A real cluster on loopback: a master, two workers, and a server of Spark Connect, that end with the test.

Where that can be, workers and server run as on machines of their own (`machines.py`): of this one they have
the network, the interpreter, and the folder that is shared.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import pyspark

from maia.spark.session.java_home import find_class_archive, find_java_home
from maia.testing import free_port
from support.machines import ACCOUNT, apart, why_not_apart
from support.nursery import spark_python

__all__ = ["DEADLINE_S", "RunningCluster", "connect_server", "java_options", "running_cluster", "until"]

DEADLINE_S = 900.0
_STOP_S = 10.0
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_LIGHTLY = "-XX:+UseSerialGC -XX:-UsePerfData -XX:TieredStopAtLevel=1"
_SECRETS = ("spark.authenticate", "spark.network.crypto.enabled")


@dataclass(frozen=True)
class RunningCluster:
    """Where the cluster is, and its workers by process."""

    master: str
    secret_file: Path
    workers: tuple[subprocess.Popen[bytes], ...]
    disk: str
    """Where workers keep what is their own."""

    @property
    def environment(self) -> dict[str, str]:
        """Return what tells `maia` about this cluster."""
        return {
            "MAIA_SPARK_MASTER": self.master,
            "MAIA_SPARK_SECRET_FILE": str(self.secret_file),
            "MAIA_SPARK_EXECUTOR_MIB": "512",
            # A machine of its own does not reach the nursery of this one.
            "MAIA_SPARK_PYTHON": sys.executable if not why_not_apart() else str(spark_python(has_maia=False)),
        }

    def executors(self) -> list[int]:
        """Return the processes of executors, which are children of ours."""
        return [pid for worker in self.workers for pid in _children(worker.pid) if _is_executor(pid)]

    def kill_one_executor(self, *, works: int | None = None) -> int:
        """Kill an executor as a machine that loses power would, and return which it was.

        With the process that forks its Python workers, it is the executor of these.
        """
        pid = next(one for one in self.executors() if works is None or works in _children(one))
        os.kill(pid, SIGKILL)
        return pid


@contextmanager
def running_cluster(folder: Path) -> Iterator[RunningCluster]:
    """Start a master and two workers with one core each, that only talk to who knows their secret."""
    secret = _secret(folder)
    with ExitStack() as stack:
        port = free_port()
        master = f"spark://127.0.0.1:{port}"
        head = stack.enter_context(
            _daemon(folder, "master.Master", "--port", str(port), secret=secret, host="127.0.0.1")
        )
        until(lambda: _listens(port), "the master listens", alive=head)
        workers = tuple(
            stack.enter_context(_worker(folder, number, master, secret=secret)) for number in range(2)
        )
        yield RunningCluster(master, secret, workers, _disk(folder))


@contextmanager
def _worker(folder: Path, number: int, master: str, *, secret: Path) -> Iterator[subprocess.Popen[bytes]]:
    size = ("--cores", "1", "--memory", "800M", "--work-dir", _disk(folder) + f"/worker-{number}")
    started: list[int] = []
    try:
        # Executors read each other's files where their addresses are the same.
        host = f"127.0.0.{number + 2}"
        with _daemon(
            folder, "worker.Worker", *size, master, secret=secret, host=host, is_apart=True
        ) as process:
            try:
                yield process
            finally:
                started += _children(process.pid)
    finally:
        for pid in filter(_is_executor, started):  # a worker ends its executors, unless it had no time to
            with suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)


@contextmanager
def connect_server(folder: Path) -> Iterator[dict[str, str]]:
    """Start a server of Spark Connect with a Spark of its own; yield what tells `maia` about it."""
    secret, port = _secret(folder), free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": java_options(),
        # What it makes in a shared folder is as open as that.
        "spark.hadoop.fs.permissions.umask-mode": "000",
        "spark.local.dir": _disk(folder),
        "spark.sql.warehouse.dir": _disk(folder) + "/warehouse",
        "spark.ui.enabled": "false",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    own = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": secret.read_text(),
        "SPARK_DAEMON_MEMORY": "700m",
    }
    server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[1]")
    command = [_spark_home() + "/bin/spark-submit", *server, *words, "spark-internal"]
    with _process(folder, command, is_apart=True, more=own) as process:
        until(lambda: _listens(port), "the server of Connect listens", alive=process)
        yield {"MAIA_SPARK_MASTER": f"sc://localhost:{port}", "MAIA_SPARK_SECRET_FILE": str(secret)}


@contextmanager
def _daemon(
    folder: Path, name: str, *words: str, secret: Path, host: str, is_apart: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    settings = folder / "shared" / ("worker.conf" if is_apart else "master.conf")
    lines = [f"{setting} true\n" for setting in _SECRETS]
    _write_private(settings, "".join(lines) + f"spark.authenticate.secret {secret.read_text()}\n")
    if is_apart and not why_not_apart():
        shutil.chown(settings, ACCOUNT)
    words = ("--properties-file", str(settings), "--host", host, "--webui-port", "0", *words)
    command = [_spark_home() + "/bin/spark-class", f"org.apache.spark.deploy.{name}", *words]
    with _process(folder, command, is_apart=is_apart, more={"SPARK_LOCAL_IP": host}) as process:
        yield process


@contextmanager
def _process(
    folder: Path, command: list[str], *, is_apart: bool, more: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    environment = _environment(folder) | (more or {})
    if is_apart and not why_not_apart():
        archive, java = find_class_archive(find_java_home()), find_java_home().path
        mine = [Path(sys.prefix), Path(sys.base_prefix), java, *([archive.folder] if archive else [])]
        command = apart(command, shared=[folder / "shared", *mine])
    with (folder / "daemons.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=environment
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def java_options() -> str:
    """Return how Java starts soonest: it compiles lightly, and has an archive of classes if one is made."""
    archive = find_class_archive(find_java_home())
    return _LIGHTLY if archive is None else f"{_LIGHTLY} -XX:SharedArchiveFile={archive.file}"


def _disk(folder: Path) -> str:
    """Return where a worker keeps what is its own: on its machine, if it has one."""
    return str(folder) if why_not_apart() else "/tmp"  # noqa: S108


def _secret(folder: Path) -> Path:
    secret = folder / "secret"
    if not secret.exists():
        _write_private(secret, secrets.token_hex(32))
    return secret


def _spark_home() -> str:
    archive = find_class_archive(find_java_home())
    return str(Path(pyspark.__file__).parent if archive is None else archive.home)


def _environment(folder: Path) -> dict[str, str]:
    # Workers know nothing of where this process finds its modules.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MAIA_"))}
    places = {"SPARK_HOME": _spark_home()}
    if archive := find_class_archive(find_java_home()):
        # Java takes classes from an archive where the class path is the one that it was made with.
        places["SPARK_CONF_DIR"] = str(archive.settings)
    return {
        **kept,
        "HOME": _disk(folder),
        "JAVA_HOME": str(find_java_home().path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": _disk(folder),
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": java_options(),
        "SPARK_LAUNCHER_OPTS": _LIGHTLY,
        **places,
    }


def until(
    holds: Callable[[], object],
    what: str,
    *,
    alive: subprocess.Popen[bytes] | subprocess.Popen[str] | tuple[subprocess.Popen[bytes], ...],
) -> None:
    """Wait until something holds, while the processes that should bring it about live."""
    processes = alive if isinstance(alive, tuple) else (alive,)
    ends = time.monotonic() + DEADLINE_S
    while not holds():
        assert all(one.poll() is None for one in processes), f"a process ended before: {what}"
        assert time.monotonic() < ends, f"it took too long until: {what}"
        time.sleep(0.1)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _write_private(file: Path, text: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
        opened.write(text)


def _children(parent: int) -> list[int]:
    """Look through all processes: a child may have been started by any thread of its parent."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == parent:
            found.append(int(status.parent.name))
    return found


def _is_executor(pid: int) -> bool:
    try:
        return _EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
