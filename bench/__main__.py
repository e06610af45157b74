"""Which benchmarks run now, and how long will that take? `python bench [NUMBER or NAME …]`, and `--help`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ages import commit_here
from harness import (
    BUSY_CORES_WORTH_A_WARNING,
    QUICK,
    THOROUGH,
    Answer,
    Benchmark,
    Effort,
    UnknownBenchmark,
    all_benchmarks,
    busy_cores,
    chosen,
    load_average,
    run_benchmark,
)
from harness_report import (
    duration,
    forecast,
    is_measured_at,
    keep,
    last_took_s,
    print_table,
    this_machine,
)
from performance_page import write_page

ON_STDERR = Console(stderr=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that the command line names; return the exit code."""
    asked = _parser().parse_args(arguments)
    if asked.names in (["growth"], ["figures"]):
        flags = [flag for flag in ("--quick", "--json") if getattr(asked, flag[2:])]
        return int(importlib.import_module(asked.names[0]).main(flags))
    try:
        benchmarks = chosen(all_benchmarks(), asked.names)
    except UnknownBenchmark as unknown:
        ON_STDERR.print(f"{unknown}", markup=False)
        return 2
    if asked.list:
        _list(benchmarks, as_json=asked.json)
    elif asked.page:
        write_page()
    else:
        quick = replace(QUICK, first_alone=asked.first)
        effort = quick if asked.quick or asked.first else THOROUGH
        if not effort.quick:
            # All of them take hours: a run that was interrupted goes on where it was.
            done = [] if asked.names else [one for one in benchmarks if is_measured_at(one, commit_here())]
            if done:
                benchmarks = [one for one in benchmarks if one not in done]
                ON_STDERR.print(f"{len(done)} are measured at this commit; name one to measure it again")
            if not benchmarks:
                return 0
            many = f"{len(benchmarks)} benchmarks" if len(benchmarks) > 1 else f"#{benchmarks[0].number}"
            ON_STDERR.print(f"{many}: {forecast(benchmarks)}", highlight=False)
        _run_all(benchmarks, effort=effort, as_json=asked.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Run Maia's benchmarks, `growth` or the papers' `figures`. Name none to run all that "
        "have not been measured at this commit.",
    )
    parser.add_argument("names", nargs="*", metavar="NUMBER|5-9|NAME")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and stop")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--quick", action="store_true", help="smoke test: few rounds, nothing is kept")
    parser.add_argument("--first", action="store_true", help="smoke test of the first case of each alone")
    parser.add_argument("--page", action="store_true", help="rewrite docs/performance.md from kept results")
    return parser


def _list(benchmarks: Sequence[Benchmark], *, as_json: bool) -> None:
    for benchmark in benchmarks:
        took = last_took_s(benchmark)
        if as_json:
            named = {"bench": benchmark.number, "name": benchmark.name, "about": benchmark.about}
            print(json.dumps(named | {"took_s": took}))
        else:
            length = "" if took is None else duration(took)
            print(f"{benchmark.number:>3}  {benchmark.name:<24} {length:>9}  {benchmark.about}")


def _run_all(benchmarks: Sequence[Benchmark], *, effort: Effort, as_json: bool) -> None:
    for place, benchmark in enumerate(benchmarks):
        # A smoke run compares nothing: it does not wait to see how busy the machine is.
        load_before, busy = load_average(), 0.0 if effort.quick else busy_cores()
        if busy > BUSY_CORES_WORTH_A_WARNING:
            ON_STDERR.print(f"warning: other work keeps {busy:.1f} cores busy, expect wide intervals")
        label = f"#{benchmark.number} {benchmark.name}"
        if not effort.quick:
            label = f"{place + 1}/{len(benchmarks)} ({forecast(benchmarks[place:])} left) {label}"
            if not ON_STDERR.is_terminal:
                ON_STDERR.print(label, highlight=False)
        started = monotonic()
        results = _run_one(benchmark, label, effort=effort, as_json=as_json)
        if not as_json:
            print_table(benchmark, results)
        if not effort.quick:
            machine = this_machine(load_before=load_before, load_after=load_average(), busy=busy)
            keep(benchmark, results, machine, took_s=monotonic() - started)
            write_page()


def _run_one(benchmark: Benchmark, label: str, *, effort: Effort, as_json: bool) -> list[Answer]:
    results: list[Answer] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=ON_STDERR, transient=True, disable=not ON_STDERR.is_terminal) as progress:
        bar = progress.add_task(f"{label}: preparing", total=None)
        done: dict[str, int] = {}

        def show(case: str) -> None:
            done[case] = done.get(case, 0) + 1
            progress.update(bar, description=f"{label}: {case}, round {done[case]}/{effort.rounds}")

        for result in run_benchmark(benchmark, effort, show):
            results.append(result)
            if as_json:
                print(json.dumps(result.as_row(), ensure_ascii=False), flush=True)
    return results


if __name__ == "__main__":
    sys.exit(main())
