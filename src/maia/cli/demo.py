"""`maia demo`: stories played for real, with the proof of who did not see what.

The numberplate story and the stock ticker are those of the dissertation, the
coalition that of the Gismo paper, the city's sensors and homecare those of OASIS'08. The
consortium is the tutorial of that name.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.cli.command import arg, flag, opt
from maia.cli.output import ANSWER_NO, answer
from maia.demo.program import BEFORE, after, typed_command
from maia.errors import BadInput

if TYPE_CHECKING:
    from maia.demo.program import Demonstration, Options, Outcome


_FORMS: Final = (".png", ".svg", ".pdf")
_ROWS: Final = 1_000_000


class BadPicture(BadInput):
    """The picture of the demonstration cannot be drawn there."""

    code = "INPUT-DEMO-PICTURE"


class Story(Enum):
    """Which story is played."""

    NUMBERPLATE = "numberplate"
    CONSORTIUM = "consortium"
    COALITION = "coalition"
    CITY = "city"
    TICKER = "ticker"
    HOMECARE = "homecare"


def demo(
    story: Story = arg(
        "numberplate: police and cameras. consortium: three organisations, two owners. "
        "coalition: identity, requirements, routers. "
        "city: sensors, exact and coarse. ticker: flows of trades that are paid for. "
        "homecare: prescriptions, with PostgreSQL.",
        default=Story.NUMBERPLATE,
    ),
    spark: bool = flag("Let Spark read what was recorded, under the same rights."),
    rows: int | None = opt(
        "With --spark: generated sightings beside it; 1000000 by default.", min=0, max=100_000_000
    ),
    seed: int = opt("The seed of the generated sightings.", default=2003),
    plot: Path = opt(
        "Where Spark draws the traffic: a .png, .svg or .pdf file.", default=Path("demo-output/traffic.png")
    ),
    keep: bool = flag("Leave the network running, with commands to try, until Ctrl-C."),
    details: bool = flag("Show policies, certificates, deliveries and refusals, one by one."),
    as_json: bool = flag("One JSON object at the end, and nothing else.", "--json"),
) -> int:
    """Play a story on a real network: with a crash, a revocation, roles, Spark or attested routers.

    Examples:
        maia demo
        maia demo --details
        maia demo --keep (the network stays, until Ctrl-C)
        maia demo --spark --rows 100000
        maia demo consortium (three organisations)
        maia demo coalition (three nations, six routers)
        maia demo city --spark
    """
    if story in (Story.CONSORTIUM, Story.COALITION):
        return _story(story, as_json=as_json)
    has_spark = (spark or bool(rows)) and not keep
    if has_spark:
        _check_spark()
    if story is not Story.NUMBERPLATE:
        return _scene(story.value, has_spark=has_spark, has_details=details, as_json=as_json)
    if has_spark:
        _check_picture(plot)
    if not as_json:
        sys.stdout.write(BEFORE)
        sys.stdout.flush()
    from maia.demo.program import ACTS, Options

    made = (_ROWS if rows is None else rows) if has_spark else 0
    options = Options(rows=made, seed=seed, plot=plot, keep=keep, details=details, quiet=as_json)
    with _ending_on_sigterm(), _prepared(options) as demonstration:
        outcomes = [act(demonstration) for act in ACTS]
        status = _verdict(demonstration, outcomes, as_json=as_json)
        if keep and status == 0:
            from maia.demo.playground import play_until_interrupted

            play_until_interrupted(demonstration, typed_command())
    return status


def _story(story: Story, *, as_json: bool) -> int:
    """Play a story that brings a network of its own."""
    from importlib import import_module

    from maia.demo.program import process_started_at

    module = import_module("maia.demo." + {Story.COALITION: "coalition.screen"}.get(story, story.value))
    if not as_json:
        sys.stdout.write(module.BEFORE)
        sys.stdout.flush()
    with _ending_on_sigterm(), _folder() as folder:
        record, failed = module.play_story(folder, started_at=process_started_at(), quiet=as_json)
    lines = [f"FAILED: {claim}" for claim in failed] or module.after()
    answer(lines, record | {"failed": failed}, as_json=as_json)
    return ANSWER_NO if failed else 0


def _scene(name: str, *, has_spark: bool, has_details: bool, as_json: bool) -> int:
    from maia.clock import system_now
    from maia.demo.program import process_started_at
    from maia.demo.scenes import SCENES
    from maia.demo.scenes.screen import Showing, after, play_scene

    scene = SCENES[name]()
    if not as_json:
        sys.stdout.write(f"{scene.before}\n")
        sys.stdout.flush()
    started_at, now, seed = process_started_at(), system_now(), os.urandom(32)
    with _ending_on_sigterm(), _folder() as folder:
        showing = Showing(started_at, has_spark=has_spark, has_details=has_details, quiet=as_json)
        record, failed = play_scene(scene, folder, showing, seed=seed, now=now)
    lines = [f"FAILED: {claim}" for claim in failed] or after(name)
    answer(lines, record | {"failed": failed}, as_json=as_json)
    return ANSWER_NO if failed else 0


def _check_spark() -> None:
    """Refuse before the work begins what could not run after it."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise ModuleNotFoundError("Spark is not installed", name="pyspark")
    from maia.spark.session.java_home import find_java_home

    find_java_home()


def _check_picture(plot: Path) -> None:
    """Refuse before the work begins what could not be drawn after it."""
    if plot.suffix not in _FORMS:
        raise BadPicture(f"`{plot}` does not end in {', '.join(_FORMS)}")
    with suppress(OSError):
        plot.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(plot.parent, os.W_OK) or plot.is_dir():
        raise BadPicture(f"`{plot}` cannot be written; name another file with --plot")


@contextmanager
def _prepared(options: Options) -> Iterator[Demonstration]:
    """Start Spark behind everything else, and the first nodes; all of it ends when the body does."""
    from maia.clock import system_now
    from maia.demo.program import process_started_at, starting_network
    from maia.demo.spark_process import spark_in_background

    started_at, now, seed = process_started_at(), system_now(), os.urandom(32)
    with (
        _folder() as folder,
        spark_in_background(
            story_seed=seed, now=now, rows=options.rows, seed=options.seed, folder=folder
        ) as spark,
        starting_network(seed=seed, now=now, folder=folder) as starting,
    ):
        from maia.demo.program import Demonstration

        yield Demonstration(options, starting, spark, folder=folder, now=now, started_at=started_at)


def _verdict(demonstration: Demonstration, outcomes: Sequence[Outcome], *, as_json: bool) -> int:
    """Say whether every claim holds; the exit status says it too."""
    from maia.demo.screens import show_summary

    failed = [claim for outcome in outcomes for claim in outcome.broken]
    record = {name: value for outcome in outcomes for name, value in outcome.record.items()}
    show_summary(demonstration.screen, record)
    holds = ["Every number above was measured or counted in this run, and every claim holds.", ""]
    next_steps = after(typed_command(), with_spark=demonstration.spark is not None)
    lines = [f"FAILED: {claim}" for claim in failed] or [*holds, *next_steps]
    answer(lines, record | {"failed": failed}, as_json=as_json)
    return ANSWER_NO if failed else 0


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the demonstration like Ctrl-C, with all of its processes."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
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
