"""Draw figure 7.9 of the dissertation with our numbers: what sealing costs between authorised brokers.

    .venv/bin/python bench/figure_7_9.py            draws docs/images/figure-7-9.svg
    .venv/bin/python bench/figure_7_9.py --quick    a few points, nothing is kept

Frames of 256 that were sealed before the clock started cross a broker that
may read them, with their plaintext beside them; and go on to the subscriber.
What is counted is processor time over that of the same way in the clear. The
paper gives two numbers: 3.7 % more with one attribute, 2.5 % with 25.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from b07_plaintext_cache import side
from harness import Side
from maia.types import SealingLevel
from plots import save, subplots

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "bench" / "results" / "figure-7-9.json"
PAPER = {1: 3.7, 25: 2.5}
WAYS = {"one hop": False, "hop and delivery, proved": True}
ROUNDS, CALLS = 5, 6


def main(quick: bool) -> None:
    """Measure every point and draw them."""
    attributes = (1, 25) if quick else (1, 5, 10, 15, 20, 25)
    found = {
        way: {str(number): _overhead(number, to_end) for number in attributes} for way, to_end in WAYS.items()
    }
    print(json.dumps(found, indent=1))
    if not quick:
        RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        draw(found)


def _overhead(attributes: int, to_the_end: bool) -> float:
    """Return by how many per cent the sealed way takes longer, measured in turns."""
    sealed = side(attributes, 256, SealingLevel.ATTRIBUTE, to_the_end=to_the_end)
    plain = side(attributes, 256, None, to_the_end=to_the_end)
    ratios = [_seconds(sealed) / _seconds(plain) for _ in range(ROUNDS)]
    return round(100 * (statistics.median(ratios) - 1), 1)


def _seconds(way: Side) -> float:
    assert way.prepare is not None
    inputs = way.prepare(CALLS)
    started = time.process_time()
    for one in inputs:
        way.run(one)
    return time.process_time() - started


def draw(found: dict[str, dict[str, float]]) -> None:
    """Draw both ways and the paper's two numbers."""
    figure, axes = subplots(size=(7, 4))
    for way, points in found.items():
        axes.plot(
            [int(number) for number in points], list(points.values()), marker="o", markersize=3, label=way
        )
    axes.plot(list(PAPER), list(PAPER.values()), "kx", label="in the paper")
    axes.axhline(0, color="grey", linewidth=0.5)
    axes.set_title(
        "Plaintext beside ciphertext, frames of 256: processor time over plaintext alone, %", fontsize=9
    )
    axes.set_xlabel("attributes of 30 characters")
    axes.legend(fontsize=8)
    figure.tight_layout()
    save(figure, "figure-7-9")


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
