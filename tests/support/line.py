"""A line between a process and a server that a test can cut, or let come from another address."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Line:
    """Processes dial it in place of the server; what it has opened is closed when it is."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", comes_from: str = "127.0.0.1") -> None:
        self._to, self._comes_from = (host, port), comes_from
        self.is_cut, self.brought = False, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut(self) -> None:
        """Let no request through, not even those that are under way."""
        self.is_cut = True
        for one in list(self._open):
            _hang_up(one)

    def mend(self) -> None:
        self.is_cut = False

    def close(self) -> None:
        # Only a shutdown wakes the thread that accepts.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join(timeout=60)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.is_cut:
                client.close()
                continue
            try:
                server = socket.create_connection(self._to, source_address=(self._comes_from, 0))
            except OSError:
                client.close()
                continue
            self._open |= {client, server}
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            is_from_server = source.getpeername()[1] == self._to[1]
            while data := source.recv(1 << 16):
                self.brought += len(data) if is_from_server else 0
                target.sendall(data)
        for one in (source, target):
            _hang_up(one)
            self._open.discard(one)


def _hang_up(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
