"""The numberplate story over real sockets: brokers, clients, and a client that does whatever it likes."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

from maia.broker.server.server import RunningBroker
from maia.client.api.client import Client
from maia.client.api.connection import Connection
from maia.clock import system_now
from maia.credentials import Action, SigningKey, TypePattern
from maia.net.tls import dialling_context
from maia.predicates import ALWAYS, parse_predicate
from maia.testing import Cast, broker_settings, connected, serving, shown
from maia.types import definition_to_bytes
from maia.wire import (
    PROTOCOL_VERSION,
    EdgeRequest,
    Greeting,
    Hello,
    Message,
    Splitter,
    Subscribe,
    Welcome,
    decode,
    encode,
    framed,
    network_to_bytes,
    request_to_bytes,
    sign_request,
)
from support.numberplate import CAMERA, is_about, tell_numberplate_story

BROKER = "CCS"
"""Which member of the cast runs the broker."""

STORY = tell_numberplate_story(b"over real sockets", now=system_now())
TYPE = STORY.type_name
AS_ITS_BROKER = (*STORY.certificates, STORY.broker_right(STORY.keys[BROKER]))
settings = partial(broker_settings, STORY, credentials=AS_ITS_BROKER)


def broker(*, story: Cast = STORY, **changes: object) -> AbstractAsyncContextManager[RunningBroker]:
    """Run the story's broker in this process."""
    return serving(story, BROKER, **changes)


def client(who: str, address: str, *, story: Cast = STORY, **named: object) -> Connection:
    """Connect a member of the cast, with every certificate of the story in its wallet."""
    return connected(story, who, address, **named)


@asynccontextmanager
async def city(
    *who: str, story: Cast = STORY, **named: object
) -> AsyncIterator[tuple[RunningBroker, *tuple[Client, ...]]]:
    """Run the story's broker here, and connect these members of the cast to it."""
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(broker(story=story, **named))
        clients = [await stack.enter_async_context(client(one, running.address, story=story)) for one in who]
        yield running, *clients


# ------------------------------------------------------------ a client that does whatever it likes


class Stranger:
    """A hand-made client: it holds a key, and says what a test wants it to say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._splitter = Splitter(16 << 20)
        self._messages: list[bytes] = []

    def say(self, *messages: Message) -> None:
        """Send messages, whatever they are."""
        for message in messages:
            self.say_bytes(framed(encode(message)))

    def say_bytes(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        self._writer.write(data)

    async def hear(self) -> Message | None:
        """Return the next message, or None when the other side has closed."""
        while not self._messages:
            try:
                async with asyncio.timeout(180):
                    data = await self._reader.read(1 << 16)
            except (ConnectionError, ssl.SSLError):
                return None
            if not data:
                return None
            self._messages += self._splitter.feed(data)
        return decode(self._messages.pop(0))

    async def hear_until_closed(self) -> list[Message]:
        """Return everything that the other side says before it closes."""
        heard: list[Message] = []
        while (message := await self.hear()) is not None:
            heard.append(message)
        return heard

    async def introduce(self, who: str, *, address: str | None = None, story: Cast = STORY) -> None:
        """Shake hands as a member of the cast, with an address as a broker of the owner's; be welcomed."""
        assert isinstance(await self.hear(), Greeting)
        as_broker = () if address is None else (story.broker_right(story.keys[who]),)
        self.say(hello(story=story, address=address, credentials=shown((*story.certificates, *as_broker))))
        assert isinstance(await self.hear(), Welcome), who

    async def stop_reading(self) -> None:
        """Leave whatever arrives to TCP."""
        transport = self._writer.transport
        transport.pause_reading()


def hello(
    *, story: Cast = STORY, address: str | None = None, credentials: list[bytes] | None = None
) -> Hello:
    """Return a hello that shows every certificate of the story."""
    given = shown(story.certificates) if credentials is None else credentials
    return Hello(PROTOCOL_VERSION, network_to_bytes(story.network), given, bytes(16), address)


@asynccontextmanager
async def stranger(
    key: SigningKey, address: str, context: ssl.SSLContext | None = None
) -> AsyncIterator[Stranger]:
    """Connect a hand-made client that proves `key`."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(
        host, int(port), ssl=context or dialling_context(key), server_hostname=""
    )
    try:
        yield Stranger(reader, writer)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


def subscribe_message(who: str, *, ref: int = 1) -> Subscribe:
    """Return a fresh request of a member of the cast for every event of the story's type."""
    asked = EdgeRequest(
        Action.SUBSCRIBE, STORY.network, TYPE, ALWAYS, os.urandom(16), system_now(), os.urandom(16)
    )
    request = request_to_bytes(sign_request(asked, STORY.keys[who]))
    return Subscribe(ref, request, shown(STORY.certificates), [definition_to_bytes(STORY.definition)])


def story_with_a_choosy_camera() -> Cast:
    """Let the camera publish plates that begin with `AE`, and no others."""
    one_region = parse_predicate('prefix(numberplate, "AE")', STORY.definition.definition.vocabulary)
    others = tuple(
        signed
        for signed in STORY.certificates
        if signed.certificate.subject != STORY.principal(CAMERA) or not is_about(signed, TypePattern)
    )
    terms = {"attributes": frozenset(STORY.kinds), "restriction": one_region}
    return replace(STORY, certificates=others).let(CAMERA, Action.PUBLISH, **terms)
