"""When does a broker's process look for garbage that refers to itself?

Left to itself, Python walks over everything that is alive again and again as
a broker fills: with 100,000 subscriptions each walk stops all traffic for a
second or two, and finds nothing, because subscriptions are freed as soon as
nothing refers to them. Only connections leave circles behind. So what has grown
old is set aside and not walked over any more, and a whole walk waits until
as many connections have ended as there are: at most half of the connections
in memory are dead ones, and the price of a walk is shared by as many ends
(docs/decisions/memory.md).
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

YOUNG: Final = 10_000
"""Objects that are made, less those that are freed, between two walks over the youngest: about 1 ms each."""
YOUNG_WALKS: Final = 10
NEVER: Final = 1_000_000
"""Python does not begin a whole walk by itself."""
ENDED_MIN: Final = 1000
_LOOK_S: Final = 1.0


class GarbageWatch:
    """Sets aside what has grown old, and orders whole walks."""

    __slots__ = ("_ended_before",)

    def __init__(self) -> None:
        """Set everything aside that the start of the process has made."""
        self._ended_before = 0
        gc.set_threshold(YOUNG, YOUNG_WALKS, NEVER)
        # Modules are no garbage: a walk over them finds nothing, and takes longer than the rest of the start.
        gc.freeze()
        gc.collect()  # of nothing: Python counts anew from here

    def look(self, *, connections: int, ended: int) -> None:
        """Do what is due, given how many connections there are and how many have ended so far."""
        if ended - self._ended_before >= max(ENDED_MIN, connections):
            self._ended_before = ended
            self._walk()
        elif gc.get_count()[2]:  # enough has been made for the middle generation to be walked over
            gc.collect(1)
            gc.freeze()

    def _walk(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()


async def _watch(counts: Callable[[], tuple[int, int]]) -> None:
    watch = GarbageWatch()
    while True:
        await asyncio.sleep(_LOOK_S)
        connections, ended = counts()
        watch.look(connections=connections, ended=ended)


@contextmanager
def watched(counts: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """Watch over this process while the body runs; `counts` says how many connections are, and were."""
    before, watching = gc.get_threshold(), asyncio.create_task(_watch(counts))
    try:
        yield
    finally:
        watching.cancel()
        gc.set_threshold(*before)
        gc.unfreeze()
