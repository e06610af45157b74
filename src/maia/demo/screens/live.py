"""How does the live part of the demonstration run, and what does a watcher see of it?

Four brokers, a key server and the Met's domain in processes of their own, five
clients, a broker that dies, a right that is revoked. With `--details`, deliveries
of the sightings at Victoria are one line each, as they happen.
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

    from maia.demo.live_processes import LiveNodes, StartingNodes
    from maia.demo.screens.shared import Demonstration


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
    """Start the other nodes and play the live acts."""
    demo.screen  # noqa: B018 - loaded while the first nodes start
    demo.nodes = demo.starting.ready()
    _show_nodes(demo, demo.nodes)
    asyncio.run(_played(demo))


async def _played(demo: Demonstration) -> None:
    from maia.demo.acts import Stage, play_live
    from maia.demo.live_network import connected
    from maia.demo.met_domain import DETECTIVE
    from maia.demo.performance import OFFICES

    at_once = [office for office in OFFICES if office != DETECTIVE]
    watcher = _Watcher(demo)
    async with connected(demo.nodes, watcher.tell, offices=at_once) as network:
        stage = Stage(
            network,
            demo.nodes.brokers,
            demo.nodes.story,
            now=demo.now,
            say=watcher.say,
            say_more=watcher.say_more,
            traffic=_TRAFFIC,
            seed=demo.options.seed,
        )
        demo.live = await play_live(stage)
        assert stage.desk is not None  # noqa: S101 - the detective has logged in
        demo.story, demo.desk = stage.story, stage.desk
    demo.screen.print()


class _Watcher:
    """Tells what happens, with the seconds since the demonstration was started."""

    def __init__(self, demo: Demonstration) -> None:
        from maia.demo.numberplate import close_up

        self._demo = demo
        self._moments = {event["timestamp"] for event in close_up()}
        self._is_first = True

    def tell(self, office: str, kind: str, event: Mapping[str, Value]) -> None:
        """Show a delivery: the first one, and those that are shown one by one."""
        if self._is_first:
            self._is_first = False
            self.say(f"the first event is delivered, to the {office}")
        if kind == "sighting" and event["timestamp"] in self._moments:
            self._line(self._demo.details, f"{office:<{_SHORT}} {_shown(event)}")

    def say(self, sentence: str) -> None:
        """Tell what happened to the network."""
        self._line(self._demo.screen, sentence)

    def say_more(self, sentence: str) -> None:
        """Tell what only those read who want the details."""
        self._line(self._demo.details, sentence)

    def _line(self, screen: Console, text: str) -> None:
        screen.print(f"  {time.time() - self._demo.started_at:6.2f} s  {text}")


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


_DRAWING: Final = """\
  camera ──────────┐                                 ┌─ PITO broker ─ statistics
                   ├─ CCS broker ── Highways broker ─┤  {PITO broker}
  billing office ──┘  {CCS broker}        {Highways broker}           └─ Met broker ── Det. Smith
                                    without rights      {Met broker}
  PITO keys {PITO keys} gives keys to those who may read; Met domain can revoke
"""


def _show_nodes(demo: Demonstration, nodes: LiveNodes) -> None:
    """Draw the processes, each with the port at which it says that it answers."""
    running = (nodes.key_server, *nodes.brokers.values())
    ports = {one.name: f":{one.address.rpartition(':')[2]:<5}" for one in running}
    demo.screen.print(_DRAWING.format_map(ports))
    for one in running:
        demo.details.print(f"  {one.name:<16} {one.address:<16} process {one.process.pid}")
    if nodes.domain is not None:
        demo.details.print(f"  {nodes.domain.name:<16} {'starting':<16} process {nodes.domain.process.pid}")
    demo.screen.print("What happens, by seconds since the start; · is what a reader may not see:")


def _shown(event: Mapping[str, Value]) -> str:
    cells = (event.get(name) for name in ("numberplate", "location"))
    return "  ".join(f"{'·' if value is None else value!s:<10}" for value in cells)
