"""A real cluster on loopback: a master and two workers, each a process, that end with the test."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import pyspark

from maia.spark.session.java_home import find_class_archive, find_java_home
from maia.testing import free_port
from support.nursery import spark_python

__all__ = ["DEADLINE_S", "RunningCluster", "java_options", "running_cluster", "until"]

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

    @property
    def environment(self) -> dict[str, str]:
        """Return what tells `maia` about this cluster."""
        return {
            "MAIA_SPARK_MASTER": self.master,
            "MAIA_SPARK_SECRET_FILE": str(self.secret_file),
            "MAIA_SPARK_EXECUTOR_MIB": "512",
            "MAIA_SPARK_PYTHON": str(spark_python(has_maia=False)),
        }

    def executors(self) -> list[int]:
        """Return the processes of executors, which are children of ours."""
        return [pid for worker in self.workers for pid in _children(worker.pid) if _is_executor(pid)]

    def kill_one_executor(self) -> int:
        """Kill an executor as a machine that loses power would, and return which it was."""
        pid = self.executors()[0]
        os.kill(pid, SIGKILL)
        return pid


@contextmanager
def running_cluster(folder: Path) -> Iterator[RunningCluster]:
    """Start a master and two workers with one core each, that only talk to who knows their secret."""
    secret = folder / "secret"
    _write_private(secret, secrets.token_hex(32))
    with ExitStack() as stack:
        port = free_port()
        master = f"spark://127.0.0.1:{port}"
        place = ("--host", "127.0.0.1", "--webui-port", "0")
        head = stack.enter_context(
            _daemon(folder, "master.Master", *place, "--port", str(port), secret=secret)
        )
        until(lambda: _listens(port), "the master listens", alive=head)
        workers = tuple(
            stack.enter_context(_worker(folder, number, *place, master, secret=secret)) for number in range(2)
        )
        yield RunningCluster(master, secret, workers)


@contextmanager
def _worker(folder: Path, number: int, *words: str, secret: Path) -> Iterator[subprocess.Popen[bytes]]:
    size = ("--cores", "1", "--memory", "800M", "--work-dir", str(folder / f"worker-{number}"))
    started: list[int] = []
    try:
        with _daemon(folder, "worker.Worker", *size, *words, secret=secret) as process:
            try:
                yield process
            finally:
                started += _children(process.pid)
    finally:
        for pid in filter(_is_executor, started):  # a worker ends its executors, unless it had no time to
            with suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)


@contextmanager
def _daemon(folder: Path, name: str, *words: str, secret: Path) -> Iterator[subprocess.Popen[bytes]]:
    settings = folder / "cluster.conf"
    lines = [f"{setting} true\n" for setting in _SECRETS]
    _write_private(settings, "".join(lines) + f"spark.authenticate.secret {secret.read_text()}\n")
    environment = _environment(folder)
    command = [f"{environment['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{name}"]
    with (folder / "daemons.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--properties-file", str(settings), *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment,
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


def _environment(folder: Path) -> dict[str, str]:
    # Workers know nothing of where this process finds its modules.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MAIA_"))}
    places = {"SPARK_HOME": str(Path(pyspark.__file__).parent)}
    if archive := find_class_archive(find_java_home()):
        # Java takes classes from an archive where the class path is the one that it was made with.
        places = {"SPARK_HOME": str(archive.home), "SPARK_CONF_DIR": str(archive.settings)}
    return {
        **kept,
        "JAVA_HOME": str(find_java_home().path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": java_options(),
        "SPARK_LAUNCHER_OPTS": _LIGHTLY,
        **places,
    }


def until(
    holds: Callable[[], object], what: str, *, alive: subprocess.Popen[bytes] | subprocess.Popen[str]
) -> None:
    """Wait until something holds, while the process that should bring it about lives."""
    ends = time.monotonic() + DEADLINE_S
    while not holds():
        assert alive.poll() is None, f"the process ended before: {what}"
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
