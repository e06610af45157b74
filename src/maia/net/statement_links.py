"""How does a statement link open on a socket, and what may go over it?

A second kind of link beside TLS, for poor networks: two messages prove both keys
(`sealing/two_message.py`), and records with numbers follow. Where a node accepts
such links, and at which addresses it dials them, is written in its configuration.
Nothing is negotiated: a node never tries the other kind of link, so that a man in
the middle cannot talk it into one. A peer that is refused gets no answer.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from maia.credentials import Principal, principal_from_text
from maia.errors import MaiaError, Unavailable
from maia.events import Instant
from maia.net.tls_stream import SocketStream
from maia.sealing.two_message import HEAD_BYTES, LinkIdentity, OpenLink, Request, Responder, message_length


@dataclass(frozen=True, slots=True)
class StatementLinks:
    """How one node opens statement links: who it is, and which addresses it dials that way."""

    identity: Callable[[], LinkIdentity]
    """Called for each link: a node's statement is renewed while it runs."""
    clock: Callable[[], Instant]
    peers: Mapping[str, Principal] = field(default_factory=dict)
    """The addresses that are dialled by statement links, each with the one key that may answer there."""
    responder: Responder = field(init=False, repr=False)

    def responder_at(self, address: str) -> Principal | None:
        """Return the key that has to answer at an address; None for an address that is dialled by TLS.

        An address such as `ed25519:…@127.0.0.1:7401` says it itself.
        """
        key, at, _ = address.rpartition("@")
        return principal_from_text(key) if at else self.peers.get(address)

    def __post_init__(self) -> None:
        """Begin to remember requests now; older ones are refused."""
        object.__setattr__(self, "responder", Responder(self.clock()))


async def open_statement_stream(
    connection: socket.socket, links: StatementLinks, dialled: Principal | None
) -> StatementStream:
    """Exchange the two messages on a connected socket; the socket is closed if that fails."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        opened = await (_answer(connection, links) if dialled is None else _ask(connection, links, dialled))
    except BaseException:
        connection.close()
        raise
    return StatementStream(connection, opened)


async def _ask(connection: socket.socket, links: StatementLinks, responder: Principal) -> OpenLink:
    request = Request(links.identity(), responder, links.clock(), os.urandom)
    await asyncio.get_running_loop().sock_sendall(connection, request.data)
    return request.open(await _received(connection), links.clock())


async def _answer(connection: socket.socket, links: StatementLinks) -> OpenLink:
    request = await _received(connection)
    response, opened = links.responder.respond(links.identity(), request, links.clock(), os.urandom)
    await asyncio.get_running_loop().sock_sendall(connection, response)
    return opened


async def _received(connection: socket.socket) -> bytes:
    """Read one message and no byte more; a head that announces too much is refused before the rest."""
    head = await _exactly(connection, HEAD_BYTES)
    return head + await _exactly(connection, message_length(head))


async def _exactly(connection: socket.socket, size: int) -> bytes:
    loop, received = asyncio.get_running_loop(), bytearray()
    while len(received) < size:
        try:
            some = await loop.sock_recv(connection, size - len(received))
        except ConnectionError:
            some = b""
        if not some:
            raise Unavailable(
                "UNAVAILABLE-LINK-NOT-ANSWERED", "the peer hung up before the link was open; its log says why"
            )
        received += some
    return bytes(received)


class StatementStream(SocketStream):
    """A connection whose bytes the records of a statement link seal."""

    __slots__ = ("_link",)

    def __init__(self, connection: socket.socket, link: OpenLink) -> None:
        """Take a socket over, on which the two messages have been exchanged."""
        super().__init__(connection)
        self._link = link
        self.identity = link.peer

    def peer(self) -> Principal:
        """Return the key that signed one of the two messages."""
        return self._link.principal

    def _seal(self, data: bytes) -> bytes:
        return self._link.seal(data)

    def _seal_end(self) -> bytes:
        try:
            return self._link.seal_end()
        except MaiaError:  # no record is left for it, and the peer sees the end of TCP
            return b""

    def _open(self, sealed: memoryview) -> None:
        try:
            data = self._link.feed(sealed)
        except MaiaError as problem:
            self._lose(problem)
            return
        if data and self._owner is not None:
            self._owner.data_received(memoryview(data))
        if self._link.has_ended:
            self._lose(None)

    def _cut_off(self) -> Exception | None:
        try:
            self._link.check_end()
        except MaiaError as problem:
            return problem
        return None
