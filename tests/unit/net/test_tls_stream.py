"""Streams carry bytes over TLS whole, in order, and to the right owner; they end once, and say why."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import contextmanager
from hashlib import sha256

import pytest

from maia.credentials import SigningKey
from maia.net.tls import accepting_context, dialling_context, proved_principal
from maia.net.tls_stream import TlsStream, open_stream

SERVER, CLIENT = (SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2))
CONNECTIONS = 12
BYTES = 700_000


class Ear:
    """Hears everything, and can wait for it."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.ends: list[Exception | None] = []
        self.is_paused = False
        self.changed = asyncio.Event()

    def data_received(self, data):
        self.heard += data
        self.changed.set()

    def connection_lost(self, problem):
        self.ends.append(problem)
        self.changed.set()

    def pause_writing(self):
        self.is_paused = True

    def resume_writing(self):
        self.is_paused = False
        self.changed.set()

    async def until(self, condition) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


class Echo(Ear):
    """Sends everything back."""

    def __init__(self, stream) -> None:
        super().__init__()
        self.stream = stream

    def data_received(self, data):
        self.stream.write(bytes(data))


@contextmanager
def _socket_pair():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        one = socket.create_connection(listening.getsockname())
        other, _ = listening.accept()
    with one, other:
        yield one, other


async def _two_streams(one: socket.socket, other: socket.socket) -> tuple[TlsStream, TlsStream]:
    dialled, accepted = await asyncio.gather(
        open_stream(one, dialling_context(CLIENT), accepts=False),
        open_stream(other, accepting_context(SERVER), accepts=True),
    )
    return dialled, accepted


def _play(scene) -> None:
    with _socket_pair() as (one, other):

        async def play() -> None:
            dialled, accepted = await _two_streams(one, other)
            try:
                await scene(dialled, accepted)
            finally:
                dialled.abort()
                accepted.abort()

        asyncio.run(play())


def test_each_side_learns_the_key_of_the_other():
    async def scene(dialled, accepted):
        assert proved_principal(dialled.tls) == SERVER.principal
        assert proved_principal(accepted.tls) == CLIENT.principal

    _play(scene)


def test_many_streams_at_once_hear_their_own_words_alone():
    async def exchanged(number: int) -> bool:
        said = sha256(b"%d" % number).digest() * (BYTES // 32)
        with _socket_pair() as (one, other):
            dialled, accepted = await _two_streams(one, other)
            accepted.start(Echo(accepted))
            dialled.start(ear := Ear())
            for start in range(0, len(said), 100_000):
                dialled.write(said[start : start + 100_000])
            await ear.until(lambda: len(ear.heard) >= len(said))
            dialled.abort()
            accepted.abort()
            return ear.heard == said

    async def play() -> list[bool]:
        return await asyncio.gather(*map(exchanged, range(CONNECTIONS)))

    assert asyncio.run(play()) == [True] * CONNECTIONS


def test_what_is_said_right_behind_the_handshake_is_heard():
    async def scene(dialled, accepted):
        dialled.write(b"at once")
        await asyncio.sleep(0)
        accepted.start(ear := Ear())
        await ear.until(lambda: ear.heard == b"at once")

    _play(scene)


def test_a_peer_that_does_not_read_pauses_the_writer_until_it_has_read():
    async def scene(dialled, accepted):
        dialled.start(writer := Ear())
        accepted.start(reader := Ear())
        accepted.pause_reading()
        said = bytes(1_000_000)
        written = 0
        while not writer.is_paused:
            dialled.write(said)
            written += len(said)
        assert dialled.waiting
        accepted.resume_reading()
        await writer.until(lambda: not writer.is_paused)
        await reader.until(lambda: len(reader.heard) == written)
        assert not dialled.waiting

    _play(scene)


def test_the_last_words_arrive_before_the_end_even_if_much_waits():
    async def scene(dialled, accepted):
        dialled.start(writer := Ear())
        accepted.start(reader := Ear())
        accepted.write(b"never read")  # unread bytes would make TCP drop what is on its way
        said = sha256(b"last words").digest() * 100_000
        dialled.write(said)
        dialled.close()
        dialled.write(b"nothing follows")
        await reader.until(lambda: bool(reader.ends))
        await writer.until(lambda: bool(writer.ends))
        assert reader.heard == said
        assert (reader.ends, writer.ends) == ([None], [None])

    _play(scene)


def test_a_stream_ends_once_and_later_calls_change_nothing():
    async def scene(dialled, accepted):
        dialled.start(ear := Ear())
        dialled.abort()
        dialled.abort()
        dialled.close()
        dialled.write(b"into the void")
        dialled.resume_reading()
        await ear.until(lambda: bool(ear.ends))
        await asyncio.sleep(0)
        assert ear.ends == [None]
        accepted.start(other := Ear())
        await other.until(lambda: bool(other.ends))

    _play(scene)


def test_bytes_that_tls_cannot_read_end_the_stream_with_its_reason():
    with _socket_pair() as (one, other):

        async def play() -> list[Exception | None]:
            dialled, accepted = await _two_streams(one, other)
            accepted.start(ear := Ear())
            one.send(b"\x17\x03\x03\x00\x20" + bytes(32))  # a record that nobody sealed
            await ear.until(lambda: bool(ear.ends))
            dialled.abort()
            assert not ear.heard
            return ear.ends

        (problem,) = asyncio.run(play())
        assert isinstance(problem, ssl.SSLError)


def test_a_peer_that_leaves_in_the_handshake_leaves_no_socket_open():
    with _socket_pair() as (one, other):

        async def play() -> None:
            one.close()
            with pytest.raises(ConnectionError):
                await open_stream(other, accepting_context(SERVER), accepts=True)

        asyncio.run(play())
        assert other.fileno() == -1


def test_a_handshake_that_is_given_up_leaves_no_socket_open():
    with _socket_pair() as (_one, other):

        async def play() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await open_stream(other, accepting_context(SERVER), accepts=True)

        asyncio.run(play())
        assert other.fileno() == -1


def test_a_peer_that_makes_tls_answer_and_never_reads_is_let_go():
    async def scene(dialled, accepted):
        dialled.start(ear := Ear())
        while not ear.is_paused:
            dialled.write(bytes(1_000_000))
        for _ in range(3):
            dialled._outgoing.write(bytes(30_000))  # as TLS does when a peer changes its keys
            dialled._send_answers()
        await ear.until(lambda: bool(ear.ends))
        assert isinstance(ear.ends[0], ConnectionAbortedError)
        assert accepted.waiting == 0

    _play(scene)
