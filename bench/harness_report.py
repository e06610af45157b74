"""What did the benchmarks say, for people, for programs and for the performance page?

A thorough run keeps its answers in `results/`, one file per benchmark, and
the page `docs/performance.md` is written from those files alone: the last
result of every benchmark, losses included. Quick runs are kept nowhere.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from harness import BENCH_FOLDER, Answer, Benchmark, Result, Unanswered

RESULTS = BENCH_FOLDER / "results"
LOAD_FILE = "load.json"
BUDGET_FILE = "budget.json"
PAGE = BENCH_FOLDER.parent / "docs" / "performance.md"


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


def keep(benchmark: Benchmark, results: Sequence[Answer], machine: Machine) -> Path:
    """Keep the answers of a thorough run as the benchmark's last result."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{benchmark.number:02d}-{benchmark.name}.json"
    record = {
        "bench": benchmark.number,
        "name": benchmark.name,
        "about": benchmark.about,
        "stood": benchmark.stood,
        "peer_lacks": benchmark.peer_lacks,
        "floor": benchmark.floor,
        "machine": {name: getattr(machine, name) for name in Machine.__slots__},
        "rows": [result.as_row() for result in results],
    }
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def performance_page(folder: Path = RESULTS) -> str:
    """Return the performance page, written from the kept results in `folder`."""
    records = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("[0-9][0-9]-*.json"))
    ]
    rows = [row for record in records for row in record["rows"]]
    untried = [row for row in rows if "not_measured" in row]
    missed = [row for row in rows if not row["met"] and row not in untried]
    parts = [
        "# Performance",
        "",
        "<!-- Written by `make bench` from bench/results/. Edit the benchmarks, not this page. -->",
        "",
        "Each benchmark times two ways of doing one job in turns, on one machine, in one run. A result is",
        "the median ratio with an interval that holds the true median with 95 % confidence. Absolute times",
        "stand beside their ratio and mean little elsewhere. Run one yourself: `make bench NAMES=3`.",
        "",
        f"{len(rows)} cases, {len(rows) - len(missed) - len(untried)} at their target, "
        f"{len(missed)} below it, {len(untried)} not measured.",
        "",
    ]
    parts += _budget_section(folder / BUDGET_FILE)
    for record in records:
        parts += _section(record)
    parts += _load_section(folder / LOAD_FILE)
    return "\n".join(parts).rstrip() + "\n"


def keep_load(found: Mapping[str, str], kept: Mapping[str, bool], machine: Machine) -> Path:
    """Keep what the load test found, and which promises were kept, as its last result."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / LOAD_FILE
    described = {name: getattr(machine, name) for name in Machine.__slots__}
    record = {"found": dict(found), "kept": dict(kept), "machine": described}
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _load_section(path: Path) -> list[str]:
    if not path.exists():
        return []
    record = json.loads(path.read_text(encoding="utf-8"))
    lines = [
        "## Load",
        "",
        "One broker process, everything over mutual TLS on loopback, every filter its own: `make load`.",
        "",
        "| what | found |",
        "| --- | --- |",
        *(f"| {what} | {found} |" for what, found in record["found"].items()),
        "",
        *(f"- {'Kept' if kept else '**Broken**'}: {promise}." for promise, kept in record["kept"].items()),
    ]
    return [*lines, "", _measured(record["machine"]), ""]


Budgets = Mapping[str, Mapping[str, Sequence[float]]]
"""By way of publishing and stage: microseconds of an event, and how many are the kernel's and OpenSSL's."""


def keep_budget(budgets: Budgets, machine: Machine) -> Path:
    """Keep where the microseconds of one event go, as its last result."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / BUDGET_FILE
    described = {name: getattr(machine, name) for name in Machine.__slots__}
    record = {"budgets": budgets, "machine": described}
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def budget_rows(budgets: Budgets) -> list[list[str]]:
    """Return a row for each stage and one for all: its name, then both numbers for each way of publishing."""
    stages = list(next(iter(budgets.values())))
    rows = [[stage, *(number(us) for found in budgets.values() for us in found[stage])] for stage in stages]
    sums = [sum(one[at] for one in found.values()) for found in budgets.values() for at in (0, 1)]
    return [*rows, ["all of it", *map(number, sums)]]


def _budget_section(path: Path) -> list[str]:
    if not path.exists():
        return []
    record = json.loads(path.read_text(encoding="utf-8"))
    budgets: Budgets = record["budgets"]
    heads = [cell for one in budgets for cell in (f"{one}, µs", "kernel and OpenSSL, µs")]
    lines = [
        "## Where the microseconds go",
        "",
        "CPU time of one event of ten attributes in one broker, from a publisher to a subscriber over",
        "mutual TLS, with access control, filter and restriction: `make profile`. What the kernel and",
        "OpenSSL take is the floor: a broker in any language pays it.",
        "",
        f"| stage | {' | '.join(heads)} |",
        f"| --- |{' ---: |' * len(heads)}",
        *(f"| {' | '.join(row)} |" for row in budget_rows(budgets)),
    ]
    return [*lines, "", _measured(record["machine"]), ""]


def _section(record: dict[str, object]) -> list[str]:
    machine, rows = record["machine"], record["rows"]
    assert isinstance(machine, dict)
    assert isinstance(rows, list)
    lines = [f"## #{record['bench']} {record['name']}", "", f"{record['about']}", ""]
    lines += [f"Where it stood: {record['stood']}.", ""] if record["stood"] else []
    lines += [f"What the peer does not do: {record['peer_lacks']}.", ""] if record["peer_lacks"] else []
    lines += [f"What cannot be less: {record['floor']}.", ""] if record.get("floor") else []
    lines += [
        "| case | ratio | interval | target | met | ours µs | peer µs |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    lines += [_page_row(row) for row in rows]
    picture = PAGE.parent / "images" / f"bench-{record['bench']:02d}.svg"
    lines += ["", f"![ratio by case](images/{picture.name})"] if picture.exists() else []
    return [*lines, "", _measured(machine), ""]


def _measured(machine: Mapping[str, object]) -> str:
    return (
        f"Measured {machine['measured_on']}: {machine['cores']} cores {machine['architecture']}, "
        f"Python {machine['python']}, load {machine['load_before']} before and "
        f"{machine['load_after']} after, {machine['busy_cores']} cores busy with other work."
    )


def _page_row(row: dict[str, object]) -> str:
    if "not_measured" in row:
        return f"| {row['case']} | not measured | {row['not_measured']} | {row['target']} | **no** | | |"
    interval = row["interval"]
    assert isinstance(interval, list)
    times = [number(float(str(row[side]))) if side in row else "" for side in ("ours_us", "peer_us")]
    note = f"; {row['note']}" if "note" in row else ""
    cells = [
        f"{row['case']}{note}",
        number(float(str(row["ratio"]))),
        f"{number(interval[0])} – {number(interval[1])}",
        row["target"],
        "yes" if row["met"] else "**no**",
        *times,
    ]
    return f"| {' | '.join(map(str, cells))} |"


def draw(benchmark: Benchmark, results: Sequence[Answer]) -> Path:
    """Draw ratio by case, with interval and target, as the picture on the performance page."""
    measured = [result for result in results if isinstance(result, Result)]
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "maia"  # the same results give the same file
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5))
    places = range(len(measured))
    low = [result.ratio - result.interval[0] for result in measured]
    high = [result.interval[1] - result.ratio for result in measured]
    axes.errorbar(places, [result.ratio for result in measured], yerr=[low, high], fmt="o-", capsize=3)
    for bound in {float(result.target.split()[1]) for result in measured}:
        axes.axhline(bound, linestyle="--", color="grey", linewidth=1)
    axes.set_xticks(list(places), [result.case for result in measured], rotation=20, ha="right")
    axes.set_ylabel("ratio (dashed: target)")
    axes.set_title(f"#{benchmark.number} {benchmark.name}")
    path = PAGE.parent / "images" / f"bench-{benchmark.number:02d}.svg"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    return path
