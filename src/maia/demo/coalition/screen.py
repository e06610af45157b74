"""How does the story of the coalition look on a screen, and what is left of it for programs?"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from maia.clock import system_now
from maia.credentials import Action
from maia.demo.coalition.world import DEMAND, PEOPLE, ROUTERS, assemble
from maia.demo.program import typed_command
from maia.demo.scenes.screen import load_servers
from maia.demo.screens import LOOK
from maia.events import attribute_uid

if TYPE_CHECKING:
    from maia.demo.coalition.play import Play, Round


BEFORE: Final = """\
Norway, Britain and the Netherlands share contacts at sea over six routers. Every
person and router has a statement of its nation's identity provider: nationality and
clearance of people, the proved boot of routers. Publishers say who may see a contact,
readers say whose contacts they want, routers say which routers they work with.

"""
_SEEN: Final = "[green]●[/green]"
_MARKS: Final[Mapping[str, str]] = {"SUBSCRIBER": "s", "PUBLISHER": "p", "NO_STATEMENT": "x", "CUT_OFF": "c"}


def play_story(folder: Path, *, started_at: float, quiet: bool) -> tuple[dict[str, object], list[str]]:
    """Play the story; return its record, and the claims that do not hold."""
    load_servers()
    from maia.demo.coalition.play import play
    from maia.demo.coalition.world import world_at_work

    screen = Console(quiet=quiet, highlight=False, emoji=False)

    def say(sentence: str) -> None:
        screen.print(f"  {time.time() - started_at:6.2f} s  [bold]{sentence}[/bold]", soft_wrap=True)

    with world_at_work(assemble(os.urandom(32), now=system_now()), folder, say) as world:
        ready_s = time.time() - started_at
        if not quiet:
            _show_nodes(
                screen, {name: (world.addresses.get(name), one.pid) for name, one in world.children.items()}
            )
        found = asyncio.run(play(world, say, lambda one: show_round(screen, one)))
        is_emulated = world.is_emulated
    _show_refused(screen, found)
    record = _record(found) | {
        "swtpm": is_emulated,
        "ready_s": round(ready_s, 3),
        "played_s": round(time.time() - started_at, 3),
    }
    return record, found.broken


def after() -> list[str]:
    """Return the lines that say what to try next."""
    command = typed_command()
    return [
        "Every delivery above went over sockets between processes, and is what the kernel says.",
        "",
        "Next:",
        f"  {f'{command} tpm --help':<24} prove the boot of your own router",
        f"  {'docs/identity.md':<24} statements, guests and attested routers, command by command",
    ]


def _show_nodes(screen: Console, nodes: Mapping[str, tuple[str | None, int]]) -> None:
    screen.print()
    for name, (address, pid) in nodes.items():
        what = f"router at {address}" if address else "identity provider"
        screen.print(f"  {name:<12} {what:<26} process {pid}")
    table = Table(title="Who takes part", **LOOK)
    for heading in ("", "of", "clearance", "connected at", "", "publishers with"):
        table.add_column(heading)
    for who, person in PEOPLE.items():
        clearance = str(person.attributes[attribute_uid("clearance")])
        requires = "" if person.requires == "true" else person.requires
        does = "publishes" if person.action is Action.PUBLISH else "subscribes"
        table.add_row(who, person.nation, clearance, person.router, does, requires)
    screen.print(Padding(table, (1, 0, 0, 0)))
    screen.print("What happens, by seconds since the start:")


def show_round(screen: Console, this: Round) -> None:
    """Show who saw what in one round, and why the others did not."""
    from maia.demo.coalition.play import READERS, Obstacle

    table = Table(**LOOK, padding=(0, 1, 0, 0))
    table.add_column("by")
    table.add_column("for subscribers with", no_wrap=True)
    for who in READERS:
        table.add_column(who, justify="center")
    marks: set[str] = set()
    for one in this.written:
        cells = []
        for who in READERS:
            has_seen = any(seen["vessel"] == one.contact["vessel"] for seen in this.received[who])
            obstacle = one.obstacles[who]
            if has_seen != (who in one.expected):
                cells.append("[bold red]✗[/bold red]")
            elif obstacle is None:
                cells.append(_SEEN)
            else:
                marks.add(obstacle.name)
                cells.append(f"[dim]{_MARKS[obstacle.name]}[/dim]")
        requires = "anything" if one.requires == "true" else one.requires
        table.add_row(one.by, requires, *cells)
    screen.print(Padding(table, (0, 0, 0, 1)))
    legend = ", ".join(f"{_MARKS[one.name]} {one.value}" for one in Obstacle if one.name in marks)
    screen.print(f"  ● seen; not seen: {legend}", soft_wrap=True)
    for router in (router for router in ROUTERS if not this.neighbours.get(router)):
        screen.print(f"  [bold]{router} has no neighbours: none accepts it without `{DEMAND}`[/bold]")
    screen.print()


def _show_refused(screen: Console, found: Play) -> None:
    table = Table(title="Who tried for more", **LOOK)
    for heading in ("attempt", "refused with"):
        table.add_column(heading)
    for one in found.refused:
        table.add_row(one.title, one.code or "[bold red]nothing stopped it[/bold red]")
    screen.print(table)


def _record(found: Play) -> dict[str, object]:
    rounds = [
        {
            "title": one.title,
            "neighbours": {router: sorted(peers) for router, peers in one.neighbours.items()},
            "contacts": [
                {
                    "by": each.by,
                    "requires": each.requires,
                    "contact": dict(each.contact),
                    "expected": {who: dict(seen) for who, seen in each.expected.items()},
                    "received": {
                        who: [dict(seen) for seen in got if seen["vessel"] == each.contact["vessel"]]
                        for who, got in one.received.items()
                        if any(seen["vessel"] == each.contact["vessel"] for seen in got)
                    },
                    "not_seen": {
                        who: obstacle.value
                        for who, obstacle in each.obstacles.items()
                        if obstacle is not None
                    },
                }
                for each in one.written
            ],
        }
        for one in found.rounds
    ]
    return {"rounds": rounds, "refused": [{"title": one.title, "code": one.code} for one in found.refused]}
