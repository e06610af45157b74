"""A109: a publisher at one recording broker, a durable subscriber at another; either is killed at any moment.

`MAIA_KILLS=200 pytest …` kills hundreds of times in place of a few (`make kills`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from maia.clock import system_now
from maia.credentials import Action
from maia.testing import Processes, Server, free_port
from support.event_log import draws
from support.killed_broker import RECORDS, Camera
from support.numberplate import add_carrier, tell_numberplate_story
from support.processes import forked

KILLS = int(os.environ.get("MAIA_KILLS", "6"))
READER = "billing office"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    cast = add_carrier(tell_numberplate_story(b"catch up", now=system_now()), b"catch up")
    with Processes(tmp_path, cast, start=forked) as found:
        yield found


@pytest.fixture
def brokers(processes: Processes) -> list[Server]:
    """The publisher's broker and the subscriber's."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    made, cast = [], processes.cast
    for who, own, other in zip(("CCS broker", "Met broker"), addresses, addresses[::-1], strict=True):
        shown = [*cast.wallets[who], cast.right(who, Action.SUBSCRIBE)]
        made.append(processes.broker(who, credentials=shown, join=[other], listen=own, more=RECORDS))
    return made


class Archive(threading.Thread):
    """A durable subscriber that writes down what it is shown, and what it is told that it missed."""

    def __init__(self, processes: Processes, broker: Server) -> None:
        super().__init__(daemon=True)
        self.client, self.definition = processes.client(READER, broker), processes.cast.definition
        self.stops, self.began = threading.Event(), threading.Event()
        self.written: list[str] = []
        self.missed: list[object] = []
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            self._read()
        except BaseException as problem:  # noqa: BLE001 - told to the test, in its own thread
            self.problem = problem

    def _read(self) -> None:
        with self.client as client:
            subscription = client.subscribe(self.definition, durable="archive")
            self.began.set()
            while not self.stops.is_set():
                events = subscription.some(timeout_s=0.2)
                self.written += [str(event["numberplate"]) for event in events]
                self.missed = list(subscription.missed)
                subscription.acknowledge()


def test_what_was_acknowledged_reaches_the_archive_or_is_reported(processes, brokers):
    """A109: kill -9 of either broker; nothing that its publisher was told is safe is silently missing."""
    random, story = draws(KILLS), list[str]()
    publishing, recording = brokers
    archive = Archive(processes, recording)
    archive.start()
    assert archive.began.wait(120), archive.problem
    camera = Camera(processes, publishing, pause_s=0.05)
    camera.start()
    camera.wait_for_more()
    for number in range(KILLS):
        time.sleep(random.uniform(0, 0.6))
        victim = brokers[number % 2] if number < 2 else random.choice(brokers)
        processes.crash(victim)
        if victim is recording:
            camera.wait_for_more()  # published while the subscriber's broker is down
        time.sleep(random.uniform(0, 0.3))
        processes.restart(victim)
        if random.random() < 0.4:
            camera.wait_for_more()
        if number % 20 == 19:
            story.append(f"{number + 1}: {len(camera.acknowledged)} and {len(archive.written)}")
            (processes.folder / "story").write_text("\n".join(story))
    camera.stops.set()
    camera.join(150)
    assert camera.problem is None, camera.problem
    ends = time.monotonic() + 150  # what is missing then has to be reported
    while len(set(archive.written)) < len(set(camera.acknowledged)) and time.monotonic() < ends:
        time.sleep(0.05)
    archive.stops.set()
    archive.join(150)
    assert archive.problem is None, archive.problem
    missing = [plate for plate in camera.acknowledged if plate not in set(archive.written)]
    told = [str(one) for one in archive.missed]
    found = f"{KILLS} kills, {len(camera.acknowledged)} acknowledged, {len(missing)} missing, told {told}"
    (processes.folder / "story").write_text(found)
    assert not missing or told, found
    assert len(missing) <= KILLS // 20  # what is fetched is not only reported
    first_shown = list(dict.fromkeys(archive.written))
    order = [int(plate[1:]) for plate in first_shown]
    assert order == sorted(order)
