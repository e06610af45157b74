"""What did the benchmarks say, for people and for the performance page, and how long did they take?

A thorough run keeps its answers in `results/`, one file per benchmark: its last
result, losses included. `performance_page.py` writes the page from those files
alone. Quick runs are kept nowhere.
"""

from __future__ import annotations

import json
import os
import platform
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ages import commit_here, is_same_code
from harness import BENCH_FOLDER, Answer, Benchmark, Result, Unanswered

RESULTS = BENCH_FOLDER / "results"
LOAD_FILE = "load.json"
BUDGET_FILE = "budget.json"
GROWTH_FILE = "growth.json"


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and under which conditions a run took place. Never the machine's name."""

    measured_on: str
    cores: int
    architecture: str
    python: str
    load_before: float
    load_after: float
    busy_cores: float
    commit: str
    """Of the code that was measured."""
    build: str
    """How the interpreter was built."""


def this_machine(*, load_before: float, load_after: float, busy: float) -> Machine:
    """Describe this machine and this hour."""
    return Machine(
        measured_on=datetime.now(UTC).date().isoformat(),
        cores=os.cpu_count() or 1,
        architecture=platform.machine(),
        python=platform.python_version(),
        load_before=round(load_before, 2),
        load_after=round(load_after, 2),
        busy_cores=round(busy, 2),
        commit=commit_here(),
        build=python_build(),
    )


def python_build() -> str:
    """Return which optimisations this Python was built with: they make up to a third of all times.

    Debian builds with both and removes the words, so of a system's own Python
    we only believe what it has.
    """
    flags = {
        word.strip("'").partition("=")[0] for word in str(sysconfig.get_config_var("CONFIG_ARGS")).split()
    }
    names = {"--enable-optimizations": "PGO", "--with-lto": "LTO"}
    if sysconfig.get_config_var("prefix") == "/usr" and not names.keys() & flags:
        return "by its distribution"
    found = [f"{'with' if flag in flags else 'without'} {name}" for flag, name in names.items()]
    return " and ".join(found)


def measured_at(machine: Mapping[str, object], took: str = "") -> str:
    """Say when, at which commit and where something was measured; early records lack the Python's build."""
    commit = f" at `{machine['commit']}`" if machine.get("commit") else ""
    build = f" built {machine['build']}" if machine.get("build") else ""
    return (
        f"Measured {machine['measured_on']}{commit}{took}: {machine['cores']} cores "
        f"{machine['architecture']}, Python {machine['python']}{build}"
    )


def print_table(benchmark: Benchmark, results: Sequence[Answer]) -> None:
    """Print the answers of one benchmark for people."""
    table = Table(title=f"#{benchmark.number} {benchmark.name}: {benchmark.about}", title_justify="left")
    for heading in ("case", "ratio", "interval", "target", "met", "ours µs", "peer µs"):
        table.add_column(heading, justify="left" if heading in {"case", "met"} else "right")
    for result in results:
        note = f"\n{result.note}" if isinstance(result, Result) and result.note else ""
        table.add_row(f"{result.case}{note}", *_cells(result))
    Console().print(table)


def _cells(result: Answer) -> tuple[str, ...]:
    if isinstance(result, Unanswered):
        return "not measured", result.not_measured, result.target, "NO", "", ""
    low, high = result.interval
    return (
        number(result.ratio),
        f"{number(low)} – {number(high)}",
        result.target,
        "yes" if result.met else "NO",
        "" if result.ours_us is None else number(result.ours_us),
        "" if result.peer_us is None else number(result.peer_us),
    )


def number(value: float) -> str:
    """Write `value` with three or four digits, thousands separated."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def keep(benchmark: Benchmark, results: Sequence[Answer], machine: Machine, *, took_s: float) -> None:
    """Keep the answers of a thorough run as the benchmark's last result, and how long it took."""
    record = {
        "bench": benchmark.number,
        "name": benchmark.name,
        "about": benchmark.about,
        "stood": benchmark.stood,
        "peer_lacks": benchmark.peer_lacks,
        "floor": benchmark.floor,
        "took_s": round(took_s, 1),
        "machine": asdict(machine),
        "rows": [result.as_row() for result in results],
    }
    keep_record(_file_of(benchmark), record)


def keep_record(file: str, record: Mapping[str, object]) -> None:
    """Keep what a command has found as its last result."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(record, indent=2, ensure_ascii=False)
    (RESULTS / file).write_text(text + "\n", encoding="utf-8")


def _file_of(benchmark: Benchmark) -> str:
    return f"{benchmark.number:02d}-{benchmark.name}.json"


def _last(benchmark: Benchmark, folder: Path) -> dict[str, Any]:
    # Any: a record is what JSON holds.
    path = folder / _file_of(benchmark)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def last_took_s(benchmark: Benchmark, folder: Path = RESULTS) -> float | None:
    """Return how many seconds the last thorough run of a benchmark took, if that was kept."""
    took: float | None = _last(benchmark, folder).get("took_s")
    return took


def is_measured_at(benchmark: Benchmark, commit: str, folder: Path = RESULTS) -> bool:
    """Return whether the kept result of a benchmark is of the code of this commit, with nothing changed."""
    return is_same_code(_last(benchmark, folder).get("machine", {}).get("commit", ""), commit)


def duration(seconds: float) -> str:
    """Write a duration for people, no more exactly than it is known."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def forecast(benchmarks: Sequence[Benchmark], folder: Path = RESULTS) -> str:
    """Say how long some benchmarks will take, by how long they took last."""
    took = [last_took_s(one, folder) for one in benchmarks]
    known = [one for one in took if one is not None]
    unknown = len(took) - len(known)
    about = f"about {duration(sum(known))}" if known else "of unknown length"
    return f"{about}, and {unknown} of them never timed" if known and unknown else about


Budgets = Mapping[str, Mapping[str, Sequence[float]]]
"""By way of publishing and stage: microseconds of an event, and how many are the kernel's and OpenSSL's."""


def budget_rows(budgets: Budgets) -> list[list[str]]:
    """Return a row for each stage and one for all: its name, then both numbers for each way of publishing."""
    stages = list(next(iter(budgets.values())))
    rows = [[stage, *(number(us) for found in budgets.values() for us in found[stage])] for stage in stages]
    sums = [sum(one[at] for one in found.values()) for found in budgets.values() for at in (0, 1)]
    return [*rows, ["all of it", *map(number, sums)]]
