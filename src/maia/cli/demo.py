"""`maia demo`: the numberplate story, played for real, with the proof of who did not see what."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from maia.cli.output import ANSWER_NO, answer

if TYPE_CHECKING:
    from rich.console import Console

    from maia.cli.demo_live import LiveResult
    from maia.cli.demo_spark import SparkResult, SparkRun
    from maia.events import Instant, Value
    from maia.scenarios.attempts import Attempt
    from maia.scenarios.live import LivePlay
    from maia.scenarios.million import Comparison
    from maia.scenarios.performance import Received

__all__ = ["EXAMPLES", "demo"]

EXAMPLES: Final = (
    "Examples: maia demo; maia demo --rows 100000; maia demo --rows 0 --json   (without Spark); "
    "maia demo --keep   (the network stays, until Ctrl-C)"
)


def demo(
    rows: Annotated[
        int, typer.Option(min=0, max=100_000_000, help="Sightings for Spark; 0 leaves Spark out.")
    ] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The seed of the generated sightings.")] = 2003,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Leave the network running, with a sighting a second, until Ctrl-C."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object at the end, and nothing else.")
    ] = False,
) -> int:
    """Play the numberplate story over a real network: sealed events, four brokers, three readers, a crash."""
    from maia.cli.demo_live import go_live, process_started_at
    from maia.cli.demo_spark import spark_in_background

    started_at = process_started_at()
    story_seed = os.urandom(32)
    from maia.runtime.clock import system_now

    now = system_now()
    with (
        _ending_on_sigterm(),
        _folder() as folder,
        spark_in_background(
            story_seed=story_seed, now=now, rows=0 if keep else rows, seed=seed, folder=folder
        ) as spark,
    ):
        from maia.scenarios.numberplate import tell_numberplate_story

        open_screen = partial(_screen, quiet=as_json)
        story, sightings = tell_numberplate_story(story_seed, now=now), _sightings(now)
        result = go_live(
            open_screen, story, sightings, seed=story_seed, now=now, folder=folder,
            started_at=started_at, keep=keep,
        )  # fmt: skip
        from maia.cli.demo_tables import (
            show_attempts,
            show_carriage,
            show_comparisons,
            show_performance,
            show_story,
            show_summary,
        )
        from maia.scenarios.attempts import attempts

        screen = open_screen()
        live = result.play
        show_story(screen, story)
        show_performance(screen, live.expected, live.received)
        show_carriage(screen, result)
        tried = [*attempts(story, now=now), live.refused]
        show_attempts(screen, tried)
        computed = None if spark is None else _result(screen, spark)
    compared = [] if computed is None else computed.comparisons
    show_comparisons(screen, compared, rows=rows)
    failed = [
        *live.differences(),
        *_broken_claims(live),
        *result.broken_claims(),
        *(one.title for one in tried if not one.was_refused),
        *_differences(compared),
    ]
    record = _record(result, tried, computed, failed, started_at=started_at)
    show_summary(screen, record)
    verdict = [f"FAILED: {claim}" for claim in failed] or [
        "Every claim above was computed from what was delivered, and holds."
    ]
    answer(verdict, record, as_json=as_json)
    return ANSWER_NO if failed else 0


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the demonstration like Ctrl-C, with all of its processes."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _folder() -> Iterator[Path]:
    """Lend a folder of this user's own, and take it away whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix="maia-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _screen(*, quiet: bool) -> Console:
    """Open the screen; what draws on it takes its time to load, so the network starts before."""
    from rich.console import Console

    return Console(quiet=quiet, highlight=False, emoji=False)


def _result(screen: Console, spark: SparkRun) -> SparkResult:
    """Wait for Spark, and show on standard error what it is doing, where a person is watching."""
    with _progress(screen) as step:
        return spark.result(step)


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


@contextmanager
def _progress(screen: Console) -> Iterator[Callable[[str], None]]:
    """Show one step at a time on standard error."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    watched = sys.stderr.isatty() and not screen.quiet
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not watched) as bars:

        def step(title: str) -> None:
            for done in bars.task_ids:
                bars.remove_task(done)
            bars.add_task(title, total=None)

        yield step


def _broken_claims(live: LivePlay) -> Iterator[str]:
    from maia.cli.demo_tables import NOBODY_MAY_SEE
    from maia.scenarios.numberplate import SUSPECT

    received: dict[str, Received] = {one.office: one for one in live.received}
    for office, attribute in NOBODY_MAY_SEE:
        if received[office].values_of(attribute):
            yield f"the {office} saw a {attribute}"
    if received["Detective Smith"].values_of("numberplate") != {SUSPECT}:
        yield "Detective Smith did not see exactly the suspect's car"
    if received["Detective Smith"].values_of("location") != {"Victoria"}:
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
    result: LiveResult,
    tried: list[Attempt],
    spark: SparkResult | None,
    failed: list[str],
    *,
    started_at: float,
) -> dict[str, object]:
    live, carrier = result.play, result.carrier
    first = live.first_event_at
    return {
        "received": {one.office: [dict(event) for event in one.events] for one in live.received},
        "killed": live.killed,
        "lost": live.lost(),
        "first_event_s": None if first is None else round(first - started_at, 3),
        "ready_s": round(live.ready_s, 3),
        "repaired_s": round(live.repaired_s, 3),
        "carrier": {**asdict(carrier), "events": carrier.events, "found_elsewhere": len(result.reader.found)},
        "attempts": [asdict(one) for one in tried],
        "spark": [] if spark is None else [asdict(one) for one in spark.comparisons],
        "spark_result_s": None if spark is None else round(spark.finished_at - started_at, 3),
        "failed": failed,
    }
