"""An account of a gateway that does its worst takes no memory, link or connection from the others."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path

import httpx

from maia.credentials import Action
from maia.predicates import ALWAYS
from support.http_clients import EVENTS
from support.mqtt_city import City, mqtt_city, taken
from support.raw_mqtt import Raw, raw_client
from support.waiting import until

NEWS = "topic.news"
QUOTA_EXCEEDED = 0x97
WILLS = 6
UNREAD = 1 << 20
FLOOD, PIECE = 200, b"x" * 60_000
"""Twelve times what may wait."""


def people(city: City) -> None:
    city.account("desk", publish=(Action.PUBLISH, NEWS, None, ALWAYS))
    for name in ("silent", "reader"):
        city.account(name, news=(Action.SUBSCRIBE, NEWS, None, ALWAYS))


async def flood(city: City) -> None:
    """Publish what a silent reader has not read at its end."""
    desk = await city.mqtt("desk")
    for _ in range(FLOOD // 100):
        for number in range(100):
            desk.client.publish("news/flood", PIECE + str(number).encode(), qos=1)
        for _ in range(100):
            assert (await taken(desk.published))[0].value == 0  # type: ignore[index]


async def end_of(city: City, strict: Raw) -> tuple[int, bytes]:
    """Read nothing until the gateway has ended the session, then all there is; return the last packet."""
    await until(lambda: ("silent", "silent 1") not in city.gateway._sessions, "the session to end")
    first, body = await strict.next()
    while first & 0xF0 == 0x30:
        first, body = await strict.next()
    return first, body


def test_what_a_reader_does_not_read_is_bounded_in_bytes(tmp_path: Path) -> None:
    """A89, A116 (N5): QoS 0 is skipped and counted, QoS 1 and a stream end with the reason; others get all."""

    async def story() -> None:
        limits = f"limits.unread_bytes = {UNREAD}\nunread_bytes_per_account = {2 * UNREAD}"
        async with mqtt_city(tmp_path, limits=limits) as city:
            people(city)
            silent = [(await raw_client(city, "silent", f"silent {qos}"))[0] for qos in (0, 1)]
            for qos, one in enumerate(silent):
                assert await one.subscribe("news/#", qos) == qos
            auth = httpx.BasicAuth("silent", city.tokens["silent"])
            async with httpx.AsyncClient(base_url=city.http, timeout=20, trust_env=False, auth=auth) as http:
                asked = http.build_request("GET", EVENTS, params={"topic": "news/#"})
                stream = await http.send(asked, stream=True)
                ended = asyncio.create_task(end_of(city, silent[1]))
                tracemalloc.start()
                await flood(city)
                held, _ = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert held < 24_000_000, "the broker keeps 13 MB of its log; each reader has not read 12 MB"
                shown = (await stream.aread()).rpartition(b"event: end")[2]
                assert b"UNAVAILABLE-QUOTA-UNREAD" in shown

            assert city.gateway.skipped > FLOOD // 4
            first, body = await ended
            assert (first, body[:1]) == (0xE0, bytes([QUOTA_EXCEEDED]))
            assert b"UNAVAILABLE-QUOTA-UNREAD" in body

            assert (await city.clients[0].publish("news/end", b"the newest"))[0] == 0
            first, body = await silent[0].next()
            while not body.endswith(b"the newest"):  # who reads on gets what is new
                assert first == 0x30
                first, body = await silent[0].next()
            assert city.gateway.shares.unread < UNREAD

    asyncio.run(story())


def test_wills_that_wait_hold_no_link(tmp_path: Path) -> None:
    """A89, A101, A116 (N4): clients that are gone leave no link at the broker; their wills are published."""

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            reader = await city.mqtt("reader")
            assert (await reader.subscribe("news/#"))[0] == 1
            before = city.broker.status()["links"]
            for number in range(WILLS):
                will = (f"news/will/{number}", b"gone", 1 if number < 2 else 600)
                client, reason, _ = await raw_client(city, "desk", f"gone {number}", expiry_s=600, will=will)
                assert reason == 0
                client.socket.close()
            await until(lambda: city.gateway.connections == 1, "the clients to be gone")
            assert {(await reader.message())[0] for _ in range(2)} == {"news/will/0", "news/will/1"}
            await until(
                lambda: len(city.broker.status()["links"]) <= len(before) + 1, "links to go", within_s=20
            )
            assert city.gateway.status()["sessions"] == WILLS + 1

    asyncio.run(story())
