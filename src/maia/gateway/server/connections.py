"""Which MQTT clients are connected, and how do their bytes reach their sessions?

Before its CONNECT a client has proved nothing: it gets little time, little memory, and one of few places.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial
from typing import Final

from maia.credentials import Principal
from maia.errors import MaiaError, ProtocolViolation, Unavailable
from maia.gateway.mqtt.codec import PacketSplitter, decode
from maia.gateway.mqtt.packets import V3, V5, ConnectPacket, MqttViolation, ReasonCode
from maia.gateway.mqtt.session import refused_connection
from maia.gateway.server.driver import Driver
from maia.gateway.server.gateway import BadClientId, Gateway
from maia.gateway.server.shares import AccountQuota
from maia.net.addresses import keep_little_unsent
from maia.net.doorman import Doorman
from maia.net.tls import principal_of_leaf
from maia.net.tls_stream import SocketStream, TlsStream, open_stream

FIRST_PACKET_MAX: Final = 80 << 10
"""The longest CONNECT: a will of 64 KiB fits."""
CLOSE_S: Final = 5.0
"""How long a client may take to read its last bytes and hang up."""
_ACCEPT_PAUSE_S: Final = 0.1


class PlainStream(SocketStream):
    """A connection on loopback without TLS."""

    __slots__ = ()

    def peer(self) -> Principal:
        """Raise: nothing was proved."""
        raise ProtocolViolation("PROTOCOL-TRANSPORT", "the connection has no TLS")

    def _seal(self, data: bytes) -> bytes:
        return data

    def _seal_end(self) -> bytes:
        return b""

    def _open(self, sealed: memoryview) -> None:
        if self._owner is not None:
            self._owner.data_received(sealed)


async def accept_clients(
    gateway: Gateway, listening: socket.socket, context: ssl.SSLContext | None, doorman: Doorman
) -> None:
    """Accept connections until cancelled; with TLS, if there is a context."""
    loop = asyncio.get_running_loop()
    keep_little_unsent(listening)
    with listening:
        while True:
            try:
                accepted, where = await loop.sock_accept(listening)
            except OSError:  # no file descriptors left, for instance: others may close some
                await asyncio.sleep(_ACCEPT_PAUSE_S)
            else:
                address = str(where[0])
                doorman.take(
                    accepted, address, partial(ClientConnection, gateway, accepted, context, address)
                )


class ClientConnection:
    """One TCP or TLS connection of an MQTT client."""

    def __init__(
        self, gateway: Gateway, accepted: socket.socket, context: ssl.SSLContext | None, address: str
    ) -> None:
        """Shake hands, and wait for the CONNECT, not for long."""
        self._gateway = gateway
        self.account: str | None = None
        """The account whose share it is counted in, once its client has proved one."""
        self._splitter = PacketSplitter(FIRST_PACKET_MAX)
        self._early = bytearray()
        self._driver: Driver | None = None
        self._welcoming: asyncio.Task[None] | None = None
        self._stream: SocketStream | None = None
        self._accepted = accepted
        self._opening = asyncio.create_task(self._open(context))
        self._opening.add_done_callback(self._opened)
        seconds = gateway.config.connect_s
        self._timer = asyncio.get_running_loop().call_later(seconds, self.drop)
        gateway.admitted(self, address)

    async def _open(self, context: ssl.SSLContext | None) -> None:
        stream: SocketStream
        if context is None:
            self._accepted.setblocking(False)
            self._accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = PlainStream(self._accepted)
        else:
            try:
                stream = await open_stream(self._accepted, context, accepts=True)
            except OSError:  # that of TLS is one
                return
        self._stream = stream
        stream.start(self)

    def _opened(self, opening: asyncio.Task[None]) -> None:
        del opening
        if self._stream is None:  # it failed, or was cancelled, perhaps before its first step
            self._accepted.close()
            self._gone()

    def drop(self) -> None:
        """End the connection at once."""
        if self._stream is None:
            self._opening.cancel()
        else:
            self._stream.abort()

    # -------------------------------------------------------- what the session asks for

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self._stream is not None:
            self._stream.write(data)

    def close(self) -> None:
        """Close behind what was written; a client that does not hang up is not waited for."""
        if self._stream is not None:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(CLOSE_S, self.drop)
            self._stream.close()

    def read_on(self, wanted: bool) -> None:
        """Read on, or leave what arrives to TCP."""
        if self._stream is not None and not self._stream.is_closing:
            if wanted:
                self._stream.resume_reading()
            else:
                self._stream.pause_reading()

    @property
    def unread(self) -> int:
        """Return how many bytes wait for the client to read."""
        return 0 if self._stream is None else self._stream.waiting

    # -------------------------------------------------------- what the stream tells

    def data_received(self, data: memoryview) -> None:
        """Hand bytes to the session, once there is one."""
        if self._driver is not None:
            self._driver.received(data)
            return
        if self._welcoming is not None:
            self._early += data  # reading is paused, and this was under way
            if len(self._early) > FIRST_PACKET_MAX:
                self.drop()
            return
        try:
            first = next(self._splitter.feed(data), None)
            if first is None:
                return
            packet = decode(*first, 0)
            if not isinstance(packet, ConnectPacket):
                raise MqttViolation("the first packet is not a CONNECT", ReasonCode.PROTOCOL_ERROR)
        except MqttViolation as problem:
            said = V5 if problem.reason is not ReasonCode.UNSUPPORTED_VERSION else V3
            self._refuse(said, problem.reason, problem)
            return
        self.read_on(False)
        self._welcoming = asyncio.create_task(self._welcome(packet))

    async def _welcome(self, packet: ConnectPacket) -> None:
        try:
            driver, assigned = await self._gateway.session_for(self, packet, self._proved())
        except (MaiaError, OSError) as problem:
            self._refuse(packet.version, _connack_reason(problem), problem)
            return
        self._gateway.welcomed(self)
        self._timer.cancel()
        if self._stream is None or self._stream.is_closing:
            driver.let_go()
            return
        self._driver = driver
        driver.attach(self, packet, assigned)
        rest = self._splitter.take_rest() + self._early
        if rest:
            driver.received(rest)

    def _proved(self) -> Principal | None:
        """Return whose key the client has proved in the TLS handshake, if it has shown one."""
        leaf = self._stream.tls.getpeercert(binary_form=True) if isinstance(self._stream, TlsStream) else None
        return None if leaf is None else principal_of_leaf(leaf)

    def _refuse(self, version: int, reason: ReasonCode, problem: Exception) -> None:
        """Answer that there is no session for this client, and close."""
        known = problem if isinstance(problem, MaiaError) else None
        self.write(refused_connection(version, reason, known))
        self.close()
        if known is not None:
            self._gateway.note("refused", known.as_record())

    def pause_writing(self) -> None:
        """Stop sending: the client does not read."""
        if self._driver is not None and self._driver.connection is self:
            self._driver.writable(False)

    def resume_writing(self) -> None:
        """Go on."""
        if self._driver is not None and self._driver.connection is self:
            self._driver.writable(True)

    def connection_lost(self, problem: Exception | None) -> None:
        """Let the session know."""
        del problem
        self._gone()
        if self._driver is not None:
            self._driver.lost(self)

    def _gone(self) -> None:
        self._timer.cancel()
        self._gateway.gone(self)


def _connack_reason(problem: Exception) -> ReasonCode:
    match problem:
        case BadClientId():
            return ReasonCode.BAD_CLIENT_ID
        case AccountQuota():
            return ReasonCode.QUOTA_EXCEEDED
        case Unavailable() | OSError():
            return ReasonCode.SERVER_UNAVAILABLE
        case _:
            return ReasonCode.NOT_AUTHORIZED
