"""What does a client have to look at next, and when?"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final

from maia.events import Instant

SESSION: Final = 0
"""What the session itself is called here; entries are called by their references."""
RENEWAL: Final = -1
"""What the renewal of all entries is called here."""
IDENTITY: Final = -2
"""What the expiry of the broker's identity statement is called here."""
ENDS: Final = -3
"""What the look at which of the client's certificates end soon is called here."""


class Alarms:
    """Moments by whoever asked for them. Each has one moment at a time; an earlier wish is forgotten."""

    __slots__ = ("_heap", "_promised", "_wanted")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._wanted: dict[int, int] = {}
        self._promised: int | None = None

    def ask(self, whose: int, at: Instant) -> None:
        """Yield `whose` when `at` has come, and not before."""
        self._wanted[whose] = at
        heapq.heappush(self._heap, (at, whose))

    def forget(self, whose: int) -> None:
        """Yield it no more."""
        self._wanted.pop(whose, None)

    def due(self, now: Instant) -> Iterator[int]:
        """Yield whose moment has come."""
        if self._promised is not None and self._promised <= now:
            self._promised = None
        while self._heap and self._heap[0][0] <= now:
            at, whose = heapq.heappop(self._heap)
            if self._wanted.get(whose) == at:
                del self._wanted[whose]
                yield whose

    def is_quiet(self, now: Instant) -> bool:
        """Return whether no moment has come, and the runtime has been asked for the next one."""
        return self._promised is not None and now < self._promised <= (self._heap or [(0, 0)])[0][0]

    def woken(self) -> None:
        """Take note that the runtime has woken the client, and may remember no other moment."""
        self._promised = None

    def to_promise(self) -> Instant | None:
        """Return the next moment, unless the runtime has been asked for it already."""
        if not self._heap or (self._promised is not None and self._promised <= self._heap[0][0]):
            return None
        self._promised = self._heap[0][0]
        return Instant(self._promised)
