"""Whose right has to be looked at next, and when? Nobody walks through all members every second."""

from __future__ import annotations

from heapq import heappop, heappush

from maia.credentials import Principal
from maia.events import Instant

__all__ = ["Looks"]


class Looks:
    """Whose right has to be looked at when. A moment that was asked for twice is looked at twice."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        """Begin with nobody."""
        self._heap: list[tuple[int, bytes]] = []

    @property
    def next_at(self) -> Instant | None:
        """Return the next moment that was asked for."""
        return Instant(self._heap[0][0]) if self._heap else None

    def ask(self, at: Instant, principal: Principal) -> None:
        """Have somebody looked at when a moment has come."""
        heappush(self._heap, (at, principal.key))

    def due(self, now: Instant) -> list[Principal]:
        """Return whose moment has come, each once."""
        found: dict[bytes, None] = {}
        while self._heap and self._heap[0][0] <= now:
            found[heappop(self._heap)[1]] = None
        return [Principal(key) for key in found]
