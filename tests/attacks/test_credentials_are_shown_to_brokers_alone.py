"""What does a client show, and to whom? It is asked by a server that does whatever it likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

import maia
from maia.credentials import (
    Action,
    NetworkName,
    SigningKey,
    certificate_from_bytes,
    certificate_to_bytes,
)
from maia.credentials.statements import BadStatement
from maia.net.tls import accepting_context
from maia.testing import in_a_loop, until
from maia.wire import (
    PROTOCOL_VERSION,
    Accepted,
    Advertise,
    Greeting,
    Hello,
    Message,
    Splitter,
    Subscribe,
    Welcome,
    Withdraw,
    decode,
    encode,
    framed,
    network_to_bytes,
)
from maia.wire.messages import Show
from support.live import AS_ITS_BROKER, BROKER, STORY, client

MALLORY = SigningKey.from_seed(b"mallory".ljust(32, b"!"))
CAMERA, OTHER = "camera at Victoria", "billing office"
ALL = [certificate_to_bytes(signed) for signed in AS_ITS_BROKER]


@dataclass
class Server:
    """A hand-made broker: it says what it was told to say, and writes down what it receives."""

    says: list[Message]
    address: str = ""
    heard: list[Message] = field(default_factory=list)
    raw: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = Splitter(16 << 20)
        for message in self.says:
            writer.write(framed(encode(message)))
        try:
            with suppress(ConnectionError):
                while data := await reader.read(1 << 16):
                    self._hear(splitter.feed(data), len(data), writer)
        finally:  # at once: a client that is gone answers no farewell, and the loop may end first
            writer.transport.abort()

    def _hear(self, frames: Iterable[bytes], size: int, writer: asyncio.StreamWriter) -> None:
        self.raw += size
        for one in frames:
            message = decode(one)
            self.heard.append(message)
            if isinstance(message, Hello):
                writer.write(framed(encode(Welcome(60))))
            if isinstance(message, Advertise | Subscribe | Withdraw):
                writer.write(framed(encode(Accepted(message.id, None))))


@asynccontextmanager
async def serving(key: SigningKey, *says: Message) -> AsyncIterator[Server]:
    made = Server(list(says))
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=accepting_context(key))
    async with server:
        made.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield made


def greeting(
    *, version: int = PROTOCOL_VERSION, network: NetworkName = STORY.network, shown: list[bytes] | None = None
) -> Greeting:
    return Greeting(version, network_to_bytes(network), ALL if shown is None else shown, bytes(16))


NOT_A_BROKER = {
    "REFUSED-BROKER-NOT-TRUSTED",
    "PROTOCOL-OUT-OF-TURN",
    "PROTOCOL-VERSION",
    "PROTOCOL-WRONG-NETWORK",
    BadStatement.code,
}


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (MALLORY, greeting()),
        (STORY.keys[BROKER], greeting(shown=[])),
        (STORY.keys[BROKER], greeting(network=NetworkName(MALLORY.principal, STORY.network.name))),
        (STORY.keys[BROKER], greeting(version=2)),
        (STORY.keys[BROKER], greeting(shown=[b"no certificate"])),
        (MALLORY, Show(0, [], [b"no statement"])),
        (STORY.keys[BROKER], Welcome(60)),
        (STORY.keys[BROKER], Hello(1, network_to_bytes(STORY.network), ALL, bytes(16), None)),
    ],
    ids=[
        *("stranger", "shows nothing", "other network", "other version", "rubbish"),
        *("rubbish for a statement", "welcome", "hello"),
    ],
)
@in_a_loop
async def test_nothing_is_shown_to_whoever_has_not_proved_a_right_to_connect(key: SigningKey, said: Message):
    """A19: no credential, no name and no wish leaves before the broker is verified."""
    async with serving(key, said) as server:
        with pytest.raises(maia.MaiaError) as refused:
            async with client(CAMERA, server.address):
                pass
        assert refused.value.code in NOT_A_BROKER
        assert not any(isinstance(message, Hello | Advertise | Subscribe) for message in server.heard)


@pytest.mark.parametrize("who", [OTHER, "Met", "PITO"], ids=["a member", "an organisation", "the owner"])
@in_a_loop
async def test_whoever_may_connect_and_was_not_made_a_broker_passes_for_none(who: str):
    """A19, A118: with its own certificates and a true broker's beside them, a key is shown nothing."""
    async with serving(STORY.keys[who], greeting()) as server:
        with pytest.raises(maia.Refusal, match="no organisation has made its key a broker") as refused:
            async with client(CAMERA, server.address):
                pass
        assert refused.value.code == "REFUSED-BROKER-NOT-TRUSTED"
        assert server.raw == 0


@in_a_loop
async def test_with_organisations_named_no_broker_of_another_one_is_spoken_to():
    """C16: who was made a broker by another organisation than the client's is told nothing."""
    async with serving(STORY.keys[BROKER], greeting()) as server:
        with pytest.raises(maia.Refusal, match=str(STORY.owner.principal)) as refused:
            async with client(CAMERA, server.address, brokers_of=[STORY.principal("Met")]):
                pass
        assert (refused.value.code, server.raw) == ("REFUSED-BROKER-NOT-TRUSTED", 0)
        async with client(CAMERA, server.address, brokers_of=[STORY.owner.principal]):
            assert server.raw > 0


@in_a_loop
async def test_a_silent_server_receives_nothing():
    """A19: the client waits for the greeting, and says nothing until it came."""
    async with serving(STORY.keys[BROKER]) as server:
        with pytest.raises(maia.Unavailable):
            async with client(CAMERA, server.address, timeout_s=0.3):
                pass
        assert server.raw == 0


@in_a_loop
async def test_with_brokers_named_no_other_principal_is_spoken_to():
    """A19: a right to connect is not enough where the application names its brokers."""
    async with serving(STORY.keys[BROKER], greeting()) as server:
        with pytest.raises(maia.Refusal):
            async with client(CAMERA, server.address, brokers=[STORY.principal("Met")]):
                pass
        assert server.raw == 0


@in_a_loop
async def test_a_request_shows_the_chain_that_it_needs_and_no_other_certificate():
    """C12: the wallet holds every certificate of the story, and the broker learns a few of them."""
    async with serving(STORY.keys[BROKER], greeting()) as server, client(CAMERA, server.address) as camera:
        await camera.advertise(STORY.definition)
        await until(lambda: len(server.heard) >= 2, "hello and advertisement")
        said_hello, advertised = server.heard[:2]
        assert isinstance(said_hello, Hello)
        assert isinstance(advertised, Advertise)
        assert comments(said_hello.credentials) == {"PITO to CCS", "CCS to camera at Victoria"}
        assert comments(advertised.credentials) == {"PITO to CCS", "CCS to camera at Victoria"}
        assert actions(said_hello.credentials) == {Action.CONNECT, Action.INSTALL, Action.SERVE}
        assert actions(advertised.credentials) == {Action.PUBLISH, Action.SUBSCRIBE}


def comments(credentials: list[bytes]) -> set[str]:
    return {certificate_from_bytes(data).certificate.comment for data in credentials}


def actions(credentials: list[bytes]) -> set[Action]:
    return {
        action
        for data in credentials
        for action in certificate_from_bytes(data).certificate.authority.actions
    }


@pytest.mark.parametrize("junk", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00\x01\xc1"])
@in_a_loop
async def test_a_server_that_talks_nonsense_is_left(junk: bytes):
    """A74: a client believes lengths and messages no more than a broker does."""

    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(junk)
        with suppress(ConnectionError):
            await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0, ssl=accepting_context(STORY.keys[BROKER]))
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(maia.MaiaError):
            async with client(CAMERA, address, timeout_s=1.0):
                pass
