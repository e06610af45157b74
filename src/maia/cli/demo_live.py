"""How does the live part of the demonstration run, and what does a watcher see of it?

Four brokers and a key server in processes of their own, four clients, a broker
that dies. Every delivery of a sighting is one line, as it happens. When all
processes have ended, what two of the brokers heard and kept is searched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.events import Instant, Value

if TYPE_CHECKING:
    from rich.console import Console

    from maia.scenarios.carriage import Carriage
    from maia.scenarios.live import LivePlay
    from maia.scenarios.live_brokers import LiveNodes
    from maia.scenarios.numberplate import NumberplateStory

__all__ = ["LiveResult", "go_live", "process_started_at"]

_SHORT: Final = 18
_BEFORE_THEY_START: Final = (
    "concurrent.futures.thread",
    "encodings.idna",
    "maia.runtime.broker_process",
    "maia.runtime.domain_process",
    "maia.runtime.telemetry",
)
"""What processes that are forked need, so that each of them starts at once."""
_WHILE_THEY_START: Final = ("maia.runtime.client_api", "maia.scenarios.live")

Words = Mapping[str, Sequence[bytes]]
"""What is looked for, by what people call it."""


@dataclass(frozen=True, slots=True)
class LiveResult:
    """What was received, what the broker in the middle could see, and what CCS's broker could."""

    play: LivePlay
    carrier: Carriage
    reader: Carriage

    def broken_claims(self) -> Iterator[str]:
        """Say what the broker in the middle saw that it must not see, or why the search proves nothing."""
        yield from self.carrier.broken_claims()
        missed = self.carrier.looked_for - len(self.reader.found)
        if missed:
            yield f"{missed} of the words that were looked for were not found where they are"


def go_live(
    open_screen: Callable[[], Console],
    story: NumberplateStory,
    sightings: Sequence[Mapping[str, Value]],
    *,
    seed: bytes,
    now: Instant,
    folder: Path,
    started_at: float,
    keep: bool,
) -> LiveResult:
    """Run the network, play the story on it, and return what was received; `keep` goes on until Ctrl-C."""
    _load(_BEFORE_THEY_START)
    from maia.scenarios.carriage import words_to_look_for
    from maia.scenarios.carriers import add_carrier
    from maia.scenarios.live_brokers import starting_nodes

    words = words_to_look_for(story, sightings)
    with starting_nodes(story, add_carrier(story, seed), folder) as starting:
        _load(_WHILE_THEY_START)
        screen = open_screen()
        nodes = starting.ready()
        _show_nodes(screen, nodes)
        play = asyncio.run(
            _played(screen, nodes, sightings, words, now=now, started_at=started_at, keep=keep)
        )
    return _searched(nodes, play, words)


def _load(modules: tuple[str, ...]) -> None:
    for name in modules:
        import_module(name)


def _searched(nodes: LiveNodes, play: LivePlay, words: Words) -> LiveResult:
    from maia.scenarios.carriage import carriage_of
    from maia.scenarios.carriers import CARRIER

    carrier, reader = (
        carriage_of(name, nodes.brokers[name].folder, words) for name in (CARRIER, "CCS broker")
    )
    return LiveResult(play, carrier, reader)


async def _played(
    screen: Console,
    nodes: LiveNodes,
    sightings: Sequence[Mapping[str, Value]],
    words: Words,
    *,
    now: Instant,
    started_at: float,
    keep: bool,
) -> LivePlay:
    from maia.scenarios.live import connected, keep_going, play_live

    first: list[float] = []

    def tell(office: str, kind: str, event: Mapping[str, Value]) -> None:
        since = time.time() - started_at
        if not first:
            first.append(since)
            screen.print(f"  {since:6.2f} s  the first event is delivered, to the {office}")
        if kind == "sighting":
            screen.print(f"  {since:6.2f} s  {office:<{_SHORT}} {_shown(event)}")

    def say(sentence: str) -> None:
        screen.print(f"  {time.time() - started_at:6.2f} s  [bold]{sentence}[/bold]")

    async with connected(nodes, tell) as network:
        result = await play_live(network, nodes.brokers, sightings, now=now, say=say)
        if keep:
            from maia.cli.demo_tables import show_carriage

            show_carriage(screen, _searched(nodes, result, words))
            say("the network keeps running; Ctrl-C ends it")
            _show_where_to_ask(screen, nodes)
            await keep_going(network)
        return result


def process_started_at() -> float:
    """Return when this process began, interpreter and imports included; now, where nobody can say."""
    try:
        after_boot = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        import os

        return time.time() - (up - after_boot / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return time.time()


def _show_nodes(screen: Console, nodes: LiveNodes) -> None:
    screen.print("A key server and four brokers, each a process of its own:")
    for one in (nodes.key_server, *nodes.brokers.values()):
        screen.print(f"  {one.name:<16} {one.address:<16} process {one.process.pid}")


def _show_where_to_ask(screen: Console, nodes: LiveNodes) -> None:
    screen.print(f"  maia domain status --data {nodes.key_server.folder / 'data'}", soft_wrap=True)
    for one in nodes.brokers.values():
        if not one.process.has_ended:
            screen.print(f"  maia status --data {one.folder / 'data'}", soft_wrap=True)


def _shown(event: Mapping[str, Value]) -> str:
    cells = (event.get(name) for name in ("numberplate", "location"))
    return "  ".join(f"{'·' if value is None else value!s:<10}" for value in cells)
