"""How fast does an event find its subscriptions among a hundred thousand?

Five attributes, values from 0 to 999, one core. A subscription asks for a
range of each attribute, most of them between 1 % and 20 % wide; about one in a
hundred thousand subscriptions matches an event. The peers know the ranges as
bare numbers: a Python loop over tuples that stops at the first range that
fails, NumPy comparing every range of every subscription (stored by row, then
by column, then with a list that shrinks from attribute to attribute), and
PostgreSQL with a GiST index over five range columns. Our side starts from
frames of 256 events as they come off the wire, checks the kind of every
value, and returns the rows of every subscription.
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import numpy as np
import psycopg

from harness import Benchmark, Case, Figure, Race, Ratio, Side, at_least, at_most
from maia.events import AttributeUid, Column, Frame, Kind
from maia.predicates.syntax import AllOf, Comparison, Operator, Predicate
from maia.routing.matching.index import MatchIndex

UIDS = tuple(AttributeUid(name) for name in ("speed", "lane", "price", "age", "weight"))
VALUES = 1000
ROWS = 256
FRAMES = 16

Ranges = list[tuple[int, int]]
Point = tuple[int, ...]


def ranges(rng: random.Random, *, widest: float = 0.2) -> Ranges:
    """Return one range per attribute, both ends included."""
    widths = [int(VALUES * rng.uniform(0.01, widest)) for _ in UIDS]
    lows = [rng.randrange(VALUES - width) for width in widths]
    return [(low, low + width) for low, width in zip(lows, widths, strict=True)]


def written(wanted: Ranges) -> Predicate:
    """Return the subscription as a filter."""
    parts = [
        Comparison(uid, operator, end)
        for uid, ends in zip(UIDS, wanted, strict=True)
        for operator, end in zip((Operator.GE, Operator.LE), ends, strict=True)
    ]
    return AllOf(tuple(parts))


def index_of(wanted: Sequence[Ranges]) -> MatchIndex[int]:
    """Fill an index and let it build its bitmaps."""
    index: MatchIndex[int] = MatchIndex()
    for number, one in enumerate(wanted):
        index.add(number, written(one))
    index.match({})
    return index


def points(count: int, seed: int) -> list[Point]:
    """Return events as bare numbers."""
    rng = random.Random(seed)
    return [tuple(rng.randrange(VALUES) for _ in UIDS) for _ in range(count)]


def frame_of_points(some: Sequence[Point]) -> Frame:
    """Return events as a frame."""
    columns = zip(UIDS, zip(*some, strict=True), strict=True)
    return Frame(len(some), {uid: Column(Kind.INT, values) for uid, values in columns})


# ---------------------------------------------------------------- the peers


def by_python(wanted: Sequence[Ranges]) -> Callable[[Point], list[int]]:
    """Match with a loop that is as tight as Python allows."""
    flat = [(number, *(end for ends in one for end in ends)) for number, one in enumerate(wanted)]

    def match(point: Point) -> list[int]:
        v, w, x, y, z = point
        return [
            n
            for n, a, b, c, d, e, f, g, h, i, j in flat
            if a <= v <= b and c <= w <= d and e <= x <= f and g <= y <= h and i <= z <= j
        ]

    return match


def by_numpy_rows(wanted: Sequence[Ranges]) -> Callable[[Point], list[int]]:
    """Match by comparing two matrices with a row per subscription."""
    ends = np.array(wanted)
    lows, highs = np.ascontiguousarray(ends[:, :, 0]), np.ascontiguousarray(ends[:, :, 1])

    def match(point: Point) -> list[int]:
        asked = np.array(point)
        return np.flatnonzero(((lows <= asked) & (asked <= highs)).all(axis=1)).tolist()

    return match


def by_numpy_columns(wanted: Sequence[Ranges]) -> Callable[[Point], list[int]]:
    """Match by comparing ten columns, of the narrowest numbers that hold the values."""
    ends = np.array(wanted, np.int16)
    columns = [(ends[:, at, 0].copy(), ends[:, at, 1].copy()) for at in range(len(UIDS))]

    def match(point: Point) -> list[int]:
        found = np.ones(len(wanted), np.bool_)
        for (lows, highs), value in zip(columns, map(np.int16, point), strict=True):
            found &= lows <= value
            found &= value <= highs
        return np.flatnonzero(found).tolist()

    return match


def by_numpy_narrowing(wanted: Sequence[Ranges]) -> Callable[[Point], list[int]]:
    """Match attribute by attribute, each among those that are left."""
    ends = np.array(wanted, np.int16)
    columns = [(ends[:, at, 0].copy(), ends[:, at, 1].copy()) for at in range(len(UIDS))]

    def match(point: Point) -> list[int]:
        (lows, highs), first = columns[0], np.int16(point[0])
        left = np.flatnonzero((lows <= first) & (first <= highs))
        for (lows, highs), value in zip(columns[1:], map(np.int16, point[1:]), strict=True):
            left = left[(lows[left] <= value) & (value <= highs[left])]
        return left.tolist()

    return match


@contextmanager
def by_postgres(wanted: Sequence[Ranges]) -> Iterator[Callable[[Point], list[int]]]:
    """Match with `@>` on five range columns under one GiST index, prepared, on one core."""
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
    from support.postgres import postgres_binaries, running_server

    with (
        running_server(postgres_binaries()) as address,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        names = [f"a{at}" for at in range(len(UIDS))]
        connection.execute(f"create table wanted (n int, {', '.join(f'{name} int4range' for name in names)})")
        copy = f"copy wanted (n, {', '.join(names)}) from stdin"
        with connection.cursor().copy(copy) as rows:
            for number, one in enumerate(wanted):
                rows.write_row((number, *(f"[{low},{high}]" for low, high in one)))
        connection.execute(f"create index on wanted using gist ({', '.join(names)})")
        connection.execute("vacuum analyze wanted")
        connection.execute("set max_parallel_workers_per_gather = 0")
        asked = f"select n from wanted where {' and '.join(f'{name} @> %s::int4' for name in names)}"  # noqa: S608 - names from above

        def match(point: Point) -> list[int]:
            return [number for (number,) in connection.execute(asked, point, prepare=True).fetchall()]

        yield match


# ---------------------------------------------------------------- cases


def _ours(index: MatchIndex[int], seed: int) -> Side:
    some = points(ROWS * FRAMES, seed)
    frames = [frame_of_points(some[at : at + ROWS]) for at in range(0, len(some), ROWS)]
    turns = cycle(frames)
    return Side(run=lambda: index.match_frame(next(turns)), operations=ROWS)


def _peer(match: Callable[[Point], list[int]], seed: int, *, calls: int) -> Side:
    turns = cycle(points(200, seed))
    return Side(run=match, prepare=lambda count: [next(turns) for _ in range(count)], calls=calls)


def _agree(index: MatchIndex[int], match: Callable[[Point], list[int]], count: int = 5) -> None:
    for point in points(count, 77):
        assert index.match(dict(zip(UIDS, point, strict=True))) == set(match(point))


def _race(
    case: str, index: MatchIndex[int], match: Callable[[Point], list[int]], target: float, *, calls: int
) -> Race:
    _agree(index, match)
    return Race(
        case,
        ours=_ours(index, 21),
        peer=_peer(match, 22, calls=calls),
        ratio=Ratio.PEER_OVER_OURS,
        target=at_least(target),
    )


def bytes_per_subscription(wanted: Sequence[Ranges]) -> float:
    """Return what the index keeps for a subscription, once the filters as written are gone."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    index = index_of(wanted)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(index)


def events_per_second(index: MatchIndex[int]) -> list[float]:
    """Return processor time turned into a rate, over five runs."""
    side = _ours(index, 23)
    side.run()
    rates = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(FRAMES):
            side.run()
        rates.append(FRAMES * ROWS / (time.process_time() - started))
    return rates


def cases(quick: bool) -> Iterator[Case]:
    """Race the index against each peer; then rates and memory."""
    rng = random.Random(9)
    wanted = [ranges(rng) for _ in range(2_000 if quick else 100_000)]
    index = index_of(wanted)
    among = f"{len(index):,} subscriptions"
    yield _race(f"{among}, against a Python loop", index, by_python(wanted), 2_000, calls=2)
    yield _race(f"{among}, against NumPy by row", index, by_numpy_rows(wanted), 300, calls=5)
    yield _race(f"{among}, against NumPy by column", index, by_numpy_columns(wanted), 300, calls=20)
    yield _race(f"{among}, against NumPy narrowing", index, by_numpy_narrowing(wanted), 300, calls=20)
    with by_postgres(wanted) as match:
        yield _race(f"{among}, against PostgreSQL GiST", index, match, 100, calls=20)
    yield Figure(f"{among}: events per second and core", events_per_second(index), at_least(100_000))
    wide_ranges = [ranges(rng, widest=0.5) for _ in range(len(wanted))]
    wide = index_of(wide_ranges)
    yield _race(
        f"{among} up to 50 % wide, against NumPy by column",
        wide,
        by_numpy_columns(wide_ranges),
        300,
        calls=10,
    )
    yield Figure("bytes per subscription", [bytes_per_subscription(wanted[:20_000])], at_most(1024))


BENCH = Benchmark(
    number=9,
    name="matching",
    about="an event finds its subscriptions among 100,000 on five attributes, one core",
    cases=cases,
    stood="51 and 296 events a second in Python and NumPy",
    peer_lacks="the peers know ranges of small integers alone: no kinds, no missing values, no texts",
)
