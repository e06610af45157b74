"""An MQTT client gets what its own principal may have, whatever user name, client id or filter it sends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from maia.credentials import Action
from maia.predicates import ALWAYS
from support.mqtt_city import WAIT_S, City, mqtt_city

PLATES, NEWS = "city.Numberplate", "topic.news"
NOT_AUTHORIZED, TAKEN_OVER = 0x87, 0x8E


def people(city: City) -> None:
    for desk in ("desk", "rival"):
        city.account(desk, publish=(Action.PUBLISH, NEWS, None, ALWAYS))
    city.account(
        "office",
        news=(Action.SUBSCRIBE, NEWS, None, ALWAYS),
        plates=(Action.SUBSCRIBE, PLATES, None, ALWAYS),
    )
    city.account("reader", news=(Action.SUBSCRIBE, NEWS, None, ALWAYS))


def test_a_session_belongs_to_the_account_that_began_it(tmp_path: Path) -> None:
    """A12, A13, A79, A101: another account's client id, a wrong token or a foreign name take nothing over."""

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            office = await city.mqtt("office", "one", expiry_s=600)
            assert (await office.subscribe("plates/#"))[0] == 1
            names = ("office", "nobody", "../office", "off*", "office\x7f", "office/../desk")
            refused = [(await city.mqtt(name, "one", token="maia-" + "A" * 43)).reason for name in names]
            assert refused == [NOT_AUTHORIZED] * len(names), "and none tells which of them exists"
            reader = await city.mqtt("reader", "one")
            assert reader.reason == 0
            assert office.disconnected.empty(), "the same client id, and another session"
            assert (await reader.subscribe("plates/#"))[0] == NOT_AUTHORIZED
            again = await city.mqtt("office", "one", clean=False, expiry_s=600)
            assert (await office.end())[0] == TAKEN_OVER
            assert again.reason == 0

    asyncio.run(story())


def test_no_filter_reaches_beyond_the_right(tmp_path: Path) -> None:
    """A1, A2, A4, A7, A15, A68, A101: wildcards, shares, `$SYS` and what is not declared."""

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            reader, office, desk = [await city.mqtt(one) for one in ("reader", "office", "desk")]
            # The gateway serves an office with more rights at the same time; none of them is lent.
            assert (await office.subscribe("#"))[0] == 1
            reason, codes = await reader.subscribe("#")
            assert reason == 1
            assert codes, "what the wildcard does not open is named"
            assert (await office.subscribe("$share/g/plates/#"))[0] == 1
            for wanted in ("plates/+", "$share/g/plates/#", "$SYS/#", "$SYS/broker/uptime", "admin/#"):
                reason, codes = await reader.subscribe(wanted)
                assert (reason, len(codes)) == (NOT_AUTHORIZED, 1), wanted
            for wrong in ("news/\x01", "$share/g", "a/" * 40):
                assert (await reader.subscribe(wrong))[0] == 0x8F, wrong
            assert (await reader.publish("news/uk", b"forged"))[0] == NOT_AUTHORIZED
            assert (await desk.publish("plates/x", b'{"plate": "x"}'))[0] == NOT_AUTHORIZED
            assert (await desk.publish("$SYS/x", b"x"))[0] == 0x90
            assert (await desk.publish("news/uk", b"true"))[0] == 0
            assert await reader.message() == ("news/uk", b"true", False)
            assert reader.messages.empty()

    asyncio.run(story())


@pytest.mark.parametrize("version", [5, 3])
def test_a_revocation_ends_what_it_is_about(tmp_path: Path, version: int) -> None:
    """A35, A37, A38, A101: subscription, will and retained message end with the right, in both versions."""

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            desk = await city.mqtt("desk", version=version, will=("news/will", b"of the revoked"))
            assert (await desk.publish("news/uk", b"of the revoked", retain=True))[0] == 0
            rival = await city.mqtt("rival", version=version)
            assert (await rival.publish("news/fr", b"of the rival", retain=True))[0] == 0
            reader = await city.mqtt("reader", version=version)
            assert (await reader.subscribe("news/#"))[0] == 1
            assert {(await reader.message())[:2] for _ in range(2)} == {
                ("news/uk", b"of the revoked"),
                ("news/fr", b"of the rival"),
            }

            city.revoke(("desk", "publish"))
            desk.vanish()
            office = await city.mqtt("office")
            assert (await office.subscribe("news/#"))[0] == 1
            assert await office.message() == ("news/fr", b"of the rival", True)
            assert (await rival.publish("news/end", b"last"))[0] == 0
            assert await office.message() == ("news/end", b"last", False)
            assert await reader.message() == ("news/end", b"last", False)

            city.revoke(("desk", "publish"), ("reader", "news"))
            reason, codes = await reader.end()
            if version == 5:
                assert (reason, len(codes)) == (NOT_AUTHORIZED, 1)
            back = await city.mqtt("reader")
            assert (await back.subscribe("news/#"))[0] == NOT_AUTHORIZED
            assert office.disconnected.empty()

    asyncio.run(story())


def test_strangers_keep_no_client_out(tmp_path: Path) -> None:
    """A11, A74, A88, A101: silent, endless and nonsensical connections are bounded."""

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            host, _, port = city.address.rpartition(":")
            strangers = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
            await asyncio.sleep(0)
            starts = (
                b"\x30\x05\x00\x01xhi",
                b"\x10\xff\xff\xff\xff\x7f",
                b"\x10\xff\xff\xff\x7f",
                b"GET / HTTP/1.1\r\n" * 9,
                b"\x82\x00",
            )
            for start in starts:
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(start)
                answer = await asyncio.wait_for(reader.read(), WAIT_S)
                assert not answer or answer[0] == 0x20
                writer.close()
            # Clients that have proved who they are stay, also while strangers come and go.
            user, token = b"office", city.tokens["office"].encode()
            for number in range(24):
                reader, writer = await asyncio.open_connection(host, int(port))
                words = (f"idle {number}".encode(), user, token)
                said = b"".join(len(one).to_bytes(2, "big") + one for one in words)
                body = b"\x00\x04MQTT\x04\xc2\x00\x00" + said
                writer.write(b"\x10" + bytes([len(body)]) + body)
                assert await asyncio.wait_for(reader.readexactly(4), WAIT_S) == b"\x20\x02\x00\x00"
                strangers.append((reader, writer))
            honest = await city.mqtt("office")
            assert honest.reason == 0
            assert (await honest.subscribe("news/#"))[0] == 1
            status = city.gateway.status()
            assert isinstance(status["waiting"], int)
            assert status["waiting"] <= city.gateway.config.connections_before_connect
            assert status["sessions"] == 25
            for _, writer in strangers:
                writer.close()

    asyncio.run(story())
