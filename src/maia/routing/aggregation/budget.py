"""How many bytes of filters shall a router announce, so that filters and spill together cost least?

A router that merges asks after each period, with what it has measured: the
bytes of aggregates that it sent, the bytes of publications that arrived and
were wanted, and the bytes of those that were not (spill). A larger budget costs
more of the first and less of the last, about k / size (formula 5 of the Gismo
paper), so their sum has one least point. This file finds it by measuring:

- budgets are levels, each half as large again as the one below;
- the cost of a level is what was measured there, smoothed. Spill is taken per
  wanted byte, because publications come in bursts and wanted ones come whatever
  the budget is;
- a level is judged by several periods together, without the one in which it was
  moved to;
- formula 5 says where to look first, and measurement where to stay: other levels
  are tried as long as they may cost less, the budget moves to one only if it has
  cost clearly less, and it tries those beside it again from time to time.

Whatever is measured, or feigned by a neighbour, the budget stays between a
least and a most (S11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log, sqrt
from types import MappingProxyType
from typing import Final

from maia.events import Event, Frame, frame_of, kind_of
from maia.predicates import Predicate
from maia.predicates.meaning import row_reader
from maia.routing.aggregation.aggregate import aggregate, size_of_filter

_RATIO: Final = 1.5
"""How much larger each level is than the one below."""
_PERIODS: Final = 3
"""A level is judged by so many periods together."""
_NEWEST: Final = 0.4
"""The weight of the newest measurement of a level among all of them."""
_CLEARLY: Final = 0.05
"""A level is better than another one if it costs less by this fraction."""
_TRY_AFTER: Final = 12
"""After so many judgements at one level those beside it are tried again."""
_WORTH_TRYING: Final = 1.5
"""One that has cost more than so many times as much is not tried again until that is long ago."""
_OLD: Final = 60
"""A judgement of so many judgements ago is not believed any more."""
_ELSEWHERE: Final = 3.0
"""If the cost of a level changes by this factor, what was measured at the others says nothing any more."""
_JUMP: Final = 2
"""Formula 5 is followed if it points to a level at least so far away."""
_BYTES_MAX: Final = 1 << 48


@dataclass(frozen=True, slots=True)
class BudgetRange:
    """The least and the most bytes of filters that are announced, and how many at first."""

    least: int = 1 << 15
    most: int = 1 << 22
    first: int = 1 << 18

    @property
    def levels(self) -> int:
        """Return how many levels there are."""
        return 1 + round(log(self.most / self.least) / log(_RATIO))

    def bytes_at(self, level: int) -> int:
        """Return the budget of a level."""
        return min(self.most, max(self.least, round(self.least * _RATIO**level)))

    def level_of(self, size: float) -> int:
        """Return the level that is nearest to a size."""
        if size <= self.least:
            return 0
        return min(self.levels - 1, round(log(size / self.least) / log(_RATIO)))

    def lowest_for(self, size: int) -> int:
        """Return the lowest level that has room for a size."""
        level = self.level_of(size)
        return level if self.bytes_at(level) >= size else min(self.levels - 1, level + 1)


@dataclass(frozen=True, slots=True)
class Measured:
    """What crossed links in one period because of one aggregate, in bytes."""

    size: int
    """The aggregate itself, which may be smaller than its budget."""
    sent: int
    """All announcements of it."""
    spill: int
    """Publications that arrived, and that no subscription behind this router wanted."""
    wanted: int = 0
    """Publications that arrived and were wanted."""
    is_exact: bool = False
    """Nothing was merged, so that a larger budget would change nothing."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one level: smoothed, and in which period it was measured last."""

    size: int
    is_exact: bool
    sent: float
    spill: float
    """Per wanted byte if anything was wanted, else in bytes."""
    at: int


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget, and what is known of the levels where it has been."""

    range: BudgetRange
    level: int
    home: int
    """The best level known; `level` differs from it for one period, when another one is tried."""
    period: int = 0
    """How many judgements there were."""
    since: int = 0
    """At which of them the levels beside home were tried last."""
    heard: tuple[Measured, ...] = ()
    """What was measured at this level since the last judgement."""
    is_fresh: bool = False
    """The level was moved to in this period, which does not count."""
    wanted: float = 0.0
    """Wanted bytes in a period, smoothed."""
    known: Mapping[int, _Known] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    @property
    def bytes(self) -> int:
        """Return how many bytes of filters may be announced."""
        return self.range.bytes_at(self.level)


def begin(range_: BudgetRange) -> Budget:
    """Return the budget of an aggregate of which nothing is known yet."""
    level = range_.level_of(range_.first)
    return Budget(range_, level, level)


def cost_of(budget: Budget, level: int) -> float | None:
    """Return the bytes that a period at a level is expected to cost; None if that is not known."""
    known = budget.known.get(level)
    if known is None or budget.period - known.at > _OLD:
        return None
    return _cost(known, budget.wanted)


def _cost(known: _Known, wanted: float) -> float:
    return known.sent + known.spill * (wanted or 1.0)


def observe(budget: Budget, measured: Measured) -> Budget:
    """Return the budget for the next period, after what one period has cost."""
    if budget.is_fresh:
        return replace(budget, is_fresh=False)
    if not (measured.sent or measured.spill or measured.wanted):
        return budget  # a silent period says nothing
    heard = (*budget.heard, measured)
    if len(heard) < _PERIODS:
        return replace(budget, heard=heard)
    sent, spill, wanted = (
        sum(min(max(one, 0), _BYTES_MAX) for one in some) // len(heard)
        for some in zip(*[(one.sent, one.spill, one.wanted) for one in heard], strict=True)
    )
    mean = replace(measured, size=max(measured.size, 0), sent=sent, spill=spill, wanted=wanted)
    judged = _judged(_learned(replace(budget, heard=()), mean))
    return replace(judged, is_fresh=judged.bytes != budget.bytes)


def _judged(learned: Budget) -> Budget:
    """Say where to be next."""
    here, at_home = cost_of(learned, learned.level), cost_of(learned, learned.home)
    if here is not None and (at_home is None or here < at_home * (1 - _CLEARLY)):
        learned = replace(learned, home=learned.level, since=learned.period)
        at_home = here
    if not at_home:
        return replace(learned, level=learned.home)  # nothing costs less than nothing
    if learned.level == learned.home and (target := _by_formula(learned)) is not None:
        return replace(learned, level=target)
    if (promising := _promising(learned, at_home)) is not None:
        return replace(learned, level=promising)
    if learned.level == learned.home and learned.period - learned.since >= _TRY_AFTER:
        beside = (learned.home - 1, learned.home + 1)
        costs = {one: cost for one in beside if (cost := cost_of(learned, one)) is not None}
        again = [one for one, cost in costs.items() if cost <= _WORTH_TRYING * at_home]
        oldest = min(again, key=lambda one: learned.known[one].at, default=learned.home)
        return replace(learned, level=oldest, since=learned.period)
    return replace(learned, level=learned.home)


def _learned(budget: Budget, measured: Measured) -> Budget:
    """Take a measurement into account, for all levels at which it would have been the same."""
    sent, spilled, wanted = measured.sent, measured.spill, measured.wanted
    period, usual = budget.period + 1, float(wanted)
    if budget.known:
        usual = budget.wanted + _NEWEST * (wanted - budget.wanted)
    lowest = min(budget.level, budget.range.lowest_for(measured.size))
    newest = _Known(measured.size, measured.is_exact, sent, spilled / (wanted or usual or 1.0), period)
    before, known = budget.known.get(lowest), dict(budget.known)
    if before is not None and period - before.at <= _OLD:
        was, now = _cost(before, usual), _cost(newest, usual)
        if was / _ELSEWHERE <= now <= was * _ELSEWHERE:
            newest = replace(
                newest,
                sent=before.sent + _NEWEST * (newest.sent - before.sent),
                spill=before.spill + _NEWEST * (newest.spill - before.spill),
            )
        else:
            known = {}
    known.update(dict.fromkeys(range(lowest, budget.level + 1), newest))
    home = lowest if budget.home == budget.level else budget.home
    return replace(
        budget, period=period, wanted=usual, known=MappingProxyType(known), level=lowest, home=home
    )


def _by_formula(budget: Budget) -> int | None:
    """Return the level that formula 5 points to, if it is far from here and was not measured.

    With spill = k / size and announcements = a * size, the cost is least at sqrt(k / a), which
    is size * sqrt(spill / announcements).
    """
    known = budget.known[budget.level]
    spill = known.spill * (budget.wanted or 1.0)
    if not known.sent or not spill:
        return None
    target = budget.range.level_of(known.size * sqrt(spill / known.sent))
    if abs(target - budget.level) < _JUMP or cost_of(budget, target) is not None:
        return None
    return target


def _promising(budget: Budget, at_home: float) -> int | None:
    """Return the next level below home, or else above, that is not known and may cost less.

    A smaller budget spills no less, so below a level whose spill alone costs as much as home
    there is nothing to find; nor above one whose announcements do, or that merges nothing.
    """
    for level in range(budget.home - 1, -1, -1):
        if cost_of(budget, level) is None:
            return level
        if budget.known[level].spill * (budget.wanted or 1.0) >= at_home:
            break
    for level in range(budget.home + 1, budget.range.levels):
        below = budget.known.get(level - 1)
        if below is not None and (below.is_exact or below.sent >= at_home):
            break
        if cost_of(budget, level) is None:
            return level
    return None


# ------------------------------------------------------------ the curve of spill
#
# An operator asks how the spill of merged filters depends on their size (`maia filter curve`), and so does
# the benchmark behind the figure. The paper expects about k / size (formula 5); here each point is measured:
# filters are merged within a budget, and the events that only the merged ones admit are counted.

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
