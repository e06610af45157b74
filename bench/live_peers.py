"""Servers that people use today, and connections to them that only count bytes.

Each peer is Debian's package, started here with its best settings on a free
port of loopback, with its files in a folder of its own, and stopped by its
process id. Its clients are raw sockets: what they publish was packed before
the clock started, and what arrives is counted and never decoded, so that no
client library slows a peer down.
"""

from __future__ import annotations

import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from live_network import FRAME_ROWS, PATIENCE_S, Line, events, payload
from maia.credentials import SigningKey
from maia.net.tls import dialling_context, leaf_of, null_authority

SUBJECT = "sightings"
START_S = 120.0
SERVER_PLACES = "/usr/local/sbin:/usr/sbin:/sbin"


class MissingPeer(Exception):
    """A peer is not installed on this machine; a case against it is not measured."""

    def __init__(self, name: str, package: str) -> None:
        super().__init__(f"peer {name} is not installed: apt-get install {package}")


@dataclass(frozen=True, slots=True)
class PeerProcess:
    """A peer that listens, as a process of its own."""

    port: int
    pid: int


# ---------------------------------------------------------------- connections


class RawConnection:
    """A socket that sends ready messages and counts those that arrive by their bytes."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        """Connect; with a context over TLS."""
        self.socket: socket.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self.socket = context.wrap_socket(self.socket)
        self._block, self._rows = b"", 0
        self._message_bytes, self._bytes, self._messages = 1, 0, 0

    def fileno(self) -> int:
        """Return the socket's number, for selectors."""
        return self.socket.fileno()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def next_block(self) -> tuple[bytes, int]:
        """Return the messages that are sent again and again."""
        return self._block, self._rows

    def counted(self, data: bytes) -> int:
        """Return how many messages these bytes complete; all of them have one size."""
        before, self._bytes = self._messages, self._bytes + len(data)
        self._messages = self._bytes // self._message_bytes
        return self._messages - before

    def ready_to_send(self, message: Callable[[bytes], bytes], rows: int) -> None:
        """Pack the events that will be published, as many in one write as a frame of ours has."""
        self._block = b"".join(message(payload(event)) for event in events(rows))
        self._rows = rows

    def ready_to_count(self, message: Callable[[bytes], bytes]) -> None:
        """Work out how long a delivered message is."""
        self._message_bytes = len(message(payload(events(1)[0])))

    def expect(self, said: bytes) -> None:
        """Read exactly these bytes."""
        found = b""
        while len(found) < len(said):
            data = self.socket.recv(len(said) - len(found))
            assert data, f"the peer hung up after {found!r}"
            found += data
        assert found == said, f"the peer said {found!r} and not {said!r}"


class MqttConnection(RawConnection):
    """MQTT 3.1.1 with quality of service 0: at most once, no acknowledgement."""

    def __init__(self, port: int, name: str, context: ssl.SSLContext | None = None) -> None:
        """Connect under a client identifier of one's own."""
        super().__init__(port, context)
        header = b"\x00\x04MQTT\x04\x02\x00\x00"  # level 4, clean session, no keep-alive
        self.socket.sendall(mqtt_packet(0x10, header + mqtt_text(name)))
        self.expect(b"\x20\x02\x00\x00")

    def publish_to(self, topic: str = SUBJECT, rows: int = FRAME_ROWS) -> None:
        """Make messages ready."""
        self.ready_to_send(lambda data: mqtt_packet(0x30, mqtt_text(topic) + data), rows)

    def subscribe(self, *topics: str) -> None:
        """Subscribe to topics, one packet each, and wait until all stand."""
        packets = [mqtt_packet(0x82, b"\x00\x01" + mqtt_text(topic) + b"\x00") for topic in topics]
        self.socket.sendall(b"".join(packets))
        for _ in topics:
            self.expect(b"\x90\x03\x00\x01\x00")
        self.ready_to_count(lambda data: mqtt_packet(0x30, mqtt_text(topics[0]) + data))


class NatsConnection(RawConnection):
    """NATS core: at most once."""

    def __init__(self, port: int) -> None:
        """Connect, and ask for no acknowledgements."""
        super().__init__(port)
        self._tail = b""
        self._read_line(b"INFO ")
        self.socket.sendall(b'CONNECT {"verbose":false,"pedantic":false,"echo":true}\r\nPING\r\n')
        self._read_line(b"PONG")

    def _read_line(self, begin: bytes) -> None:
        line = b""
        while not line.endswith(b"\r\n"):
            line += self.socket.recv(1)
        assert line.startswith(begin), f"the peer said {line!r}"

    def publish_to(self, subject: str = SUBJECT, rows: int = FRAME_ROWS) -> None:
        """Make messages ready."""
        self.ready_to_send(lambda data: b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(data), data), rows)

    def subscribe(self, *subjects: str) -> None:
        """Subscribe to subjects, and wait until all stand."""
        lines = [b"SUB %b %d\r\n" % (one.encode(), number) for number, one in enumerate(subjects, 1)]
        self.socket.sendall(b"".join(lines) + b"PING\r\n")
        self._read_line(b"PONG")
        self.ready_to_count(lambda data: b"MSG %b 1 %d\r\n%b\r\n" % (subjects[0].encode(), len(data), data))

    def counted(self, data: bytes) -> int:
        """Count messages; the server's own questions are answered and left out."""
        looked_at = self._tail + data
        pings = looked_at.count(b"PING\r\n")
        self._tail = looked_at[-5:]
        if pings:
            self._bytes -= pings * len(b"PING\r\n")
            self.socket.send(b"PONG\r\n" * pings)
        return super().counted(data)


class RedisConnection(RawConnection):
    """Redis publish/subscribe: at most once."""

    def publish_to(self, channel: str = SUBJECT, rows: int = FRAME_ROWS) -> None:
        """Make messages ready; answers to them are switched off."""
        self.socket.sendall(_resp(b"CLIENT", b"REPLY", b"OFF"))
        self.ready_to_send(lambda data: _resp(b"PUBLISH", channel.encode(), data), rows)

    def subscribe(self, channel: str) -> None:
        """Subscribe to a channel, and wait until it stands."""
        self.socket.sendall(_resp(b"SUBSCRIBE", channel.encode()))
        self.expect(_resp(b"subscribe", channel.encode()).replace(b"*2", b"*3", 1) + b":1\r\n")
        self.ready_to_count(lambda data: _resp(b"message", channel.encode(), data))


def mqtt_packet(kind: int, body: bytes) -> bytes:
    """Return a control packet."""
    length, left = b"", len(body)
    while True:
        left, low = divmod(left, 128)
        length += bytes((low | (0x80 if left else 0),))
        if not left:
            return bytes((kind,)) + length + body


def mqtt_text(text: str) -> bytes:
    """Return a text as packets hold it."""
    return len(text).to_bytes(2, "big") + text.encode()


def _resp(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


# ---------------------------------------------------------------- processes


@contextmanager
def mosquitto(*, over_tls: bool = False, more: Sequence[str] = ()) -> Iterator[PeerProcess]:
    """Run mosquitto: no password, no persistence, no log, no limit to queues; `more` goes into its file."""
    program = _program("mosquitto", "mosquitto")
    with tempfile.TemporaryDirectory(prefix="maia-bench-") as folder:
        port, config = _free_port(), Path(folder, "mosquitto.conf")
        lines = [
            "user root",
            "persistence false",
            "log_dest none",
            "sys_interval 0",
            "max_queued_messages 0",
            "set_tcp_nodelay true",
            f"listener {port} 127.0.0.1",
            "allow_anonymous true",
            *(_tls_lines(Path(folder)) if over_tls else []),
            *more,
        ]
        config.write_text("\n".join(lines) + "\n", encoding="ascii")
        with _running([program, "-c", str(config)], port) as process:
            yield process


def _nats_tls_block(folder: Path) -> str:
    _write_tls_files(folder)
    return f'tls {{ cert_file: "{folder}/leaf.pem", key_file: "{folder}/key.pem" }}\n'


def _tls_lines(folder: Path) -> list[str]:
    """Let mosquitto ask for certificates as our brokers do: TLS 1.3, the same keys on both sides."""
    _write_tls_files(folder)
    return [
        f"cafile {folder}/ca.pem",
        f"certfile {folder}/leaf.pem",
        f"keyfile {folder}/key.pem",
        "require_certificate true",
        "tls_version tlsv1.3",
    ]


def _write_tls_files(folder: Path) -> None:
    key = SigningKey.from_seed(bytes(32))
    secret = Ed25519PrivateKey.from_private_bytes(key.reveal_seed())
    files = {
        "ca.pem": x509.load_der_x509_certificate(null_authority()).public_bytes(Encoding.PEM),
        "leaf.pem": x509.load_der_x509_certificate(leaf_of(key.principal)).public_bytes(Encoding.PEM),
        "key.pem": secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)


def mqtt_over_tls(port: int, name: str) -> MqttConnection:
    """Connect to a mosquitto that asks for certificates."""
    return MqttConnection(port, name, dialling_context(SigningKey.from_seed(bytes(32))))


@contextmanager
def nats(*, over_tls: bool = False) -> Iterator[PeerProcess]:
    """Run nats-server: no log, no limit to what waits for a reader within a gigabyte."""
    program = _program("nats-server", "nats-server")
    with tempfile.TemporaryDirectory(prefix="maia-bench-") as folder:
        port, config = _free_port(), Path(folder, "nats.conf")
        config.write_text(
            f'listen: "127.0.0.1:{port}"\nlogfile: "/dev/null"\nmax_pending: 1073741824\n'
            'write_deadline: "60s"\nping_interval: "60m"\nmax_connections: 70000\n'
            + (_nats_tls_block(Path(folder)) if over_tls else ""),
            encoding="ascii",
        )
        with _running([program, "-c", str(config)], port) as process:
            yield process


@contextmanager
def redis() -> Iterator[PeerProcess]:
    """Run redis-server: nothing on disk, no limit to what waits for a reader."""
    program = _program("redis-server", "redis-server")
    with tempfile.TemporaryDirectory(prefix="maia-bench-") as folder:
        port = _free_port()
        options = {
            "bind": "127.0.0.1",
            "port": str(port),
            "dir": folder,
            "save": "",
            "appendonly": "no",
            "logfile": "/dev/null",
            "client-output-buffer-limit": "pubsub 0 0 0",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        with _running([program, *words], port) as process:
            yield process


def _program(name: str, package: str) -> str:
    # Debian keeps servers where an ordinary user's path does not lead.
    found = shutil.which(name) or shutil.which(name, path=SERVER_PLACES)
    if found is None:
        raise MissingPeer(name, package)
    return found


def _free_port() -> int:
    """Return a port below those that the system gives to whoever dials, until the peer listens there."""
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(10_000, 15_000)
        with socket.socket() as taken, suppress(OSError):
            taken.bind(("127.0.0.1", port))
            return port


@contextmanager
def _running(command: Sequence[str], port: int) -> Iterator[PeerProcess]:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        _wait_until_it_listens(process, port)
        yield PeerProcess(port, process.pid)
    finally:
        process.terminate()
        process.wait(timeout=START_S)


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    ends_at = time.monotonic() + START_S
    while True:
        assert process.poll() is None, f"the peer ended with code {process.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < ends_at, "the peer does not listen"
            time.sleep(0.02)
        else:
            return


# ---------------------------------------------------------------- from one publisher to some subscribers


@contextmanager
def mosquitto_line(*, rows: int = FRAME_ROWS, readers: int = 1, over_tls: bool = False) -> Iterator[Line]:
    """Run mosquitto with a publisher and some readers of one topic."""
    with mosquitto(over_tls=over_tls) as peer, ExitStack() as stack:
        connect = mqtt_over_tls if over_tls else MqttConnection
        publisher = connect(peer.port, "publisher")
        publisher.publish_to(rows=rows)
        subscribers = [connect(peer.port, f"reader-{number}") for number in range(readers)]
        for one in subscribers:
            one.subscribe(SUBJECT)
        yield stack.enter_context(closing(Line(publisher, subscribers)))


@contextmanager
def nats_line(*, rows: int = FRAME_ROWS) -> Iterator[Line]:
    """Run nats-server with a publisher and a reader of one subject."""
    with nats() as peer, ExitStack() as stack:
        publisher, subscriber = NatsConnection(peer.port), NatsConnection(peer.port)
        publisher.publish_to(rows=rows)
        subscriber.subscribe(SUBJECT)
        yield stack.enter_context(closing(Line(publisher, [subscriber])))


@contextmanager
def redis_line(*, rows: int = FRAME_ROWS) -> Iterator[Line]:
    """Run redis-server with a publisher and a reader of one channel."""
    with redis() as peer, ExitStack() as stack:
        publisher, subscriber = RedisConnection(peer.port), RedisConnection(peer.port)
        publisher.publish_to(rows=rows)
        subscriber.subscribe(SUBJECT)
        yield stack.enter_context(closing(Line(publisher, [subscriber])))


@contextmanager
def bare_relay_line(*, rows: int, relays: int = 1) -> Iterator[Line]:
    """Run a relay over TLS in Python that does nothing else, with a publisher and a reader.

    With two relays, the first is a gateway to the second, and what is sent passes it twice.
    """
    with ExitStack() as stack:
        port: int | None = None
        for _ in range(relays):
            port = stack.enter_context(_bare_relay(port))
        assert port is not None
        context = dialling_context(SigningKey.from_seed(bytes(32)))
        publisher, subscriber = RawConnection(port, context), RawConnection(port, context)
        publisher.ready_to_send(lambda data: data, rows)
        subscriber.ready_to_count(lambda data: data)
        yield stack.enter_context(closing(Line(publisher, [subscriber])))


@contextmanager
def _bare_relay(behind: int | None) -> Iterator[int]:
    program = str(Path(__file__).with_name("bare_relay.py"))
    command = [sys.executable, program, *([] if behind is None else [str(behind)])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(timeout=START_S)
        process.stdout.close()
