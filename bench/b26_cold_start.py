"""How long does a newcomer wait for `maia demo`, from the keystroke to what there is to see?

Each repetition is a new process: four organisations are set up, their brokers and servers start, a
camera and two offices connect, and the first event is delivered. Spark starts
beside them and has read the log, compared with the kernel, some seconds later.
Times are in seconds, counted from the start of the interpreter's process. As
where Maia is installed, all modules have been compiled before.
"""

from __future__ import annotations

import compileall
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from harness import Benchmark, Case, Figure, NotMeasured, at_most

FIRST_EVENT = "seconds to the first live event"
SPARK = "seconds to the Spark result over the log"
REPAIR = "seconds until events flow again after a broker was killed"
SOURCES = Path(__file__).resolve().parents[1] / "src"
FIRST_EVENT_MOST, SPARK_MOST, REPAIR_MOST = at_most(2), at_most(20), at_most(2)


def cases(quick: bool) -> Iterator[Case]:
    """Yield the first event, the repair and, in a full run, the Spark result."""
    compileall.compile_dir(SOURCES, quiet=2)
    played = [_demonstrated() for _ in range(1 if quick else 9)]
    yield Figure(FIRST_EVENT, [one["first_event_s"] for one in played], FIRST_EVENT_MOST)
    yield Figure(REPAIR, [one["repaired_s"] for one in played], REPAIR_MOST)
    if quick:
        yield NotMeasured(SPARK, "a smoke run leaves Spark out", SPARK_MOST)
        return
    with_spark = [_demonstrated("--spark") for _ in range(3)]
    yield Figure(
        f"{FIRST_EVENT}, while Spark starts", [one["first_event_s"] for one in with_spark], FIRST_EVENT_MOST
    )
    yield Figure(SPARK, [one["played_s"] for one in with_spark], SPARK_MOST)


def _demonstrated(*words: str) -> dict[str, float]:
    command = [sys.executable, "-m", "maia.cli", "demo", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    assert record["failed"] == []
    return {name: value for name, value in record.items() if isinstance(value, float)}


BENCH = Benchmark(
    number=26,
    name="cold-start",
    about="`maia demo` from an installed environment: first event, repair after a crash, Spark result",
    cases=cases,
)
