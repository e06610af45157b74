"""What can a peer on the same machine learn from, or do to, a broker's status endpoint?"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from maia.net import status_endpoint
from maia.net.addresses import host_and_port
from maia.net.status_endpoint import (
    DOOR_FILE,
    NoStatus,
    StatusEndpoint,
    StatusSource,
    answering,
    new_door,
    new_token,
    read_door,
)
from maia.testing import free_port, until
from maia.testing.refusals import raises

NAMES = {"links": [{"peer": "ed25519:somebody"}]}


def told() -> StatusSource:
    return StatusSource(is_ready=lambda: True, metrics=lambda: b"maia_clients 1.0\n", status=lambda: NAMES)


async def raw_answer(host: str, port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 180)
    except OSError as problem:
        if problem.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
            raise
        return b""  # closed before everything was read
    finally:
        writer.close()


def asked(*requests: bytes, token: str = "t" * 64) -> list[bytes]:
    """Send raw requests, one connection each, and return the raw answers."""

    async def ask() -> list[bytes]:
        endpoint = StatusEndpoint(told(), token=token)
        address = await endpoint.start("127.0.0.1:0")
        host, _, port = address.rpartition(":")
        answers = []
        for request in requests:
            answers.append(await raw_answer(host, int(port), request.replace(b"HOST", address.encode())))
        await endpoint.stop()
        return answers

    return asyncio.run(ask())


def get(path: str, *headers: str, host: str = "HOST", method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def test_silent_connections_keep_no_reader_out() -> None:
    """A88 A116: as many as there may be at one time, and a monitor still gets its numbers."""

    async def story() -> bytes:
        endpoint = StatusEndpoint(told(), token=None)
        host, _, port = (await endpoint.start("127.0.0.1:0")).rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(40)]
        answer = await raw_answer(host, int(port), get("/metrics"))
        for _, writer in silent:
            writer.close()
        await endpoint.stop()
        return answer

    assert status_of(asyncio.run(story())) == 200


def test_an_answer_that_no_peer_reads_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A89 A116: after the time of a request, what waits for its reader is gone with the connection."""
    monkeypatch.setattr(status_endpoint, "REQUEST_S", 0.2)
    page = b"x" * (16 << 20)

    async def story() -> int:
        endpoint = StatusEndpoint(StatusSource(lambda: True, lambda: page, dict), token=None)
        silent = socket.socket()
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        silent.connect(host_and_port(await endpoint.start("127.0.0.1:0")))
        silent.sendall(get("/metrics"))
        await until(lambda: len(endpoint._asking) == 1, "the request to come")
        await until(lambda: len(endpoint._asking) == 0, "its time to be over")
        silent.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=silent)
        read = 0
        with suppress(ConnectionError):
            while some := await reader.read(1 << 20):
                read += len(some)
        writer.close()
        await endpoint.stop()
        return read

    assert asyncio.run(story()) < len(page)


def test_status_needs_the_token() -> None:
    """A70: who is connected is for a peer that can read the data folder, and for no other peer."""
    token = "5" * 64
    answers = asked(
        get("/status"),
        get("/status", f"Authorization: Bearer {'4' * 64}"),
        get("/status", f"Authorization: Bearer {token[:-1]}"),
        get("/status", f"Authorization: Basic {token}"),
        get(f"/status?token={token}"),
        get("/status", "Authorization: Bearer "),
        get("/status", f"Authorization: Bearer {token}"),
        token=token,
    )
    assert [status_of(answer) for answer in answers] == [401, 401, 401, 401, 404, 401, 200]
    assert all(b"somebody" not in answer for answer in answers[:-1])
    assert json.loads(answers[-1].partition(b"\r\n\r\n")[2]) == NAMES


def test_what_needs_no_token_names_no_peer() -> None:
    """A70: health, readiness and metrics are numbers and yes or no."""
    answers = asked(get("/health"), get("/ready"), get("/metrics"), get("/"), get("/debug/vars"))
    assert [status_of(answer) for answer in answers] == [200, 200, 200, 404, 404]
    assert all(b"ed25519" not in answer for answer in answers)


@pytest.mark.parametrize("host", ["evil.example:80", "evil.example", "", "127.0.0.1.evil.example:80"])
def test_a_page_whose_name_points_here_reads_nothing(host: str) -> None:
    """A70: a browser that was led here by a name of another peer's is turned away."""
    (answer,) = asked(get("/metrics", host=host))
    assert status_of(answer) == 421
    assert b"maia_clients" not in answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(method: str) -> None:
    """A70: the endpoint reads and does nothing else."""
    (answer,) = asked(get("/status", method=method))
    assert status_of(answer) == 405


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"\r\n\r\n",
        b"GET /health\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        b"GET  /health  HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"X: y\r\n" * 5000 + b"\r\n",
    ],
    ids=range(7),
)
def test_odd_requests_get_no_page(request_: bytes) -> None:
    """A70: whatever is not a short request ends the connection, and the next one is served."""
    odd, good = asked(request_, get("/health"))
    assert odd == b"" or status_of(odd) == 400
    assert status_of(good) == 200


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:0"])
def test_it_listens_on_loopback_only(listen: str) -> None:
    """A70: no configuration opens the endpoint to other machines."""
    with raises("INPUT-STATUS-NOT-LOOPBACK"):
        asyncio.run(StatusEndpoint(told(), token=new_token()).start(listen))


def test_the_token_is_for_the_brokers_user_alone(tmp_path: Path) -> None:
    """A70: the file with the token cannot be read by others, and the token is not printed."""
    token = new_token()
    new_door(tmp_path, "127.0.0.1:1", token)
    assert stat.S_IMODE((tmp_path / DOOR_FILE).stat().st_mode) == 0o600
    assert read_door(tmp_path).token == token
    assert token not in repr(read_door(tmp_path))


def test_a_link_in_the_place_of_the_token_is_not_followed(tmp_path: Path) -> None:
    """A70: no peer makes the broker write its token through a link that they put there."""
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / DOOR_FILE).symlink_to(elsewhere)
    new_door(tmp_path / "data", "127.0.0.1:1", new_token())
    assert not elsewhere.exists()
    assert not (tmp_path / "data" / DOOR_FILE).is_symlink()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"address": 1}', "\u00e9"])
def test_a_broken_door_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    """A70: what lies in the data folder is not believed to be well formed."""
    (tmp_path / DOOR_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(NoStatus):
        read_door(tmp_path)


def test_other_machines_get_numbers_where_the_operator_says_so_and_never_names(tmp_path: Path) -> None:
    """A70: the listener for others has no /status at all, whatever token is shown, and is on record."""
    lines = []

    class Log:
        def note(self, event: str, fields: dict[str, object]) -> None:
            lines.append((event, fields["address"]))

    async def ask() -> list[bytes]:
        at = f"127.0.0.1:{free_port()}"
        async with answering(told(), "127.0.0.1:0", tmp_path, metrics=at, records=Log()):
            token = read_door(tmp_path).token
            assert lines == [("metrics-open", at)]
            host, _, port = at.rpartition(":")
            heads = [
                f"GET /{page} HTTP/1.1\r\nHost: broker.example:9480\r\n"
                for page in ("metrics", "ready", "status")
            ]
            heads.append(f"{heads[-1]}Authorization: Bearer {token}\r\n")
            return [await raw_answer(host, int(port), f"{one}\r\n".encode()) for one in heads]

    metrics, ready, *status = asyncio.run(ask())
    assert metrics.endswith(b"\r\n\r\nmaia_clients 1.0\n")
    assert ready.startswith(b"HTTP/1.1 200 ")
    assert all(one.startswith(b"HTTP/1.1 404 ") and b"somebody" not in one for one in status)
