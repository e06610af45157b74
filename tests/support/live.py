"""The numberplate story over real sockets: brokers, clients, and a client that does whatever it likes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import maia
from maia.broker import BrokerLimits, BrokerSettings
from maia.broker.server.server import RunningBroker, run_broker
from maia.client.api.client import Client
from maia.clock import system_now
from maia.credentials import SigningKey, certificate_to_bytes
from maia.net.links import LinkLimits
from maia.net.stores import Store
from maia.net.tls import dialling_context
from maia.testing import Cast
from maia.wire import (
    PROTOCOL_VERSION,
    Greeting,
    Hello,
    Message,
    Splitter,
    Welcome,
    decode,
    encode,
    framed,
    network_to_bytes,
)
from support.numberplate import tell_numberplate_story
from support.nursery import module_command

BROKER = "CCS"
"""Which member of the cast runs the broker."""

STORY = tell_numberplate_story(b"over real sockets", now=system_now())
TYPE = STORY.type_name


def settings(story: Cast = STORY, **changes: object) -> BrokerSettings:
    """Return the settings of the story's broker, at any free port."""
    return replace(BrokerSettings(story.network, "127.0.0.1:0", story.certificates), **changes)


def broker(
    *,
    story: Cast = STORY,
    listen: str | None = None,
    store: Store | None = None,
    limits: LinkLimits | None = None,
    broker_limits: BrokerLimits | None = None,
    **changes: object,
) -> AbstractAsyncContextManager[RunningBroker]:
    """Run the story's broker in this process."""
    if broker_limits is not None:
        changes["limits"] = broker_limits
    return run_broker(
        story.keys[BROKER], settings(story, **changes), listen=listen, store=store, limits=limits
    )


def client(
    who: str, address: str, *, story: Cast = STORY, **named: object
) -> AbstractAsyncContextManager[Client]:
    """Connect a member of the cast, with every certificate of the story in its wallet."""
    given: dict[str, object] = {
        "key": story.keys[who],
        "network": story.network,
        "credentials": story.certificates,
        "types": [story.definition],
        "dial_again_s": 0.05,
    }
    return maia.connect(address, **{**given, **named})


@asynccontextmanager
async def city(
    *who: str, story: Cast = STORY, **named: object
) -> AsyncIterator[tuple[RunningBroker, *tuple[Client, ...]]]:
    """Run the story's broker here, and connect these members of the cast to it."""
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(broker(story=story, **named))
        clients = [await stack.enter_async_context(client(one, running.address, story=story)) for one in who]
        yield running, *clients


# ------------------------------------------------------------ a broker as a process of its own


@dataclass
class BrokerProcess:
    """A broker that runs in a process, and can be killed."""

    process: asyncio.subprocess.Process
    address: str
    pid: int

    async def kill(self) -> None:
        """End the process as `kill -9` does."""
        os.kill(self.pid, signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> int:
        """Ask the process to stop, and return its exit code."""
        self.process.terminate()
        return await self.process.wait()


@asynccontextmanager
async def broker_process(folder: Path, address: str = "127.0.0.1:0") -> AsyncIterator[BrokerProcess]:
    """Run the story's broker in a process of its own, which keeps its state in `folder`."""
    process = await asyncio.create_subprocess_exec(
        module_command("support.broker_process"), folder, address, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(180):
            line = await process.stdout.readline()
        yield BrokerProcess(process, **json.loads(line))
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


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
        """Shake hands as a member of the cast, and be welcomed."""
        assert isinstance(await self.hear(), Greeting)
        self.say(hello(story=story, address=address))
        assert isinstance(await self.hear(), Welcome), who

    async def stop_reading(self) -> None:
        """Leave whatever arrives to TCP."""
        transport = self._writer.transport
        transport.pause_reading()


def hello(
    *, story: Cast = STORY, address: str | None = None, credentials: list[bytes] | None = None
) -> Hello:
    """Return a hello that shows every certificate of the story."""
    shown = [certificate_to_bytes(signed) for signed in story.certificates]
    given = shown if credentials is None else credentials
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
