"""How fast are events matched against millions of subscriptions over a thousand types?

A subscription names its type, so every type has an index of its own and an
event meets the subscriptions of its type alone. Five attributes as in #9. The
figures are events per second of processor time on one core, for frames of 256
events that come in turns from all types. For six million, a thousand indexes
with 6,000 subscriptions each stand in memory; twenty of them are built from
different subscriptions and the others are copies, to save the time of writing
down six million filters.
"""

from __future__ import annotations

import copy
import random
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from b09_matching import (
    Ranges,
    by_numpy_columns,
    frame_of_points,
    index_of,
    points,
    ranges,
)
from harness import Benchmark, Case, Figure, Race, Ratio, Side, at_least, at_most
from maia.events import Frame
from maia.routing.matching.index import MatchIndex

FABRET_PER_S = 600
PUBLISHED = 64


def subscriptions(count: int, seed: int) -> list[Ranges]:
    """Return the subscriptions of one type."""
    rng = random.Random(seed)
    return [ranges(rng) for _ in range(count)]


def indexes(types: int, each: int, *, different: int) -> list[MatchIndex[int]]:
    """Return an index per type; after `different` ones, copies that share no memory with them."""
    built = [index_of(subscriptions(each, seed)) for seed in range(different)]
    return built + [copy.deepcopy(built[at % different]) for at in range(types - different)]


def publications(types: int, rows: int) -> list[tuple[int, Frame]]:
    """Return frames of types that are drawn at random."""
    rng = random.Random(10)
    return [(rng.randrange(types), frame_of_points(points(rows, 1000 + at))) for at in range(PUBLISHED)]


def rates(known: Sequence[MatchIndex[int]], rows: int) -> list[float]:
    """Return events per second of processor time, over five runs."""
    frames = publications(len(known), rows)
    found = []
    for _ in range(5):
        started = time.process_time()
        for event_type, frame in frames:
            known[event_type].match_frame(frame)
        found.append(rows * len(frames) / (time.process_time() - started))
    return found


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def _figures(types: int, each: int, *, different: int) -> Iterator[Case]:
    before = _resident()
    known = indexes(types, each, different=different)
    memory = (_resident() - before) / (types * each)
    among = f"{types * each:,} subscriptions over {types:,} types"
    whole = rates(known, 256)
    yield Figure(f"{among}: events per second", whole, at_least(50_000))
    yield Figure(
        f"{among}: times Fabret's 600 a second", [rate / FABRET_PER_S for rate in whole], at_least(80)
    )
    yield Figure(f"{among}: events per second, one event to a frame", rates(known, 1), at_least(50_000))
    if different == types:  # copies share their numbers, and would look smaller than they are
        yield Figure(f"{among}: resident bytes per subscription", [memory], at_most(1024))


def _race(each: int) -> Race:
    wanted = subscriptions(each, 0)
    index, match = index_of(wanted), by_numpy_columns(wanted)
    frame, some = frame_of_points(points(256, 5)), points(256, 5)
    expected = index.match_frame(frame)
    assert all(
        set(match(point)) == {n for n, rows in expected.items() if at in rows}
        for at, point in enumerate(some)
    )
    return Race(
        f"one type with {each:,} subscriptions, against NumPy by column",
        ours=Side(run=lambda: index.match_frame(frame), operations=256),
        peer=Side(run=lambda: [match(point) for point in some], operations=256),
        ratio=Ratio.PEER_OVER_OURS,
        target=at_least(10),
    )


def cases(quick: bool) -> Iterator[Case]:
    """Yield the figures of one million and of six million, and a race within one type."""
    if quick:
        yield from _figures(10, 100, different=5)
        yield _race(200)
        return
    yield from _figures(1_000, 1_000, different=1_000)
    yield from _figures(1_000, 6_000, different=20)
    yield _race(6_000)


BENCH = Benchmark(
    number=10,
    name="matching-by-type",
    about="one and six million subscriptions over 1,000 types, one core",
    cases=cases,
    stood="600 events a second at 6 million (Fabret and others, 2001)",
    peer_lacks="the figure of 2001 is for one event type, on the hardware of its day",
)
