"""The durable subscription as an application knows it, over TLS, with a real log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import maia
from maia.broker import RecordingSettings
from maia.broker.server.log_recording import LogRecorder
from maia.broker.server.server import RunningBroker, run_broker
from maia.client import RefusedByBroker
from maia.clock import system_now
from maia.log.disk.event_log import EventLog
from maia.net.observer import QuietRecords
from maia.net.stores import FolderStore
from maia.testing import in_a_loop
from support.live import BROKER, STORY, client, settings

EVENTS = 700


@asynccontextmanager
async def recording_broker(folder: Path, **changes: object) -> AsyncIterator[RunningBroker]:
    with EventLog.open(folder / "log") as log:
        recorder = LogRecorder(log, clock=system_now, records=QuietRecords())
        async with run_broker(
            STORY.keys[BROKER],
            settings(recording=RecordingSettings(), **changes),
            store=FolderStore(folder / "kept"),
            recorder=recorder,
        ) as running:
            yield running


async def publish(address: str, first: int, last: int) -> None:
    async with client("camera at Victoria", address) as camera:
        publisher = await camera.advertise(STORY.definition)
        for number in range(first, last):
            await publisher.publish(numberplate=f"P{number}", location="Victoria", timestamp=system_now())
            if number % 7 == 0:
                await publisher.flush()
        await publisher.flush()


async def take(address: str, count: int) -> list[str]:
    async with client("billing office", address) as office:
        subscription = await office.subscribe(STORY.definition, durable="nightly")
        taken: list[str] = []
        while len(taken) < count and (some := await subscription.some(50, timeout_s=60)):
            taken += [str(event["numberplate"]) for event in some]
        await subscription.unsubscribe()
        return taken


@in_a_loop
async def test_an_application_that_comes_and_goes_gets_everything_once(tmp_path: Path):
    async with recording_broker(tmp_path) as running:
        await take(running.address, 0)
        await publish(running.address, 0, EVENTS // 2)
    async with recording_broker(tmp_path) as running:
        later = asyncio.create_task(publish(running.address, EVENTS // 2, EVENTS))
        first = await take(running.address, 1)
        rest = await take(running.address, EVENTS - len(first))
        await later
        status = running.status()["log"]
    assert [*first, *rest] == [f"P{number}" for number in range(EVENTS)]
    assert (status["unsafe"], status["farthest_behind"]) == (0, 0)
    assert status["bytes"] > 0


@in_a_loop
async def test_the_blocking_client_has_the_same_words(tmp_path: Path):
    def blocking(address: str, timeout_s: float) -> list[str]:
        with maia.connect_blocking(
            address,
            key=STORY.keys["billing office"],
            network=STORY.network,
            credentials=STORY.certificates,
            types=[STORY.definition],
        ) as office:
            subscription = office.subscribe(STORY.definition, durable="nightly")
            events = subscription.some(5, timeout_s=timeout_s)
            subscription.acknowledge()
            assert subscription.missed == ()
            subscription.unsubscribe()
            return [str(event["numberplate"]) for event in events]

    async with recording_broker(tmp_path) as running:
        assert await asyncio.to_thread(blocking, running.address, 0.2) == []
        await publish(running.address, 1, 2)
        assert await asyncio.to_thread(blocking, running.address, 60) == ["P1"]
        assert await asyncio.to_thread(blocking, running.address, 1) == []


@in_a_loop
async def test_a_broker_that_records_nothing_says_so():
    from support.live import broker

    async with broker() as running, client("billing office", running.address) as office:
        with pytest.raises(RefusedByBroker) as refused:
            await office.subscribe(STORY.definition, durable="nightly")
        assert refused.value.code == "INPUT-NOT-RECORDED"
