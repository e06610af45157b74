"""What has not been renewed in time?

The routing book asks for its neighbours, the replicas for their senders. A
heap knows the next moment at which anything can end, so there is no timer
per entry and no walk over all of them. A lease that was moved stays in
the heap until its old moment has come, or until the outdated outnumber the
rest.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from itertools import count
from typing import Final, Generic, TypeVar

from maia.events import Instant

__all__ = ["Leases"]

_Subject = TypeVar("_Subject", bound=Hashable)

_OUTDATED_MIN: Final = 64


class Leases(Generic[_Subject]):
    """Subjects by the moment at which they end unless they are renewed."""

    __slots__ = ("_heap", "_numbers", "_until")

    def __init__(self) -> None:
        """Begin without leases."""
        self._until: dict[_Subject, Instant] = {}
        self._heap: list[tuple[int, int, _Subject]] = []
        self._numbers: Final = count()  # so that subjects are never compared with each other

    def __len__(self) -> int:
        """Return the number of leases."""
        return len(self._until)

    def __contains__(self, subject: object) -> bool:
        """Say whether there is a lease for the subject."""
        return subject in self._until

    def grant(self, subject: _Subject, until: Instant) -> None:
        """Let a subject last until a moment, whatever was granted before."""
        if self._until.get(subject) == until:
            return
        self._until[subject] = until
        heapq.heappush(self._heap, (until, next(self._numbers), subject))
        self._forget_outdated()

    def forgive(self, until: Instant) -> None:
        """Let every lease last until `until` at least."""
        for subject, ends in self._until.items():
            if ends < until:
                self._until[subject] = until
        self._heap = [(ends, next(self._numbers), subject) for subject, ends in self._until.items()]
        heapq.heapify(self._heap)

    def drop(self, subject: _Subject) -> None:
        """Forget a lease, if there is one."""
        self._until.pop(subject, None)
        self._forget_outdated()

    def expired(self, now: Instant) -> list[_Subject]:
        """Return and forget the subjects whose last moment has passed, earliest first."""
        ended: list[_Subject] = []
        while self._heap and self._heap[0][0] < now:
            until, _, subject = heapq.heappop(self._heap)
            if self._until.get(subject) == until:
                del self._until[subject]
                ended.append(subject)
        return ended

    def next_end(self) -> Instant | None:
        """Return the last moment of the lease that ends first."""
        while self._heap and self._until.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return Instant(self._heap[0][0]) if self._heap else None

    def _forget_outdated(self) -> None:
        if len(self._heap) <= 2 * len(self._until) + _OUTDATED_MIN:
            return
        self._heap = [(until, next(self._numbers), subject) for subject, until in self._until.items()]
        heapq.heapify(self._heap)
