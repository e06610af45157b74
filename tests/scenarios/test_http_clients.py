"""HTTP clients publish and read events through a real gateway, beside MQTT clients and as they do."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from maia.credentials import Action, TypeName
from maia.gateway.server.http import streams
from maia.predicates import ALWAYS, Comparison, Operator
from maia.types import TypeDefinition
from maia.types.definition import PUBLICATION, plain_attributes
from support.http_clients import call, reading
from support.mqtt_city import NEWS as NEWS_TYPE
from support.mqtt_city import OWNER, WAIT_S, City, mqtt_city, taken

PLATES, NEWS = "city.Numberplate", "topic.news"
FAST = Comparison("speed", Operator.GE, 30)
PAGE = Path(__file__).parents[2] / "docs" / "http.md"


def people(city: City) -> None:
    """A camera, one of fast cars, an office that does not see speeds, and a desk with news."""
    city.account("camera", publish=(Action.PUBLISH, PLATES, None, ALWAYS))
    city.account("narrow", publish=(Action.PUBLISH, PLATES, None, FAST))
    city.account(
        "office",
        plates=(Action.SUBSCRIBE, PLATES, frozenset({"plate", "location"}), ALWAYS),
        news=(Action.SUBSCRIBE, NEWS, None, ALWAYS),
    )
    city.account("desk", publish=(Action.PUBLISH, NEWS, None, ALWAYS))


def test_events_cross_between_http_and_mqtt_and_refusals_have_our_codes(tmp_path: Path) -> None:
    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            assert (await call(city, "desk", body="rain", topic="news/uk"))[0] == 200
            office, camera = await city.mqtt("office"), await city.mqtt("camera")
            assert (await office.subscribe("plates/#"))[0] == 1
            async with (
                reading(city, "office", topic="plates/+") as plates,
                reading(city, "office", topic="#") as all_,
            ):
                retained = await all_.block()
                assert retained is not None
                assert (retained.data["topic"], retained.data["payload"]) == ("news/uk", "rain")
                assert retained.data["retained"] is True
                # A line break in a value begins no field of a stream.
                plate = "AE05\n\nevent: end\ndata: {}"
                said = json.dumps({"plate": plate, "speed": 31})
                assert await call(city, "camera", body=said, topic="plates/S%2FE") == (200, {"accepted": 1})
                for reader in (plates, all_):
                    found = await reader.block()
                    assert found is not None
                    assert found.data["topic"] == "plates/S%2FE"
                    assert found.data["payload"] == {"plate": plate}, "the speed is hidden, and absent"
                    assert found.data["publisher"] != found.data["published_at"]
                assert json.loads((await office.message())[1]) == {"plate": plate}
                assert (await camera.publish("plates/Soho", '{"plate": "by mqtt"}'))[0] == 0
                assert await plates.payload() == {"plate": "by mqtt"}
                assert (await call(city, "desk", body=b"\xff", topic="news/raw"))[0] == 200
                await all_.block()
                raw = await all_.block()
                assert raw is not None
                assert raw.data["payload_base64"] == "/w=="

                refusals = (
                    ("camera", "{", "plates/x", 422, "INPUT-MQTT-PAYLOAD"),
                    ("camera", "x", "nothing/declared", 404, "INPUT-MQTT-NOT-DECLARED"),
                    ("narrow", '{"speed": 10}', "plates/x", 403, "REFUSED-ROWS"),
                )
                for account, body, topic, status, code in refusals:
                    got, problem = await call(city, account, body=body, topic=topic)
                    assert (got, problem["code"]) == (status, code)
                # Many calls share frames, and each gets its own answer.
                calls = [
                    call(city, "narrow", body=f'{{"speed": {n}}}', topic="plates/x") for n in range(20, 40)
                ]
                answers = await asyncio.gather(*calls)
                assert [status for status, _ in answers] == [403] * 10 + [200] * 10
            async with asyncio.timeout(WAIT_S):  # a reader that goes leaves nothing behind
                while (status := city.door.status())["http_streams"]:
                    await asyncio.sleep(0.05)
            assert (status["http_published"], status["http_accounts"]) == (13, 4)

    asyncio.run(story())


def test_a_named_stream_goes_on_behind_the_last_event_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A81: what a reader has not shown to have is sent again, to this reader's account alone."""
    monkeypatch.setattr(streams, "FRAMES_UNSHOWN_MAX", 4)

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)

            async def publish(*plates: str) -> None:
                for plate in plates:
                    said = json.dumps({"plate": plate})
                    assert (await call(city, "camera", body=said, topic="plates/x"))[0] == 200

            named = {"topic": "plates/#", "name": "nightly"}
            async with reading(city, "office", **named):
                pass
            await publish("1", "2", "3")
            async with reading(city, "office", **named) as first:
                assert [await first.payload() for _ in range(2)] == [{"plate": "1"}, {"plate": "2"}]
                last = first.id
                assert last is not None
                # The same name again takes the stream over, and the first one is told why it ends.
                async with reading(city, "office", **named) as again:
                    assert await again.payload() == {"plate": "1"}, "nothing was acknowledged by being sent"
                    assert await first.payload() == {"plate": "3"}
                    end = await first.block()
                    assert end is not None
                    assert (end.kind, end.data["code"]) == ("end", "REFUSED-GATEWAY-TAKEN-OVER")
                    assert await first.block() is None
            async with reading(city, "office", last=last, **named) as later:
                assert await later.payload() == {"plate": "3"}
                await publish("4", "5", "6", "7")
                assert [await later.payload() for _ in range(3)] == [{"plate": one} for one in "456"]
                assert await later.block() is None, "after so many frames the reader has to show its id"
                last = later.id
            async with reading(city, "office", last=last, **named) as later:
                assert await later.payload() == {"plate": "7"}
                last = later.id
            # What was shown is acknowledged: without an id, nothing before it comes.
            async with reading(city, "office", **named) as later:
                assert await later.payload() == {"plate": "7"}
            assert (await call(city, "office", "DELETE", **named))[0] == 200
            header = {"Last-Event-ID": str(last)}
            status, problem = await call(city, "office", "GET", headers=header, **named)
            assert (status, problem["code"]) == (403, "REFUSED-DURABLE-OTHER-LOG")
            async with reading(city, "office", **named) as anew:
                await publish("8")
                assert await anew.payload() == {"plate": "8"}

    asyncio.run(story())


def test_the_openapi_document_says_what_the_page_and_the_routes_say(tmp_path: Path) -> None:
    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            async with httpx.AsyncClient(base_url=city.http, trust_env=False) as http:
                document = (await http.get("/openapi.json")).json()
            OpenAPIV31SpecValidator(document).validate()
            described = {(method.upper(), path) for path, one in document["paths"].items() for method in one}
            listed = set(re.findall(r"^\| `(GET|POST|PUT|DELETE) (/[^`?]*)", PAGE.read_text(), re.M))
            assert listed == described | {("GET", "/health"), ("GET", "/openapi.json")}
            app = city.door.application()
            routed = {(method, one.path) for one in app.routes for method in one.methods}  # type: ignore[attr-defined]
            assert {(m, p) for m, p in routed if m not in {"HEAD", "OPTIONS"}} == listed
            assert (await call(city, None, "PUT"))[0] == 405
            assert (await call(city, None, "GET", "/v2"))[0] == 404

    asyncio.run(story())


def test_a_publication_on_several_topics_comes_once_over_http_and_mqtt(tmp_path: Path) -> None:
    """I10: several topics of a publication and of a subscription, for clients of both gateways."""
    attributes = (*plain_attributes(), PUBLICATION)
    alarms = TypeDefinition(TypeName(OWNER.principal, "topic.alarms", "0"), None, attributes)
    rows = "".join(
        f'\n[[topics]]\nmqtt = "{name}/#"\ntype = "{name}.type"\npayload = "plain"\n'
        for name in ("alarms", "news")
    )
    fire, police, ids = topics = ["alarms/fire", "alarms/police", "alarms/ids"]

    async def story() -> None:
        async with mqtt_city(tmp_path, {"alarms": alarms, "news": NEWS_TYPE}, rows) as city:
            for who, action in (("desk", Action.PUBLISH), ("office", Action.SUBSCRIBE)):
                rights = {name: (action, f"topic.{name}", None, ALWAYS) for name in ("alarms", "news")}
                city.account(who, **rights)
            office, desk = await city.mqtt("office"), await city.mqtt("desk")
            for wanted in (fire, police, "alarms/#"):
                assert (await office.subscribe(wanted))[0] == 1
            async with reading(city, "office", topic=[fire, police]) as reader:
                said = await call(city, "desk", body="smoke", topic=topics)
                assert said == (200, {"accepted": 1})
                properties = Properties(PacketTypes.PUBLISH)
                properties.UserProperty = [("topic", police), ("topic", ids)]
                desk.client.publish(fire, "flames", qos=1, properties=properties)
                assert (await taken(desk.published))[0].value == 0, "one answer for one publication"
                assert (await call(city, "desk", body="over", topic=police))[0] == 200
                assert [await reader.payload() for _ in range(3)] == ["smoke", "flames", "over"]
            found = [(await office.message())[1] for _ in range(3)]
            assert found[:2] == [b"smoke", b"flames"], "once, whichever of its filters admit it"
            status, problem = await call(city, "desk", body="x", topic=["news/uk", "news/fr"])
            assert (status, problem["code"]) == (422, "INPUT-TOPICS")
            status, problem = await call(city, "desk", body="x", topic=["news/uk", fire])
            assert (status, problem["code"]) == (422, "INPUT-MQTT-TOPIC")

    asyncio.run(story())
