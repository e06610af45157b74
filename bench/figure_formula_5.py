"""Draw formula 5 of the Gismo paper with measured points: the spill of merged filters against their size.

    .venv/bin/python bench/figure_formula_5.py            draws docs/images/formula-5.svg
    .venv/bin/python bench/figure_formula_5.py --quick    a few points, nothing is kept

Filters of offices lie in clusters and events anywhere, as in benchmark 39. Each point is
an aggregate within another budget; the lines are k / size, and the power of size that
is nearest to the points. Below, announcements and spill together, and where the budget
that tunes itself has settled.
"""

from __future__ import annotations

import json
import sys
from random import Random

from b39_aggregation import EVENT_BYTES, RANGE, Costs, offices, sightings
from maia.routing.aggregation.budget import Point, begin, fitted, observe, spill_curve
from plots import save, subplots

PER_PERIOD = 4000


def main(quick: bool) -> None:
    """Measure the curve, let a budget settle on it, and draw both."""
    chance = Random("formula 5")
    filters, events = offices(60 if quick else 200, chance), sightings(500 if quick else 4000, chance)
    points = [
        one
        for one in spill_curve(filters, events, points=8 if quick else 18)
        if one.filters > 1 or one.size > 7
    ]
    costs, budget = Costs(filters, events, PER_PERIOD), begin(RANGE)
    for _ in range(60 if quick else 150):
        budget = observe(budget, costs.at(budget.bytes))
    fit = fitted(points)
    assert fit is not None
    print(json.dumps({"exponent": round(fit.exponent, 2), "settled": budget.bytes, "points": len(points)}))
    if not quick:
        draw(points, costs, budget.range.bytes_at(budget.home), len(events))


def draw(points: list[Point], costs: Costs, settled: int, events: int) -> None:
    """Draw spill against size, and the cost of both."""
    fit = fitted(points)
    assert fit is not None
    sizes = [one.size for one in points]
    spilled = [one.spilled / events for one in points]
    middle = points[len(points) // 2]
    figure, (above, below) = subplots(2, 1, size=(7, 6), sharex=True)
    above.loglog(sizes, [one or None for one in spilled], "o", markersize=3, label="measured")
    above.loglog(
        sizes,
        [middle.spilled * middle.size / size / events for size in sizes],
        "--",
        linewidth=0.8,
        label="k / size",
    )
    nearest = [fit.k / size**fit.exponent / events for size in sizes]
    above.loglog(sizes, nearest, linewidth=0.8, label=f"nearest: size to the power of -{fit.exponent:.2f}")
    above.set_title("Formula 5: share of all events that spill", fontsize=9)
    above.legend(fontsize=8)
    scale = PER_PERIOD * EVENT_BYTES / events
    below.semilogx(sizes, [size / 1000 for size in sizes], linewidth=0.8, label="announcements")
    below.semilogx(sizes, [one.spilled * scale / 1000 for one in points], linewidth=0.8, label="spill")
    both = [(one.size + one.spilled * scale) / 1000 for one in points]
    below.semilogx(sizes, both, "o-", markersize=3, label="both")
    at = costs.at(settled)
    below.plot(
        [at.size], [(at.sent + at.spill) / 1000], "k*", markersize=10, label="where the budget settles"
    )
    below.set_ylim(0, 2 * min(both) + max(sizes) / 1000)
    below.set_title(f"Kilobytes in a period of {PER_PERIOD:,} events", fontsize=9)
    below.set_xlabel("bytes of the aggregate")
    below.legend(fontsize=8)
    figure.tight_layout()
    save(figure, "formula-5")


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
