"""How does the pipeline's work grow with the number of events?

Sightings are generated, one million to ten, and billed and counted by the
applications that a user runs, results written to disk, in one Spark session.
The answer is events per second for each size, and how much longer ten times
as many events take: ten is proportional, less is better. Each size is tried
several times in turns and the median counts.

`--quick` is a smoke test of seconds. This is no comparison with a peer, so it
is not one of the numbered benchmarks.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from maia.spark.applications import APPLICATIONS
from maia.spark.applications.runs import parquet_source, run
from maia.spark.generators import SIGHTINGS, Order
from maia.spark.generators.files import write_generated
from maia.spark.session.session import spark_session

SIZES = (1_000_000, 2_000_000, 5_000_000, 10_000_000)
QUICK_SIZES = (2_000, 20_000)
NAMES = ("billing", "statistics")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line or a JSON object for each size and application."""
    asked = _parser().parse_args(arguments)
    sizes = QUICK_SIZES if asked.quick else tuple(asked.sizes)
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="maia-growth-", dir=asked.folder))
        )
        for row in _made(folder, sizes):
            _say(row, as_json=asked.json)
        spark = stack.enter_context(
            spark_session(
                "maia-growth", cores=asked.cores, memory_mib=asked.memory, long_running=not asked.quick
            )
        )
        for row in _measured(spark, folder, sizes, rounds=1 if asked.quick else asked.rounds):
            _say(row, as_json=asked.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pipeline_growth", description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="how many events, each")
    parser.add_argument("--rounds", type=int, default=3, help="how often each size is tried")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", type=int, default=2048, metavar="MIB")
    parser.add_argument("--folder", type=Path, help="where events and results lie meanwhile")
    parser.add_argument("--quick", action="store_true", help="smoke test: thousands of events, one round")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    return parser


def _made(folder: Path, sizes: Sequence[int]) -> Iterator[dict[str, object]]:
    for size in sizes:
        began = perf_counter()
        files = write_generated(folder / f"events-{size}", SIGHTINGS, Order(size, 2003))
        seconds = perf_counter() - began
        yield {
            "step": "generate",
            "events": size,
            "seconds": round(seconds, 2),
            "events_per_s": round(size / seconds),
            "bytes_per_event": round(sum(file.stat().st_size for file in files) / size, 1),
        }


# Any: Spark's session is imported where it is started.
def _measured(spark: Any, folder: Path, sizes: Sequence[int], *, rounds: int) -> Iterator[dict[str, object]]:
    for name in NAMES:
        _seconds(spark, folder, name, min(sizes), "warm")
        times: dict[int, list[float]] = {size: [] for size in sizes}
        for number in range(rounds):
            for size in sizes:
                times[size].append(_seconds(spark, folder, name, size, str(number)))
                print(f"{name}, {size:,} events: {times[size][-1]:.1f} s", file=sys.stderr, flush=True)
        median = {size: statistics.median(found) for size, found in times.items()}
        for size in sizes:
            yield {
                "step": name,
                "events": size,
                "seconds": round(median[size], 2),
                "spread_s": [round(min(times[size]), 2), round(max(times[size]), 2)],
                "events_per_s": round(size / median[size]),
            }
        small, large = min(sizes), max(sizes)
        yield {
            "step": f"{name}, growth",
            "events_times": round(large / small, 2),
            "seconds_times": round(median[large] / median[small], 2),
        }
    # Kilobytes on Linux, of this process: nothing is collected, so it does not grow with the events.
    yield {"step": "memory", "driver_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}


def _seconds(spark: Any, folder: Path, name: str, size: int, label: str) -> float:
    application = APPLICATIONS[name]
    source = parquet_source(spark, folder / f"events-{size}")
    result = folder / f"{name}-{size}-{label}"
    return run(spark, application, application.terms, source, result=result).seconds


def _say(row: dict[str, object], *, as_json: bool) -> None:
    shown = json.dumps(row) if as_json else "  ".join(f"{name} {value}" for name, value in row.items())
    print(shown, flush=True)


if __name__ == "__main__":
    sys.exit(main())
