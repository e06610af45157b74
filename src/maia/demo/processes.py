"""How does a node of a story come to run as a process of its own?

From a folder with its files it does exactly what `maia broker --config
broker.toml`, `maia domain serve --config domain.toml` or `maia postgres run
--config connector.toml` does. On a quiet
machine it is forked from the present process, which has everything loaded
already; where other threads run, a new interpreter is started with
`python -m maia.demo.processes FILE`. No caller waits for one node
before the next one is started.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from maia.credentials import NetworkName, SignedCertificate, SigningKey, certificate_to_text
from maia.errors import Unavailable
from maia.keystore.key_files import create_key_file

BROKER_FILE: Final = "broker.toml"
DOMAIN_FILE: Final = "domain.toml"
CONNECTOR_FILE: Final = "connector.toml"
LOG_FOLDER: Final = "log"
RECEIVED_FILE: Final = "received"
"""If a broker's folder has this file, the broker records there what it receives."""

_START_S: Final = 180.0
_STOP_S: Final = 8.0
_LINE_MAX: Final = 4096
_ERRORS: Final = ".errors.log"
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
    config: Path
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
            raise NodeNotStarted(f"the {self.name} did not start: {_last_words(self.config)}") from problem
        finally:
            os.close(self.says)


def home_of(folder: Path, name: str) -> Path:
    """Return the folder of a node among those of a story."""
    return folder / name.replace(" ", "-").lower()


def write_node(
    home: Path,
    *,
    file: str,
    key: SigningKey,
    network: NetworkName,
    certificates: Iterable[SignedCertificate],
    settings: Mapping[str, object],
    tables: str = "",
) -> None:
    """Write what a node needs: the files that an operator would have. `file` says what it is.

    A setting that is None is left out; `tables` comes after all settings, as TOML.
    """
    (home / "certs").mkdir(parents=True)
    create_key_file(home / "node.key", key)
    for number, signed in enumerate(certificates):
        (home / "certs" / f"{number}.cert").write_text(certificate_to_text(signed), encoding="utf-8")
    lines = {
        "key": "node.key",
        "network": network.name,
        "coordinator": str(network.owner),
        "credentials": "certs",
        "listen": "127.0.0.1:0",
        "data": "data",
        "log_format": "json",
        **settings,
    }
    kept = {name: value for name, value in lines.items() if value is not None}
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in kept.items())
    (home / file).write_text(text + tables, encoding="utf-8")


def start(name: str, home: Path, *, file: str | None = None) -> Starting:
    """Start the node whose files are in `home`; `file` says which, if there are several."""
    reading, writing = os.pipe()
    begin = _forked if threading.active_count() == 1 else _spawned
    config = home / file if file else config_in(home)
    child = Child(begin(config, writing))
    os.close(writing)
    return Starting(name, config, child, reading)


def config_in(home: Path) -> Path:
    """Return the configuration of the node whose files are in a folder."""
    return next(home / one for one in _KINDS if (home / one).exists())


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


def _forked(config: Path, ready: int) -> int:
    """Run a node in a copy of this process, which has loaded everything that it needs."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with config.with_suffix(_ERRORS).open("wb") as log:
            os.dup2(log.fileno(), 2)  # the screen is the demonstration's
        run_node(config, ready)
        status = 0
    except BaseException:  # noqa: BLE001 - no caller above this fork would report it
        with config.with_suffix(_ERRORS).open("a", encoding="utf-8") as log_of_its_end:
            traceback.print_exc(file=log_of_its_end)
    finally:
        os._exit(status)  # nothing of the parent's is to be finished here


def _spawned(config: Path, ready: int) -> int:
    """Run a node in an interpreter of its own."""
    command = [sys.executable, "-m", "maia.demo.processes", str(config)]
    with config.with_suffix(_ERRORS).open("wb") as log:
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


def _last_words(config: Path) -> str:
    """Return the last line that a node wrote about its end: its folder goes with the demonstration."""
    try:
        lines = config.with_suffix(_ERRORS).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = []
    return next((one.strip()[:_WORDS_MAX] for one in reversed(lines) if one.strip()), "it said nothing")


# ------------------------------------------------------------ in the child


def run_node(config: Path, ready: int) -> None:
    """Be the node with this configuration; say on the descriptor `ready` where it listens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and stops us
    parent = os.getppid()

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

    _KINDS[config.name](config.parent, say)


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


def _be_a_connector(home: Path, say: Callable[..., None]) -> None:
    import asyncio

    from maia.clock import system_now
    from maia.keystore.key_files import load_signing_key
    from maia.net.telemetry import Telemetry
    from maia.postgres.config import prepare, read_config
    from maia.postgres.process import serve

    with (home / "connector.log").open("w", encoding="utf-8") as log:
        config = read_config(home / CONNECTOR_FILE, flags={}, environment={})
        prepared = prepare(config, now=system_now(), open_key=load_signing_key)
        telemetry = Telemetry(log, log_format=config.log_format, level=config.log_level)
        asyncio.run(serve(prepared, telemetry, lambda ready: say(ready.broker)))


_KINDS: Final = {BROKER_FILE: _be_a_broker, DOMAIN_FILE: _be_a_domain, CONNECTOR_FILE: _be_a_connector}

if __name__ == "__main__":
    run_node(Path(sys.argv[1]), sys.stdout.fileno())


async def arrival(arrived: asyncio.Event, seconds: float) -> None:
    """Wait until something arrives, or so many seconds have passed."""
    arrived.clear()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await arrived.wait()


@dataclass(frozen=True, slots=True)
class Recording:
    """A log that was rolled, and what the broker had written into it."""

    folder: Path
    frames: int
    events: int
    written: bytes = field(repr=False)
    """All frames as they were recorded: nothing in them is compressed, so they can be searched."""


def rolled(home: Path) -> Recording:
    """Roll the log of a broker that recorded, and has stopped."""
    from maia.clock import system_now
    from maia.log.disk.event_log import EventLog

    folder = home / LOG_FOLDER
    with EventLog.open(folder) as log:
        written = b"".join(record.message for record in log.read())
        segments = log.roll(system_now())
    frames, events = sum(one.frames for one in segments), sum(one.events for one in segments)
    return Recording(folder, frames, events, written)
