"""What do the programs do, as they are installed: real processes, sockets, TLS and files?

    with Processes(tmp_path, cast) as processes:
        broker = processes.broker("north")
        with processes.client("office", broker) as office:
            ...
        processes.crash(broker)
        processes.restart(broker)

Keys, certificates, the type and configurations are files in one folder, as operators know them. Every
process ends with the block. `serving` and `connected` run brokers and clients in the process of the test,
over the same sockets and TLS.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, TypeAlias

from maia.broker import BrokerSettings
from maia.broker.server.server import RunningBroker, run_broker
from maia.client.api.connection import Connection, connect
from maia.credentials import SignedCertificate, certificate_to_text
from maia.keystore.key_files import create_key_file
from maia.net.links import LinkLimits
from maia.net.stores import Store
from maia.testing.cast import Cast
from maia.testing.ports import free_port
from maia.testing.waiting import wait_until
from maia.types import definition_to_text

READY: Final = r"(?:listening on|answering at https://) ?(\S+)"
"""What a server prints when it can be reached."""


class Program(Protocol):
    """A process that runs: what tests use of `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None:
        """Return the status of a process that has ended, or None."""

    def wait(self, timeout: float | None = None) -> int:
        """Return the status when the process has ended."""

    def send_signal(self, number: int, /) -> None:
        """Send a signal."""

    def kill(self) -> None:
        """End the process at once."""

    def terminate(self) -> None:
        """Ask the process to stop."""


Start: TypeAlias = Callable[[Sequence[object], Path, Mapping[str, str], Sequence[int]], Program]
"""Starts `maia WORDS…` in a folder, with an environment and descriptors for input, output and errors."""


def start_program(
    words: Sequence[object], cwd: Path, environment: Mapping[str, str], descriptors: Sequence[int]
) -> Program:
    """Start `maia WORDS…` with the interpreter of the test."""
    stdin, stdout, stderr = descriptors
    command = [sys.executable, "-m", "maia", *map(str, words)]
    return subprocess.Popen(command, cwd=cwd, env=environment, stdin=stdin, stdout=stdout, stderr=stderr)  # noqa: S603 - of a test


class Server:
    """A server that runs in a process, with what it has written in files of its folder."""

    def __init__(self, words: Sequence[object], folder: Path, start: Start) -> None:
        """Begin in `folder`; a server may have run there before."""
        self.words, self.folder, self._start = words, folder, start
        self.process: Program
        folder.mkdir(parents=True, exist_ok=True)
        self.begin()

    def begin(self) -> None:
        """Start the process, which writes behind what the one before it has written."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAIA_")}
        with (
            (self.folder / "out.log").open("a+") as out,
            (self.folder / "err.log").open("a+") as err,
            Path(os.devnull).open() as nothing,
        ):
            self._written = len(self.output)
            descriptors = [nothing.fileno(), out.fileno(), err.fileno()]
            self.process = self._start(self.words, self.folder, environment, descriptors)

    @property
    def output(self) -> str:
        """Return all that it has printed, in earlier runs too."""
        return (self.folder / "out.log").read_text()

    @property
    def errors(self) -> str:
        """Return what it has logged."""
        return (self.folder / "err.log").read_text()

    def ready(self, pattern: str = READY) -> Server:
        """Wait until it has printed where it is reached, or anything else; fail if it ends instead."""
        wait_until(lambda: self._found(pattern) or self.process.poll() is not None, pattern)
        if not self._found(pattern):
            raise AssertionError(f"`maia {' '.join(map(str, self.words))}` ended: {self.errors[-3000:]}")
        return self

    def _found(self, pattern: str) -> list[str]:
        return re.findall(pattern, self.output[self._written :])

    @property
    def address(self) -> str:
        """Return where it is reached: where it listens, or where it answers calls."""
        return (self._found(r"listening on (\S+)") or self._found(READY))[-1]

    @property
    def interface(self) -> str:
        """Return where a domain's server answers calls."""
        return self._found(r"answering at https://(\S+)")[-1]

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.process.terminate()
        return self.process.wait(180)


class Processes:
    """A folder with the files of a cast, and the processes that run on them until the block ends."""

    def __init__(self, folder: Path, cast: Cast, *, start: Start = start_program) -> None:
        """Write everybody's keys, all certificates and the type."""
        self.folder, self.cast, self._start = folder, cast, start
        self._ending = ExitStack()
        for who, key in cast.keys.items():
            create_key_file(folder / f"{who}.key", key)
        self.certificates("certs", cast.certificates)
        (folder / "event.type").write_text(definition_to_text(cast.definition))

    def __enter__(self) -> Processes:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every process."""
        self._ending.close()

    def certificates(self, name: str, certificates: Iterable[SignedCertificate]) -> Path:
        """Write certificates to a folder of their own."""
        place = self.folder / name
        place.mkdir(exist_ok=True)
        for number, signed in enumerate(certificates):
            (place / f"{number}.cert").write_text(certificate_to_text(signed))
        return place

    # ------------------------------------------------------------ servers

    def broker(
        self,
        name: str,
        *,
        join: Sequence[str] = (),
        listen: str | None = None,
        credentials: Iterable[SignedCertificate] | None = None,
        more: str = "",
    ) -> Server:
        """Run a broker of the cast, or another one with a right to connect; `more` is TOML behind its own."""
        key, own = self.cast.identity(name)
        file = self.folder / f"{name}.key"
        if not file.exists():
            create_key_file(file, key)
        folder = self.folder / f"{name}-broker"
        folder.mkdir(exist_ok=True)
        shown = own if credentials is None else credentials
        known = {
            "key": str(file),
            "network": self.cast.network.name,
            "coordinator": str(self.cast.network.owner),
            "credentials": str(self.certificates(f"{name}-certs", shown)),
            "listen": listen or f"127.0.0.1:{free_port()}",
            "data": "data",
            "join": list(join),
        }
        lines = [f"{word} = {json.dumps(value)}" for word, value in known.items()]
        (folder / "broker.toml").write_text("\n".join([*lines, more, ""]))
        return self.serve(f"{name}-broker", "broker", "--config", "broker.toml")

    def serve(self, name: str, *words: object) -> Server:
        """Run a command of `maia` in a folder of its own until the block ends, and wait until it listens."""
        server = Server(words, self.folder / name, self._start)
        self._ending.callback(server.kill)
        return server.ready()

    def crash(self, server: Server) -> None:
        """End a server as a power cut would."""
        server.kill()

    def restart(self, server: Server) -> Server:
        """Start a server again that has ended."""
        server.begin()
        return server.ready()

    # ------------------------------------------------------------ clients

    def client(self, who: str, at: Server | str, **options: Any) -> Connection:
        """Connect a member of the cast: use `with`, or `async with` in an event loop."""
        return connected(self.cast, who, at if isinstance(at, str) else at.address, **options)


# In the process of the test, over the same sockets and TLS.


def connected(cast: Cast, who: str, address: str | Sequence[str], **options: Any) -> Connection:
    """Connect a member of a cast, with every certificate of the cast in its wallet."""
    known = {
        "key": cast.keys[who],
        "network": cast.network,
        "credentials": cast.certificates,
        "types": [cast.definition],
        "dial_again_s": 0.05,
    }
    return connect(address, **{**known, **options})


def broker_settings(cast: Cast, **changes: Any) -> BrokerSettings:
    """Return the settings of a broker that shows every certificate of a cast, at any free port."""
    return replace(BrokerSettings(cast.network, "127.0.0.1:0", cast.certificates), **changes)


def serving(
    cast: Cast,
    who: str,
    *,
    listen: str | None = None,
    store: Store | None = None,
    link_limits: LinkLimits | None = None,
    **settings: Any,
) -> AbstractAsyncContextManager[RunningBroker]:
    """Run a broker in this process, with the key of a member of a cast, which the owner makes its broker."""
    key = cast.keys[who]
    own = broker_settings(cast, **{"credentials": (*cast.certificates, cast.broker_right(key)), **settings})
    return run_broker(key, own, listen=listen, store=store, limits=link_limits)
