"""A store in front of a store: it passes requests on, answers that it is busy, or says nothing."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PASSED_ON = ("content-length", "content-type", "content-range", "etag", "last-modified", "accept-ranges")
BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class MoodyStore:
    """Listens before a store at a port of this machine."""

    def __init__(self, port: int) -> None:
        self.refuses = 0
        """How many requests more are answered with 503."""
        self.hangs = threading.Event()
        self.over = threading.Event()
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if store.hangs.is_set():
                    store.over.wait(120)
                    self.close_connection = True
                elif store.refuses > 0:
                    store.refuses -= 1
                    self._answer(503, BUSY, [("Content-Type", "application/xml")])
                else:
                    self._pass_on()

            do_HEAD = do_GET  # noqa: N815

            def _pass_on(self) -> None:
                there = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                there.request(self.command, self.path, headers=dict(self.headers))
                said = there.getresponse()
                data = said.read()
                self._answer(said.status, data, said.getheaders(), length=said.getheader("content-length"))
                there.close()

            def _answer(
                self, status: int, data: bytes, headers: list[tuple[str, str]], *, length: str | None = None
            ) -> None:
                self.send_response(status)
                for name, value in headers:
                    if name.lower() in _PASSED_ON and name.lower() != "content-length":
                        self.send_header(name, value)
                self.send_header("Content-Length", length or str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def log_message(self, *_about: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)
