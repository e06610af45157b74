"""How does an HTTP interface listen? With few connections and short waits; a domain's and a gateway's.

uvicorn does the talking. Signals are the process's own business, so its
handlers are left out; a connection that begins a request and does not end it,
or takes no more of an answer, is closed. Where there are too many connections
whose caller is not known, one goes, the oldest from where most of them come,
whatever it waits for, a request, a body or a reader: strangers that hold connections keep no caller
out (A88). The interface says with `let_in` that a caller is known, until it is answered.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from maia.net.addresses import bind, keep_little_unsent
from maia.net.doorman import Doorman
from maia.sessions.admission import Places

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


LEAF: Final = "maia.leaf"
"""Where the scope of a call has the TLS certificate, in DER, of a caller that has shown one."""

_LET_IN: Final = "maia.let_in"

CONNECTIONS_MAX: Final = 256
STRANGERS_MAX: Final = 192
"""Connections at one time whose caller is not known, those between two calls among them."""
STRANGERS_BYTES_MAX: Final = 32 << 20
"""What all of these may have sent, in calls that are not answered yet."""
HALF_OPEN_MAX: Final = 128
"""Connections at one time that have not ended the handshake of TLS."""
HANDSHAKE_S: Final = 10.0
HEAD_BYTES_MAX: Final = 96 << 10
HEAD_S: Final = 10.0
"""How long the head of a request, and its body where the caller is not known, may take to arrive."""
READ_S: Final = 30.0
CLOSE_S: Final = 5.0
"""How long a caller may take to read its last bytes, and to end TLS."""
_KEEP_ALIVE_S: Final = 30
_GRACE_S: Final = 5
_ACCEPT_PAUSE_S: Final = 0.1


def let_in(scope: Scope) -> None:
    """Take note that the caller of a request is known: its connection makes room for no stranger's."""
    known = scope.get(_LET_IN)
    if known is not None:
        known()


class _Server(uvicorn.Server):
    """A server that leaves signals to the process it is part of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class _Strangers(Places["_ImpatientProtocol"]):
    """Connections whose caller is not known, and what they have sent."""

    __slots__ = ("_bytes",)

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._bytes = 0

    @property
    def is_overfull(self) -> bool:
        return super().is_overfull or self._bytes > STRANGERS_BYTES_MAX

    def receive(self, one: _ImpatientProtocol, size: int) -> None:
        """Take note of bytes."""
        one.sent += size
        self._bytes += size

    def leave(self, one: _ImpatientProtocol) -> None:
        self._bytes -= one.sent
        one.sent = 0
        super().leave(one)


class _ImpatientProtocol(H11Protocol):
    """A connection that is closed if a request, or the reader of an answer, keeps us waiting."""

    _request: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None
    _is_known = False
    sent = 0
    """Bytes since it is a stranger's."""

    def __init__(self, server: uvicorn.Server, strangers: _Strangers) -> None:
        """Serve for a server; `strangers` are its connections whose caller is not known."""
        super().__init__(server.config, server.server_state, server.lifespan.state)
        self._strangers = strangers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its parent
        """Begin to wait for the first request."""
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        leaf = None if tls is None else tls.getpeercert(binary_form=True)
        if tls is None:
            # A reader has `READ_S` for whatever waits: without TLS, a close would wait for ever (A116).
            transport.set_write_buffer_limits(0)
        app: ASGIApp = self.app

        async def of_connection(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, LEAF: leaf, _LET_IN: self._let_in}, receive, send)

        self.app = of_connection
        self._await_request()
        self._take_place()

    def _take_place(self) -> None:
        """Take a place among the strangers, for which another one may have to go."""
        self._strangers.leave(self)  # it is the youngest again
        self._strangers.take(self, self.client[0] if self.client else None)
        self._make_room()

    def _make_room(self) -> None:
        """End connections until no more strangers are there, and have sent, than may."""
        while self._strangers.is_overfull and (waits := self._strangers.next_to_go()) is not None:
            self._strangers.leave(waits)
            waits.transport.abort()

    def _let_in(self) -> None:
        self._is_known = True
        self._strangers.leave(self)
        self._await_request(False)

    def _await_request(self, is_awaited: bool = True) -> None:
        """Begin to wait for a request, unless that has begun; or end it."""
        if not is_awaited:
            _cancel(self._request)
            self._request = None
        elif self._request is None:
            self._request = self.loop.call_later(HEAD_S, self.transport.abort)

    def on_response_complete(self) -> None:
        """Have no known caller again, unless the next request was there already."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._is_known = False
            self._take_place()

    def data_received(self, data: bytes) -> None:
        """Wait no longer for a request that is there; begin to wait for one that has begun."""
        if not self._is_known:
            self._strangers.receive(self, len(data))
            self._make_room()
        super().data_received(data)
        if self.conn.their_state is h11.SEND_BODY:
            self._await_request(not self._is_known)
        elif self.conn.their_state is not h11.IDLE:
            self._await_request(False)
        elif self.conn.trailing_data[0]:
            self._await_request()
        elif self.cycle is not None:  # the rest of a body that was not wanted
            self._await_request(False)

    def pause_writing(self) -> None:
        """Begin to wait for a reader."""
        super().pause_writing()
        self._reader = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Wait for a reader no more."""
        _cancel(self._reader)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._strangers.leave(self)
        _cancel(self._request)
        _cancel(self._reader)
        super().connection_lost(exc)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


@asynccontextmanager
async def listening(
    app: ASGIApp,
    context: ssl.SSLContext | None,
    listen: str,
    *,
    connections: int = CONNECTIONS_MAX,
    doorman: Doorman | None = None,
) -> AsyncIterator[str]:
    """Serve while the body runs, in clear without a context; yield the address with the port taken."""
    taken, address = bind(listen)
    # Every connection inherits it; head and body of an answer would otherwise wait for one another.
    taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_little_unsent(taken)
    server = _Server(_config(app, connections))
    task = asyncio.create_task(server.serve(sockets=[]))
    accepting: asyncio.Task[None] | None = None
    try:
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        if task.done():
            await task  # says why
        # However few connections there may be, callers have a quarter of them to themselves.
        strangers = min(STRANGERS_MAX, connections * 3 // 4)
        accepting = asyncio.create_task(_Door(server, context, strangers, doorman).accept(taken))
        yield address
    finally:
        if accepting is not None:
            accepting.cancel()
            with suppress(asyncio.CancelledError):
                await accepting
        server.should_exit = True
        await task
        taken.close()


class _Door:
    """Accepts connections for a server: uvicorn would wait for as many handshakes as there are sockets."""

    def __init__(
        self, server: uvicorn.Server, context: ssl.SSLContext | None, strangers: int, doorman: Doorman | None
    ) -> None:
        # The key never lies in a file for uvicorn to read, so the context is made here.
        self._server, self._context, self._doorman = server, context, doorman
        self._strangers = _Strangers(strangers)
        self._half_open: Places[asyncio.Task[None]] = Places(HALF_OPEN_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections until this is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connection, where = await loop.sock_accept(listening)
                except OSError:  # no file descriptors left, for instance: others may close some
                    await asyncio.sleep(_ACCEPT_PAUSE_S)
                else:
                    take_on = partial(self._take_on, connection, address := str(where[0]))
                    if self._doorman is None:
                        take_on()
                    else:
                        self._doorman.take(connection, address, take_on)
        finally:
            for task in self._tasks:
                task.cancel()

    def _take_on(self, connection: socket.socket, address: str) -> None:
        task = asyncio.create_task(self._shake_hands(connection))
        self._tasks.add(task)
        self._half_open.take(task, address)
        waits = self._half_open.next_to_go() if self._half_open.is_overfull else None
        if waits is not None:
            self._half_open.leave(waits)
            waits.cancel()

        def done(ended: asyncio.Task[None]) -> None:
            self._tasks.discard(ended)
            self._half_open.leave(ended)
            if ended.cancelled():  # perhaps before its first step, where nothing else closes the socket
                connection.close()

        task.add_done_callback(done)

    async def _shake_hands(self, connection: socket.socket) -> None:
        with suppress(OSError):  # that of TLS is one
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _ImpatientProtocol(self._server, self._strangers),
                connection,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else HANDSHAKE_S,
                ssl_shutdown_timeout=None if self._context is None else CLOSE_S,
            )


def _config(app: ASGIApp, connections: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_ImpatientProtocol,
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        log_level="critical",  # what strangers send writes no line of its own; the interface counts refusals
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=connections,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )
