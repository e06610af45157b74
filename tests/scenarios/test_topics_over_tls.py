"""Topics over real sockets: plain and typed trees, the last event on each topic, a durable reader."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import maia
from maia.broker.server.log_recording import LogRecorder
from maia.broker.server.server import run_broker
from maia.broker.settings import BrokerSettings, RecordingSettings
from maia.clock import system_now
from maia.credentials import Action, BadName, NetworkName, TopicName
from maia.log.disk.event_log import EventLog
from maia.net.observer import QuietRecords
from maia.net.stores import FolderStore
from maia.testing import in_a_loop, soon, wait_until
from maia.testing.refusals import raises
from support.newsroom import (
    CITY,
    NETWORK,
    NEWS,
    PUBLISH,
    SUBSCRIBE,
    brokers,
    client,
    connecting,
    declared,
    declared_typed,
    granted,
    key,
    received,
)

ALL = granted("reader", SUBSCRIBE, "/news/#")
END = "/news/end"


@in_a_loop
async def test_a_subscription_to_a_node_includes_its_sub_topics_through_two_brokers():
    async with (
        brokers("north", "south") as (north, south),
        client("reader", south, ALL) as reader,
        client("city", north) as city,
    ):
        uk = await reader.subscribe("/news/uk")
        sport = await reader.subscribe("/news/+/sport", 'headline != "old"')
        assert await received(uk, city.publish, "/news/uk/begin") == []
        for path in ("/news", "/news/uk", "/news/uk/sport", "/news/fr/sport", "/news/ukraine"):
            await city.publish(path, headline="new")
        await city.publish("/news/uk/sport", {"headline": "old"})
        found = [one for one in await received(uk, city.publish, "/news/uk/end") if "begin" not in one]
        assert found == ["/news/uk", "/news/uk/sport", "/news/uk/sport"]
        assert [(await soon(anext(sport)))["topic"] for _ in range(2)] == ["/news/uk/sport", "/news/fr/sport"]


@in_a_loop
async def test_a_publication_on_several_topics_arrives_once():
    """I10: in one tree and in two, and at a reader of a node above; a rival's equal number hides nothing."""
    news, alarms = declared(several=True), declared("/alarms", several=True)
    both = granted("reader", SUBSCRIBE, "/news/#"), granted("reader", SUBSCRIBE, "/alarms/#")
    rival = granted("rival", PUBLISH, "/alarms/#")
    async with (
        brokers("north", "south") as (north, south),
        client("reader", south, *both, types=[news, alarms]) as reader,
        client("city", north, types=[news, alarms, declared_typed()]) as city,
        client("rival", south, rival, types=[alarms]) as other,
    ):
        named = await reader.subscribe_to(["/news/security/incidents", "/alarms/ids", "/alarms/fire"])
        tree = await reader.subscribe("/alarms")
        where = ["/news/security/incidents", "/alarms/ids/building-203", "/alarms/fire", "/alarms/police"]
        await city.publish(where, headline="smoke")
        await city.publish("/alarms/fire", headline="over")
        seen = [await soon(anext(named)) for _ in range(2)]
        assert [one["headline"] for one in seen] == ["smoke", "over"]
        whole = [await soon(anext(tree)) for _ in range(2)]
        assert [one["headline"] for one in whole] == ["smoke", "over"]
        number = whole[0]["publication"]
        await other.publish("/alarms/fire", headline="forged", publication=number)
        assert (await soon(anext(tree)))["headline"] == "forged"
        with raises("INPUT-TOPICS"):
            await city.publish(["/prices/tea", "/prices/rum"], price=1.0)
        with raises("INPUT-TOPICS"):
            await reader.subscribe_to([])


@in_a_loop
async def test_typed_topics_are_fetched_from_the_broker_by_owner_and_path():
    prices = declared_typed()
    grant = granted("reader", SUBSCRIBE, "/prices/#")
    async with (
        brokers("north") as (north,),
        client("reader", north, grant, types=()) as reader,
        client("city", north, types=[prices]) as city,
    ):
        with raises("INPUT-UNKNOWN-TYPE"):
            await reader.subscribe("/prices")
        publisher = await city.advertise("/prices")
        tea = await reader.subscribe(TopicName(CITY.principal, "/prices/tea"), "price > 2.0")
        await publisher.publish_many(
            [{"topic": f"/prices/{what}", "price": price} for what, price in (("tea", 1.5), ("rum", 9.0))]
        )
        await publisher.publish(topic="/prices/tea/green", price=3.5)
        with pytest.raises(BadName):
            await publisher.publish(price=3.5)
        await publisher.flush()
        assert await soon(anext(tea)) == {"topic": "/prices/tea/green", "price": 3.5}


async def _here(board):
    """Yield what has arrived by now."""
    while some := await board.some(64, timeout_s=0.2):
        for one in some:
            yield one


@in_a_loop
async def test_the_state_of_topics_is_the_last_event_on_each():
    """Of a publisher that is still there, at another broker, through the reader's right."""
    grant = granted("reader", SUBSCRIBE, "/news/uk/#")
    async with (
        brokers("north", "south") as (north, south),
        client("reader", south, grant) as reader,
        client("city", north) as city,
    ):
        publisher = await city.advertise("/news")
        for number in range(3):
            await publisher.publish_many(
                {"topic": f"/news/uk/{place}", "headline": f"{place} {number}"}
                for place in ("a", "b", "a")
                if (place, number) != ("b", 2)
            )
            await publisher.flush()
        await city.publish("/news/uk/c", headline="c 0")
        await city.publish("/news/fr", headline="not for this reader")
        for _ in range(2):  # asking changes nothing
            while True:
                board = await reader.subscribe("/news", state=True)
                await board.state_known()
                found = [one async for one in _here(board)]
                await board.unsubscribe()
                if found:
                    break  # before that, the offer has not come from the other broker
            assert sorted(one["headline"] for one in found) == ["a 2", "b 1", "c 0"]
        narrow = await reader.subscribe("/news/uk/b", state=True)
        await narrow.state_known()
        assert [one["headline"] for one in await narrow.some(64, timeout_s=60)] == ["b 1"]


@in_a_loop
async def test_a_durable_reader_of_topics_comes_back_for_what_it_missed(tmp_path: Path):
    settings = BrokerSettings(
        NetworkName(CITY.principal, NETWORK),
        "127.0.0.1:0",
        (connecting("north", Action.BROKER), granted("north", SUBSCRIBE, "/news/#")),
        recording=RecordingSettings(),
    )
    grant = granted("reader", SUBSCRIBE, "/news/+/sport/#")

    @asynccontextmanager
    async def running():
        with EventLog.open(tmp_path / "log") as log:
            recorder = LogRecorder(log, clock=system_now, records=QuietRecords())
            store = FolderStore(tmp_path / "kept")
            async with run_broker(key("north"), settings, store=store, recorder=recorder) as north:
                yield north

    async with running() as north, client("city", north) as city:
        async with client("reader", north, grant) as reader:
            await reader.subscribe("/news", durable="sport")
        for path in ("/news/uk/sport", "/news/uk", "/news/fr/sport/cycling"):
            await city.publish(path, payload=b"while away")
    async with running() as north, client("reader", north, grant) as reader:
        missed = await reader.subscribe("/news", durable="sport")
        found = [(await soon(anext(missed)))["topic"] for _ in range(2)]
        assert found == ["/news/uk/sport", "/news/fr/sport/cycling"]


def test_the_blocking_client_publishes_and_subscribes_by_topic():
    async def served(started, stop):
        async with brokers("north") as (north,):
            started.append(north.address)
            await asyncio.to_thread(stop.wait)

    started: list[str] = []
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(served(started, stop)))
    thread.start()
    try:
        wait_until(lambda: started, "the broker listens")
        member = {"network": NetworkName(CITY.principal, NETWORK), "types": [NEWS]}
        with (
            maia.connect_blocking(
                started[0], key=key("reader"), credentials=(connecting("reader"), ALL), **member
            ) as reader,
            maia.connect_blocking(
                started[0],
                key=key("desk"),
                credentials=(connecting("desk"), granted("desk", PUBLISH, "/news/#")),
                **member,
            ) as desk,
        ):
            subscription = reader.subscribe("/news/uk")
            desk.publish("/news/fr", payload=b"no")
            desk.publish("/news/uk", payload=b"yes")
            (event,) = subscription.some(1, timeout_s=60)
            assert (event["topic"], event["payload"]) == ("/news/uk", b"yes")
    finally:
        stop.set()
        thread.join()
