"""A city with a recording broker and an MQTT gateway, in this process, and clients that others wrote."""

from __future__ import annotations

import asyncio
import queue
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from maia.broker import BrokerSettings
from maia.broker.server.log_recording import LogRecorder, RecorderLimits
from maia.broker.server.server import RunningBroker, run_broker
from maia.broker.settings import RecordingSettings
from maia.clock import system_now
from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AnyResource,
    AuthorisationCertificate,
    Authority,
    NetworkName,
    NetworkPattern,
    OnlineTest,
    Principal,
    RevocationList,
    SignedCertificate,
    SigningKey,
    TestKind,
    TypeName,
    TypePattern,
    Validity,
    certificate_to_text,
    issue,
    parse_name_pattern,
    principal_from_text,
    sign_statement,
)
from maia.events import SECOND, Attribute, AttributeUid, Instant, Kind
from maia.gateway.server.account_folder import AccountFolder
from maia.gateway.server.config import prepare, read_config
from maia.gateway.server.connections import accept_clients
from maia.gateway.server.gateway import Gateway
from maia.gateway.server.http.application import HttpDoor
from maia.log.disk.event_log import EventLog
from maia.log.format.retention import Keep, Retention
from maia.net.addresses import bind
from maia.net.doorman import Doorman
from maia.net.http_listener import listening
from maia.net.observer import QuietRecords
from maia.net.stores import FolderStore
from maia.predicates import ALWAYS, Predicate
from maia.testing import DEADLINE_S
from maia.types import TypeDefinition, definition_to_text, sign_definition
from maia.types.definition import plain_attributes

NETWORK = "City Network"
DAY = 86_400_000_000
WAIT_S = DEADLINE_S
OWNER = SigningKey.from_seed(b"the city of the MQTT tests......")
BROKER = SigningKey.from_seed(b"the broker of the MQTT tests....")
_CONFIG = """
broker = "{broker}"
network = "City Network"
coordinator = "{owner}"
data = "gateway"
listen = "127.0.0.1:0"
connections_before_connect = 8
http.listen = "127.0.0.1:0"
http.streams_per_account = 3
http.origins = ["https://desk.example"]
"""
_TOPICS = """
[[topics]]
mqtt = "plates/{location}"
type = "plate.type"
durable = true

[[topics]]
mqtt = "news/#"
type = "news.type"
payload = "plain"
retained = true
"""


@dataclass
class Mqtt:
    """A paho client, with what happened to it in queues."""

    client: paho.Client
    messages: queue.Queue[paho.MQTTMessage] = field(default_factory=queue.Queue)
    connected: queue.Queue[tuple[ReasonCode, Properties | None]] = field(default_factory=queue.Queue)
    disconnected: queue.Queue[tuple[ReasonCode, Properties | None]] = field(default_factory=queue.Queue)
    subscribed: queue.Queue[tuple[list[ReasonCode], Properties | None]] = field(default_factory=queue.Queue)
    published: queue.Queue[tuple[ReasonCode, Properties | None]] = field(default_factory=queue.Queue)

    async def subscribe(self, topic: str, qos: int = 1, **options: object) -> tuple[int, list[str]]:
        """Return the reason of the SUBACK, and Maia's codes in it."""
        if self.client.protocol == paho.MQTTv5:
            self.client.subscribe(topic, options=SubscribeOptions(qos=qos, **options))
        else:
            self.client.subscribe(topic, qos)
        reasons, properties = await taken(self.subscribed)
        return reasons[0].value, codes(properties)

    async def publish(
        self, topic: str, payload: bytes | str, qos: int = 1, *, retain: bool = False
    ) -> tuple[int, list[str]]:
        """Return the reason of the PUBACK or PUBREC, and Maia's codes in it."""
        self.client.publish(topic, payload, qos=qos, retain=retain)
        reason, properties = await taken(self.published)
        return reason.value, codes(properties)

    async def message(self) -> tuple[str, bytes, bool]:
        """Return the next message: topic, payload, and whether it was retained."""
        found = await taken(self.messages)
        return found.topic, found.payload, found.retain

    async def end(self) -> tuple[int, list[str]]:
        """Wait for the end of the connection."""
        reason, properties = await taken(self.disconnected)
        return reason.value, codes(properties)

    def vanish(self) -> None:
        """Go without a word, as a machine does that loses its power."""
        self.client.loop_stop()
        sock = self.client.socket()
        assert sock is not None
        sock.close()


def codes(properties: Properties | None) -> list[str]:
    """Return Maia's codes in a packet."""
    return [value for name, value in getattr(properties, "UserProperty", ()) if name == "maia-code"]


async def taken(waiting: queue.Queue[object]) -> object:  # type: ignore[type-arg]
    """Wait beside the event loop, which serves broker and gateway meanwhile."""
    return await asyncio.to_thread(waiting.get, True, WAIT_S)


@dataclass
class City:
    """The broker, the gateway, and the accounts that were made."""

    folder: Path
    broker: RunningBroker
    gateway: Gateway
    address: str
    http: str
    door: HttpDoor
    tokens: dict[str, str] = field(default_factory=dict)
    issued: dict[tuple[str, str], SignedCertificate] = field(default_factory=dict)
    clients: list[Mqtt] = field(default_factory=list)
    sockets: list[socket.socket] = field(default_factory=list)
    """Closed at the end, for tests that speak MQTT by hand."""
    lists: int = 0
    revoked: set[bytes] = field(default_factory=set)

    def account(self, name: str, **rights: tuple[Action, str, frozenset[str] | None, Predicate]) -> None:
        """Make an account and grant it rights: name of the right = action, type, attributes, filter."""
        self.account_of(name, None, **rights)

    def account_of(
        self,
        name: str,
        client: Principal | None,
        **rights: tuple[Action, str, frozenset[str] | None, Predicate],
    ) -> Principal:
        """Do the same for a client that proves its own key; return the account key."""
        place, made, token = AccountFolder(self.folder / "gateway").add(name, client)
        self.tokens[name] = token or ""
        subject = principal_from_text(made.principal)
        granted = {"connect": grant(subject, Action.CONNECT, None)}
        for word, (action, of, attributes, where) in rights.items():
            granted[word] = grant(subject, action, of, attributes, where)
        for word, signed in granted.items():
            self.issued[name, word] = signed
            (place / f"{word}.cert").write_text(certificate_to_text(signed), encoding="utf-8")
        return subject

    async def mqtt(
        self,
        account: str,
        client_id: str = "",
        *,
        version: int = 5,
        token: str | None = None,
        expiry_s: int = 0,
        clean: bool = True,
        will: tuple[str, bytes] | None = None,
        port: int | None = None,
    ) -> Mqtt:
        """Connect a paho client; its CONNACK waits in `connected`."""
        is_5 = version == 5
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5 if is_5 else paho.MQTTv311,
            **({} if is_5 else {"clean_session": clean}),
            reconnect_on_failure=False,
        )
        found = Mqtt(client)
        self.clients.append(found)
        client.username_pw_set(account, token or self.tokens.get(account, "none"))
        client.on_connect = lambda _c, _u, _f, reason, props: found.connected.put((reason, props))
        client.on_disconnect = lambda _c, _u, _f, reason, props: found.disconnected.put((reason, props))
        client.on_subscribe = lambda _c, _u, _m, reasons, props: found.subscribed.put((reasons, props))
        client.on_publish = lambda _c, _u, _m, reason, props: found.published.put((reason, props))
        client.on_message = lambda _c, _u, message: found.messages.put(message)
        if will is not None:
            client.will_set(*will, qos=1)
        named: dict[str, object] = {}
        if is_5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = expiry_s
            named = {"clean_start": clean, "properties": properties}
        host, _, own = self.address.rpartition(":")
        await asyncio.to_thread(client.connect, host, port or int(own), **named)
        client.loop_start()
        found.reason = (await taken(found.connected))[0].value  # type: ignore[attr-defined]
        return found

    def revoke(self, *which: tuple[str, str]) -> None:
        """Have the owner revoke certificates; the broker receives the list."""
        self.revoked |= {self.issued[one].id for one in which}
        self.state()

    def state(self) -> None:
        """State what is revoked; a broker takes a list of an issuer whose certificates it knows."""
        self.lists += 1
        said = RevocationList(OWNER.principal, self.lists, None, frozenset(self.revoked))
        heard = self.broker.broker.hear((sign_statement(said, OWNER),), system_now())
        self.broker.runner.perform(heard)


def whole_second() -> Instant:
    """Return the present moment, as certificates can say it."""
    now = system_now()
    return Instant(now - now % SECOND)


def grant(
    subject: Principal,
    action: Action,
    of: str | None,
    attributes: frozenset[str] | None = None,
    where: Predicate = ALWAYS,
) -> SignedCertificate:
    """Issue one certificate of the owner; without a type, to connect, as a broker or not."""
    owner = OWNER.principal
    resources: object = NetworkPattern(owner, parse_name_pattern(NETWORK))
    if of is not None:
        resources = TypePattern(owner, parse_name_pattern(of), None)
    shown = ALL_ATTRIBUTES if attributes is None else frozenset(map(AttributeUid, attributes))
    authority = Authority(
        resources, frozenset({action} if of else {action, Action.CONNECT, Action.SERVE}), shown, where
    )  # type: ignore[arg-type]
    period = Validity(whole_second(), Instant(whole_second() + DAY))
    if of is not None and subject != BROKER.principal:
        period = period.with_tests(OnlineTest(TestKind.CRL, owner))
    return issue(AuthorisationCertificate(owner, subject, False, authority, period), OWNER)


PLATE = TypeDefinition(
    TypeName(OWNER.principal, "city.Numberplate", "0"),
    None,
    tuple(
        Attribute(name, AttributeUid(name), kind)
        for name, kind in (("plate", Kind.STRING), ("location", Kind.STRING), ("speed", Kind.INT))
    ),
)
NEWS = TypeDefinition(TypeName(OWNER.principal, "topic.news", "0"), None, plain_attributes())
_DEFINITIONS = {"plate": PLATE, "news": NEWS}


def prepare_folder(folder: Path, definitions: Mapping[str, TypeDefinition]) -> None:
    """Write the signed types."""
    for name, definition in definitions.items():
        signed = sign_definition(definition, OWNER)
        (folder / f"{name}.type").write_text(definition_to_text(signed), encoding="utf-8")


def write_config(folder: Path, broker: str, topics: str, limits: str = "") -> Path:
    """Write the gateway's configuration; `limits` are lines at the top level."""
    path = folder / "gateway.toml"
    own = _CONFIG.format(broker=broker, owner=OWNER.principal)
    path.write_text(f"{limits}\n{own}{topics}", encoding="utf-8")
    return path


@contextmanager
def recording(folder: Path) -> Iterator[LogRecorder]:
    """Open the event log of the city's broker."""
    with EventLog.open(folder / "log") as log:
        yield LogRecorder(
            log,
            clock=system_now,
            records=QuietRecords(),
            retention=Retention(Keep(None, None)),
            limits=RecorderLimits(),
        )


@asynccontextmanager
async def mqtt_city(
    folder: Path,
    definitions: Mapping[str, TypeDefinition] = _DEFINITIONS,
    topics: str = _TOPICS,
    limits: str = "",
    **broker: int,
) -> AsyncIterator[City]:
    """Run broker and gateway in this process; what is named else is for the broker's settings."""
    prepare_folder(folder, definitions)
    mine = BROKER.principal
    certificates = (
        grant(mine, Action.BROKER, None),
        *(grant(mine, Action.SUBSCRIBE, one.name.name) for one in definitions.values()),
    )
    network = NetworkName(OWNER.principal, NETWORK)
    settings = BrokerSettings(network, "127.0.0.1:0", certificates, recording=RecordingSettings(), **broker)
    async with AsyncExitStack() as stack:
        recorder = stack.enter_context(recording(folder))
        running = await stack.enter_async_context(
            run_broker(
                BROKER, settings, listen="127.0.0.1:0", store=FolderStore(folder / "kept"), recorder=recorder
            )
        )
        config = write_config(folder, running.address, topics, limits)
        prepared = prepare(read_config(config, flags={}, environment={}), now=system_now())
        gateway = Gateway(prepared, QuietRecords())
        taken, address = bind("127.0.0.1:0")
        accepting = asyncio.create_task(accept_clients(gateway, taken, None, Doorman(20)))
        door = HttpDoor(prepared, QuietRecords())
        http = await stack.enter_async_context(
            listening(door.application(), None, "127.0.0.1:0", connections=prepared.config.http_connections)
        )
        stack.push_async_callback(door.stop)
        city = City(folder, running, gateway, address, f"http://{http}", door)
        stating = asyncio.create_task(_state_again_and_again(city))
        try:
            yield city
        finally:
            for connection in city.sockets:
                connection.close()
            for one in city.clients:
                await asyncio.to_thread(one.client.loop_stop)
                if (sock := one.client.socket()) is not None:
                    sock.close()
            stating.cancel()
            accepting.cancel()
            await gateway.stop()


async def _state_again_and_again(city: City) -> None:
    while True:
        city.state()
        await asyncio.sleep(0.1)


__all__ = ["AnyResource", "City", "Mqtt", "grant", "mqtt_city", "taken"]
