"""How many MQTT messages a second does our gateway carry, against mosquitto with the same clients?

One publisher and one subscriber of MQTT 3.1.1 over mutual TLS 1.3, the same raw connections on both
sides, JSON payloads of ten attributes. At the gateway each message becomes a typed event, is checked against
the publisher's right and the subscriber's restriction at a broker in a process of its own, and becomes a
message again. mosquitto passes bytes on, from and to any client. Two relays over TLS in Python that do
nothing (`bare_relay.py`) say how near to a target of latency a gateway and a broker in Python can come.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from harness import Benchmark, Case, Figure, NotMeasured, Race, Ratio, Side, at_least, at_most
from live_network import (
    ATTRIBUTES,
    PATIENCE_S,
    BrokerProcess,
    Line,
    World,
    broker_process,
    events,
    new_world,
)
from live_peers import MissingPeer, RawConnection, bare_relay_line, mosquitto, mqtt_packet, mqtt_text
from maia.credentials import (
    Action,
    Principal,
    SignedCertificate,
    SigningKey,
    certificate_to_text,
    principal_from_text,
)
from maia.events import Instant
from maia.gateway.server.account_folder import AccountFolder
from maia.net.tls import dialling_context, key_and_leaf
from maia.types import definition_from_bytes, definition_to_text

TOPIC = "sightings"
ROWS = 64
WINDOW = 512
WITH_WHAT = "MQTT 3.1.1 over mutual TLS, rights and a restriction on"
RELAYS = "two relays over TLS in Python that do nothing, in place of gateway and broker"


def json_payloads() -> list[bytes]:
    """Return events of one size as the gateway writes them."""
    names = [one.name for one in ATTRIBUTES]
    found = []
    for event in events(ROWS):
        values = [str(one) if isinstance(one, Instant) else one for one in event.values()]
        values[-1], values[-2] = True, 0.5  # of one length
        found.append(json.dumps(dict(zip(names, values, strict=True)), separators=(",", ":")).encode())
    longest = max(map(len, found))
    return [one for one in found if len(one) == longest]


class MqttClient(RawConnection):
    """MQTT 3.1.1 with quality of service 0 or 1; a subscriber acknowledges what it gets."""

    def __init__(self, port: int, key: SigningKey, name: str, qos: int) -> None:
        """Connect and prove a key by TLS."""
        super().__init__(port, dialling_context(key))
        self._qos, self._number, self._left, self._counts = qos, 0, b"", False
        self._packets = json_payloads()
        header = b"\x00\x04MQTT\x04\x02\x00\x00"
        self.socket.sendall(mqtt_packet(0x10, header + mqtt_text(name)))
        self.expect(b"\x20\x02\x00\x00")
        self._size = len(self._packet(self._packets[0]))

    def _packet(self, payload: bytes) -> bytes:
        self._number = self._number % 65_535 + 1
        number = self._number.to_bytes(2, "big") if self._qos else b""
        return mqtt_packet(0x30 | self._qos << 1, mqtt_text(TOPIC) + number + payload)

    def next_block(self) -> tuple[bytes, int]:
        """Return the next messages, each with a number of its own."""
        return b"".join(map(self._packet, self._packets)), len(self._packets)

    def alone(self) -> None:
        """Let one message be a block."""
        self._packets = self._packets[:1]

    def subscribe(self) -> None:
        """Subscribe, and wait until it stands."""
        self.socket.sendall(mqtt_packet(0x82, b"\x00\x01" + mqtt_text(TOPIC) + bytes([self._qos])))
        self.expect(b"\x90\x03\x00\x01" + bytes([self._qos]))
        self._counts = True

    def counted(self, data: bytes) -> int:
        """Return how many messages these bytes complete, and acknowledge them."""
        if not self._counts:
            return 0  # acknowledgements of what was published
        data = self._left + data
        complete = len(data) // self._size
        self._left = data[complete * self._size :]
        if self._qos:
            at = self._size - len(self._packets[0]) - 2
            starts = range(at, complete * self._size, self._size)
            self.socket.sendall(b"".join(b"\x40\x02" + data[one : one + 2] for one in starts))
        return complete


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    """A gateway that listens, as a process of its own."""

    port: int
    http: str | None
    pid: int
    folder: Path


def new_account(
    folder: Path, world: World, who: str, rights: Callable[[Principal], Sequence[SignedCertificate]]
) -> Principal:
    """Make an account for a client that proves a key of the world; it may connect, and what `rights` says."""
    place, made, _ = AccountFolder(folder / "data").add(who, world.key(who).principal)
    subject = principal_from_text(made.principal)
    for number, signed in enumerate((world.connect_right(subject), *rights(subject))):
        (place / f"{number}.cert").write_text(certificate_to_text(signed), encoding="utf-8")
    return subject


@contextmanager
def gateway_port(world: World, broker: BrokerProcess) -> Iterator[int]:
    """Run `maia gateway mqtt` in a process of its own."""
    with gateway_process(world, broker) as gateway:
        yield gateway.port


@contextmanager
def gateway_process(world: World, broker: BrokerProcess, more: str = "") -> Iterator[GatewayProcess]:
    """Do the same with further settings; say where everything is."""
    with tempfile.TemporaryDirectory(prefix="maia-bench-") as name:
        folder = Path(name)
        for who, action in (("publisher", Action.PUBLISH), ("subscriber", Action.SUBSCRIBE)):
            where = world.filter('region == "Greater London"' if action is Action.SUBSCRIBE else "true")
            new_account(
                folder,
                world,
                who,
                lambda subject, action=action, where=where: [  # type: ignore[misc]
                    world.type_right(subject, action, restriction=where)
                ],
            )
        key, leaf = key_and_leaf(world.key("gateway"))
        (folder / "key.pem").write_bytes(key)
        (folder / "leaf.pem").write_bytes(leaf)
        definition = definition_to_text(definition_from_bytes(world.definition))
        (folder / "sighting.type").write_text(definition, encoding="utf-8")
        (folder / "gateway.toml").write_text(
            f'broker = "{broker.address}"\nnetwork = "{world.network.name}"\n'
            f'coordinator = "{world.owner.principal}"\ndata = "data"\nlisten = "127.0.0.1:0"\n{more}\n'
            'log_level = "error"\n[tls]\ncertificate = "leaf.pem"\nkey = "key.pem"\n'
            f'[[topics]]\nmqtt = "{TOPIC}"\ntype = "sighting.type"\n',
            encoding="utf-8",
        )
        words = ("gateway", "mqtt", "--config", "gateway.toml", "--json")
        command = [sys.executable, "-m", "maia.cli", *words]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, "the gateway did not start"
            said = json.loads(line)
            port = int(said["listening"].rpartition(":")[2])
            yield GatewayProcess(port, said.get("http"), process.pid, folder)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)
            assert process.stdout is not None
            process.stdout.close()


@contextmanager
def line_at(world: World, port: int, qos: int, *, alone: bool = False) -> Iterator[Line]:
    """Connect one publisher and one subscriber."""
    publisher = MqttClient(port, world.key("publisher"), f"publisher {qos} {alone}", qos)
    subscriber = MqttClient(port, world.key("subscriber"), f"subscriber {qos} {alone}", qos)
    subscriber.subscribe()
    if alone:
        publisher.alone()
    with closing(Line(publisher, [subscriber])) as line:
        yield line


def cases(quick: bool) -> Iterator[Case]:
    """Yield throughput and median latency, QoS 0 and 1, and what Python and TLS take by themselves."""
    total, pings = (1_024, 20) if quick else (32_768, 300)
    world = new_world()
    with ExitStack() as stack:
        broker = stack.enter_context(broker_process(world))
        port = stack.enter_context(gateway_port(world, broker))
        try:
            peer = stack.enter_context(mosquitto(over_tls=True, more=["max_inflight_messages 0"]))
        except MissingPeer as missing:
            with line_at(world, port, 0, alone=True) as ours, bare_relay_line(rows=1, relays=2) as bare:
                yield _latency(f"p50, QoS 0, {WITH_WHAT}, against {RELAYS}", ours, bare, pings)
            yield NotMeasured(f"{WITH_WHAT}, against mosquitto", str(missing), at_least(0.5))
            return
        for qos in (0, 1):
            with line_at(world, port, qos) as ours, line_at(world, peer.port, qos) as theirs:
                yield Race(
                    f"messages a second, QoS {qos}, {WITH_WHAT}, against mosquitto",
                    ours=_side(ours, total),
                    peer=_side(theirs, total),
                    ratio=Ratio.PEER_OVER_OURS,
                    target=at_least(0.5),
                )
        for qos in (0, 1):
            with (
                line_at(world, port, qos, alone=True) as ours,
                line_at(world, peer.port, qos, alone=True) as theirs,
            ):
                yield _latency(f"p50, QoS {qos}, {WITH_WHAT}, against mosquitto", ours, theirs, pings)
        with bare_relay_line(rows=1, relays=2) as bare, line_at(world, peer.port, 0, alone=True) as theirs:
            yield _latency(f"p50, {RELAYS}, against mosquitto", bare, theirs, pings)


def _side(line: Line, total: int) -> Side:
    line.carry(total // 4, WINDOW)
    return Side(run=lambda: line.carry(total, WINDOW), operations=total, calls=1)


def _latency(case: str, ours: Line, theirs: Line, pings: int) -> Figure:
    """Send one message at a time, in turns of short series; a ratio belongs to two series side by side."""

    def median_us(line: Line) -> float:
        took = []
        for _ in range(pings):
            begun = perf_counter()
            line.carry(1, 1)
            took.append((perf_counter() - begun) * 1e6)
        return statistics.median(took)

    pairs = [(median_us(ours), median_us(theirs)) for _ in range(5)]
    return Figure(
        case,
        [mine / other for mine, other in pairs],
        at_most(4),
        ours_us=[mine for mine, _ in pairs],
        peer_us=[other for _, other in pairs],
    )


BENCH = Benchmark(
    number=36,
    name="mqtt-gateway",
    about="MQTT messages through gateway and broker, ours over mosquitto's; 10 attributes as JSON",
    cases=cases,
    stood="mosquitto passes bytes on",
    peer_lacks="rights by certificate, typed values, restrictions, hidden attributes",
    floor="two relays over TLS in Python that do nothing, which are measured beside us",
)
