"""What do a connection, a request and bytes of a stranger cost each listener? No more than it says here.

Real processes are asked: broker, key server, domain, console, MQTT and HTTP gateway, status pages. What is
compared is CPU time and memory of the process, never the clock; the prices are several times what a calm
machine needs, and a fault such as a page that computes for seconds is a hundred times above them. The pages
are those of the routes: a page that answers a stranger and has no price fails.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
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
from maia.net.observer import QuietRecords
from maia.net.status_endpoint import PUBLIC_PAGES, read_door
from maia.net.tls import dialling_context
from maia.testing import free_port, wait_until
from support.processes import running_maia
from support.raw_mqtt import connect, packet

CONNECTIONS, REQUESTS, BODY = 24, 8, b"x" * (64 << 10)
STRANGER = SigningKey.from_seed(b"a stranger who knows no price...")
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Price:
    """What a stranger may cost: milliseconds of CPU, and kilobytes of memory for as long as it stays."""

    ms: float
    kb: float = 0.0


CONNECTION = {
    "broker": Price(40, 1000),
    "key server": Price(40, 1000),
    "domain": Price(40, 1000),
    "console": Price(20, 600),
    "mqtt": Price(20, 600),
    "http": Price(20, 600),
    "status": Price(20, 600),
}
"""One connection that ends the handshake, if there is one, and says nothing."""
REFUSED = Price(30)
"""One request that is refused, for whatever reason."""
BYTES = Price(40, 1000)
"""Sixty-four kilobytes that no one asked for, on a connection of their own."""
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

    def connected(self) -> socket.socket:
        """Return a connection whose handshake has ended."""
        host, _, port = self.address.rpartition(":")
        link = socket.create_connection((host, int(port)), timeout=180)
        return link if self.tls is None else self.tls.wrap_socket(link)

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
    """Run the servers of an organisation with a sealed type, and a gateway and a console of it."""
    made = maia.Organisation.create(folder / "hospital")
    made.define("LabResult", patient="string", value="int", sealed=True)
    made.add_member("lab", may="publish:LabResult")
    (made.folder / "gateway.toml").write_text(
        f'listen = "127.0.0.1:{free_port()}"\n[http]\nlisten = "127.0.0.1:{free_port()}"\n'
    )
    shown = f"127.0.0.1:{free_port()}"
    commands = {
        "broker": ("broker", "--config", made.folder / "broker.toml"),
        "domain": ("domain", "serve", "--config", made.folder / "domain.toml"),
        "gateway": ("gateway", "mqtt", "--org", made.folder),
        "console": ("console", "serve", "--org", made.folder, "--listen", shown),
    }
    with ExitStack() as stack:
        pids: dict[str, int] = {}
        for name, words in commands.items():
            output = made.folder / f"{name}-output"
            output.mkdir()
            pids[name] = stack.enter_context(running_maia(*words, cwd=output)).pid
        for name in commands:
            output = made.folder / f"{name}-output" / "out.log"
            wait_until(lambda output=output: "listening" in output.read_text())
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
            Listener("mqtt", gateway["listen"], pids["gateway"]),
            Listener("http", gateway["http"]["listen"], pids["gateway"]),
            Listener("status", read_door(made.folder / "broker-data").address, pids["broker"]),
        )
        yield {one.name: one for one in found}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Listener]]:
    with listeners(tmp_path_factory.mktemp("priced")) as found:
        yield found


def paid(one: Listener, times: int, act: Callable[[], object]) -> float:
    """Return the CPU time that the process takes for each act of a stranger, the first one left out."""
    act()
    before = one.cpu_ms()
    for _ in range(times):
        act()
    return (one.cpu_ms() - before) / times


def test_what_one_connection_costs(served: dict[str, Listener]) -> None:
    """A87 A88 A89 A116: a handshake and an idle connection, at every listener."""
    assert served.keys() == CONNECTION.keys(), "a listener has no price"
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
    too_much = {n: had for n, had in spent.items() if had[0] > CONNECTION[n].ms or had[1] > CONNECTION[n].kb}
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
    if name in ("broker", "key server"):
        return len(BODY).to_bytes(4, "big") + BODY
    if name == "mqtt":
        return connect("nobody", "none", "x")
    return b""


def test_what_bytes_cost(served: dict[str, Listener]) -> None:
    """A74 A89 A116: bytes that no one asked for are refused, and leave nothing behind."""
    spent = {}
    for name, one in served.items():

        def send(one: Listener = one, name: str = name) -> None:
            if name not in ("broker", "key server", "mqtt"):
                one.ask("GET", "/health" if name != "console" else "/", BODY)
                return
            with one.connected() as link, suppress(OSError):
                link.sendall(said(name))
                link.sendall(packet(0x10, BODY) if name == "mqtt" else BODY)
                while link.recv(1 << 16):
                    pass

        send()
        memory = one.memory_kb()
        spent[name] = (paid(one, REQUESTS, send), (one.memory_kb() - memory) / REQUESTS)
    too_much = {name: had for name, had in spent.items() if had[0] > BYTES.ms or had[1] > BYTES.kb}
    assert not too_much, f"milliseconds and kilobytes of {len(BODY)} bytes, of {json.dumps(spent)}"
