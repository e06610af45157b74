"""`maia log`: what is in an event log, is all of it as it was written, and may its journals become tables?"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from maia.cli.command import arg, flag, opt
from maia.cli.inputs import BadFile, command_group
from maia.cli.output import Answer, row, several
from maia.cli.progress import counted, patience
from maia.clock import system_now

if TYPE_CHECKING:
    from maia.log import Segment
    from maia.log.disk.journals import Cut
    from maia.log.disk.place_log import PlaceLog
    from maia.log.disk.reader import LogView, Problem


app = command_group("Look at an event log, verify it, and roll its journals into tables.")
FOLDER = arg("The folder of the event log.")
PLACE = arg("The event log: a folder, or an address such as s3://bucket/log.", metavar="PLACE")


@app.command()
def verify(place: str = PLACE) -> Answer:
    """Read every byte of a log and report damage; exit status 1 if there is any.

    Examples:
        maia log verify events
        maia log verify s3://city-logs/north --json
    """
    view = _opened(place)
    with counted("verifying", len(view.state.segments) + len(view.journals())) as step:
        found = view.verify(on_file=lambda _file: step(1))
    whole = "verified     everything is as it was written"
    damaged = f"damaged      {len(found.problems)} places are not as they were written"
    return Answer(
        row("log", place, folder=place, whole=found.is_whole, files=found.files, records=found.records),
        row("read", f"{found.files} files with {found.records} records"),
        row("note", list(map(_place, found.notes)), notes=list(map(asdict, found.notes))),
        row("damaged", list(map(_place, found.problems)), problems=list(map(asdict, found.problems))),
        row("", whole if found.is_whole else damaged),
        no=not found.is_whole,
    )


@app.command("list")
def list_log(place: str = PLACE) -> Answer:
    """Show the contents of a log, by type: segments, frames, events, bytes and days of publication.

    Frames that its broker knows to be missing, and asks others for, are counted too.

    Examples:
        maia log list events
        maia log list s3://city-logs/north --json
        maia log list 's3://city-logs/*'
    """
    if not place.endswith("/*"):
        return _listed(place)
    from maia.places import places_of

    logs = map(_listed, (str(one) for one in places_of(place)))
    return several("logs", logs, none=f"there is no folder in `{place[:-2]}`", apart=True)


def _listed(place: str) -> Answer:
    view = _opened(place)
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
    return Answer(row("log", place, folder=place), several("types", types), several("journals", journals))


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


@app.command()
def compact(place: str = PLACE) -> Answer:
    """Join the small segments of a log in an object store, while brokers write to it and jobs read it.

    Readers see the log before it or after it, and nothing in between. Objects that are not used any
    more are removed an hour later. A broker's own folder: maia log roll --compact.

    Examples:
        maia log compact s3://city-logs/north
        maia log compact s3://city-logs/north --json
    """
    log = _in_place(place)
    with counted("joining", None) as step:
        made = log.compact(system_now())
        step(len(made))
    gone = log.clean(system_now())
    return Answer(
        row("log", place, place=place, joined=[one.path for one in made], removed=gone),
        row("joined", f"{len(made)} larger segments made"),
        row("removed", f"{len(gone)} objects that no reader needs any more"),
    )


@app.command()
def retain(
    place: str = PLACE,
    days: float | None = opt("Keep what was recorded in the last so many days.", min=0),
    mb: int | None = opt("Keep so many megabytes of segments of each type.", min=0),
) -> Answer:
    """Remove the oldest segments of a log in an object store; of a broker's own folder, log.keep_days does.

    Streams that have not read them end with PIPELINE-FRAMES-FORGOTTEN. Objects are removed an hour later.

    Examples:
        maia log retain s3://city-logs/north --days 365
        maia log retain s3://city-logs/north --mb 50000 --json
    """
    from maia.log.format.retention import Keep, Retention

    if days is None and mb is None:
        raise BadFile("say what is kept: --days, --mb, or both")
    log = _in_place(place)
    keep = Keep(None if days is None else days * 86_400, None if mb is None else mb << 20)
    forgotten = log.retain(Retention(keep), system_now())
    gone = log.clean(system_now())
    frames = sum(one.frames for one in forgotten)
    return Answer(
        row("log", place, place=place, forgotten=[one.path for one in forgotten], removed=gone),
        row("forgotten", f"{frames} frames in {len(forgotten)} segments"),
        row("removed", f"{len(gone)} objects that no reader needs any more"),
    )


def _in_place(given: str) -> PlaceLog:
    from maia.log.disk.place_log import PlaceLog
    from maia.places import place_of

    with patience(f"waiting for an answer of `{given}`"):
        log = PlaceLog(place_of(given))
    if not log.number:
        raise BadFile(f"`{given}` is no event log: it has no manifest")
    return log


def _opened(given: str | Path) -> LogView:
    from maia.log.disk.reader import LogView
    from maia.places import place_of

    with patience(f"waiting for an answer of `{given}`"):
        if not any(name.startswith("manifest-") for name in place_of(given).names()):
            raise BadFile(f"`{given}` is no event log: it has no manifest")
        return LogView(given)


def _place(one: Problem | Cut) -> str:
    return f"{one.file} at {one.offset}: {one.what}"


def _type(view: LogView, type_id: bytes, found: list[Segment]) -> Answer:
    frames, events, size = (sum(getattr(one, what) for one in found) for what in ("frames", "events", "size"))
    days, missing = [one.day for one in found], view.state.lacks(type_id)
    return row(
        "type",
        f"{type_id.hex()}: {events} events in {frames} frames, {len(found)} segments of {size} bytes, "
        f"{min(days)} to {max(days)}{f', {missing} frames missing' if missing else ''}",
        type_id=type_id, missing=missing, segments=len(found), frames=frames, events=events, bytes=size,
        first_day=min(days), last_day=max(days), removed_upto=view.state.forgotten.get(type_id, 0),
    )  # fmt: skip
