"""How is a tester asked at an address that a certificate names?

With suspicion. The issuer of a certificate chooses the address, so nothing is
sent there before TLS has proved that the tester itself answers, by the key
that the certificate names beside the address: a connection to anything else
ends in the handshake. Only `https://HOST:PORT/v1/statements` is dialled, no
redirect is followed, no proxy is asked, nothing is unpacked, and every answer
has a size and a time that it must not pass.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

import anyio
import httpcore
import httpx
import msgspec

from maia.api import endpoints
from maia.api.client import (
    ANOTHER_RUN,
    DomainSaid,
    authorization,
    decoded_answer,
    problem_told,
    run_of,
    unreachable,
)
from maia.api.endpoints import Asked, Endpoint
from maia.clock import system_now
from maia.credentials import Principal, SigningKey
from maia.errors import BadInput, ProtocolViolation, Unavailable
from maia.net.addresses import BadAddress, host_and_port
from maia.net.tls import pinning_context
from maia.wire.api_requests import ApiCall

CALL_S: Final = 10.0
"""How long a question to one location may take, from the first packet to the last."""
ANSWER_BYTES_MAX: Final = 16 << 20
"""Room for the lists of a domain that has revoked as much as a list can name."""
STATEMENTS_PATH: Final = endpoints.STATEMENTS.path
_LOCATION: Final = re.compile(r"https://([0-9A-Za-z.\-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?(/.*)")
_CONNECT_SHARE: Final = 0.4
_HTTPS: Final = 443
_ONE_CONNECTION: Final = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None)
_Answer = TypeVar("_Answer")


class BadLocation(BadInput):
    """A certificate names a place for statements that is not `https://HOST:PORT/v1/statements`."""

    code = "INPUT-LOCATION"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a tester's interface is said to be."""

    host: str
    port: int

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def location_from_text(text: str) -> Location:
    """Read a location; refuse every place and every way of asking that a domain's server does not have."""
    found = _LOCATION.fullmatch(text)
    if found is None or found[3] != STATEMENTS_PATH:
        shown = text[:80].encode("unicode_escape").decode()
        raise BadLocation(f"`{shown}` is not a location such as `https://127.0.0.1:7600{STATEMENTS_PATH}`")
    try:
        return Location(*host_and_port(found[1] + (found[2] or f":{_HTTPS}")))
    except BadAddress as problem:
        raise BadLocation(problem.message) from problem


class _ClosingBackend(httpcore.AnyIOBackend):
    """Connections whose sockets are closed where a handshake is cancelled; httpcore leaves them to chance."""

    async def connect_tcp(self, *where: Any, **how: Any) -> httpcore.AsyncNetworkStream:
        # Any: as httpcore has it.
        stream = await super().connect_tcp(*where, **how)
        shake_hands = stream.start_tls

        async def start_tls(*given: Any, **named: Any) -> httpcore.AsyncNetworkStream:
            try:
                return await shake_hands(*given, **named)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await stream.aclose()
                raise

        stream.start_tls = start_tls  # type: ignore[method-assign]  # of this connection only
        return stream


class TesterCalls:
    """Questions to the holder of the key `tester`, at one location. Each has a deadline of its own.

    With `lines`, the connection stays open for the next question.
    """

    def __init__(
        self,
        tester: Principal,
        location: Location,
        *,
        call_s: float | None = None,
        lines: ConnectionPool | None = None,
    ) -> None:
        """Open no connection yet; take `CALL_S` for each question, or less."""
        self._tester, self._location, self._lines = tester, location, lines
        self._call_s = CALL_S if call_s is None else min(call_s, CALL_S)

    async def ask(
        self, endpoint: Endpoint[Asked, _Answer], asked: Asked | None = None, key: SigningKey | None = None
    ) -> _Answer:
        """Make a call; one that is not public is signed by `key` for the tester's present run."""
        call = _Call(endpoint, b"" if asked is None else msgspec.json.encode(asked), key)
        where = self._location.address
        try:
            # A deadline for the whole: a server that sends a byte a second gets no longer than this.
            async with asyncio.timeout(self._call_s):
                return await self._asked(call)
        except DomainSaid as problem:
            raise problem.as_ours() from None
        except TimeoutError:
            raise Unavailable(
                "UNAVAILABLE-DOMAIN", f"`{where}` has not answered within {self._call_s:g} seconds"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            raise unreachable(problem, where, self._tester) from problem

    async def _asked(self, call: _Call[_Answer]) -> _Answer:
        """Ask; if a connection from before turns out to be broken, or of an earlier run, ask once anew."""
        line: Line | None = None
        try:
            async with self._line() as line:
                return await self._said(line, call)
        except (httpx.TransportError, DomainSaid) as problem:
            is_old = line is not None and not line.is_fresh
            is_mended = not isinstance(problem, DomainSaid) or problem.code == ANOTHER_RUN
            if not is_old or not is_mended:
                raise
        async with self._line(fresh=True) as line:
            return await self._said(line, call)

    async def _said(self, line: Line, call: _Call[_Answer]) -> _Answer:
        headers = {} if call.key is None else await self._headers(line, call, call.key)
        return await _sent(line.http, call, headers)

    @asynccontextmanager
    async def _line(self, *, fresh: bool = False) -> AsyncIterator[Line]:
        if self._lines is None:
            async with self._client() as http:
                yield Line(http)
            return
        async with self._lines.lent(self._tester, self._location.address, self._client, fresh=fresh) as line:
            yield line

    def _client(self) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(
            verify=pinning_context(self._tester), trust_env=False, limits=_ONE_CONNECTION
        )
        transport._pool._network_backend = _ClosingBackend()  # httpx hands none on to the pool
        return httpx.AsyncClient(
            base_url=f"https://{self._location.address}",
            transport=transport,
            # Connection and handshake give up by themselves before the deadline: a handshake that is
            # cancelled would leave its socket behind.
            timeout=httpx.Timeout(self._call_s, connect=_CONNECT_SHARE * self._call_s),
            trust_env=False,
            follow_redirects=False,
            headers={"Accept-Encoding": "identity"},
        )

    async def _headers(self, line: Line, call: _Call[_Answer], key: SigningKey) -> Mapping[str, str]:
        if line.run is None:
            line.run = run_of(await _sent(line.http, _Call(endpoints.DOMAIN), {}))
        asked = call.endpoint
        made = ApiCall.of(asked.method, asked.path, body=call.content, credentials=b"", once="")
        return {"Authorization": authorization(made, self._tester, line.run, system_now(), key)}


@dataclass(frozen=True, slots=True)
class _Call(Generic[_Answer]):
    """What is asked, and who signs it; a public page is fetched unsigned."""

    endpoint: Endpoint[Any, _Answer]
    content: bytes = field(default=b"", repr=False)
    key: SigningKey | None = field(default=None, repr=False)


async def _sent(http: httpx.AsyncClient, call: _Call[_Answer], headers: Mapping[str, str]) -> _Answer:
    asked = call.endpoint
    async with http.stream(asked.method, asked.path, content=call.content, headers=dict(headers)) as response:
        body = await _read(response)
    if response.status_code == httpx.codes.OK:
        return decoded_answer(body, asked.answer)
    if response.is_redirect or response.is_success:
        raise ProtocolViolation(
            "PROTOCOL-DOMAIN-ANSWER", "a tester answers its questions itself, without redirects"
        )
    raise problem_told(body)


async def _read(response: httpx.Response) -> bytes:
    # What was packed is not unpacked: a few bytes could become very many.
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ProtocolViolation(
            "PROTOCOL-DOMAIN-ANSWER", "an answer was packed, although that was not asked for"
        )
    parts, size = [], 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise ProtocolViolation(
                "PROTOCOL-DOMAIN-ANSWER",
                f"an answer is larger than the {ANSWER_BYTES_MAX} bytes that are read",
            )
        parts.append(part)
    return b"".join(parts)


# ------------------------------------------------------------ the connection pool

# A client whose right is rechecked within every lease asks the same tester again and again, and most of what
# a question costs is the handshake. A connection waits a few seconds for the next question to the same tester
# at the same place, and serves one question at a time. TLS has proved one key on it, and it serves that key
# alone. A connection that had an error is closed.


OPEN_MAX: Final = 8
"""Connections that wait for another question at one time; the one that has waited longest is closed first."""
IDLE_S: Final = 20.0
"""How long a connection waits: less than a domain waits before it hangs up."""

_Whom: TypeAlias = tuple[Principal, str]


@dataclass(slots=True, eq=False)
class Line:
    """One connection to one tester, and what is known of its peer."""

    http: httpx.AsyncClient
    run: bytes | None = None
    """The run of the tester's server for which calls are signed, once it was asked."""
    is_fresh: bool = True
    """Whether it has served no question yet."""
    timer: asyncio.TimerHandle | None = None
    """Closes it when it has waited for long enough."""


class ConnectionPool:
    """The connections that wait for another question; they belong to one event loop."""

    __slots__ = ("_closing", "_idle_s", "_is_closed", "_waiting")

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        self._idle_s, self._is_closed = idle_s, False
        self._waiting: OrderedDict[Line, _Whom] = OrderedDict()  # the one that has waited longest comes first
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def lent(
        self, tester: Principal, address: str, make: Callable[[], httpx.AsyncClient], *, fresh: bool = False
    ) -> AsyncIterator[Line]:
        """Lend a connection to the holder of the key `tester` at an address; a new one if none waits."""
        whom = tester, address
        fitting = [] if fresh else [line for line, one in self._waiting.items() if one == whom]
        line = fitting[-1] if fitting else Line(make())  # the one that was used last
        self._taken(line)
        try:
            yield line
        except BaseException:
            await line.http.aclose()
            raise
        line.is_fresh, self._waiting[line] = False, whom
        line.timer = asyncio.get_running_loop().call_later(self._idle_s, self._close, line)
        while len(self._waiting) > (0 if self._is_closed else OPEN_MAX):
            await self._taken(next(iter(self._waiting))).http.aclose()

    def _taken(self, line: Line) -> Line:
        """Let a connection wait no longer."""
        self._waiting.pop(line, None)
        if line.timer is not None:
            line.timer.cancel()
        return line

    def _close(self, line: Line) -> None:
        task = asyncio.create_task(self._taken(line).http.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Close what waits; what is lent is closed when it comes back."""
        self._is_closed = True
        while self._waiting:
            await self._taken(next(iter(self._waiting))).http.aclose()
        await asyncio.gather(*self._closing, return_exceptions=True)
