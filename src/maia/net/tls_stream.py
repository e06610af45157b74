"""How do bytes cross one connection, at the least cost for each?

Links ask here, and nobody else reads or writes a socket. asyncio has TLS of
its own; it passes every write through three layers of Python and reserves
256 KiB for each connection. A stream does one `recv` and one `send` where
that does, and all streams of a loop receive into the same memory, because
each is done with it before another one's turn comes. OpenSSL does the
handshake, the records and the checks, as it does for asyncio
(docs/decisions/tls.md). A `SocketStream` moves the bytes; its two kinds seal them,
with TLS here, and with the records of a statement link in `statement_links.py`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from maia.credentials import Principal
from maia.credentials.identity import VerifiedIdentity
from maia.errors import MaiaError
from maia.net.tls import proved_principal

_RECEIVE_BYTES: Final = 256 << 10
"""How much is received at a time; less of it costs more turns of the loop for large frames."""
_RECORD_BYTES: Final = 16 << 10
"""What one TLS record holds."""
_ANSWER_BYTES_MAX: Final = 64 << 10
"""How much may wait of what TLS itself answers, such as to a peer that changes its keys all the time."""


class StreamOwner(Protocol):
    """Whoever is told what happens on a stream."""

    def data_received(self, data: memoryview) -> None:
        """Take bytes; they are gone when this returns."""

    def connection_lost(self, problem: Exception | None) -> None:
        """Take note that nothing more can be read or written, and why, if there is a reason."""

    def pause_writing(self) -> None:
        """Take note that the peer has to read before more should be written."""

    def resume_writing(self) -> None:
        """Take note that everything written has left."""


class _Memory:
    """What the streams of one loop receive into, one after the other."""

    __slots__ = ("plain", "sealed")

    def __init__(self) -> None:
        self.sealed = memoryview(bytearray(_RECEIVE_BYTES))
        # Records that a stream began to receive before add at most one to what comes now.
        self.plain = memoryview(bytearray(_RECEIVE_BYTES + 2 * _RECORD_BYTES))


_NOTHING: Final = memoryview(b"")
_MEMORIES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Memory]] = WeakKeyDictionary()
"""One for each loop: two loops may run in two threads, and then not one step after the other."""


async def open_stream(connection: socket.socket, context: ssl.SSLContext, *, accepts: bool) -> TlsStream:
    """Shake hands on a connected socket and return its stream; the socket is closed if that fails."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream = TlsStream(connection, context, accepts=accepts)
    try:
        await stream.shake_hands()
    except BaseException:
        connection.close()
        raise
    return stream


class SocketStream(ABC):
    """One connection whose peer has proved a key: what is sealed leaves, what arrives is opened."""

    __slots__ = (
        "_backlog",
        "_is_closing",
        "_is_lost",
        "_is_reading",
        "_loop",
        "_memory",
        "_owner",
        "_socket",
        "identity",
    )

    def __init__(self, connection: socket.socket) -> None:
        """Take a socket over."""
        self._loop = asyncio.get_running_loop()
        memory = _MEMORIES.get(self._loop)
        if memory is None:
            memory = _MEMORIES[self._loop] = _Memory()
        self._memory = memory
        self._socket = connection
        self._owner: StreamOwner | None = None
        self._backlog = _NOTHING
        self._is_reading = False
        self._is_closing = False
        self._is_lost = False
        self.identity: VerifiedIdentity | None = None
        """The statement by which the peer has proved its key, on a statement link."""

    # -------------------------------------------------------- what each kind does

    @abstractmethod
    def peer(self) -> Principal:
        """Return the key that the peer has proved; raise if it has proved none."""

    @abstractmethod
    def _seal(self, data: bytes) -> bytes:
        """Return what is sent for these bytes."""

    @abstractmethod
    def _seal_end(self) -> bytes:
        """Return what is sent to say that nothing follows."""

    @abstractmethod
    def _open(self, sealed: memoryview) -> None:
        """Hand what arrived to the owner, as far as it is whole."""

    def _cut_off(self) -> Exception | None:
        """Return the problem if the connection must not end here."""
        return None

    @property
    def remote(self) -> str | None:
        """Return the host at the other end, without its port; None if the connection is gone already."""
        try:
            found = self._socket.getpeername()
        except OSError:
            return None
        return str(found[0]) if isinstance(found, tuple) else None

    # -------------------------------------------------------- reading

    def start(self, owner: StreamOwner) -> None:
        """Tell `owner` what arrives from here on."""
        self._owner = owner
        self.resume_reading()

    @property
    def is_reading(self) -> bool:
        """Return whether what arrives is taken from TCP."""
        return self._is_reading

    def pause_reading(self) -> None:
        """Leave what arrives to TCP."""
        if self._is_reading and not self._is_closing:
            self._is_reading = False
            self._loop.remove_reader(self._socket)

    def resume_reading(self) -> None:
        """Read on."""
        if not self._is_reading and not self._is_lost:
            self._is_reading = True
            self._loop.add_reader(self._socket, self._receive)

    def _receive(self) -> None:
        sealed = self._memory.sealed
        try:
            received = self._socket.recv_into(sealed)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:
            self._lose(problem)
            return
        if not received:
            self._lose(None if self._is_closing else self._cut_off())
        elif not self._is_closing:  # after our close notice only the peer's is read
            self._open(sealed[:received])

    # -------------------------------------------------------- writing

    def write(self, data: bytes) -> None:
        """Seal and send; what TCP does not take waits here, and `pause_writing` says so."""
        if self._is_closing or self._is_lost:
            return
        try:
            sealed = self._seal(data)
        except (ssl.SSLError, MaiaError) as problem:
            self._lose(problem)
            return
        self._send(sealed)
        if self._backlog and self._owner is not None:
            self._owner.pause_writing()

    def _send(self, sealed: bytes) -> None:
        """Send what is sealed, behind what waits."""
        if self._backlog:
            self._backlog = memoryview(bytes(self._backlog) + sealed)  # seldom: writers wait for room
            return
        try:
            sent = self._socket.send(sealed)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as problem:
            self._lose(problem)
            return
        if sent < len(sealed):
            self._backlog = memoryview(sealed)[sent:]
            self._loop.add_writer(self._socket, self._send_backlog)

    def _send_backlog(self) -> None:
        try:
            sent = self._socket.send(self._backlog)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:
            self._lose(problem)
            return
        self._backlog = self._backlog[sent:]
        if self._backlog:
            return
        self._loop.remove_writer(self._socket)
        if self._is_closing:
            self._say_end()
        elif self._owner is not None:
            self._owner.resume_writing()

    # -------------------------------------------------------- the end

    @property
    def waiting(self) -> int:
        """Return how many bytes TCP has not taken yet."""
        return len(self._backlog)

    @property
    def is_closing(self) -> bool:
        """Return whether nothing more can be written."""
        return self._is_closing or self._is_lost

    def close(self) -> None:
        """Say that nothing follows, when all that was written has left, and wait for the peer's end."""
        if self._is_closing or self._is_lost:
            return
        self.resume_reading()
        self._is_closing = True
        self._send(self._seal_end())
        if not self._backlog and not self._is_lost:
            self._say_end()

    def abort(self) -> None:
        """End the connection at once."""
        self._lose(None)

    def _say_end(self) -> None:
        # Hanging up with bytes unread would make TCP throw away what the peer has not read yet.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _lose(self, problem: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._backlog = _NOTHING
        self._socket.close()
        if self._owner is not None:
            # Later, because the caller is in the middle of something.
            self._loop.call_soon(self._owner.connection_lost, problem)


class TlsStream(SocketStream):
    """A connection whose bytes OpenSSL seals."""

    __slots__ = ("_answers", "_incoming", "_outgoing", "tls")

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, *, accepts: bool) -> None:
        """Take a socket over, whose handshake comes next."""
        super().__init__(connection)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=accepts)
        self._answers = 0

    async def shake_hands(self) -> None:
        """Let TLS end its handshake; whoever waits sets the time that it may take."""
        while True:
            is_done = self._step_of_handshake()
            if said := self._outgoing.read():
                await self._loop.sock_sendall(self._socket, said)
            if is_done:
                return
            heard = await self._loop.sock_recv(self._socket, _RECORD_BYTES)
            if not heard:
                raise ConnectionResetError("the peer left in the middle of the handshake")
            self._incoming.write(heard)

    def _step_of_handshake(self) -> bool:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            with suppress(OSError):  # tell the peer why, if it still listens
                self._socket.send(self._outgoing.read())
            raise
        return True

    def peer(self) -> Principal:
        """Return whose leaf the peer has shown and proved."""
        return proved_principal(self.tls)

    def start(self, owner: StreamOwner) -> None:
        """Tell `owner` what arrives from here on."""
        super().start(owner)
        self._loop.call_soon(self._open, b"")  # what came right behind the handshake

    def _open(self, sealed: memoryview | bytes) -> None:
        if self._is_lost:
            return
        tls, incoming, plain = self.tls, self._incoming, self._memory.plain
        incoming.write(sealed)
        size, has_ended = 0, False
        try:
            # Asking for a record that is not there costs an exception, so we look first. A read takes a whole
            # record, so that OpenSSL never holds the rest of one that was opened.
            while incoming.pending:
                # With a buffer it returns how many bytes there were, which its stub does not say.
                read: int = tls.read(_RECORD_BYTES, plain[size:])  # type: ignore[assignment]
                if not read:
                    has_ended = True
                    break
                size += read
        except ssl.SSLWantReadError:
            pass  # the rest of a record is on its way
        except ssl.SSLError as problem:
            self._lose(problem)
            return
        if self._outgoing.pending:
            self._send_answers()
        if size and self._owner is not None:
            self._owner.data_received(plain[:size])
        if has_ended:
            self._lose(None)

    def _send_answers(self) -> None:
        self._answers = self._answers + self._outgoing.pending if self._backlog else 0
        if self._answers > _ANSWER_BYTES_MAX:
            self._lose(ConnectionAbortedError("the peer makes TLS answer and does not read"))
        else:
            self._send(self._outgoing.read())

    def _seal(self, data: bytes) -> bytes:
        written = self.tls.write(data)
        while written < len(data):  # one record each time
            written += self.tls.write(memoryview(data)[written : written + _RECORD_BYTES])
        return self._outgoing.read()

    def _seal_end(self) -> bytes:
        with suppress(ssl.SSLError):  # it wants the peer's goodbye, and we wait for the end of TCP instead
            self.tls.unwrap()
        return self._outgoing.read()
