"""Whose right has to be rechecked next, and when? No step walks through all members."""

from __future__ import annotations

from heapq import heappop, heappush

from maia.credentials import Principal
from maia.events import Instant

__all__ = ["Looks"]


class Looks:
    """When each right is rechecked. A deadline that was set twice is checked twice."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        """Begin empty."""
        self._heap: list[tuple[int, bytes]] = []

    @property
    def next_at(self) -> Instant | None:
        """Return the next moment that was asked for."""
        return Instant(self._heap[0][0]) if self._heap else None

    def ask(self, at: Instant, principal: Principal) -> None:
        """Set the deadline of a member."""
        heappush(self._heap, (at, principal.key))

    def due(self, now: Instant) -> list[Principal]:
        """Return whose moment has come, each once."""
        found: dict[bytes, None] = {}
        while self._heap and self._heap[0][0] <= now:
            found[heappop(self._heap)[1]] = None
        return [Principal(key) for key in found]
