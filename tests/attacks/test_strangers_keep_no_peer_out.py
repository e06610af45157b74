"""However many connections strangers hold, whoever may connect gets in, and while they go on (A74, A88)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import ExitStack, asynccontextmanager, suppress

import pytest

from maia.broker import BrokerLimits
from maia.credentials import SigningKey
from maia.domain import DomainLimits
from maia.net.links import LinkLimits
from maia.net.tls import dialling_context
from maia.spark.keys.key_server import WORKERS_MAX, job_desk
from maia.testing import in_a_loop, soon, until
from maia.wire.codec import encode
from maia.wire.effects import Close, LinkId, LinkOpened, Received
from maia.wire.messages import Ping
from support.key_groups import KeyNet
from support.live import STORY, broker, client, stranger
from support.numberplate import Net

BILLING = "billing office"
PLACES = 24
STRANGER = SigningKey.from_seed(b"\x0a" * 32)


class Flood:
    """Connections of a stranger that ends the handshake of TLS and then says nothing."""

    def __init__(self, address: str, *, come_from: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port, self._come_from = int(port), come_from
        self._context = dialling_context(STRANGER)
        self._held: list[asyncio.StreamWriter] = []
        self.connected = 0

    async def run(self) -> None:
        """Connect and connect, and hold the last few hundred."""
        while True:
            with suppress(OSError, ssl.SSLError):
                _, writer = await asyncio.open_connection(
                    self._host,
                    self._port,
                    ssl=self._context,
                    server_hostname="",
                    local_addr=(self._come_from, 0),
                )
                self.connected += 1
                self._held.append(writer)
            for old in self._held[: -4 * PLACES]:
                old.transport.abort()
            del self._held[: -4 * PLACES]

    def end(self) -> None:
        """Hang up everywhere."""
        for writer in self._held:
            writer.transport.abort()


@asynccontextmanager
async def flooded(address: str, *, come_from: str):
    """Let a stranger flood an address while the body runs; the places are full when it begins."""
    flood = Flood(address, come_from=come_from)
    task = asyncio.create_task(flood.run())
    try:
        await until(lambda: flood.connected > 2 * PLACES, "the flood to be high")
        yield flood
    finally:
        task.cancel()
        flood.end()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("come_from", ["127.0.0.2", "127.0.0.1"], ids=["elsewhere", "the same address"])
@in_a_loop
async def test_a_peer_that_may_connect_gets_in_during_a_flood(come_from: str):
    """A74 A88: each of ten attempts, one connection each, while a stranger connects without a pause."""
    limits = BrokerLimits(links_before_welcome=PLACES)
    async with (
        broker(limits=limits) as running,
        flooded(running.address, come_from=come_from) as flood,
    ):
        before = flood.connected
        for _ in range(10):
            async with stranger(STORY.keys[BILLING], running.address) as honest:
                await soon(honest.introduce(BILLING))
        await until(lambda: flood.connected > before, "the flood to go on")
        async with client(BILLING, running.address) as billing:
            await soon(billing.subscribe(STORY.definition))


@in_a_loop
async def test_peers_that_do_not_hang_up_keep_no_peer_out():
    """A88: a stranger that was parted from, and does not go, has no place in the runtime's table either."""
    limits = BrokerLimits(links_before_welcome=4)
    async with broker(link_limits=LinkLimits(links=PLACES, close_s=600.0), limits=limits) as running:
        context, held = dialling_context(STRANGER), list[asyncio.StreamWriter]()
        host, _, port = running.address.rpartition(":")
        try:
            for _ in range(2 * PLACES):
                reader, writer = await asyncio.open_connection(
                    host, int(port), ssl=context, server_hostname="", limit=1
                )
                writer.transport.pause_reading()
                held += [writer]
                del reader
            async with stranger(STORY.keys[BILLING], running.address) as honest:
                await soon(honest.introduce(BILLING))
        finally:
            for writer in held:
                writer.transport.abort()


def test_a_network_with_many_links_gives_up_its_own_places():
    """A88: at a full table the busiest network loses its oldest link, and a lone peer loses nothing."""
    net = Net(limits=BrokerLimits(links_before_welcome=4))
    net.broker()
    lone = net.client(BILLING, says_hello=False, remote="192.0.2.7")
    flood = [
        net.client(BILLING, says_hello=False, remote=f"2001:db8:0:1::{number:x}") for number in range(1, 6)
    ]
    assert not lone.closed
    assert [one.closed for one in flood] == [True, True, False, False, False]
    lone.hello()
    assert lone.bye is None


def test_a_full_broker_lets_a_peer_in_for_one_that_never_said_hello():
    """A88: where every place is taken, one of a silent stranger is free."""
    net = Net(limits=BrokerLimits(links=2))
    net.broker()
    camera = net.client("camera at Victoria")
    silent = net.client(BILLING, says_hello=False)
    billing = net.client(BILLING)
    assert (camera.closed, silent.closed, billing.closed) == (False, True, False)
    assert net.client(BILLING, says_hello=False).closed, "nobody who was welcomed goes for a stranger"


def test_strangers_that_were_refused_and_stay_take_no_place():
    """A88: a link is no peer's from the refusal on, however long its peer takes to hang up."""
    net = Net(limits=BrokerLimits(links=4))
    running = net.broker()
    for number in range(500, 510):
        running.broker.handle(LinkOpened(LinkId(number), STRANGER.principal, None), net.now)
        effects = running.broker.handle(Received(LinkId(number), encode(Ping(1))), net.now)
        assert Close(LinkId(number), "PROTOCOL-OUT-OF-TURN") in effects
    assert not any(net.client(BILLING).closed for _ in range(4))


def test_a_key_server_gives_up_the_oldest_stranger():
    """A88: the table of a key server is shared in the same way."""
    net = KeyNet(limits=DomainLimits(links_before_welcome=3))
    closed: list[LinkId] = []
    addresses = ["192.0.2.7", *["192.0.2.66"] * 4]
    for number, address in enumerate(addresses, 2000):
        opened = LinkOpened(LinkId(number), STRANGER.principal, None, address)
        effects = net.server.handle(opened, net.now)
        closed += [effect.link for effect in effects if isinstance(effect, Close)]
    assert closed == [2001, 2002]


def test_a88_silent_connections_keep_no_worker_from_the_keys_of_its_job():
    """A88: strangers that connect to a Spark driver and say nothing make room for the workers of its jobs."""
    with job_desk() as desk, ExitStack() as strangers:
        shown = desk.open(None, frozenset({None}))
        for _ in range(WORKERS_MAX + 8):
            strangers.enter_context(socket.create_connection((shown.host, shown.port), timeout=180))
        for _ in range(10):
            assert shown.keys_of([1]) == {}
