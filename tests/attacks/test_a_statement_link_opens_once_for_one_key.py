"""What does an attacker at a socket get out of statement links? No link, and no word of one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import pytest

from maia.broker.server.server import RunningBroker, run_broker
from maia.client.api.client import Client
from maia.clock import system_now
from maia.credentials import Principal, SigningKey
from maia.credentials.identity import SignedIdentity
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.net.links import LinkLimits
from maia.sealing.two_message import HEAD_BYTES, LinkIdentity, Request, Responder, message_length
from maia.testing import in_a_loop, soon, until
from support.live import BROKER, STORY, client, settings
from support.two_message import EVE, NORWAY, UK, link_identity, live_links, live_statement

BILLING, CAMERA = "billing office", "camera at Victoria"
BROKER_KEY, BILLING_KEY = STORY.keys[BROKER], STORY.keys[BILLING]


class Refusals:
    """What a broker counts."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        pass

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        if name.startswith(("maia_handshakes_failed", "maia_links_failed", "maia_links_refused")):
            self.codes.append(labels["code"])


class Clock:
    """The machine's clock, which a test sets ahead."""

    ahead_s = 0.0

    def __call__(self) -> Instant:
        return Instant(system_now() + int(self.ahead_s * SECOND))


@asynccontextmanager
async def broker(
    refusals: Refusals | None = None,
    *,
    key: SigningKey = BROKER_KEY,
    clock: Callable[[], Instant] = system_now,
    limits: LinkLimits | None = None,
) -> AsyncIterator[RunningBroker]:
    """Run the story's broker, with TLS links at one port and statement links at another."""
    links = live_links(key, clock=clock)
    before = links.clock()
    async with run_broker(
        key,
        settings(),
        limits=limits,
        records=refusals,
        clock=clock,
        by_statement=links,
        listen_by_statement="127.0.0.1:0",
    ) as running:
        await until(lambda: system_now() > before, "requests are signed after the broker's start")
        yield running


def reader(address: str, **named: object) -> AbstractAsyncContextManager[Client]:
    """Connect the billing office by a statement link."""
    links = live_links(BILLING_KEY, {address: BROKER_KEY.principal})
    return client(BILLING, address, by_statement=links, **named)


def request(
    *,
    key: SigningKey = BILLING_KEY,
    own: SignedIdentity | None = None,
    to: Principal = BROKER_KEY.principal,
    now: Instant | None = None,
) -> Request:
    identity = link_identity(key, own=live_statement(key) if own is None else own)
    return Request(identity, to, system_now() if now is None else now, os.urandom)


async def answer_to(data: bytes, address: str | None) -> bytes:
    """Send bytes from a socket, and return all that comes back until the other side hangs up or waits."""
    assert address is not None
    host, _, port = address.rpartition(":")
    stream, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await soon(stream.readexactly(HEAD_BYTES))
            return head + await soon(stream.readexactly(message_length(head)))
    finally:
        writer.transport.abort()
    return b""


# ------------------------------------------------------------ requests


@in_a_loop
async def test_a_recorded_request_opens_no_second_link():
    """A65, A96: replayed within the window at the same broker."""
    refusals = Refusals()
    async with broker(refusals) as running:
        data = request().data
        assert await answer_to(data, running.statement_address)
        assert await answer_to(data, running.statement_address) == b""
        assert refusals.codes.count("REQUEST-REPLAYED") == 1


@in_a_loop
async def test_a_recorded_request_opens_no_link_at_another_broker():
    """A16, A96: a request is for one responder, wherever a man in the middle carries it."""
    refusals = Refusals()
    async with broker() as asked, broker(refusals, key=STORY.keys[CAMERA]) as other:
        data = request().data
        assert await answer_to(data, asked.statement_address)
        assert await answer_to(data, other.statement_address) == b""
        assert refusals.codes == ["CREDENTIAL-LINK-NOT-PROVED"]


@in_a_loop
async def test_a_request_of_before_a_restart_opens_no_link_after_it():
    """A65: across a restart, when the memory of requests is gone."""
    refusals, data = Refusals(), request().data
    async with broker(refusals) as running:
        assert await answer_to(data, running.statement_address) == b""
        assert refusals.codes == ["REQUEST-STALE"]


BAD_REQUESTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "an expired statement": (
        lambda: request(own=live_statement(BILLING_KEY, until_s=-30)).data,
        "CREDENTIAL-IDENTITY-EXPIRED",
    ),
    "a statement about another key": (
        lambda: request(key=EVE, own=live_statement(BILLING_KEY)).data,
        "CREDENTIAL-LINK-NOT-PROVED",
    ),
    "a provider that is not trusted": (
        lambda: request(own=live_statement(BILLING_KEY, by=UK)).data,
        "CREDENTIAL-IDENTITY-PROVIDER",
    ),
    "a clock far behind": (
        lambda: request(now=Instant(system_now() - 61 * SECOND)).data,
        "PROTOCOL-LINK-REQUEST-TIME",
    ),
    "a clock far ahead": (
        lambda: request(now=Instant(system_now() + 3600 * SECOND)).data,
        "PROTOCOL-LINK-REQUEST-TIME",
    ),
    "no signature": (
        lambda: (data := request().data)[:43] + bytes(64) + data[107:],
        "CREDENTIAL-LINK-NOT-PROVED",
    ),
    "a length that is a lie": (lambda: b"\xa1\xff\xff", "PROTOCOL-LINK-MESSAGE"),
    "a response": (lambda: b"\xa2" + request().data[1:], "PROTOCOL-LINK-MESSAGE"),
    "a hello of TLS": (lambda: b"\x16\x03\x01\x00\xee", "PROTOCOL-LINK-MESSAGE"),
}


@pytest.mark.parametrize(("made", "code"), BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
@in_a_loop
async def test_a_bad_request_gets_no_answer(made: Callable[[], bytes], code: str):
    """A9, A10, A78, A96: the peer learns nothing, and the operator why."""
    refusals = Refusals()
    async with broker(refusals) as running:
        assert await answer_to(made(), running.statement_address) == b""
        assert refusals.codes == [code]
        assert running.status()["clients"] == 0


@in_a_loop
async def test_a_request_that_never_ends_loses_its_place():
    """A74: silent strangers are half open, like those of TLS, and are hung up on."""
    refusals = Refusals()
    async with broker(refusals, limits=LinkLimits(handshake_s=0.2)) as running:
        assert await answer_to(request().data[:-1], running.statement_address) == b""
        assert refusals.codes == ["TimeoutError"]
        assert running.runner.connections.half_open == 0


# ------------------------------------------------------------ a man in the middle


@asynccontextmanager
async def middle(
    towards: str | None, change: Callable[[bytes, bool], bytes] = lambda data, _: data
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Carry bytes to a broker and back, change them, and write down what is carried."""
    carried: list[bytes] = []
    assert towards is not None
    host, _, port = towards.rpartition(":")

    async def carry(source: asyncio.StreamReader, to: asyncio.StreamWriter, dialled: bool) -> None:
        with suppress(ConnectionError):
            while data := await source.read(1 << 16):
                carried.append(data)
                to.write(change(data, dialled))
        to.close()

    async def accept(stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        await asyncio.gather(carry(stream, back, True), carry(there, writer, False))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", carried
    finally:
        server.close()


@in_a_loop
async def test_a_man_who_only_listens_learns_statements_and_nothing_else():
    async with broker() as running, middle(running.statement_address) as (address, carried):
        async with reader(address) as billing, client(CAMERA, running.address) as camera:
            bills = await billing.subscribe(STORY.definition)
            cars = await camera.advertise(STORY.definition)
            await cars.publish(numberplate="AE05 XYZ", location="Victoria")
            await cars.flush()
            assert (await soon(anext(bills)))["numberplate"] == "AE05 XYZ"
        heard = b"".join(carried)
        assert BILLING_KEY.principal.key in heard  # the requester's statement travels in clear
        assert BROKER_KEY.principal.key not in heard
        assert b"AE05 XYZ" not in heard
        assert STORY.certificates[0].signature not in heard


@in_a_loop
async def test_a_man_who_changes_a_record_ends_the_link():
    """A changed record is never taken, and the client connects again and goes on."""
    refusals, hits = Refusals(), []

    def change(data: bytes, dialled: bool) -> bytes:
        if dialled and data[0] != 0xA1 and not hits:
            hits.append(data)
            return data[:-1] + bytes((data[-1] ^ 1,))
        return data

    async with (
        broker(refusals) as running,
        middle(running.statement_address, change) as (address, _),
        reader(address) as billing,
    ):
        await billing.subscribe(STORY.definition)
    assert len(hits) == 1
    assert "PROTOCOL-LINK-RECORD" in refusals.codes


@in_a_loop
async def test_another_member_in_the_middle_cannot_answer_for_the_broker():
    """A19: no certificate is shown to a peer that has not proved the key in the address."""
    heard, answered = bytearray(), []

    class Liar:
        """Eve, who takes requests for the broker's, and has her own key to sign with."""

        principal, sign = BROKER_KEY.principal, EVE.sign

    lying = LinkIdentity(Liar(), live_statement(EVE), frozenset({NORWAY.principal}))

    async def answer(stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await stream.readexactly(HEAD_BYTES)
        asked = head + await stream.readexactly(message_length(head))
        response, _ = Responder(Instant(0)).respond(lying, asked, system_now(), os.urandom)
        answered.append(response)
        writer.write(response)
        heard.extend(await stream.read())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(MaiaError):
        async with reader(address, timeout_s=1.0):
            pytest.fail("the client took Eve for the broker")
    server.close()
    assert answered
    assert heard == b""


@in_a_loop
async def test_a_client_with_a_statement_link_is_never_talked_into_tls():
    """A19: a man in the middle that leads it to the TLS port sees requests and no hello of TLS."""
    refusals = Refusals()
    async with broker(refusals) as running, middle(running.address) as (address, carried):
        with pytest.raises(MaiaError):
            async with reader(address, timeout_s=1.0):
                pytest.fail("a statement link was opened at a TLS port")
    sent = [data for data in carried if data[0] not in (0x15,)]  # the alert is the broker's
    assert sent
    assert {data[0] for data in sent} == {0xA1}


@in_a_loop
async def test_a_client_with_a_tls_link_is_never_talked_into_a_statement_link():
    refusals = Refusals()
    async with broker(refusals) as running, middle(running.statement_address) as (address, carried):
        with pytest.raises(MaiaError):
            async with client(BILLING, address, timeout_s=1.0):
                pytest.fail("a TLS link was opened at a port for statement links")
    assert {data[0] for data in carried} == {0x16}
    assert set(refusals.codes) == {"PROTOCOL-LINK-MESSAGE"}


@in_a_loop
async def test_strangers_without_a_right_get_no_further_than_with_tls():
    """A11, A12: a statement says who, and certificates say what a key may do."""
    async with broker() as running:
        address = running.statement_address
        links = live_links(EVE, {address: BROKER_KEY.principal})
        given = {"key": EVE, "credentials": (), "by_statement": links, "timeout_s": 5.0}
        with pytest.raises(MaiaError) as refused:
            async with client(BILLING, address, **given):
                pytest.fail("Eve has no right to connect")
        assert refused.value.code == "POLICY-NO-CHAIN"
        assert running.status()["clients"] == 0


@in_a_loop
async def test_a_link_ends_with_the_statement_that_opened_it():
    """A96: after expiry, on a link that is open."""
    refusals, clock = Refusals(), Clock()
    async with broker(refusals, clock=clock) as running, reader(running.statement_address) as billing:
        await billing.subscribe(STORY.definition)
        clock.ahead_s = 3700
        await until(lambda: "CREDENTIAL-IDENTITY-EXPIRED" in refusals.codes, "the link ended")
