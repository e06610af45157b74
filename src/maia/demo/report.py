"""How does a story look to the person who watches, and what is left of it for programs?

Everything that is printed or recorded was received, counted or measured in this run.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.events import Instant, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from maia.demo.spark import LogTable
    from maia.demo.stage import PublishedEvent, Stage
    from maia.demo.world import Happening, Story, StoryWorld

_SHORT: Final = 14
_NEVER: Final = 30


@dataclass(frozen=True, slots=True)
class Showing:
    """How much of a story is shown, and since when it is played."""

    started_at: float
    has_spark: bool = False
    has_details: bool = False
    keep: bool = False
    quiet: bool = False
    folder: Path = field(default_factory=Path.cwd)
    """Where the command was typed."""

    def line(self, text: str = "") -> None:
        """Print one line."""
        if not self.quiet:
            sys.stdout.write(f"{text.rstrip()}\n")
            sys.stdout.flush()

    def say(self, sentence: str) -> None:
        """Say what has happened, with the seconds since the start."""
        self.line(f"  {time.time() - self.started_at:6.2f} s  {sentence}")

    def table(self, rows: Sequence[Sequence[object]]) -> None:
        """Print rows in columns."""
        cells = [[str(cell) for cell in row] for row in rows]
        widths = [max(len(row[at]) for row in cells if at < len(row)) for at in range(max(map(len, cells)))]
        for row in cells:
            self.line("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)))


def play_story(story: Story, folder: Path, showing: Showing) -> tuple[dict[str, object], list[str]]:
    """Play a story and show it; return its record, and the claims that do not hold."""
    from maia.demo.spark import spark_in_background
    from maia.demo.world import world_at_work

    showing.line(story.before)
    story = _playable(story, showing)
    if showing.has_details:
        showing.line(f"The organisations, as an operator sets them up:\n\n{story.setup}{story.logins}")
        for name, policy in story.policies.items():
            showing.line(f"The policy of {name}:\n\n{policy}")
    with ExitStack() as stack:
        spark = stack.enter_context(spark_in_background(folder)) if showing.has_spark else None
        world = stack.enter_context(world_at_work(story, folder))
        _show_processes(world, showing)
        from maia.demo.stage import play  # loaded while the servers start

        stage = play(world, showing, keep=showing.keep)
        tables = [] if spark is None else spark.tables(stage)
        if not showing.keep:  # a broker that goes on has not written all that it keeps
            story.finish(stage)
        _show_deliveries(stage, showing)
        if tables:
            _show_tables(tables, showing)
        broken = [*stage.broken, *(claim for one in tables for claim in one.broken_claims())]
        first = stage.first_event_at
        record = _record(stage) | {
            "tables": [asdict(one) for one in tables],
            "first_event_s": None if first is None else round(first - showing.started_at, 3),
            "played_s": round(time.time() - showing.started_at, 3),
        }
        if showing.keep and not broken:
            from maia.demo.playground import play_until_interrupted

            for line in after(story, with_spark=True):
                showing.line(line)
            command = typed_command()
            # Typed from another folder, a relative path would mean another file.
            whole = shlex.quote(str(showing.folder / command)) if "/" in command else command
            play_until_interrupted(stage, showing, whole)
    return record, broken


def story_named(name: str) -> Story:
    """Return a story, which is loaded when it is played."""
    story: Story = import_module(f"maia.demo.{name}").STORY
    return story


def started_at() -> float:
    """Return when this process began, interpreter and imports included; now, where that is unknown."""
    try:
        after_boot = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        return time.time() - (up - after_boot / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return time.time()


def _playable(story: Story, showing: Showing) -> Story:
    """Return the story, without its database where that can be done without and no server is installed."""
    if story.database is None or story.database.is_needed:
        return story
    from maia.testing.postgres_server import PostgresNotStarted, postgres_binaries

    try:
        postgres_binaries()
    except PostgresNotStarted as problem:
        showing.line(f"The {story.database.name} is left out: {problem.message}\n")
        return story.without_database()
    return story


def _show_processes(world: StoryWorld, showing: Showing) -> None:
    names = ", ".join(world.organisations())
    more = ", PostgreSQL and its connector" if world.story.database else ""
    more += f", and those of the {world.story.replica.organisation}" if world.story.replica else ""
    showing.say(f"brokers and servers of {names}{more}, each a process")
    for name, child in world.children.items() if showing.has_details else ():
        showing.line(f"{'':12}{name}: process {child.pid}")


def _show_deliveries(stage: Stage, showing: Showing) -> None:
    """Show what each reader saw of the events of the close-up, of all events, and who was refused."""
    close_up = [one for one in stage.published if one.is_close_up]
    written = [at for at, one in enumerate(close_up) if one.by in stage.members]
    until = [*written, len(close_up)][-1 if showing.has_details else min(stage.story.close_ups, len(written))]
    for one in close_up[:until]:
        _show_event(stage, one, showing)
    rows: list[list[object]] = [["", "received", "withheld", "never saw", "sees"]]
    for who, inbox in stage.inboxes.items():
        hidden = ", ".join(name for name, values in inbox.values().items() if not values)
        never = hidden if len(hidden) < _NEVER else f"{hidden[:_NEVER]}…"
        sees = f"{inbox.reader.sees}{f'; {inbox.ended}' if inbox.ended else ''}"
        rows.append([who, f"{len(inbox.events):,}", f"{_withheld(stage, who):,}", never or "–", sees])
    showing.line("\nWho saw what, of all events:")
    showing.table(rows)
    showing.line("\nWho tried for more:")
    showing.table([[title, code or "NOTHING STOPPED IT"] for title, code in stage.refused.items()])
    showing.line()
    figures = {
        **stage.figures,
        "on record in the brokers' ledgers, probes included": sum(stage.disclosed.values()),
    }
    showing.table(
        [[name, f"{value:,}" if isinstance(value, int) else value] for name, value in figures.items()]
    )


def _show_event(stage: Stage, one: PublishedEvent, showing: Showing) -> None:
    """Show what each reader of its type received of one event; those that see another type come after."""
    readers = [each for each in stage.joined() if each.of == one.of]
    if one.by in stage.members:
        showing.line(f"\n{one.by} publishes one `{one.of}`; · is withheld:")
    else:
        showing.line(f"and with the same commit the {one.by} releases one `{one.of}`:")
    rows, others = [["", *one.event], [one.by, *map(_cell, one.wrote.values())]], []
    for reader in readers:
        seen = _received(stage, one, reader.name)
        if seen is None:
            rows.append([reader.name, "MISSING" if reader.name in one.expected else "nothing"])
        elif reader.shown_as is None:
            rows.append([reader.name, *(_cell(seen[name]) for name in one.event)])
        else:
            others.append((reader, seen))
    rows += [[name, words] for name, words in stage.beside.get(repr(one.event), {}).items()]
    showing.table(rows)
    for reader, seen in others:
        showing.line(f"which the {reader.name} sees as `{reader.shown_as}`:")
        showing.table([["", *seen], [reader.name, *map(_cell, seen.values())]])


def _show_tables(tables: Sequence[LogTable], showing: Showing) -> None:
    showing.line("\nSpark reads the recorded log, each time under the rights of one reader:")
    rows: list[list[object]] = [["", "rows", "columns read", "found"]]
    for one in tables:
        same = "as received" if one.is_as_received else "less than received: a right was lost"
        found = same if one.is_same else "NOT WHAT THE KERNEL SAYS"
        found = f"refused: {one.refused}" if one.refused else found
        if one.application:
            found += f"; `{one.application}`: {one.results:,} results, "
            found += "the same of both" if one.results_same else "OTHERS LIVE"
        rows.append([one.reader, f"{one.rows:,}", " ".join(one.columns), found])
    showing.table(rows)


def _received(stage: Stage, one: PublishedEvent, who: str) -> Happening | None:
    wanted = one.expected.get(who)
    return next(
        (event for event in stage.inboxes[who].events if wanted is not None and dict(event) == wanted), None
    )


def _cell(value: Value) -> str:
    match value:
        case None:
            return "·"
        case Instant():
            return f"{value.to_datetime():%H:%M:%S}"
        case float():
            return f"{value:.2f}"
        case str() if len(value) > _SHORT:
            return f"{value[: _SHORT - 1]}…"
        case _:
            return str(value)


def _withheld(stage: Stage, who: str) -> int:
    of = stage.inboxes[who].reader.of
    published = sum(not each.is_probe and each.of == of for each in stage.published)
    return published - len(stage.inboxes[who].events)


def _record(stage: Stage) -> dict[str, object]:
    readers = {
        who: {
            "of": inbox.reader.of,
            "delivered": len(inbox.events),
            "withheld": _withheld(stage, who),
            "disclosed": stage.disclosed.get(who, 0),
            "ended": inbox.ended,
            "values": {name: len(values) for name, values in inbox.values().items()},
        }
        for who, inbox in stage.inboxes.items()
    }
    close_up = [
        {
            "by": one.by,
            "of": one.of,
            "event": _plain(one.event),
            "seen": {
                who: _plain(seen) for who in stage.inboxes if (seen := _received(stage, one, who)) is not None
            },
        }
        for one in stage.published
        if one.is_close_up
    ]
    found = {"story": stage.story.name, "readers": readers, "close_up": close_up, "refused": stage.refused}
    return found | stage.record


def _plain(event: Happening) -> Mapping[str, object]:
    return {name: str(value) if isinstance(value, Instant) else value for name, value in event.items()}


def typed_command(arguments: Sequence[str] = sys.argv) -> str:
    """Return how Maia was called, as it can be typed again."""
    called = Path(arguments[0])
    if called.name != "maia":
        return "python -m maia.cli"
    found = shutil.which("maia")
    return "maia" if found is not None and Path(found).absolute() == called.absolute() else str(called)


def after(story: Story, *, with_spark: bool) -> list[str]:
    """Return the lines that say what to try next."""
    command = f"{typed_command()} demo{'' if story.name == 'numberplate' else f' {story.name}'}"
    steps = [f"{command} --details", *([f"{command} --keep"] if story.name == "numberplate" else [])]
    steps += [*([] if with_spark else [f"{command} --spark"]), *story.next]
    return [
        "",
        "Every delivery went over TLS between processes, and is what the kernel says;",
        "every number was counted or measured in this run, and every claim holds.",
        "Next:",
        *(f"  {one}" for one in steps),
    ]
