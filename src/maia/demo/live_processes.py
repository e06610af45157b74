"""How does a node of the story come to run as a process of its own?

From a folder with its files it does exactly what `maia broker --config
broker.toml` or `maia domain serve --config domain.toml` does. On a quiet
machine it is forked from the present process, which has everything loaded
already; where other threads run, a new interpreter is started with
`python -m maia.demo.live_processes HOME`. No caller waits for one node
before the next one is started.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from maia.clock import system_now
from maia.credentials import certificate_to_text
from maia.demo.brokers import CARRIER, KEY_SERVER, SealedCast, sealed_story
from maia.demo.met_domain import MET_DOMAIN, domain_files
from maia.demo.numberplate import NumberplateStory
from maia.errors import Unavailable
from maia.keystore.key_files import create_key_file
from maia.types import definition_to_text

BROKER_FILE: Final = "broker.toml"
DOMAIN_FILE: Final = "domain.toml"
RECEIVED_FILE: Final = "received"
"""If a broker's folder has this file, the broker records there what it receives."""

_START_S: Final = 180.0
_STOP_S: Final = 8.0
_LINE_MAX: Final = 4096
_ERRORS: Final = "errors.log"
_WORDS_MAX: Final = 300


class NodeNotStarted(Unavailable):
    """A broker or key server of the demonstration did not say that it is ready."""

    code = "UNAVAILABLE-BROKER-NOT-STARTED"


@dataclass(slots=True)
class Child:
    """A process that we started. Once it was waited for, its number may be a stranger's: no more signals."""

    pid: int
    has_ended: bool = False

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
            if self.has_ended or time.monotonic() >= deadline:
                break
            time.sleep(0.01)
        return self.has_ended


@dataclass(frozen=True, slots=True)
class Starting:
    """A node that was started and has not said yet where it listens."""

    name: str
    home: Path
    process: Child
    says: int
    """Where its one line is read from."""

    def address(self) -> str:
        """Wait for the line that says where it listens; may be asked once."""
        return self.ready("listening")[0]

    def interface(self) -> str:
        """Wait for the line that says where a domain answers over HTTP; may be asked once."""
        return self.ready("interface")[0]

    def ready(self, *names: str) -> list[str]:
        """Wait for the line that says where a node answers, and return what it says of `names`; once."""
        try:
            line = json.loads(_line(self.says, time.monotonic() + _START_S))
            return [str(line[name]) for name in names]
        except (ValueError, KeyError, TypeError) as problem:
            raise NodeNotStarted(f"the {self.name} did not start: {_last_words(self.home)}") from problem
        finally:
            os.close(self.says)


def start(name: str, home: Path) -> Starting:
    """Start the node whose files are in `home`."""
    reading, writing = os.pipe()
    begin = _forked if threading.active_count() == 1 else _spawned
    child = Child(begin(home, writing))
    os.close(writing)
    return Starting(name, home, child, reading)


def stop_all(children: list[Child]) -> None:
    """Ask every process to stop, and end those that do not."""
    for child in children:
        child.tell(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_S
    for child in children:
        if not child.wait(max(0.1, deadline - time.monotonic())):
            child.tell(signal.SIGKILL)
            child.wait(_STOP_S)


# ------------------------------------------------------------ in the parent


def _forked(home: Path, ready: int) -> int:
    """Run a node in a copy of this process, which has loaded everything that it needs."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with (home / _ERRORS).open("wb") as log:
            os.dup2(log.fileno(), 2)  # the screen is the demonstration's
        run_node(home, ready)
        status = 0
    except BaseException:  # noqa: BLE001 - no caller above this fork would report it
        with (home / _ERRORS).open("a", encoding="utf-8") as log_of_its_end:
            traceback.print_exc(file=log_of_its_end)
    finally:
        os._exit(status)  # nothing of the parent's is to be finished here


def _spawned(home: Path, ready: int) -> int:
    """Run a node in an interpreter of its own."""
    command = [sys.executable, "-m", "maia.demo.live_processes", str(home)]
    with (home / _ERRORS).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own files
            command, stdin=subprocess.DEVNULL, stdout=ready, stderr=log, start_new_session=True
        )
    process.returncode = 0  # who waits for it is decided here, by its number
    return process.pid


def _line(descriptor: int, deadline: float) -> bytes:
    found = b""
    while b"\n" not in found and len(found) < _LINE_MAX:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            break
        part = os.read(descriptor, _LINE_MAX)
        if not part:
            break
        found += part
    return found


def _last_words(home: Path) -> str:
    """Return the last line that a node wrote about its end: its folder goes with the demonstration."""
    try:
        lines = (home / _ERRORS).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = []
    return next((one.strip()[:_WORDS_MAX] for one in reversed(lines) if one.strip()), "it said nothing")


# ------------------------------------------------------------ in the child


def run_node(home: Path, ready: int) -> None:
    """Be the node whose files are in `home`; say on the descriptor `ready` where it listens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and stops us
    parent = os.getppid()
    run = _be_a_broker if (home / BROKER_FILE).exists() else _be_a_domain

    def say(address: str, interface: str | None = None, statement: str | None = None) -> None:
        import asyncio

        line = {"listening": address, "interface": interface, "statement": statement}
        os.write(ready, json.dumps(line).encode() + b"\n")
        os.close(ready)
        asyncio.get_running_loop().call_later(1.0, look_for_parent)

    def look_for_parent() -> None:
        import asyncio

        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)
        asyncio.get_running_loop().call_later(1.0, look_for_parent)

    run(home, say)


def _be_a_broker(home: Path, say: Callable[..., None]) -> None:
    import asyncio

    from maia.broker.server.config import prepare, read_config
    from maia.broker.server.process import serve
    from maia.broker.server.server import TapFile
    from maia.clock import system_now
    from maia.keystore.key_files import load_signing_key
    from maia.net.telemetry import Telemetry

    with ExitStack() as stack:
        log = stack.enter_context((home / "broker.log").open("w", encoding="utf-8"))
        tap = home / RECEIVED_FILE
        overhear = stack.enter_context(TapFile(tap)).write if tap.exists() else None
        config = read_config(home / BROKER_FILE, flags={}, environment={})
        prepared = prepare(config, now=system_now(), open_key=load_signing_key)
        telemetry = Telemetry(log, log_format=config.log_format, level=config.log_level)
        asyncio.run(
            serve(
                prepared,
                telemetry,
                lambda ready: say(ready.address, None, ready.statement_address),
                overhear=overhear,
            )
        )


def _be_a_domain(home: Path, say: Callable[..., None]) -> None:
    import asyncio

    from maia.clock import system_now
    from maia.domain.server.config import prepare_domain, read_domain_config
    from maia.domain.server.process import serve_domain
    from maia.keystore.key_files import load_signing_key
    from maia.net.telemetry import Telemetry

    with (home / "domain.log").open("w", encoding="utf-8") as log:
        config = read_domain_config(home / DOMAIN_FILE, flags={}, environment={})
        prepared = prepare_domain(config, now=system_now(), open_key=load_signing_key)
        telemetry = Telemetry(log, log_format=config.log_format, level=config.log_level)
        asyncio.run(serve_domain(prepared, telemetry, lambda ready: say(ready.address, ready.api)))


if __name__ == "__main__":
    run_node(Path(sys.argv[1]), sys.stdout.fileno())


# How do the story's brokers and its key server come to run, side by side?


Start = Callable[[str, Path], Starting]
"""How a node is started from its folder."""

LISTENED_TO: Final = (CARRIER, "CCS broker")
"""The brokers that record what they receive: the one that must not read, and one that may."""


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker or key server that runs: whose it is, where it listens, and its process."""

    name: str
    address: str
    folder: Path
    process: Child

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        self.process.kill()


@dataclass(frozen=True, slots=True)
class LiveNodes:
    """The brokers and the key server that run, and the story with the type that names the key server."""

    story: NumberplateStory
    brokers: Mapping[str, LiveBroker]
    key_server: LiveBroker
    domain: Starting | None = None
    """The Met's own server, which may still be starting."""

    def stop_brokers(self) -> None:
        """Ask every broker, and the Met's server, to stop; return when all have. The key server goes on."""
        domain = () if self.domain is None else (self.domain.process,)
        stop_all([*domain, *(one.process for one in self.brokers.values())])


@contextmanager
def starting_nodes(
    story: NumberplateStory,
    cast: SealedCast,
    folder: Path,
    *,
    start: Start = start,
    settings: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> Iterator[StartingNodes]:
    """Start the key server and the third domain's broker; whatever runs has ended when the body has.

    The body has a moment for other things before it asks for the rest with
    `ready`. Tests give some nodes other settings, and start them otherwise.
    """
    starting = StartingNodes(story, cast, folder, start, settings)
    try:
        starting.begin(KEY_SERVER)
        starting.begin(CARRIER)
        yield starting
    finally:
        stop_all([one.process for one in starting.begun.values()])


@dataclass(frozen=True, slots=True)
class StartingNodes:
    """Nodes of which some have been started."""

    story: NumberplateStory
    cast: SealedCast
    folder: Path
    start: Start
    settings: Mapping[str, Mapping[str, object]]
    begun: dict[str, Starting] = field(default_factory=dict)

    def begin(self, name: str, *, join: tuple[str, ...] = (), definition: str | None = None) -> None:
        """Start one node, which joins the network through `join` and knows the type by its definition."""
        home = self.folder / name.replace(" ", "-").lower()
        lines = dict(self.settings.get(name, {}))
        if definition is not None:
            (home / "types").mkdir(parents=True)
            (home / "types" / "numberplate.type").write_text(definition, encoding="utf-8")
            lines |= {"types": "types", "join": join}
        _write(home, self.story, self.cast, name, lines)
        self.begun[name] = self.start(name, home)

    def ready(self) -> LiveNodes:
        """Start the three other brokers together, and return when all of them listen."""
        server, carrier = self._listening(KEY_SERVER), self._listening(CARRIER)
        sealed = sealed_story(self.story, self.cast, keys_at=server.address)
        text = definition_to_text(sealed.definition)
        # A broker with more configuration loads more, and starts first.
        for name in sorted(self.cast.brokers, key=lambda one: one not in self.settings):
            self.begin(name, join=(carrier.address,), definition=text)
        others = {name: self._listening(name) for name in self.cast.brokers}
        domain = self._begun_domain(text, others) if MET_DOMAIN in self.cast.keys else None
        return LiveNodes(sealed, {CARRIER: carrier, **others}, server, domain)

    def _begun_domain(self, definition: str, brokers: Mapping[str, LiveBroker]) -> Starting:
        """Start the Met's server, which publishes through the Met's broker."""
        home = self.folder / MET_DOMAIN.replace(" ", "-").lower()
        lines = domain_files(home, self.story, definition, broker=brokers["Met broker"].address)
        _write(home, self.story, self.cast, MET_DOMAIN, lines | dict(self.settings.get(MET_DOMAIN, {})))
        self.begun[MET_DOMAIN] = self.start(MET_DOMAIN, home)
        return self.begun[MET_DOMAIN]

    def _listening(self, name: str) -> LiveBroker:
        begun = self.begun[name]
        return LiveBroker(name, begun.address(), begun.home, begun.process)


def _write(
    home: Path, story: NumberplateStory, cast: SealedCast, name: str, more: Mapping[str, object]
) -> None:
    """Write what a node needs: the files that an operator would have."""
    (home / "certs").mkdir(parents=True)
    create_key_file(home / "node.key", cast.keys[name])
    for number, signed in enumerate(cast.credentials[name]):
        (home / "certs" / f"{number}.cert").write_text(certificate_to_text(signed), encoding="utf-8")
    lines = {
        "key": "node.key",
        "network": story.network.name,
        "coordinator": str(story.network.owner),
        "credentials": "certs",
        "listen": "127.0.0.1:0",
        "data": "data",
        "log_format": "json",
        **more,
    }
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
    (home / (DOMAIN_FILE if name in {KEY_SERVER, MET_DOMAIN} else BROKER_FILE)).write_text(
        text, encoding="utf-8"
    )
    if name in LISTENED_TO:
        (home / RECEIVED_FILE).touch()


# How is the live network set up so that Spark can read what it carried?


RECORDER: Final = "CCS broker"
"""The broker that records; the cameras are connected to it."""

_LOG: Final = "log"


@dataclass(frozen=True, slots=True)
class Recording:
    """A log that was rolled, and what the broker had written into it."""

    folder: Path
    frames: int
    events: int
    written: bytes
    """All frames as they were recorded: nothing in them is compressed, so they can be searched."""


def recording_settings(story: NumberplateStory, folder: Path) -> dict[str, Mapping[str, object]]:
    """Return the additional settings of CCS's broker and the key server."""
    definition = folder / "recorded.type"
    definition.write_text(definition_to_text(story.definition), encoding="utf-8")
    name = story.definition.definition.name.name
    return {
        RECORDER: {"log.folder": _LOG, "log.types": [name]},
        KEY_SERVER: {"history": [str(definition)]},
    }


def rolled(nodes: LiveNodes) -> Recording:
    """Roll the log of the broker that recorded, which has stopped."""
    from maia.log.disk.event_log import EventLog

    folder = nodes.brokers[RECORDER].folder / _LOG
    with EventLog.open(folder) as log:
        written = b"".join(record.message for record in log.read())
        segments = log.roll(system_now())
    frames, events = sum(one.frames for one in segments), sum(one.events for one in segments)
    return Recording(folder, frames, events, written)


__all__ = [
    "BROKER_FILE",
    "DOMAIN_FILE",
    "RECEIVED_FILE",
    "Child",
    "NodeNotStarted",
    "Starting",
    "run_node",
    "start",
    "stop_all",
    "LiveBroker",
    "LiveNodes",
    "StartingNodes",
    "starting_nodes",
    "RECORDER",
    "Recording",
    "recording_settings",
    "rolled",
]
