"""Draw figure 7.8 of the dissertation with our numbers: throughput by number of attributes.

    .venv/bin/python bench/figure_7_8.py            draws docs/images/figure-7-8.svg
    .venv/bin/python bench/figure_7_8.py --quick    a few points, nothing is kept

Events in the clear, sealed as a whole, and sealed by attribute; in frames of
256 and one by one. What is counted is the work of publisher, both brokers and
subscriber, in processor time, so that other programs of the machine fall out.
The paper gives two numbers, both for attribute level and single events: 46 %
of the plaintext throughput with one attribute, and 11.7 % with ten.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from maia.types import SealingLevel
from plots import save, subplots
from sealed_path import Proof, Setting, side

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "bench" / "results" / "figure-7-8.json"
PAPER = {1: 0.46, 10: 0.117}
WAYS: dict[str, tuple[SealingLevel | None, Proof]] = {
    "plaintext": (None, Proof.NONE),
    "event level": (SealingLevel.EVENT, Proof.NONE),
    "attribute level": (SealingLevel.ATTRIBUTE, Proof.NONE),
    "attribute level, signed": (SealingLevel.ATTRIBUTE, Proof.TOGETHER),
}
SHAPES = {"frames of 256": (256, 8), "single events": (1, 64)}
ROUNDS = 5
SLICE_S = 0.03


def main(quick: bool) -> None:
    """Measure every point and draw both halves."""
    attributes = (1, 10, 25) if quick else (1, 5, 10, 15, 20, 25)
    found = {
        shape: {str(number): _point(number, *of) for number in attributes} for shape, of in SHAPES.items()
    }
    print(json.dumps(found, indent=1))
    if not quick:
        RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        draw(found)


def _point(attributes: int, rows: int, together: int) -> dict[str, float]:
    """Return the events a second of every way, measured in turns."""
    runs = {
        way: side(Setting(attributes, rows, level, proof, together)) for way, (level, proof) in WAYS.items()
    }
    calls = {way: _calls(run) for way, run in runs.items()}
    taken: dict[str, list[float]] = {way: [] for way in runs}
    for _ in range(ROUNDS):
        for way, run in runs.items():
            taken[way].append(_seconds(run, calls[way]) / calls[way])
    return {way: round(rows * together / statistics.median(times)) for way, times in taken.items()}


def _calls(run: Callable[[], object]) -> int:
    calls = 1
    while _seconds(run, calls) < SLICE_S:
        calls *= 2
    return calls


def _seconds(run: Callable[[], object], calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        run()
    return time.process_time() - started


def draw(found: dict[str, dict[str, dict[str, float]]]) -> None:
    """Draw throughput on the left and its share of the plaintext throughput on the right."""
    figure, rows = subplots(len(found), 2, size=(9, 7), sharex=True)
    for (shape, points), (left, right) in zip(found.items(), rows, strict=True):
        numbers = [int(number) for number in points]
        for way in WAYS:
            rates = [point[way] for point in points.values()]
            plaintext = [point["plaintext"] for point in points.values()]
            left.plot(numbers, [rate / 1000 for rate in rates], marker="o", markersize=3, label=way)
            shares = [100 * rate / plain for rate, plain in zip(rates, plaintext, strict=True)]
            right.plot(numbers, shares, marker="o", markersize=3)
        right.plot(
            list(PAPER), [100 * share for share in PAPER.values()], "kx", label="attribute level in the paper"
        )
        left.set_title(f"{shape}: thousand events a second", fontsize=10)
        right.set_title(f"{shape}: share of plaintext, %", fontsize=10)
        left.set_yscale("log")
        right.set_ylim(0, 105)
    rows[0][0].legend(fontsize=8)
    rows[0][1].legend(fontsize=8)
    for axes in rows[-1]:
        axes.set_xlabel("attributes of 30 characters")
    figure.tight_layout()
    save(figure, "figure-7-8")


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
