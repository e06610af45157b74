"""`maia publish`: send events to a network, one from options or many from standard input."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from maia.cli.inputs import AsJson, moment
from maia.cli.json_events import LINE_MAX, BadEventLine, event_from_line, event_from_words
from maia.cli.key import KeyFile
from maia.cli.membership import (
    Brokers,
    Coordinator,
    CredentialFiles,
    Definition,
    Membership,
    Network,
    Previous,
    WaitS,
    WalletPath,
    history_of,
    membership,
    verified,
)
from maia.cli.output import answer

if TYPE_CHECKING:
    from maia.events import Value
    from maia.runtime.publisher import Publisher
    from maia.types import SignedDefinition, VerifiedType

__all__ = ["EXAMPLES", "publish"]

EXAMPLES: Final = (
    "Examples: maia publish -d numberplate.type -k camera.key --credentials certs "
    "--network 'UK Police Network' --coordinator pito.pub --broker 127.0.0.1:7400 "
    "--set 'numberplate=AE05 XYZ' --set timestamp=now; "
    "… < sightings.jsonl   (one JSON object a line)"
)

_LINES_AHEAD: Final = 1024


def publish(
    definition: Definition,
    key: KeyFile,
    credentials: CredentialFiles,
    network: Network,
    coordinator: Coordinator,
    broker: Brokers,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="One attribute; without any, read standard input."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many events; with --set, send it so often.")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Events per second at most.")] = None,
    where: Annotated[
        str, typer.Option("--filter", help="Advertise no more than this, in the filter language.")
    ] = "true",
    previous: Previous = None,
    wallet: WalletPath = None,
    wait_s: WaitS = 30.0,
    as_json: AsJson = False,
) -> None:
    """Publish events: JSON objects on standard input, one a line, or one event from --set."""
    import asyncio

    member = membership(
        key=key,
        network=network,
        coordinator=coordinator,
        credentials=credentials,
        brokers=broker,
        wait_s=wait_s,
        wallet=wallet,
    )
    history = history_of(definition, previous)
    event_type = verified(history, member.constitutions)
    events = _repeated(values, count, event_type) if values else _from_input(count, event_type)
    sent = asyncio.run(_publish(member, history, where, _paced(events, rate)))
    answer([f"published {sent} event{'' if sent == 1 else 's'}"], {"published": sent}, as_json=as_json)


async def _publish(
    member: Membership,
    history: list[SignedDefinition],
    where: str,
    events: AsyncIterator[dict[str, Value]],
) -> int:
    sent = 0
    async with member.connect() as client:
        publisher: Publisher = await client.advertise(history, where, timeout_s=member.wait_s)
        async for event in events:
            await publisher.publish(event)
            sent += 1
        await publisher.flush()
    return sent


async def _repeated(
    words: list[str], count: int | None, event_type: VerifiedType
) -> AsyncIterator[dict[str, Value]]:
    for _ in range(count or 1):
        yield event_from_words(words, event_type, now=moment(None))


async def _from_input(count: int | None, event_type: VerifiedType) -> AsyncIterator[dict[str, Value]]:
    number = 0
    async for line in _lines(sys.stdin):
        if not line.strip():
            continue
        try:
            event = event_from_line(line, event_type, now=moment(None))
        except BadEventLine as problem:
            raise BadEventLine(f"event {number + 1}: {problem.message}") from problem
        yield event
        number += 1
        if number == count:
            return


async def _paced(
    events: AsyncIterator[dict[str, Value]], rate: float | None
) -> AsyncIterator[dict[str, Value]]:
    """Hand events on at their rate, counted from the first, so that a slow one is made up for."""
    import asyncio

    loop = asyncio.get_running_loop()
    begun, number = loop.time(), 0
    async for event in events:
        if rate is not None:
            await asyncio.sleep(max(0.0, begun + number / rate - loop.time()))
        yield event
        number += 1


async def _lines(source: Iterable[str]) -> AsyncIterator[str]:
    """Read lines beside the event loop, no further ahead than a limit."""
    import asyncio

    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str | None] = asyncio.Queue(_LINES_AHEAD)

    def read() -> None:
        try:
            for line in source:
                asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()
            asyncio.run_coroutine_threadsafe(queue.put(None), loop).result()
        except (RuntimeError, ValueError, OSError):
            return  # the loop has ended, or the input has

    # A daemon, because a thread that waits for a keyboard cannot be told to stop.
    threading.Thread(target=read, daemon=True).start()
    while (line := await queue.get()) is not None:
        if len(line) > LINE_MAX:
            raise BadEventLine(f"a line is longer than the {LINE_MAX} characters that are read")
        yield line
