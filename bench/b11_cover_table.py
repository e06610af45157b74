"""What does a change of a broker's table cost, and how much does a merged table spill?

A hundred thousand subscriptions on five attributes. The peer is a pairwise
poset: it compares the newcomer with every filter, both ways. It gets its
filters prepared, as the table does, so that one comparison costs about a
microsecond; a second case lets it call `covers` on filters as written. Merging
is held against the truth, counted event by event in a small space.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np

from harness import Benchmark, Case, Figure, Race, Ratio, Side, at_least, at_most
from maia.events import AttributeUid
from maia.predicates.covering.cover_table import CoverTable
from maia.predicates.covering.covers import covers
from maia.predicates.covering.sides import Box, box_of, proved_to_cover
from maia.predicates.merging.measure import Span
from maia.predicates.merging.merge import Merged, merge
from maia.predicates.syntax import AllOf, Comparison, Operator, Predicate

TOPIC = AttributeUid("topic")
NUMBERS = tuple(AttributeUid(name) for name in ("speed", "lane", "price", "age"))
SPACE = tuple(AttributeUid(name) for name in ("east", "north", "hour"))
CELLS = 200

Answer = tuple[bool, tuple[str, ...]]
Edges = list[tuple[int, int]]


# ---------------------------------------------------------------- coming and going


def subscription(rng: random.Random) -> Predicate:
    """Return a topic and two to four ranges, most of them narrow and some wide."""
    parts: list[Predicate] = [Comparison(TOPIC, Operator.EQ, f"topic {rng.randrange(50)}")]
    for uid in rng.sample(NUMBERS, rng.randrange(2, 5)):
        low = rng.randrange(900)
        parts.append(Comparison(uid, Operator.GE, low))
        parts.append(Comparison(uid, Operator.LE, low + 1 + int(1000 * rng.random() ** 2)))
    return AllOf(tuple(parts))


@dataclass
class Subscriptions:
    """A table, the same filters for the peer, and newcomers that nobody has seen."""

    table: CoverTable
    written: dict[str, Predicate]
    prepared: dict[str, Box]
    maximal: set[str]
    rng: random.Random = field(repr=False)
    arrivals: int = 0

    def newcomers(self, count: int) -> list[tuple[str, Predicate]]:
        """Return fresh subscriptions."""
        self.arrivals += count
        return [(f"newcomer {self.arrivals - at}", subscription(self.rng)) for at in range(count)]


def subscriptions(count: int) -> Subscriptions:
    """Fill a table."""
    rng = random.Random(11)
    written = {f"filter {number}": subscription(rng) for number in range(count)}
    table = CoverTable()
    for name, one in written.items():
        table.insert(name, one)
    prepared = {name: box_of(one) for name, one in written.items()}
    return Subscriptions(table, written, prepared, set(table.maximal()), rng)


def by_table(some: Subscriptions, newcomer: tuple[str, Predicate]) -> Answer:
    """Let a subscription come and go; say whether it was covered, and which maximal ones it covered."""
    inserted = some.table.insert(*newcomer)
    some.table.remove(newcomer[0])
    return inserted.covered_by is not None, inserted.now_covers


def by_prepared_pairs(some: Subscriptions, newcomer: tuple[str, Predicate]) -> Answer:
    """Say the same, by comparing with every prepared filter in both directions."""
    new = box_of(newcomer[1])
    covering = [name for name, other in some.prepared.items() if proved_to_cover(wide=other, narrow=new)]
    covered = [name for name, other in some.prepared.items() if proved_to_cover(wide=new, narrow=other)]
    return _answer(some, covering, covered)


def by_pairs(some: Subscriptions, newcomer: tuple[str, Predicate]) -> Answer:
    """Say the same, by comparing with every filter as it was written."""
    new = newcomer[1]
    covering = [name for name, other in some.written.items() if covers(wide=other, narrow=new)]
    covered = [name for name, other in some.written.items() if covers(wide=new, narrow=other)]
    return _answer(some, covering, covered)


def _answer(some: Subscriptions, covering: list[str], covered: list[str]) -> Answer:
    # An equal filter that was there first covers the newcomer and is not displaced by it.
    return bool(covering), () if covering else tuple(name for name in covered if name in some.maximal)


def leave_and_return_by_table(some: Subscriptions, name: str) -> set[str]:
    """Take a maximal filter out and put it back; return what became maximal in between."""
    freed = set(some.table.remove(name).now_maximal)
    some.table.insert(name, some.written[name])
    return freed


def leave_by_prepared_pairs(some: Subscriptions, name: str) -> set[str]:
    """Return what becomes maximal without this filter, by comparing pairs."""
    gone = some.prepared[name]
    kept = {one: box for one, box in some.prepared.items() if one != name}
    candidates = [one for one, box in kept.items() if proved_to_cover(wide=gone, narrow=box)]
    return {one for one in candidates if not _is_covered(one, kept)}


def _is_covered(one: str, kept: dict[str, Box]) -> bool:
    return any(other != one and proved_to_cover(wide=box, narrow=kept[one]) for other, box in kept.items())


def table_cases(quick: bool) -> Iterator[Case]:
    """Race the table against pairs."""
    many = subscriptions(2_000 if quick else 100_000)
    for newcomer in many.newcomers(3):
        assert by_table(many, newcomer) == by_prepared_pairs(many, newcomer)
    yield Race(
        f"insert and remove among {len(many.table):,}, against prepared pairs",
        ours=Side(run=lambda newcomer: by_table(many, newcomer), prepare=many.newcomers),
        peer=Side(run=lambda newcomer: by_prepared_pairs(many, newcomer), prepare=many.newcomers, calls=1),
        ratio=Ratio.PEER_OVER_OURS,
        target=at_least(200),
    )
    yield _race_of_leaving(many)
    fewer = subscriptions(500 if quick else 10_000)
    for newcomer in fewer.newcomers(1):
        assert by_table(fewer, newcomer) == by_pairs(fewer, newcomer)
    yield Race(
        f"insert and remove among {len(fewer.table):,}, against pairs as written",
        ours=Side(run=lambda newcomer: by_table(fewer, newcomer), prepare=fewer.newcomers),
        peer=Side(run=lambda newcomer: by_pairs(fewer, newcomer), prepare=fewer.newcomers, calls=1),
        ratio=Ratio.PEER_OVER_OURS,
        target=at_least(200),
    )


def _race_of_leaving(many: Subscriptions) -> Race:
    """Race removals of maximal filters that cover a few others."""
    some = random.Random(12).sample(sorted(many.maximal), min(300, len(many.maximal)))
    chosen = [name for name in some if len(many.table.covered_under(name)) in range(1, 4)][:5]
    assert leave_and_return_by_table(many, chosen[0]) == leave_by_prepared_pairs(many, chosen[0])

    turns = cycle(chosen)

    def leavers(count: int) -> list[str]:
        return [next(turns) for _ in range(count)]

    return Race(
        f"a maximal filter leaves {len(many.table):,} and returns, against prepared pairs",
        ours=Side(run=lambda name: leave_and_return_by_table(many, name), prepare=leavers),
        peer=Side(run=lambda name: leave_by_prepared_pairs(many, name), prepare=leavers, calls=1),
        ratio=Ratio.PEER_OVER_OURS,
        target=at_least(200),
    )


# ---------------------------------------------------------------- merging


def clustered(count: int, rng: random.Random) -> list[Edges]:
    """Return boxes around common interests, 25 to each, every edge off by up to 5 % of its width."""
    centres = [_box(rng) for _ in range(max(1, count // 25))]
    return [[_shaken(low, high, rng) for low, high in rng.choice(centres)] for _ in range(count)]


def uniform(count: int, rng: random.Random) -> list[Edges]:
    """Return boxes that have nothing to do with each other."""
    return [_box(rng) for _ in range(count)]


def _box(rng: random.Random) -> Edges:
    lows = [rng.randrange(CELLS - 20) for _ in SPACE]
    return [(low, min(CELLS - 1, low + rng.randrange(10, 60))) for low in lows]


def _shaken(low: int, high: int, rng: random.Random) -> tuple[int, int]:
    off = (high - low) * 0.05
    low, high = low + round(rng.uniform(-off, off)), high + round(rng.uniform(-off, off))
    return max(0, low), min(CELLS - 1, max(low, high))


def _written(box: Edges) -> Predicate:
    sides = zip(SPACE, box, strict=True)
    return AllOf(
        tuple(
            Comparison(uid, operator, literal)
            for uid, (low, high) in sides
            for operator, literal in ((Operator.GE, low), (Operator.LE, high))
        )
    )


def _cells(filters: Sequence[Predicate]) -> np.ndarray:
    """Mark every event of the space that some filter admits."""
    admitted = np.zeros((CELLS,) * len(SPACE), np.bool_)
    for one in filters:
        box = box_of(one)
        assert box.exact
        assert box.edges is not None
        edges = [box.edges.get(uid) for uid in SPACE]
        admitted[tuple(slice(None) if edge is None else slice(edge.low, edge.high + 1) for edge in edges)] = (
            True
        )
    return admitted


def true_spill(merged: Merged, originals: Sequence[Predicate]) -> float:
    """Count the events that pass the merged filters, and those among them that no original admits."""
    passing, wanted = _cells(merged.filters), _cells(originals)
    assert not (wanted & ~passing).any(), "a merge that loses events is no merge"
    return float(1 - wanted.sum() / passing.sum())


def merge_cases(quick: bool) -> Iterator[Case]:
    """Merge to a tenth, and count what spills."""
    count = 400 if quick else 5_000
    domains = {uid: Span(0, CELLS - 1) for uid in SPACE}
    for name, boxes in (("clustered", clustered), ("uniform", uniform)):
        originals = [_written(box) for box in boxes(count, random.Random(13))]
        merged = merge(originals, size_max=count // 10, domains=domains)
        truth = true_spill(merged, originals)
        assert truth <= merged.spill_bound
        yield Figure(f"{name}: merged size", [len(merged.filters) / count], at_most(0.10))
        yield Figure(f"{name}: true spill", [truth], at_most(0.05))
        yield Figure(f"{name}: proven bound of the spill", [merged.spill_bound], at_most(0.05))


def cases(quick: bool) -> Iterator[Case]:
    """Yield the table's races, then the figures of merging."""
    yield from table_cases(quick)
    yield from merge_cases(quick)


BENCH = Benchmark(
    number=11,
    name="cover-table",
    about="a subscription comes and goes in a table of 100,000; filters merged to a tenth",
    cases=cases,
    stood="O(n) comparisons per insertion",
    peer_lacks="the pairwise peer keeps no index, and starts from the table's list of maximal filters",
)
