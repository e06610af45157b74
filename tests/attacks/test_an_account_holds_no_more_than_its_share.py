"""An account of a gateway that does its worst takes no memory, link or connection from the others."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from pathlib import Path

import httpx
import pytest

from maia.clock import system_now
from maia.credentials import Action
from maia.events import seconds_after
from maia.gateway.server import kept_sessions
from maia.gateway.server.config import prepare, read_config
from maia.gateway.server.gateway import Gateway
from maia.gateway.server.shares import AccountQuota, Over
from maia.net.observer import QuietRecords
from maia.predicates import ALWAYS, NEVER
from maia.private_files import replace_file
from maia.testing import until
from support.http_clients import EVENTS, call
from support.mqtt_city import WAIT_S, City, mqtt_city, taken
from support.raw_mqtt import Raw, packet, raw, raw_client

NEWS, PLATES = "topic.news", "city.Numberplate"
QUOTA_EXCEEDED, PACKET_TOO_LARGE = 0x97, 0x95
WILLS = 6
UNREAD = 1 << 20
FLOOD, PIECE = 200, b"x" * 60_000
"""Twelve times what may wait."""


def people(city: City) -> None:
    city.account("desk", publish=(Action.PUBLISH, NEWS, None, ALWAYS))
    for name in ("silent", "reader"):
        news, plates = ((Action.SUBSCRIBE, one, None, ALWAYS) for one in (NEWS, PLATES))
        city.account(name, news=news, plates=plates)


async def flood(city: City) -> None:
    """Publish what a silent reader has not read at its end."""
    desk = await city.mqtt("desk")
    for _ in range(FLOOD // 100):
        for number in range(100):
            desk.client.publish("news/flood", PIECE + str(number).encode(), qos=1)
        for _ in range(100):
            assert (await taken(desk.published))[0].value == 0  # type: ignore[index]


async def last_of(strict: Raw, wanted: bytes) -> None:
    """Read on until a message with this end comes."""
    first, body = await strict.next()
    while not body.endswith(wanted):
        assert first == 0x30
        first, body = await strict.next()


async def end_of(city: City, strict: Raw) -> tuple[int, bytes]:
    """Read nothing until the gateway has ended the session, then all there is; return the last packet."""
    await until(lambda: ("silent", "silent 1") not in city.gateway._sessions, "the session to end")
    first, body = await strict.next()
    while first & 0xF0 == 0x30:
        first, body = await strict.next()
    return first, body


def test_what_a_reader_does_not_read_is_bounded_in_bytes(tmp_path: Path) -> None:
    """A89, A116 (N5): QoS 0 is skipped and counted, QoS 1 and streams end with the reason."""

    async def story() -> None:
        limits = f"limits.unread_bytes = {UNREAD}\nunread_bytes_per_account = {2 * UNREAD}"
        async with mqtt_city(tmp_path, limits=limits) as city:
            people(city)
            silent = [(await raw_client(city, "silent", f"silent {qos}"))[0] for qos in (0, 1)]
            for qos, one in enumerate(silent):
                assert await one.subscribe("news/#", qos) == qos
            auth = httpx.BasicAuth("silent", city.tokens["silent"])
            async with httpx.AsyncClient(
                base_url=city.http, timeout=WAIT_S, trust_env=False, auth=auth
            ) as http:
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

            assert city.gateway.skipped > 0
            first, body = await ended
            assert (first, body[:1]) == (0xE0, bytes([QUOTA_EXCEEDED]))
            assert b"UNAVAILABLE-QUOTA-UNREAD" in body

            upstream = city.gateway._sessions["silent", "silent 0"].upstream
            assert upstream is not None
            ((served,),) = upstream._served.values()
            await until(
                lambda: served.subscription._entry.filter == NEVER, "the broker to be asked for nothing"
            )
            before = city.gateway.skipped, city.gateway.delivered
            await flood(city)
            assert (city.gateway.skipped, city.gateway.delivered) == before, "a silent reader costs no more"

            newest = asyncio.create_task(last_of(silent[0], b"the newest"))
            while not newest.done():  # who reads on gets what is new
                assert (await city.clients[0].publish("news/end", b"the newest"))[0] == 0
                await asyncio.wait([newest], timeout=0.2)
            await newest
            assert city.gateway.shares.unread < UNREAD

    asyncio.run(story())


def test_many_small_events_do_not_keep_the_end_of_a_right_from_a_silent_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A37, A116: a client that holds as many as it may stops to read its link, and would hear of no end."""
    monkeypatch.setattr("maia.client.api.subscription.ROWS_WAITING_MAX", 50)

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            silent, _, _ = await raw_client(city, "silent", "silent")
            assert await silent.subscribe("news/#", 1) == 1
            desk = await city.mqtt("desk")
            for _ in range(4):  # 256 are under way, and no more than 50 wait
                for _ in range(100):
                    desk.client.publish("news/small", b"x", qos=1)
                for _ in range(100):
                    assert (await taken(desk.published))[0].value == 0  # type: ignore[index]
            city.revoke(("silent", "news"))
            await until(lambda: city.gateway.status()["sessions"] == 1, "the session to end")

    asyncio.run(story())


def test_a_subscription_that_is_taken_back_before_it_stands_leaves_nothing_behind(tmp_path: Path) -> None:
    """A89: the client is answered, and the broker keeps no subscription of it."""

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            hasty, _, _ = await raw_client(city, "silent", "hasty")
            news = b"\x00\x06news/#"
            await hasty.send(
                packet(0x82, b"\x00\x01\x00" + news + b"\x00") + packet(0xA2, b"\x00\x02\x00" + news)
            )
            assert {(await hasty.next())[0] for _ in range(2)} == {0x90, 0xB0}
            await until(lambda: not city.broker.status()["subscriptions"], "the subscription to go")

    asyncio.run(story())


@pytest.mark.parametrize("qos", [0, 1])
def test_a_reader_that_does_not_read_loses_its_right_at_once(tmp_path: Path, qos: int) -> None:
    """A37, A101: what waits for it is not kept until it reads; neither by MQTT nor by HTTP."""

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            silent, _, _ = await raw_client(city, "silent", "silent")
            assert await silent.subscribe("news/#", qos) == qos
            auth = httpx.BasicAuth("silent", city.tokens["silent"])
            async with httpx.AsyncClient(
                base_url=city.http, timeout=WAIT_S, trust_env=False, auth=auth
            ) as http:
                asked = http.build_request("GET", EVENTS, params={"topic": "news/#"})
                stream = await http.send(asked, stream=True)
                await flood(city)
                assert city.gateway.shares.unread > 0, "something waits"
                city.revoke(("silent", "news"))
                await until(lambda: city.gateway.shares.unread == 0, "what waits to go")
                await until(lambda: city.gateway.status()["sessions"] == 1, "the session to end")
                assert b"event: end" in await stream.aread()

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
            kept = list((tmp_path / "gateway" / "sessions").iterdir())
            assert not kept, "a client without durable subscriptions leaves no file"
            assert {(await reader.message())[0] for _ in range(2)} == {"news/will/0", "news/will/1"}
            await until(lambda: len(city.broker.status()["links"]) <= len(before) + 1, "links to go")
            assert city.gateway.status()["sessions"] == WILLS + 1

    asyncio.run(story())


def test_lasting_sessions_of_one_account_keep_no_other_waiting_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A88, A116 (N3): while the disk takes its time, messages flow; lasting subscriptions alone wait."""
    is_ready, written = threading.Event(), list[Path]()

    def written_slowly(path: Path, data: bytes) -> None:
        assert is_ready.wait(WAIT_S)
        written.append(path)
        replace_file(path, data)

    monkeypatch.setattr(kept_sessions, "replace_file", written_slowly)

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            reader, desk = await city.mqtt("reader"), await city.mqtt("desk")
            assert (await reader.subscribe("news/#"))[0] == 1
            lasting = [(await raw_client(city, "silent", f"lasting {n}", expiry_s=600))[0] for n in range(3)]
            answers = [asyncio.create_task(one.subscribe("plates/#", 1)) for one in lasting]
            await until(lambda: city.broker.status()["subscriptions"] == 4, "the broker to have them")
            assert (await desk.publish("news/now", b"while the disk is busy"))[0] == 0
            assert (await reader.message())[1] == b"while the disk is busy"
            assert not any(one.done() for one in answers), "what was answered is on disk"
            is_ready.set()
            assert await asyncio.gather(*answers) == [1, 1, 1]
            assert len(set(written)) == 3

    asyncio.run(story())


def test_one_account_has_a_share_of_sessions_and_connections(tmp_path: Path) -> None:
    """A88, A101, A116 (N3, N13): beyond it, its own clients are refused with the reason, and no others."""

    async def story() -> None:
        limits = "connections_per_account = 3\nsessions_per_account = 5"
        async with mqtt_city(tmp_path, limits=limits) as city:
            people(city)
            held = [await raw_client(city, "silent", f"held {number}") for number in range(3)]
            assert [reason for _, reason, _ in held] == [0] * 3
            _, reason, said = await raw_client(city, "silent", "one more")
            assert reason == QUOTA_EXCEEDED
            assert b"UNAVAILABLE-QUOTA-ACCOUNT" in said
            status, problem = await call(city, "silent", "GET", topic="news/#")
            assert (status, problem["code"]) == (503, "UNAVAILABLE-QUOTA-ACCOUNT")
            again, reason, _ = await raw_client(city, "silent", "held 0")
            assert reason == 0, "a client that comes back takes its own place"
            assert (await city.mqtt("reader")).reason == 0
            for one in (again, *(client for client, _, _ in held)):
                one.socket.close()
            await until(lambda: city.gateway.status()["sessions"] == 1, "the sessions to end")

            for number in range(5):
                lasting, reason, _ = await raw_client(city, "silent", f"lasting {number}", expiry_s=600)
                assert (reason, await lasting.subscribe("plates/#", 1)) == (0, 1)
                lasting.socket.close()
            _, reason, said = await raw_client(city, "silent", "one more")
            assert reason == QUOTA_EXCEEDED
            assert b"UNAVAILABLE-QUOTA-ACCOUNT" in said
            restarted = prepare(
                read_config(tmp_path / "gateway.toml", flags={}, environment={}), now=system_now()
            )
            Gateway(restarted, QuietRecords())
            with pytest.raises(AccountQuota):
                restarted.shares.begin("silent", "one more", system_now())
            later = seconds_after(system_now(), 700)
            assert restarted.shares.begin("silent", "one more", later) in {f"lasting {n}" for n in range(5)}

            back, reason, _ = await raw_client(city, "silent", "lasting 4", expiry_s=1)
            assert (reason, await back.subscribe("plates/#", 1)) == (0, 1)
            back.socket.close()
            await until(lambda: city.gateway.status()["sessions"] == 5, "the last session to end")
            files = len(list((tmp_path / "gateway" / "sessions").iterdir()))
            _, reason, _ = await raw_client(city, "silent", "one more")
            assert reason == 0, "a session that has ended makes room"
            assert len(list((tmp_path / "gateway" / "sessions").iterdir())) == files - 1

    asyncio.run(story())


@pytest.mark.parametrize("connections", [1, 2, 8])
def test_however_few_places_there_are_one_account_leaves_some_to_others(
    tmp_path: Path, connections: int
) -> None:
    """A88, A101 (N13): half, and three quarters while clients take over; no stranger keeps it out."""

    async def story() -> None:
        async with mqtt_city(tmp_path, limits=f"connections = {connections}") as city:
            people(city)
            share = max(1, connections // 2)
            held = [await raw_client(city, "silent", f"held {number}") for number in range(share)]
            assert [reason for _, reason, _ in held] == [0] * share
            if connections > 1:
                _, reason, said = await raw_client(city, "silent", "one more")
                assert reason == QUOTA_EXCEEDED
                assert b"UNAVAILABLE-QUOTA-ACCOUNT" in said
                strangers = [await raw(city) for _ in range(connections)]
                assert (await city.mqtt("reader")).reason == 0
                for one in strangers:
                    one.socket.close()
            taking_over = max(1, connections * 3 // 4)
            for _ in range(taking_over - share):
                city.gateway.shares.connect("silent", Over.MQTT, takes_over=True)
            with pytest.raises(AccountQuota):
                city.gateway.shares.connect("silent", Over.MQTT, takes_over=True)

    asyncio.run(story())


def test_a_stranger_is_refused_from_the_head_of_its_first_packet(tmp_path: Path) -> None:
    """A74, A89, A116: what is longer than a CONNECT can be is neither read nor waited for."""

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            for length in ((80 << 10) + 1, 80 << 20):
                stranger = await raw(city)
                await stranger.send(packet(0x10, b"x" * length)[:9])
                first, body = await stranger.next()
                assert (first, body[1]) == (0x20, PACKET_TOO_LARGE)
            will = ("news/will", b"w" * 65_000, 0)
            _, reason, _ = await raw_client(city, "desk", "with the longest will", will=will)
            assert reason == 0

    asyncio.run(story())
