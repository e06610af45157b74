"""Formula 5 of the Gismo paper with measured points: the spill of merged filters against their size.

Filters of offices lie in clusters and events anywhere, as in benchmark 39. Each point is
an aggregate within another budget; the lines are k / size, and the power of size that
is nearest to the points. Below, announcements and spill together, and where the budget
that tunes itself has settled.
"""

from __future__ import annotations

from random import Random

from b39_aggregation import EVENT_BYTES, RANGE, Costs, offices, sightings
from maia.routing.aggregation.budget import Point, begin, fitted, observe, spill_curve
from paper_figures import Found, PaperFigure, prose, short, table, verdict
from plots import save, subplots

PER_PERIOD = 4000
NEAR = 0.2
"""How far the exponent may be from the formula's."""


def measure(quick: bool) -> Found:
    """Measure the curve, and let a budget settle on it."""
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
    at = costs.at(budget.range.bytes_at(budget.home))
    return {
        "filters": len(filters),
        "events": len(events),
        "points": [[one.size, one.spilled] for one in points],
        "settled": [at.size, at.sent + at.spill],
    }


def _fit(found: Found) -> tuple[float, float]:
    """Return the factor and the exponent of the power of size that is nearest."""
    fit = fitted([Point(size, 0, 0, spilled) for size, spilled in found["points"]])
    assert fit is not None
    return fit.k, fit.exponent


def _costs(found: Found) -> list[float]:
    """Return the bytes of announcements and spill together in a period, point by point."""
    scale = PER_PERIOD * EVENT_BYTES / found["events"]
    return [size + spilled * scale for size, spilled in found["points"]]


def draw(found: Found) -> None:
    """Draw spill against size, and the cost of both."""
    k, exponent = _fit(found)
    sizes, events = [size for size, _ in found["points"]], found["events"]
    middle, scale = found["points"][len(sizes) // 2], PER_PERIOD * EVENT_BYTES / events
    figure, (above, below) = subplots(2, 1, size=(7, 6), sharex=True)
    above.loglog(
        sizes, [one / events or None for _, one in found["points"]], "o", markersize=3, label="measured"
    )
    expected = [middle[1] * middle[0] / size / events for size in sizes]
    above.loglog(sizes, expected, "k--", linewidth=0.8, label="formula 5: k / size")
    nearest = [k / size**exponent / events for size in sizes]
    above.loglog(sizes, nearest, linewidth=0.8, label=f"nearest: size to the power of -{exponent:.2f}")
    above.set_title("Formula 5: share of all events that spill", fontsize=9)
    above.legend(fontsize=8)
    below.semilogx(sizes, [size / 1000 for size in sizes], linewidth=0.8, label="announcements")
    below.semilogx(sizes, [one * scale / 1000 for _, one in found["points"]], linewidth=0.8, label="spill")
    both = [one / 1000 for one in _costs(found)]
    below.semilogx(sizes, both, "o-", markersize=3, label="both")
    size, cost = found["settled"]
    below.plot([size], [cost / 1000], "k*", markersize=10, label="where the budget settles")
    below.set_ylim(0, 2 * min(both) + max(sizes) / 1000)
    below.set_title(f"Kilobytes in a period of {PER_PERIOD:,} events", fontsize=9)
    below.set_xlabel("bytes of the aggregate")
    below.legend(fontsize=8)
    figure.tight_layout()
    save(figure, "formula-5")


def describe(found: Found) -> list[str]:
    """Return the exponent, some points, and where the budget settles."""
    _, exponent = _fit(found)
    chosen = found["points"][:: max(1, len(found["points"]) // 5)]
    middle = found["points"][len(found["points"]) // 2]
    rows = [
        [f"{size:,} bytes", middle[1] * middle[0] / size / found["events"], spilled / found["events"]]
        for size, spilled in chosen
    ]
    settled = found["settled"][1] / min(_costs(found))
    return [
        *table(
            [f"aggregate of {found['filters']} filters", "formula 5, share that spills", "measured"], rows
        ),
        *prose(
            "The paper prints the formula, |spill| = k / size, and no measurement; k is chosen so that both",
            f"agree in the middle. The power of the size that is nearest to our points is -{exponent:.2f}",
            "in place of -1.",
            f"{verdict(abs(exponent - 1) <= NEAR, 'The form')} within {NEAR:g}, and large aggregates are",
            f"{'better' if exponent > 1 else 'worse'} than it says. The budget that tunes itself settles",
            f"where announcements and spill together cost {short(settled)} times the least of the measured",
            "points ([merging filters](aggregation.md)).",
        ),
    ]


FIGURES = (
    PaperFigure("formula-5", "Formula 5: spill and size of aggregates", "Gismo 3.3", measure, draw, describe),
)
