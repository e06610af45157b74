"""A Maia network to be measured: who is in it, a broker process, and connections that only count.

The broker is `maia broker`, started as an operator would. The connections
speak Maia's protocol over TLS like any client, sign their requests and hold
certificates; but the publisher's columns are ready before the clock starts,
and the subscriber counts rows and reads no value. The peers' clients
(`live_peers.py`) do the same, so that the servers are compared and not the
clients.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import ssl
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Protocol

import msgspec

from maia.clock import system_now
from maia.credentials import (
    ALL_ATTRIBUTES,
    FIRST_VERSION,
    Action,
    AllAttributes,
    AuthorisationCertificate,
    Authority,
    NetworkName,
    NetworkPattern,
    Principal,
    SignedCertificate,
    SigningKey,
    Transformation,
    TypeName,
    TypePattern,
    Validity,
    certificate_to_bytes,
    certificate_to_text,
    exact_name,
    issue,
)
from maia.credentials.brokers import AS_BROKER
from maia.events import Attribute, AttributeUid, Instant, Kind, Value, attribute_uid, frame_of
from maia.expressions import parse_rule
from maia.keystore.key_files import create_key_file, process_key
from maia.net.tls import dialling_context
from maia.predicates import ALWAYS, Predicate, parse_predicate
from maia.types import TypeDefinition, VerifiedType, definition_to_bytes, sign_definition, verify_definition
from maia.wire.codec import beginning_of, decode, encode
from maia.wire.columns import frame_to_columns
from maia.wire.framing import LENGTH_BYTES, MESSAGE_BYTES_MAX, Splitter, framed
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Accepted,
    Advertise,
    Column,
    Deliver,
    Greeting,
    Hello,
    Message,
    Ping,
    Pong,
    Publish,
    Published,
    Subscribe,
    Welcome,
)
from maia.wire.names import network_to_bytes
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

FRAME_ROWS = 256
WINDOW_EVENTS = 32 * FRAME_ROWS
"""How many events may be under way: enough to keep a server busy, and no server has to drop any."""
PATIENCE_S = 180.0
READ_BYTES = 256 << 10

ATTRIBUTES = (
    Attribute("numberplate", attribute_uid("9001"), Kind.STRING),
    Attribute("timestamp", attribute_uid("9002"), Kind.TIMESTAMP),
    Attribute("location", attribute_uid("9003"), Kind.STRING),
    Attribute("camera", attribute_uid("9004"), Kind.STRING),
    Attribute("region", attribute_uid("9005"), Kind.STRING),
    Attribute("direction", attribute_uid("9006"), Kind.STRING),
    Attribute("speed", attribute_uid("9007"), Kind.INT),
    Attribute("lane", attribute_uid("9008"), Kind.INT),
    Attribute("confidence", attribute_uid("9009"), Kind.FLOAT),
    Attribute("stolen", attribute_uid("9010"), Kind.BOOL),
)
"""Ten attributes; an event is about 145 bytes."""
KINDS = {attribute.uid: attribute.kind for attribute in ATTRIBUTES}
EVERY_EVENT = 'region == "Greater London" and speed > 20'
"""A filter that every event below satisfies, which no broker can know before it has looked."""


def events(rows: int, start: int = 0) -> list[dict[AttributeUid, Value]]:
    """Return events that differ, and are all of one size when they are packed."""
    found = []
    for number in range(start, start + rows):
        values: tuple[Value, ...] = (
            f"AE{number % 90 + 10} XYZ",
            Instant(1_800_000_000_000_000 + number),
            f"Victoria Embankment {number % 90 + 10}, westbound carriageway",
            f"camera-{number % 900 + 100}-north-approach",
            "Greater London",
            "outbound carriageway",
            30 + number % 60,
            number % 4,
            0.5 + (number % 64) / 256,
            number % 7 == 0,
        )
        found.append({one.uid: value for one, value in zip(ATTRIBUTES, values, strict=True)})
    return found


def payload(event: dict[AttributeUid, Value]) -> bytes:
    """Return an event as a peer carries it: one message, its ten values packed."""
    plain = [+value if isinstance(value, Instant) else value for value in event.values()]
    return msgspec.msgpack.encode(plain)


# ---------------------------------------------------------------- who is in the network


@dataclass(frozen=True, slots=True)
class World:
    """One owner of network and type; everybody else holds certificates that the owner issued."""

    owner: SigningKey = field(repr=False)
    network: NetworkName
    event_type: VerifiedType
    definition: bytes = field(repr=False)
    validity: Validity

    def key(self, name: str) -> SigningKey:
        """Return somebody's key, the same for the same name."""
        return SigningKey.from_seed(sha256(b"bench " + name.encode()).digest())

    def connect_right(self, subject: Principal, *, may_delegate: bool = False) -> SignedCertificate:
        """Return a certificate that lets somebody connect."""
        pattern = NetworkPattern(self.owner.principal, exact_name(self.network.name))
        authority = Authority(pattern, frozenset({Action.CONNECT, Action.SERVE}))
        return self._issued(subject, authority, may_delegate=may_delegate)

    def broker_right(self, subject: Principal) -> SignedCertificate:
        """Return the certificate by which the owner makes somebody its broker."""
        pattern = NetworkPattern(self.owner.principal, exact_name(self.network.name))
        return self._issued(subject, Authority(pattern, AS_BROKER | {Action.SERVE}), may_delegate=False)

    def type_right(
        self,
        subject: Principal,
        action: Action,
        attributes: frozenset[AttributeUid] | AllAttributes = ALL_ATTRIBUTES,
        restriction: Predicate = ALWAYS,
        rules: Sequence[str] = (),
    ) -> SignedCertificate:
        """Return a certificate about the type: what may be done, with which attributes of which events.

        Rules say what is made of them before they are shown.
        """
        pattern = TypePattern(self.owner.principal, exact_name(self.event_type.name.name), None)
        made = tuple(parse_rule(text, self.event_type.vocabulary) for text in rules)
        steps = (Transformation(self.owner.principal, made),) if made else ()
        authority = Authority(pattern, frozenset({action}), attributes, restriction, transformations=steps)
        return self._issued(subject, authority)

    def filter(self, text: str) -> Predicate:
        """Return a filter in the names of the type."""
        return parse_predicate(text, self.event_type.vocabulary)

    def _issued(
        self, subject: Principal, authority: Authority, *, may_delegate: bool = False
    ) -> SignedCertificate:
        certificate = AuthorisationCertificate(
            self.owner.principal, subject, may_delegate, authority, self.validity, "bench"
        )
        return issue(certificate, self.owner)


def new_world() -> World:
    """Return a world whose certificates hold today."""
    owner = SigningKey.from_seed(sha256(b"bench owner").digest())
    now = system_now()
    name = TypeName(owner.principal, "uk.gov.pito.Sighting", FIRST_VERSION)
    signed = sign_definition(TypeDefinition(name, None, ATTRIBUTES), owner)
    second, day = 1_000_000, 86_400_000_000
    today = now - now % second
    return World(
        owner,
        NetworkName(owner.principal, "bench network"),
        verify_definition(signed, at=now),
        definition_to_bytes(signed),
        Validity(Instant(today - day), Instant(today + day)),
    )


# ---------------------------------------------------------------- the broker


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """A broker that listens, as a process of its own."""

    address: str
    pid: int


@contextmanager
def broker_process(
    world: World, name: str = "broker", *, runs: Sequence[str] = ("-m", "maia.cli"), **settings: object
) -> Iterator[BrokerProcess]:
    """Run `maia broker` on a free port of loopback with its files in a folder of its own, then stop it.

    `runs` is what Python runs with the arguments of `maia`.
    """
    # The raw connections of a race do not renew, and a race lasts longer than the usual lease.
    settings = {"lease_s": 3600, **settings}
    with tempfile.TemporaryDirectory(prefix="maia-bench-") as folder:
        config = _broker_config(world, world.key(name), Path(folder), settings)
        command = [sys.executable, *runs, "broker", "--config", str(config), "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=_environment(), text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, "the broker did not start"
            yield BrokerProcess(str(json.loads(line)["listening"]), process.pid)
        finally:
            process.terminate()
            process.wait(timeout=2 * PATIENCE_S)
            assert process.stdout is not None
            process.stdout.close()


def _broker_config(world: World, key: SigningKey, folder: Path, settings: dict[str, object]) -> Path:
    create_key_file(folder / "broker.key", key)
    rights = [world.broker_right(key.principal)]
    processes = settings.get("processes", 1)
    if isinstance(processes, int) and processes > 1:  # each is a broker, with a key of its own
        rights.append(world.connect_right(key.principal, may_delegate=True))
        for number in range(1, processes + 1):
            path = process_key(folder / str(settings["data"]), number)
            path.parent.mkdir(mode=0o700, parents=True)
            create_key_file(path, own := world.key(f"{key.principal} process {number}"))
            rights.append(world.broker_right(own.principal))
    (folder / "certs").mkdir()
    for number, right in enumerate(rights):
        (folder / "certs" / f"{number}.cert").write_text(certificate_to_text(right), encoding="utf-8")
    said: dict[str, object] = {
        "key": "broker.key",
        "network": world.network.name,
        "coordinator": str(world.owner.principal),
        "credentials": ["certs"],
        "listen": "127.0.0.1:0",
        "status": "off",
        "log_level": "error",
        **settings,
    }
    tables = {name: said.pop(name) for name in list(said) if isinstance(said[name], dict)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in said.items()]
    for name, table in tables.items():
        assert isinstance(table, dict)
        lines += [f"[{name}]", *(f"{one} = {json.dumps(value)}" for one, value in table.items())]
    config = folder / "broker.toml"
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return config


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MAIA_") or name.startswith("MAIA_BENCH_")
    }


# ---------------------------------------------------------------- connections


class MaiaConnection:
    """One client's connection: the whole handshake and signed requests, then bytes and counts."""

    def __init__(
        self, world: World, broker: BrokerProcess, key: SigningKey, credentials: Sequence[SignedCertificate]
    ) -> None:
        """Connect, and wait to be welcomed."""
        self.world, self.key = world, key
        self._refs, self._sequences = count(1), count()
        self._shown = [certificate_to_bytes(one) for one in credentials]
        self._splitter = Splitter(MESSAGE_BYTES_MAX)
        self._heard: list[Message] = []
        self._packed: deque[bytes] = deque()
        self._single, self._single_bytes = b"", 0
        self._columns: list[Column] = []
        self._rows = 0
        self.stream = os.urandom(16)
        self.socket: ssl.SSLSocket = self._connected(broker.address)
        self.wait_for(Greeting)
        network = network_to_bytes(world.network)
        self.say(Hello(PROTOCOL_VERSION, network, self._shown[:1], os.urandom(16), None))
        self.wait_for(Welcome)

    def _connected(self, address: str) -> ssl.SSLSocket:
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return dialling_context(self.key).wrap_socket(plain)

    def fileno(self) -> int:
        """Return the socket's number, for selectors."""
        return self.socket.fileno()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    # ---- one message after the other, while nothing is timed

    def say(self, *messages: Message) -> None:
        """Send messages in one write."""
        self.socket.sendall(b"".join(framed(encode(message)) for message in messages))

    def wait_for(self, kind: type[Message]) -> Message:
        """Return the next message, which must be of this kind; pings are answered on the way."""
        while True:
            while not self._heard:
                data = self.socket.recv(READ_BYTES)
                assert data, "the broker hung up"
                self._heard += map(decode, self._splitter.feed(data))
            message = self._heard.pop(0)
            if isinstance(message, Ping):
                self.say(Pong(message.nonce))
                continue
            assert isinstance(message, kind), f"the broker said {message}"
            return message

    def request(
        self,
        action: Action,
        filter_: Predicate,
        *,
        ref: int | None = None,
        shown: list[bytes] | None = None,
    ) -> Subscribe | Advertise:
        """Return a signed request, new or the renewal of a reference, with all rights or those given."""
        world = self.world
        asked = EdgeRequest(
            action, world.network, world.event_type.name, filter_, self.stream, system_now(), os.urandom(16)
        )
        signed = request_to_bytes(sign_request(asked, self.key))
        kind = Subscribe if action is Action.SUBSCRIBE else Advertise
        number = next(self._refs) if ref is None else ref
        definitions = [world.definition] if number == 1 else []
        return kind(number, signed, self._shown[1:] if shown is None else shown, definitions)

    def subscribe(self, *filters: Predicate) -> list[int]:
        """Ask for events by these filters, all in one write, and wait until every subscription stands."""
        asked = [self.request(Action.SUBSCRIBE, one) for one in filters]
        self.say(*asked)
        for _ in asked:
            self.wait_for(Accepted)
        return [one.id for one in asked]

    def advertise(self, frame_rows: int = FRAME_ROWS) -> Subscribe | Advertise:
        """Ask to publish, and make the frame ready that will be sent again and again; return the request."""
        asked = self.request(Action.PUBLISH, ALWAYS)
        self.say(asked)
        self.wait_for(Accepted)
        self._rows = frame_rows
        self._columns = frame_to_columns(frame_of(events(frame_rows), KINDS))
        return asked

    # ---- what a `Line` asks for

    def next_block(self) -> tuple[bytes, int]:
        """Return the next frame with its number, ready to be written, and how many events it has."""
        return self._packed.popleft() if self._packed else self._new_block(), self._rows

    def pack(self, blocks: int) -> None:
        """Make frames ready before the clock starts, as those of peers are."""
        self._packed.extend(self._new_block() for _ in range(blocks - len(self._packed)))

    def _new_block(self) -> bytes:
        frame = Publish(1, next(self._sequences), +system_now(), self._rows, self._columns)
        return framed(_ENCODER.encode(frame))

    def counted(self, data: bytes) -> int:
        """Return how many delivered events these bytes complete; nothing else is read of them.

        A single event that came alone is known by its length and its beginning, as with peers.
        """
        if len(data) == self._single_bytes and data.startswith(self._single) and not self._splitter.held:
            return 1
        rows = 0
        for message in self._splitter.feed(data):
            if message.startswith(_DELIVERED):
                rows += _DELIVERIES.decode(message).rows
                if rows == 1 and len(data) == len(message) + LENGTH_BYTES:
                    self._single, self._single_bytes = data[: LENGTH_BYTES + len(_DELIVERED)], len(data)
            elif message.startswith(_PING):
                self.socket.sendall(framed(encode(Pong(_PINGS.decode(message).nonce))))
            else:
                assert message.startswith((_PUBLISHED, _ACCEPTED)), f"the broker said {decode(message)}"
        return rows


_ENCODER = msgspec.msgpack.Encoder()
_DELIVERIES = msgspec.msgpack.Decoder(Deliver)
_PINGS = msgspec.msgpack.Decoder(Ping)
# How these messages begin: the number of fields, then the number of the message.
_DELIVERED, _PUBLISHED, _ACCEPTED, _PING = map(beginning_of, (Deliver, Published, Accepted, Ping))


# ---------------------------------------------------------------- from one publisher to many subscribers


class Connection(Protocol):
    """What a server of any kind looks like to a `Line`."""

    socket: socket.socket

    def fileno(self) -> int:
        """Return the socket's number, for selectors."""

    def next_block(self) -> tuple[bytes, int]:
        """Return bytes to be written, and how many events they publish."""

    def counted(self, data: bytes) -> int:
        """Return how many delivered events these bytes complete."""

    def close(self) -> None:
        """Hang up."""


class Line:
    """One publisher and some subscribers on one thread, which neither decodes nor waits for one of them."""

    def __init__(self, publisher: Connection, subscribers: Sequence[Connection]) -> None:
        """Take connections over whose subscriptions stand."""
        self._publisher, self._subscribers = publisher, subscribers
        self._selector = selectors.EpollSelector()
        self._writes = False
        for one in (publisher, *subscribers):
            one.socket.setblocking(False)
            self._selector.register(one, selectors.EVENT_READ)

    def pack(self, blocks: int) -> None:
        """Make what will be published ready, where that is not always so."""
        if isinstance(self._publisher, MaiaConnection):
            self._publisher.pack(blocks)

    def carry(self, total: int, window: int = WINDOW_EVENTS) -> None:
        """Publish about `total` events, and return when every subscriber has had each of them."""
        readers = len(self._subscribers)
        unsent, sent, delivered = b"", 0, 0
        while delivered < sent * readers or sent < total:
            if not unsent and sent < total and sent - delivered // readers < window:
                unsent, rows = self._publisher.next_block()
                sent += rows
            if unsent:
                unsent = self._write(unsent)
            self._want_to_write(bool(unsent))
            may_go_on = not unsent and sent < total and sent - delivered // readers < window
            found = self._selector.select(0 if may_go_on else PATIENCE_S)
            assert found or may_go_on, f"{delivered} of {sent * readers} deliveries came, and then no more"
            for key, ready in found:
                if ready & selectors.EVENT_READ:
                    got = read_waiting(key.fileobj)
                    delivered += got if key.fileobj is not self._publisher else 0

    def _write(self, data: bytes) -> bytes:
        try:
            return data[self._publisher.socket.send(data) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return data

    def _want_to_write(self, wanted: bool) -> None:
        if wanted is not self._writes:
            self._writes = wanted
            interest = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
            self._selector.modify(self._publisher, interest)

    def close(self) -> None:
        """Hang up on all connections."""
        self._selector.close()
        for one in (self._publisher, *self._subscribers):
            one.close()


def read_waiting(connection: Connection) -> int:
    """Return how many events have arrived; what TLS holds back would not wake a selector again."""
    rows = 0
    with suppress(BlockingIOError, ssl.SSLWantReadError):
        while True:
            data = connection.socket.recv(READ_BYTES)
            assert data, "the server hung up"
            rows += connection.counted(data)
    return rows


@contextmanager
def maia_line(
    world: World,
    broker: BrokerProcess,
    *,
    rows: int = FRAME_ROWS,
    filter_: str = EVERY_EVENT,
    restriction: str = 'region == "Greater London"',
    rules: Sequence[str] = (),
) -> Iterator[Line]:
    """Connect a publisher and a subscriber that sees all attributes of the events its restriction admits.

    Rules transform them before.
    """
    publisher = new_publisher(world, broker, rows=rows)
    key = world.key("subscriber")
    right = world.type_right(
        key.principal, Action.SUBSCRIBE, restriction=_filter(world, restriction), rules=rules
    )
    subscriber = MaiaConnection(world, broker, key, [world.connect_right(key.principal), right])
    subscriber.subscribe(_filter(world, filter_))
    with closing(Line(publisher, [subscriber])) as line:
        yield line


def new_publisher(world: World, broker: BrokerProcess, *, rows: int = FRAME_ROWS) -> MaiaConnection:
    """Connect a publisher whose frames are ready."""
    key = world.key("publisher")
    rights = [world.connect_right(key.principal), world.type_right(key.principal, Action.PUBLISH)]
    publisher = MaiaConnection(world, broker, key, rights)
    publisher.advertise(rows)
    return publisher


def _filter(world: World, text: str) -> Predicate:
    return world.filter(text) if text else ALWAYS
