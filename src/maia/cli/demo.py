"""`maia demo`: stories played for real, with the proof of who did not see what.

The numberplate story and the stock ticker are those of the dissertation, the
coalition that of the Gismo paper, the city's sensors and homecare those of OASIS'08. The
consortium is the tutorial of that name.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from maia.cli.command import arg, flag
from maia.cli.output import ANSWER_NO, answer


class StoryName(Enum):
    """Which story is played."""

    NUMBERPLATE = "numberplate"
    CONSORTIUM = "consortium"
    COALITION = "coalition"
    CITY = "city"
    TICKER = "ticker"
    HOMECARE = "homecare"


def demo(
    story: StoryName = arg(
        "numberplate: police and cameras. consortium: three organisations, two owners. "
        "coalition: identity, requirements, routers. "
        "city: sensors, exact and coarse. ticker: flows of trades that are paid for. "
        "homecare: prescriptions across four organisations, with PostgreSQL.",
        default=StoryName.NUMBERPLATE,
    ),
    spark: bool = flag("Let Spark read what was recorded, under the same rights."),
    keep: bool = flag("Leave the network running, with commands to try, until Ctrl-C."),
    details: bool = flag("Show the commands that set it up, policies and each close-up."),
    as_json: bool = flag("One JSON object at the end, and nothing else.", "--json"),
) -> int:
    """Play a story on a real network: with a crash, a revocation, roles, Spark or attested routers.

    Examples:
        maia demo
        maia demo --details
        maia demo --keep (the network stays, until Ctrl-C)
        maia demo --spark
        maia demo consortium (three organisations)
        maia demo coalition (three nations, attested routers)
        maia demo city --spark
    """
    from maia.demo.report import Showing, after, play_story, started_at, story_named

    if spark:
        _check_spark()
    keep = keep and story is StoryName.NUMBERPLATE
    showing = Showing(started_at(), spark and not keep, details, keep, quiet=as_json)
    with _ending_on_sigterm(), _folder() as folder:
        told = story_named(story.value)
        record, failed = play_story(told, folder, showing)
    last = after(told, with_spark=showing.has_spark)
    answer([f"FAILED: {claim}" for claim in failed] or last, record | {"failed": failed}, as_json=as_json)
    return ANSWER_NO if failed else 0


def _check_spark() -> None:
    """Refuse before the work begins what could not run after it."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise ModuleNotFoundError("Spark is not installed", name="pyspark")
    from maia.spark.session.java_home import find_java_home

    find_java_home()


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
