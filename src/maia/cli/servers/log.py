"""`maia log`: what is in an event log, is all of it as it was written, and may its journals become tables?"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from maia.cli.command import arg, flag
from maia.cli.inputs import BadFile, command_group
from maia.cli.output import Answer, row, several
from maia.cli.progress import counted
from maia.clock import system_now

if TYPE_CHECKING:
    from maia.log import Segment
    from maia.log.disk.journals import Cut
    from maia.log.disk.reader import LogView, Problem


app = command_group("Look at an event log, verify it, and roll its journals into tables.")
FOLDER = arg("The folder of the event log.")


@app.command()
def verify(folder: Path = FOLDER) -> Answer:
    """Read every byte of a log and report damage; exit status 1 if there is any.

    Examples:
        maia log verify events
        maia log verify events --json
    """
    view = _opened(folder)
    with counted("verifying", len(view.state.segments) + len(view.journals())) as step:
        found = view.verify(on_file=lambda _file: step(1))
    whole = "verified     everything is as it was written"
    damaged = f"damaged      {len(found.problems)} places are not as they were written"
    return Answer(
        row("log", folder, folder=folder, whole=found.is_whole, files=found.files, records=found.records),
        row("read", f"{found.files} files with {found.records} records"),
        row("note", list(map(_place, found.notes)), notes=list(map(asdict, found.notes))),
        row("damaged", list(map(_place, found.problems)), problems=list(map(asdict, found.problems))),
        row("", whole if found.is_whole else damaged),
        no=not found.is_whole,
    )


@app.command("list")
def list_log(folder: Path = FOLDER) -> Answer:
    """Show the contents of a log, by type: segments, frames, events, bytes and days of publication.

    Examples:
        maia log list events
        maia log list events --json
    """
    view = _opened(folder)
    by_type: defaultdict[bytes, list[Segment]] = defaultdict(list)
    for segment in view.state.segments.values():
        by_type[segment.type_id].append(segment)
    types = (_type(view, type_id, found) for type_id, found in sorted(by_type.items()))
    journals = (
        row(
            "journal", f"{one.name}: records {one.first} to {one.last}, {one.end} bytes",
            file=one.name, first=one.first, last=one.last, bytes=one.end,
        )
        for one in view.journals()
    )  # fmt: skip
    return Answer(row("log", folder, folder=folder), several("types", types), several("journals", journals))


@app.command()
def roll(folder: Path = FOLDER, compact: bool = flag("Also join small segments.")) -> Answer:
    """Roll the journals of a log into Parquet segments; the broker that records there must be stopped.

    Examples:
        maia log roll events
        maia log roll events --compact --json
    """
    from maia.log.disk.event_log import EventLog

    _opened(folder)  # what is no log yet does not become one by rolling it
    with EventLog.open(folder) as log:
        with counted("rolling", None) as step:
            made = log.roll(system_now(), on_segment=lambda _segment: step(1))
            joined = log.compact(system_now()) if compact else []
        cuts = list(log.cuts)
    frames = f"{sum(one.frames for one in made)} frames into {len(made)} segments"
    larger = f"{len(joined)} larger segments made" if compact else None
    return Answer(
        row("cut off", list(map(_place, cuts)), folder=folder, segments=[one.path for one in made]),
        row("rolled", frames),
        row("joined", larger, joined=[one.path for one in joined], cuts=list(map(asdict, cuts))),
    )


def _opened(folder: Path) -> LogView:
    from maia.log.disk.reader import LogView

    if not next(folder.glob("manifest-*"), None):
        raise BadFile(f"`{folder}` is no event log: it has no manifest")
    return LogView(folder)


def _place(one: Problem | Cut) -> str:
    return f"{one.file} at {one.offset}: {one.what}"


def _type(view: LogView, type_id: bytes, found: list[Segment]) -> Answer:
    frames, events, size = (sum(getattr(one, what) for one in found) for what in ("frames", "events", "size"))
    days = [one.day for one in found]
    return row(
        "type",
        f"{type_id.hex()}: {events} events in {frames} frames, {len(found)} segments of {size} bytes, "
        f"{min(days)} to {max(days)}",
        type_id=type_id, segments=len(found), frames=frames, events=events, bytes=size,
        first_day=min(days), last_day=max(days), removed_upto=view.state.forgotten.get(type_id, 0),
    )  # fmt: skip
