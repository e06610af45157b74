"""What can one connection, or very many, take from a broker? Not the time or memory of others."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress

import pytest

from maia.broker import BrokerLimits
from maia.net.links import LinkLimits
from maia.net.tls import dialling_context
from maia.testing import in_a_loop, soon, until
from maia.wire import (
    Accepted,
    Bye,
    Carried,
    Deliver,
    Greeting,
    Message,
    Ping,
    Publish,
    Resync,
    Welcome,
    Withdraw,
    encode,
    framed,
)
from support.live import STORY, Stranger, broker, city, client, hello, stranger, subscribe_message

CAMERA, BILLING = "camera at Victoria", "billing office"

BEFORE_THE_END: dict[str, Message] = {
    "publish": Publish(1, 0, 0, 1, []),
    "subscribe": subscribe_message(BILLING),
    "unsubscribe": Withdraw(1, 1),
    "ping": Ping(1),
    "welcome": Welcome(60),
    "greeting": Greeting(1, b"", [], bytes(16)),
    "deliver": Deliver([1], bytes(32), bytes(16), bytes(16), 0, 1, []),
    "carried": Carried(bytes(32), bytes(32), bytes(16), 0, 0, 1, [], []),
    "resync": Resync(),
}


@pytest.mark.parametrize("early", BEFORE_THE_END.values(), ids=BEFORE_THE_END.keys())
@in_a_loop
async def test_nothing_but_a_hello_is_accepted_before_the_handshake_has_ended(early: Message):
    """A11: whatever comes before its turn ends the link, and leaves nothing behind."""
    async with broker() as running, stranger(STORY.keys[BILLING], running.address) as impatient:
        assert isinstance(await impatient.hear(), Greeting)
        impatient.say(early, hello())
        (bye,) = await impatient.hear_until_closed()
        assert isinstance(bye, Bye)
        assert bye.code == "PROTOCOL-OUT-OF-TURN"
        assert running.status()["subscriptions"] == 0


@in_a_loop
async def test_a_second_hello_ends_the_link():
    """A11: who is at the other end is settled once."""
    async with broker() as running, stranger(STORY.keys[BILLING], running.address) as twice:
        await twice.introduce(BILLING)
        twice.say(hello())
        (bye,) = await twice.hear_until_closed()
        assert isinstance(bye, Bye)
        assert bye.code == "PROTOCOL-OUT-OF-TURN"


@pytest.mark.parametrize(
    "lie",
    [b"\xff\xff\xff\xff", (256 * 1024 + 1).to_bytes(4, "big"), bytes(4)],
    ids=["four gigabytes", "a byte too many", "nothing"],
)
@in_a_loop
async def test_a_length_that_is_a_lie_is_not_believed(lie: bytes):
    """A74: nothing is set aside because a stranger announced it."""
    async with broker() as running, stranger(STORY.keys[BILLING], running.address) as liar:
        assert isinstance(await liar.hear(), Greeting)
        liar.say_bytes(lie)
        assert await liar.hear_until_closed() == []
        await until(lambda: not running.status()["links"], "the link to be gone")


@in_a_loop
async def test_longer_messages_are_believed_after_the_welcome_only():
    """A74: the small limit is raised by a welcome, and by nothing that the peer itself says."""
    async with broker() as running, stranger(STORY.keys[BILLING], running.address) as client_:
        assert isinstance(await client_.hear(), Greeting)
        client_.say(Welcome(60))
        client_.say_bytes((1 << 20).to_bytes(4, "big"))
        heard = await client_.hear_until_closed()
        assert all(isinstance(message, Bye) for message in heard)
    async with broker() as running, stranger(STORY.keys[BILLING], running.address) as client_:
        await client_.introduce(BILLING)
        client_.say_bytes((1 << 20).to_bytes(4, "big") + bytes(1 << 20))
        (bye,) = await client_.hear_until_closed()
        assert isinstance(bye, Bye)
        assert bye.code == "PROTOCOL-MESSAGE"  # it was read to its end, and found to be rubbish


@in_a_loop
async def test_a_message_that_is_held_back_half_way_ends_the_link():
    """A74: a first byte does not reserve a place for ever."""
    limits = LinkLimits(message_s=0.2)
    async with broker(link_limits=limits) as running, stranger(STORY.keys[BILLING], running.address) as slow:
        assert isinstance(await slow.hear(), Greeting)
        slow.say_bytes(framed(encode(hello()))[:-1])
        assert await slow.hear_until_closed() == []
        await until(lambda: not running.status()["links"], "the link to be gone")


@in_a_loop
async def test_a_peer_that_never_says_hello_is_sent_away():
    """A74: the handshake has a deadline."""
    async with (
        broker(limits=BrokerLimits(handshake_s=1)) as running,
        stranger(STORY.keys[BILLING], running.address) as silent,
    ):
        greeting, bye = await silent.hear_until_closed()
        assert isinstance(greeting, Greeting)
        assert isinstance(bye, Bye)
        assert bye.code == "UNAVAILABLE-HANDSHAKE-TIME"


@in_a_loop
async def test_a_flood_of_half_open_connections_costs_their_places_and_no_other_peers():
    """A74: silent strangers are kept up to a number, and a real client is let in all the same."""
    limits = LinkLimits(half_open=8)
    async with broker(link_limits=limits) as running:
        host, _, port = running.address.rpartition(":")
        flood = [await asyncio.open_connection(host, int(port)) for _ in range(100)]
        try:
            most = 0
            async with client(BILLING, running.address) as billing:
                most = max(most, running.runner.connections.half_open)
                await billing.subscribe(STORY.definition)
            assert most <= 8
            assert running.runner.connections.half_open <= 8
            ended = [reader for reader, _ in flood[:-8]]
            await soon(asyncio.gather(*(_until_the_end(reader) for reader in ended[:80])))
        finally:
            for _, writer in flood:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()


async def _until_the_end(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await reader.read(-1)


@in_a_loop
async def test_one_connection_too_many_is_refused_and_the_others_stay():
    """A74: the number of connections has a limit."""
    async with broker(link_limits=LinkLimits(links=2)) as running:
        async with client(BILLING, running.address) as one, client(CAMERA, running.address):
            async with stranger(STORY.keys[BILLING], running.address) as third:
                assert await third.hear_until_closed() == []
            assert await one.subscribe(STORY.definition)
        await until(lambda: len(running.runner.connections) == 0, "everybody to leave")
        async with client(BILLING, running.address):
            pass  # there is room again


@in_a_loop
async def test_a_subscriber_that_does_not_read_is_cut_off_and_slows_no_peer():
    """A74: what waits for a slow reader is bounded, and every other peer gets everything at once."""
    limits = LinkLimits(outbox_bytes=1 << 20)
    rows, frames = 256, 60
    async with city(CAMERA, BILLING, link_limits=limits) as (running, camera, billing):
        bills = await billing.subscribe(STORY.definition)
        cars = await camera.advertise(STORY.definition)
        async with slow_reader(running.address) as slow:
            await slow.introduce(BILLING)
            slow.say(subscribe_message(BILLING))
            assert isinstance(await slow.hear(), Accepted)
            await slow.stop_reading()
            assert running.status()["subscriptions"] == 2
            seen = 0
            for number in range(frames):
                await cars.publish_many([{"numberplate": f"{number:04}" * 256}] * rows)
                for _ in range(rows):
                    event = await soon(anext(bills))
                    assert event["numberplate"].startswith(f"{number:04}")
                    seen += 1
            await cars.flush()
            assert seen == rows * frames
            await until(lambda: running.status()["subscriptions"] == 1, "the slow link to be closed")


class slow_reader:  # noqa: N801 - used like a function
    """A hand-made client with a small receive buffer, so that little is on its way to it."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def __aenter__(self) -> Stranger:
        host, _, port = self._address.rpartition(":")
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, (host, int(port)))
        context = dialling_context(STORY.keys[BILLING])
        reader, self._writer = await asyncio.open_connection(sock=plain, ssl=context, server_hostname="")
        return Stranger(reader, self._writer)

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()
        with suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()
