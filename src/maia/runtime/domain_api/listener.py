"""How does the HTTP interface listen? TLS 1.3 with the domain's key, few connections, short waits.

uvicorn does the talking. Signals are the process's own business, so its
handlers are left out; a connection that begins a request and does not end it,
or takes no more of an answer, is closed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from maia.credentials import SigningKey
from maia.runtime.addresses import bind
from maia.runtime.tls import serving_context

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["listening"]

CONNECTIONS_MAX: Final = 256
HEAD_BYTES_MAX: Final = 96 << 10
HEAD_S: Final = 10.0
READ_S: Final = 30.0
_KEEP_ALIVE_S: Final = 30
_GRACE_S: Final = 5


class _Server(uvicorn.Server):
    """A server that leaves signals to the process it is part of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class _ImpatientProtocol(H11Protocol):
    """A connection that is closed if the head of a request, or its reader, keeps us waiting."""

    _head: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its parent
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._head = self.loop.call_later(HEAD_S, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Wait no longer for a head that is there; begin to wait for one that has begun."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            _cancel(self._head)
            self._head = None
        elif self._head is None and self.conn.trailing_data[0]:
            self._head = self.loop.call_later(HEAD_S, self.transport.abort)

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
        _cancel(self._head)
        _cancel(self._reader)
        super().connection_lost(exc)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


@asynccontextmanager
async def listening(app: ASGIApp, key: SigningKey, listen: str) -> AsyncIterator[str]:
    """Serve while the body runs; yield the address with the port that was taken."""
    taken, address = bind(listen)
    # Every connection inherits it; head and body of an answer would otherwise wait for one another.
    taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = _Server(_config(app, key))
    task = asyncio.create_task(server.serve(sockets=[taken]))
    try:
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        if task.done():
            await task  # says why
        yield address
    finally:
        server.should_exit = True
        await task
        _close(taken)


def _config(app: ASGIApp, key: SigningKey) -> uvicorn.Config:
    # The key never lies in a file for uvicorn to read, so the context is made here.
    context = serving_context(key)
    return uvicorn.Config(
        app,
        ssl_context_factory=lambda _config, _default: context,
        http=_ImpatientProtocol,
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        log_level="critical",  # what strangers send writes no line of its own; the interface counts refusals
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )


def _close(taken: socket.socket) -> None:
    if taken.fileno() >= 0:
        taken.close()
