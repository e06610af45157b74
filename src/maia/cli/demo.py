"""`maia demo`: the numberplate story, played for real, with the proof of who did not see what."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from maia.cli.output import ANSWER_NO, answer

if TYPE_CHECKING:
    from rich.console import Console

    from maia.events import Instant, Value
    from maia.scenarios.attempts import Attempt
    from maia.scenarios.million import Comparison
    from maia.scenarios.numberplate import NumberplateStory
    from maia.scenarios.performance import Performance

__all__ = ["EXAMPLES", "demo"]

EXAMPLES: Final = "Examples: maia demo; maia demo --rows 100000; maia demo --rows 0 --json   (without Spark)"


def demo(
    rows: Annotated[
        int, typer.Option(min=0, max=100_000_000, help="Sightings for Spark; 0 leaves Spark out.")
    ] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The seed of the generated sightings.")] = 2003,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object at the end, and nothing else.")
    ] = False,
) -> int:
    """Play the numberplate story: a camera, three readers, and those who try for more."""
    from rich.console import Console

    from maia.cli.demo_tables import show_attempts, show_comparisons, show_performance, show_story
    from maia.runtime.clock import system_now
    from maia.scenarios import tell_numberplate_story
    from maia.scenarios.attempts import attempts
    from maia.scenarios.performance import play

    screen = Console(quiet=as_json, highlight=False)
    now = system_now()
    story = tell_numberplate_story(os.urandom(32), now=now)
    show_story(screen, story)
    performance = play(story, _sightings(now), now=now)
    show_performance(screen, performance)
    tried = list(attempts(story, now=now))
    show_attempts(screen, tried)
    compared = _with_spark(screen, story, now, rows=rows, seed=seed) if rows else []
    show_comparisons(screen, compared, rows=rows)
    failed = [
        *_broken_claims(performance),
        *(one.title for one in tried if not one.was_refused),
        *_differences(compared),
    ]
    record = _record(performance, tried, compared, failed)
    verdict = [f"FAILED: {claim}" for claim in failed] or [
        "Every claim above was computed from what was delivered, and holds."
    ]
    answer(verdict, record, as_json=as_json)
    return ANSWER_NO if failed else 0


def _sightings(now: Instant) -> list[dict[str, Value]]:
    from maia.events import Instant
    from maia.scenarios.numberplate import SUSPECT

    # The second sighting claims another place and the fourth names none: the broker writes what the
    # certificate says.
    seen = [
        ("LB02 KRT", "Victoria"),
        (SUSPECT, "Euston"),
        ("KX51 AAD", "Victoria"),
        ("LB02 KRT", None),
        (SUSPECT, "Victoria"),
    ]
    return [
        {"numberplate": plate, "timestamp": Instant(now + 1_000_000 * second), "location": place}
        for second, (plate, place) in enumerate(seen)
    ]


def _with_spark(
    screen: Console, story: NumberplateStory, now: Instant, *, rows: int, seed: int
) -> list[Comparison]:
    from maia.runtime.spark_session import spark_session
    from maia.scenarios.million import compared, offices_views, seen_by_kernel, seen_in_spark, write_sightings

    views = offices_views(story, now=now)
    with _progress(screen) as step, tempfile.TemporaryDirectory(prefix="maia-demo-") as folder:
        sightings, outs = Path(folder, "sightings"), {office: Path(folder, office) for office in views}
        step("starting Spark", None)
        with spark_session("maia-demo") as spark:
            step(f"generating {rows:,} sightings", None)
            write_sightings(spark, sightings, rows=rows, seed=seed)
            seconds: dict[str, float] = {}
            for office, view in views.items():
                step(f"the View of the {office} as a Spark job", None)
                seconds[office] = seen_in_spark(spark, view, sightings, outs[office])
        by_kernel = seen_by_kernel(
            views, sightings, step("the same Views in the kernel, event by event", rows)
        )
        return [
            compared(office, outs[office], by_kernel[office], spark_s=seconds[office]) for office in views
        ]


@contextmanager
def _progress(screen: Console) -> Iterator[Callable[[str, int | None], Callable[[int], None]]]:
    """Show one bar per step on standard error, where a person is watching."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    watched = sys.stderr.isatty() and not screen.quiet
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not watched) as bars:

        def step(title: str, total: int | None) -> Callable[[int], None]:
            for done in bars.task_ids:
                bars.remove_task(done)
            task = bars.add_task(title, total=total)
            return lambda count: bars.advance(task, count)

        yield step


def _broken_claims(performance: Performance) -> Iterator[str]:
    from maia.cli.demo_tables import NOBODY_MAY_SEE
    from maia.scenarios.numberplate import SUSPECT

    received = {one.office: one for one in performance.received}
    for office, attribute in NOBODY_MAY_SEE:
        if received[office].values_of(attribute):
            yield f"the {office} saw a {attribute}"
    if received["Detective Smith"].values_of("numberplate") != {SUSPECT}:
        yield "Detective Smith did not see exactly the suspect's car"
    if any(event["location"] != "Victoria" for event in performance.sent):
        yield "the camera at Victoria published from another place"


def _differences(compared: list[Comparison]) -> Iterator[str]:
    from maia.cli.demo_tables import NOBODY_MAY_SEE

    for one in compared:
        if not one.same:
            yield f"Spark and the kernel disagree about the {one.office}"
    for office, attribute in NOBODY_MAY_SEE:
        if any(one.office == office and one.values_seen[attribute] for one in compared):
            yield f"the {office} saw a {attribute} in Spark"


def _record(
    performance: Performance, tried: list[Attempt], compared: list[Comparison], failed: list[str]
) -> dict[str, object]:
    return {
        "received": {one.office: [dict(event) for event in one.events] for one in performance.received},
        "attempts": [asdict(one) for one in tried],
        "spark": [asdict(one) for one in compared],
        "failed": failed,
    }
