"""How does the spill of merged filters depend on their size, for these filters and these events?

An operator asks, to see what a budget would cost (`maia filter curve`), and so
does the benchmark behind the figure. The paper expects about k / size (formula 5);
here each point is measured: filters are merged within a budget, and the events that
only the merged ones admit are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Final

from maia.events import Event, Frame, frame_of, kind_of
from maia.predicates import Predicate
from maia.predicates.meaning import row_reader
from maia.routing.aggregation.aggregate import aggregate, size_of_filter

_WIDTH: Final = 48


@dataclass(frozen=True, slots=True)
class Point:
    """One aggregate: its size, and what it lets through."""

    size: int
    """In bytes."""
    filters: int
    admitted: int
    """Events that it admits."""
    spilled: int
    """Those of them that no original filter admits."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The curve spilled = k / size ** exponent nearest to some points; in formula 5 the exponent is 1."""

    k: float
    exponent: float


def spill_curve(filters: Sequence[Predicate], events: Sequence[Event], *, points: int = 12) -> list[Point]:
    """Return measured points, from all filters merged into one up to none merged; sizes grow."""
    frame = frame_of(
        events, {uid: kind_of(value) for event in events for uid, value in event.items() if value is not None}
    )
    wanted = rows_admitted(filters, frame)
    whole = aggregate(filters, sum(map(size_of_filter, filters))).size
    least = aggregate(filters, 0).size
    found: dict[int, Point] = {}
    for number in range(points):
        budget = round(least * (whole / least) ** (number / max(points - 1, 1))) if least else 0
        merged = aggregate(filters, max(budget, least))
        if merged.size in found:
            continue
        passed = rows_admitted(merged.filters, frame)
        found[merged.size] = Point(merged.size, len(merged.filters), len(passed), len(passed - wanted))
    return [found[size] for size in sorted(found)]


def rows_admitted(filters: Iterable[Predicate], frame: Frame) -> set[int]:
    """Return the rows of a frame that some filter admits."""
    every = range(frame.rows)
    return {row for one in filters for row in row_reader(one)(every, frame)}


def fitted(points: Sequence[Point]) -> Fit | None:
    """Return the curve nearest to the points that spill, by least squares of logarithms, if there is one."""
    spilling = [(log(point.size), log(point.spilled)) for point in points if point.spilled]
    if len({x for x, _ in spilling}) < 2:
        return None
    mean_x = sum(x for x, _ in spilling) / len(spilling)
    mean_y = sum(y for _, y in spilling) / len(spilling)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in spilling) / sum(
        (x - mean_x) ** 2 for x, _ in spilling
    )
    return Fit(exp(mean_y - slope * mean_x), -slope)


def plotted(points: Sequence[Point]) -> list[str]:
    """Return the points as lines of text, spill as bars."""
    most = max((point.spilled for point in points), default=0) or 1
    lines = [f"{'bytes':>8} {'filters':>8} {'spilled':>8}"]
    for point in points:
        bar = "#" * round(_WIDTH * point.spilled / most)
        lines.append(f"{point.size:>8} {point.filters:>8} {point.spilled:>8} {bar}".rstrip())
    return lines
