"""Which benchmarks run now? `python bench [NUMBER or NAME …]`, and `--help` for the rest."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

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
from harness_report import PAGE, draw, keep, performance_page, print_table, this_machine

ON_STDERR = Console(stderr=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that the command line names; return the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        benchmarks = chosen(all_benchmarks(), asked.names)
    except UnknownBenchmark as unknown:
        ON_STDERR.print(f"{unknown}", markup=False)
        return 2
    if asked.list:
        _list(benchmarks, as_json=asked.json)
    elif asked.page:
        PAGE.write_text(performance_page(), encoding="utf-8")
    else:
        quick = replace(QUICK, first_alone=asked.first)
        _run_all(benchmarks, effort=quick if asked.quick or asked.first else THOROUGH, as_json=asked.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Run Maia's benchmarks. Name none to run all.")
    parser.add_argument("names", nargs="*", metavar="NUMBER|NAME")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and stop")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--quick", action="store_true", help="smoke test: few rounds, nothing is kept")
    parser.add_argument("--first", action="store_true", help="smoke test of the first case of each alone")
    parser.add_argument("--page", action="store_true", help="rewrite docs/performance.md from kept results")
    return parser


def _list(benchmarks: Sequence[Benchmark], *, as_json: bool) -> None:
    for benchmark in benchmarks:
        named = {"bench": benchmark.number, "name": benchmark.name, "about": benchmark.about}
        print(
            json.dumps(named) if as_json else f"{benchmark.number:>3}  {benchmark.name:<24} {benchmark.about}"
        )


def _run_all(benchmarks: Sequence[Benchmark], *, effort: Effort, as_json: bool) -> None:
    for benchmark in benchmarks:
        load_before, busy = load_average(), busy_cores()
        if busy > BUSY_CORES_WORTH_A_WARNING:
            ON_STDERR.print(f"warning: other work keeps {busy:.1f} cores busy, expect wide intervals")
        results = _run_one(benchmark, effort=effort, as_json=as_json)
        if not as_json:
            print_table(benchmark, results)
        if not effort.quick:
            keep(
                benchmark,
                results,
                this_machine(load_before=load_before, load_after=load_average(), busy=busy),
            )
            if benchmark.plot:
                draw(benchmark, results)
            PAGE.write_text(performance_page(), encoding="utf-8")


def _run_one(benchmark: Benchmark, *, effort: Effort, as_json: bool) -> list[Answer]:
    results: list[Answer] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=ON_STDERR, transient=True, disable=not ON_STDERR.is_terminal) as progress:
        bar = progress.add_task(f"#{benchmark.number} {benchmark.name}: preparing", total=None)
        done: dict[str, int] = {}

        def show(case: str) -> None:
            done[case] = done.get(case, 0) + 1
            described = f"#{benchmark.number} {benchmark.name}: {case}, round {done[case]}/{effort.rounds}"
            progress.update(bar, description=described)

        for result in run_benchmark(benchmark, effort, show):
            results.append(result)
            if as_json:
                print(json.dumps(result.as_row(), ensure_ascii=False), flush=True)
    return results


if __name__ == "__main__":
    sys.exit(main())
