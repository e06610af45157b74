"""How do the story's three brokers come to run as processes of their own?

Each gets a folder with its key, its certificates and a configuration, and
then does exactly what `maia broker --config broker.toml` does. On a quiet
machine a broker is forked from the present process, which has everything
loaded already; where other threads run, a new interpreter is started.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from maia.credentials import certificate_to_text
from maia.errors import Unavailable
from maia.runtime.key_files import create_key_file
from maia.scenarios.brokers import BROKERS, NumberplateBrokers
from maia.scenarios.numberplate import NumberplateStory

__all__ = ["BrokerNotStarted", "LiveBroker", "running_brokers"]

_START_S: Final = 30.0
_STOP_S: Final = 8.0
_LINE_MAX: Final = 4096


class BrokerNotStarted(Unavailable):
    """A broker of the demonstration did not say that it is ready."""

    code = "UNAVAILABLE-BROKER-NOT-STARTED"


@dataclass(slots=True)
class _Child:
    """A process that we started. Once it was waited for, its number may be a stranger's: no more signals."""

    pid: int
    has_ended: bool = False

    def tell(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if not self.wait(0.0):
            os.kill(self.pid, number)

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
class LiveBroker:
    """A broker that runs: whose it is, where it listens, and its process."""

    name: str
    address: str
    folder: Path
    process: _Child

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        self.process.tell(signal.SIGKILL)
        self.process.wait(_STOP_S)


@contextmanager
def running_brokers(
    story: NumberplateStory, brokers: NumberplateBrokers, folder: Path
) -> Iterator[Mapping[str, LiveBroker]]:
    """Run the three brokers while the body runs; all of them have ended when this returns."""
    running: dict[str, LiveBroker] = {}
    try:
        for name in BROKERS:
            home = folder / name.replace(" ", "-").lower()
            join = [one.address for one in running.values()][:1]
            _write(home, story, brokers, name, join)
            running[name] = _started(name, home)
        yield running
    finally:
        _stop_all([one.process for one in running.values()])


def _write(
    home: Path, story: NumberplateStory, brokers: NumberplateBrokers, name: str, join: list[str]
) -> None:
    """Write what a broker needs: the files that an operator would have."""
    (home / "certs").mkdir(parents=True)
    create_key_file(home / "broker.key", brokers.keys[name])
    for number, signed in enumerate(brokers.credentials[name]):
        (home / "certs" / f"{number}.cert").write_text(certificate_to_text(signed), encoding="utf-8")
    lines = {
        "key": "broker.key",
        "network": story.network.name,
        "coordinator": str(story.network.owner),
        "credentials": "certs",
        "listen": "127.0.0.1:0",
        "join": join,
        "data": "data",
        "log_format": "json",
    }
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
    (home / "broker.toml").write_text(text, encoding="utf-8")


def _started(name: str, home: Path) -> LiveBroker:
    """Start one broker, and wait for the line that says where it listens."""
    reading, writing = os.pipe()
    start = _forked if threading.active_count() == 1 else _spawned
    child = _Child(start(home, writing))
    os.close(writing)
    try:
        line = _line(reading, time.monotonic() + _START_S)
        return LiveBroker(name, str(json.loads(line)["listening"]), home, child)
    except (ValueError, KeyError, TypeError) as problem:
        _stop_all([child])
        raise BrokerNotStarted(f"the {name} did not start; its log is in `{home}`") from problem
    finally:
        os.close(reading)


def _forked(home: Path, ready: int) -> int:
    """Run a broker in a copy of this process, which has loaded everything that it needs."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _be_a_broker(home, ready)
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's is to be finished here


def _be_a_broker(home: Path, ready: int) -> None:
    import asyncio

    from maia.runtime.broker_process import Listening, serve
    from maia.runtime.clock import system_now
    from maia.runtime.config import read_config
    from maia.runtime.key_files import load_signing_key
    from maia.runtime.preparation import prepare
    from maia.runtime.telemetry import Telemetry

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to hear; it will tell us
    parent = os.getppid()
    with (home / "broker.log").open("w", encoding="utf-8") as log:
        config = read_config(home / "broker.toml", flags={}, environment={})
        prepared = prepare(config, now=system_now(), open_key=load_signing_key)

        def say(listening: Listening) -> None:
            os.write(ready, json.dumps({"listening": listening.address}).encode() + b"\n")
            os.close(ready)
            asyncio.get_running_loop().call_later(1.0, look_for_parent)

        def look_for_parent() -> None:
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGTERM)
            asyncio.get_running_loop().call_later(1.0, look_for_parent)

        asyncio.run(serve(prepared, Telemetry(log, log_format="json"), say))


def _spawned(home: Path, ready: int) -> int:
    """Run a broker in an interpreter of its own."""
    command = [sys.executable, "-m", "maia.cli", "broker", "--config", str(home / "broker.toml"), "--json"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAIA_BROKER_")}
    with (home / "broker.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own files
            command, stdin=subprocess.DEVNULL, stdout=ready, stderr=log, env=clean, start_new_session=True
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


def _stop_all(children: list[_Child]) -> None:
    """Ask every process to stop, and end those that do not."""
    for child in children:
        child.tell(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_S
    for child in children:
        if not child.wait(max(0.1, deadline - time.monotonic())):
            child.tell(signal.SIGKILL)
            child.wait(1.0)
