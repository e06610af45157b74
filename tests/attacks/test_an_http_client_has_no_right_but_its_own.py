"""An HTTP client gets what its own account may have, whatever header, query, id or signature it sends."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from pathlib import Path

from maia.clock import system_now
from maia.credentials import Action, Principal, SigningKey
from maia.events import SECOND, Instant
from maia.predicates import ALWAYS
from maia.wire.api_requests import ApiCall, ApiRequest, api_request_to_bytes, sign_api_request
from support.http_clients import EVENTS, call, reading
from support.mqtt_city import WAIT_S, City, mqtt_city

PLATES, NEWS = "city.Numberplate", "topic.news"
CAMERA = SigningKey.from_seed(b"the key of a camera that signs..")
STRANGER = SigningKey.from_seed(b"the key of a stranger that signs")


def people(city: City) -> Principal:
    city.account("desk", publish=(Action.PUBLISH, NEWS, None, ALWAYS))
    city.account(
        "office",
        news=(Action.SUBSCRIBE, NEWS, None, ALWAYS),
        plates=(Action.SUBSCRIBE, PLATES, None, ALWAYS),
    )
    city.account("reader", news=(Action.SUBSCRIBE, NEWS, None, ALWAYS))
    return city.account_of("camera", CAMERA.principal, publish=(Action.PUBLISH, PLATES, None, ALWAYS))


async def refused(city: City, account: str | None, method: str = "GET", **query: str) -> tuple[int, str]:
    """Return status and code of a call that has to be refused."""
    status, problem = await call(city, account, method, **query)
    assert status >= 400, problem
    return status, problem["code"]


def test_neither_name_filter_nor_id_reaches_beyond_the_account(tmp_path: Path) -> None:
    """A1, A2, A4, A7, A12, A13, A15, A68, A70, A79: nor does what another account of the gateway has."""

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            people(city)
            names = ("office", "nobody", "../office", "off*", "office\x7f", "office/../desk", "camera")
            answers = [await call(city, name, "GET", token="maia-" + "A" * 43, topic="#") for name in names]
            assert {status for status, _ in answers} == {401}
            assert len({json.dumps(said) for _, said in answers}) == 1, "and none tells which of them exists"
            assert await refused(city, None, topic="#") == (401, "REFUSED-GATEWAY-ACCOUNT")
            assert (await call(city, None, "GET", "/openapi.json"))[0] == 200
            for page in ("/metrics", "/status", "/v1/topics", "/v1/events/", "/v1//events"):
                assert (await call(city, "office", "GET", page))[1]["code"] == "INPUT-API-NO-SUCH-PAGE"

            named = {"topic": "plates/#", "name": "mine"}
            async with (
                reading(city, "office", **named) as office,
                reading(city, "reader", topic="#") as reader,
            ):
                opened = await reader.block()
                assert opened is not None
                assert opened.kind == "refused", "what the wildcard does not open is named"
                camera = await call_signed(city, "plates/x", b'{"plate": "1"}')
                assert camera == (200, {"accepted": 1})
                assert await office.payload() == {"plate": "1"}
                # Filters, shares, reserved names and control characters; a name and an id of another account.
                for topic in ("plates/+", "plates/x"):
                    status, code = await refused(city, "reader", topic=topic)
                    assert (status, code.startswith(("POLICY-", "CHAIN-"))) == (403, True), code
                for topic in ("$share/g/news/#", "$SYS/#", "$share/g/plates/#", "admin/#"):
                    assert await refused(city, "reader", topic=topic) == (404, "INPUT-MQTT-NOT-DECLARED")
                for topic in ("news/\x01", "news/\n", "a/" * 40, "news/#/x"):
                    assert (await refused(city, "reader", topic=topic))[0] == 422, topic
                status, said = await call(
                    city, "reader", "GET", headers={"Last-Event-ID": str(office.id)}, **named
                )
                assert status == 403, said
                for shown in ("0.AAAA~x", "x" * 5000, "0." + "A" * 400):
                    status, said = await call(
                        city,
                        "office",
                        "GET",
                        headers={"Last-Event-ID": shown},
                        topic="plates/#",
                        name="other",
                    )
                    assert (status, said["code"]) == (422, "INPUT-API-CALL")
                assert (await refused(city, "reader", "POST", topic="news/uk"))[0] == 403
                assert (await refused(city, "desk", "POST", topic="plates/x"))[0] == 403
                assert (await call(city, "desk", body="true", topic="news/uk"))[0] == 200
                assert await reader.payload() == "true"
                # A browser sends what it has for every page that is open in it.
                foreign = {"Origin": "https://elsewhere.example"}
                for method in ("POST", "OPTIONS"):
                    status, said = await call(city, "desk", method, headers=foreign, topic="news/uk")
                    assert (status, said["code"]) == (403, "REFUSED-GATEWAY-ORIGIN")
                declared = {"Origin": "https://desk.example"}
                assert (await call(city, "desk", body="x", headers=declared, topic="news/uk"))[0] == 200

    asyncio.run(story())


async def call_signed(
    city: City,
    topic: str,
    body: bytes,
    *,
    key: SigningKey = CAMERA,
    audience: Principal | None = None,
    instance: bytes | None = None,
    late_s: int = 0,
    sent: tuple[str, str, bytes] | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, object]]:
    """Sign a call, and make it or another one; `headers` gets what was signed, to be sent again."""
    if instance is None:
        instance = bytes.fromhex((await call(city, None, "GET", "/v1"))[1]["instance"])
    target = f"{EVENTS}?topic={topic}"
    certificate = city.issued["camera", "connect"].certificate
    request = ApiRequest(
        audience or certificate.subject,  # type: ignore[arg-type]
        instance,
        ApiCall.of("POST", target, body=body),
        Instant(system_now() - late_s * SECOND),
        os.urandom(16),
    )
    signed = base64.b64encode(api_request_to_bytes(sign_api_request(request, key))).decode()
    said = {"Authorization": f"Maia {signed}"}
    if headers is not None:
        headers.update(said)
    method, where, what = sent or ("POST", target, body)
    return await call(city, None, method, where, body=what, headers=said)


def test_a_signature_is_for_one_call_and_ends_with_the_right(tmp_path: Path) -> None:
    """A15, A18, A19, A38, A74, A88: another call, account, run or moment; then revocation, and too much."""

    async def story() -> None:
        async with mqtt_city(tmp_path) as city:
            account = people(city)
            body = b'{"plate": "1"}'
            used: dict[str, str] = {}
            assert (await call_signed(city, "plates/x", body, headers=used))[0] == 200
            wrong = {
                "REQUEST-REPLAYED": await call(
                    city, None, "POST", f"{EVENTS}?topic=plates/x", body=body, headers=used
                ),
                "REQUEST-ANOTHER-DOMAIN": await call_signed(
                    city, "plates/x", body, audience=STRANGER.principal
                ),
                "REQUEST-ANOTHER-RUN": await call_signed(city, "plates/x", body, instance=bytes(16)),
                "REQUEST-TOO-LATE": await call_signed(city, "plates/x", body, late_s=600),
                "REFUSED-GATEWAY-ACCOUNT": await call_signed(
                    city, "plates/x", body, key=STRANGER, audience=account
                ),
            }
            assert {code: (status, said["code"]) for code, (status, said) in wrong.items()} == {
                code: (401, code) for code in wrong
            }
            altered = (
                ("POST", f"{EVENTS}?topic=plates/x", b'{"plate": "2"}'),
                ("POST", f"{EVENTS}?topic=plates/y", body),
                ("DELETE", f"{EVENTS}?topic=plates/x", body),
            )
            for sent in altered:
                status, said = await call_signed(city, "plates/x", body, sent=sent)
                assert (status, said["code"]) == (401, "REQUEST-ALTERED")
            status, said = await call(city, "desk", body=bytes(300 << 10), topic="news/uk")
            assert (status, said["code"]) == (413, "INPUT-API-TOO-LARGE")

            assert (await call(city, "desk", body="of the revoked", topic="news/uk"))[0] == 200
            async with (
                reading(city, "reader", topic="news/#") as reader,
                reading(city, "reader", topic="news/#"),
                reading(city, "reader", topic="news/#"),
            ):
                assert await refused(city, "reader", topic="news/#") == (429, "REFUSED-GATEWAY-STREAMS")
                assert await reader.payload() == "of the revoked"
                host, _, port = city.http.removeprefix("http://").rpartition(":")
                for start in (b"\x16\x03\x01\x02", b"GET /" + b"a" * (200 << 10), b"x\r\n\r\n"):
                    strange, writer = await asyncio.open_connection(host, int(port))
                    writer.write(start)
                    if len(start) > 4:
                        assert (await asyncio.wait_for(strange.read(12), WAIT_S)) in (b"HTTP/1.1 400", b"")
                    writer.close()

                city.revoke(("desk", "publish"), ("camera", "publish"), ("reader", "news"))
                end = await reader.block()
                assert end is not None
                assert (end.kind, end.data["status"]) == ("end", 403)
                assert await reader.block() is None
            assert (await refused(city, "reader", topic="news/#"))[0] == 403
            assert (await refused(city, "desk", "POST", topic="news/uk"))[0] == 403
            assert (await call_signed(city, "plates/x", body))[0] == 403
            # What the desk has left behind is gone with its right, and others go on.
            async with reading(city, "office", topic="news/#") as office:
                city.account("rival", publish=(Action.PUBLISH, NEWS, None, ALWAYS))
                assert (await call(city, "rival", body="last", topic="news/end"))[0] == 200
                assert await office.payload() == "last"

    asyncio.run(story())


STRANGERS = (
    b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
    b"GET /v1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST /v1/events?topic=news/x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
    b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 64,
    b"",
)
"""Bodies that never come, answers that no peer reads, and silence."""


def test_strangers_whose_calls_never_end_keep_no_client_out(tmp_path: Path) -> None:
    """A40 A88 A116 (N10): more connections than there may be, and an account publishes and reads."""

    async def story() -> None:
        async with mqtt_city(tmp_path, limits="http.connections = 24") as city:
            people(city)
            host, _, port = city.http.removeprefix("http://").rpartition(":")
            for head in STRANGERS:
                held = [await asyncio.open_connection(host, int(port), limit=1) for _ in range(32)]
                for reader, writer in held:
                    writer.write(head)
                    del reader
                status, said = await call(city, "desk", body=b"still here", topic="news/x")
                assert (status, said) == (200, {"accepted": 1}), head
                for _, writer in held:
                    writer.close()

    asyncio.run(story())
