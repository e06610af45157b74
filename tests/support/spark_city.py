"""The numberplate story for Spark: a broker as a process that records, its files, and people who publish."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import maia
from maia.client.api.blocking_client import BlockingSubscription
from maia.clock import system_now
from maia.credentials import SignedCertificate, certificate_to_text
from maia.events import Instant
from maia.keystore.key_files import create_key_file
from maia.testing import Cast
from maia.types import definition_to_text
from support.numberplate import tell_numberplate_story
from support.processes import running_maia, until

__all__ = ["CAMERA", "SparkCity", "sighting", "spark_city", "taken"]

CAMERA = "camera at Victoria"
BROKER = "CCS"


@dataclass
class SparkCity:
    """A folder with everybody's keys and certificates, and the address of the broker that runs."""

    folder: Path
    story: Cast
    address: str = ""
    _process: subprocess.Popen[str] | None = None

    def options(self, who: str, **more: object) -> dict[str, str]:
        """Return what a job of one of the cast says."""
        said = {
            "broker": self.address,
            "key": str(self.folder / f"{who}.key"),
            "credentials": str(self.folder / "certs"),
            "network": self.cast.network.name,
            "coordinator": str(self.cast.network.owner),
            "definition": str(self.folder / "numberplate.type"),
            **{name: str(value) for name, value in more.items()},
        }
        return {name: value for name, value in said.items() if value != "None"}

    def publish(self, *plates: str, location: str = "Victoria") -> None:
        """Let the camera see cars, and wait until the broker has taken all of it on."""
        with self.connected(CAMERA) as client:
            publisher = client.advertise(self.cast.definition)
            publisher.publish_many([sighting(plate, location=location) for plate in plates])
            publisher.flush()

    def connected(self, who: str):
        """Connect one of the cast."""
        return maia.connect_blocking(
            self.address,
            key=self.cast.keys[who],
            network=self.cast.network,
            credentials=self.cast.certificates,
        )

    def kill(self) -> None:
        """End the broker as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def add(self, *certificates: SignedCertificate, folder: str) -> Path:
        """Write certificates to a folder of their own."""
        (self.folder / folder).mkdir(exist_ok=True)
        for number, signed in enumerate(certificates):
            path = self.folder / folder / f"{number}.cert"
            path.write_text(certificate_to_text(signed), encoding="utf-8")
        return self.folder / folder

    @contextmanager
    def running(self, *, listen: str = "127.0.0.1:0") -> Iterator[subprocess.Popen[str]]:
        """Run the broker as its operator does."""
        (self.folder / "out.log").write_text("")
        config = {
            "key": "CCS.key",
            "network": self.cast.network.name,
            "coordinator": str(self.cast.network.owner),
            "credentials": "certs",
            "listen": listen,
            "data": "data",
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in config.items()]
        text = "\n".join([*lines, "[log]", 'folder = "log"', 'types = ["*"]', ""])
        (self.folder / "broker.toml").write_text(text)
        with running_maia("broker", "--config", "broker.toml", cwd=self.folder) as process:
            out = self.folder / "out.log"
            until(lambda: "listening on" in out.read_text() or process.poll() is not None)
            assert process.poll() is None, (self.folder / "err.log").read_text()
            self.address = re.findall(r"listening on (\S+) as", out.read_text())[-1]
            self._process = process
            yield process


@contextmanager
def spark_city(folder: Path) -> Iterator[SparkCity]:
    """Write everybody's files, and run the broker."""
    story = tell_numberplate_story(b"for spark", now=system_now())
    for who, key in story.keys.items():
        create_key_file(folder / f"{who}.key", key)
    city = SparkCity(folder, story)
    city.add(*story.certificates, folder="certs")
    (folder / "numberplate.type").write_text(definition_to_text(story.definition))
    with city.running():
        yield city


def taken(received: BlockingSubscription, count: int) -> list[str]:
    """Return the plates of at least so many events, in one frame or several, and of all that came along."""
    events = received.some(timeout_s=60)
    while len(events) < count and (more := received.some(timeout_s=60)):
        events += more
    return [str(event["numberplate"]) for event in events]


def sighting(plate: str, *, location: str = "Victoria", at: Instant | None = None) -> Mapping[str, object]:
    """Return one event."""
    return {"numberplate": plate, "location": location, "timestamp": at or system_now()}
