"""How does a machine next to the broker ask it how it is?

    GET /health    is the process alive?                    any user of this machine
    GET /ready     does it take on clients?                 any user of this machine
    GET /metrics   how much did it do? numbers, no names    any user of this machine
    GET /status    who is connected, which requests?  with the token from the data folder

The listener is bound to loopback and refuses to be bound to anything else. A
request that a browser was tricked into sending names another host and is
turned away. Nothing can be changed here, only read (A70).

Where an operator says so (setting `metrics`), a second listener answers other machines: the first three
pages, and never /status. The log has a warning about it at every start.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from maia.credentials.keys import same_secret
from maia.errors import BadInput, Unavailable
from maia.net.addresses import host_and_port
from maia.net.observer import Records
from maia.private_files import replace_file
from maia.sessions.admission import Places

DOOR_FILE: Final = "status.door"
"""The file in the data folder that says where the endpoint listens, and with which token to ask."""

REQUEST_BYTES_MAX: Final = 8192
REQUEST_S: Final = 5.0
CONNECTIONS_MAX: Final = 32
_TOKEN_BYTES: Final = 32
_NAMES_OF_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


class NoStatus(Unavailable):
    """No broker answers for this data folder."""

    code = "UNAVAILABLE-STATUS"


@dataclass(frozen=True, slots=True)
class StatusSource:
    """What the endpoint asks the broker for, each at the moment of a request."""

    is_ready: Callable[[], bool]
    metrics: Callable[[], bytes]
    status: Callable[[], Mapping[str, object]]
    why_not_ready: Callable[[], str] = lambda: ""
    detail: Callable[[], str] = lambda: ""
    """What is to be known of one that is ready."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where to ask, and the token that opens /status."""

    address: str
    token: str = field(repr=False)


def _ready(source: StatusSource) -> bytes:
    if source.is_ready():
        return _response("200 OK", f"ready\n{source.detail()}".encode())
    why = source.why_not_ready()
    body = f"not ready: {why}\n" if why else "not ready\n"
    return _response("503 Service Unavailable", body.encode())


PUBLIC_PAGES: Final[Mapping[str, Callable[[StatusSource], bytes]]] = {
    "/health": lambda _: _response("200 OK", b"ok\n"),
    "/ready": _ready,
    "/metrics": lambda source: _response("200 OK", source.metrics(), _PROMETHEUS),
}
"""What needs no token."""


class StatusEndpoint:
    """The listener: one short request for each connection, few at a time, each with a deadline."""

    def __init__(self, source: StatusSource, *, token: str | None) -> None:
        """Answer from `source`; `token` is needed for /status, which other machines do not get: None."""
        self._source = source
        self._token = None if token is None else token.encode()
        self._server: asyncio.Server | None = None
        self._asking: Places[asyncio.Task[None]] = Places(CONNECTIONS_MAX)

    async def start(self, listen: str) -> str:
        """Listen, and return the address with the port that was taken."""
        host, port = host_and_port(listen)
        if self._token is not None and not _is_loopback(host):
            raise BadInput(
                "INPUT-STATUS-NOT-LOOPBACK",
                f"`{listen}` can be reached from other machines; use 127.0.0.1 or [::1]",
            )
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=REQUEST_BYTES_MAX, backlog=CONNECTIONS_MAX
        )
        taken = self._server.sockets[0].getsockname()
        return f"[{taken[0]}]:{taken[1]}" if ":" in taken[0] else f"{taken[0]}:{taken[1]}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            with suppress(OSError):
                await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, where = asyncio.current_task(), writer.get_extra_info("peername")
        assert task is not None  # noqa: S101 - the server runs this in one
        self._asking.take(task, where[0] if where else None)
        oldest = self._asking.next_to_go() if self._asking.is_overfull else None
        if oldest is not None:  # connections that say nothing keep no reader out (A88)
            self._asking.leave(oldest)
            oldest.cancel()
        writer.transport.set_write_buffer_limits(0)  # an answer is read in time, to its last byte
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # too slow, too long or gone: such a peer gets no answer
        finally:
            self._asking.leave(task)
            if writer.transport.get_write_buffer_size():  # a close would wait for the reader (A116)
                writer.transport.abort()
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        try:
            line, *rest = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
            method, path, protocol = line.split(" ")
        except (UnicodeDecodeError, ValueError):
            return _response("400 Bad Request", b"bad request\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)
        }
        if not protocol.startswith("HTTP/1."):
            return _response("400 Bad Request", b"bad request\n")
        if (
            self._token is not None
            and headers.get("host", "").rpartition(":")[0].lower() not in _NAMES_OF_LOOPBACK
        ):
            # A page from elsewhere whose name was pointed at this machine says that name here.
            return _response("421 Misdirected Request", b"ask by the name of this machine\n")
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", b"only reading is possible\n")
        response = self._page(path, headers)
        return response if method == "GET" else response.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"

    def _page(self, path: str, headers: Mapping[str, str]) -> bytes:
        match path:
            case _ if path in PUBLIC_PAGES:
                return PUBLIC_PAGES[path](self._source)
            case "/status" if self._is_let_in(headers):
                body = json.dumps(self._source.status(), ensure_ascii=False, default=str)
                return _response("200 OK", body.encode(), _JSON)
            case "/status" if self._token is not None:
                return _response("401 Unauthorized", b"the token is in the data folder\n")
            case _:
                return _response("404 Not Found", b"not here\n")

    def _is_let_in(self, headers: Mapping[str, str]) -> bool:
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        is_bearer = self._token is not None and scheme.lower() == "bearer"
        return is_bearer and same_secret(shown.strip().encode(), self._token or b"")


@asynccontextmanager
async def answering(
    source: StatusSource,
    at: str,
    data: Path | None,
    *,
    metrics: str = "off",
    records: Records | None = None,
) -> AsyncIterator[str | None]:
    """Answer at an address while the body runs, which a file in `data` names; yield it, or None for `off`.

    Other machines are answered at `metrics`, and `records` says so.
    """
    async with _metrics_for_others(source, metrics, records), _on_loopback(source, at, data) as address:
        yield address


@asynccontextmanager
async def _metrics_for_others(source: StatusSource, at: str, records: Records | None) -> AsyncIterator[None]:
    if at == "off":
        yield
        return
    endpoint = StatusEndpoint(source, token=None)
    address = await endpoint.start(at)
    if records is not None:
        records.note("metrics-open", {"address": address, "message": "other machines can read the metrics"})
    try:
        yield
    finally:
        await endpoint.stop()


@asynccontextmanager
async def _on_loopback(source: StatusSource, at: str, data: Path | None) -> AsyncIterator[str | None]:
    if at == "off":
        yield None
        return
    endpoint = StatusEndpoint(source, token=(token := new_token()))
    address = await endpoint.start(at)
    try:
        if data is not None:
            new_door(data, address, token)
        yield address
    finally:
        await endpoint.stop()
        if data is not None:
            with suppress(OSError):
                (data / DOOR_FILE).unlink()


def new_door(data: Path, address: str, token: str) -> Path:
    """Write where to ask and the token to a file that only the broker's user can read."""
    said = json.dumps({"address": address, "token": token, "pid": os.getpid()}) + "\n"
    replace_file(data / DOOR_FILE, said.encode("ascii"))
    return data / DOOR_FILE


def new_token() -> str:
    """Make a token from the random bytes of the operating system; it lives as long as the process."""
    return os.urandom(_TOKEN_BYTES).hex()


def process_folders(data: Path) -> list[Path]:
    """Return the data folders of the processes of a broker, in their order; none of a broker without any."""
    return sorted(data.glob("process-*"), key=lambda one: int(one.name.removeprefix("process-")))


def read_door(data: Path) -> Door:
    """Read where the broker of a data folder answers; raise NoStatus if there is none."""
    path = data / DOOR_FILE
    try:
        found = json.loads(path.read_text(encoding="ascii")[:4096])
        return Door(str(found["address"]), str(found["token"]))
    except FileNotFoundError:
        raise NoStatus(f"no broker runs with the data folder `{data}`") from None
    except OSError as problem:
        raise NoStatus(f"`{path}` cannot be read: {problem.strerror}") from problem
    except (ValueError, KeyError, TypeError):
        raise NoStatus(f"`{path}` was not written by a broker") from None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _response(status: str, body: bytes, kind: str = _TEXT) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


# ------------------------------------------------------------ for commands on the same machine


_TIMEOUT_S: Final = 30.0
_ANSWER_BYTES_MAX: Final = 64 << 20


def fetch_status(door: Door) -> dict[str, object]:
    """Ask at the door with its token; raise NoStatus if no broker answers properly."""
    host, port = host_and_port(door.address)
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/status", headers={"Authorization": f"Bearer {door.token}"})
        response = connection.getresponse()
        body = response.read(_ANSWER_BYTES_MAX)
        found = json.loads(body) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise NoStatus(f"no broker answers at `{door.address}`: {str(problem)[:100]}") from problem
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise NoStatus(
            f"the broker at `{door.address}` did not accept the token: it was started anew meanwhile"
        )
    return found
