"""Run the papers' own cases, draw each table and figure beside the paper's, and write docs/figures.md.

    make figures                      all of them
    make figures NAMES="figure-7-9"   some
    make figures ARGS=--quick         smoke test: small inputs, nothing is kept

What was found is kept in `results/`, and the page is written from that alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any

import figure_4_5
import figure_7_8
import figure_7_9
import figure_7_10
import figure_costs
import figure_filters
import figure_formula_5
import figure_key_trees
from harness import BENCH_FOLDER, busy_cores, load_average
from harness_report import keep_record, measured_at, this_machine
from paper_figures import Found, PaperFigure
from performance_page import Kept

PAGE = BENCH_FOLDER.parent / "docs" / "figures.md"
FIGURES: tuple[PaperFigure, ...] = (
    *figure_4_5.FIGURES,
    *figure_key_trees.FIGURES,
    *figure_7_8.FIGURES,
    *figure_7_9.FIGURES,
    *figure_7_10.FIGURES,
    *figure_costs.FIGURES,
    *figure_filters.FIGURES,
    *figure_formula_5.FIGURES,
)
_HEAD = """# The papers' figures beside ours

<!-- Written by `make figures` from bench/results/. Edit the figures in bench/, not this page. -->

Each table and figure of the papers that has numbers, from our run of the paper's own case, with the paper's
numbers in the picture. Times are processor times of ways that took turns in one run, the least of the rounds;
counts are exact. Absolute times mean little elsewhere: the papers' machine is twenty years old. Whether a
claim holds is computed from the numbers of the run, by the limit that its section names. `make figures`
measures all of it again but what a benchmark runs, which is shown from its one run on both pages; the
[performance page](performance.md) has the peers.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the figures that the command line names, or all."""
    parser = argparse.ArgumentParser(prog="figures", description="Run the papers' own cases.")
    known = [figure.name for figure in FIGURES]
    parser.add_argument("names", nargs="*", metavar="FIGURE", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--quick", action="store_true", help="smoke test: small inputs, nothing is kept")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--page", action="store_true", help="draw and write the page from what is kept")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(known):
        parser.error(f"no figure is called `{min(unknown)}`; there are: {', '.join(known)}")
    for figure in FIGURES:
        if asked.page or figure.measure is None:
            if not asked.quick:
                _draw(figure, kept(figure))
        elif not asked.names or figure.name in asked.names:
            _run(figure, figure.measure, quick=asked.quick, as_json=asked.json)
    if not asked.quick:
        PAGE.write_text(page(), encoding="utf-8")
    return 0


def _run(figure: PaperFigure, measure: Callable[[bool], Found], *, quick: bool, as_json: bool) -> None:
    print(f"{figure.name} …", file=sys.stderr, flush=True)
    load_before, busy, began = load_average(), busy_cores(), perf_counter()
    found = measure(quick)
    machine = this_machine(load_before=load_before, load_after=load_average(), busy=busy)
    record = {"found": found, "took_s": round(perf_counter() - began, 1), "machine": asdict(machine)}
    lines = figure.describe(found | (figure.reads(Kept()) if figure.reads is not None else {}))
    print(json.dumps({"figure": figure.name, **record}) if as_json else "\n".join(lines), flush=True)
    if not quick:
        keep_record(_file(figure), record)
        _draw(figure, kept(figure))


def _draw(figure: PaperFigure, record: dict[str, Any] | None) -> None:
    if figure.draw is not None and record is not None:
        figure.draw(record["found"])


def _file(figure: PaperFigure) -> str:
    return f"{figure.name}.json"


def kept(figure: PaperFigure) -> dict[str, Any] | None:
    """Return what the last run of a figure has found, and of its benchmarks; None if one is missing."""
    results = Kept()
    record = results.other(_file(figure)) if figure.measure is not None else {"found": {}}
    if record is None or figure.reads is None:
        return record
    try:
        return {**record, "found": record["found"] | figure.reads(results)}
    except LookupError:
        return None


def page() -> str:
    """Return the page, from what is kept."""
    return "\n".join([_HEAD, *(line for figure in FIGURES for line in _section(figure, kept(figure)))])


def _section(figure: PaperFigure, record: dict[str, Any] | None) -> Iterable[str]:
    yield from (f"## {figure.title}", "", f"{figure.source}.", "")
    if record is None:
        yield from ("Not measured yet.", "")
        return
    if figure.draw is not None:
        yield from (f"![{figure.title}](images/{figure.name}.svg)", "")
    yield from figure.describe(record["found"])
    yield ""
    for bench in figure.benches:
        machine = Kept().machine(f"#{bench}") or {}
        yield f"From [benchmark #{bench}](performance.md). {measured_at(machine)}."
    if figure.measure is None:
        yield ""
        return
    machine, took_s = record["machine"], record["took_s"]
    yield (
        f"{measured_at(machine, f' in {took_s:,.0f} s')}, load {machine['load_before']} before and "
        f"{machine['load_after']} after{_busy(machine)}."
    )
    yield ""


def _busy(machine: dict[str, Any]) -> str:
    """Return a warning if other work shared the machine, which lengthens times and spreads ratios."""
    load = max(machine["load_before"], machine["load_after"])
    return "; the machine was busy: counts are exact, times less so" if load > machine["cores"] else ""


if __name__ == "__main__":
    sys.exit(main())
