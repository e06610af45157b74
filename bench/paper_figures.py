"""What is a figure of a paper here: how is it measured, drawn and put into words?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from performance_page import Kept

Found = dict[str, Any]
"""What was measured or counted, as it is kept: names, numbers, lists of them."""


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """One table or figure of a paper: our run of its case, the picture, and the words beside it."""

    name: str
    title: str
    source: str
    measure: Callable[[bool], Found] | None
    """Run the paper's case; quickly, on small inputs, if told so. None where a benchmark runs it."""
    draw: Callable[[Found], None] | None
    """Draw what was found into the documents' pictures, under `name`."""
    describe: Callable[[Found], Sequence[str]]
    """Return the lines of the page, from what was found alone."""
    reads: Callable[[Kept], Found] | None = None
    """What the last runs of `benches` say: one case has one run, and both pages show that one."""
    benches: tuple[int, ...] = ()


def in_turns(ways: Mapping[str, Callable[[], object]], *, rounds: int, slice_s: float) -> dict[str, float]:
    """Return the processor time of a call in microseconds, of ways that take turns.

    It is the least of all rounds: other programs of the machine can only add to it.
    """
    calls = {way: _calls(run, slice_s) for way, run in ways.items()}
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, run in ways.items():
            taken[way].append(_seconds(run, calls[way]) / calls[way])
    return {way: min(times) * 1e6 for way, times in taken.items()}


def _calls(run: Callable[[], object], slice_s: float) -> int:
    calls = 1
    while _seconds(run, calls) < slice_s:
        calls *= 2
    return calls


def _seconds(run: Callable[[], object], calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        run()
    return time.process_time() - started


def short(value: float) -> str:
    """Write a number with three digits that count."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return a table of the page; the first column is text."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return [f"| {' | '.join(map(_cell, line))} |" for line in lines] + [""]


def prose(*sentences: str, bullet: bool = False) -> list[str]:
    """Return a paragraph of the page in lines of one length, or one point of a list."""
    text = " ".join(sentences)
    return wrap(f"- {text}" if bullet else text, 110, subsequent_indent="  " * bullet, break_on_hyphens=False)


def verdict(holds: bool, said: str = "The claim", where: str = "") -> str:
    """Return the opening of a section's verdict: what the run found, never what an earlier one did."""
    return f"{said} {'holds' if holds else '**does not hold here**'}{where}:"


def _cell(value: object) -> str:
    return short(value) if isinstance(value, float) else str(value)
