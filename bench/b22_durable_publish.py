"""How many events a second are on the disk before their publisher hears so?

Every side answers over a loopback socket once the data is synchronised. Ours
is the event log behind a socket of its own, with group commit; the broker in
front of it is measured elsewhere. A frame is 256 events of about 80 bytes.

Peers are asked twice: with the same frames as opaque bytes, so that only the
ways to the disk differ, and with an event as a message or a row, which is how
they are used.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import psycopg

from harness import Benchmark, Case, Figure, NotMeasured, Race, Ratio, Side, at_least, at_most
from live_peers import MissingPeer, _free_port, _program, _running
from maia.wire import encode
from maia.wire.framing import framed
from maia.wire.messages import Carried, Column

TESTS = str(Path(__file__).resolve().parents[1] / "tests")
ROWS = 256
EVENT_BYTES = 80
GROUP = 32
PATIENCE_S = 180.0
EVENT = os.urandom(EVENT_BYTES)
FRAME = encode(
    Carried(b"t" * 32, b"p" * 32, b"s" * 16, 1, 0, ROWS, [], [Column("1", 1, os.urandom(ROWS * EVENT_BYTES))])
)
Ask = Callable[[int], None]
"""Publish so many messages, and return when all are acknowledged."""


# ---------------------------------------------------------------- ours


@contextmanager
def event_log() -> Iterator[Ask]:
    """Run the event log behind a socket."""
    with tempfile.TemporaryDirectory(prefix="maia-bench-", dir="/tmp") as folder:
        server = Path(__file__).with_name("durable_server.py")
        process = subprocess.Popen(
            [sys.executable, str(server), folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with _connected(int(process.stdout.readline())) as connection:
                yield lambda count: _ask_ours(connection, count)
        finally:
            process.stdin.close()
            process.wait(timeout=PATIENCE_S)
            process.stdout.close()


def _ask_ours(connection: socket.socket, count: int) -> None:
    connection.sendall(framed(FRAME) * count)
    while count > 0:
        said = connection.recv(4096)
        assert said, "the event log went away"
        count -= len(said)


def _connected(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


# ---------------------------------------------------------------- nats-server


class NoSuchSetting(MissingPeer):
    """A peer is too old to be asked for what we promise."""

    def __init__(self, said: str) -> None:
        Exception.__init__(self, f"this nats-server cannot synchronise before it answers: {said}")


@contextmanager
def jetstream(message: bytes, *, always: bool) -> Iterator[Ask]:
    """Run nats-server with JetStream on files; `always` asks it to synchronise every message."""
    program = _program("nats-server", "nats-server")
    with tempfile.TemporaryDirectory(prefix="maia-bench-", dir="/tmp") as folder:
        port, config = _free_port(), Path(folder, "nats.conf")
        sync = ", sync_interval: always" if always else ""
        config.write_text(
            f'listen: "127.0.0.1:{port}"\nlogfile: "/dev/null"\nping_interval: "60m"\n'
            f'jetstream {{ store_dir: "{folder}/js"{sync} }}\n',
            encoding="ascii",
        )
        tried = subprocess.run(
            [program, "-t", "-c", str(config)], capture_output=True, text=True, check=False
        )
        if tried.returncode:
            raise NoSuchSetting(tried.stderr.strip().rpartition(": ")[2])
        with _running([program, "-c", str(config)], port), _connected(port) as connection:
            _make_stream(connection)
            publish = b"PUB events box %d\r\n%s\r\n" % (len(message), message)
            yield lambda count: _ask_nats(connection, publish, count)


def _make_stream(connection: socket.socket) -> None:
    wanted = json.dumps({"name": "E", "subjects": ["events"], "storage": "file", "num_replicas": 1}).encode()
    connection.sendall(b'CONNECT {"verbose":false}\r\nSUB box 1\r\n')
    connection.sendall(b"PUB $JS.API.STREAM.CREATE.E box %d\r\n%s\r\n" % (len(wanted), wanted))
    said = b""
    while b'"created"' not in said:
        said += connection.recv(65536)
        assert b'"error"' not in said, said


def _ask_nats(connection: socket.socket, publish: bytes, count: int) -> None:
    connection.sendall(publish * count)
    rest = b""
    while count > 0:
        data = rest + connection.recv(1 << 16)
        lines = data.split(b"\r\n")
        rest = lines.pop()
        assert not any(b'"error"' in line for line in lines)
        count -= sum(line.startswith(b'{"stream"') for line in lines)


# ---------------------------------------------------------------- PostgreSQL


@contextmanager
def postgres(message: bytes) -> Iterator[Ask]:
    """Run PostgreSQL with everything on that keeps a commit safe; one statement and commit for each call."""
    sys.path.append(TESTS)
    from maia.testing import postgres_server as support

    safe = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
    with (
        patch.dict(support.SETTINGS, safe),
        support.running_server(support.postgres_binaries()) as address,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        connection.execute("create table events (n bigserial, event bytea not null)")

        def ask(count: int) -> None:
            asked = "insert into events (event) select * from unnest(%b::bytea[])"
            connection.execute(asked, ([message] * count,), prepare=True)

        yield ask


# ---------------------------------------------------------------- cases


def cases(quick: bool) -> Iterator[Case]:
    """Yield one frame at a time, many at once, and events by themselves; then the power cuts."""
    yield from _power_cuts(20 if quick else 10_000)
    for count, what in ((1, "one frame at a time"), (GROUP, f"{GROUP} frames wait at once")):
        for name, start in PEERS:
            yield from _against(f"{what}, against {name} with the same frames", start, FRAME, count, count)
    for name, start in PEERS:
        case = f"one frame at a time, against {name} with {ROWS} single events at once"
        yield from _against(case, start, EVENT, 1, ROWS)
    if shutil.which("rabbitmq-server") is None:
        yield NotMeasured("RabbitMQ publisher confirms", "peer rabbitmq-server is not installed", at_least(1))


def _synchronised(message: bytes) -> object:
    return jetstream(message, always=True)


def _unsynchronised(message: bytes) -> object:
    return jetstream(message, always=False)


PEERS = (
    ("JetStream, sync_interval always", _synchronised),
    ("JetStream that answers before its disk has it", _unsynchronised),
    ("PostgreSQL, synchronous_commit", postgres),
)


def _against(
    case: str, start: Callable[..., object], message: bytes, ours: int, theirs: int
) -> Iterator[Case]:
    """Yield a race of `ours` frames against `theirs` messages, which hold as many events."""
    with ExitStack() as stack:
        try:
            peer = stack.enter_context(start(message))  # type: ignore[arg-type]  # each is a context manager
        except MissingPeer as missing:
            yield NotMeasured(case, str(missing), at_least(1.0))
            return
        log = stack.enter_context(event_log())
        events = ours * ROWS
        yield Race(
            case,
            ours=Side(run=lambda: log(ours), operations=events),
            peer=Side(run=lambda: peer(theirs), operations=events),
            ratio=Ratio.PEER_OVER_OURS,
            target=at_least(1.0),
        )


def _power_cuts(trials: int) -> Iterator[Case]:
    """Yield how many acknowledged frames were lost in so many power cuts with lost sectors."""
    sys.path.append(TESTS)
    from support.event_log import PowerDisk, Recorder, draws, opened

    lost = 0
    for seed in range(trials):
        random = draws(seed)
        recorder = Recorder(PowerDisk(cut_at=random.randint(4, 40), random=random))
        recorder.play((1, 3, "large", 2, "large", 1, "large", 4, 1))
        with opened(recorder.disk.after_power_cut(random)) as log:
            found = {record.message for record in log.read()}
        lost += sum(message not in found for message in recorder.acknowledged)
    yield Figure(
        "acknowledged frames lost", values=[lost], target=at_most(0), note=f"in {trials} lost-page trials"
    )


BENCH = Benchmark(
    number=22,
    name="durable-publish",
    about="acknowledged events a second, on disk before the answer, group commit of frames of 256",
    cases=cases,
    peer_lacks="none of the peers chains records, so a record that was exchanged for another is not found",
)
