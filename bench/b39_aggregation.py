"""What do announcements and spill cost together, if the budget of an aggregate tunes itself?

Filters of offices lie in clusters, as those of districts do. In each period the
aggregate is announced once, as the Gismo paper has it, and events arrive: those that
no office wanted are spill. Compared are the bytes of both with a budget that moves by
what was measured, with the budget of each level kept fixed, without merging, and with
all filters merged into one. Nothing depends on a clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from harness import Benchmark, Case, Figure, at_most
from maia.events import AttributeUid, Event, Kind, frame_of
from maia.predicates import AllOf, Comparison, Operator, Predicate
from maia.routing.aggregation.aggregate import aggregate
from maia.routing.aggregation.budget import BudgetRange, Measured, begin, observe, rows_admitted

X, Y = AttributeUid("x"), AttributeUid("y")
EVENT_BYTES = 64
RANGE = BudgetRange(least=128, most=1 << 17, first=1 << 14)


def between(uid: AttributeUid, low: int, high: int) -> tuple[Predicate, Predicate]:
    """Return the constraints of a range."""
    return Comparison(uid, Operator.GE, low), Comparison(uid, Operator.LE, high)


def offices(count: int, chance: Random) -> list[Predicate]:
    """Return filters on two attributes, in twelve clusters."""
    centres = [(chance.randrange(1000), chance.randrange(1000)) for _ in range(12)]
    found: list[Predicate] = []
    for _ in range(count):
        x, y = chance.choice(centres)
        x, y = int(chance.gauss(x, 25)), int(chance.gauss(y, 25))
        wide, high = chance.randint(4, 30), chance.randint(4, 30)
        found.append(AllOf((*between(X, x, x + wide), *between(Y, y, y + high))))
    return found


def sightings(count: int, chance: Random) -> list[Event]:
    """Return events anywhere."""
    return [{X: chance.randrange(1000), Y: chance.randrange(1000)} for _ in range(count)]


class Costs:
    """What a period costs at each budget, in bytes."""

    def __init__(self, filters: Sequence[Predicate], events: Sequence[Event], events_per_period: int) -> None:
        self._filters, self._frame = filters, frame_of(events, {X: Kind.INT, Y: Kind.INT})
        self._wanted = rows_admitted(filters, self._frame)
        self._scale = EVENT_BYTES * events_per_period / len(events)
        self._known: dict[int, Measured] = {}

    def at(self, budget: int) -> Measured:
        """Return what a period costs within a budget."""
        if budget not in self._known:
            found = aggregate(self._filters, budget)
            spilled = rows_admitted(found.filters, self._frame) - self._wanted
            spill, wanted = round(len(spilled) * self._scale), round(len(self._wanted) * self._scale)
            self._known[budget] = Measured(found.size, found.size, spill, wanted, found.is_exact)
        return self._known[budget]

    def cost(self, budget: int) -> int:
        """Return announcements and spill together."""
        return self.at(budget).sent + self.at(budget).spill


def cases(quick: bool) -> Iterator[Case]:
    """Yield the settled cost with a tuned budget over that of others."""
    count, rows, periods = (60, 400, 90) if quick else (400, 4000, 240)
    for per_period in (500, 20_000):
        chance = Random(f"aggregation/{per_period}")
        costs = Costs(offices(count, chance), sightings(rows, chance), per_period)
        budget, path = begin(RANGE), []
        for _ in range(periods):
            path.append(budget.bytes)
            budget = observe(budget, costs.at(budget.bytes))
        settled = path[periods // 2 :]
        tuned = sum(map(costs.cost, settled)) / len(settled)
        levels = {costs.cost(RANGE.bytes_at(level)) for level in range(RANGE.levels)}
        peers = {
            "without merging": (costs.cost(1 << 30), at_most(1.0)),
            "with all merged into one": (costs.cost(1), at_most(1.0)),
            "the best fixed budget": (min(levels), at_most(1.1)),
        }
        for peer, (cost, target) in peers.items():
            yield Figure(
                f"{per_period:,} events in a period: bytes of announcements and spill, over {peer}",
                [tuned / cost],
                target,
                note=f"tuned {tuned:,.0f} bytes, {peer} {cost:,}",
            )


BENCH = Benchmark(
    number=39,
    name="aggregation",
    about="announcements and spill of merged filters, with a budget that tunes itself",
    cases=cases,
    stood="merging was a function that no broker called",
    peer_lacks="a fixed budget has to be known before, and is wrong when traffic changes",
    floor="trying other budgets now and then costs what they cost",
)
