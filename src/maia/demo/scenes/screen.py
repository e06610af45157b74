"""How does a scene look to the person who watches, and what is left of it for programs?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from maia.demo.program import typed_command
from maia.demo.scenes.scene import Happening, Scene, assemble
from maia.events import Instant, Value
from maia.testing.postgres_server import PostgresNotStarted, postgres_binaries

if TYPE_CHECKING:
    from maia.demo.processes import Recording
    from maia.demo.scenes.play import Published, Stage
    from maia.demo.scenes.tables import LogTable
    from maia.demo.scenes.world import World


_LOADED: Final = (
    "concurrent.futures.thread",
    "encodings.idna",
    "maia.broker.server.process",
    "maia.domain.server.process",
    "maia.net.telemetry",
)
_SHORT: Final = 14
_DIGITS: Final = 2


@dataclass(frozen=True, slots=True)
class Showing:
    """How much of a scene is shown, and since when it is played."""

    started_at: float
    has_spark: bool
    has_details: bool
    quiet: bool


def play_scene(
    scene: Scene, folder: Path, showing: Showing, *, seed: bytes, now: Instant
) -> tuple[dict[str, object], list[str]]:
    """Play a scene; return its record, and the claims that do not hold."""
    from maia.demo.scenes.tables import MODULE, compared, first_order, give_log
    from maia.demo.spark_process import spark_running

    screen = Console(quiet=showing.quiet, highlight=False, emoji=False)
    scene = playable(scene, screen)

    def say(sentence: str) -> None:
        screen.print(f"  {time.time() - showing.started_at:6.2f} s  {sentence}", soft_wrap=True)

    with ExitStack() as stack:
        order = first_order(scene, seed, now)
        spark = (
            stack.enter_context(spark_running(MODULE, order, folder=folder)) if showing.has_spark else None
        )
        stage, recording = _played(scene, folder, seed=seed, now=now, say=say)
        tables: list[LogTable] = []
        if spark is not None:
            give_log(spark, stage, recording, folder / "tables")
        if showing.has_details:
            show_policies(screen, scene)
        show_deliveries(screen, stage, has_details=showing.has_details)
        if spark is not None:
            done = spark.answer("tables", lambda _step: None)
            tables = compared(stage, folder / "tables", done["tables"])
            show_tables(screen, tables, recording)
    broken = list(stage.broken)
    for one in tables:
        broken += one.broken_claims(has_lost_a_right=one.reader in stage.lost)
    record = _record(stage) | {
        "log": {"events": recording.events, "frames": recording.frames},
        "tables": [asdict(one) for one in tables],
        "played_s": round(time.time() - showing.started_at, 3),
    }
    return record, broken


def load_servers() -> None:
    """Load what the processes need, so that each of them, forked from this one, starts at once."""
    for name in _LOADED:
        import_module(name)


def playable(scene: Scene, screen: Console) -> Scene:
    """Return the scene, without its database where that can be done without and no server is installed."""
    if scene.database is None or scene.database.is_needed:
        return scene
    try:
        postgres_binaries()
    except PostgresNotStarted as problem:
        screen.print(f"The {scene.database.name} is left out: {problem.message}\n", soft_wrap=True)
        return scene.without_database()
    return scene


def _played(
    scene: Scene, folder: Path, *, seed: bytes, now: Instant, say: Callable[[str], None]
) -> tuple[Stage, Recording]:
    load_servers()
    from maia.demo.processes import home_of, rolled
    from maia.demo.scenes.play import play
    from maia.demo.scenes.world import world_at_work

    with world_at_work(assemble(scene, seed, now=now), folder) as world:
        say(_processes(world))
        stage = asyncio.run(play(world, say))
        world.stop()
        stage.broken += stage.unexplained(world.disclosures())
        return stage, rolled(home_of(folder, scene.brokers[0]))


def _processes(world: World) -> str:
    scene = world.cast.scene
    names = ", ".join(one.name for one in scene.organisations)
    database = "" if scene.database is None else ", PostgreSQL and its connector"
    return f"{len(scene.brokers)} brokers, domain servers ({names}){database}, each a process"


def after(scene: str) -> list[str]:
    """Return the lines that say what to try next."""
    command = typed_command()
    return [
        "",
        "Every delivery went over TLS between processes, and is what the kernel says.",
        f"Next: {command} demo {scene} --details, docs/scenarios.md, docs/interaction.md",
    ]


# ------------------------------------------------------------ on the screen


def show_policies(screen: Console, scene: Scene) -> None:
    """Show the policy of each organisation."""
    for one in scene.organisations:
        screen.print(f"\nThe policy of the {one.name}:\n")
        screen.print(one.policy, markup=False)


def show_deliveries(screen: Console, stage: Stage, *, has_details: bool) -> None:
    """Show what each reader saw of the events of the close-up, what was withheld, and who was refused."""
    shown = [one for one in stage.published if one.is_close_up]
    names = {one.name for one in stage.scene.publishers}
    origins = [at for at, one in enumerate(shown) if one.by in names]
    until = len(shown) if has_details else [*origins, len(shown)][1]
    for one in shown[:until]:
        _show_event(screen, stage, one)
    _show_totals(screen, stage)
    screen.print(f"  on record in the brokers' ledgers: {sum(stage.disclosed.values()):,}, probes included")
    screen.print("\nWho tried for more:")
    rows = [[one.title, one.code or "NOTHING STOPPED IT"] for one in stage.attempted]
    print_aligned(screen, rows)


def _show_event(screen: Console, stage: Stage, one: Published) -> None:
    """Show what each reader of its type sees of one event; those that see another type come after."""
    readers = [each for each in stage.scene.readers if each.type_name == one.type_name]
    if one.by in {each.name for each in stage.scene.publishers}:
        screen.print(f"\n{one.by} publishes one `{one.type_name}`; · is withheld:")
    else:
        released = f"and with the same commit the {one.by} releases one `{one.type_name}`:"
        screen.print(released, soft_wrap=True)
    rows = [["", *one.event], [one.by, *map(_cell, one.event.values())]]
    for reader in readers:
        seen = one.expected.get(reader.name)
        if seen is None:
            rows.append([reader.name, "nothing"])
        elif seen not in stage.inbox(reader.name).events:
            rows.append([reader.name, "MISSING"])
        elif reader.shown_as is None:
            rows.append([reader.name, *(_cell(seen[name]) for name in one.event)])
    print_aligned(screen, rows)
    for reader in readers:
        seen = one.expected.get(reader.name)
        if seen is not None and reader.shown_as is not None:
            screen.print(f"which the {reader.name} sees as `{reader.shown_as}`:")
            print_aligned(screen, [["", *seen], [reader.name, *map(_cell, seen.values())]])


def print_aligned(screen: Console, rows: list[list[str]]) -> None:
    widths = [max(len(row[at]) for row in rows if at < len(row)) for at in range(max(map(len, rows)))]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        screen.print(f"  {'  '.join(cells).rstrip()}", soft_wrap=True, markup=False)


def _show_totals(screen: Console, stage: Stage) -> None:
    rows = [["", "received", "withheld", "never saw", "sees"]]
    for reader in stage.scene.readers:
        inbox = stage.inbox(reader.name)
        never = [name for name, values in stage.values_seen(reader.name).items() if not values]
        ended = f", until {inbox.ended}" if inbox.ended else ""
        withheld = f"{_withheld(stage, reader.name):,}"
        delivered = f"{len(inbox.events):,}"
        rows.append([reader.name, delivered, withheld, ", ".join(never) or "–", f"{reader.sees}{ended}"])
    screen.print("\nWho saw what, of all events:")
    print_aligned(screen, rows)


def show_tables(screen: Console, tables: list[LogTable], recording: Recording) -> None:
    """Show what Spark found in the log."""
    screen.print(f"\nThe recorded log has {recording.events:,} events, probes included. Spark reads it for")
    rows = []
    for one in tables:
        found = f"{one.rows:,} rows, " + (
            "as received" if one.is_as_received else "fewer than received: a right was lost"
        )
        if not one.is_same:
            found = f"{one.rows:,} rows, NOT WHAT THE KERNEL SAYS"
        if one.refused is not None:
            found = f"refused: {one.refused}"
        if one.application is not None:
            same = "the same" if one.results_same else "OTHERS"
            found += f"; `{one.application}`: {one.results:,} results, {same} of what was received"
        rows.append([one.reader, found])
    print_aligned(screen, rows)


def _cell(value: Value) -> str:
    match value:
        case None:
            return "·"
        case Instant():
            return f"{value.to_datetime():%H:%M:%S}"
        case float():
            return f"{value:.{_DIGITS}f}"
        case str() if len(value) > _SHORT:
            return f"{value[: _SHORT - 1]}…"
        case _:
            return str(value)


def _withheld(stage: Stage, reader: str) -> int:
    type_name = stage.scene.reader(reader).type_name
    published = sum(not each.is_probe and each.type_name == type_name for each in stage.published)
    return published - len(stage.inbox(reader).events)


# ------------------------------------------------------------ for programs


def _record(stage: Stage) -> dict[str, object]:
    readers = {
        reader.name: {
            "delivered": len(stage.inbox(reader.name).events),
            "withheld": _withheld(stage, reader.name),
            "disclosed": stage.disclosed[reader.name],
            "ended": stage.inbox(reader.name).ended,
            "values": {name: len(values) for name, values in stage.values_seen(reader.name).items()},
        }
        for reader in stage.scene.readers
    }
    close_up = [
        {
            "by": one.by,
            "event": _plain(one.event),
            "seen": {
                reader.name: [
                    _plain(event)
                    for event in stage.inbox(reader.name).events
                    if event == one.expected.get(reader.name)
                ][:1]
                for reader in stage.scene.readers
            },
        }
        for one in stage.published
        if one.is_close_up
    ]
    refused = [{"title": one.title, "code": one.code} for one in stage.attempted]
    return {"scene": stage.scene.name, "readers": readers, "close_up": close_up, "refused": refused}


def _plain(event: Happening) -> Mapping[str, object]:
    return {name: str(value) if isinstance(value, Instant) else value for name, value in event.items()}
