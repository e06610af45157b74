"""How does Spark get going while the network plays?

In a process of its own, behind everything else, from the moment the
demonstration starts (`spark_process.py`). It is given two orders: what
to make at once, and where the log lies when the network has played. It
answers one line of JSON for each step, one for the million sightings, and one
for the log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.errors import Unavailable
from maia.events import Instant

if TYPE_CHECKING:
    from maia.demo.lake_jobs import LakeOrder, Work
    from maia.demo.million import Comparison

__all__ = ["LakeDone", "MillionDone", "SparkFailed", "SparkRun", "spark_in_background"]

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

        answer = self._answer("lake", show)
        return LakeDone([Work(**one) for one in answer["lake"]], answer["no_plot"], answer["finished_at"])

    def million(self, show: Callable[[str], None]) -> MillionDone:
        """Wait for the comparison of the generated sightings."""
        from maia.demo.million import Comparison

        answer = self._answer("million", show)
        return MillionDone([Comparison(**one) for one in answer["million"]], answer["finished_at"])

    def tell(self, order: dict[str, object]) -> None:
        """Write one order; if the process has ended, waiting for its answer will say so."""
        assert self.process.stdin is not None  # noqa: S101 - asked for below
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    # Any: what was written as JSON by our own process is read as it was written.
    def _answer(self, name: str, show: Callable[[str], None]) -> dict[str, Any]:
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
    """Start the Spark part, and end it and everything that it started when the body ends.

    It keeps its files in `folder`, so that they go when the folder goes.
    """
    if not rows:
        yield None
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "maia.demo.spark_process"],
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
        run.tell({"story_seed": story_seed.hex(), "now": int(now), "rows": rows, "seed": seed})
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
