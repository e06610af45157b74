"""MQTT by hand, for clients that no library would be: silent readers, wills that wait, endless packets."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field

from support.mqtt_city import WAIT_S, City

V5 = 5


def text(word: bytes) -> bytes:
    """Return a text or bytes as MQTT writes them."""
    return len(word).to_bytes(2, "big") + word


def packet(first: int, body: bytes) -> bytes:
    """Return a packet with its length."""
    head, rest = bytearray([first]), len(body)
    while rest > 127:
        head.append(rest & 127 | 128)
        rest >>= 7
    head.append(rest)
    return bytes(head) + body


def connect(
    account: str, token: str, client_id: str, *, expiry_s: int = 0, will: tuple[str, bytes, int] | None = None
) -> bytes:
    """Return the CONNECT of version 5; a will is topic, payload and delay in seconds."""
    flags, said = 0xC2, b""
    if will is not None:
        topic, payload, delay_s = will
        flags |= 0x0C
        said = b"\x05\x18" + delay_s.to_bytes(4, "big") + text(topic.encode()) + text(payload)
    properties = b"\x05\x11" + expiry_s.to_bytes(4, "big")
    words = text(client_id.encode()) + said + text(account.encode()) + text(token.encode())
    return packet(0x10, b"\x00\x04MQTT\x05" + bytes([flags]) + b"\x00\x00" + properties + words)


@dataclass
class Raw:
    """A connection that reads only when it is asked to."""

    socket: socket.socket
    _seen: bytearray = field(default_factory=bytearray)

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def next(self) -> tuple[int, bytes]:
        """Read one packet; 0 at the end of the connection."""
        while True:
            found = self._whole()
            if found is not None:
                return found
            try:
                more = await asyncio.wait_for(
                    asyncio.get_running_loop().sock_recv(self.socket, 1 << 20), WAIT_S
                )
            except ConnectionError:
                more = b""
            if not more:
                return 0, b""
            self._seen += more

    def _whole(self) -> tuple[int, bytes] | None:
        length = shift = 0
        for at in range(1, min(5, len(self._seen))):
            length |= (self._seen[at] & 127) << shift
            shift += 7
            if self._seen[at] < 128:
                end = at + 1 + length
                if len(self._seen) < end:
                    return None
                first, body = self._seen[0], bytes(self._seen[at + 1 : end])
                del self._seen[:end]
                return first, body
        return None

    async def subscribe(self, topic: str, qos: int = 0) -> int:
        """Subscribe, and return the reason of the SUBACK."""
        await self.send(packet(0x82, b"\x00\x01\x00" + text(topic.encode()) + bytes([qos])))
        first, body = await self.next()
        assert first == 0x90, (first, body)
        return body[-1]


async def raw(city: City, small: bool = False) -> Raw:
    """Open a connection to the city's gateway; a `small` one can hold little that is not read."""
    host, _, port = city.address.rpartition(":")
    connection = socket.socket()
    if small:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
    city.sockets.append(connection)
    return Raw(connection)


async def raw_client(
    city: City,
    account: str,
    client_id: str,
    *,
    expiry_s: int = 0,
    will: tuple[str, bytes, int] | None = None,
) -> tuple[Raw, int, bytes]:
    """Connect, and return the reason of the CONNACK and what follows it."""
    found = await raw(city, small=True)
    await found.send(connect(account, city.tokens[account], client_id, expiry_s=expiry_s, will=will))
    first, body = await found.next()
    assert first == 0x20, (first, body)
    return found, body[1], body[2:]
