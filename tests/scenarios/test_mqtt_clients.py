"""MQTT clients that nobody here wrote publish and subscribe through a real gateway and a recording broker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from maia.config.input_files import read_principal
from maia.credentials import Action, certificate_to_text
from maia.gateway.server import process
from maia.gateway.server.account_folder import AccountFolder
from maia.net.observer import QuietRecords
from maia.predicates import ALWAYS, Comparison, Operator
from maia.testing import wait_until
from support.mqtt_city import City, grant, mqtt_city, taken
from support.nursery import Forked
from support.processes import running_maia

PLATES, NEWS = "city.Numberplate", "topic.news"
FAST = Comparison("speed", Operator.GE, 30)


def people(city: City) -> None:
    """A camera, one of fast cars, an office that does not see speeds, and a desk with news."""
    city.account("camera", publish=(Action.PUBLISH, PLATES, None, ALWAYS))
    city.account("narrow", publish=(Action.PUBLISH, PLATES, None, FAST))
    city.account(
        "office",
        plates=(Action.SUBSCRIBE, PLATES, frozenset({"plate", "location"}), ALWAYS),
        news=(Action.SUBSCRIBE, NEWS, None, ALWAYS),
    )
    city.account(
        "desk", publish=(Action.PUBLISH, NEWS, None, ALWAYS), read=(Action.SUBSCRIBE, NEWS, None, ALWAYS)
    )


def test_messages_cross_in_both_versions_and_every_quality_of_service(tmp_path: Path) -> None:
    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            new, old = await city.mqtt("office"), await city.mqtt("office", "old", version=3)
            assert await new.subscribe("plates/#", 2) == (2, [])
            assert (await old.subscribe("plates/+", 1))[0] == 1
            camera, camera_3 = await city.mqtt("camera"), await city.mqtt("camera", version=3)
            for one, qos in ((camera, 1), (camera, 2), (camera_3, 1), (camera_3, 2), (camera, 0)):
                text = f"plate of {qos}"
                said = {"plate": text, "speed": 31}
                assert (await one.publish("plates/S%2FE", json.dumps(said), qos))[0] == 0
                for reader in (new, old):
                    topic, payload, retained = await reader.message()
                    # The speed is hidden from this office, and absent.
                    assert (topic, json.loads(payload), retained) == ("plates/S%2FE", {"plate": text}, False)

            # What is refused has our code, and 3.1.1 a closed connection.
            for payload, code in (("{", "INPUT-MQTT-PAYLOAD"), ('{"speed": "x"}', "INPUT-MQTT-PAYLOAD")):
                assert await camera.publish("plates/x", payload) == (0x99, [code])
            assert await camera.publish("nothing/declared", "x") == (0x90, ["INPUT-MQTT-NOT-DECLARED"])
            narrow = await city.mqtt("narrow")
            assert await narrow.publish("plates/Soho", '{"speed": 10}', 1) == (0x87, ["REFUSED-ROWS"])
            assert (await narrow.publish("plates/Victoria", '{"speed": 40}', 1))[0] == 0
            assert (await new.message())[0] == (await old.message())[0] == "plates/Victoria"
            reasons: dict[int, int] = {}
            narrow.client.on_publish = lambda _c, _u, mid, reason, _p: reasons.update({mid: reason.value})
            sent = {
                narrow.client.publish("plates/x", f'{{"speed": {n}}}', qos=1).mid: n for n in range(20, 40)
            }
            await asyncio.to_thread(wait_until, lambda: len(reasons) == len(sent))
            assert all((reasons[mid] == 0) is (speed >= 30) for mid, speed in sent.items()), reasons
            for reader in (new, old):
                assert [(await reader.message())[0] for _ in range(10)] == ["plates/x"] * 10
            camera_3.client.publish("nothing/declared", "x", qos=1)
            await camera_3.end()

    asyncio.run(story())


def test_retained_messages_and_wills(tmp_path: Path) -> None:
    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            for client_id, text in (("a", b"rain"), ("b", b"sun")):
                desk = await city.mqtt("desk", client_id)
                assert (await desk.publish("news/uk", text, retain=True))[0] == 0
                assert (await desk.publish("news/fr", text, retain=True))[0] == 0
                desk.client.disconnect()
                await desk.end()
            gone = await city.mqtt("desk", "gone", will=("news/last", b"lost power"))
            assert (await gone.publish("news/fr", b"", retain=True))[0] == 0  # cleared
            office = await city.mqtt("office")
            assert (await office.subscribe("news/+"))[0] == 1
            assert await office.message() == ("news/uk", b"sun", True)
            gone.vanish()
            assert await office.message() == ("news/last", b"lost power", False)

            # One client of the account publishes for all; who wants no messages of its own gets the others'.
            pair = [await city.mqtt("desk", one) for one in ("left", "right")]
            for one in pair:
                assert (await one.subscribe("news/desk", noLocal=True, retainHandling=2))[0] == 1
            for one, other in (pair, pair[::-1]):
                text = one.client._client_id
                assert (await one.publish("news/desk", text))[0] == 0
                assert await other.message() == ("news/desk", text, False)
            assert all(one.messages.empty() for one in pair)

    asyncio.run(story())


def test_a_lasting_session_misses_nothing_and_shared_subscriptions_share(tmp_path: Path) -> None:
    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            camera = await city.mqtt("camera")
            for version in (5, 3):
                named = {"version": version, "expiry_s": 3600, "clean": False}
                office = await city.mqtt("office", f"lasting {version}", **named)
                assert (await office.subscribe("plates/#"))[0] == 1
                # News is not recorded for lasting sessions: only QoS 0 can be kept.
                assert (await office.subscribe("news/#"))[0] == 0
                office.client.disconnect()
                await office.end()
                for number in range(3):
                    assert (await camera.publish("plates/x", f'{{"plate": "{number}"}}'))[0] == 0
                again = await city.mqtt("office", f"lasting {version}", **named)
                found = [json.loads((await again.message())[1])["plate"] for _ in range(3)]
                assert found == ["0", "1", "2"]
                # A link to the broker that breaks loses nothing, repeats nothing and changes no order.
                for number in range(60):
                    camera.client.publish("plates/x", f'{{"plate": "{number}"}}', qos=1)
                    if number == 30:
                        await asyncio.sleep(0.01)
                        for link in list(city.broker.runner.connections._links.values()):
                            link.fail(ConnectionAbortedError("cut"))
                assert {(await taken(camera.published))[0].value for _ in range(60)} == {0}
                found = [json.loads((await again.message())[1])["plate"] for _ in range(60)]
                assert found == [str(number) for number in range(60)]
                again.client.disconnect()
                await again.end()

            sharing = [await city.mqtt("office", f"sharing {one}") for one in range(2)]
            for one in sharing:
                assert (await one.subscribe("$share/night/plates/#"))[0] == 1
            for number in range(4):
                assert (await camera.publish("plates/x", f'{{"plate": "shared {number}"}}'))[0] == 0
            got = [json.loads((await one.message())[1])["plate"] for one in sharing for _ in range(2)]
            assert sorted(got) == [f"shared {number}" for number in range(4)]
            assert all(one.messages.empty() for one in sharing)

    asyncio.run(story())


def test_a_certificate_that_is_issued_later_counts_without_a_new_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_LOOK_S", 0.05)

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            city.account("late")
            late = await city.mqtt("late")
            looking = asyncio.create_task(
                process.show_new_certificates(
                    AccountFolder(tmp_path / "gateway"), city.gateway.upstreams, QuietRecords()
                )
            )
            assert (await late.subscribe("plates/#"))[0] == 0x87
            place = tmp_path / "gateway" / "accounts" / "late"
            subject = read_principal(str(place / "key.pub"))
            signed = grant(subject, Action.SUBSCRIBE, PLATES)
            (place / "plates.cert").write_text(certificate_to_text(signed), encoding="utf-8")
            while (await late.subscribe("plates/#"))[0] != 1:
                await asyncio.sleep(0.05)
            looking.cancel()

    asyncio.run(story())


def test_a_killed_gateway_loses_no_acknowledged_message(tmp_path: Path) -> None:
    """A81: what was acknowledged is recorded, and a lasting session gets it from the next gateway."""

    async def port_of(place: Path, process: Forked) -> int:
        out = place / "out.log"
        await asyncio.to_thread(
            wait_until, lambda: "listening" in out.read_text() or process.poll() is not None
        )
        return int(json.loads(out.read_text().splitlines()[-1])["listening"].rpartition(":")[2])

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            words = ("gateway", "mqtt", "--config", tmp_path / "gateway.toml", "--json")
            first, second = tmp_path / "first", tmp_path / "second"
            first.mkdir()
            second.mkdir()
            with running_maia(*words, cwd=first) as process:
                port = await port_of(first, process)
                office = await city.mqtt("office", "kept", expiry_s=3600, clean=False, port=port)
                assert (await office.subscribe("plates/#"))[0] == 1
                office.client.disconnect()
                await office.end()
                camera = await city.mqtt("camera", port=port)
                acknowledged: set[int] = set()
                camera.client.on_publish = lambda _c, _u, mid, _r, _p: acknowledged.add(mid)
                sent = {
                    camera.client.publish("plates/x", f'{{"plate": "{number}"}}', qos=1).mid: str(number)
                    for number in range(300)
                }
                await asyncio.to_thread(wait_until, lambda: len(acknowledged) > 40)
                process.kill()
                process.wait()
            camera.client.loop_stop()
            wanted = {sent[mid] for mid in acknowledged}
            with running_maia(*words, cwd=second) as process:
                port = await port_of(second, process)
                again = await city.mqtt("office", "kept", expiry_s=3600, clean=False, port=port)
                found: set[str] = set()
                while not wanted <= found:
                    found.add(json.loads((await again.message())[1])["plate"])

    asyncio.run(story())
