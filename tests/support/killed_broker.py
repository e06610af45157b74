"""Brokers of real processes that are killed and come back, and a publisher that waits for every answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import maia
from maia.clock import system_now
from maia.credentials import SignedCertificate, SigningKey, certificate_to_text
from maia.keystore.key_files import create_key_file
from maia.testing import Cast
from support.ports import free_port

TESTS = Path(__file__).resolve().parents[1]
CAMERA = "camera at Victoria"


class Forker:
    """A recording broker of the numberplate story that is killed and comes back at the same address."""

    def __init__(
        self,
        home: Path,
        story: Cast,
        *,
        key: SigningKey | None = None,
        credentials: Iterable[SignedCertificate] | None = None,
        join: Iterable[str] = (),
        address: str | None = None,
    ) -> None:
        self.home, self.cast = home, story
        self.child: int | None = None
        self.address = address or f"127.0.0.1:{free_port()}"
        shown = story.certificates if credentials is None else credentials
        self._write_files(key or story.keys["CCS"], shown, list(join))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.forked_broker"],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def _write_files(self, key: SigningKey, shown: Iterable[SignedCertificate], join: list[str]) -> None:
        (self.home / "certs").mkdir(parents=True)
        create_key_file(self.home / "CCS.key", key)
        for number, signed in enumerate(shown):
            (self.home / "certs" / f"{number}.cert").write_text(certificate_to_text(signed))
        known = {
            "key": "CCS.key",
            "network": self.cast.network.name,
            "coordinator": str(self.cast.network.owner),
            "credentials": "certs",
            "listen": self.address,
            "data": "data",
            "join": join,
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in known.items()]
        log = ["[log]", 'folder = "log"', 'types = ["*"]', "roll_s = 1"]
        (self.home / "broker.toml").write_text("\n".join([*lines, *log, ""]))

    def start(self) -> int:
        """Return the process of a broker that listens."""
        self.process.stdin.write(f"{self.home}\n")
        self.process.stdin.flush()
        said: list[str] = []
        while len(said) < 2:
            said.append(self.process.stdout.readline().strip())
            assert said[-1] not in ("", "ended"), (self.home / "broker.log").read_text()[-2000:]
        self.child = next(int(line.split()[1]) for line in said if line.startswith("child"))
        return self.child

    def kill(self, child: int | None = None) -> None:
        os.kill(child or self.child, signal.SIGKILL)
        self.child = None
        while self.process.stdout.readline().strip() != "ended":
            pass

    def end(self) -> None:
        if self.child is not None:
            os.kill(self.child, signal.SIGKILL)
        self.process.stdin.close()
        self.process.wait(timeout=180)
        self.process.stdout.close()


class Camera(threading.Thread):
    """Publishes, waits for the answer, and remembers what was answered, until told to stop."""

    def __init__(self, broker: Forker, *, pause_s: float = 0.0) -> None:
        super().__init__(daemon=True)
        self.broker, self.pause_s, self.stops = broker, pause_s, threading.Event()
        self.acknowledged: list[str] = []
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            self._publish()
        except BaseException as problem:  # noqa: BLE001 - told to the test, in its own thread
            self.problem = problem

    def wait_for_more(self) -> None:
        """Wait until something more was acknowledged."""
        before, deadline = len(self.acknowledged), time.monotonic() + 120
        while len(self.acknowledged) == before:
            assert self.problem is None, self.problem
            assert time.monotonic() < deadline, "nothing is acknowledged any more"
            time.sleep(0.01)

    def _publish(self) -> None:
        story = self.broker.cast
        with maia.connect_blocking(
            self.broker.address,
            key=story.keys[CAMERA],
            network=story.network,
            credentials=story.certificates,
            dial_again_s=0.05,
        ) as client:
            publisher = client.advertise(story.definition)
            while not self.stops.is_set():
                first = len(self.acknowledged)
                plates = [f"P{number}" for number in range(first, first + first % 4 + 1)]
                publisher.publish_many([sighting(plate) for plate in plates])
                publisher.flush(timeout_s=120)
                self.acknowledged += plates
                time.sleep(self.pause_s)


def sighting(plate: str) -> dict[str, object]:
    return {"numberplate": plate, "location": "Victoria", "timestamp": system_now()}
