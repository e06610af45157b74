"""How long does a newcomer wait for the first event, from a cold start?

The clock starts when the process of `maia demo` is started in an installed
environment, and stops when its line about the first delivered event is read
from its output: Python and all imports, keys and certificates, three broker
processes, four TLS clients, routing between the brokers and the delivery are
all inside. Spark runs beside it; its answer is there when the demonstration
has compared a million rows with the kernel. The last case starts one broker
alone, and ends with the first event delivered through it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

from harness import Benchmark, Case, Figure, NotMeasured, at_most
from live_network import broker_process, maia_line, new_world

FIRST_EVENT = "the first event is delivered"
SPARK_ANSWER = "The same Views as Spark jobs"
GIVE_UP_S = 300.0


def cases(quick: bool) -> Iterator[Case]:
    """Yield seconds to the first live event, to Spark's answer, and to the first event of one broker."""
    rounds = 1 if quick else 5
    played = [_played(*(("--rows", "0") if quick else ())) for _ in range(rounds)]
    beside = "without Spark" if quick else "while Spark starts beside it"
    live = [one[FIRST_EVENT] for one in played]
    yield _seconds(f"`maia demo`: seconds to the first delivered live event, {beside}", live, 2)
    case = "`maia demo`: seconds to Spark's answer about a million rows"
    if quick:
        yield NotMeasured(
            case, "a smoke test leaves Spark out; run the benchmark without --quick", at_most(20)
        )
    else:
        yield _seconds(case, [one[SPARK_ANSWER] for one in played], 20)
    alone = [_one_broker_s() for _ in range(rounds)]
    yield _seconds("`maia broker`: seconds from its start to the first event delivered through it", alone, 2)


def _seconds(case: str, values: list[float], most: float) -> Figure:
    return Figure(case, values, at_most(most), note=f"best of {len(values)}: {min(values):.2f} s")


def _played(*options: str) -> dict[str, float]:
    """Play the demonstration to its end; return after how many seconds each line of interest was read."""
    started, read_after = time.perf_counter(), dict[str, float]()
    command = [sys.executable, "-m", "maia.cli", "demo", *options]
    wide = {**os.environ, "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=wide) as process:
        assert process.stdout is not None
        for line in process.stdout:
            for wanted in (FIRST_EVENT, SPARK_ANSWER):
                if wanted in line:
                    read_after.setdefault(wanted, time.perf_counter() - started)
        assert process.wait(GIVE_UP_S) == 0, "the demonstration failed"
    assert FIRST_EVENT in read_after, "the demonstration delivered no event"
    return read_after


def _one_broker_s() -> float:
    world = new_world()
    started = time.perf_counter()
    with broker_process(world) as broker, maia_line(world, broker, rows=1) as line:
        line.carry(1)
        return time.perf_counter() - started


BENCH = Benchmark(
    number=26,
    name="cold-start",
    about="seconds from the start of a process to the first delivered event, and to Spark's answer",
    cases=cases,
)
