"""What do a connection, a request and bytes of a stranger cost each listener? No more than its table says.

The table is `tools/listener_prices.py`, and the page about listeners is written from it. Every listener of it
is asked in real processes: broker, key server, domain, console, MQTT and HTTP gateway, status pages, the desk
of a Spark driver. What is compared is CPU time and memory of the process, never the clock; the prices are
several times what a calm machine needs, and a fault such as a page that computes for seconds is a hundred
times above them. The pages are those of the routes: a page that answers a stranger and has no price fails.
The processes wait for a few seconds where others wait for many (`support/impatient.py`).
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import maia
from maia.console.server import Console
from maia.credentials import SigningKey
from maia.domain.http.application import application
from maia.gateway.server.http.application import HttpDoor
from maia.net.addresses import host_and_port
from maia.net.observer import QuietRecords
from maia.net.status_endpoint import PUBLIC_PAGES, read_door
from maia.net.tls import dialling_context
from maia.share.application import ShareDoor
from maia.spark.keys.key_server import DeskPass
from maia.testing import free_port, wait_until
from maia.wire.codec import encode
from maia.wire.framing import framed
from maia.wire.messages import Ping
from support.impatient import PLACES, STRANGERS_BYTES
from support.processes import running_maia
from support.raw_mqtt import connect, packet

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from listener_prices import LISTENERS  # noqa: E402 - the table is a tool's

sys.path.remove(str(ROOT / "tools"))

CONNECTIONS, REQUESTS, ROUNDS, BODY = 24, 8, 40, b"x" * (64 << 10)
STRANGER = SigningKey.from_seed(b"a stranger who knows no price...")
PATIENCE_S = 120.0
"""Many times what the processes wait: it is not their speed that is tested."""
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Price:
    """What a stranger may cost: milliseconds of CPU, and kilobytes of memory for as long as it stays."""

    ms: float
    kb: float = 0.0


ELSEWHERE = {"statement link": "tests/attacks/test_a_statement_link_opens_once_for_one_key.py"}
"""Listeners of the table that are no process here: their time and their lengths are tested there."""
REFUSED = Price(30)
"""One request that is refused, for whatever reason."""
BYTES = Price(40, 16)
"""Sixty-four kilobytes that no one asked for, on a connection of their own; most of them are not kept."""
PAGES = {
    "domain GET /v1/domain": Price(30),
    "domain GET /v1/statements": Price(40),
    "domain GET /v1/statements/history": Price(60),
    "domain GET /health": Price(20),
    "domain GET /openapi.json": Price(60),
    "console GET /static/console.css": Price(20),
    "console GET /static/console.js": Price(20),
    "console GET /static/icon.svg": Price(20),
    "http GET /v1": Price(20),
    "http OPTIONS /v1": Price(20),
    "http OPTIONS /v1/events": Price(20),
    "http GET /health": Price(20),
    "http GET /openapi.json": Price(30),
    "status GET /health": Price(20),
    "status GET /ready": Price(20),
    "status GET /metrics": Price(40),
}
"""Every page that answers a stranger."""
_GET = b"GET %s HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"
HONEST = {
    "broker": framed(encode(Ping(1))),
    "key server": framed(encode(Ping(1))),
    "domain": _GET % b"/v1/domain",
    "console": _GET % b"/static/icon.svg",
    "mqtt": connect("nobody", "none", "x"),
    "http": _GET % b"/v1",
    "share": _GET % b"/delta-sharing/shares",
    "status": _GET % b"/metrics",
    "metrics": _GET % b"/metrics",
    "job desk": b"",
}
"""What is answered, were it by a refusal."""
TOO_LONG = {
    **dict.fromkeys(["broker", "key server"], (LISTENERS["broker"].read_bytes + 1).to_bytes(4, "big")),
    **dict.fromkeys(
        ["domain", "console", "share", "http"], b"POST /v1/login HTTP/1.1\r\nContent-Length: 1000000000\r\n"
    ),
    "mqtt": packet(0x10, b"x" * (LISTENERS["mqtt"].read_bytes + 1))[:9],
    **dict.fromkeys(["status", "metrics"], b"GET /" + b"x" * (LISTENERS["status"].read_bytes + 1)),
    "job desk": (LISTENERS["job desk"].read_bytes + 1).to_bytes(4, "big"),
}
"""What announces more than is read, and no more of it."""
LARGE = {
    "domain": "/openapi.json",
    "console": "/static/console.js",
    "http": "/openapi.json",
    "share": "/delta-sharing/shares",
    "status": "/metrics",
    "metrics": "/metrics",
}
"""The longest answer that a stranger gets."""
QUERIES = {"domain GET /v1/statements/history": "?limit=500"}
"""What makes a page cost most."""


def routes() -> dict[str, list[tuple[str, str]]]:
    """Return method and path of every page, as the listeners themselves route them."""
    # None of these is asked anything: what they route is known before they have been given anything to serve.
    gateway = HttpDoor.__new__(HttpDoor)
    gateway._records = QuietRecords()
    apps = {
        "domain": application(None, QuietRecords()),  # type: ignore[arg-type]
        "http": gateway.application(),
        "console": Console.__new__(Console).application(),
        "share": ShareDoor.__new__(ShareDoor).application(),
    }
    found = {
        name: sorted({(method, one.path) for one in app.routes for method in one.methods - {"HEAD"}})  # type: ignore[attr-defined]
        for name, app in apps.items()
    }
    return {**found, "status": [("GET", one) for one in (*PUBLIC_PAGES, "/status")]}


@dataclass
class Listener:
    """Where a stranger connects, and the process that pays."""

    name: str
    address: str
    pid: int
    tls: ssl.SSLContext | None = None
    is_serving: Callable[[], bool] = lambda: False
    """Says whether a peer is served that may be; without it, whether an honest request is answered."""

    def __post_init__(self) -> None:
        self.is_serving = lambda: bool(self.heard(HONEST[self.name].replace(b"HOST", self.address.encode())))

    def heard(self, request: bytes) -> bytes:
        """Return what a request is answered with, in all; empty if with nothing."""
        heard = b""
        with suppress(OSError), self.connected() as link:
            link.sendall(request)
            while some := link.recv(1 << 16):
                heard += some
        return heard

    def reached(self, *, come_from: str = "127.0.0.1", small: bool = False) -> socket.socket:
        """Return a connection of TCP; a `small` one can hold little that is not read."""
        link = socket.socket()
        if small:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        link.settimeout(180)
        link.bind((come_from, 0))
        link.connect(host_and_port(self.address))
        return link

    def connected(self, *, come_from: str = "127.0.0.1", small: bool = False) -> socket.socket:
        """Return a connection whose handshake has ended; a machine that was too slow tries again."""
        for _ in range(9):
            with suppress(OSError):
                link = self.reached(come_from=come_from, small=small)
                return link if self.tls is None else self.tls.wrap_socket(link)
        raise AssertionError(f"{self.name} takes no connection")

    def sockets(self) -> int:
        """Return how many sockets the process has open."""
        folder, found = Path(f"/proc/{self.pid}/fd"), 0
        for one in folder.iterdir():
            with suppress(OSError):
                found += str(one.readlink()).startswith("socket:")
        return found

    def cpu_ms(self) -> float:
        """Return the CPU time that the process has taken."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_MS

    def memory_kb(self) -> float:
        """Return the memory that the process has."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1000

    def ask(self, method: str, path: str, body: bytes = b"") -> int:
        """Ask for a page on a connection of its own; return the status, and 0 if there is none."""
        with self.connected() as link:
            head = f"{method} {path} HTTP/1.1\r\nHost: {self.address}\r\nConnection: close\r\n"
            length = f"Content-Length: {len(body)}\r\n" if body else ""
            answer = http.client.HTTPResponse(link, method=method)
            with suppress(OSError):  # closed before all of a body was read
                link.sendall(f"{head}{length}\r\n".encode() + body)
            try:
                answer.begin()
                answer.read()
            except (OSError, http.client.HTTPException):
                return 0
            return answer.status


@contextmanager
def listeners(folder: Path) -> Iterator[dict[str, Listener]]:
    """Run servers of an organisation with a sealed type, its gateway and console, and the desk of a job."""
    made = maia.Organisation.create(folder / "hospital")
    made.define("LabResult", patient="string", value="int", sealed=True)
    made.add_member("lab", may="publish:LabResult")
    (made.folder / "gateway.toml").write_text(
        f'listen = "127.0.0.1:{free_port()}"\nconnections_before_connect = {PLACES}\nconnect_s = 3\n'
        f'[http]\nlisten = "127.0.0.1:{free_port()}"\n'
    )
    metrics = f"127.0.0.1:{free_port()}"
    settings = made.folder / "broker.toml"
    settings.write_text(f'metrics = "{metrics}"\n{settings.read_text()}')
    shown, shared = (f"127.0.0.1:{free_port()}" for _ in range(2))
    commands = {
        "broker": ("broker", "--config", made.folder / "broker.toml"),
        "domain": ("domain", "serve", "--config", made.folder / "domain.toml"),
        "gateway": ("gateway", "mqtt", "--org", made.folder),
        "console": ("console", "serve", "--org", made.folder, "--listen", shown),
        "share": ("share", "serve", "--org", made.folder, "--listen", shared),
        "job desk": ("job-desk",),
    }
    with ExitStack() as stack:
        pids: dict[str, int] = {}
        for name, words in commands.items():
            output = made.folder / f"{name}-output"
            output.mkdir()
            running = running_maia(*words, cwd=output, module="support.impatient")
            pids[name] = stack.enter_context(running).pid
        for name in commands:
            output = made.folder / f"{name}-output" / "out.log"
            wait_until(lambda output=output: "listening" in output.read_text())
        place, grant, token = re.search(r"listening on (\S+) (\S+) (\S+)", output.read_text()).groups()
        broker, domain = (
            tomllib.loads((made.folder / f"{one}.generated.toml").read_text()) for one in ("broker", "domain")
        )
        gateway = tomllib.loads((made.folder / "gateway.toml").read_text())
        unpinned = ssl.create_default_context()
        unpinned.check_hostname, unpinned.verify_mode = False, ssl.CERT_NONE
        link = dialling_context(STRANGER)
        found = (
            Listener("broker", broker["listen"], pids["broker"], link),
            Listener("key server", domain["listen"], pids["domain"], link),
            Listener("domain", domain["api"]["listen"], pids["domain"], unpinned),
            Listener("console", shown, pids["console"]),
            Listener("share", shared, pids["share"]),
            Listener("mqtt", gateway["listen"], pids["gateway"]),
            Listener("http", gateway["http"]["listen"], pids["gateway"]),
            Listener("status", read_door(made.folder / "broker-data").address, pids["broker"]),
            Listener("metrics", metrics, pids["broker"]),
            Listener("job desk", place, pids["job desk"]),
        )
        served = {one.name: one for one in found}
        worker = DeskPass(*host_and_port(place), bytes.fromhex(grant), bytes.fromhex(token))

        def publishes() -> bool:
            try:
                with maia.connect(made.folder / "lab.maia") as lab:
                    lab.publish("LabResult", patient="P-17", value=1)
            except maia.Unavailable:  # a machine that is too slow for so little patience
                return False
            return True

        served["broker"].is_serving = publishes
        served["job desk"].is_serving = lambda: worker.keys_of([1]) == {}
        yield served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Listener]]:
    with listeners(tmp_path_factory.mktemp("priced")) as found:
        yield found


def paid(one: Listener, times: int, act: Callable[[], object]) -> float:
    """Return the CPU time that the process takes for each act of a stranger; the first one was before."""
    before = one.cpu_ms()
    for _ in range(times):
        act()
    return (one.cpu_ms() - before) / times


def test_what_one_connection_costs(served: dict[str, Listener]) -> None:
    """A87 A88 A89 A116: a handshake and an idle connection, at every listener."""
    assert served.keys() | ELSEWHERE.keys() == LISTENERS.keys(), "a listener has no price"
    spent = {}
    for name, one in served.items():
        one.connected().close()
        before, memory, held = one.cpu_ms(), one.memory_kb(), list[socket.socket]()
        try:
            held += [one.connected() for _ in range(CONNECTIONS)]
            ms, kb = (one.cpu_ms() - before) / CONNECTIONS, (one.memory_kb() - memory) / CONNECTIONS
        finally:
            for link in held:
                link.close()
        spent[name] = (ms, kb)
    too_much = {n: had for n, had in spent.items() if had[0] > LISTENERS[n].ms or had[1] > LISTENERS[n].kb}
    assert not too_much, f"milliseconds and kilobytes of a connection, of {spent}"


def test_what_one_request_costs(served: dict[str, Listener]) -> None:
    """A87 A116: each page of each route, asked by a stranger: what answers has a price."""
    known, unpriced, spent = set[str](), list[str](), {}
    for name, pages in routes().items():
        one = served[name]
        for method, path in pages:
            page = f"{name} {method} {path}"
            asked = path.replace("{", "").replace("}", "") + QUERIES.get(page, "")
            status = one.ask(method, asked)
            known.add(page)
            if 200 <= status < 300 and page not in PAGES:
                unpriced.append(page)
            price = PAGES.get(page, REFUSED)
            times = REQUESTS if page in PAGES else 2
            spent[page] = (paid(one, times, partial(one.ask, method, asked)), price.ms)
    assert not unpriced, "these answer a stranger, and have no price"
    assert PAGES.keys() <= known, f"prices of pages that are gone: {PAGES.keys() - known}"
    assert not {page: had for page, had in spent.items() if had[0] > had[1]}, spent


def said(name: str) -> bytes:
    """Return what a stranger says at a listener that is refused after it: of a link, of MQTT, of a page."""
    if name in ("broker", "key server", "job desk"):
        return len(BODY).to_bytes(4, "big") + BODY
    if name == "mqtt":
        return connect("nobody", "none", "x")
    return b""


def test_what_bytes_cost(served: dict[str, Listener]) -> None:
    """A74 A89 A116: bytes that no one asked for are refused, and leave nothing behind."""
    spent = {}
    for name, one in served.items():

        def send(one: Listener = one, name: str = name) -> None:
            if name not in ("broker", "key server", "mqtt", "job desk"):
                one.ask("GET", "/health" if name != "console" else "/", BODY)
                return
            with one.connected() as link, suppress(OSError):
                link.sendall(said(name))
                link.sendall(packet(0x10, BODY) if name == "mqtt" else BODY)
                while link.recv(1 << 16):
                    pass

        send()
        rounds = []
        for _ in range(ROUNDS):
            memory = one.memory_kb()
            ms = paid(one, 2 * REQUESTS, send)
            rounds.append((ms, (one.memory_kb() - memory) / (2 * REQUESTS)))
            # What is kept for each is kept in every round; what memory grows by until it is enough, is not.
            spent[name] = (min(ms for ms, _ in rounds), min(kb for _, kb in rounds))
            if spent[name][0] <= BYTES.ms and spent[name][1] <= BYTES.kb:
                break
    too_much = {name: had for name, had in spent.items() if had[0] > BYTES.ms or had[1] > BYTES.kb}
    assert not too_much, f"milliseconds and kilobytes of {len(BODY)} bytes, of {json.dumps(spent)}"


# ------------------------------------------------------------ how long, how many, how much


def test_every_place_that_listens_is_in_the_table() -> None:
    """A116: code that begins to listen is a row of the table, or begins what a row is about."""
    ours = r"from maia\.net\.\w+ import (?:\([^)]*|[^\n]*)\b(?:bind|answering|listening)\b"
    begins, source = re.compile(rf"{ours}|import socketserver|start_server\("), ROOT / "src" / "maia"
    found = {str(one.relative_to(source)) for one in source.rglob("*.py") if begins.search(one.read_text())}
    listed = {module for one in LISTENERS.values() for module in one.modules}
    assert found - {"net/http_listener.py", "net/process.py"} == listed


def test_what_strangers_together_make_a_listener_hold_is_little() -> None:
    """A74 A89 A116: a limit that somebody raises is many times as much for all places."""
    held = {
        n: min(one.places * one.read_bytes, one.held_bytes_max or 1 << 62) for n, one in LISTENERS.items()
    }
    assert not {name: one for name, one in held.items() if one > 128 << 20}
    assert LISTENERS["mqtt"].read_bytes < 100_000, "a CONNECT with its will"


def is_closed(link: socket.socket) -> bool:
    """Return whether the other side has closed, whatever it said before."""
    link.setblocking(False)
    try:
        while link.recv(1 << 16):
            pass
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False
    except OSError:
        pass
    return True


def test_silent_and_slow_connections_end(served: dict[str, Listener]) -> None:
    """A74 A116: before the handshake and behind it, and with one byte now and then, at every listener."""
    words = HONEST | {"job desk": b"\x00\x00\xff\xff" + bytes(100), "mqtt": packet(0x10, b"x" * 9999)}
    words |= {name: len(BODY).to_bytes(4, "big") + BODY for name in ("broker", "key server")}
    waiting: dict[str, socket.socket] = {}
    try:
        for name, one in served.items():
            waiting |= {f"{name} reached": one.reached(), f"{name} silent": one.connected()}
            waiting[f"{name} slow"] = one.connected()
        said, began = 0, time.monotonic()
        while waiting and time.monotonic() < began + PATIENCE_S:
            for which, link in list(waiting.items()):
                name, _, how = which.rpartition(" ")
                if is_closed(link):
                    waiting.pop(which).close()
                elif how == "slow":
                    with suppress(OSError):
                        link.send(words[name][said : said + 1])
            said = min(said + 1, 50)
            time.sleep(0.1)
        assert not waiting, "these are still waited for"
    finally:
        for link in waiting.values():
            link.close()


def test_what_is_announced_too_long_is_not_waited_for(served: dict[str, Listener]) -> None:
    """A74 A116: it is refused from its first bytes, before anything is held for it."""
    said = {**dict.fromkeys(["domain", "console", "http"], b"HTTP/1.1 4"), "mqtt": b"\x20"}
    for name, one in served.items():
        with one.connected() as link, suppress(ConnectionError):
            link.sendall(TOO_LONG[name] + b"Host: x\r\n\r\n")
            assert link.recv(1 << 16).startswith(said.get(name, b"")), name
            if name not in said:
                wait_until(lambda link=link: is_closed(link), name)


def test_an_answer_that_is_not_read_is_dropped(served: dict[str, Listener]) -> None:
    """A89 A116: whether much waits for the reader or little, its connection ends with what waits."""
    before, held = {name: served[name].sockets() for name in LARGE}, list[socket.socket]()
    try:
        for name, path in LARGE.items():
            one = served[name]
            call = f"GET {path} HTTP/1.1\r\nHost: {one.address}\r\n\r\n".encode()
            for calls in (1, 4, 8, 16, 32, 64, 128):
                held.append(one.connected(small=True))
                held[-1].settimeout(1)
                with suppress(OSError):
                    held[-1].sendall(call * calls)
        for name in LARGE:
            wait_until(lambda name=name: served[name].sockets() <= before[name], f"{name} to end it")
    finally:
        for link in held:
            link.close()


def test_many_connections_of_one_address_keep_no_peer_out(served: dict[str, Listener]) -> None:
    """A88 A116: the oldest of them make room, and a peer elsewhere is served meanwhile."""
    for name, one in served.items():
        held = list[socket.socket]()
        try:
            for _ in range(PLACES + 8):
                held.append(one.connected(come_from="127.0.0.2"))
            wait_until(lambda held=held: sum(map(is_closed, held)) >= 8, f"{name}: the oldest to go")
            wait_until(one.is_serving, f"{name} to serve a peer")
        finally:
            for link in held:
                link.close()


def test_strangers_have_one_share_of_bytes(served: dict[str, Listener]) -> None:
    """A89 A116: at an HTTP interface, heads and bodies of all strangers together are bounded."""
    one, head = served["domain"], b"GET / HTTP/1.1\r\nX: " + b"x" * (90 << 10)
    fit, held = STRANGERS_BYTES // len(head), list[socket.socket]()
    try:
        for _ in range(PLACES - 4):
            held.append(one.connected(come_from="127.0.0.2"))
            with suppress(OSError):
                held[-1].sendall(head)
        wait_until(lambda: sum(map(is_closed, held)) >= len(held) - fit, "the oldest to go")
        wait_until(one.is_serving, "a peer to be served")
    finally:
        for link in held:
            link.close()
