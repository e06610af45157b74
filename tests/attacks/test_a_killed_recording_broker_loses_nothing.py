"""A81: a recording broker, killed at any moment under a publisher that waits for its answers.

`MAIA_KILLS=300 pytest …` kills hundreds of times in place of a few.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import maia
from maia.clock import system_now
from maia.credentials import certificate_to_text
from maia.demo.numberplate import NUMBERPLATE, NumberplateStory, tell_numberplate_story
from maia.keystore.key_files import create_key_file
from maia.log.disk.event_log import EventLog
from maia.log.format.names import already_joined
from maia.spark.governed.reader import Reader
from maia.spark.governed.table import governed
from maia.types import verify_definition
from maia.wire.codec import decode
from maia.wire.columns import columns_to_frame
from support.event_log import draws
from support.ports import free_port

KILLS = int(os.environ.get("MAIA_KILLS", "12"))
TESTS = Path(__file__).resolve().parents[1]
CAMERA = "camera at Victoria"


class Forker:
    """A broker of the numberplate story that is killed and comes back at the same address."""

    def __init__(self, home: Path, story: NumberplateStory) -> None:
        self.home, self.story = home, story
        self.child: int | None = None
        self.address = f"127.0.0.1:{free_port()}"
        self._write_files()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.forked_broker"],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def _write_files(self) -> None:
        create_key_file(self.home / "CCS.key", self.story.keys["CCS"])
        (self.home / "certs").mkdir()
        for number, signed in enumerate(self.story.certificates):
            (self.home / "certs" / f"{number}.cert").write_text(certificate_to_text(signed))
        known = {
            "key": "CCS.key",
            "network": self.story.network.name,
            "coordinator": str(self.story.network.owner),
            "credentials": "certs",
            "listen": self.address,
            "data": "data",
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

    def kill(self, child: int) -> None:
        os.kill(child, signal.SIGKILL)
        self.child = None
        while self.process.stdout.readline().strip() != "ended":
            pass

    def end(self) -> None:
        if self.child is not None:
            os.kill(self.child, signal.SIGKILL)
        self.process.stdin.close()
        self.process.wait(timeout=180)
        self.process.stdout.close()


@pytest.fixture
def broker(tmp_path) -> Iterator[Forker]:
    forker = Forker(tmp_path, tell_numberplate_story(b"killed", now=system_now()))
    yield forker
    forker.end()


class Camera(threading.Thread):
    """Publishes, waits for the answer, and remembers what was answered, until told to stop."""

    def __init__(self, broker: Forker) -> None:
        super().__init__(daemon=True)
        self.broker, self.stops = broker, threading.Event()
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
        story = self.broker.story
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


def sighting(plate: str) -> dict[str, object]:
    return {"numberplate": plate, "location": "Victoria", "timestamp": system_now()}


def joined(home: Path) -> None:
    """Roll and join, as the broker does every minute; what was joined stays for a while."""
    with EventLog.open(home / "log") as log:
        log.roll(system_now())
        log.compact(system_now())


def recorded(home: Path) -> list[str]:
    """Return the plates in the log, as its owner finds them."""
    with EventLog.open(home / "log") as log:
        assert log.verify().is_whole
        frames = [decode(one.message) for one in log.read()]
        log.roll(system_now())
    return [
        str(event[NUMBERPLATE])
        for frame in frames
        for event in columns_to_frame(frame.columns, frame.rows).events()
    ]


def test_what_was_acknowledged_is_in_the_log_and_the_table_exactly_once(spark, broker, tmp_path):
    """A81: kill -9 while frames are received, made safe, answered, rolled and joined."""
    random = draws(KILLS)
    child, camera = broker.start(), Camera(broker)
    camera.start()
    for _ in range(KILLS):
        camera.wait_for_more()
        time.sleep(random.uniform(0, 0.15))
        broker.kill(child)
        if random.random() < 0.4:
            joined(tmp_path)
        child = broker.start()
    camera.wait_for_more()
    camera.stops.set()
    camera.join(150)
    assert camera.problem is None, camera.problem
    broker.kill(child)
    found = Counter(recorded(tmp_path))
    assert found == Counter(camera.acknowledged)
    assert len(found) > KILLS
    assert governed_plates(spark, broker) == found


def governed_plates(spark, broker: Forker) -> Counter[str]:
    story = broker.story
    event_type = verify_definition(story.definition, at=system_now())
    reader = Reader(story.principal("billing office"), story.certificates)
    table = governed(spark, log=str(broker.home / "log"), event_type=event_type, reader=reader)
    paths = (broker.home / "log").glob("type=*/day=*/*.parquet")
    assert already_joined(map(str, paths)) or KILLS < 3  # the test is about a log that was joined
    return Counter(row["numberplate"] for row in table.select("numberplate").collect())
