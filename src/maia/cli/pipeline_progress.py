"""How far is Spark? A bar on standard error for people, nothing for programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress

__all__ = ["counted", "spark_steps"]

_LOOK_S: Final = 0.3


def _bar(*, is_quiet: bool) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=is_quiet or not console.is_terminal)


@contextmanager
def counted(what: str, total: int, *, is_quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show how much of a known amount is done; call the yielded function with each part."""
    with _bar(is_quiet=is_quiet) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def spark_steps(spark: SparkSession, *, is_quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show Spark's tasks while they run; call the yielded function when another step begins."""
    with _bar(is_quiet=is_quiet) as progress:
        task, ended = progress.add_task("starting", total=None), threading.Event()

        def look() -> None:
            while not ended.wait(_LOOK_S):
                done, total = _tasks(spark)
                progress.update(task, completed=done, total=total)

        watcher = threading.Thread(target=look, daemon=True)
        if not progress.disable:
            watcher.start()
        try:
            yield lambda title: progress.update(task, description=title, completed=0, total=None)
        finally:
            ended.set()
            if watcher.is_alive():
                watcher.join()


def _tasks(spark: SparkSession) -> tuple[int, int | None]:
    """Return how many tasks of the stages at work are done, of how many."""
    tracker = spark.sparkContext.statusTracker()
    found = [info for at in tracker.getActiveStageIds() if (info := tracker.getStageInfo(at)) is not None]
    total = sum(info.numTasks for info in found)
    return sum(info.numCompletedTasks for info in found), total or None
