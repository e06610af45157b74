"""What does Spark's own process of the demonstration do, and in which order?

While Java starts, Python makes a million sightings, and each office fetches
its keys when the log is there. Then each office's View runs over the million,
while the kernel goes through them event by event; and then each office reads
the log, under its rights and with its keys. It tells the same story from the
same seed, so no key is handed over.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.errors import MaiaError, Unavailable
from maia.events import Instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from maia.demo.lake_jobs import Lake, LakeOrder, Work
    from maia.demo.million import Comparison
    from maia.demo.numberplate import NumberplateStory, SealedCast
    from maia.policy import View


# How does Spark get going while a network plays?
#
# In a process of its own, behind everything else, from the moment the
# demonstration starts. It is given two orders, one line of JSON each: what to
# make at once, and where the log lies when the network has played. It answers
# one line for each step and one for each result. The numberplate story's process is
# `spark_process.py`; that of the other stories is `scenes/tables.py`.


_LOAD_QUICKLY: Final = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""The jars are those of the lock, by their hash; to verify each class again takes Java long."""


class SparkFailed(Unavailable):
    """The Spark part of the demonstration ended without a result."""

    code = "UNAVAILABLE-SPARK-PART"


@dataclass(frozen=True, slots=True)
class LakeDone:
    """What Spark did with the log for each office, when, and why there is no picture."""

    works: list[Work]
    no_plot: str | None
    finished_at: float


@dataclass(frozen=True, slots=True)
class MillionDone:
    """What Spark and the kernel say of the generated sightings, and when they had said it."""

    comparisons: list[Comparison]
    finished_at: float


@dataclass(frozen=True, slots=True)
class SparkRun:
    """The process in which Spark works."""

    process: subprocess.Popen[str]

    def give_log(self, order: LakeOrder) -> None:
        """Tell Spark where the log lies; the answer comes when it comes."""
        self.tell(asdict(order))

    def lake(self, show: Callable[[str], None]) -> LakeDone:
        """Wait for what the offices found in the log, and show each step that is still to come."""
        from maia.demo.lake_jobs import Work

        answer = self.answer("lake", show)
        return LakeDone([Work(**one) for one in answer["lake"]], answer["no_plot"], answer["finished_at"])

    def million(self, show: Callable[[str], None]) -> MillionDone:
        """Wait for the comparison of the generated sightings."""
        from maia.demo.million import Comparison

        answer = self.answer("million", show)
        return MillionDone([Comparison(**one) for one in answer["million"]], answer["finished_at"])

    def tell(self, order: dict[str, object]) -> None:
        """Write one order; if the process has ended, waiting for its answer will say so."""
        assert self.process.stdin is not None  # noqa: S101 - asked for below
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    # Any: what was written as JSON by our own process is read as it was written.
    def answer(self, name: str, show: Callable[[str], None]) -> dict[str, Any]:
        """Wait for the line that holds `name`, and show each step before it."""
        assert self.process.stdout is not None  # noqa: S101 - asked for below
        for line in self.process.stdout:
            answer: dict[str, Any] = json.loads(line)
            if name in answer:
                return answer
            if "failed" in answer:
                raise SparkFailed(f"Spark has no result: {answer['failed']}")
            show(answer.get("step", ""))
        raise SparkFailed(
            f"Spark ended with status {self.process.wait()}; `maia demo --rows 0` leaves it out"
        )


@contextmanager
def spark_in_background(
    *, story_seed: bytes, now: Instant, rows: int, seed: int, folder: Path
) -> Iterator[SparkRun | None]:
    """Start the Spark part of the numberplate story, unless no rows are asked for."""
    if not rows:
        yield None
        return
    order: dict[str, object] = {"story_seed": story_seed.hex(), "now": int(now), "rows": rows, "seed": seed}
    with spark_running("maia.demo.spark_process", order, folder=folder) as run:
        yield run


@contextmanager
def spark_running(module: str, order: dict[str, object], *, folder: Path) -> Iterator[SparkRun]:
    """Start a Spark part with its first order, and end it and everything it started when the body ends.

    It keeps its files in `folder`, so that they go when the folder goes.
    """
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("MAIA_DEMO_SPARK_LOG") else subprocess.DEVNULL,
        text=True,
        env=os.environ | {"TMPDIR": str(folder), "JDK_JAVA_OPTIONS": _java_options()},
        # Java is in the same group, so both can be ended together. A session of its own would have half of
        # the processors, whatever its priority: Linux is fair to sessions first.
        process_group=0,
    )
    try:
        run = SparkRun(process)
        run.tell(order)
        yield run
    finally:
        _end(process)


def _java_options() -> str:
    """Return ours after those that the user has set for every Java."""
    return f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {_LOAD_QUICKLY}".strip()


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


# ------------------------------------------------------------ in the process that was started


_BEHIND_EVERYTHING: Final = 5
"""How much priority Spark gives up for the live network, in the scale of `nice`."""

Tell = Callable[..., None]
"""Writes one answer, from its named fields."""


# Any: what was written as JSON by our own process is read as it was written.
def work_for_demonstration(work: Callable[[dict[str, Any], Tell], None]) -> None:
    """Take the first order from standard input, and write steps and results to the output."""
    os.nice(_BEHIND_EVERYTHING)
    gc.disable()  # millions of events come and go without a cycle, and to look for one takes as long again
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    order = json.loads(sys.stdin.readline())
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what Java prints is not our answer

    def tell(**fields: object) -> None:
        out.write(json.dumps(fields, default=str) + "\n")
        out.flush()

    try:
        work(order, tell)
    except MaiaError as problem:
        tell(failed=f"{problem.message} [{problem.code}]")


def _end_with(parent: int) -> None:
    """End this process and its Java when the demonstration is gone, however it ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def main() -> None:
    """Take orders from standard input, and write steps and results to the output."""
    work_for_demonstration(lambda order, tell: _work(_Order.from_json(order), tell))


@dataclass(frozen=True, slots=True)
class _Order:
    story_seed: bytes
    now: Instant
    rows: int
    seed: int

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> _Order:
        # Any: what was written as JSON by our own process is read as it was written.
        return cls(bytes.fromhex(said["story_seed"]), Instant(said["now"]), said["rows"], said["seed"])

    def story(self) -> tuple[NumberplateStory, SealedCast]:
        """Tell the story that the demonstration tells."""
        from maia.demo.numberplate import add_carrier, tell_numberplate_story

        story = tell_numberplate_story(self.story_seed, now=self.now)
        return story, add_carrier(story, self.story_seed)


def _work(order: _Order, tell: Tell) -> None:
    tell(step="starting Spark")
    import pyspark.sql  # noqa: F401 - what Java waits for is loaded before anything works beside it

    from maia.spark.session.session import spark_session

    with tempfile.TemporaryDirectory(prefix="maia-demo-") as name, ThreadPoolExecutor(2) as beside:
        # Spark starts and works in Java, so Python has time for other things meanwhile.
        folder = Path(name)
        made = beside.submit(_made, order, folder / "sightings")
        given = beside.submit(_given_log, order)
        with spark_session("maia-demo") as spark:
            kernel = beside.submit(lambda: _through_the_kernel(made))
            _million(spark, made, kernel, folder, tell)
            _lake(spark, given, tell)


# ------------------------------------------------------------ a million sightings


def _made(order: _Order, sightings: Path) -> tuple[dict[str, View], Path]:
    from maia.demo.million import generate_sightings, offices_views

    generate_sightings(sightings, rows=order.rows, seed=order.seed)
    return offices_views(order.story()[0], now=order.now), sightings


def _through_the_kernel(made: Future[tuple[dict[str, View], Path]]) -> dict[str, Any]:
    # Any: pyarrow is not typed.
    from maia.demo.million import seen_by_kernel

    return seen_by_kernel(*made.result())


def _million(
    spark: SparkSession,
    made: Future[tuple[dict[str, View], Path]],
    kernel: Future[dict[str, Any]],
    folder: Path,
    tell: Tell,
) -> None:
    from maia.demo.million import compared, seen_in_spark

    views, sightings = made.result()
    tell(step="the View of each office over the generated sightings")
    with ThreadPoolExecutor(len(views)) as jobs:  # while one is planned, another one works
        running = {
            office: jobs.submit(seen_in_spark, spark, view, sightings, folder / office)
            for office, view in views.items()
        }
    seconds = {office: job.result() for office, job in running.items()}
    tell(step="the same Views in the kernel, event by event")
    by_kernel = kernel.result()
    tell(step="comparing every row")
    found: list[Comparison] = [
        compared(office, folder / office, by_kernel[office], spark_s=seconds[office]) for office in views
    ]
    # Said before Java ends, which takes its time and is nothing to wait for.
    tell(million=[asdict(one) for one in found], finished_at=time.time())


# ------------------------------------------------------------ the log


def _given_log(order: _Order) -> tuple[LakeOrder, Lake]:
    """Wait for the second order, and let the offices fetch their keys."""
    from maia.demo.lake_jobs import LakeOrder, opened

    story, cast = order.story()
    lake_order = LakeOrder(**json.loads(sys.stdin.readline()))
    return lake_order, opened(lake_order, story, cast, now=order.now)


def _lake(spark: SparkSession, given: Future[tuple[LakeOrder, Lake]], tell: Tell) -> None:
    from maia.demo.lake_jobs import worked

    tell(step="the offices fetch their keys")
    lake_order, lake = given.result()
    works, no_plot = worked(spark, lake, lake_order, lambda title: tell(step=title))
    tell(lake=[asdict(one) for one in works], no_plot=no_plot, finished_at=time.time())


if __name__ == "__main__":
    main()
