"""How does the live part of the demonstration run, and what does a watcher see of it?

Three brokers in three processes, four clients, a broker that dies. Every
delivery of a sighting is one line, as it happens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.events import Instant, Value

if TYPE_CHECKING:
    from rich.console import Console

    from maia.scenarios.live import LivePlay
    from maia.scenarios.live_brokers import LiveBroker
    from maia.scenarios.numberplate import NumberplateStory

__all__ = ["go_live", "process_started_at"]

_SHORT: Final = 18


def go_live(
    screen: Console,
    story: NumberplateStory,
    sightings: Sequence[Mapping[str, Value]],
    *,
    seed: bytes,
    now: Instant,
    folder: Path,
    started_at: float,
    keep: bool,
) -> LivePlay:
    """Run the network, play the story on it, and return what was received; `keep` goes on until Ctrl-C."""
    # Loaded before the brokers are forked, so that each of them starts at once.
    import maia.runtime.broker_process
    import maia.runtime.client_api
    import maia.runtime.telemetry  # noqa: F401 - the forked brokers need it
    from maia.scenarios.brokers import add_brokers
    from maia.scenarios.live_brokers import running_brokers

    with running_brokers(story, add_brokers(story, seed), folder) as brokers:
        _show_brokers(screen, brokers)
        return asyncio.run(
            _played(screen, story, brokers, sightings, now=now, started_at=started_at, keep=keep)
        )


async def _played(
    screen: Console,
    story: NumberplateStory,
    brokers: Mapping[str, LiveBroker],
    sightings: Sequence[Mapping[str, Value]],
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

    async with connected(story, brokers, tell) as network:
        result = await play_live(network, brokers, sightings, now=now, say=say)
        if keep:
            say("the network keeps running; Ctrl-C ends it")
            for one in brokers.values():
                screen.print(f"  maia status --data {one.folder / 'data'}", soft_wrap=True)
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


def _show_brokers(screen: Console, brokers: Mapping[str, LiveBroker]) -> None:
    screen.print("Three domains, three brokers, each a process of its own:")
    for one in brokers.values():
        screen.print(f"  {one.name:<12} {one.address:<16} process {one.process.pid}")


def _shown(event: Mapping[str, Value]) -> str:
    cells = (event.get(name) for name in ("numberplate", "location"))
    return "  ".join(f"{'·' if value is None else value!s:<10}" for value in cells)
