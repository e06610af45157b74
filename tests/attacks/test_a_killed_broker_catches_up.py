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

import maia
from maia.clock import system_now
from maia.credentials import Action
from support.event_log import draws
from support.killed_broker import Camera, Forker
from support.numberplate import add_carrier, tell_numberplate_story
from support.ports import free_port

KILLS = int(os.environ.get("MAIA_KILLS", "6"))
READER = "billing office"


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[Forker, Forker]]:
    """The publisher's broker and the subscriber's."""
    story = tell_numberplate_story(b"catch up", now=system_now())
    cast = add_carrier(story, b"catch up")
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    made = []
    for who, own, other in zip(("CCS broker", "Met broker"), addresses, addresses[::-1], strict=True):
        key = cast.keys[who]
        right = story.grant("PITO", key.principal, story.definition, Action.SUBSCRIBE)
        shown = [*cast.wallets[who], right]
        made.append(Forker(tmp_path / who, story, key=key, credentials=shown, join=[other], address=own))
    yield made[0], made[1]
    for one in made:
        one.end()


class Archive(threading.Thread):
    """A durable subscriber that writes down what it is shown, and what it is told that it missed."""

    def __init__(self, broker: Forker) -> None:
        super().__init__(daemon=True)
        self.broker, self.stops, self.began = broker, threading.Event(), threading.Event()
        self.written: list[str] = []
        self.missed: list[object] = []
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            self._read()
        except BaseException as problem:  # noqa: BLE001 - told to the test, in its own thread
            self.problem = problem

    def _read(self) -> None:
        story = self.broker.cast
        with maia.connect_blocking(
            self.broker.address,
            key=story.keys[READER],
            network=story.network,
            credentials=story.certificates,
            dial_again_s=0.05,
        ) as client:
            subscription = client.subscribe(story.definition, durable="archive")
            self.began.set()
            while not self.stops.is_set():
                events = subscription.some(timeout_s=0.2)
                self.written += [str(event["numberplate"]) for event in events]
                self.missed = list(subscription.missed)
                subscription.acknowledge()


def wait_until(condition, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_what_was_acknowledged_reaches_the_archive_or_is_reported(brokers):
    """A109: kill -9 of either broker; nothing that its publisher was told is safe is silently missing."""
    random, story = draws(KILLS), list[str]()
    publishing, recording = brokers
    for one in brokers:
        one.start()
    archive = Archive(recording)
    archive.start()
    assert archive.began.wait(120), archive.problem
    camera = Camera(publishing, pause_s=0.05)
    camera.start()
    camera.wait_for_more()
    for number in range(KILLS):
        time.sleep(random.uniform(0, 0.6))
        victim = brokers[number % 2] if number < 2 else random.choice(brokers)
        victim.kill()
        if victim is recording:
            camera.wait_for_more()  # published while the subscriber's broker is down
        time.sleep(random.uniform(0, 0.3))
        victim.start()
        if random.random() < 0.4:
            camera.wait_for_more()
        if number % 20 == 19:
            story.append(f"{number + 1}: {len(camera.acknowledged)} and {len(archive.written)}")
            (publishing.home / "story").write_text("\n".join(story))
    camera.stops.set()
    camera.join(150)
    assert camera.problem is None, camera.problem
    wait_until(lambda: len(set(archive.written)) >= len(set(camera.acknowledged)), 150)
    archive.stops.set()
    archive.join(30)
    assert archive.problem is None, archive.problem
    missing = [plate for plate in camera.acknowledged if plate not in set(archive.written)]
    told = [str(one) for one in archive.missed]
    found = f"{KILLS} kills, {len(camera.acknowledged)} acknowledged, {len(missing)} missing, told {told}"
    (publishing.home / "story").write_text(found)
    assert not missing or told, found
    assert len(missing) <= KILLS // 20  # what is fetched is not only reported
    first_shown = list(dict.fromkeys(archive.written))
    order = [int(plate[1:]) for plate in first_shown]
    assert order == sorted(order)
