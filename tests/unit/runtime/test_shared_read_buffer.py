"""Connections that share the buffer they receive into do not see each other's bytes."""

from __future__ import annotations

import asyncio
from hashlib import sha256

from maia.credentials import SigningKey
from maia.runtime.shared_read_buffer import share_read_buffer
from maia.runtime.tls import accepting_context, dialling_context

SERVER, CLIENT = (SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2))
CONNECTIONS = 12
BYTES = 700_000


class Echo(asyncio.Protocol):
    """Sends everything back."""

    def __init__(self, transports):
        self.transports = transports

    def connection_made(self, transport):
        self.transport = transport
        assert share_read_buffer(transport)
        self.transports.append(transport)

    def data_received(self, data):
        self.transport.write(data)


async def _exchanged(port: int, number: int) -> bool:
    said = sha256(b"%d" % number).digest() * (BYTES // 32)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=dialling_context(CLIENT), server_hostname=""
    )
    share_read_buffer(writer.transport)
    writer.write(said)
    heard = await reader.readexactly(len(said))
    writer.close()
    return heard == said


def test_many_connections_at_once_hear_their_own_words_alone():
    transports = []

    async def play() -> list[bool]:
        loop = asyncio.get_running_loop()
        context = accepting_context(SERVER)
        server = await loop.create_server(lambda: Echo(transports), "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        async with server:
            return await asyncio.gather(*(_exchanged(port, number) for number in range(CONNECTIONS)))

    assert asyncio.run(play()) == [True] * CONNECTIONS
    assert len(transports) == CONNECTIONS
    assert len({id(one._ssl_protocol._ssl_buffer) for one in transports}) == 1


def test_a_connection_without_tls_keeps_what_it_has():
    async def play() -> bool:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            _reader, writer = await asyncio.open_connection("127.0.0.1", port)
            shared = share_read_buffer(writer.transport)
            writer.close()
            return shared

    assert asyncio.run(play()) is False
