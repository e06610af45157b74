"""The numberplate story over real sockets, with a broker here and with brokers as processes."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import maia
from maia.client import RowsRefused
from maia.events import Instant
from maia.testing import Processes, in_a_loop, soon, until, wait_until
from maia.testing.refusals import raises
from support.live import STORY, TYPE, broker, city, client, story_with_a_choosy_camera
from support.numberplate import add_brokers
from support.processes import forked

NOON = Instant(1_700_000_000_000_000)
SECOND = 1_000_000
CAMERA, BILLING, STATISTICS, SMITH = (
    "camera at Victoria",
    "billing office",
    "statistics office",
    "Detective Smith",
)


@in_a_loop
async def test_every_client_sees_their_part_of_a_car_and_no_client_sees_more():
    async with city(CAMERA, BILLING, STATISTICS, SMITH) as (_, camera, billing, statistics, smith):
        bills = await billing.subscribe(STORY.definition)
        counts = await statistics.subscribe(STORY.definition)
        suspects = await smith.subscribe(STORY.definition)
        cars = await camera.advertise(STORY.definition)
        await cars.publish(numberplate="BD51 SMR", timestamp=NOON, location="Victoria")
        await cars.publish(numberplate="AE05 XYZ", timestamp=NOON, location="Victoria")
        await cars.flush()

        assert [await soon(anext(bills)) for _ in range(2)] == [
            {"numberplate": "BD51 SMR", "timestamp": NOON, "location": None},
            {"numberplate": "AE05 XYZ", "timestamp": NOON, "location": None},
        ]
        assert [await soon(anext(counts)) for _ in range(2)] == [
            {"numberplate": None, "timestamp": NOON, "location": "Victoria"},
        ] * 2
        seen = await soon(anext(suspects))
        assert seen == {"numberplate": "AE05 XYZ", "timestamp": NOON, "location": "Victoria"}
        assert seen.publisher.principal == STORY.principal(CAMERA)
        # The detective's first event is the suspect: the other car was not delivered before it.
        assert await suspects.some(1, timeout_s=0.05) == []


@in_a_loop
async def test_a_camera_that_lies_about_its_place_is_put_in_its_place():
    async with city(CAMERA, STATISTICS) as (_, camera, statistics):
        counts = await statistics.subscribe(STORY.definition)
        cars = await camera.advertise(STORY.definition)
        await cars.publish(numberplate="AE05 XYZ", location="Oxford Street")
        assert (await soon(anext(counts)))["location"] == "Victoria"


@in_a_loop
async def test_a_filter_is_applied_before_the_subscriber():
    async with city(CAMERA, BILLING) as (_, camera, billing):
        wanted = await billing.subscribe(STORY.definition, 'prefix(numberplate, "AE")')
        cars = await camera.advertise(STORY.definition)
        await cars.publish_many([{"numberplate": plate} for plate in ("AE1", "BD1", "AE2", "CF1", "AE3")])
        plates = [(await soon(anext(wanted)))["numberplate"] for _ in range(3)]
        assert plates == ["AE1", "AE2", "AE3"]


@in_a_loop
async def test_events_come_as_arrow_batches_and_go_as_such():
    async with city(CAMERA, BILLING) as (_, camera, billing):
        bills = await billing.subscribe(STORY.definition)
        cars = await camera.advertise(STORY.definition)
        given = pa.record_batch(
            {
                "numberplate": pa.array([f"AE05 {n}" for n in range(3000)]),
                "timestamp": pa.array([NOON] * 3000, pa.timestamp("us", tz="UTC")),
            }
        )
        await cars.publish_batch(given)
        await cars.flush()
        taken: list[pa.RecordBatch] = []
        async with asyncio.timeout(180):
            async for batch in bills.batches():
                taken.append(batch)
                if sum(one.num_rows for one in taken) == 3000:
                    break
        whole = pa.Table.from_batches([one.replace_schema_metadata() for one in taken])
        assert whole["numberplate"].to_pylist() == given["numberplate"].to_pylist()
        assert whole["timestamp"].combine_chunks() == given["timestamp"]
        assert whole["location"].null_count == 3000
        assert taken[0].schema.metadata[b"maia.publisher"] == str(STORY.principal(CAMERA)).encode()


@in_a_loop
async def test_a_type_is_asked_for_by_its_full_name():
    async with broker() as running, client(CAMERA, running.address) as camera:
        await camera.advertise(STORY.definition)
        async with client(BILLING, running.address, types=[]) as billing:
            bills = await billing.subscribe(TYPE)
            assert bills.event_type.name == TYPE
            with raises("INPUT-UNKNOWN-TYPE"):
                await billing.subscribe("uk.gov.pito.Aeroplane")


@in_a_loop
async def test_refusals_arrive_with_their_codes():
    async with city(CAMERA, BILLING) as (_, camera, billing):
        with pytest.raises(maia.Refusal) as no_right:
            await billing.advertise(STORY.definition)
        assert no_right.value.code == "POLICY-NO-CHAIN"
        with pytest.raises(maia.Refusal) as hidden:
            await billing.subscribe(STORY.definition, 'location == "Victoria"')
        assert hidden.value.code == "POLICY-ATTRIBUTE-NOT-READABLE"
        assert "(field filter, attribute location)" in hidden.value.message
        cars = await camera.advertise(STORY.definition)
        with pytest.raises(maia.BadInput):
            await cars.publish(numberplate=5)
        with pytest.raises(maia.BadInput):
            await cars.publish_many([{"numberplate": "AE05 XYZ"}, {"numberplate": 5}])
        with pytest.raises(maia.BadInput):
            await cars.publish(colour="blue")
        # None of these mistakes costs more than itself.
        await cars.publish(numberplate="AE05 XYZ")
        await cars.flush()


@in_a_loop
async def test_rows_outside_a_right_are_counted_and_said_once():
    story = story_with_a_choosy_camera()
    async with broker(story=story) as running, client(CAMERA, running.address, story=story) as camera:
        cars = await camera.advertise(story.definition)
        await cars.publish_many([{"numberplate": plate} for plate in ("AE1", "BD1", "AE2", "BD2")])
        with pytest.raises(RowsRefused) as refused:
            await cars.flush()
        assert refused.value.refused_rows == 2
        await cars.publish(numberplate="AE3")
        await cars.flush()
        assert cars.refused_rows == 2


@in_a_loop
async def test_what_is_withdrawn_stops():
    async with city(CAMERA, BILLING) as (running, camera, billing):
        gone, stays = [await billing.subscribe(STORY.definition) for _ in range(2)]
        cars = await camera.advertise(STORY.definition)
        await gone.unsubscribe()
        await cars.publish(numberplate="AE05 XYZ")
        assert (await soon(anext(stays)))["numberplate"] == "AE05 XYZ"
        assert [event async for event in gone] == []
        await cars.unadvertise()
        assert running.status()["advertisements"] == 0
        assert running.status()["subscriptions"] == 1


@in_a_loop
async def test_long_events_travel_in_frames_that_fit_and_one_too_long_is_refused():
    async with city(CAMERA, BILLING) as (_, camera, billing):
        bills = await billing.subscribe(STORY.definition)
        cars = await camera.advertise(STORY.definition)
        long = ["A" * 300_000, "é" * 300_000, "B" * 300_000, "\U0001f697" * 200_000, "C"] * 3
        await cars.publish_many([{"numberplate": plate} for plate in long])
        assert [(await soon(anext(bills)))["numberplate"] for _ in long] == long
        with pytest.raises(maia.BadInput):
            await cars.publish(numberplate="A" * 3_000_000)
        await cars.flush()


@in_a_loop
async def test_a_subscriber_that_falls_behind_can_still_leave(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("maia.client.api.subscription.ROWS_WAITING_MAX", 10)
    async with city(CAMERA, BILLING) as (running, camera, billing):
        lazy = await billing.subscribe(STORY.definition)
        cars = await camera.advertise(STORY.definition)
        await cars.publish_many([{"numberplate": str(number)} for number in range(5000)])
        await cars.flush()
        await until(lambda: not lazy._has_room, "the client to stop reading")
        await lazy.unsubscribe()
        assert running.status()["subscriptions"] == 0
        # What had arrived before the client stopped reading is still there, in order.
        plates = [event["numberplate"] async for event in lazy]
        assert plates == [str(number) for number in range(len(plates))]


@in_a_loop
async def test_a_subscriber_that_takes_its_time_gets_everything(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("maia.client.api.subscription.ROWS_WAITING_MAX", 10)
    async with city(CAMERA, BILLING) as (_, camera, billing):
        slow = await billing.subscribe(STORY.definition)
        cars = await camera.advertise(STORY.definition)
        for number in range(20):
            await cars.publish_many([{"numberplate": str(number)}] * 100)
        await cars.flush()
        taken = [(await soon(anext(slow)))["numberplate"] for _ in range(2000)]
        assert taken == [str(number) for number in range(20) for _ in range(100)]


def leases(running) -> dict[int, Instant]:
    """Return when the first lease of each link ends that has any."""
    links = running.status()["links"]
    return {
        one["link"]: Instant.parse(one["next_lease_ends"])
        for one in links
        if one["next_lease_ends"] is not None
    }


@in_a_loop
async def test_leases_are_renewed_for_as_long_as_a_client_is_there():
    async with city(CAMERA, BILLING, lease_s=20) as (running, camera, billing):
        bills = await billing.subscribe(STORY.definition)
        cars = await camera.advertise(STORY.definition)
        asked, first = running.status()["requests_remembered"], leases(running)
        # One message renews all that stands on a link, so the leases move and no request is made anew.
        assert len(first) == 2
        await until(
            lambda: all(leases(running).get(link, 0) >= ends + 3 * SECOND for link, ends in first.items()),
            "a renewal of each",
        )
        assert leases(running).keys() == first.keys()
        assert running.status()["requests_remembered"] == asked
        await cars.publish(numberplate="AE05 XYZ")
        assert (await soon(anext(bills)))["numberplate"] == "AE05 XYZ"


@in_a_loop
async def test_a_broker_that_is_killed_and_started_again_finds_every_client_as_before(tmp_path: Path):
    with Processes(tmp_path, add_brokers(STORY, b"processes"), start=forked) as processes:
        first = processes.broker("CCS broker")
        async with processes.client(CAMERA, first) as camera, processes.client(BILLING, first) as billing:
            bills = await billing.subscribe(STORY.definition)
            cars = await camera.advertise(STORY.definition)
            await cars.publish(numberplate="before")
            await cars.flush()
            assert (await soon(anext(bills)))["numberplate"] == "before"
            processes.crash(first)
            await until(lambda: billing.broker is None and camera.broker is None, "the loss to be noticed")
            await cars.publish(numberplate="meanwhile")
            processes.restart(first)
            # A client that subscribes again later than the publisher publishes again misses that frame, as
            # every client does who is not there. Both are back before the next one.
            await until(lambda: billing.broker and camera.broker, "both to be connected again")
            await cars.flush()
            await until_delivered(cars, bills, "after")


async def until_delivered(cars, bills, plate: str) -> None:
    """Publish until the subscriber, whose request may still be on its way, has seen the plate once."""
    for attempt in range(100):
        await cars.publish(numberplate=f"{plate} {attempt}")
        await cars.flush()
        for event in await bills.some(10, timeout_s=0.2):
            if event["numberplate"].startswith(plate):
                return
    raise AssertionError("nothing was delivered after the restart")


@in_a_loop
async def test_a_client_goes_on_with_the_next_broker_when_one_is_stopped(tmp_path: Path):
    with Processes(tmp_path, add_brokers(STORY, b"processes"), start=forked) as processes:
        one, two = processes.broker("CCS broker"), processes.broker("Met broker")
        async with client(BILLING, [one.address, two.address]) as billing:
            bills = await billing.subscribe(STORY.definition)
            assert one.stop() == 0
            async with client(CAMERA, two.address) as camera:
                cars = await camera.advertise(STORY.definition)
                await until_delivered(cars, bills, "through the second")


def test_the_blocking_twin_tells_the_same_story(tmp_path: Path):
    address: list[str] = []
    stop = threading.Event()

    async def live() -> None:
        async with broker() as running:
            address.append(running.address)
            await until(stop.is_set, "the test to end", within_s=600)

    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    try:
        wait_until(lambda: address, "the broker to listen")

        def blocking(who: str):
            return maia.connect_blocking(
                address[0],
                key=STORY.keys[who],
                network=STORY.network,
                credentials=STORY.certificates,
                types=[STORY.definition],
            )

        with blocking(CAMERA) as camera, blocking(BILLING) as billing:
            bills = billing.subscribe("uk.gov.pito.Numberplate")
            cars = camera.advertise("uk.gov.pito.Numberplate")
            cars.publish(numberplate="AE05 XYZ", timestamp=NOON)
            cars.publish_many([{"numberplate": f"BD {n}"} for n in range(2000)])
            cars.flush()
            events = iter(bills)
            assert next(events) == {"numberplate": "AE05 XYZ", "timestamp": NOON, "location": None}
            assert [next(events)["numberplate"] for _ in range(2000)] == [f"BD {n}" for n in range(2000)]
            with pytest.raises(maia.Refusal):
                billing.advertise("uk.gov.pito.Numberplate")
            bills.unsubscribe()
            assert list(events) == []
    finally:
        stop.set()
        thread.join()
