"""How does the live part of the demonstration run, and what does a watcher see of it?

Four brokers, a key server and the Met's domain in processes of their own, five
clients, a broker that dies, a right that is revoked. Deliveries of the
sightings at Victoria are one line each, as they happen.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.events import Instant, Value

if TYPE_CHECKING:
    from rich.console import Console

    from maia.demo.live_network import LiveNetwork
    from maia.demo.live_processes import LiveNodes, StartingNodes
    from maia.demo.screens.shared import Demonstration

__all__ = ["play_on_the_network", "process_started_at", "starting_network"]

_TRAFFIC: Final = 2_000
"""How many sightings of the other cameras there are."""
_SHORT: Final = 18
_BEFORE_THEY_START: Final = (
    "concurrent.futures.thread",
    "encodings.idna",
    "maia.broker.server.process",
    "maia.net.telemetry",
)
"""What all brokers need, so that each of them starts at once; a domain loads what it alone needs itself."""
_WHILE_THEY_START: Final = ("maia.client.api.client", "maia.demo.acts")


@contextmanager
def starting_network(*, seed: bytes, now: Instant, folder: Path) -> Iterator[StartingNodes]:
    """Start the first nodes, and end all of them when the body has ended."""
    from maia.demo.numberplate import add_control_room, tell_numberplate_story

    story = add_control_room(tell_numberplate_story(seed, now=now), seed)
    _load(_BEFORE_THEY_START)
    from maia.demo.brokers import add_carrier
    from maia.demo.live_processes import recording_settings, starting_nodes
    from maia.demo.met_domain import add_met_domain

    settings = recording_settings(story, folder)
    story, cast = add_met_domain(story, add_carrier(story, seed), seed)
    with starting_nodes(story, cast, folder, settings=settings) as starting:
        _load(_WHILE_THEY_START)
        yield starting


def _load(modules: tuple[str, ...]) -> None:
    """Load modules without looking for garbage among them, now or in the processes that are forked."""
    gc.disable()
    for name in modules:
        import_module(name)
    gc.freeze()
    gc.enable()


def play_on_the_network(demo: Demonstration) -> None:
    """Start the other nodes and play the live acts; `--keep` goes on until Ctrl-C."""
    demo.screen  # noqa: B018 - loaded while the first nodes start
    demo.nodes = demo.starting.ready()
    _show_nodes(demo.screen, demo.nodes)
    asyncio.run(_played(demo))


async def _played(demo: Demonstration) -> None:
    from maia.demo.acts import Stage, play_live
    from maia.demo.live_network import connected
    from maia.demo.met_domain import DETECTIVE
    from maia.demo.performance import OFFICES

    at_once = [office for office in OFFICES if office != DETECTIVE]
    watcher = _Watcher(demo.screen, demo.started_at)
    async with connected(demo.nodes, watcher.tell, offices=at_once) as network:
        stage = Stage(
            network,
            demo.nodes.brokers,
            demo.nodes.story,
            now=demo.now,
            say=watcher.say,
            traffic=_TRAFFIC,
            seed=demo.options.seed,
        )
        demo.live = await play_live(stage)
        demo.story = stage.story
        if demo.options.keep:
            await _kept(demo, network, watcher)
    demo.screen.print()


async def _kept(demo: Demonstration, network: LiveNetwork, watcher: _Watcher) -> None:
    from maia.demo.live_network import keep_going
    from maia.demo.screens.shared import searched
    from maia.demo.screens.tables import show_carriage

    show_carriage(demo.screen, demo.live, searched(demo))
    watcher.say("the network keeps running; Ctrl-C ends it")
    _show_where_to_ask(demo.screen, demo.nodes)
    watcher.tells_everything = True
    await keep_going(network)


class _Watcher:
    """Tells what happens, with the seconds since the demonstration was started."""

    def __init__(self, screen: Console, started_at: float) -> None:
        from maia.demo.numberplate import close_up

        self._screen, self._started_at = screen, started_at
        self._moments = {event["timestamp"] for event in close_up()}
        self._is_first = True
        self.tells_everything = False

    def tell(self, office: str, kind: str, event: Mapping[str, Value]) -> None:
        """Show a delivery: the first one, and those that are shown one by one."""
        if self._is_first:
            self._is_first = False
            self._line(f"the first event is delivered, to the {office}")
        if kind == "sighting" and (self.tells_everything or event["timestamp"] in self._moments):
            self._line(f"{office:<{_SHORT}} {_shown(event)}")

    def say(self, sentence: str) -> None:
        """Tell what happened to the network."""
        self._line(f"[bold]{sentence}[/bold]")

    def _line(self, text: str) -> None:
        self._screen.print(f"  {time.time() - self._started_at:6.2f} s  {text}")


# ------------------------------------------------------------ times and lines


def process_started_at() -> float:
    """Return when this process began, interpreter and imports included; now, where that is unknown."""
    try:
        after_boot = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        import os

        return time.time() - (up - after_boot / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return time.time()


def _show_nodes(screen: Console, nodes: LiveNodes) -> None:
    screen.print("A key server, four brokers and the Met's own server, each a process:")
    for one in (nodes.key_server, *nodes.brokers.values()):
        screen.print(f"  {one.name:<16} {one.address:<16} process {one.process.pid}")
    if nodes.domain is not None:
        screen.print(f"  {nodes.domain.name:<16} {'starting':<16} process {nodes.domain.process.pid}")
    screen.print("\nWhat happens, by seconds since the start; · is what a reader may not see:")


def _show_where_to_ask(screen: Console, nodes: LiveNodes) -> None:
    homes = [nodes.key_server.folder, *(() if nodes.domain is None else (nodes.domain.home,))]
    for home in homes:
        screen.print(f"  maia domain status --data {home / 'data'}", soft_wrap=True)
    for one in nodes.brokers.values():
        if not one.process.has_ended:
            screen.print(f"  maia status --data {one.folder / 'data'}", soft_wrap=True)


def _shown(event: Mapping[str, Value]) -> str:
    cells = (event.get(name) for name in ("numberplate", "location"))
    return "  ".join(f"{'·' if value is None else value!s:<10}" for value in cells)
