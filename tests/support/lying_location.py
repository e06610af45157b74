"""A place that a certificate names, where somebody answers whatever a test wants."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from maia.credentials import SignedStatement, SigningKey, statement_to_bytes
from maia.net.tls import serving_context

__all__ = ["Place", "answer_of", "page_of", "place"]

Talk = Callable[[socket.socket, "Place"], None]


@dataclass
class Place:
    """Where it is, and what it was told."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    """Heads of requests: what was said after the handshake."""
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def location(self) -> str:
        return f"https://127.0.0.1:{self.port}/v1/statements"


def answer_of(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    """Return a whole answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n"
    return head.encode() + body


def page_of(*statements: SignedStatement) -> bytes:
    """Return the answer of a domain that says this."""
    items = [{"statement": b64encode(statement_to_bytes(one)).decode()} for one in statements]
    return answer_of(json.dumps({"items": items, "next": None}).encode())


@contextmanager
def place(talk: bytes | Talk, *, key: SigningKey | None) -> Iterator[Place]:
    """Answer at a place while the body runs, with the TLS key of `key`, or in plain HTTP without one."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(0.1)
    found = Place(listening.getsockname()[1])
    context = None if key is None else serving_context(key)
    thread = threading.Thread(target=_serve, args=(listening, context, talk, found), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.over.set()
        thread.join()
        listening.close()


def _serve(
    listening: socket.socket, context: ssl.SSLContext | None, talk: bytes | Talk, found: Place
) -> None:
    while not found.over.is_set():
        try:
            connection, _ = listening.accept()
        except TimeoutError:
            continue
        threading.Thread(target=_talk, args=(connection, context, talk, found), daemon=True).start()


def _talk(
    connection: socket.socket, context: ssl.SSLContext | None, talk: bytes | Talk, found: Place
) -> None:
    with suppress(OSError), connection:
        connection.settimeout(180)
        stream = connection if context is None else context.wrap_socket(connection, server_side=True)
        with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                part = stream.recv(65_536)
                if not part:
                    return
                head += part
            found.requests.append(head)
            if isinstance(talk, bytes):
                stream.sendall(talk)
            else:
                talk(stream, found)
