"""How does Spark get going while the network plays?

In a process of its own, behind everything else, from the moment the
demonstration starts. It tells the same story from the same seed, runs each
office's View over generated sightings, compares with the kernel, and prints
one line of JSON for each step and one for the result.
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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.errors import Unavailable
from maia.events import Instant

if TYPE_CHECKING:
    from maia.policy import View
    from maia.scenarios.million import Comparison

__all__ = ["SparkFailed", "SparkResult", "SparkRun", "spark_in_background"]

_BEHIND_EVERYTHING: Final = 5
"""How far Spark stands back for the live network, in the scale of `nice`."""


class SparkFailed(Unavailable):
    """The Spark part of the demonstration ended without a result."""

    code = "UNAVAILABLE-SPARK-PART"


@dataclass(frozen=True, slots=True)
class SparkResult:
    """What Spark and the kernel say, and when they had said it."""

    comparisons: list[Comparison]
    finished_at: float


@dataclass(frozen=True, slots=True)
class SparkRun:
    """The process in which Spark works."""

    process: subprocess.Popen[str]

    def result(self, show: Callable[[str], None]) -> SparkResult:
        """Wait for the result, and show each step that is still to come."""
        from maia.scenarios.million import Comparison

        assert self.process.stdout is not None  # noqa: S101 - asked for below
        for line in self.process.stdout:
            told = json.loads(line)
            if "step" in told:
                show(told["step"])
            else:
                return SparkResult([Comparison(**one) for one in told["result"]], told["finished_at"])
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
        [sys.executable, "-m", "maia.cli.demo_spark"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("MAIA_DEMO_SPARK_LOG") else subprocess.DEVNULL,
        text=True,
        env=os.environ | {"TMPDIR": str(folder)},
        start_new_session=True,  # Java is in the same group, so both can be ended together
    )
    try:
        order = {"story_seed": story_seed.hex(), "now": int(now), "rows": rows, "seed": seed}
        assert process.stdin is not None  # noqa: S101 - asked for above
        with process.stdin:
            process.stdin.write(json.dumps(order))
        yield SparkRun(process)
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def main() -> None:
    """Do the work of the background process: an order on standard input, steps and a result on the output."""
    os.nice(_BEHIND_EVERYTHING)
    gc.disable()  # millions of events come and go without a cycle, and to look for one takes as long again
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    order = json.load(sys.stdin)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what Java prints is not our answer

    def tell(**fields: object) -> None:
        out.write(json.dumps(fields) + "\n")
        out.flush()

    _compare(
        bytes.fromhex(order["story_seed"]),
        Instant(order["now"]),
        rows=order["rows"],
        seed=order["seed"],
        step=lambda title: tell(step=title),
        tell=lambda found: tell(result=[asdict(one) for one in found], finished_at=time.time()),
    )


def _end_with(parent: int) -> None:
    """End this process and its Java when the demonstration is gone, however it ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _compare(
    story_seed: bytes,
    now: Instant,
    *,
    rows: int,
    seed: int,
    step: Callable[[str], None],
    tell: Callable[[list[Comparison]], None],
) -> None:
    step("starting Spark")
    from maia.runtime.spark_session import spark_session

    with tempfile.TemporaryDirectory(prefix="maia-demo-") as folder, ThreadPoolExecutor(1) as beside:
        # Spark starts and works in Java, so the kernel can make and go through the sightings meanwhile.
        begun = beside.submit(_begun, story_seed, now, Path(folder, "sightings"), rows=rows, seed=seed)
        with spark_session("maia-demo") as spark:
            from maia.scenarios.million import compared, seen_by_kernel, seen_in_spark

            step(f"generating {rows:,} sightings")
            views, sightings = begun.result()
            kernel = beside.submit(seen_by_kernel, views, sightings)
            outs = {office: Path(folder, office) for office in views}
            seconds: dict[str, float] = {}
            for office, view in views.items():
                step(f"the View of the {office} as a Spark job")
                seconds[office] = seen_in_spark(spark, view, sightings, outs[office])
            step("the same Views in the kernel, event by event")
            by_kernel = kernel.result()
            step("comparing every row")
            # Said before Java ends, which takes its time and is nothing to wait for.
            tell(
                [
                    compared(office, outs[office], by_kernel[office], spark_s=seconds[office])
                    for office in views
                ]
            )


def _begun(
    story_seed: bytes, now: Instant, sightings: Path, *, rows: int, seed: int
) -> tuple[dict[str, View], Path]:
    """Tell the story and make the sightings, while Java starts."""
    from maia.scenarios import tell_numberplate_story
    from maia.scenarios.million import generate_sightings, offices_views

    generate_sightings(sightings, rows=rows, seed=seed)
    return offices_views(tell_numberplate_story(story_seed, now=now), now=now), sightings


if __name__ == "__main__":
    main()
