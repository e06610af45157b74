"""What has to be looked at next, and when?

Leases, rights and silent links end by themselves. Each asks for a moment
here; nobody walks through a hundred thousand subscriptions every second. A
deadline that was moved stays in the heap and is looked at once too often,
which costs less than finding it.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Final, Generic, TypeVar

from maia.events import Instant

__all__ = ["Deadlines"]

_Subject = TypeVar("_Subject")


class Deadlines(Generic[_Subject]):
    """Subjects by the moment at which they want to be looked at."""

    __slots__ = ("_heap", "_numbers", "_promised")

    def __init__(self) -> None:
        """Begin with nothing to look at."""
        self._heap: list[tuple[Instant, int, _Subject]] = []
        self._numbers: Final = count()  # so that subjects are never compared with each other
        self._promised: Instant | None = None

    def __len__(self) -> int:
        """Return how many moments are asked for, outdated ones included."""
        return len(self._heap)

    def ask(self, at: Instant, subject: _Subject) -> None:
        """Have `subject` looked at when `at` has come."""
        heapq.heappush(self._heap, (at, next(self._numbers), subject))

    def due(self, now: Instant) -> list[_Subject]:
        """Return what has come due. Whoever asks again while it is looked at waits for the next time."""
        found: list[_Subject] = []
        heap = self._heap
        if not heap or heap[0][0] > now:  # nearly always, and this is asked before every input
            return found
        if self._promised is not None and self._promised <= now:
            self._promised = None
        while heap and heap[0][0] <= now:
            found.append(heapq.heappop(heap)[2])
        return found

    def woken(self) -> None:
        """Take note that the runtime has woken the node, and may remember no other moment."""
        self._promised = None

    def to_promise(self) -> Instant | None:
        """Return the next moment if the runtime has not been asked for it yet."""
        if not self._heap:
            return None
        first = self._heap[0][0]
        if self._promised is not None and self._promised <= first:
            return None
        self._promised = first
        return first
