"""What does Python over TLS take to pass a message on, if it does nothing else?

Run as a program: it prints its port, takes two connections over mutual TLS 1.3, and passes what arrives on
the first to the second until one of them ends. With the port of another relay as its argument it is
a gateway to that: what arrives on the first goes there, and what comes back goes to the second. One thread,
`epoll` without asyncio, and OpenSSL on buffers in memory: the fastest way of those that were tried. With
a sleep between two messages it takes 1.5 times as long, and then TLS on the socket itself 8 µs more, asyncio
8 µs more, and a thread that blocks in `recv` of its one socket 2 µs less.
"""

from __future__ import annotations

import select
import socket
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from maia.credentials import SigningKey
from maia.net.tls import accepting_context, dialling_context

READ_BYTES = 64 << 10
ASKED = 200
"""How often the kernel is asked before a sleep: until the next message comes, if it comes soon."""
KEY = SigningKey.from_seed(bytes(32))


@dataclass(frozen=True, slots=True)
class End:
    """One connection whose handshake is done."""

    socket: socket.socket
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    tls: ssl.SSLObject


def opened(connection: socket.socket, context: ssl.SSLContext, *, accepts: bool) -> End:
    """Shake hands."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    end = End(connection, incoming, outgoing, context.wrap_bio(incoming, outgoing, server_side=accepts))
    while True:
        try:
            end.tls.do_handshake()
        except ssl.SSLWantReadError:
            connection.sendall(outgoing.read())
            incoming.write(connection.recv(READ_BYTES))
        else:
            connection.sendall(outgoing.read())
            return end


def relay(ways: Mapping[End, End | None], asked: int) -> None:
    """Pass on what arrives, one read at a time; each is one record, because one message is on its way."""
    sealed, plain = memoryview(bytearray(READ_BYTES)), memoryview(bytearray(READ_BYTES))
    poll, by_number = select.epoll(), {source.socket.fileno(): (source, to) for source, to in ways.items()}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    while True:
        found: list[tuple[int, int]] = []
        for _ in range(asked):
            if found := poll.poll(0):
                break
        for number, _ in found or poll.poll():
            source, sink = by_number[number]
            received = source.socket.recv_into(sealed)
            if not received:
                return
            source.incoming.write(sealed[:received])
            try:
                # With a buffer it returns how many bytes there were, which its stub does not say.
                read: int = source.tls.read(READ_BYTES, plain)  # type: ignore[assignment]
            except ssl.SSLWantReadError:
                continue  # tickets, which TLS sends behind its handshake
            if sink is not None:
                sink.tls.write(plain[:read])
                sink.socket.send(sink.outgoing.read())


def main(behind: int | None) -> None:
    """Relay for two clients, or between them and another relay, where more processes than cores take part."""
    accepting, dialling = accepting_context(KEY), dialling_context(KEY)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        source, sink = (opened(listening.accept()[0], accepting, accepts=True) for _ in range(2))
    if behind is None:
        relay({source: sink, sink: None}, ASKED)
        return
    there, back = (
        opened(socket.create_connection(("127.0.0.1", behind)), dialling, accepts=False) for _ in range(2)
    )
    relay({source: there, back: sink, there: None, sink: None}, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
