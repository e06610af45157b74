"""How well does an observer tell which of several blinded types it sees, with cover and without?

The target is about types that are blinded and covered; what the same observer
makes of types that are only blinded stands beside it, and what cover costs.
Rates, sizes and moments are drawn by chance, frames are those of real brokers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness import Benchmark, Case, Figure, at_most
from maia.types import Cover
from observer import ObservedRow, Seen, advantage, kinds_of_traffic, linking_advantage

EVERY_MS, SIZE = 500, 1024
TYPES, WINDOW_S = 8, 30
SEED = 35


def cases(quick: bool) -> Iterator[Case]:
    """Watch each type for so many windows, several times over; one value is one world."""
    worlds, windows = (1, 4) if quick else (3, 24)
    cover = Cover(EVERY_MS, SIZE)
    bare = [_watched(None, windows, world) for world in range(worlds)]
    covered = [_watched(cover, windows, world) for world in range(worlds)]
    traffic = kinds_of_traffic(TYPES, 1000 / EVERY_MS)
    named_bare = [advantage(traffic, world, WINDOW_S) for world in bare]
    named = [advantage(traffic, world, WINDOW_S) for world in covered]
    shown = 1 - 1 / TYPES
    yield Figure(
        f"which of {TYPES} types: advantage over guessing, blinded and covered",
        named,
        at_most(0.02),
        note=f"blinded alone {np.median(named_bare):.3f}, id shown {shown:.3f}",
    )
    linked_bare = [linking_advantage(world) for world in bare]
    linked = [linking_advantage(world) for world in covered]
    yield Figure(
        f"which of {TYPES} ids is the next one of a type: advantage over guessing, covered",
        linked,
        at_most(0.02),
        note=f"blinded alone {np.median(linked_bare):.3f}; all begin an epoch together",
    )
    sizes = [[size for watched in world for seen in watched for size in seen.sizes] for world in covered]
    seconds = TYPES * windows * WINDOW_S
    before, after = (_bytes(some[0]) / seconds for some in (bare, covered))
    yield Figure(
        f"bytes of a slot / the {SIZE} that the owner chose",
        [float(np.mean(one)) / SIZE for one in sizes],
        at_most(1.5),
        note=f"{after:,.0f} bytes a second for each type and link, and {before:,.0f} without cover",
    )


def _watched(cover: Cover | None, windows: int, world: int) -> list[list[Seen]]:
    random = np.random.default_rng((SEED, world))
    watched = []
    for traffic in kinds_of_traffic(TYPES, 1000 / EVERY_MS):
        row = ObservedRow(cover)
        row.watch(traffic, WINDOW_S, random)  # what happens at the beginning is no habit
        watched.append([row.watch(traffic, WINDOW_S, random) for _ in range(windows)])
    return watched


def _bytes(world: list[list[Seen]]) -> int:
    return sum(size for type_ in world for seen in type_ for size in seen.sizes)


BENCH = Benchmark(
    number=35,
    name="observer",
    about="an observer who knows real rates tells which blinded type a stream carries",
    cases=cases,
    stood="the id of a sealed type named it",
    peer_lacks="a type that is only blinded shows when and how much is published",
)
