"""`maia log`: what is in an event log, is all of it as it was written, and may its journals become tables?"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maia.cli.command import flag
from maia.cli.inputs import BadFile, command_group
from maia.cli.output import ANSWER_NO, answer

if TYPE_CHECKING:
    from maia.log import Segment
    from maia.log.disk.reader import LogView, Verification


app = command_group("Look at an event log, verify it, and roll its journals into tables.")
Folder = Annotated[Path, typer.Argument(help="The folder of the event log.")]


@app.command()
def verify(folder: Folder) -> int:
    """Read every byte of a log and report damage; exit status 1 if there is any.

    Examples:
        maia log verify events
        maia log verify events --json
    """
    view = _opened(folder)
    with _bar("verifying", len(view.state.segments) + len(view.journals())) as step:
        found = view.verify(on_file=step)
    answer(_verified_lines(folder, found), _verified_record(folder, found), as_json=as_json)
    return 0 if found.is_whole else ANSWER_NO


@app.command("list")
def list_log(folder: Folder) -> None:
    """Show the contents of a log, by type: segments, frames, events, bytes and days of publication.

    Examples:
        maia log list events
        maia log list events --json
    """
    view = _opened(folder)
    record = _listed(view)
    answer(_listed_lines(folder, record), {"folder": str(folder), **record}, as_json=as_json)


@app.command()
def roll(folder: Folder, compact: bool = flag("Also join small segments.")) -> None:
    """Roll the journals of a log into Parquet segments; the broker that records there must be stopped.

    Examples:
        maia log roll events
        maia log roll events --compact --json
    """
    from maia.clock import system_now
    from maia.log.disk.event_log import EventLog

    _opened(folder)  # what is no log yet does not become one by rolling it
    with EventLog.open(folder) as log:
        with _bar("rolling", None) as step:
            made = log.roll(system_now(), on_segment=lambda segment: step(segment.path))
            joined = log.compact(system_now()) if compact else []
        cuts = [asdict(cut) for cut in log.cuts]
    lines = [
        *(f"cut off      {cut['file']} at {cut['offset']}: {cut['what']}" for cut in cuts),
        f"rolled       {sum(one.frames for one in made)} frames into {len(made)} segments",
        *([f"joined       {len(joined)} larger segments made"] if compact else []),
    ]
    paths = [one.path for one in made]
    record = {"folder": str(folder), "segments": paths, "joined": [one.path for one in joined], "cuts": cuts}
    answer(lines, record, as_json=as_json)


# ------------------------------------------------------------ what is shown


def _opened(folder: Path) -> LogView:
    from maia.log.disk.reader import LogView

    if not next(folder.glob("manifest-*"), None):
        raise BadFile(f"`{folder}` is no event log: it has no manifest")
    return LogView(folder)


def _verified_lines(folder: Path, found: Verification) -> list[str]:
    return [
        f"log          {folder}",
        f"read         {found.files} files with {found.records} records",
        *(f"note         {one.file} at {one.offset}: {one.what}" for one in found.notes),
        *(f"damaged      {one.file} at {one.offset}: {one.what}" for one in found.problems),
        "verified     everything is as it was written"
        if found.is_whole
        else f"damaged      {len(found.problems)} places are not as they were written",
    ]


def _verified_record(folder: Path, found: Verification) -> dict[str, object]:
    return {
        "folder": str(folder),
        "whole": found.is_whole,
        "files": found.files,
        "records": found.records,
        "problems": [asdict(one) for one in found.problems],
        "notes": [asdict(one) for one in found.notes],
    }


def _listed(view: LogView) -> dict[str, object]:
    by_type: defaultdict[bytes, list[Segment]] = defaultdict(list)
    for segment in view.state.segments.values():
        by_type[segment.type_id].append(segment)
    journals = view.journals()
    return {
        "types": [_type_record(view, type_id, found) for type_id, found in sorted(by_type.items())],
        "journals": [
            {"file": one.name, "first": one.first, "last": one.last, "bytes": one.end} for one in journals
        ],
    }


def _type_record(view: LogView, type_id: bytes, segments: list[Segment]) -> dict[str, object]:
    return {
        "type_id": type_id.hex(),
        "segments": len(segments),
        "frames": sum(one.frames for one in segments),
        "events": sum(one.events for one in segments),
        "bytes": sum(one.size for one in segments),
        "first_day": min(one.day for one in segments),
        "last_day": max(one.day for one in segments),
        "removed_upto": view.state.forgotten.get(type_id, 0),
    }


def _listed_lines(folder: Path, record: dict[str, object]) -> Iterator[str]:
    yield f"log          {folder}"
    for one in _rows(record["types"]):
        yield (
            f"type         {one['type_id']}: {one['events']} events in {one['frames']} frames, "
            f"{one['segments']} segments of {one['bytes']} bytes, {one['first_day']} to {one['last_day']}"
        )
    for one in _rows(record["journals"]):
        yield f"journal      {one['file']}: records {one['first']} to {one['last']}, {one['bytes']} bytes"


def _rows(value: object) -> list[dict[str, object]]:
    return value if isinstance(value, list) else []


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[Callable[[str], None]]:
    """Show how far a job is, on a terminal's standard error and nowhere else."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bars:
        task = bars.add_task(what, total=total)
        yield lambda _name: bars.advance(task)
