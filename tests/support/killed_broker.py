"""Brokers of real processes that are killed and come back, and a publisher that waits for every answer."""

from __future__ import annotations

import threading
import time

from maia.clock import system_now
from maia.credentials import Action, SignedCertificate
from maia.testing import Cast, Processes, Server
from support.numberplate import CAMERA

RECORDS = '[log]\nfolder = "log"\ntypes = ["*"]\nroll_s = 1'
"""What a recording broker has in its configuration."""


def recorder_of(cast: Cast, who: str) -> list[SignedCertificate]:
    """Return what a broker of the owner's shows, which records the type and serves it."""
    key, own = cast.identity(who)
    return [*cast.certificates, *own, cast.right(key, Action.SUBSCRIBE, Action.PUBLISH)]


class Camera(threading.Thread):
    """Publishes, waits for the answer, and remembers what was answered, until told to stop."""

    def __init__(self, processes: Processes, broker: Server, *, pause_s: float = 0.0) -> None:
        super().__init__(daemon=True)
        self.client = processes.client(CAMERA, broker)
        self.definition = processes.cast.definition
        self.pause_s, self.stops = pause_s, threading.Event()
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
        with self.client as client:
            publisher = client.advertise(self.definition)
            while not self.stops.is_set():
                first = len(self.acknowledged)
                plates = [f"P{number}" for number in range(first, first + first % 4 + 1)]
                publisher.publish_many([sighting(plate) for plate in plates])
                publisher.flush(timeout_s=120)
                self.acknowledged += plates
                time.sleep(self.pause_s)


def sighting(plate: str) -> dict[str, object]:
    return {"numberplate": plate, "location": "Victoria", "timestamp": system_now()}
