"""How does Spark get going while a network plays?

In a process of its own, behind everything else, from the moment the
demonstration starts. It is given two orders, one line of JSON each: what to
make at once, and where the log lies when the network has played. It answers
one line for each step and one for each result. The numberplate story's process is
`spark_process.py`; that of the other stories is `scenes/tables.py`.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.errors import MaiaError, Unavailable
from maia.events import Instant

if TYPE_CHECKING:
    from maia.demo.lake_jobs import LakeOrder, Work
    from maia.demo.million import Comparison


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

RouteUpdate = Callable[..., None]
"""Writes one answer, from its named fields."""


# Any: what was written as JSON by our own process is read as it was written.
def work_for_demonstration(work: Callable[[dict[str, Any], RouteUpdate], None]) -> None:
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
