"""The numberplate story for Spark: a broker as a process that records, its files, and people who publish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from maia.client.api.blocking_client import BlockingSubscription
from maia.clock import system_now
from maia.events import Instant
from maia.testing import Processes
from support.killed_broker import recorder_of
from support.numberplate import CAMERA, tell_numberplate_story
from support.processes import forked

__all__ = ["CAMERA", "SparkCity", "sighting", "spark_city", "taken"]

BROKER = "CCS broker"


class SparkCity(Processes):
    """A folder with everybody's keys and certificates, and a broker that runs and records."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, tell_numberplate_story(b"for spark", now=system_now()), start=forked)
        records = '[log]\nfolder = "log"\ntypes = ["*"]'
        self.server = self.broker(BROKER, credentials=recorder_of(self.cast, BROKER), more=records)

    @property
    def address(self) -> str:
        return self.server.address

    def options(self, who: str, **more: object) -> dict[str, str]:
        """Return what a job of one of the cast says."""
        said = {
            "broker": self.address,
            "key": str(self.folder / f"{who}.key"),
            "credentials": str(self.folder / "certs"),
            "network": self.cast.network.name,
            "coordinator": str(self.cast.network.owner),
            "definition": str(self.folder / "event.type"),
            **{name: str(value) for name, value in more.items()},
        }
        return {name: value for name, value in said.items() if value != "None"}

    def publish(self, *plates: str, location: str = "Victoria") -> None:
        """Let the camera see cars, and wait until the broker has taken all of it on."""
        with self.client(CAMERA, self.server) as client:
            publisher = client.advertise(self.cast.definition)
            publisher.publish_many([sighting(plate, location=location) for plate in plates])
            publisher.flush()


@contextmanager
def spark_city(folder: Path) -> Iterator[SparkCity]:
    """Write everybody's files, and run the broker."""
    with SparkCity(folder) as city:
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
