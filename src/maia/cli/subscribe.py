"""`maia subscribe`: print the events of a type as they arrive, one line of JSON each."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from maia.cli.json_events import record_of
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
    history_of,
    membership,
    verified,
)
from maia.errors import Unavailable

if TYPE_CHECKING:
    from maia.runtime.subscription import ReceivedEvent
    from maia.types import SignedDefinition

__all__ = ["EXAMPLES", "subscribe"]

EXAMPLES: Final = (
    "Examples: maia subscribe -d numberplate.type -k billing.key --credentials certs "
    "--network 'UK Police Network' --coordinator pito.pub --broker 127.0.0.1:7400 "
    "--filter 'prefix(numberplate, \"AE\")' --count 10"
)


class TooFewEvents(Unavailable):
    """The time that was given is over, and fewer events came than were asked for."""

    code = "UNAVAILABLE-EVENTS"


def subscribe(
    definition: Definition,
    key: KeyFile,
    credentials: CredentialFiles,
    network: Network,
    coordinator: Coordinator,
    broker: Brokers,
    where: Annotated[
        str, typer.Option("--filter", help="Only events that this admits, in the filter language.")
    ] = "true",
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--for", min=0.1, help="Stop after so many seconds; with --count, fail if fewer came."),
    ] = None,
    previous: Previous = None,
    wait_s: WaitS = 30.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Also print who published each event, and when.")
    ] = False,
) -> None:
    """Print events as they arrive, until Ctrl-C; standard error says when the subscription stands."""
    import asyncio

    member = membership(
        key=key,
        network=network,
        coordinator=coordinator,
        credentials=credentials,
        brokers=broker,
        wait_s=wait_s,
    )
    history = history_of(definition, previous)
    verified(history)
    asyncio.run(_subscribe(member, history, where, count=count, seconds=seconds, as_json=as_json))


async def _subscribe(
    member: Membership,
    history: list[SignedDefinition],
    where: str,
    *,
    count: int | None,
    seconds: float | None,
    as_json: bool,
) -> None:
    import asyncio

    seen = 0
    async with member.connect() as client:
        subscription = await client.subscribe(history, where, timeout_s=member.wait_s)
        sys.stderr.write(f"subscribed to {history[-1].definition.name.name}\n")
        sys.stderr.flush()
        try:
            async with asyncio.timeout(seconds):
                async for event in subscription:
                    _print(event, as_json=as_json)
                    seen += 1
                    if seen == count:
                        return
        except TimeoutError:
            if count is not None:
                raise TooFewEvents(f"{seen} of {count} events came within {seconds:g} seconds") from None


def _print(event: ReceivedEvent, *, as_json: bool) -> None:
    record: dict[str, object] = record_of(event)
    if as_json:
        delivered = event.delivered
        record = {
            "event": record,
            "publisher": str(delivered.publisher),
            "published_at": str(delivered.published_at),
            "stream": delivered.stream.hex(),
            "sequence": delivered.sequence,
        }
    sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")
    sys.stdout.flush()
