"""Three organisations as their operators set them up, each with its own processes, behind a relay.

Every address that is known to others is a relay's; the server listens behind it (`listen` beside `address`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from chaos.relay import Relay
from chaos.shim import Control
from maia.testing import Program, Server, free_port
from support.processes import maia

TESTS = Path(__file__).resolve().parents[1]
NAMES = ("alfa", "bravo", "charlie")
PUBLISHES = {"alfa": "Reading", "bravo": "Secret", "charlie": "Reading"}
"""Alfa owns `Reading`, which is signed as types are; Bravo owns `Secret`, which is sealed."""
TYPES = ("Reading", "Secret")
STOP_S = 150.0

Start = Callable[..., Program]


def started(
    words: Sequence[object],
    cwd: Path,
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    module: str = "maia.cli",
) -> Program:
    """Start a module of ours with an interpreter of its own: one that sees what `LD_PRELOAD` names."""
    stdin, stdout, stderr = descriptors
    command = [sys.executable, "-m", module, *map(str, words)]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env={**environment, "PYTHONPATH": str(TESTS)},
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


@dataclass(slots=True)
class Organisation:
    """One organisation: its folder, its two servers, and what its broker sees of disk and clock."""

    name: str
    folder: Path
    broker: Server = field(init=False)
    domain: Server = field(init=False)
    control: Control | None = None

    @property
    def kept(self) -> tuple[Path, Path]:
        """Return the folders of its broker's log, and of its other data."""
        return self.folder / "log", self.folder / "broker-data"

    def profile(self, member: str) -> Path:
        """Return the folder that a member was handed."""
        return self.folder / f"{member}.maia"


class Network:
    """The organisations, the relay between them, and whoever takes part, until the block ends."""

    def __init__(self, folder: Path, *, start: Start = started, library: Path | None = None) -> None:
        """Set everything up by public commands; nothing runs yet. `library` is the shim, if there is one."""
        self.folder, self._start, self._library = folder.resolve(), start, library
        self._typing = threading.Lock()
        self._ending = ExitStack()
        self.relay = Relay(self._owners)
        self._ending.callback(self.relay.stop)
        self.organisations = {name: Organisation(name, self.folder / name) for name in NAMES}
        self.participants: dict[str, Server] = {}
        (self.folder / "journals").mkdir()
        for words in _commands():
            self.run(*words)
        for one in self.organisations.values():
            self._put_behind_relay(one)

    def __enter__(self) -> Network:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """End every process."""
        self._ending.close()

    def run(self, *words: object) -> str:
        """Run one command to its end, as an operator would, and return what it printed."""
        with self._typing:  # it runs in this process, whose output it takes
            answer = maia(*words, cwd=self.folder)
        if answer.returncode:
            raise RuntimeError(f"maia {' '.join(map(str, words))}: {answer.stderr}")
        return answer.stdout

    def start_servers(self) -> None:
        """Run the broker and the domain's server of every organisation."""
        for one in self.organisations.values():
            plain = partial(self._start, module="maia.cli")
            start = plain
            if self._library is not None:
                one.control = Control(self._library, self.folder / f"{one.name}.control", one.folder)
                start = partial(_with, one.control.environment)
            one.broker = self._serve(one, "broker", start, "broker")
            one.domain = self._serve(one, "domain", plain, "domain", "serve")
        for one in self.organisations.values():
            one.broker.ready()
            one.domain.ready()

    def publish(self, who: str, at: str, **options: object) -> Server:
        """Run a publisher, under a name of its own, or run it again."""
        more = [word for name, value in options.items() for word in (f"--{name}", value)]
        pump = self.organisations[at].profile("pump")
        return self._participant(who, "publish", pump, PUBLISHES[at], who, self.journal(who), *more)

    def read(self, who: str, at: str, member: str, durable: Sequence[str], live: Sequence[str]) -> Server:
        """Run a program that reads."""
        more = [word for name in durable for word in ("--durable", name)]
        more += [word for name in live for word in ("--live", name)]
        return self._participant(
            who, "read", self.organisations[at].profile(member), self.journal(who), *more
        )

    def journal(self, who: str) -> Path:
        """Return where a participant writes down what happened to it."""
        return self.folder / "journals" / f"{who}.jsonl"

    def leave(self, who: str, number: int = signal.SIGTERM) -> None:
        """End a participant, or ask it to finish."""
        process = self.participants[who].process
        process.send_signal(number)
        process.wait(STOP_S)

    # ------------------------------------------------------------ inside

    def _participant(self, who: str, *words: object) -> Server:
        if who in self.participants:
            self.participants[who].begin()
            return self.participants[who]
        start = partial(self._start, module="chaos.participant")
        server = self.participants[who] = Server(words, self.folder / "written" / who, start)
        self._ending.callback(server.kill)
        return server

    def _serve(self, one: Organisation, name: str, start: Start, *words: str) -> Server:
        words = (*words, "--config", str(one.folder / f"{name}.toml"))
        server = Server(words, self.folder / "written" / f"{one.name}-{name}", start)
        self._ending.callback(server.kill)
        return server

    def _put_behind_relay(self, one: Organisation) -> None:
        known = tomllib.loads((one.folder / "organisation.toml").read_text())
        behind = {name: f"127.0.0.1:{free_port()}" for name in ("broker", "keys", "server")}
        (one.folder / "broker.toml").write_text(
            f'listen = "{behind["broker"]}"\naddress = "{known["broker"]}"\nlog_format = "json"\n'
        )
        (one.folder / "domain.toml").write_text(
            f'listen = "{behind["keys"]}"\n'
            f'[api]\nlisten = "{behind["server"]}"\npublic = "{known["server"]}"\n'
        )
        for name, place in behind.items():
            self.relay.stand_at(known[name], place, one.name)

    def _owners(self) -> dict[int, str]:
        found = {}
        for one in self.organisations.values():
            for server in (getattr(one, "broker", None), getattr(one, "domain", None)):
                if server is not None and hasattr(server, "process"):
                    found[server.process.pid] = one.name
        return found


def _with(
    more: Mapping[str, str],
    words: Sequence[object],
    cwd: Path,
    environment: Mapping[str, str],
    fds: Sequence[int],
) -> Program:
    return started(words, cwd, {**environment, **more}, fds)


def _commands() -> list[tuple[object, ...]]:
    """Return what the operators of the three type, in order."""
    reading, secret = ("subscribe:Reading",), ("subscribe:Secret",)

    def grant(to: str, by: str, *rights: str) -> list[tuple[object, ...]]:
        may = [word for right in rights for word in ("--may", right)]
        file = f"{by}-{to}.grant"
        return [
            ("grant", f"{to}/{to}.pub", "--org", by, *may, "--delegable", "-o", file),
            ("network", "join", file, "--org", to),
        ]

    def member(name: str, org: str, *rights: str) -> tuple[object, ...]:
        return ("member", "add", name, "--org", org, *(word for right in rights for word in ("--may", right)))

    fields = ("by:string", "n:int", "text:string")
    return [
        *(("org", "new", name) for name in NAMES),
        ("type", "define", "Reading", *fields, "--org", "alfa"),
        *grant("bravo", "alfa", *reading),
        *grant("charlie", "alfa", *reading, "publish:Reading"),
        ("type", "define", "Secret", *fields, "--sealed", "--org", "bravo"),
        *grant("alfa", "bravo", *secret),
        *grant("charlie", "bravo", *secret),
        *(member("pump", name, f"publish:{PUBLISHES[name]}") for name in NAMES),
        *(member("desk", name, *reading, *secret) for name in NAMES),
    ]


def pause(server: Server) -> None:
    """Stop a process where it is."""
    os.kill(server.process.pid, signal.SIGSTOP)


def resume(server: Server) -> None:
    """Let a process go on."""
    os.kill(server.process.pid, signal.SIGCONT)
